//! `pathbench roam` against `pathbench serve`, in a lab of two hosts with two links; the client's links go down and
//! up. Requires ip(8) of iproute2.

use crate::support;
use crate::support::measured::{Measured, path};
use crate::support::processes::{Process, signal};
use crate::support::standing::{Lab, SERVER, Server};
use crate::support::{Finished, TWO_PATHS, Workplace, binary, captured, finish, within};
use pathbench_record::direction::Direction;
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::{ProbeLine, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::Sample;
use pathbench_record::transport::Transport;
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command};
use std::time::Duration;

pathbench_testkit::tests!(
    ["ip"] => losing_and_regaining_a_path_loses_no_message_and_the_result_grows,
    a_killed_command_leaves_its_records,
    the_servers_record_is_fetched_over_any_remaining_path,
    tests_end_when_the_wifi_has_been_lost_for_a_while;
    [] => a_server_that_dies_leaves_the_clients_half,
    a_backup_path_is_used_as_each_transport_can,
    mistakes_are_reported_before_any_test,
    a_server_with_default_limits_grants_its_longest_duration;
);

/// Arguments of a server for `roam`.
const SERVE: [&str; 5] = ["--open", "--max-duration", "1h", "--max-tests-per-client", "4"];
/// The two transports that the paper compares.
const BOTH: [Transport; 2] = [Transport::Mptcp, Transport::Mpquic];

/// `pathbench roam` in the host `client`, with its result in the directory `out`.
fn roam(lab: &Lab, server: &Server, out: &str, options: &[&str]) -> Command {
    let program = binary();
    let fixed =
        [program.to_str().unwrap(), "roam", SERVER, "--fingerprint", &server.fingerprint, "--out", out];
    lab.exec("client", &[&fixed[..], &["--no-report"], options].concat())
}

/// A running `pathbench roam`.
struct Roaming<'a> {
    lab: &'a Lab,
    child: Child,
    progress: Lines<BufReader<ChildStderr>>,
    out: PathBuf,
}

impl<'a> Roaming<'a> {
    fn begun(lab: &'a Lab, server: &Server, out: &str, options: &[&str]) -> Self {
        let mut child = captured(&mut roam(lab, server, out, options));
        let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
        let begun = progress.by_ref().map_while(Result::ok).any(|line| line.starts_with("roaming with"));
        assert!(begun, "it never began: {:#?}", support::ended(child));
        Self { lab, child, progress, out: lab.work.path().join(out) }
    }

    /// The process of the program itself; `lab exec` waits for it.
    fn process(&self) -> Process {
        let is_roam = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "roam");
        self.lab.work.processes().into_iter().find(is_roam).unwrap()
    }

    /// Sends SIGINT, as Ctrl-C does.
    fn stop(&self) {
        signal(self.process().id, Signal::INT);
    }

    /// Waits for the end; returns the progress since the start.
    fn end(self) -> Finished {
        let progress: Vec<String> = self.progress.map_while(Result::ok).collect();
        Finished { stderr: progress.join("\n"), ..support::ended(self.child) }
    }

    fn measured(self) -> Measured {
        let out = self.out.clone();
        Measured::read(&out, self.end())
    }

    fn bytes_of(&self, file: &str) -> u64 {
        std::fs::metadata(self.out.join(file)).map_or(0, |metadata| metadata.len())
    }
}

/// Brings a link of the client up or down.
fn link(lab: &Lab, name: &str, state: &str) {
    finish(&mut lab.exec("client", &["ip", "link", "set", name, state])).expect(0);
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn run_of(measured: &Measured, transport: Transport) -> &RunRecord {
    let mut runs = measured.document.runs.iter().filter(|run| run.transport == transport);
    let run = runs.next().unwrap_or_else(|| panic!("no run of {transport}: {:#?}", measured.document.runs));
    assert!(runs.next().is_none() && run.valid, "{run:#?}");
    run
}

fn messages<'a>(measured: &'a Measured, run: &RunRecord, direction: Direction) -> Vec<&'a MessageLine> {
    let of_run = |line: &&MessageLine| line.run == run.id && line.direction == direction;
    measured.messages.iter().filter(of_run).collect()
}

