//! Any datagrams to a search for a path MTU, to its watch, or to the responder: no panic, no size without its answer, and
//! no packet of a size for an address without a cookie.

use pathbench_record::time::Timestamp;
use pathbench_traffic::datagram::{DatagramClient as _, Family, Kind, MAGIC, Message, Responder, Unsent};
use pathbench_traffic::path_mtu::{Finder, Introduction, MtuBounds, Watch, WatchPace};
use pathbench_traffic::server::Access;
use std::time::Duration;

pub(crate) fn run(bytes: &[u8]) {
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let who = Introduction { session: 1, token: None, family: Family::V4 };
    let client = ([192, 0, 2, 1], 9).into();
    let mut responder = Responder::new(Access::Open, 2, now);
    let mut finder = Finder::new(now, who.clone(), MtuBounds::default());
    let mut watch = Watch::new(now, who, MtuBounds::default(), WatchPace::default());
    let mut largest = 0;
    for piece in bytes.chunks(36) {
        let (choice, rest) = piece.split_first().map_or((0, piece), |(first, rest)| (*first, rest));
        now = now + Duration::from_millis(u64::from(choice));
        let datagram = [&MAGIC[..], rest].concat();
        let kind = Message::decode(&datagram).map(|message| message.kind);
        let answer = responder.answer(now, client, &datagram, || None);
        assert!(kind == Some(Kind::Hello) || answer.is_none());
        finder.received(now, &datagram);
        watch.received(now, &datagram);
        finder.icmp(now, client_address(), u32::from(choice) * 40, rest);
        watch.icmp(now, client_address(), u32::from(choice) * 40, rest);
        for _ in 0..16 {
            let Some(outgoing) = finder.poll(now) else { break };
            // By the input: lost, too long, no room, or answered.
            match choice % 4 {
                0 => finder.not_sent(now, outgoing.sequence, Unsent::TooLong { limit_bytes: Some(1500) }),
                1 => finder.not_sent(now, outgoing.sequence, Unsent::Full),
                2 => {}
                _ => {
                    if let Some(answer) = responder.answer(now, client, &outgoing.payload, || None) {
                        largest = largest.max(answer.len()).max(outgoing.payload.len());
                        finder.received(now, &answer);
                    }
                }
            }
        }
        let _ = watch.poll(now);
        let _ = (finder.due(), watch.due(), watch.take_event());
    }
    let (upload, download) = finder.result(now);
    for found in [upload.found, download.found].into_iter().flatten() {
        assert!(found.mtu_bytes as usize <= largest + 28, "a size that nothing had");
    }
}

fn client_address() -> std::net::IpAddr {
    std::net::Ipv4Addr::new(203, 0, 113, 1).into()
}
