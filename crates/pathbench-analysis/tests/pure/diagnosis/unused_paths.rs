//! Paths that never carried anything and never fell silent.

use super::*;
use DiagnosisKind::{Backup, NeverEstablished, NoRoute, NotChosen, Stale};
use pathbench_analysis::verdict::QuicPaths;
use pathbench_record::connection::{PathEvent, PathEventKind};
use pathbench_record::time::Timestamp;

/// An open subflow without data.
fn idle() -> Case {
    Series::new().idle(5000.0).mptcp()
}

/// No subflow on `wlan`.
fn missing() -> Case {
    Case::of(Transport::Mptcp, Vec::new())
}

fn failing(errno: i32) -> MptcpEvent {
    let [local, remote] = [WLAN, SERVER].map(|address| Some((address, 0).into()));
    MptcpEvent { local, remote, error: Some(errno as u8), ..MptcpEvent::default() }
}

fn with_last(change: impl Fn(&mut PathFigures)) -> Case {
    let mut case = idle();
    let last = case.connection.paths.iter_mut().find_map(|path| path.last.as_mut());
    change(last.expect("a subflow"));
    case
}

fn with_counter(name: &str) -> Case {
    let mut case = missing();
    case.connection.counters = [(format!("MPTcpExt.{name}"), 1)].into();
    case
}

fn with_setup(setup: LocalSetup) -> Case {
    let mut case = missing();
    case.connection.setup = Some(LocalSetup { initial: Some(ETH), addresses: vec![ETH, WLAN], ..setup });
    case
}

#[test]
fn an_idle_path_was_not_chosen() {
    let found = idle().only();
    check(&found, NotChosen, &["open and healthy", "5.00 ms", "too short or too slow"], &["tcp_wmem"]);
    assert_eq!((found.from_ms, found.to_ms), (None, None));
}

#[test]
fn an_unused_backup_path_was_not_needed() {
    let mut case = idle();
    case.planned[1].backup = Some(true);
    check(&case.only(), Backup, &["marked backup"], &["ip mptcp endpoint change 10.0.1.1 nobackup"]);
    check(&with_last(|last| last.backup = Some(true)).only(), Backup, &["marked backup"], &["none if"]);
}

#[test]
fn a_subflow_without_a_completed_handshake_was_never_established() {
    let case = with_last(|last| last.state = PathState::Opening);
    check(&case.only(), NeverEstablished, &["handshake was never completed"], &["firewall"]);
    let mut case = with_last(|last| (last.state, last.bytes_acked) = (PathState::Closed, 1));
    case.connection.join_failures = vec![failing(libc::ECONNRESET)];
    check(
        &case.only(),
        NeverEstablished,
        &["closed before it carried anything", "was reset"],
        &["ip mptcp limits"],
    );
    case.connection.join_failures = vec![failing(libc::ENETUNREACH)];
    check(&case.only(), NoRoute, &["closed before it carried anything", "has no route"], &["ip rule add"]);
    let case = with_last(|last| last.state = PathState::Closed);
    check(&case.only(), Stale, &["closed when it had carried"], &[]);
}

#[test]
fn a_path_without_a_subflow_has_its_reason() {
    let mut unreachable = missing();
    unreachable.connection.join_failures = vec![failing(libc::EHOSTUNREACH)];
    let mut refused = missing();
    refused.connection.join_failures = vec![failing(libc::ECONNREFUSED)];
    let sound = LocalSetup { subflow_limit: 2, endpoints: vec![WLAN], ..LocalSetup::default() };
    let cases: Vec<(Case, DiagnosisKind, &str, &str)> = vec![
        (unreachable, NoRoute, "has no route", "ip rule add from 10.0.1.1 table N"),
        (with_counter("MPJoinSynTxConnectErr"), NoRoute, "no route from its address", "dev wlan0 table N"),
        (refused, NeverEstablished, "was reset", "firewall"),
        (with_counter("MPJoinSynTx"), NeverEstablished, "never agreed to one", "firewall"),
        (missing(), NeverEstablished, "no join was seen", "ip mptcp endpoint"),
        (with_setup(LocalSetup::default()), NeverEstablished, "is 0 on this host", "ip mptcp limits"),
        (
            with_setup(LocalSetup { peer_subflow_limit: Some(0), ..sound.clone() }),
            NeverEstablished,
            "is 0 on the peer",
            "ip mptcp limits",
        ),
        (
            with_setup(LocalSetup { endpoints: vec![ETH], ..sound.clone() }),
            NeverEstablished,
            "none of its addresses is an MPTCP endpoint",
            "ip mptcp endpoint",
        ),
        (with_setup(sound), NeverEstablished, "no join was seen", ""),
    ];
    for (case, kind, because, remedy) in cases {
        check(&case.only(), kind, &[because], &[remedy]);
    }
}

