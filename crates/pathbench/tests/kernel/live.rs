//! `--json-stream`: every line is a live record, in order, and the intervals agree with the result. `--tui`: a screen in a
//! terminal of tmux(1).

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]
use crate::support;
use crate::support::processes::{Process, signal};
use crate::support::standing::{Lab, SERVER};
use crate::support::{Finished, TWO_PATHS, Workplace, assert_valid, binary, finish, within};
use pathbench_record::live::{LiveInterval, LiveRecord};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

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
    assert_whole(&records(&run(&command)), 4);

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

/// A command in a terminal of 80 × 24, and its exit code and the terminal's mode after it.
struct Pane<'a> {
    work: &'a Workplace,
}

/// Longest wait for a text on the terminal.
const SOON: Duration = Duration::from_secs(60);

impl<'a> Pane<'a> {
    fn start(work: &'a Workplace, command: &[&str]) -> Self {
        let pane = Self { work };
        let words: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "{}; echo exit code $?; stty -a | grep -o ' icanon'; sleep 100",
            [&[format!("'{}'", binary().display())][..], &words].concat().join(" ")
        );
        let started = finish(&mut pane.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "sh",
            "-c",
            &script,
        ]));
        started.expect(0);
        pane
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        self.work.prepare(&mut command);
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        command.arg("-S").arg(self.work.path().join("tmux")).args(arguments);
        command
    }

    fn text(&self) -> String {
        finish(&mut self.tmux(&["capture-pane", "-p", "-S", "-200"])).stdout
    }

    fn press(&self, key: &str) {
        finish(&mut self.tmux(&["send-keys", key])).expect(0);
    }

    /// Waits until the terminal shows all `texts`.
    #[track_caller]
    fn shows(&self, texts: &[&str]) -> String {
        let shown = within(SOON, || texts.iter().all(|text| self.text().contains(text)));
        assert!(shown, "{texts:?}:\n{}", self.text());
        self.text()
    }
}

#[test]
fn the_screen_follows_a_study_and_its_keys_and_restores_the_terminal() {
    let work = Workplace::new();
    let rest = "[run]\ntransports = [\"mptcp\"]\nduration = \"10s\"\nrepeat = 3\n";
    let file = work.scenario("study", &format!("{TWO_PATHS}\n{rest}"));
    let pane = Pane::start(&work, &["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]);
    pane.shows(&["run 1 of 3: mptcp", "Mbit/s per path", "eth   ", "wlan   ", "events"]);
    pane.press("Space");
    let paused = pane.shows(&["PAUSED"]);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(pane.text(), paused);
    pane.press("Space");
    assert!(within(SOON, || !pane.text().contains("PAUSED")));
    pane.press("?");
    pane.shows(&["end the command in good order"]);
    pane.press("Escape");
    assert!(within(SOON, || !pane.text().contains("in good order")));
    pane.shows(&["1 of 3 runs done", "run 2 of 3"]);
    pane.press("1");
    pane.shows(&["run 1 of 3: mptcp throughput", "(an earlier run)"]);
    pane.press("q");
    let end = pane.shows(&["exit code 1", " icanon", "stopped by the user"]);
    assert!(!end.contains("Space pause"), "{end}");
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
    assert!(work.left_behind().is_empty());
}

#[test]
fn a_signal_restores_the_terminal() {
    let work = Workplace::new();
    let file =
        work.scenario("long", &format!("{TWO_PATHS}\n[run]\ntransports = [\"tcp\"]\nduration = \"1m\"\n"));
    let pane = Pane::start(&work, &["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]);
    pane.shows(&["Mbit/s per path", "eth   "]);
    let is_run = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "lab");
    signal(work.processes().into_iter().find(is_run).unwrap().id, Signal::TERM);
    let end = pane.shows(&["exit code 1", " icanon"]);
    assert!(!end.contains("Space pause"), "{end}");
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
}

/// Regression: the thread of the screen read a closed terminal without end, and the command never ended.
#[test]
fn a_closed_terminal_ends_the_command() {
    let work = Workplace::new();
    let rest = "[run]\ntransports = [\"tcp\"]\nduration = \"5m\"\n";
    let file = work.scenario("long", &format!("{TWO_PATHS}\n{rest}"));
    let pane = Pane::start(&work, &["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]);
    pane.shows(&["Mbit/s per path", "eth   "]);
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
    assert!(within(Duration::from_secs(20), || work.processes().is_empty()), "{:#?}", work.processes());
}

#[test]
fn roam_has_the_screen_in_a_host_of_a_lab() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open", "--max-tests-per-client", "4"]);
    let program = binary();
    let exec = ["lab", "exec", "--lab", &lab.name, "client", "--", program.to_str().unwrap(), "roam", SERVER];
    let options =
        ["--fingerprint", &server.fingerprint, "--transports", "mptcp,mpquic", "--no-report", "--tui"];
    let pane = Pane::start(&lab.work, &[&exec[..], &options].concat());
    pane.shows(&["run 2 of 2", "Mbit/s per path", "delay "]);
    pane.press("p");
    pane.shows(&["run 1 of 2", "(an earlier run)"]);
    pane.press("q");
    pane.shows(&["exit code 0", " icanon"]);
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
}

#[test]
fn without_a_terminal_progress_comes_as_lines() {
    let work = Workplace::new();
    let file = work.scenario("quick", support::QUICK);
    let finished = work.run(&["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]).expect(0);
    finished.reports(&["standard error is no terminal; progress as lines", "run 1 of 1: tcp throughput"]);
}
