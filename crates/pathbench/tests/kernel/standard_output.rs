//! Every command with a standard output that cannot be written: a closed pipe, and a full disk.

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]

use crate::support;
use crate::support::help::{HelpPage, pages};
use crate::support::standing::Server;
use crate::support::{Finished, QUICK, Workplace, captured, within};
use pathbench_record::directory::ResultDirectory;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Takes ten minutes unless it is stopped.
const LONG: &str = r#"
[[path]]
name = "eth"
rate = "20mbit"

[run]
transports = ["tcp"]
duration = "10m"
"#;

/// Every command here ends earlier than this.
const SOON: Duration = Duration::from_secs(30);
/// The shells' exit status of a program that SIGPIPE ended.
const CLOSED: i32 = 141;

/// Standard output that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sink {
    Closed,
    Full,
}

impl Sink {
    fn open(self) -> OwnedFd {
        match self {
            Self::Closed => std::io::pipe().unwrap().1.into(),
            Self::Full => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
        }
    }

    /// Runs a command to its end with this standard output.
    fn end_of(self, command: &mut Command) -> Finished {
        let child = command.stdout(Stdio::from(self.open())).stderr(Stdio::piped()).spawn().unwrap();
        // Drop this process's copy of the descriptor; the child keeps its own.
        command.stdout(Stdio::null());
        support::ended(child)
    }
}

/// A directory with everything that a command may need.
struct Stage {
    work: Workplace,
    server: Server,
}

impl Stage {
    fn set() -> Self {
        let work = Workplace::new();
        work.scenario("quick", QUICK);
        let made = work.run(&["lab", "run", "quick.toml", "--no-calibration", "--out", "result"]);
        made.expect(0);
        work.run(&["serve", "key", "key"]).expect(0);
        std::fs::write(work.path().join("topology"), "topoType:MultiIf\npath_c2r_0:20,20\n").unwrap();
        std::fs::write(work.path().join("rates.csv"), "second,mbit/s\n0,4\n1,5\n").unwrap();
        let recorded = "crates/pathbench-trace/tests/recorded/checksums.pcap";
        let capture = pathbench_testkit::checkout().join(recorded);
        std::fs::copy(capture, work.path().join("capture.pcap")).unwrap();
        let server = Server::on_loopback(&work);
        Self { work, server }
    }

    /// The certificate is self-signed.
    fn fingerprint(&self) -> &str {
        &self.server.fingerprint
    }

