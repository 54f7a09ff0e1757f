//! When any process of a lab dies, no process, namespace or interface is left, and the finished runs are kept.

#![allow(clippy::print_stdout, reason = "how long everything took is worth reading")]
#![allow(clippy::disallowed_methods, reason = "how long a lab takes to go is measured by the real clock")]
use crate::support;
use crate::support::machine::Machine;
use crate::support::namespaces::Ledger;
use crate::support::processes::{Process, Role, signal};
use crate::support::{Dice, Finished, TWO_PATHS, Workplace, captured, within};
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::directory::ResultDirectory;
use pathbench_record::document::ResultDocument;
use pathbench_record::sample::Sample;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Number of labs to kill without `PATHBENCH_CRASH_LABS`.
const LABS: u64 = 12;
/// Time for the kernel to end all processes of a lab.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// Three runs of more than a second each.
const THREE_RUNS: &str = "[run]\ntransports = [\"tcp\"]\nduration = \"1200ms\"\nrepeat = 3\n";

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |value| value.parse().unwrap())
}

/// The result of killing one process of a lab.
struct Death {
    victim: String,
    /// Time from the kill to the end of the last process.
    took: Duration,
}

/// Starts labs in one user namespace and kills them.
struct Slaughterhouse {
    work: Workplace,
    ledger: Ledger,
    scenario: String,
    dice: Dice,
}

