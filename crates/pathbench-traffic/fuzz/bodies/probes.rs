//! Any datagrams to a responder or a prober: no panic, no answer longer than its question, none but to a hello without a
//! cookie, and no round trip for what was not sent.

use pathbench_record::time::Timestamp;
use pathbench_traffic::datagram::{DatagramClient as _, Kind, MAGIC, Message, Responder};
use pathbench_traffic::probe::Prober;
use pathbench_traffic::server::Access;
use std::time::Duration;

pub(crate) fn run(bytes: &[u8]) {
    let now = Timestamp::from_nanos(1_000_000_000);
    let mut responder = Responder::new(Access::Open, 2, now);
    let mut prober = Prober::new(now, Duration::from_millis(100), 1, None);
    let _ = prober.poll(now);
    for piece in bytes.chunks(64) {
        let datagram = [&MAGIC[..], piece].concat();
        for datagram in [piece, &datagram] {
            if let Some(answer) = responder.answer(now, ([192, 0, 2, 1], 9).into(), datagram, || None) {
                assert!(answer.len() <= datagram.len(), "amplified");
                assert_eq!(Message::decode(datagram).map(|message| message.kind), Some(Kind::Hello));
            }
            prober.received(now + Duration::from_millis(5), datagram);
        }
    }
    prober.finish();
    assert_eq!(prober.take_settled().len(), 1);
}
