//! Series recorded from Linux, and their known causes.

use super::*;
use DiagnosisKind::{MtuBlackHole, Stale};
use pathbench_record::directory::ResultDirectory;

/// A table of `recorded/`: its second line names the columns.
fn read(table: &str, side: Side) -> Vec<Sample> {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let fields: Vec<&str> = row.split(' ').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a count");
        let figures = PathFigures {
            state: match fields[2] {
                "open" => PathState::Open,
                "closed" => PathState::Closed,
                _ => PathState::Opening,
            },
            bytes_sent: number(3),
            bytes_acked: number(4),
            retransmitted_bytes: number(5),
            packets_received: Some(number(6)),
            backoff: number(7) as u32,
            cwnd_bytes: number(8),
            mss_bytes: number(9) as u32,
            pmtu_bytes: number(10) as u32,
            srtt_ms: fields[11].parse().expect("milliseconds"),
            ..figures(number(1) as u32)
        };
        Sample { side, ..sample(fields[0].parse().expect("milliseconds"), figures) }
    })
    .collect()
}

macro_rules! recorded {
    ($transport:ident, $name:literal, $side:ident) => {{
        let samples = read(include_str!(concat!("recorded/", $name, ".txt")), Side::$side);
        assert!(samples.len() > 20, "{} samples", samples.len());
        let mut case = Case::of(Transport::$transport, samples);
        case.senders = vec![Side::$side];
        case
    }};
}

#[test]
fn black_holes_of_a_whole_run() {
    for case in [
        recorded!(Mptcp, "black_hole", Client),
        recorded!(Mptcp, "black_hole_download", Server),
        recorded!(Tcp, "black_hole_tcp", Client),
    ] {
        let found = case.only();
        check(&found, MtuBlackHole, &["handshake passed", "no segment of 8948 bytes"], &["path wlan"]);
        assert_eq!((found.from_ms, found.to_ms, found.side), (None, None, case.senders[0]));
    }
}

#[test]
fn a_black_hole_until_the_kernel_probes_the_mtu() {
    let found = recorded!(Mptcp, "black_hole_probed", Client).only();
    check(&found, MtuBlackHole, &["those of 1024 bytes and less", "proves"], &[]);
    let (from_ms, to_ms) = (found.from_ms.expect("a begin"), found.to_ms.expect("an end"));
    assert!((0.0..400.0).contains(&from_ms) && (6300.0..6900.0).contains(&to_ms), "{found:#?}");
}

#[test]
fn a_black_hole_until_route_and_endpoint_are_corrected() {
    let found = recorded!(Mptcp, "black_hole_remedied", Client).only();
    check(&found, MtuBlackHole, &["those of 1448 bytes and less", "proves"], &[]);
    assert!(found.to_ms.is_some_and(|to_ms| (5700.0..6100.0).contains(&to_ms)), "{found:#?}");
}

#[test]
fn a_link_that_dies_in_mid_run() {
    let case = recorded!(Mptcp, "dead_wire", Client);
    let found = case.only();
    check(&found, Stale, &["not known"], &["pathbench mtu"]);
    assert!(found.from_ms.is_some_and(|from_ms| (5600.0..6000.0).contains(&from_ms)), "{found:#?}");
    let found = case.with_event(set(5750.0, "wlan", "path_mtu_bytes", 1500)).only();
    check(&found, MtuBlackHole, &["MTU 1500 bytes"], &["mtu 1500"]);
}

#[test]
fn healthy_connections_have_no_diagnosis() {
    recorded!(Mptcp, "probing_all_the_time", Client).has_none();
    recorded!(Mptcp, "sound", Client).has_none();
}

#[test]
fn results_of_earlier_versions_get_no_diagnosis() {
    let golden = pathbench_testkit::checkout().join("crates/pathbench-record/tests/golden");
    let mut seen = 0;
    for entry in golden.read_dir().expect("golden results") {
        let result = ResultDirectory::open(&entry.expect("a directory").path()).expect("a result");
        let (samples, events) =
            (result.lines::<Sample>().expect("samples"), result.lines::<Event>().expect("events"));
        for run in &result.document.runs {
            let of_path = |name: &str| samples.items.iter().rev().find(|sample| sample.path == name);
            let case = Case {
                transport: run.transport,
                senders: vec![Side::Client, Side::Server],
                planned: run.paths.iter().map(|path| planned(&path.name, WLAN)).collect(),
                samples: samples.items.iter().filter(|sample| sample.run == run.id).cloned().collect(),
                events: events.items.iter().filter(|event| event.run == run.id).cloned().collect(),
                connection: VerdictInput {
                    requested: true,
                    negotiation: Negotiation::Negotiated,
                    paths: run
                        .paths
                        .iter()
                        .map(|path| PathDelivery {
                            name: path.name.clone(),
                            delivered_bytes: path.bytes_delivered,
                            last: of_path(&path.name).map(|sample| sample.figures.clone()),
                            stage: None,
                        })
                        .collect(),
                    ..VerdictInput::default()
                },
            };
            assert!(case.samples.len() >= 4 && case.planned.len() == 2, "{}", run.id);
            assert_eq!(case.diagnoses(), [], "{}", run.id);
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} runs");
}
