use super::super::samples::to;
use super::*;
use proptest::prelude::*;

#[test]
fn what_the_kernel_computes_is_left_out() {
    let route = || to("0.0.0.0/0", 254).hops(&[(2, 0, 1, "10.0.1.254"), (3, 4, 1, "10.0.2.254")]);
    let dead =
        to("0.0.0.0/0", 254).hops(&[(2, 0x11, 1, "10.0.1.254"), (3, 4, 1, "10.0.2.254")]).header(8, 0x10);
    assert_eq!(route().entry(), dead.entry());
    let (header, _) = dead_request();
    assert_eq!(header[8..], [4, 0, 0, 0], "only what was wished goes back");
}

fn dead_request() -> ([u8; ROUTE_HEADER], Vec<DefaultNla>) {
    to("10.0.0.0/8", 254).via("10.0.1.254").dev(2).header(8, 0x15).entry().request()
}

#[test]
fn a_route_that_runs_out_is_the_same_a_second_later_and_not_one_that_stays() {
    let route = || to("::/0", 254).via("fe80::1").dev(2);
    assert_eq!(route().expiring(500).entry(), route().expiring(400).entry());
    assert_ne!(route().expiring(500).entry(), route().entry());
    assert_eq!(route().expiring(501).entry().expires_s(), Some(6));
    let again = route().expiring(1000).entry().expiring_like(&route().expiring(300).entry());
    assert_eq!(again.expires_s(), Some(3));
}

#[test]
fn a_next_hop_object_goes_back_alone() {
    let entry = to("10.0.0.0/8", 254).via("10.0.1.254").dev(2).with(RTA_NH_ID, &7u32.to_ne_bytes()).entry();
    let kinds: Vec<_> = entry.request().1.iter().map(netlink_packet_core::Nla::kind).collect();
    assert_eq!(kinds, [RTA_DST, RTA_TABLE, RTA_NH_ID]);
}

#[test]
fn a_journal_keeps_all_of_it() {
    let entry = to("::/0", 1002).via("fe80::1").dev(2).locked(1400).expiring(5000).entry();
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
            let sample = if v4 { to("10.0.0.0/8", table) } else { to("fd00::/8", table) };
            let sample = match mtu {
                Some(mtu) if locked => sample.locked(mtu),
                Some(mtu) => sample.mtu(mtu),
                None => sample,
            };
            metrics.sort_unstable();
            metrics.dedup_by_key(|(kind, _)| *kind);
            metrics.into_iter().fold(sample, |sample, (kind, value)| sample.with_metric(kind, value)).entry()
        },
    )
}

proptest! {
    #[test]
    fn another_mtu_and_back_is_the_same(route in route(), mtu in 1u32..65_000) {
        let other = route.with_mtu(Some(mtu));
        prop_assert_eq!(other.mtu_bytes(), Some(mtu));
        prop_assert_eq!(other.is_mtu_locked(), route.is_mtu_locked());
        prop_assert_eq!(&other.with_mtu(route.mtu_bytes()), &route);
        prop_assert!(other.shares_place_with(&route));
    }

    #[test]
    fn what_is_asked_for_is_what_would_be_read(route in route()) {
        let (header, attributes) = route.request();
        prop_assert_eq!(FibEntry::parse(&[header.as_slice(), &emitted(&attributes)].concat()), Some(route));
    }

    #[test]
    fn any_bytes_are_a_route_or_not(mut payload: Vec<u8>, v6: bool) {
        if let Some(family) = payload.first_mut() {
            *family = if v6 { 10 } else { 2 };
        }
        if let Some(entry) = FibEntry::parse(&payload) {
            let _ = (entry.next_hops(), entry.request(), entry.with_mtu(Some(1500)), entry.with_mtu(None));
            let _ = super::super::operation::Operation::AddRoute { route: entry }.commands(&std::collections::BTreeMap::new());
        }
    }
}
