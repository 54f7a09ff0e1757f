//! `--json-stream`: every line is a live record, in order, and the intervals agree with the result. `--tui`: a screen in a
//! terminal of tmux(1).

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]
use crate::support;
use crate::support::standing::{Lab, SERVER};
use crate::support::{Finished, TWO_PATHS, Workplace, assert_valid, binary, finish};
use pathbench_record::live::{LiveInterval, LiveRecord};
use std::collections::BTreeMap;

/// The records of a command, the last of which reports the exit code.
#[track_caller]
fn records(finished: &Finished) -> Vec<LiveRecord> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let records: Vec<LiveRecord> = finished.stdout.lines().map(parse).collect();
    let Some(LiveRecord::End(end)) = records.last() else { panic!("no end: {finished:#?}") };
    assert_eq!(Some(i32::from(end.exit_code)), finished.code, "{finished:#?}");
    assert_eq!(records.iter().filter(|one| matches!(one, LiveRecord::End(_))).count(), 1);
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("live.jsonl"), &finished.stdout).unwrap();
    assert_valid(&[place.path().to_owned()]);
    records
}

fn intervals<'a>(records: &'a [LiveRecord], run: &str) -> Vec<&'a LiveInterval> {
    let of_run = |record: &'a LiveRecord| match record {
        LiveRecord::Interval(interval) if interval.run == run => Some(interval),
        _ => None,
    };
    records.iter().filter_map(of_run).collect()
}

/// The intervals of each run join from its first byte on, lie between its begin and its end, and add up to the bytes that
/// the run delivered.
#[track_caller]
fn assert_whole(records: &[LiveRecord], runs: usize) {
    let mut begun: BTreeMap<&str, bool> = BTreeMap::new();
    for record in records {
        match record {
            LiveRecord::RunStart(start) => assert!(begun.insert(&start.run, false).is_none()),
            LiveRecord::Interval(interval) => assert_eq!(begun.get(interval.run.as_str()), Some(&false)),
            LiveRecord::RunEnd(end) => {
                assert_eq!(begun.insert(&end.run, true), Some(false));
                assert!(end.completed && end.valid, "{end:#?}");
                let intervals = intervals(records, &end.run);
                assert!(!intervals.is_empty());
                let mut until_ms = 0.0;
                for interval in &intervals {
                    assert!((interval.from_ms - until_ms).abs() < 1e-3 && interval.to_ms >= until_ms);
                    until_ms = interval.to_ms;
                }
                let bytes = intervals.iter().map(|one| one.upload_bytes + one.download_bytes).sum::<u64>();
                if end.goodput_mbps.is_some() {
                    assert_eq!(bytes, end.delivered_bytes, "{}", end.run);
                }
            }
            _ => {}
        }
    }
    assert_eq!(begun.len(), runs);
    assert!(begun.values().all(|ended| *ended), "{begun:?}");
}

#[test]
fn the_stream_of_a_lab_run_agrees_with_its_result() {
    let work = Workplace::new();
    let scenario = format!(
        "{TWO_PATHS}\n[[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"down\"\n\
         [[event]]\nat = \"1500ms\"\npath = \"wlan\"\naction = \"up\"\n\
         [run]\ntransports = [\"mptcp\", \"quic\"]\nduration = \"2500ms\"\n"
    );
    let (file, second) = (work.scenario("events", &scenario), work.scenario("quick", support::QUICK));
    let command = ["lab", "run", &file, &second, "--no-calibration", "--json-stream", "--out", "out"];
    let finished = work.run(&command).expect(0);
    let records = records(&finished);
    assert_whole(&records, 3);
    let starts = records.iter().filter(|one| matches!(one, LiveRecord::Start(_))).count();
    let results = records.iter().filter(|one| matches!(one, LiveRecord::Result(_))).count();
    // Both scenarios are one study.
    assert_eq!((starts, results), (1, 2));
    for run in ["mptcp", "quic"] {
        let kinds: Vec<String> = records
            .iter()
            .filter_map(|record| match record {
                LiveRecord::Event(event) if event.run.contains(run) && event.due_ms.is_some() => {
                    Some(event.kind.to_string())
                }
                _ => None,
            })
            .collect();
        assert_eq!(kinds, ["down", "up"], "{run}: {finished:#?}");
    }
    let mptcp = records.iter().find_map(|record| match record {
        LiveRecord::RunEnd(end) if end.run.contains("mptcp") => Some(end),
        _ => None,
    });
    let mptcp = mptcp.unwrap();
    // Each path's acknowledged bytes, without retransmissions of the other path, are at least what it delivered alone.
    for path in &mptcp.paths {
        let live: u64 = intervals(&records, &mptcp.run)
            .iter()
            .flat_map(|interval| interval.paths.iter().filter(|one| one.name == path.name))
            .map(|one| one.bytes)
            .sum();
        assert!(live > path.bytes_delivered / 2, "{path:?}: {live}");
    }
}

