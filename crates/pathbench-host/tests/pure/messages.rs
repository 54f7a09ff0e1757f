//! Encoding and decoding of netlink messages.

use pathbench_host::connections::LiveConnection;
use pathbench_host::firewall::parse_counter;
use pathbench_host::mptcp::{parse_endpoint, parse_limits};
use pathbench_host::netlink::message::{
    Answers, Attributes, Encoder, NetlinkChange, NetlinkMessage, batch, put,
};
use pathbench_host::netlink::{
    CachedMtu, GenericFamily, InterfaceAddress, LinkStatistics, NetworkInterface, Route, RoutingRule,
    valid_name,
};
use pathbench_host::qdisc::QdiscStatistics;
use pathbench_host::wifi::{WifiInterface, parse_station};
use pathbench_record::network::IpNet;
use proptest::prelude::*;
use std::net::IpAddr;

#[test]
fn reads_what_was_written() {
    let bytes = Encoder::default()
        .u32(1, 7)
        .nested(2, Encoder::default().text(3, "eth0"))
        .address(4, "fd00::1".parse().unwrap())
        .into_bytes();
    let attributes = Attributes::new(&bytes);
    assert_eq!(attributes.u32(1), Some(7));
    assert_eq!(attributes.nested(2).unwrap().text(3).as_deref(), Some("eth0"));
    assert_eq!(attributes.address(4), Some("fd00::1".parse().unwrap()));
    assert_eq!(attributes.u32(9), None);
}

#[test]
fn a_value_that_is_too_short_reads_as_absent() {
    let bytes = Encoder::default().bytes(1, &[1, 2]).into_bytes();
    assert_eq!(Attributes::new(&bytes).u32(1), None);
    assert_eq!(Attributes::new(&bytes).address(1), None);
    assert!(Attributes::new(&bytes).u16(1).is_some());
}

proptest! {
    #[test]
    fn never_panics(bytes: Vec<u8>, kind: u16) {
        let attributes = Attributes::new(&bytes);
        let _ = (attributes.u8(kind), attributes.u16(kind), attributes.u32(kind));
        let _ = (attributes.text(kind), attributes.address(kind), attributes.iter().count());
    }
}

#[test]
fn a_family_has_a_number_and_groups() {
    let group = |name: &str, id| {
        Encoder::default()
            .text(libc::CTRL_ATTR_MCAST_GRP_NAME as u16, name)
            .u32(libc::CTRL_ATTR_MCAST_GRP_ID as u16, id)
    };
    let groups =
        Encoder::default().nested(1, group("mptcp_pm_cmds", 8)).nested(2, group("mptcp_pm_events", 9));
    let payload = Encoder::with_header(&[1, 2, 0, 0])
        .u16(libc::CTRL_ATTR_FAMILY_ID as u16, 33)
        .nested(libc::CTRL_ATTR_MCAST_GROUPS as u16, groups)
        .into_bytes();
    let groups = vec![("mptcp_pm_cmds".to_owned(), 8), ("mptcp_pm_events".to_owned(), 9)];
    assert_eq!(GenericFamily::parse(&payload), Some(GenericFamily { id: 33, groups }));
}

#[test]
fn invalid_interface_names_are_rejected() {
    for name in ["eth", "a", "fifteen-bytes-x", "wlan.a"] {
        assert!(valid_name(name).is_ok(), "{name}");
    }
    for name in ["", "sixteen-bytes-xx", "a/b", "a b", "a:1", "..", "a\n"] {
        assert!(valid_name(name).is_err(), "{name}");
    }
}

proptest! {
    #[test]
    fn requests_are_parsed_as_written(index: u32, address: IpAddr, prefix in 0u8..=32) {
        let network = IpNet::new(address, prefix).unwrap();
        let parsed = InterfaceAddress::parse(&InterfaceAddress::encode(index, network, 0).into_bytes()).unwrap();
        prop_assert_eq!((parsed.index, parsed.network), (index, network));
    }

    /// Any answer of the kernel is parsed or rejected.
    #[test]
    fn arbitrary_answers_do_not_panic(payload: Vec<u8>) {
        let _ = (NetworkInterface::parse(&payload), LinkStatistics::parse(&payload), InterfaceAddress::parse(&payload));
        let _ = (Route::parse(&payload), CachedMtu::parse(&payload), RoutingRule::parse(&payload));
        let _ = (GenericFamily::parse(&payload), parse_endpoint(&payload), parse_limits(&payload));
        let _ = (WifiInterface::parse(&payload), parse_station(&payload), LiveConnection::parse(&payload));
        let _ = (parse_counter(&payload), QdiscStatistics::parse(&payload));
    }
}

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, kind, 0, 0, payload);
    bytes
}

#[test]
fn splits_a_datagram() {
    let datagram = [message(16, b"abc"), message(17, b"")].concat();
    let answers: Vec<_> = Answers(&datagram).map(Option::unwrap).collect();
    assert_eq!((answers[0].kind, answers[0].payload), (16, b"abc".as_slice()));
    assert_eq!((answers[1].kind, answers[1].payload), (17, b"".as_slice()));
    assert!(Answers(&datagram[..18]).next().unwrap().is_none());
}

#[test]
fn changes_are_between_begin_and_end_in_order() {
    let payload = vec![1, 0, 0, 0];
    let change = |kind| NetlinkChange {
        request: "try",
        needs: "",
        flags: 0,
        message: NetlinkMessage { kind, payload: payload.clone() },
    };
    let bytes = batch(7, 10, &[change(0xA00), change(0xA03)]);
    let answers: Vec<_> = Answers(&bytes).map(Option::unwrap).collect();
    let seen: Vec<_> = answers.iter().map(|answer| (answer.kind, answer.sequence)).collect();
    assert_eq!(seen, [(0x10, 7), (0xA00, 8), (0xA03, 9), (0x11, 10)]);
    assert_eq!(answers[0].payload, [0, 0, 0, 10], "the subsystem is in network byte order");
}

proptest! {
    #[test]
    fn a_datagram_never_panics_and_always_ends(datagram: Vec<u8>) {
        let answers = Answers(&datagram);
        prop_assert!(answers.count() <= datagram.len());
    }
}