    /// Every command that writes to standard output, with valid arguments.
    fn commands(&self) -> Vec<Vec<&str>> {
        let port = self.server.port();
        let access = ["127.0.0.1", "--port", port, "--fingerprint", self.fingerprint()];
        let with =
            |command: &[&'static str], options: &[&'static str]| [command, &access[..], options].concat();
        let mtu = |options: &[&'static str]| [&["mtu", "127.0.0.1", "--port", port], options].concat();
        let quick = ["--no-calibration", "--out", "out"];
        vec![
            vec!["--help"],
            vec!["--version"],
            vec!["lab", "run", "--help"],
            [&["lab", "run", "quick.toml"][..], &quick].concat(),
            [&["lab", "run", "quick.toml", "--json"][..], &quick].concat(),
            [&["lab", "run", "quick.toml", "--json-stream"][..], &quick].concat(),
            vec!["lab", "up", "quick.toml", "--name", "unheard"],
            vec!["lab", "list"],
            vec!["lab", "show", "hello"],
            vec!["lab", "check", "quick.toml", "hello"],
            vec!["lab", "import", "topology"],
            vec!["lab", "import-trace", "rates.csv"],
            with(&["test"], &["--transports", "tcp", "--patterns", "ping", "--repeat", "1", "--out", "out"]),
            with(&["test", "--json"], &["--transports", "tcp", "--patterns", "ping", "--repeat", "1"]),
            with(&["roam"], &["--transports", "tcp", "--duration", "1s", "--out", "out"]),
            with(&["roam"], &["--transports", "tcp", "--duration", "1s", "--out", "out", "--json-stream"]),
            mtu(&["--out", "out"]),
            mtu(&["--json"]),
            mtu(&["--watch"]),
            mtu(&["--watch", "--json", "--duration", "2s"]),
            mtu(&["--watch", "--json-stream", "--duration", "2s"]),
            vec!["check"],
            vec!["check", "--json"],
            vec!["check", "127.0.0.1", "--port", port, "--json"],
            vec!["setup"],
            vec!["run", "--json", "--", "true"],
            vec!["submit", "--list"],
            vec!["agent", "--ui", "127.0.0.1:0"],
            vec!["report", "result", "--out", "out"],
            vec!["report", "result", "--json"],
            vec!["trace", "capture.pcap"],
            vec!["trace", "capture.pcap", "--json"],
            vec!["serve", "--open", "--port", "0", "--listen", "127.0.0.1"],
            vec!["serve", "--open", "--port", "0", "--listen", "127.0.0.1", "--json"],
            vec!["serve", "key", "new-key"],
            vec!["serve", "token", "--key", "key"],
            vec!["serve", "certificate", "--cert", "new-cert", "--key", "new-cert-key"],
        ]
    }
}

/// Commands that write nothing to standard output by themselves, or that another test covers.
const OTHERS: [&str; 3] = ["lab exec", "lab down", "collect"];

/// Checks the end of a command, and that no process remains.
#[track_caller]
fn ended_in_good_order(sink: Sink, what: &str, ended: &Finished, work: &Workplace) {
    let complaints: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("pathbench: ")).collect();
    assert!(!ended.stderr.contains("panicked"), "{what}: {ended:#?}");
    match sink {
        Sink::Closed => {
            assert_eq!(ended.code, Some(CLOSED), "{what}: {ended:#?}");
            assert!(complaints.is_empty(), "{what}: {ended:#?}");
        }
        Sink::Full => {
            assert_eq!(ended.code, Some(1), "{what}: {ended:#?}");
            assert_eq!(complaints.len(), 1, "{what}: {ended:#?}");
            let [complaint] = complaints[..] else { unreachable!() };
            assert!(
                complaint.contains("cannot write to standard output: No space left"),
                "{what}: {ended:#?}"
            );
        }
    }
    for result in [work.path().join("out"), work.path().join("pathbench-results")] {
        complete_or_absent(what, &result);
    }
}

/// Checks and removes the result or results in `place`.
#[track_caller]
fn complete_or_absent(what: &str, place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    if place.ends_with("pathbench-results") {
        for name in names {
            complete_or_absent(what, &place.join(name));
        }
    } else if names.iter().any(|name| name == "samples.jsonl") {
        let result = ResultDirectory::open(place).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(result.warning, None, "{what}");
    } else {
        assert!(names.iter().any(|name| name == "report.html"), "{what}: {names:?}");
    }
    std::fs::remove_dir_all(place).unwrap();
}

fn on_every_command(sink: Sink) {
    let stage = Stage::set();
    let before = stage.work.processes().len();
    for command in stage.commands() {
        let what = command.join(" ");
        let begun = Instant::now();
        let ended = sink.end_of(&mut stage.work.pathbench(&command));
        ended_in_good_order(sink, &what, &ended, &stage.work);
        assert!(begun.elapsed() < SOON, "{what} took {:?}", begun.elapsed());
        let left = within(Duration::from_secs(5), || stage.work.processes().len() <= before);
        assert!(left, "{what} left {:#?}", stage.work.processes());
    }
}

#[test]
fn a_closed_pipe_ends_every_command_quietly_and_in_good_order() {
    on_every_command(Sink::Closed);
}

#[test]
fn a_full_disk_ends_every_command_with_one_error() {
    on_every_command(Sink::Full);
}

