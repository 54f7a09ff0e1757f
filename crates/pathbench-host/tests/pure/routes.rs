//! Routes in the kernel's dumps and requests.

use pathbench_host::change::Operation;
use pathbench_host::netlink::message::{Attributes, Encoder};
use pathbench_host::netlink::{FibEntry, Route};
use pathbench_record::network::IpNet;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

// linux/rtnetlink.h
const ROUTE_HEADER: usize = 12;
const RTA_NH_ID: u16 = 30;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;

fn address_like(like: IpAddr) -> impl Strategy<Value = IpAddr> {
    (any::<Ipv4Addr>(), any::<Ipv6Addr>())
        .prop_map(move |(v4, v6)| if like.is_ipv4() { v4.into() } else { v6.into() })
}

fn plain_route() -> impl Strategy<Value = Route> {
    any::<IpAddr>().prop_flat_map(|address| {
        let prefix = 0..=if address.is_ipv4() { 32u8 } else { 128 };
        (prefix, proptest::option::of(address_like(address)), proptest::option::of(address_like(address)))
            .prop_flat_map(move |(prefix, gateway, source)| {
                (any::<u32>(), any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>(), any::<bool>())
                    .prop_map(move |(interface, table, mtu, metric, locked)| Route {
                        destination: IpNet::new(address, prefix).unwrap().trunc(),
                        gateway,
                        interface: Some(interface),
                        source,
                        table,
                        mtu,
                        mtu_locked: locked && mtu.is_some(),
                        metric,
                    })
            })
    })
}

proptest! {
    #[test]
    fn requests_are_parsed_as_written(route in plain_route()) {
        prop_assert_eq!(Route::parse(&route.encode().into_bytes()), Some(route));
    }
}

/// A route with these attributes; byte `at` of the fixed header is `value`.
fn entry(v4: bool, header: &[(usize, u8)], attributes: Encoder) -> FibEntry {
    entry_in(254, v4, header, attributes)
}

fn entry_in(table: u32, v4: bool, header: &[(usize, u8)], attributes: Encoder) -> FibEntry {
    let mut bytes = [if v4 { 2 } else { 10 }, 8, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    for (at, value) in header {
        bytes[*at] = *value;
    }
    let network = if v4 { "10.0.0.0" } else { "fd00::" }.parse().unwrap();
    let message = Encoder::with_header(&bytes).u32(libc::RTA_TABLE, table).address(libc::RTA_DST, network);
    FibEntry::parse(&[message.into_bytes(), attributes.into_bytes()].concat()).unwrap()
}

fn gateway_attribute(gateway: &str) -> Encoder {
    Encoder::default().address(libc::RTA_GATEWAY, gateway.parse().unwrap()).u32(libc::RTA_OIF, 2)
}

fn hops(flags: u8) -> Encoder {
    let hop = |interface: u32, flags: u8, gateway: &str| {
        let gateway = Encoder::default().address(libc::RTA_GATEWAY, gateway.parse().unwrap()).into_bytes();
        let length = (8 + gateway.len() as u16).to_ne_bytes();
        [&length[..], &[flags, 0], &interface.to_ne_bytes(), &gateway].concat()
    };
    let both = [hop(2, flags, "10.0.1.254"), hop(3, 4, "10.0.2.254")].concat();
    Encoder::default().bytes(libc::RTA_MULTIPATH, &both)
}

fn expiring(hundredths: u32) -> FibEntry {
    let mut info = [0; 32];
    info[8..12].copy_from_slice(&hundredths.to_ne_bytes());
    entry(false, &[], gateway_attribute("fe80::1").bytes(libc::RTA_CACHEINFO, &info))
}

#[test]
fn the_state_of_next_hops_is_left_out() {
    assert_eq!(entry(true, &[], hops(0)), entry(true, &[(8, 0x10)], hops(0x11)));
    let bytes = entry(true, &[(8, 0x15)], gateway_attribute("10.0.1.254")).encode().into_bytes();
    assert_eq!(bytes[8..12], [4, 0, 0, 0], "only configured flags go back");
}

#[test]
fn a_remaining_lifetime_is_not_compared_but_permanence_is() {
    assert_eq!(expiring(500), expiring(400));
    assert_ne!(expiring(500), entry(false, &[], gateway_attribute("fe80::1")));
    assert_eq!(expiring(501).expires_s(), Some(6));
    assert_eq!(expiring(1000).expiring_like(&expiring(300)).expires_s(), Some(3));
}

#[test]
fn a_next_hop_object_is_restored_without_derived_attributes() {
    let bytes = entry(true, &[], gateway_attribute("10.0.1.254").u32(RTA_NH_ID, 7)).encode().into_bytes();
    let kinds: Vec<_> = Attributes::new(&bytes[ROUTE_HEADER..]).iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [libc::RTA_DST, libc::RTA_TABLE, RTA_NH_ID]);
}

