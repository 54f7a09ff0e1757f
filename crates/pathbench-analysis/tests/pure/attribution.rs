//! A path is where packets left, not what their address says; link and interface counters are the second witness.

use crate::assembly_any_record::setting;
use pathbench_analysis::assembly::{AssembledRun, Evidence, RunSetting, assemble};
use pathbench_analysis::attribution::{CarriedBytes, SubflowSeen, attribute};
use pathbench_analysis::mptcp_setup::LocalSetup;
use pathbench_record::connection::{InForce, Negotiation};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::{DataDirection, Direction};
use pathbench_record::document::DiagnosisKind;
use pathbench_record::end::{EndRecord, PathSample, StreamRecord, TestId};
use pathbench_record::pattern::ThroughputParameters;
use pathbench_record::sample::{PathFigures, PathState, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 9, 1)), 4433);
const COMMANDS: [&str; 2] =
    ["ip route add default via 10.0.1.2 dev path1 table 101", "ip rule add from 10.0.1.1 lookup 101"];
/// Payload of each of two subflows.
const MB: u64 = 1_000_000;
/// Header bytes of 1 MB in packets of full size.
const HEADERS: u64 = MB / 1420 * 86;
const DIFFERENCE: &str = "they differ by more than 5 %";

fn client_end(path: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, path, 1], 40_000 + u16::from(path)))
}

fn figures(side: Side, path: u8, left_by: Option<&str>, [sent, received]: [u64; 2]) -> PathFigures {
    let (local, remote) = match side {
        Side::Client => (client_end(path), SERVER),
        Side::Server => (SERVER, client_end(path)),
    };
    PathFigures {
        subflow: u32::from(path) + 1,
        interface: left_by.map(str::to_owned),
        state: PathState::Open,
        bytes_sent: sent,
        bytes_acked: sent,
        packets_sent: Some(sent.max(received) / 1420),
        bytes_received: received,
        srtt_ms: 10.0,
        ..PathFigures::new(local, remote)
    }
}

fn record(side: Side, direction: DataDirection, paths: Vec<PathFigures>) -> EndRecord {
    let series = |bytes: u64| {
        let first = (bytes > 0).then_some(Timestamp::default());
        DeliverySeries {
            bytes: vec![bytes],
            first,
            last: first,
            ..DeliverySeries::starting_at(Timestamp::default())
        }
    };
    let sum = |of: fn(&PathFigures) -> u64| paths.iter().map(of).sum::<u64>();
    let [sent_bytes, received_bytes] = [sum(|one| one.bytes_sent), sum(|one| one.bytes_received)];
    let parameters = ThroughputParameters { direction, ..ThroughputParameters::default() }.into();
    EndRecord {
        side,
        test: TestId([7; 16]),
        transport: Transport::Mptcp,
        parameters,
        started: Timestamp::default(),
        ended: Timestamp::from_nanos(1_000_000_000),
        deliveries: series(received_bytes),
        offered: series(sent_bytes),
        messages: Vec::new(),
        response: None,
        datagrams: None,
        path_events: Vec::new(),
        handshake: None,
        fct: None,
        rate_limit_bps: None,
        mptcp_counters: None,
        samples: paths
            .iter()
            .map(|figures| PathSample { at: Timestamp::default(), stream: 0, figures: figures.clone() })
            .collect(),
        streams: vec![StreamRecord {
            stream: 0,
            local: paths[0].local,
            peer: paths[0].remote,
            in_force: InForce {
                protocol: "mptcp".to_owned(),
                congestion: "cubic".to_owned(),
                send_buffer_bytes: 0,
                receive_buffer_bytes: 0,
                no_delay: false,
                encryption: None,
            },
            multipath: Negotiation::Negotiated,
            mptcp: None,
            paths,
            received_bytes,
            sent_bytes,
            completed: true,
            error: None,
            hung_ns: None,
        }],
        samples_thinned_by: 1,
        completed: true,
        errors: Vec::new(),
        cpu: None,
        tcp_buffers: None,
    }
}

/// The setting of two paths; the remedy of the second is known.
fn two_paths(direction: DataDirection) -> RunSetting {
    let setup = LocalSetup {
        subflow_limit: 2,
        source_routes: [([10, 0, 1, 1].into(), COMMANDS.map(str::to_owned).to_vec())].into(),
        ..LocalSetup::default()
    };
    let parameters = ThroughputParameters { direction, ..ThroughputParameters::default() };
    RunSetting { mptcp: Some(setup), ..setting(parameters.into()) }
}

/// A run of 1 MB on each of two subflows, which left by these interfaces; `carried` by the links of both paths.
fn run(direction: Direction, left_by: [Option<&str>; 2], carried: Option<[u64; 2]>) -> AssembledRun {
    let (of_run, client, server) = match direction {
        Direction::Upload => (DataDirection::Upload, [MB, 0], [0, MB]),
        Direction::Download => (DataDirection::Download, [0, MB], [MB, 0]),
    };
    let ends = |side, bytes| {
        (0..2)
            .map(|path| {
                figures(side, path, left_by[usize::from(path)].filter(|_| side == Side::Client), bytes)
            })
            .collect()
    };
    let setting = two_paths(of_run);
    let label = TransportLabel { transport: Transport::Mptcp, path: None };
    let link = |bytes| match direction {
        Direction::Upload => CarriedBytes { from_client: bytes, to_client: 60_000, only_of_run: true },
        Direction::Download => CarriedBytes { from_client: 60_000, to_client: bytes, only_of_run: true },
    };
    let names = ["path0".to_owned(), "path1".to_owned()];
    assemble(&Evidence {
        client: Some(record(Side::Client, of_run, ends(Side::Client, client))),
        server: Some(record(Side::Server, of_run, ends(Side::Server, server))),
        completed: true,
        carried: carried.map(|bytes| names.into_iter().zip(bytes.map(link)).collect()).unwrap_or_default(),
        ..Evidence::new("r".to_owned(), &setting, &label, 1)
    })
}

