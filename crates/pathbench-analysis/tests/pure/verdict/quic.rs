use pathbench_analysis::verdict::*;
use pathbench_record::connection::Negotiation;
use pathbench_record::connection::{PathEvent, PathEventKind, Scheduler};
use pathbench_record::network::ClientPath;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;

const ETH: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const WLAN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 1));

fn on_wlan(kinds: Vec<PathEventKind>) -> Vec<PathEvent> {
    let event = |(index, kind)| PathEvent {
        at: Timestamp::from_nanos(index as u64),
        path: Some(1),
        local: Some(WLAN),
        remote: None,
        kind,
    };
    kinds.into_iter().enumerate().map(event).collect()
}

fn input(delivered: [u64; 2], kinds: Vec<PathEventKind>) -> VerdictInput {
    let paths = ["eth", "wlan"].into_iter().zip(delivered).map(|(name, delivered_bytes)| PathDelivery {
        name: name.to_owned(),
        delivered_bytes,
        last: None,
        stage: None,
    });
    let asked = [("eth", ETH), ("wlan", WLAN)].map(|(name, address)| ClientPath {
        name: name.to_owned(),
        addresses: vec![address],
        ..ClientPath::default()
    });
    VerdictInput {
        requested: true,
        negotiation: Negotiation::Negotiated,
        paths: paths.filter(|path| path.delivered_bytes > 0).collect(),
        quic: Some(QuicPaths {
            asked: asked.into(),
            events: on_wlan(kinds),
            scheduler: Scheduler::LowestRtt,
        }),
        ..VerdictInput::default()
    }
}

fn abandoned(reason: &str) -> PathEventKind {
    PathEventKind::PathAbandoned { reason: reason.to_owned() }
}

fn given_up() -> PathEventKind {
    PathEventKind::PathGivenUp { reason: "no answer".to_owned() }
}

#[test]
fn two_paths_with_their_share_are_multipath() {
    let verdict = multipath_verdict(&input([700, 300], vec![PathEventKind::PathEstablished]));
    assert!(verdict.requested && verdict.negotiated && verdict.used);
    assert_eq!(verdict.reason, "2 paths carried the delivered bytes: eth 70.0 %, wlan 30.0 %");
}

#[test]
fn a_peer_without_multipath_is_named() {
    let not = VerdictInput { negotiation: Negotiation::NotNegotiated, ..input([1000, 0], Vec::new()) };
    let verdict = multipath_verdict(&not);
    assert!(verdict.requested && !verdict.negotiated && !verdict.used);
    assert!(verdict.reason.starts_with("the peer did not agree to Multipath QUIC"), "{}", verdict.reason);
}

#[test]
fn every_cause_of_a_lost_second_path_has_its_reason() {
    use PathEventKind::{
        InterfaceBack, InterfaceGone, PathEstablished, PathOpened, PathRefused, PathResumed, PathSuspended,
    };
    let gone = || InterfaceGone { change: "link down".to_owned() };
    let cases = [
        ([1000, 0], vec![], "path wlan was never opened"),
        ([1000, 0], vec![PathOpened], "path wlan was not validated before the end"),
        (
            [1000, 0],
            vec![PathRefused { reason: "no connection ids".to_owned() }],
            "path wlan could not be opened: no connection ids",
        ),
        ([1000, 0], vec![PathOpened, abandoned("timed out")], "path wlan was never validated: timed out"),
        (
            [1000, 0],
            vec![PathOpened, PathEstablished, abandoned("by the peer")],
            "path wlan was given up before it carried data: by the peer",
        ),
        ([10_000, 1], vec![PathEstablished, abandoned("idle")], "before it was given up: idle"),
        (
            [10_000, 1],
            vec![PathEstablished, gone(), abandoned("closed")],
            "before its interface or address was removed (link down)",
        ),
        (
            [10_000, 1],
            vec![PathEstablished, PathSuspended, given_up(), abandoned("at this end")],
            "before it was given up: no answer",
        ),
        ([10_000, 1], vec![PathEstablished, PathSuspended], "no packet arrived on it any more"),
        (
            [10_000, 1],
            vec![PathEstablished, PathSuspended, PathResumed],
            "too short or too slow to need it under the scheduler `lowest-rtt`",
        ),
        (
            [1000, 0],
            vec![gone(), InterfaceBack { change: "link up".to_owned() }, PathEstablished],
            "path wlan was open, but no data arrived over it",
        ),
    ];
    for (delivered, events, words) in cases {
        let verdict = multipath_verdict(&input(delivered, events.clone()));
        assert!(verdict.negotiated && !verdict.used);
        assert!(verdict.reason.contains(words), "{events:?}: {}", verdict.reason);
    }
}

#[test]
fn an_unused_backup_path_is_no_fault() {
    let mut backup = input([1000, 0], vec![PathEventKind::PathEstablished]);
    if let Some(quic) = &mut backup.quic {
        quic.scheduler = Scheduler::backup();
    }
    let reason = multipath_verdict(&backup).reason;
    assert!(reason.contains("only while the preferred path is in trouble"), "{reason}");
    if let Some(quic) = &mut backup.quic {
        quic.asked[1].backup = Some(true);
    }
    let reason = multipath_verdict(&backup).reason;
    assert!(reason.contains("marked backup"), "{reason}");
    if let Some(quic) = &mut backup.quic {
        quic.asked.pop();
    }
    let reason = multipath_verdict(&backup).reason;
    assert!(reason.ends_with("only one path to the server: eth"), "{reason}");
}