#[test]
fn parallel_runs_name_their_intervals() {
    let work = Workplace::new();
    let rest = "[run]\ntransports = [\"tcp\", \"quic\"]\npattern = \"interactive\"\nduration = \"2s\"\n";
    let file = work.scenario("parallel", &format!("{TWO_PATHS}\n{rest}"));
    let command =
        ["lab", "run", &file, "--no-calibration", "--jobs", "2", "--json-stream", "--quiet", "--out", "out"];
    let records = records(&work.run(&command).expect(0));
    assert_whole(&records, 2);
    for record in &records {
        if let LiveRecord::RunEnd(end) = record {
            let intervals = intervals(&records, &end.run);
            let messages: u32 =
                intervals.iter().filter_map(|one| one.delay_ms.as_ref()).map(|delay| delay.messages).sum();
            assert!(messages > 5, "{intervals:#?}");
        }
    }
}

#[test]
fn test_roam_and_mtu_stream_inside_a_lab() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open", "--max-tests-per-client", "4"]);
    let program = binary();
    let run = |command: &[&str]| {
        let fixed = [program.to_str().unwrap()];
        finish(&mut lab.exec("client", &[&fixed, command, &["--json-stream"]].concat()))
    };
    let access = ["--fingerprint", &server.fingerprint, "--no-report"];

    let options = ["--transports", "tcp,mpquic", "--patterns", "ping,throughput-upload", "--repeat", "1"];
    let command = [&["test", SERVER, "--out", "suite", "--duration", "1s"], &access[..], &options].concat();
    // tcp over each path alone, mpquic over both.
    assert_whole(&records(&run(&command)), 6);

    let options = ["--transports", "mptcp,mpquic", "--duration", "3s", "--out", "roam"];
    let of_roam = records(&run(&[&["roam", SERVER], &access[..], &options].concat()));
    assert_whole(&of_roam, 2);
    assert!(of_roam.iter().any(|one| matches!(one, LiveRecord::ProbeInterval(_))), "{of_roam:#?}");
    let has_delay = |one: &LiveRecord| matches!(one, LiveRecord::Interval(one) if one.delay_ms.is_some());
    assert!(of_roam.iter().any(has_delay), "{of_roam:#?}");

    let of_mtu = records(&run(&["mtu", SERVER, "--watch", "--interval", "300ms", "--duration", "8s"]));
    let paths: Vec<_> = of_mtu
        .iter()
        .filter_map(|one| if let LiveRecord::MtuPath(path) = one { Some(path.path.as_str()) } else { None })
        .collect();
    assert!(paths.contains(&"eth") && paths.contains(&"wlan") && paths.len() > 2, "{of_mtu:#?}");
    assert_eq!(run(&["mtu", SERVER]).code, Some(2), "without --watch");
}

#[test]
fn without_a_terminal_progress_comes_as_lines() {
    let work = Workplace::new();
    let file = work.scenario("quick", support::QUICK);
    let finished = work.run(&["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]).expect(0);
    finished.reports(&["standard error is no terminal; progress as lines", "run 1 of 1: tcp throughput"]);
}
