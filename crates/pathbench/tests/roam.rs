//! `pathbench roam` against `pathbench serve`, in a lab of two hosts with two links whose client loses them and finds them
//! again. Takes ip(8) of iproute2.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use pathbench_record::direction::Direction;
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::RunRecord;
use pathbench_record::event::EventSource;
use pathbench_record::message::MessageLine;
use pathbench_record::transport::Transport;
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command};
use std::time::Duration;
use support::measured::{Measured, path};
use support::processes::{Process, signal};
use support::standing::{Lab, SERVER, Server};
use support::{Finished, TWO_PATHS, Workplace, binary, captured, finish, within};

pathbench_kerneltest::unprivileged_too!();

/// A server for walks.
const SERVE: [&str; 5] = ["--open", "--max-duration", "1h", "--max-tests-per-client", "4"];
/// The two transports that the paper compares.
const BOTH: [Transport; 2] = [Transport::Mptcp, Transport::Mpquic];

/// `pathbench roam` in the host `client`, its result in the directory `out`.
fn roam(lab: &Lab, server: &Server, out: &str, options: &[&str]) -> Command {
    let program = binary();
    let fixed =
        [program.to_str().unwrap(), "roam", SERVER, "--fingerprint", &server.fingerprint, "--out", out];
    lab.exec("client", &[&fixed[..], &["--no-report"], options].concat())
}

/// A walk that has begun.
struct Walk<'a> {
    lab: &'a Lab,
    child: Child,
    told: Lines<BufReader<ChildStderr>>,
    out: PathBuf,
}

impl<'a> Walk<'a> {
    fn begun(lab: &'a Lab, server: &Server, out: &str, options: &[&str]) -> Self {
        let mut child = captured(&mut roam(lab, server, out, options));
        let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
        let begun = told.by_ref().map_while(Result::ok).any(|line| line.starts_with("roaming with"));
        assert!(begun, "it never began: {:#?}", Finished::from(child.wait_with_output().unwrap()));
        Self { lab, child, told, out: lab.work.path().join(out) }
    }