#[test]
fn no_command_is_left_out() {
    let stage = Stage::set();
    let tested: Vec<String> = stage.commands().iter().map(|command| command.join(" ")).collect();
    let pages = pages();
    let all: Vec<String> = pages.iter().filter(|page| !page.is_group).map(HelpPage::name).collect();
    let is_tested =
        |command: &str| tested.iter().any(|one| one == command || one.starts_with(&format!("{command} ")));
    let missing: Vec<&String> =
        all.iter().filter(|one| !OTHERS.contains(&one.as_str()) && !is_tested(one)).collect();
    assert!(missing.is_empty(), "not tested with a standard output that cannot be written: {missing:?}");
}

#[test]
fn labs_are_taken_down_when_the_output_is_closed() {
    let work = Workplace::new();
    work.scenario("quick", QUICK);
    let names = ["first", "second"].map(|name| format!("{name}-{}", std::process::id()));
    for (sink, code) in [(Sink::Closed, CLOSED), (Sink::Full, 1)] {
        for name in &names {
            work.run(&["lab", "up", "quick.toml", "--name", name]).expect(0);
        }
        sink.end_of(&mut work.pathbench(&["lab", "down", &names[0]])).expect(code);
        sink.end_of(&mut work.pathbench(&["lab", "down", &names[1]])).expect(code);
        assert!(work.left_behind().is_empty(), "{sink:?}");
    }
}

/// Starts a command, closes its standard output after two seconds; returns its result and the time that it took to end.
fn left_by_its_reader(command: &mut Command) -> (Finished, Duration) {
    let mut running = captured(command);
    std::thread::sleep(Duration::from_secs(2));
    assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
    let begun = Instant::now();
    drop(running.stdout.take());
    let ended = support::ended(running);
    (ended, begun.elapsed())
}

#[test]
fn a_run_whose_output_is_closed_ends_and_keeps_its_result() {
    let work = Workplace::new();
    work.scenario("long", LONG);
    let command = ["lab", "run", "long.toml", "--no-calibration", "--out", "out"];
    let (ended, took) = left_by_its_reader(&mut work.pathbench(&command));
    ended_in_good_order(Sink::Closed, "lab run", &ended, &work);
    assert!(took < SOON, "it took {took:?}");
    assert!(work.left_behind().is_empty());
}

#[test]
fn a_roam_whose_output_is_closed_ends_and_keeps_its_result() {
    let stage = Stage::set();
    let port = stage.server.port();
    let access = ["127.0.0.1", "--port", port, "--fingerprint", stage.fingerprint()];
    let command = [&["roam"], &access[..], &["--transports", "tcp", "--out", "out"]].concat();
    let (ended, took) = left_by_its_reader(&mut stage.work.pathbench(&command));
    assert!(stage.work.path().join("out/run.json").exists(), "{ended:#?}");
    ended_in_good_order(Sink::Closed, "roam", &ended, &stage.work);
    assert!(took < SOON, "it took {took:?}");
}

#[test]
fn a_watch_without_output_ends_when_its_output_is_closed() {
    let stage = Stage::set();
    let command =
        ["mtu", "127.0.0.1", "--port", stage.server.port(), "--watch", "--interval", "60s", "--out", "out"];
    let (ended, took) = left_by_its_reader(&mut stage.work.pathbench(&command));
    assert!(stage.work.path().join("out/run.json").exists(), "{ended:#?}");
    ended_in_good_order(Sink::Closed, "mtu --watch", &ended, &stage.work);
    assert!(took < SOON, "it took {took:?}");
}

#[test]
fn a_closed_standard_error_ends_nothing() {
    let work = Workplace::new();
    work.scenario("quick", QUICK);
    for (sink, out) in [(Sink::Closed, "one"), (Sink::Full, "two")] {
        let mut command = work.pathbench(&["lab", "run", "quick.toml", "--no-calibration", "--out", out]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::from(sink.open())).spawn().unwrap();
        let ended = support::ended(child);
        let ended = ended.expect(0);
        assert!(ended.stdout.contains("quick"), "{ended:#?}");
    }
}
