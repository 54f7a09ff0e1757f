//! Whatever comes to a responder or a prober of networks: no panic, no answer longer than its question, none but to a
//! hello without a cookie, and no round trip for what was not sent.

use pathbench_record::time::Timestamp;
use pathbench_traffic::probe::{MAGIC, ProbeKind, ProbeMessage, ProbeResponder, Prober};
use pathbench_traffic::server::Access;
use std::time::Duration;

pub(crate) fn run(bytes: &[u8]) {
    let now = Timestamp::from_nanos(1_000_000_000);
    let mut responder = ProbeResponder::new(Access::Open, 2, now);
    let mut prober = Prober::new(now, Duration::from_millis(100), 1, None);
    let _ = prober.probe(now);
    for piece in bytes.chunks(64) {
        let datagram = [&MAGIC[..], piece].concat();
        for datagram in [piece, &datagram] {
            if let Some(answer) = responder.answer(now, ([192, 0, 2, 1], 9).into(), datagram) {
                assert!(answer.len() <= datagram.len(), "amplified");
                assert_eq!(
                    ProbeMessage::decode(datagram).map(|message| message.kind),
                    Some(ProbeKind::Hello)
                );
            }
            prober.received(now + Duration::from_millis(5), datagram);
        }
    }
    prober.finish();
    assert_eq!(prober.take_settled().len(), 1);
}