impl Slaughterhouse {
    fn new() -> Self {
        let work = Workplace::new();
        // Long enough that no lab ends before it is killed.
        let rest = "[run]\ntransports = [\"mptcp\"]\nduration = \"1m\"\n";
        let scenario = work.scenario("doomed", &format!("{TWO_PATHS}\n{rest}"));
        let dice = Dice(number_from("PATHBENCH_CRASH_SEED", 1));
        Self { work, ledger: Ledger::open(), scenario, dice }
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.ledger.command(&support::binary());
        self.work.prepare(&mut command);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts a lab, kills one of its processes after some time, and waits for the other processes to end.
    fn kill_one(&mut self, number: u64) -> Death {
        let stays = number % 3 == 2;
        let (name, out) = (format!("doomed-{number}"), format!("out-{number}"));
        // A lab is up within 0.2 s; measuring the links and sending data take two more seconds.
        let (mut front, moment) = if stays {
            (self.start(&["lab", "up", &self.scenario, "--name", &name]), self.dice.below(400))
        } else {
            let once = ["lab", "run", &self.scenario, "--out", &out, "--retry-invalid", "0"];
            (self.start(&once), self.dice.below(3000))
        };
        std::thread::sleep(Duration::from_millis(moment));
        // First, a child of the foreground command tests whether namespaces work; killing that child has no effect.
        let is_trial = |process: &Process| process.role == Role::Front && process.id != front.id() as i32;
        let mut processes = self.work.processes();
        processes.retain(|process| !is_trial(process));
        let begin = Instant::now();
        let victim = if processes.is_empty() {
            // The foreground command has not started yet.
            let _ended = front.kill();
            "front before it was one".to_owned()
        } else {
            let victim = &processes[self.dice.below(processes.len() as u64) as usize];
            victim.kill();
            format!("{} of lab {}", role_name(victim), if stays { "up" } else { "run" })
        };
        if stays {
            // The lab is up if its keeper is alive, even if the foreground command died and printed nothing.
            let ended = within(GONE_WITHIN, || front.try_wait().unwrap().is_some());
            assert!(ended, "lab {number} ({victim}): `lab up` hangs");
            let mut down = self.start(&["lab", "down", &name]);
            let code = down.wait().unwrap().code();
            assert!(matches!(code, Some(0 | 2)), "lab {number} ({victim}): lab down ends with {code:?}");
        }
        let gone = within(GONE_WITHIN, || {
            front.try_wait().unwrap();
            self.work.processes().is_empty()
        });
        assert!(gone, "lab {number} ({victim} killed after {moment} ms): {:?}", self.work.processes());
        front.wait().unwrap();
        let took = begin.elapsed();
        println!("lab {number}: {victim} killed after {moment} ms, everything gone {took:.0?} later");
        Death { victim, took }
    }
}

fn role_name(process: &Process) -> String {
    match &process.role {
        Role::Agent(host) => format!("agent {host}"),
        role => format!("{role:?}").to_lowercase(),
    }
}

#[test]
fn labs_killed_at_random_moments_leave_the_machine_as_it_was() {
    let labs = number_from("PATHBENCH_CRASH_LABS", LABS);
    let machine = Machine::now();
    let mut house = Slaughterhouse::new();
    let mut deaths: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for number in 0..labs {
        let death = house.kill_one(number);
        deaths.entry(death.victim).or_default().push(death.took);
        assert_eq!(Machine::now(), machine, "after lab {number}");
    }
    for (victim, took) in &deaths {
        let longest = took.iter().max().unwrap();
        println!("{} × {victim}: everything gone after at most {longest:.0?}", took.len());
    }
    // The kernel has no namespace left of any lab.
    let begin = Instant::now();
    if let Err(refused) = house.ledger.is_empty(&house.work, &house.scenario, "last") {
        panic!("namespaces were left: {refused:#?}");
    }
    println!(
        "{labs} labs; the kernel counts no namespace of theirs (found out within {:.0?})",
        begin.elapsed()
    );
    assert_eq!(Machine::now(), machine);
}

#[test]
fn lab_up_ends_when_its_keeper_dies_at_birth() {
    for _ in 0..20 {
        let work = Workplace::new();
        let file = work.scenario("stillborn", TWO_PATHS);
        let name = format!("stillborn-{}", std::process::id());
        let mut front = captured(&mut work.pathbench(&["lab", "up", &file, "--name", &name]));
        let children = format!("/proc/{0}/task/{0}/children", front.id());
        let begin = Instant::now();
        // Polls without a pause, to act before a child has done anything.
        while front.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < GONE_WITHIN, "`lab up` waits for a dead process");
            let born = std::fs::read_to_string(&children).unwrap_or_default();
            born.split_whitespace().for_each(|child| signal(child.parse().unwrap(), Signal::KILL));
        }
        support::ended(front).expect(1).reports(&["the lab's orchestrator"]);
        let left = work.left_behind();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A `lab run` of three runs in its own process group.
struct Study {
    work: Workplace,
    front: Child,
}

impl Study {
    /// Starts the study and waits until it has finished its first run and is in the middle of the second.
    fn in_its_second_run() -> Self {
        let work = Workplace::new();
        let file = work.scenario("study", &format!("{TWO_PATHS}\n{THREE_RUNS}"));
        let mut command = work.pathbench(&["lab", "run", &file, "--no-calibration", "--out", "out"]);
        let front = captured(command.process_group(0));
        let study = Self { work, front };
        let records = study.out().join("runs.partial.jsonl");
        let first_is_made = || std::fs::metadata(&records).is_ok_and(|records| records.len() > 0);
        assert!(within(Duration::from_secs(20), first_is_made), "no run was made");
        std::thread::sleep(Duration::from_millis(500));
        study
    }

    fn out(&self) -> PathBuf {
        self.work.path().join("out")
    }

    fn process(&self, role: &Role) -> Process {
        self.work.processes().into_iter().find(|process| process.role == *role).unwrap()
    }

    /// Waits for the end, which must come within 5 s.
    fn end(self) -> (Workplace, Finished) {
        self.end_within(Duration::from_secs(5))
    }

