//! `pathbench test` as a study: killed and resumed, in shards, until a precision, until a time.

use crate::support::processes::signal;
use crate::support::standing::Server;
use crate::support::{Dice, Finished, Workplace, captured, ended, within};
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::{ResultDocument, StopReason};
use rustix::process::Signal;
use std::time::Duration;

/// Longest wait for one run.
const PATIENCE: Duration = Duration::from_secs(60);

/// A workplace with a server on the loopback address.
struct Place {
    work: Workplace,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let work = Workplace::new();
        // The server keeps the QUIC connections of killed clients until they have been silent for a while.
        let serve =
            ["serve", "--open", "--port", "0", "--listen", "127.0.0.1", "--max-tests-per-client", "20"];
        let server = Server::started(&mut work.pathbench(&serve));
        Self { work, server }
    }

    /// `pathbench test` of two transports and two patterns.
    fn suite<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        let common = [
            &[
                "test",
                "localhost",
                "-4",
                "--port",
                self.server.port(),
                "--fingerprint",
                &self.server.fingerprint,
            ],
            &["--transports", "tcp,quic", "--patterns", "ping,bulk", "--bulk-bytes", "200kB", "--no-report"]
                [..],
        ];
        [&common.concat(), options].concat()
    }

    fn run(&self, options: &[&str]) -> Finished {
        self.work.run(&self.suite(options))
    }

    fn read(&self, out: &str) -> ResultDocument {
        let result = ResultDirectory::open(&self.work.path().join(out)).unwrap();
        assert_eq!(result.warning, None);
        result.document
    }
}

fn ids(document: &ResultDocument) -> Vec<&str> {
    document.runs.iter().map(|run| run.id.as_str()).collect()
}

fn stopped(document: &ResultDocument) -> Option<StopReason> {
    document.study.as_ref().unwrap().stopped
}

#[test]
fn a_suite_killed_and_resumed_or_in_shards_has_the_runs_of_a_whole_one() {
    let place = Place::new();
    let study = ["--repeat", "4", "--warm-up", "1", "--seed", "7"];
    let begun =
        |options: &[&str]| captured(&mut place.work.pathbench(&place.suite(&[&study[..], options].concat())));
    // Beside the killed one.
    let undisturbed = begun(&["--out", "whole"]);

    // The seed and order are those of the study in the directory.
    let disturbed = [&study[..], &["--resume", "killed"]].concat();
    let resume = ["--repeat", "4", "--warm-up", "1", "--resume", "killed"];
    let records = place.work.path().join("killed/runs.partial.jsonl");
    let finished = || std::fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    let mut dice = Dice(1);
    for kill in 0..3 {
        let before = finished();
        let mut test = captured(&mut place.work.pathbench(&place.suite(&disturbed)));
        let is_time = || finished() > before || test.try_wait().unwrap().is_some();
        assert!(within(PATIENCE, is_time), "kill {kill}: no run was made");
        assert!(test.try_wait().unwrap().is_none(), "kill {kill}: {:#?}", test.wait_with_output());
        std::thread::sleep(Duration::from_millis(dice.below(300)));
        signal(test.id() as i32, Signal::KILL);
        test.wait().unwrap();
    }
    place.run(&resume).expect(0).reports(&["of them made earlier"]);
    ended(undisturbed).expect(0);
    let whole = place.read("whole");
    assert_eq!((whole.runs.len(), stopped(&whole)), (20, Some(StopReason::Completed)));
    let warm_up = whole.runs.iter().filter(|run| run.warm_up);
    assert!(warm_up.clone().all(|run| !run.valid && run.id.starts_with('w')));
    assert_eq!(warm_up.count(), 4);
    assert!(
        whole.summary.groups.iter().all(|group| (group.runs, group.valid) == (4, 4)),
        "{:?}",
        whole.summary
    );
    let killed = place.read("killed");
    assert_eq!(ids(&killed), ids(&whole));
    let sessions = killed.study.as_ref().unwrap().sessions.len();
    assert_eq!((sessions, killed.seed, stopped(&killed)), (4, 7, Some(StopReason::Completed)));

    for shard in ["1/2", "2/2"].map(|shard| begun(&["--shard", shard, "--out", &shard[..1]])) {
        ended(shard).expect(0);
    }
    place.work.run(&["report", "2", "1", "--out", "joined"]).expect(0);
    let joined = place.read("joined");
    let measured = |document: &ResultDocument| {
        let measured = document.runs.iter().filter(|run| !run.warm_up);
        measured.map(|run| run.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(measured(&joined), measured(&whole));
    let identity = |document: &ResultDocument| document.study.as_ref().unwrap().identity.clone();
    assert_eq!(identity(&joined), identity(&whole));

    // What decides the runs cannot change; a study that is complete needs no server.
    place
        .run(&["--repeat", "5", "--warm-up", "1", "--resume", "killed"])
        .expect(2)
        .reports(&["number of repetitions"]);
    let Place { work, server } = place;
    drop(server);
    let of_server = ["test", "localhost", "-4", "--transports", "tcp,quic", "--patterns", "ping,bulk"];
    let rest = ["--bulk-bytes", "200kB", "--no-report"];
    let shown = work.run(&[&of_server[..], &rest, &resume].concat()).expect(0);
    assert!(shown.stdout.contains("bulk"), "{shown:#?}");
}

#[test]
fn a_suite_ends_on_precision_and_on_time() {
    let place = Place::new();
    let tcp_only = ["--transports", "tcp", "--patterns", "bulk"];
    let of_bulk = |options: &[&'static str]| {
        let common = ["test", "localhost", "-4", "--bulk-bytes", "5MB", "--port", place.server.port()];
        place.work.run(&[&common[..], &tcp_only, options].concat())
    };
    of_bulk(&["--until-ci", "100%", "--warm-up", "1", "--out", "precise"]).expect(0);
    let precise = place.read("precise");
    assert_eq!(stopped(&precise), Some(StopReason::Precision));
    // A warm-up run, and at least six others.
    assert!((7..101).contains(&precise.runs.len()), "{}", precise.runs.len());
    let missing = format!("{} of 101 runs", 101 - precise.runs.len());
    assert!(precise.summary.notes.iter().any(|note| note.contains(&missing)), "{:?}", precise.summary.notes);

    of_bulk(&["--repeat", "1000", "--time-limit", "3s", "--out", "limited"]).expect(0);
    let limited = place.read("limited");
    assert_eq!(stopped(&limited), Some(StopReason::TimeLimit));
    assert!((1..1000).contains(&limited.runs.len()), "{}", limited.runs.len());
    // It continues with as many runs as fit, and the note names what is missing now.
    of_bulk(&["--repeat", "1000", "--time-limit", "3s", "--resume", "limited"]).expect(0);
    let continued = place.read("limited");
    assert!(continued.runs.len() > limited.runs.len());
    let endings =
        continued.summary.notes.iter().filter(|note| note.contains("were not made")).collect::<Vec<_>>();
    let missing = format!("{} of 1000 runs", 1000 - continued.runs.len());
    assert!(matches!(endings[..], [note] if note.contains(&missing)), "{endings:?}");
}
