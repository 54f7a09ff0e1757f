//! Whether multipath was used, and why not.

mod quic;
mod stages;

use pathbench_analysis::mptcp_setup::LocalSetup;
use pathbench_analysis::verdict::*;
use pathbench_record::connection::{FallbackReason, Negotiation};
use pathbench_record::kernel_event::MptcpEvent;
use pathbench_record::sample::{PathFigures, PathState};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 1));

fn path(name: &str, delivered_bytes: u64) -> PathDelivery {
    PathDelivery { name: name.to_owned(), delivered_bytes, ..PathDelivery::default() }
}

fn figures() -> PathFigures {
    PathFigures {
        subflow: 2,
        state: PathState::Open,
        srtt_ms: 1.0,
        rttvar_ms: 0.5,
        rto_ms: 204.0,
        cwnd_bytes: 14_480,
        mss_bytes: 8948,
        pmtu_bytes: 9000,
        ..PathFigures::new(SocketAddr::new(SECOND, 4711), SocketAddr::from(([10, 0, 1, 2], 80)))
    }
}

fn counters(names: &[&str]) -> BTreeMap<String, i64> {
    names.iter().map(|name| (format!("MPTcpExt.{name}"), 1)).collect()
}

fn fell_back(reason: FallbackReason, names: &[&str]) -> VerdictInput {
    VerdictInput {
        requested: true,
        negotiation: Negotiation::FellBack { reason },
        paths: vec![path("eth", 1_000_000)],
        counters: counters(names),
        ..VerdictInput::default()
    }
}

fn one_path(names: &[&str]) -> VerdictInput {
    VerdictInput {
        requested: true,
        negotiation: Negotiation::Negotiated,
        paths: vec![path("eth", 1_000_000)],
        counters: counters(names),
        ..VerdictInput::default()
    }
}

fn idle_second(last: Option<PathFigures>) -> VerdictInput {
    let second = PathDelivery { last, ..path("wlan", 999) };
    VerdictInput { paths: vec![path("eth", 1_000_000), second], ..one_path(&[]) }
}

fn set_up(setup: LocalSetup) -> VerdictInput {
    VerdictInput { setup: Some(setup), ..one_path(&["MPCapableSYNTX"]) }
}

fn sound_setup() -> LocalSetup {
    LocalSetup {
        subflow_limit: 2,
        endpoints: vec![FIRST, SECOND],
        addresses: vec![FIRST, SECOND],
        initial: Some(FIRST),
        ..LocalSetup::default()
    }
}

#[test]
fn two_paths_with_their_share_are_multipath() {
    let input = VerdictInput {
        paths: vec![path("eth", 750), path("wlan", 250)],
        subflows_total: Some(2),
        ..one_path(&[])
    };
    let verdict = multipath_verdict(&input);
    assert!(verdict.requested && verdict.negotiated && verdict.used);
    assert_eq!((verdict.paths_used, verdict.subflows_total), (2, Some(2)));
    assert_eq!(verdict.reason, "2 paths carried the delivered bytes: eth 75.0 %, wlan 25.0 %");
}

#[test]
fn one_percent_of_the_bytes_is_the_border() {
    let with = |second| VerdictInput {
        paths: vec![path("eth", 10_000 - second), path("wlan", second)],
        ..one_path(&[])
    };
    assert!(multipath_verdict(&with(100)).used);
    assert!(!multipath_verdict(&with(99)).used);
}

#[test]
fn two_paths_that_fell_back_are_not_multipath() {
    let input = VerdictInput {
        paths: vec![path("eth", 500), path("wlan", 500)],
        ..fell_back(FallbackReason::InMidLife, &["InfiniteMapRx"])
    };
    let verdict = multipath_verdict(&input);
    assert!(!verdict.used && !verdict.negotiated);
    assert!(verdict.reason.contains("infinite mapping"), "{}", verdict.reason);
}