    fn end_within(mut self, time: Duration) -> (Workplace, Finished) {
        let ended = within(time, || self.front.try_wait().unwrap().is_some());
        if !ended {
            let processes = self.work.processes();
            panic!("it did not end: {processes:?}");
        }
        let finished = support::ended(self.front);
        let left = self.work.left_behind();
        assert!(left.is_empty(), "{left:?}");
        (self.work, finished)
    }
}

/// The runs in `out`, and the output of `report`.
fn what_was_kept(work: &Workplace) -> (ResultDocument, Finished) {
    let directory = ResultDirectory::open(&work.path().join("out")).unwrap();
    for warning in
        [directory.lines::<Sample>().unwrap().warning, directory.lines::<DeliveryLine>().unwrap().warning]
    {
        assert_eq!(warning, None);
    }
    let report = work.run(&["report", "out"]).expect(0);
    assert!(work.path().join("out/report.html").exists());
    (directory.document, report)
}

/// Regression: the study ended when its first host agent died. The run is repeated, and both attempts stay.
#[test]
fn a_study_whose_agent_dies_repeats_that_run_only() {
    for host in ["client", "server"] {
        let study = Study::in_its_second_run();
        study.process(&Role::Agent(host.to_owned())).kill();
        let (work, finished) = study.end_within(Duration::from_secs(30));
        let finished = finished.expect(0);
        let reason = format!("host `{host}`: its agent has ended (killed, or out of memory)");
        assert!(finished.stdout.contains(&reason), "{finished:#?}");
        let (document, report) = what_was_kept(&work);
        assert_eq!(report.stderr, "");
        let [first, second, again, third] = document.runs.as_slice() else { panic!("{:#?}", document.runs) };
        assert!(!second.valid && !second.completed, "{second:#?}");
        assert_eq!((&second.invalid_because, second.error.as_ref()), (&vec![reason.clone()], Some(&reason)));
        assert_eq!((again.id.as_str(), again.attempt), ("02-tcp-r2-a2", Some(2)));
        assert_eq!((again.retry_of.as_ref(), again.repetition), (Some(&second.id), second.repetition));
        for run in [first, again, third] {
            assert!(run.valid && run.completed && run.load.is_some(), "{run:#?}");
        }
        // Each attempt has its own lines.
        let samples =
            ResultDirectory::open(&work.path().join("out")).unwrap().lines::<Sample>().unwrap().items;
        assert!(samples.iter().any(|sample| sample.run == again.id));
    }
}

#[test]
fn a_study_whose_orchestrator_dies_reports_it_and_keeps_finished_runs() {
    let study = Study::in_its_second_run();
    study.process(&Role::Orchestrator).kill();
    let (work, finished) = study.end();
    finished.expect(1).reports(&["orchestrator was killed"]);
    let (document, report) = what_was_kept(&work);
    assert_eq!(document.runs.len(), 1);
    report.reports(&["was never finished"]);
}

#[test]
fn a_study_whose_front_dies_ends_and_keeps_finished_runs() {
    let study = Study::in_its_second_run();
    signal(study.front.id() as i32, Signal::KILL);
    let (work, finished) = study.end();
    assert_eq!(finished.code, None);
    assert_eq!(what_was_kept(&work).0.runs.len(), 1);
}

#[test]
fn a_study_that_is_stopped_ends_in_order() {
    // Ctrl-C on a terminal signals the whole process group, kill(1) only the command.
    for (case, end, to_all) in [
        ("Ctrl-C", Signal::INT, true),
        ("kill -INT", Signal::INT, false),
        ("kill -TERM", Signal::TERM, false),
    ] {
        let study = Study::in_its_second_run();
        let front = study.front.id() as i32;
        if to_all {
            kill_process_group(Pid::from_raw(front).unwrap(), end).unwrap();
        } else {
            signal(front, end);
        }
        let (work, finished) = study.end();
        let finished = finished.expect(1);
        assert!(finished.stdout.contains("stopped by the user"), "{case}: {finished:#?}");
        let (document, report) = what_was_kept(&work);
        assert!(work.path().join("out/run.json").exists(), "{case}: the result is not finished");
        assert_eq!(report.stderr, "", "{case}");
        assert_eq!(document.runs.len(), 2, "{case}");
        assert!(document.runs[0].valid && document.runs[0].completed, "{case}");
        assert_eq!(document.runs[1].invalid_because, ["stopped by the user"], "{case}");
        let notes = document.summary.notes.join("\n");
        assert!(notes.contains("stopped by the user; 1 of 3 runs were not made"), "{case}: {notes}");
        // The command that it prints makes the other runs.
        let stderr = &finished.stderr;
        let (_, command) =
            stderr.split_once("continue with:\n").unwrap_or_else(|| panic!("{case}: {stderr}"));
        if to_all {
            let mut shell = std::process::Command::new("sh");
            work.prepare(&mut shell);
            support::finish(shell.args(["-c", command.lines().next().unwrap()])).expect(0);
            let (document, _) = what_was_kept(&work);
            assert!(document.runs.len() == 3 && document.runs.iter().all(|run| run.valid), "{document:#?}");
        }
    }
}
