//! The verdict for each stage of a path's subflow and of the connection.

use super::*;
use pathbench_record::stage::SubflowStage;

const ALL: [SubflowStage; 5] = [
    SubflowStage::Attempted,
    SubflowStage::Answered,
    SubflowStage::Negotiated,
    SubflowStage::Opened,
    SubflowStage::Carried,
];

fn second_at(stage: SubflowStage) -> VerdictInput {
    let second = PathDelivery { stage: Some(stage), last: Some(figures()), ..path("wlan", 0) };
    VerdictInput { paths: vec![path("eth", 1_000_000), second], ..one_path(&[]) }
}

/// Regression: an unanswered join "was opened".
#[test]
fn only_an_opened_path_was_opened() {
    for stage in ALL {
        let verdict = multipath_verdict(&second_at(stage));
        assert!(!verdict.used);
        let says_opened = verdict.reason.contains("was opened but carried");
        assert_eq!(says_opened, stage.is_opened(), "{stage:?}: {}", verdict.reason);
        assert_eq!(verdict.reason.contains("attempted and not opened"), !stage.is_opened(), "{stage:?}");
    }
    let unanswered = PathFigures { state: PathState::Opening, ..figures() };
    let silent = PathDelivery { last: Some(unanswered), ..path("wlan", 0) };
    let input = VerdictInput { paths: vec![path("eth", 1000), silent], ..one_path(&["MPJoinSynTx"]) };
    check(vec![(input, &["attempted and not opened", "no answer to its SYN", "never agreed"])]);
    let counted = VerdictInput { subflows_total: Some(1), subflows_attempted: Some(3), ..one_path(&[]) };
    check(vec![(counted, &["only one path was opened (1 of 3 attempted subflows)"])]);
}

/// Regression: "MPTCP was negotiated" for a connection that never connected.
#[test]
fn a_connection_that_was_never_opened_negotiated_nothing() {
    use SubflowStage::{Answered, Attempted};
    let unopened = |stage, is_without_carrier| VerdictInput {
        unopened: Some(UnopenedConnection {
            stage,
            local: SECOND,
            remote: "192.0.2.1:80".parse().unwrap(),
            interface: Some("usb0".to_owned()),
            is_without_carrier,
        }),
        ..VerdictInput { paths: vec![path("usb0", 0)], ..one_path(&[]) }
    };
    for (stage, carrier, words) in [
        (Attempted, true, &["10.0.1.1 to 192.0.2.1:80", "usb0 has no carrier", "ip link set usb0 down"][..]),
        (Attempted, false, &["never answered", "pathbench check 192.0.2.1:80"]),
        (Answered, false, &["rejected with RST", "nothing listens"]),
    ] {
        let verdict = multipath_verdict(&unopened(stage, carrier));
        assert!(!verdict.negotiated && !verdict.reason.contains("negotiated"), "{}", verdict.reason);
        check(vec![(unopened(stage, carrier), words)]);
    }
}

#[test]
fn a_suspension_is_named_with_the_end_of_it() {
    use FallbackReason::BeforeHandshake;
    let suspended = fell_back(BeforeHandshake, &["MPCapableSYNTXDisabled"]);
    check(vec![
        (suspended, &["without MP_CAPABLE", "suspended", "3600 s", "blackhole_timeout=0"]),
        (fell_back(BeforeHandshake, &[]), &["without MP_CAPABLE", "blackhole_timeout"]),
    ]);
    for names in [&[][..], &["MPCapableSYNTXDisabled"]] {
        let reason = multipath_verdict(&fell_back(BeforeHandshake, names)).reason;
        assert!(!reason.contains("mid-connection") && !reason.contains("did not answer"), "{reason}");
    }
}

/// Regression: the server announced its address, and no command named the limit that refuses it.
#[test]
fn announced_addresses_that_no_limit_accepts_are_the_cause() {
    let with = |add_addr_accepted_limit, names: &[&str]| VerdictInput {
        counters: counters(names),
        ..set_up(LocalSetup {
            add_addr_accepted_limit,
            endpoints: vec![],
            addresses: vec![FIRST],
            ..sound_setup()
        })
    };
    check(vec![(
        with(0, &["AddAddr"]),
        &["the peer announced an address", "limits set subflows 2 add_addr_accepted 1"],
    )]);
    let reason = |input| multipath_verdict(&input).reason;
    assert!(!reason(with(0, &["AddAddr"])).contains("endpoint add"));
    for input in [with(2, &["AddAddr"]), with(0, &["MPCapableSYNTX"])] {
        assert!(!reason(input).contains("add_addr_accepted"));
    }
}

/// Regression: "no join was attempted although the set-up allows one" with a path manager that opens no subflow.
#[test]
fn a_path_manager_in_user_space_is_the_cause() {
    let command = "sysctl -w net.mptcp.path_manager=kernel";
    let input = set_up(LocalSetup { other_path_manager: Some(command.to_owned()), ..sound_setup() });
    check(vec![(input, &["path manager in user space", command])]);
}

/// Regression: "no join was attempted although the set-up allows one" for a second path of IPv6 beside a connection over IPv4.
#[test]
fn an_ipv6_path_is_none_for_a_connection_over_ipv4() {
    let other: IpAddr = "2001:db8:2::2".parse().unwrap();
    let input = |device: &str| {
        set_up(LocalSetup {
            endpoints: vec![other],
            addresses: vec![FIRST, other],
            devices: [(FIRST, "eth0".to_owned()), (other, device.to_owned())].into(),
            ..sound_setup()
        })
    };
    check(vec![(input("wlan0"), &["2001:db8:2::2 is IPv6", "connect to an IPv6 address"])]);
    assert!(!multipath_verdict(&input("eth0")).reason.contains("connect to an IPv6"));
}

#[test]
fn causes_that_the_caller_has_seen_come_first() {
    let seen = || vec!["the program closed its listening socket".to_owned()];
    let accepted =
        VerdictInput { causes: seen(), peer_counters: counters(&["MPCapableSYNRX"]), ..one_path(&[]) };
    let accepted = VerdictInput { counters: BTreeMap::new(), ..accepted };
    check(vec![
        (accepted.clone(), &["only one path was opened: the program closed its listening socket"]),
        (VerdictInput { causes: Vec::new(), ..accepted }, &["the connecting end opened no further subflow"]),
    ]);
}