/// Every message of a flow is recorded and acknowledged.
#[track_caller]
fn assert_whole(messages: &[&MessageLine], least: usize) {
    assert!(messages.len() >= least, "{} messages", messages.len());
    for (message, sequence) in messages.iter().zip(0_u32..) {
        assert_eq!(message.sequence, sequence);
        assert!(!message.unacknowledged && message.answered_ms.is_some(), "{message:?}");
    }
}

fn losing_and_regaining_a_path_loses_no_message_and_the_result_grows() {
    // The path with less delay is used while it is up.
    let lab = Lab::standing(&["--set", "path.wlan.delay=20ms"]);
    let server = lab.serve(&SERVE);
    let roaming = Roaming::begun(&lab, &server, "roaming", &["--json"]);
    pause(2000);
    let before = ["samples.jsonl", "messages.jsonl", "probes.jsonl"].map(|file| roaming.bytes_of(file));
    link(&lab, "eth", "down");
    pause(2500);
    let after = ["samples.jsonl", "messages.jsonl", "probes.jsonl"].map(|file| roaming.bytes_of(file));
    for (before, after) in before.into_iter().zip(after) {
        assert!(before > 0 && after > before, "{before} bytes became {after} in two seconds");
    }
    assert!(roaming.out.join("run.partial.json").exists());
    link(&lab, "eth", "up");
    pause(2500);
    roaming.stop();
    let measured = roaming.measured().expect(0);
    assert!(!measured.finished.stdout.is_empty());
    assert_eq!(measured.document.scenario.name, "roam");
    for transport in BOTH {
        let run = run_of(&measured, transport);
        assert!(run.completed, "{transport}: {:?}", run.error);
        assert!(run.multipath.used, "{transport}: {}", run.multipath.reason);
        for direction in Direction::BOTH {
            // Seven seconds with ten messages per second, on a machine that may be busy.
            assert_whole(&messages(&measured, run, direction), 50);
        }
        for name in ["eth", "wlan"] {
            assert!(path(run, name).share > 0.1, "{transport}: {:#?}", run.paths);
        }
        assert!(run.touched_by.iter().any(|words| words == "eth down"), "{:?}", run.touched_by);
        let events = measured.events_of(run, EventSource::Link);
        let at = |kind: &str| events.iter().find(|event| event.kind.name() == kind).unwrap().t_ms;
        assert!((500.0..6_000.0).contains(&at("down")) && at("up") > at("down"), "{events:#?}");
        // While the interface was down, the other path carried all data.
        let carried = |path: &str| {
            let samples =
                measured.samples.iter().filter(|sample| sample.run == run.id && sample.path == path);
            let within = samples.filter(|sample| (at("down") + 500.0..at("up")).contains(&sample.t_ms));
            let mut bytes: Vec<u64> = within.map(|sample| sample.figures.bytes_received).collect();
            bytes.sort_unstable();
            bytes.last().unwrap_or(&0) - bytes.first().unwrap_or(&0)
        };
        assert!(carried("wlan") > 0, "{transport}");
    }
    let subflows = |transport| measured.events_of(run_of(&measured, transport), EventSource::Mptcp).len();
    assert_eq!(subflows(Transport::Mpquic), 0, "subflows are mptcp's alone");
    for left in std::fs::read_dir(lab.work.path().join("roaming")).unwrap().flatten() {
        let name = left.file_name().into_string().unwrap();
        assert!(!name.starts_with('.') && !name.contains("partial"), "{name} was left");
    }
    assert_probed(&measured);
}

/// Probes measure each path separately.
fn assert_probed(measured: &Measured) {
    for transport in BOTH {
        let probes = &run_of(measured, transport).probes;
        let of_path = |name: &str| probes.iter().find(|probe| probe.path == name).unwrap();
        let (eth, wlan) = (of_path("eth"), of_path("wlan"));
        // The count includes probes that this busy host did not send.
        assert!(wlan.sent >= 50 && wlan.answered * 2 > wlan.sent, "{wlan:?}");
        assert!(wlan.answered > eth.answered + 10, "{wlan:?} {eth:?}");
        assert!(eth.answered > 10 && eth.answered + 15 < eth.sent, "{eth:?}");
        assert!(eth.longest_silence_ms.unwrap() > 2000.0, "{eth:?}");
    }
}