/// None of these cases used multipath; the reason must contain these words.
fn check(cases: Vec<(VerdictInput, &[&str])>) {
    for (input, words) in cases {
        let verdict = multipath_verdict(&input);
        assert!(!verdict.used, "{input:?}");
        for word in words {
            assert!(verdict.reason.contains(word), "`{word}` is missing in `{}`\n{input:?}", verdict.reason);
        }
    }
}

fn at_peer(names: &[&str], input: VerdictInput) -> VerdictInput {
    VerdictInput { peer_counters: counters(names), ..input }
}

fn failing(errno: Option<i32>, reset_reason: Option<u32>) -> VerdictInput {
    let error = errno.map(|errno| errno as u8);
    let failure =
        MptcpEvent { local: Some((SECOND, 0).into()), error, reset_reason, ..MptcpEvent::default() };
    VerdictInput { join_failures: vec![failure], ..one_path(&[]) }
}

#[test]
fn a_fallback_is_explained() {
    use FallbackReason::{InHandshake, InMidLife, PeerAskedForPlainTcp};
    check(vec![
        (VerdictInput::default(), &["was not requested"]),
        (VerdictInput { requested: true, ..VerdictInput::default() }, &["no connection was established"]),
        (fell_back(PeerAskedForPlainTcp, &[]), &["asked for plain TCP"]),
        (fell_back(InHandshake, &[]), &["did not answer MP_CAPABLE", "net.mptcp.enabled=0"]),
        (fell_back(InHandshake, &["MPCapableFallbackSYNACK"]), &["did not answer MP_CAPABLE"]),
        (fell_back(InHandshake, &["MPCapableSYNTXDrop"]), &["dropped on the path", "TCP option 30"]),
        (fell_back(InHandshake, &["MPCapableSYNTXDrop", "Blackhole"]), &["3600 s", "blackhole_timeout=0"]),
        (fell_back(InHandshake, &["MPCapableSYNTXDisabled"]), &["earlier connection", "blackhole_timeout=0"]),
        (fell_back(InHandshake, &["MPFallbackTokenInit"]), &["token"]),
        (fell_back(InHandshake, &["MD5SigFallback"]), &["MD5"]),
        (at_peer(&["MPCapableFallbackACK"], fell_back(InHandshake, &[])), &["lost the MP_CAPABLE option"]),
        (at_peer(&["DataCsumErr"], fell_back(InHandshake, &[])), &["changes the payload"]),
        (fell_back(InMidLife, &["DataCsumErr"]), &["mid-connection", "changes the payload"]),
        (fell_back(InMidLife, &["DSSCorruptionFallback"]), &["DSS option"]),
        (fell_back(InMidLife, &["InfiniteMapTx"]), &["this end", "infinite mapping"]),
        (at_peer(&["DssFallback"], fell_back(InMidLife, &[])), &["strips TCP options"]),
        (fell_back(InMidLife, &[]), &["show no cause"]),
    ]);
}

