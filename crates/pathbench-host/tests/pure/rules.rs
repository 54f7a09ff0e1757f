//! Policy rules in the kernel's dumps, and their evaluation.

use pathbench_host::netlink::message::Encoder;
use pathbench_host::netlink::{FollowedRule, Lookup, RoutingRule};
use pathbench_record::network::{DEFAULT_V4, IpNet};
use proptest::prelude::*;
use std::net::IpAddr;

// linux/fib_rules.h
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_OIFNAME: u16 = 17;
const FRA_IP_PROTO: u16 = 22;
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;

#[test]
fn a_rule_with_a_mark_is_not_a_source_rule() {
    let rule = RoutingRule { from: DEFAULT_V4, table: 100, priority: 5 };
    assert_eq!(RoutingRule::parse(&rule.encode().into_bytes()), Some(rule));
    assert_eq!(RoutingRule::parse(&rule.encode().u32(FRA_FWMARK, 1).into_bytes()), None);
}

fn header(to: u8, from: u8, table: u8, flags: u8) -> Encoder {
    Encoder::with_header(&[2, to, from, 0, table, 0, 0, FR_ACT_TO_TBL, flags, 0, 0, 0])
}

#[test]
fn rules_with_matching_conditions_apply() {
    let source: IpAddr = "10.0.1.1".parse().unwrap();
    let other: IpAddr = "10.0.2.1".parse().unwrap();
    let lookup = Lookup { source, destination: "10.9.9.9".parse().unwrap(), interface: Some(3) };
    let invert = u8::try_from(FIB_RULE_INVERT).unwrap();
    let plain = || header(0, 0, 100, 0);
    for (name, leads, rule) in [
        ("from all", true, plain()),
        ("another table", false, header(0, 0, 101, 0)),
        ("table beyond a byte", true, header(0, 0, 0, 0).u32(FRA_TABLE, 100)),
        ("from the address", true, header(0, 32, 100, 0).address(FRA_SRC, source)),
        ("from another", false, header(0, 32, 100, 0).address(FRA_SRC, other)),
        ("from the network", true, header(0, 8, 100, 0).address(FRA_SRC, other)),
        ("not from the address", false, header(0, 32, 100, invert).address(FRA_SRC, source)),
        ("not from another", true, header(0, 32, 100, invert).address(FRA_SRC, other)),
        ("to another", false, header(32, 0, 100, 0).address(FRA_DST, other)),
        ("by the interface", true, plain().text(FRA_OIFNAME, "wlan")),
        ("by another", false, plain().text(FRA_OIFNAME, "eth")),
        ("forwarded", false, plain().text(FRA_IIFNAME, "eth")),
        ("from here", true, plain().text(FRA_IIFNAME, "lo")),
        ("marked", false, plain().u32(FRA_FWMARK, 7)),
        ("not marked", true, header(0, 0, 100, invert).u32(FRA_FWMARK, 7)),
        ("no default", false, plain().u32(FRA_SUPPRESS_PREFIXLEN, 24)),
        ("no short", true, plain().u32(FRA_SUPPRESS_PREFIXLEN, 8)),
        ("for TCP", true, plain().u8(FRA_IP_PROTO, 6)),
        ("for UDP", false, plain().u8(FRA_IP_PROTO, 17)),
    ] {
        let bytes = rule.into_bytes();
        let followed = FollowedRule::parse(&bytes, &lookup, "wlan");
        assert_eq!(followed.is_some_and(|rule| rule.leads_to(100, 24)), leads, "{name}");
    }
}

proptest! {
    #[test]
    fn requests_are_parsed_as_written(
        address: IpAddr, prefix in 0u8..=32, table: u32, priority: u32
    ) {
        let rule = RoutingRule { from: IpNet::new(address, prefix).unwrap().trunc(), table, priority };
        prop_assert_eq!(RoutingRule::parse(&rule.encode().into_bytes()), Some(rule));
    }
}