#[test]
fn a_path_taken_down_before_the_run_names_the_event() {
    let case = missing().with_event(event(EventSource::Scenario, 0.0, "down", "wlan"));
    check(
        &case.only(),
        NeverEstablished,
        &["the scenario's `down wlan` at 0.0 s took the path away"],
        &["none needed"],
    );
    let case = missing().with_event(event(EventSource::Link, 0.0, "carrier-down", "wlan"));
    check(&case.only(), NeverEstablished, &["`carrier-down wlan`"], &["bring interface wlan0 back"]);
}

#[test]
fn a_run_that_ends_in_the_silence_is_judged_by_the_same_signs() {
    let found = Series::new().stuck(800.0, 90_000).mptcp().only();
    check(&found, DiagnosisKind::MtuBlackHole, &["no segment of 8948"], &["pathbench mtu"]);
    // Without a timeout there is no sign.
    check(&Series::new().stuck(200.0, 90_000).mptcp().only(), NotChosen, &[], &[]);
}

#[test]
fn a_run_over_one_path_has_no_diagnosis_of_others() {
    Series::new().idle(5000.0).tcp().has_none();
    let mut fell_back = idle();
    fell_back.connection.negotiation = Negotiation::NotAsked;
    fell_back.has_none();
    // Without any delivered byte, the scheduler is not the reason.
    let mut nothing = idle();
    for path in &mut nothing.connection.paths {
        path.delivered_bytes = 0;
    }
    nothing.has_none();
}

fn mpquic(kinds: Vec<PathEventKind>) -> Case {
    let mut case = Case::of(Transport::Mpquic, Vec::new());
    let asked = |name: &str, address| ClientPath {
        name: name.to_owned(),
        addresses: vec![address],
        ..ClientPath::default()
    };
    let event = |(index, kind)| PathEvent {
        at: Timestamp::from_nanos(index as u64),
        path: Some(1),
        local: Some(WLAN),
        remote: None,
        kind,
    };
    case.connection.quic = Some(QuicPaths {
        asked: vec![asked("eth", ETH), asked("wlan", WLAN)],
        events: kinds.into_iter().enumerate().map(event).collect(),
        ..QuicPaths::default()
    });
    case
}

#[test]
fn paths_of_mpquic_have_their_reasons() {
    use PathEventKind::{
        InterfaceGone, PathAbandoned, PathEstablished, PathOpened, PathRefused, PathSuspended,
    };
    let abandoned = || PathAbandoned { reason: "no answer".to_owned() };
    let cases: Vec<(Vec<PathEventKind>, DiagnosisKind, &str)> = vec![
        (vec![], NeverEstablished, "never opened"),
        (vec![PathOpened], NeverEstablished, "datagrams of 1200 bytes"),
        (vec![PathOpened, abandoned()], NeverEstablished, "never validated: no answer"),
        (vec![PathRefused { reason: "no ids".to_owned() }], NeverEstablished, "no ids"),
        (vec![PathEstablished, abandoned()], Stale, "given up: no answer"),
        (vec![PathEstablished, InterfaceGone { change: "link down".to_owned() }], Stale, "link down"),
        (vec![PathEstablished, PathSuspended], Stale, "no packet arrived"),
        (vec![PathEstablished], NotChosen, "`lowest-rtt` took others"),
    ];
    for (events, kind, because) in cases {
        check(&mpquic(events).only(), kind, &[because], &[]);
    }
    let mut backup = mpquic(vec![PathEstablished]);
    if let Some(quic) = &mut backup.connection.quic {
        quic.asked[1].backup = Some(true);
    }
    check(&backup.only(), Backup, &["marked backup"], &["none if"]);
}
