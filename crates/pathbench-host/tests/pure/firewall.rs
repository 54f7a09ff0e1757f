//! The rules of routers as `nf_tables` messages.

use netlink_packet_core::NLM_F_APPEND;
use pathbench_host::firewall::{
    FirewallError, Middlebox, RouterRules, TooBigTreatment, changes, jump, number, parse_counter, rate_above,
};
use pathbench_host::netlink::NetlinkError;
use pathbench_host::netlink::message::{Attributes, Encoder};
use rustix::io::Errno;

// linux/netfilter/nf_tables.h
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NFTA_OBJ_TABLE: u16 = 1;
const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_DATA: u16 = 4;
const NFTA_COUNTER_PACKETS: u16 = 2;

fn kinds(rules: &RouterRules) -> Vec<u16> {
    changes(rules).iter().map(|change| change.message.kind).collect()
}

#[test]
fn old_rules_are_removed_before_new_ones_are_added() {
    for too_big in
        [TooBigTreatment::Sent, TooBigTreatment::Dropped, TooBigTreatment::Limited { per_second: 1 }]
    {
        let kinds = kinds(&RouterRules { too_big, clamp_mss: true, ..RouterRules::default() });
        let cleared = kinds.iter().position(|kind| *kind == number(libc::NFT_MSG_DELRULE)).unwrap();
        let (before, after) = kinds.split_at(cleared);
        assert!(before.iter().all(|kind| *kind != number(libc::NFT_MSG_NEWRULE)), "{kinds:?}");
        assert!(after[1..].iter().all(|kind| *kind == number(libc::NFT_MSG_NEWRULE)), "{kinds:?}");
    }
}

#[test]
fn every_requested_rule_is_added() {
    let rules = |too_big, clamp_mss| {
        let kinds = kinds(&RouterRules { too_big, clamp_mss, ..RouterRules::default() });
        kinds.iter().filter(|kind| **kind == number(libc::NFT_MSG_NEWRULE)).count()
    };
    // Two rules select the messages.
    assert_eq!(rules(TooBigTreatment::Sent, false), 3);
    assert_eq!(rules(TooBigTreatment::Dropped, false), 3);
    assert_eq!(rules(TooBigTreatment::Limited { per_second: 10 }, false), 4);
    assert_eq!(rules(TooBigTreatment::Limited { per_second: 0 }, true), 4);
}

#[test]
fn rules_keep_their_order() {
    for change in changes(&RouterRules {
        too_big: TooBigTreatment::Limited { per_second: 5 },
        clamp_mss: true,
        ..RouterRules::default()
    }) {
        let appended = change.flags & NLM_F_APPEND != 0;
        assert_eq!(appended, change.message.kind == number(libc::NFT_MSG_NEWRULE), "{change:?}");
    }
}

#[test]
fn each_middlebox_has_one_name_one_counter_and_one_rule() {
    for (name, middlebox) in Middlebox::ALL {
        assert_eq!((Middlebox::from_name(name), middlebox.name()), (Some(middlebox), name));
        let count = |rules: &RouterRules| {
            let kinds = kinds(rules);
            [libc::NFT_MSG_NEWOBJ, libc::NFT_MSG_NEWRULE]
                .map(|kind| kinds.iter().filter(|known| **known == number(kind)).count())
        };
        let [objects, rules] = count(&RouterRules::default());
        let with = RouterRules { middlebox: vec![middlebox], ..RouterRules::default() };
        assert_eq!(count(&with), [objects + 1, rules + 1], "{name}");
    }
    assert_eq!(Middlebox::from_name("strip-everything"), None);
}

#[test]
fn the_error_names_the_expression_that_a_middlebox_needs() {
    let named = |name: &str, needs: &str| {
        let middlebox = vec![Middlebox::from_name(name).unwrap()];
        let changes = changes(&RouterRules { middlebox, ..RouterRules::default() });
        let error = FirewallError::classify(refusal(Errno::OPNOTSUPP), changes.last());
        assert!(error.is_host_unable() && error.to_string().contains(needs), "{error}");
    };
    named("strip-dss", "Linux 5.18");
    named("rewrite-payload", "Linux 6.2");
    named("reset-mp-join", "CONFIG_NFT_REJECT");
    named("drop-mp-capable", "CONFIG_NFT_EXTHDR");
}