    /// The program itself; `lab exec` waits for it.
    fn process(&self) -> Process {
        let is_walk = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "roam");
        self.lab.work.processes().into_iter().find(is_walk).unwrap()
    }

    /// Ctrl-C.
    fn stop(&self) {
        signal(self.process().id, Signal::INT);
    }

    /// Waits for its end; everything that it said since it began.
    fn end(self) -> Finished {
        let told: Vec<String> = self.told.map_while(Result::ok).collect();
        Finished { stderr: told.join("\n"), ..Finished::from(self.child.wait_with_output().unwrap()) }
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

/// All of a flow is there, from its first message on, and none was left without its acknowledgement.
#[track_caller]
fn assert_whole(messages: &[&MessageLine], least: usize) {
    assert!(messages.len() >= least, "{} messages", messages.len());
    for (message, sequence) in messages.iter().zip(0_u32..) {
        assert_eq!(message.sequence, sequence);
        assert!(!message.late && message.answered_ms.is_some(), "{message:?}");
    }
}

#[test]
fn a_walk_off_one_path_and_back_loses_no_message_and_grows_as_it_goes() {
    // The shorter way is taken for as long as it is there.
    let lab = Lab::standing(&["--set", "path.wlan.delay=20ms"]);
    let server = lab.serve(&SERVE);
    let walk = Walk::begun(&lab, &server, "walk", &["--json"]);
    pause(2000);
    let before = ["samples.jsonl", "messages.jsonl", "probes.jsonl"].map(|file| walk.bytes_of(file));
    link(&lab, "eth", "down");
    pause(2500);
    let after = ["samples.jsonl", "messages.jsonl", "probes.jsonl"].map(|file| walk.bytes_of(file));
    for (before, after) in before.into_iter().zip(after) {
        assert!(before > 0 && after > before, "{before} bytes became {after} in two seconds");
    }
    assert!(walk.out.join("run.partial.json").exists());
    link(&lab, "eth", "up");
    pause(2500);
    walk.stop();
    let measured = walk.measured().expect(0);
    assert!(!measured.finished.stdout.is_empty());
    assert_eq!(measured.document.scenario.name, "roam");
    for transport in BOTH {
        let run = run_of(&measured, transport);
        assert!(run.completed, "{transport}: {:?}", run.error);
        assert!(run.multipath.used, "{transport}: {}", run.multipath.reason);
        for direction in Direction::BOTH {
            // Seven seconds of ten a second, on a machine that may be busy.
            assert_whole(&messages(&measured, run, direction), 50);
        }
        for name in ["eth", "wlan"] {
            assert!(path(run, name).share > 0.1, "{transport}: {:#?}", run.paths);
        }
        assert!(run.touched_by.iter().any(|words| words == "eth down"), "{:?}", run.touched_by);
        let told = measured.events_of(run, EventSource::Link);
        let at = |kind: &str| told.iter().find(|event| event.kind.name() == kind).unwrap().t_ms;
        assert!((500.0..6_000.0).contains(&at("down")) && at("up") > at("down"), "{told:#?}");
        // While it was away, the other path carried everything.
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
    for left in std::fs::read_dir(lab.work.path().join("walk")).unwrap().flatten() {
        let name = left.file_name().into_string().unwrap();
        assert!(!name.starts_with('.') && !name.contains("partial"), "{name} was left");
    }
    assert_probed(&measured);
}

/// The probes tell of each network by itself.
fn assert_probed(measured: &Measured) {
    for transport in BOTH {
        let probes = &run_of(measured, transport).probes;
        let of_path = |name: &str| probes.iter().find(|probe| probe.path == name).unwrap();
        let (eth, wlan) = (of_path("eth"), of_path("wlan"));
        // Those are counted, too, that this host was too busy to send.
        assert!(wlan.sent >= 50 && wlan.answered * 2 > wlan.sent, "{wlan:?}");
        assert!(wlan.answered > eth.answered + 10, "{wlan:?} {eth:?}");
        assert!(eth.answered > 10 && eth.answered + 15 < eth.sent, "{eth:?}");
        assert!(eth.longest_silence_ms.unwrap() > 2000.0, "{eth:?}");
    }
}

#[test]
fn a_walk_that_is_killed_leaves_what_it_had_seen() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let walk = Walk::begun(&lab, &server, "killed", &[]);
    pause(3000);
    // Nothing comes through any more when it dies: what waits for its acknowledgement is the best of it.
    link(&lab, "eth", "down");
    link(&lab, "wlan", "down");
    pause(3500);
    walk.process().kill();
    let out = walk.out.clone();
    drop(walk.end());

    let report = lab.work.run(&["report", out.to_str().unwrap()]).expect(0);
    assert!(report.stdout.contains("mpquic") && report.stdout.contains("mptcp"), "{report:#?}");
    drop(report.says(&["was never finished"]));
    let result = ResultDirectory::open(&out).unwrap();
    let (document, lines) = (result.document(), result.messages().unwrap().items);
    for transport in BOTH {
        let run = document.runs.iter().find(|run| run.transport == transport).unwrap();
        assert!(!run.completed && run.multipath.negotiated, "{run:#?}");
        assert!(run.delay_ms.as_ref().is_some_and(|delay| delay.messages >= 20), "{:?}", run.delay_ms);
        let uploads: Vec<&MessageLine> = lines.iter().filter(|line| line.run == run.id).collect();
        let waiting = uploads.iter().filter(|line| line.late && line.delay_ms >= 1000.0).count();
        assert!(waiting >= 5, "{transport}: {waiting} of {} waited", uploads.len());
        assert!(uploads.iter().filter(|line| !line.late).count() >= 15, "{transport}");
        // Written as they come, which need not be in order; but none is missing, and none is there twice.
        let mut sequences: Vec<u32> = uploads.iter().map(|line| line.sequence).collect();
        sequences.sort_unstable();
        assert!(sequences.iter().zip(0_u32..).all(|(&seen, sequence)| seen == sequence), "{sequences:?}");
        let samples = result.samples().unwrap().items;
        assert!(samples.iter().any(|sample| sample.run == run.id && sample.path == "wlan"));
    }
    assert!(result.events().unwrap().items.iter().any(|event| event.kind.name() == "down"));
    assert!(!result.probes().unwrap().items.is_empty());
}

#[test]
fn the_servers_record_is_fetched_over_whatever_path_is_left() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let walk = Walk::begun(&lab, &server, "left", &["--transports", "tcp"]);
    pause(2000);
    link(&lab, "eth", "down");
    pause(500);
    walk.stop();
    let measured = walk.measured().expect(0);
    let run = run_of(&measured, Transport::Tcp);
    assert!(!run.completed && run.error.is_some(), "{run:#?}");
    let told = |words: &str| run.notes.iter().any(|note| note.contains(words));
    assert!(told("fetched afterwards, over wlan"), "{:?}", run.notes);
    for direction in Direction::BOTH {
        let lines = messages(&measured, run, direction);
        assert!(lines.len() >= 15 && lines.iter().any(|line| line.late), "{} messages", lines.len());
    }
}

#[test]
fn a_server_that_dies_leaves_the_clients_half() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let walk = Walk::begun(&lab, &server, "half", &["--transports", "mptcp"]);
    pause(2000);
    let is_server = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "serve");
    lab.work.processes().into_iter().filter(is_server).for_each(|process| process.kill());
    let measured = walk.measured().expect(1);
    let run = run_of(&measured, Transport::Mptcp);
    assert!(!run.completed);
    for words in ["could not be fetched", "the client's record only", "by their own pace"] {
        assert!(run.notes.iter().any(|note| note.contains(words)), "{words}: {:?}", run.notes);
    }
    assert!(messages(&measured, run, Direction::Upload).len() >= 10);
    assert!(messages(&measured, run, Direction::Download).is_empty());
    assert!(run.delay_ms.is_some());
}