#[test]
fn a_journal_preserves_every_attribute() {
    let lock = Encoder::default().u32(RTAX_LOCK, 1 << RTAX_MTU).u32(RTAX_MTU, 1400);
    let mut info = [0; 32];
    info[8..12].copy_from_slice(&5000_u32.to_ne_bytes());
    let attributes =
        gateway_attribute("fe80::1").bytes(libc::RTA_CACHEINFO, &info).nested(libc::RTA_METRICS, lock);
    let entry = entry(false, &[], attributes);
    let text = serde_json::to_string(&entry).unwrap();
    let read: FibEntry = serde_json::from_str(&text).unwrap();
    assert_eq!((&read, read.expires_s()), (&entry, Some(50)));
    for text in [r#"{"bytes":"zz"}"#, r#"{"bytes":"0a"}"#, r#"{"bytes":"€€"}"#, r#"{"bytes":"02000"}"#] {
        assert!(serde_json::from_str::<FibEntry>(text).is_err(), "{text}");
    }
}

fn route() -> impl Strategy<Value = FibEntry> {
    let metrics = proptest::collection::vec((3u16..16, any::<u32>()), 0..4);
    (any::<bool>(), any::<u32>(), proptest::option::of(1u32..65_000), any::<bool>(), metrics).prop_map(
        |(v4, table, mtu, locked, mut metrics)| {
            metrics.extend(mtu.map(|mtu| (RTAX_MTU, mtu)));
            metrics.extend(mtu.filter(|_| locked).map(|_| (RTAX_LOCK, 1 << RTAX_MTU)));
            metrics.sort_unstable();
            metrics.dedup_by_key(|(kind, _)| *kind);
            let metrics = (!metrics.is_empty()).then_some(metrics);
            let attributes = Encoder::default().add_optional(metrics, |to, metrics| {
                let metrics =
                    metrics.iter().fold(Encoder::default(), |to, (kind, value)| to.u32(*kind, *value));
                to.nested(libc::RTA_METRICS, metrics)
            });
            entry_in(table, v4, &[], attributes)
        },
    )
}

proptest! {
    #[test]
    fn changing_the_mtu_and_back_restores_the_route(route in route(), mtu in 1u32..65_000) {
        let other = route.with_mtu(Some(mtu));
        prop_assert_eq!(other.mtu_bytes(), Some(mtu));
        prop_assert_eq!(other.is_mtu_locked(), route.is_mtu_locked());
        prop_assert_eq!(&other.with_mtu(route.mtu_bytes()), &route);
        prop_assert!(other.shares_entry_with(&route));
    }

    #[test]
    fn restored_routes_are_parsed_as_written(route in route()) {
        prop_assert_eq!(FibEntry::parse(&route.encode().into_bytes()), Some(route));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(mut payload: Vec<u8>, v6: bool) {
        if let Some(family) = payload.first_mut() {
            *family = if v6 { 10 } else { 2 };
        }
        if let Some(entry) = FibEntry::parse(&payload) {
            let _ = (entry.next_hops(), entry.encode(), entry.with_mtu(Some(1500)), entry.with_mtu(None));
            let names = BTreeMap::new();
            let _ = Operation::AddRoute { route: entry }.commands(&names);
        }
    }
}