fn refusal(errno: Errno) -> NetlinkError {
    NetlinkError::Refused { request: "try".to_owned(), errno, kernel_message: None }
}

#[test]
fn missing_kernel_features_are_named() {
    let rules = RouterRules {
        too_big: TooBigTreatment::Limited { per_second: 10 },
        clamp_mss: true,
        ..RouterRules::default()
    };
    let lacks = |request: &str, errno, option: &str| {
        let changes = changes(&rules);
        let named = changes.iter().any(|change| {
            let error = FirewallError::classify(refusal(errno), Some(change));
            assert!(error.is_host_unable(), "{error}");
            error.to_string().contains(request) && error.to_string().contains(option)
        });
        assert!(named, "no change names {option}");
    };
    lacks("make the firewall's table", Errno::AFNOSUPPORT, "CONFIG_NF_TABLES_INET");
    lacks("make the firewall's counters", Errno::NOENT, "CONFIG_NFT_OBJREF");
    lacks("drop or limit", Errno::NOENT, "CONFIG_NFT_LIMIT");
    lacks("clamp the MSS", Errno::OPNOTSUPP, "CONFIG_NFT_EXTHDR");
    lacks("clamp the MSS", Errno::NOENT, "CONFIG_NFT_RT");
}

#[test]
fn a_kernel_without_nf_tables_and_an_invalid_request_have_different_errors() {
    let source = std::io::Error::from_raw_os_error(libc::EPROTONOSUPPORT);
    let error = FirewallError::open(NetlinkError::Open { protocol: "netfilter", source });
    assert!(matches!(error, FirewallError::NoNfTables), "{error}");
    let error = FirewallError::classify(refusal(Errno::OPNOTSUPP), None);
    assert!(matches!(error, FirewallError::NoNfTables), "{error}");
    assert!(error.is_host_unable() && error.to_string().contains("CONFIG_NF_TABLES"));
    let changes = changes(&RouterRules::default());
    let error = FirewallError::classify(refusal(Errno::INVAL), changes.first());
    assert!(!error.is_host_unable(), "{error}");
    let error = FirewallError::classify(refusal(Errno::PERM), None);
    assert!(error.is_host_unable() && error.to_string().contains("CAP_NET_ADMIN"), "{error}");
}

#[test]
fn a_limit_is_in_network_byte_order_and_matches_packets_above_the_rate() {
    let bytes = rate_above(10).into_bytes();
    let element = Attributes::new(&bytes);
    assert_eq!(element.text(NFTA_EXPR_NAME).as_deref(), Some("limit"));
    let data = element.nested(NFTA_EXPR_DATA).unwrap();
    let values: Vec<_> = data.iter().map(|(kind, value)| (kind, value.to_vec())).collect();
    assert_eq!(
        values,
        [
            (1, vec![0, 0, 0, 0, 0, 0, 0, 10]),
            (2, vec![0, 0, 0, 0, 0, 0, 0, 1]),
            (3, vec![0, 0, 0, 1]),
            (4, vec![0, 0, 0, 0]),
            (5, vec![0, 0, 0, 1]),
        ]
    );
}

#[test]
fn a_jump_names_its_chain() {
    let bytes = jump("elsewhere").into_bytes();
    let data = Attributes::new(&bytes).nested(NFTA_EXPR_DATA).unwrap();
    assert_eq!(data.get(1), Some([0; 4].as_slice()), "the verdict's register");
    let verdict = data.nested(2).unwrap().nested(NFTA_DATA_VERDICT).unwrap();
    assert_eq!(verdict.get(NFTA_VERDICT_CODE), Some((-3_i32).to_be_bytes().as_slice()));
    assert_eq!(verdict.text(NFTA_VERDICT_CHAIN).as_deref(), Some("elsewhere"));
}

fn counter(table: &str, name: &str, packets: u64) -> Vec<u8> {
    Encoder::with_header(&[1, 0, 0, 7])
        .text(NFTA_OBJ_TABLE, table)
        .text(NFTA_OBJ_NAME, name)
        .nested(NFTA_OBJ_DATA, Encoder::default().be64(NFTA_COUNTER_PACKETS, packets))
        .into_bytes()
}

#[test]
fn only_counters_of_our_table_are_read() {
    assert_eq!(parse_counter(&counter("pathbench", "some", 300)), Some(("some".to_owned(), 300)));
    assert_eq!(parse_counter(&counter("filter", "some", 300)), None);
}