#[test]
fn a_missing_second_path_is_explained() {
    check(vec![
        (VerdictInput { paths: vec![], ..one_path(&[]) }, &["no byte was delivered"]),
        (
            set_up(LocalSetup { subflow_limit: 0, ..sound_setup() }),
            &["is 0 on this host", "limits set subflows 2"],
        ),
        (set_up(LocalSetup { peer_subflow_limit: Some(0), ..sound_setup() }), &["is 0 on the peer"]),
        (
            set_up(LocalSetup { endpoints: vec![FIRST], ..sound_setup() }),
            &["no endpoint for 10.0.1.1;", "endpoint add 10.0.1.1"],
        ),
        (
            set_up(LocalSetup { endpoints: vec![], addresses: vec![], ..sound_setup() }),
            &["no endpoint for a second address"],
        ),
        (set_up(sound_setup()), &["no join was attempted"]),
        (one_path(&[]), &["ip mptcp limits"]),
        (one_path(&["MPJoinSynTxConnectErr"]), &["no route from an endpoint's address", "ip rule"]),
        (one_path(&["MPJoinSynTxBindErr"]), &["not (or no longer) an address of this host"]),
        (one_path(&["MPJoinSynTxCreatSkErr"]), &["could not make a socket"]),
        (one_path(&["MPJoinSynTx"]), &["never agreed to one"]),
        (at_peer(&["MPJoinNoTokenFound"], one_path(&["MPJoinSynTx"])), &["token not found"]),
        (at_peer(&["MPJoinRejected"], one_path(&["MPJoinSynTx"])), &["rejected by the peer"]),
        (one_path(&["MPJoinSynAckHMacFailure"]), &["HMAC"]),
        (failing(Some(libc::ECONNREFUSED), None), &["from 10.0.1.1 was reset"]),
        (failing(Some(libc::ETIMEDOUT), None), &["timed out: its packets or the answers are lost"]),
        (failing(Some(libc::EHOSTUNREACH), None), &["has no route"]),
        (failing(Some(libc::ENETDOWN), None), &["was closed: "]),
        (failing(Some(libc::ECONNRESET), Some(3)), &["administratively prohibited"]),
        (failing(None, Some(6)), &["middlebox interference"]),
    ]);
}

#[test]
fn an_idle_second_path_is_explained() {
    let stuck = PathFigures { backoff: 4, bytes_sent: 90_000, in_flight_bytes: 8948, ..figures() };
    check(vec![
        (VerdictInput { subflows_total: Some(3), ..one_path(&[]) }, &["3 subflows", "the one path eth"]),
        (idle_second(None), &["wlan was opened but carried less than 0.1 %"]),
        (idle_second(Some(figures())), &["too short or too slow"]),
        (idle_second(Some(PathFigures { backup: Some(true), ..figures() })), &["marked backup"]),
        (idle_second(Some(stuck)), &["never acknowledged", "MTU black hole", "9000", "tcp_mtu_probing=2"]),
        (idle_second(Some(PathFigures { state: PathState::Opening, ..figures() })), &["handshake"]),
        (idle_second(Some(PathFigures { state: PathState::Closed, ..figures() })), &["before it was closed"]),
        (VerdictInput { counters: counters(&["SubflowStale"]), ..idle_second(Some(figures())) }, &["stale"]),
        (
            VerdictInput {
                join_failures: failing(Some(libc::ETIMEDOUT), None).join_failures,
                ..idle_second(Some(PathFigures { state: PathState::Closed, ..figures() }))
            },
            &["before it was closed", "timed out"],
        ),
    ]);
}

#[test]
fn counters_that_did_not_rise_prove_nothing() {
    let zero = BTreeMap::from([("MPTcpExt.MPCapableSYNTXDrop".to_owned(), 0)]);
    let input = VerdictInput { counters: zero, ..fell_back(FallbackReason::InHandshake, &[]) };
    assert!(multipath_verdict(&input).reason.contains("did not answer MP_CAPABLE"));
}

proptest! {
    #[test]
    fn used_takes_negotiation_and_two_paths(
        requested: bool,
        negotiated: bool,
        delivered in proptest::collection::vec(0_u64..2_000_000, 0..5),
    ) {
        let negotiation = if negotiated { Negotiation::Negotiated } else {
            Negotiation::FellBack { reason: FallbackReason::InHandshake }
        };
        let paths: Vec<PathDelivery> = delivered.iter().map(|bytes| path("p", *bytes)).collect();
        let verdict = multipath_verdict(&VerdictInput { requested, negotiation, paths, ..VerdictInput::default() });
        let total: u64 = delivered.iter().sum();
        let used = delivered.iter().filter(|bytes| **bytes > 0 && **bytes * 100 >= total).count();
        prop_assert_eq!(verdict.paths_used as usize, used);
        prop_assert_eq!(verdict.used, requested && negotiated && used >= 2);
        prop_assert!(!verdict.reason.is_empty());
    }
}