fn a_killed_command_leaves_its_records() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let roaming = Roaming::begun(&lab, &server, "killed", &[]);
    pause(3000);
    // No path works when the command is killed: the result must contain unacknowledged messages.
    link(&lab, "eth", "down");
    link(&lab, "wlan", "down");
    pause(3500);
    roaming.process().kill();
    let out = roaming.out.clone();
    drop(roaming.end());

    let report = lab.work.run(&["report", out.to_str().unwrap()]).expect(0);
    assert!(report.stdout.contains("mpquic") && report.stdout.contains("mptcp"), "{report:#?}");
    drop(report.reports(&["was never finished"]));
    let result = ResultDirectory::open(&out).unwrap();
    let (document, lines) = (result.document.clone(), result.messages().unwrap().items);
    for transport in BOTH {
        let run = document.runs.iter().find(|run| run.transport == transport).unwrap();
        assert!(!run.completed && run.multipath.negotiated, "{run:#?}");
        assert!(run.delay_ms.as_ref().is_some_and(|delay| delay.messages >= 20), "{:?}", run.delay_ms);
        let uploads: Vec<&MessageLine> = lines.iter().filter(|line| line.run == run.id).collect();
        let waiting = uploads.iter().filter(|line| line.unacknowledged && line.delay_ms >= 1000.0).count();
        assert!(waiting >= 5, "{transport}: {waiting} of {} waited", uploads.len());
        assert!(uploads.iter().filter(|line| !line.unacknowledged).count() >= 15, "{transport}");
        // Lines are written on arrival, which need not be in order; but no message is missing or duplicate.
        let mut sequences: Vec<u32> = uploads.iter().map(|line| line.sequence).collect();
        sequences.sort_unstable();
        assert!(sequences.iter().zip(0_u32..).all(|(&seen, sequence)| seen == sequence), "{sequences:?}");
        let samples = result.lines::<Sample>().unwrap().items;
        assert!(samples.iter().any(|sample| sample.run == run.id && sample.path == "wlan"));
    }
    assert!(result.lines::<Event>().unwrap().items.iter().any(|event| event.kind.name() == "down"));
    assert!(!result.lines::<ProbeLine>().unwrap().items.is_empty());
}

fn the_servers_record_is_fetched_over_any_remaining_path() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let roaming = Roaming::begun(&lab, &server, "left", &["--transports", "tcp"]);
    pause(2000);
    link(&lab, "eth", "down");
    pause(500);
    roaming.stop();
    let measured = roaming.measured().expect(0);
    let run = run_of(&measured, Transport::Tcp);
    assert!(!run.completed && run.error.is_some(), "{run:#?}");
    let is_noted = |words: &str| run.notes.iter().any(|note| note.contains(words));
    assert!(is_noted("fetched afterwards, over wlan"), "{:?}", run.notes);
    for direction in Direction::BOTH {
        let lines = messages(&measured, run, direction);
        assert!(
            lines.len() >= 15 && lines.iter().any(|line| line.unacknowledged),
            "{} messages",
            lines.len()
        );
    }
}

fn a_server_that_dies_leaves_the_clients_half() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let roaming = Roaming::begun(&lab, &server, "half", &["--transports", "mptcp"]);
    pause(2000);
    let is_server = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "serve");
    lab.work.processes().into_iter().filter(is_server).for_each(|process| process.kill());
    let measured = roaming.measured().expect(1);
    let run = run_of(&measured, Transport::Mptcp);
    assert!(!run.completed);
    for words in ["could not be fetched", "the client's record only", "by their own pace"] {
        assert!(run.notes.iter().any(|note| note.contains(words)), "{words}: {:?}", run.notes);
    }
    assert!(messages(&measured, run, Direction::Upload).len() >= 10);
    assert!(messages(&measured, run, Direction::Download).is_empty());
    assert!(run.delay_ms.is_some());
}

