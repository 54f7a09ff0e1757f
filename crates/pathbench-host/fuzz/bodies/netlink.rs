//! Replies of the kernel as any bytes.

use pathbench_host::connections::LiveConnection;
use pathbench_host::firewall::parse_counter;
use pathbench_host::mptcp::{parse_endpoint, parse_event, parse_limits};
use pathbench_host::netlink::message::{Answers, Attributes, Encoder};
use pathbench_host::netlink::{
    CachedMtu, FibEntry, GenericFamily, InterfaceAddress, LinkStatistics, NetworkInterface, Route,
    RoutingRule,
};
use pathbench_host::qdisc::QdiscStatistics;
use pathbench_host::wifi::{WifiInterface, parse_station};

/// A datagram of the kernel as bytes, and the same bytes as attributes in front of which each header has its length: every
/// reader ends without a panic, and the messages of a datagram are finite.
pub(crate) fn run(bytes: &[u8]) {
    let mut messages = 0;
    for answer in Answers(bytes) {
        messages += 1;
        assert!(messages <= bytes.len(), "more messages than bytes");
        if let Some(answer) = answer {
            read(answer.payload);
        }
    }
    read(bytes);
    let Some((&header, rest)) = bytes.split_first() else { return };
    let mut encoder = Encoder::with_header(&vec![header; usize::from(header % 80)]);
    for (index, value) in rest.chunks(1 + usize::from(header % 37)).enumerate() {
        let kind = u16::from(value[0] % 64) | if index % 5 == 4 { 1 << 15 } else { 0 };
        encoder = encoder.bytes(kind, value);
    }
    read(&encoder.into_bytes());
}

fn read(payload: &[u8]) {
    let _ = FibEntry::parse(payload);
    let _ = Route::parse(payload);
    let _ = CachedMtu::parse(payload);
    let _ = RoutingRule::parse(payload);
    let _ = NetworkInterface::parse(payload);
    let _ = InterfaceAddress::parse(payload);
    let _ = LinkStatistics::parse(payload);
    let _ = GenericFamily::parse(payload);
    let _ = QdiscStatistics::parse(payload);
    let _ = (parse_endpoint(payload), parse_limits(payload), parse_event(payload));
    let _ = LiveConnection::parse(payload);
    let _ = (WifiInterface::parse(payload), parse_station(payload), parse_counter(payload));
    assert!(Attributes::new(payload).iter().count() <= payload.len() / 4, "attributes without a header");
}