#[test]
fn a_walk_ends_when_the_wifi_has_been_gone_for_a_while() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&SERVE);
    let options = ["--until-gone", "wlan", "--gone-for", "1s", "--transports", "mpquic"];
    let walk = Walk::begun(&lab, &server, "gone", &options);
    pause(1000);
    // Too short to count.
    link(&lab, "wlan", "down");
    pause(300);
    link(&lab, "wlan", "up");
    pause(2000);
    link(&lab, "wlan", "down");
    let measured = walk.measured().expect(0);
    let run = run_of(&measured, Transport::Mpquic);
    assert!(run.completed, "{:?}", run.error);
    assert_whole(&messages(&measured, run, Direction::Upload), 35);
    let notes = &measured.document.summary.notes;
    assert!(notes.iter().any(|note| note.contains("ended because wlan is down")), "{notes:?}");
    // No radio here, and none that could be lost.
    let auto = finish(&mut roam(&lab, &server, "auto", &["--until-gone", "auto"])).expect(2);
    drop(auto.says(&["no Wi-Fi interface", "--until-gone IFACE"]));
    let other = finish(&mut roam(&lab, &server, "other", &["--until-gone", "radio"])).expect(2);
    drop(other.says(&["radio: no path to the server uses this interface"]));
    assert!(!lab.work.path().join("auto").exists(), "a result without runs was left");
}

#[test]
fn a_spare_is_spared_as_each_transport_can() {
    let lab = Lab::of(&format!("{TWO_PATHS}backup = true\n"), &[]);
    let server = lab.serve(&SERVE);
    let options = ["--backup", "wlan", "--duration", "3s"];
    let walk = Walk::begun(&lab, &server, "spare", &options);
    let measured = walk.measured().expect(0);
    for transport in BOTH {
        let run = run_of(&measured, transport);
        assert!(run.completed, "{transport}: {:?}", run.error);
        // Thirty messages a direction, one each 100 ms, however busy the machine is.
        for direction in Direction::BOTH {
            assert_eq!(messages(&measured, run, direction).len(), 30, "{transport}");
        }
        assert_eq!(path(run, "wlan").backup, Some(true), "{transport}: {:#?}", run.paths);
        // A spare may step in while the machine stands still; it never becomes the main path.
        assert!(path(run, "wlan").share < 0.5, "{transport}: {:#?}", run.paths);
    }
    let notes = &measured.document.summary.notes;
    assert!(notes.iter().any(|note| note.contains("time is over")), "{notes:?}");
    assert!(notes.iter().all(|note| !note.contains("has no backup flag")), "{notes:?}");
    // The other way round, the kernel has no such endpoint, and that is said.
    let options = ["--backup", "eth", "--duration", "1s", "--transports", "mptcp"];
    let other = finish(&mut roam(&lab, &server, "other", &options)).expect(0);
    drop(other.says(&["mptcp does not use eth as a backup path", "ip mptcp endpoint"]));
}

#[test]
fn what_cannot_be_done_is_said_before_anybody_walks() {
    let work = Workplace::new();
    let wrong = ["roam", "a b", "--patience", "1ms", "--ca", "no-such-file"];
    let refused = work.run(&wrong).expect(2);
    drop(refused.says(&["`a b` names no server", "--patience", "no-such-file"]));
    drop(
        work.run(&["roam", "localhost", "--scheduler", "best"]).expect(2).says(&["best", "possible values"]),
    );
    work.run(&["roam"]).expect(2);
    let nobody = work.run(&["roam", "127.0.0.1", "--port", "9", "--out", "nobody"]).expect(3);
    drop(nobody.says(&["refused the connection"]));
    assert!(!work.path().join("nobody").exists(), "a result without runs was left");

    let lab = Lab::standing(&[]);
    std::fs::write(lab.work.path().join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let key = lab.work.path().join("key");
    let server = lab.serve(&["--token-key", key.to_str().unwrap()]);
    let refused = finish(&mut roam(&lab, &server, "refused", &[])).expect(4);
    drop(refused.says(&["token"]));
    assert!(!Path::new(&lab.work.path().join("refused")).exists());
    assert!(within(Duration::from_secs(3), || {
        !lab.work
            .processes()
            .iter()
            .any(|process| process.arguments().get(1).is_some_and(|word| word == "roam"))
    }));
}

#[test]
fn a_server_with_its_usual_limits_grants_what_it_can() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open", "--max-duration", "1m"]);
    let walk = Walk::begun(&lab, &server, "limits", &["--transports", "mptcp"]);
    pause(1500);
    walk.stop();
    let measured = walk.measured().expect(0);
    assert_whole(&messages(&measured, run_of(&measured, Transport::Mptcp), Direction::Download), 8);
    // One that the user wants longer than that is refused in the server's words.
    let long = finish(&mut roam(&lab, &server, "long", &["--duration", "10m"])).expect(4);
    drop(long.says(&["allows 60 s"]));
}