fn tests_end_when_the_wifi_has_been_lost_for_a_while() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let options = ["--until-gone", "wlan", "--gone-for", "1s", "--transports", "mpquic"];
    let roaming = Roaming::begun(&lab, &server, "gone", &options);
    pause(1000);
    // An outage shorter than --gone-for does not end the tests.
    link(&lab, "wlan", "down");
    pause(300);
    link(&lab, "wlan", "up");
    pause(2000);
    link(&lab, "wlan", "down");
    let measured = roaming.measured().expect(0);
    let run = run_of(&measured, Transport::Mpquic);
    assert!(run.completed, "{:?}", run.error);
    assert_whole(&messages(&measured, run, Direction::Upload), 35);
    let notes = &measured.document.summary.notes;
    assert!(notes.iter().any(|note| note.contains("ended because wlan is down")), "{notes:?}");
    // The lab has no Wi-Fi interface.
    let auto = finish(&mut roam(&lab, &server, "auto", &["--until-gone", "auto"])).expect(2);
    drop(auto.reports(&["no Wi-Fi interface", "--until-gone IFACE"]));
    let other = finish(&mut roam(&lab, &server, "other", &["--until-gone", "radio"])).expect(2);
    drop(other.reports(&["radio: no path to the server uses this interface"]));
    assert!(!lab.work.path().join("auto").exists(), "a result without runs was left");
}

fn a_backup_path_is_used_as_each_transport_can() {
    let lab = Lab::of(&format!("{TWO_PATHS}backup = true\n"), &[]);
    let server = lab.serve(&SERVE);
    let options = ["--backup", "wlan", "--duration", "3s"];
    let roaming = Roaming::begun(&lab, &server, "backup", &options);
    let measured = roaming.measured().expect(0);
    for transport in BOTH {
        let run = run_of(&measured, transport);
        assert!(run.completed, "{transport}: {:?}", run.error);
        // Thirty messages per direction, one per 100 ms, also on a busy machine.
        for direction in Direction::BOTH {
            assert_eq!(messages(&measured, run, direction).len(), 30, "{transport}");
        }
        assert_eq!(path(run, "wlan").backup, Some(true), "{transport}: {:#?}", run.paths);
        // The backup path may carry data during a stall of the machine; it never becomes the main path.
        assert!(path(run, "wlan").share < 0.5, "{transport}: {:#?}", run.paths);
    }
    let notes = &measured.document.summary.notes;
    assert!(notes.iter().any(|note| note.contains("time is over")), "{notes:?}");
    assert!(notes.iter().all(|note| !note.contains("has no backup flag")), "{notes:?}");
    // With the paths swapped, the kernel has no such endpoint, so there is a note.
    let options = ["--backup", "eth", "--duration", "1s", "--transports", "mptcp"];
    let other = finish(&mut roam(&lab, &server, "other", &options)).expect(0);
    drop(other.reports(&["mptcp does not use eth as a backup path", "ip mptcp endpoint"]));
}

fn mistakes_are_reported_before_any_test() {
    let work = Workplace::new();
    let wrong = ["roam", "a b", "--patience", "1ms", "--ca", "no-such-file"];
    let refused = work.run(&wrong).expect(2);
    drop(refused.reports(&["`a b` names no server", "--patience", "no-such-file"]));
    drop(
        work.run(&["roam", "localhost", "--scheduler", "best"])
            .expect(2)
            .reports(&["best", "possible values"]),
    );
    work.run(&["roam"]).expect(2);
    let unreachable = work.run(&["roam", "127.0.0.1", "--port", "9", "--out", "unreachable"]).expect(3);
    drop(unreachable.reports(&["refused the connection"]));
    assert!(!work.path().join("unreachable").exists(), "a result without runs was left");

    let lab = Lab::standing(&[]);
    std::fs::write(lab.work.path().join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let key = lab.work.path().join("key");
    let server = lab.serve(&["--token-key", key.to_str().unwrap()]);
    let refused = finish(&mut roam(&lab, &server, "refused", &[])).expect(4);
    drop(refused.reports(&["token"]));
    assert!(!Path::new(&lab.work.path().join("refused")).exists());
    assert!(within(Duration::from_secs(3), || {
        !lab.work
            .processes()
            .iter()
            .any(|process| process.arguments().get(1).is_some_and(|word| word == "roam"))
    }));
}

fn a_server_with_default_limits_grants_its_longest_duration() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open", "--max-duration", "1m"]);
    let roaming = Roaming::begun(&lab, &server, "limits", &["--transports", "mptcp"]);
    pause(1500);
    roaming.stop();
    let measured = roaming.measured().expect(0);
    assert_whole(&messages(&measured, run_of(&measured, Transport::Mptcp), Direction::Download), 8);
    // The server refuses a longer test with a message.
    let long = finish(&mut roam(&lab, &server, "long", &["--duration", "10m"])).expect(4);
    drop(long.reports(&["allows 1 min"]));
}