fn names(run: &AssembledRun) -> Vec<(&str, u64)> {
    run.record.paths.iter().map(|path| (path.name.as_str(), path.bytes_delivered)).collect()
}

fn differences(run: &AssembledRun) -> Vec<&String> {
    run.record.notes.iter().filter(|note| note.contains(DIFFERENCE)).collect()
}

/// Two subflows with two addresses that left by one interface: the verdict was "used: 2 paths", while the second link
/// carried 500 bytes.
#[test]
fn two_subflows_that_leave_by_one_interface_are_one_path() {
    for carried in [None, Some([2 * (MB + HEADERS), 500])] {
        let run = run(Direction::Upload, [Some("path0"), Some("path0")], carried);
        assert_eq!(names(&run), [("path0", 2 * MB)]);
        let path = &run.record.paths[0];
        assert!((path.share - 1.0).abs() < f64::EPSILON && path.subflows == 2, "{path:#?}");
        let verdict = &run.record.multipath;
        assert_eq!((verdict.negotiated, verdict.used, verdict.paths_used), (true, false, 1));
        let words = ["2 subflows", "one path, path0", "from 10.0.1.1 (path1)", COMMANDS[0], COMMANDS[1]];
        for word in words {
            assert!(verdict.reason.contains(word), "{word}: {}", verdict.reason);
        }
        assert!(run.samples.iter().all(|sample| sample.path == "path0"));
        let diagnosis = &run.record.diagnoses[0];
        assert_eq!((diagnosis.path.as_str(), diagnosis.kind), ("path1", DiagnosisKind::NoRoute));
        assert!(diagnosis.remedy.contains(COMMANDS[1]), "{diagnosis:#?}");
        assert_eq!(differences(&run), [] as [&String; 0]);
    }
}

#[test]
fn two_subflows_that_leave_by_their_interfaces_are_two_paths() {
    let expected = [("path0", MB), ("path1", MB)];
    for left_by in [[Some("path0"), Some("path1")], [None, None]] {
        for direction in Direction::BOTH {
            let run = run(direction, left_by, Some([MB + HEADERS; 2]));
            assert_eq!(names(&run), expected);
            assert!(run.record.multipath.used && run.record.notes.is_empty(), "{:#?}", run.record);
        }
    }
}

/// The server's packets follow its own routes: to the address of the second path over the second link.
#[test]
fn a_download_takes_the_path_on_which_it_arrived() {
    let left_by = [Some("path0"), Some("path0")];
    let arrived = run(Direction::Download, left_by, Some([MB + HEADERS; 2]));
    assert_eq!(names(&arrived), [("path0", MB), ("path1", MB)]);
    assert!(arrived.record.multipath.used, "{:#?}", arrived.record.multipath);
    // The upload of the same connection would be one path.
    assert!(
        arrived.record.notes.iter().any(|note| note.contains(COMMANDS[1])),
        "{:#?}",
        arrived.record.notes
    );

    // Behind NAT, or where the server's rule is missing: all bytes arrived on the first link.
    for left_by in [left_by, [Some("path0"), Some("path1")]] {
        let run = run(Direction::Download, left_by, Some([2 * (MB + HEADERS), 500]));
        assert_eq!(names(&run), [("path0", 2 * MB)]);
        assert_eq!((run.record.multipath.used, differences(&run).len()), (false, 0));
    }

    // No interface received so much.
    let unknown = run(Direction::Download, left_by, Some([500, 500]));
    assert_eq!(names(&unknown), [("path0", MB), ("path1", MB)]);
    assert!(
        unknown.record.notes.iter().any(|note| note.starts_with("cannot tell")),
        "{:#?}",
        unknown.record.notes
    );
}

#[test]
fn counters_that_contradict_the_figures_are_noted() {
    let both = [Some("path0"), Some("path1")];
    let upload = |carried| run(Direction::Upload, both, Some(carried));
    let sound = MB + HEADERS;
    for (carried, noted) in [
        ([sound, sound], 0),
        ([sound * 96 / 100, sound * 102 / 100], 0),
        // The second subflow left by the first link later.
        ([2 * sound, 500], 2),
        ([sound, MB * 90 / 100], 1),
        ([sound * 115 / 100, sound], 1),
    ] {
        let run = upload(carried);
        assert_eq!(differences(&run).len(), noted, "{carried:?}: {:#?}", run.record.notes);
    }
}

#[test]
fn the_address_decides_only_where_the_interface_is_unknown() {
    let seen = |owner: &str, left_by: Option<&str>| SubflowSeen {
        owner: owner.to_owned(),
        left_by: left_by.map(str::to_owned),
        received_bytes: MB,
    };
    let rows =
        [seen("eth", None), seen("eth", Some("wlan")), seen("10.9.9.9", Some("tun")), seen("10.9.9.9", None)];
    let found = attribute(&rows, &BTreeMap::new());
    let found: Vec<_> = found.iter().map(|path| (path.upload.as_str(), path.download.as_str())).collect();
    assert_eq!(found, [("eth", "eth"), ("wlan", "wlan"), ("tun", "tun"), ("10.9.9.9", "10.9.9.9")]);
}
