//! Studies in virtual time: which runs a session makes, when it ends, and what the next session makes.

use super::ending::STOPPED_BY_USER;
use super::progress::{ConductedRun, MemberProgress, StudyMember, StudyOptions, StudyProgress};
use super::{finish, first_document};
use crate::agent::AgentLauncher;
use crate::scenario::{self, Overrides, ScenarioPlan, ScenarioSource};
use pathbench_analysis::assembly::AssembledRun;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{HostRecord, ResultDocument, RunRecord, Shard, StopReason};
use pathbench_record::time::{Clock, Timestamp};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SCENARIO: &str = "name = \"x\"\n[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\n[run]\n\
                        transports = [\"tcp\", \"mptcp\"]\nduration = \"10s\"\n[expect]\n\
                        \"tcp.goodput_mbps\" = \"> 1\"\n\"mptcp.goodput_mbps\" = \"> 1\"\n";
const RUN_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct VirtualClock(AtomicU64);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, deadline: Timestamp) {
        self.0.fetch_max(deadline.as_nanos(), Ordering::Relaxed);
    }
}

fn plan(repeat: u32, warm_up: u32) -> ScenarioPlan {
    let overrides = Overrides { repeat: Some(repeat), warm_up: Some(warm_up), ..Overrides::default() };
    scenario::plan(&ScenarioSource::from_text("x.toml", SCENARIO), &overrides).unwrap()
}

fn options() -> StudyOptions {
    StudyOptions {
        launcher: AgentLauncher { program: "/bin/false".into(), arguments: Vec::new() },
        calibrate: false,
        capture: false,
        wall_offset_ns: 0,
        host: HostRecord::default(),
        jobs: NonZeroUsize::MIN,
        shard: None,
        retry_invalid: 2,
        until_ci_percent: None,
        time_limit: None,
        stop: Arc::new(AtomicBool::new(false)),
    }
}

/// The outcome of a run: what its record says, by its id. `Err` is an interrupt.
type Outcome = fn(&str) -> Result<bool, ()>;

/// A session, after the runs of `found`; returns the document and the expected time before each run.
fn session(
    plan: &ScenarioPlan,
    options: &StudyOptions,
    found: Option<&ResultDocument>,
    outcome: Outcome,
) -> (ResultDocument, Vec<Duration>) {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = ResultWriter::create(&directory.path().join("result")).unwrap();
    let mut document = first_document(plan, options);
    document.runs = found.map(|found| found.runs.clone()).unwrap_or_default();
    document.runs.retain(|run| !super::is_interrupted(run));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::default());
    let member = MemberProgress::new(StudyMember { plan, writer: &mut writer, document }, options.shard);
    let mut progress = StudyProgress::new(vec![member], options, &clock);
    let (mut lefts, mut user) = (Vec::new(), None);
    while user.is_none() {
        let Some(begun) = progress.begin() else { break };
        lefts.push(begun.left);
        clock.sleep_until(clock.now() + RUN_TIME);
        let (plan, scheduled) = progress.members[0].run(begun.index);
        let planned = super::order::run_id(plan, scheduled, options.shard);
        let id = begun.attempt.id(&planned);
        let made = outcome(&id);
        let mut record = RunRecord {
            label: scheduled.label.to_string(),
            pattern: "throughput".to_owned(),
            repetition: scheduled.repetition,
            valid: made == Ok(true),
            completed: made.is_ok(),
            goodput_mbps: Some(50.0),
            id,
            ..RunRecord::default()
        };
        if made.is_err() {
            record.invalid_because.push(STOPPED_BY_USER.to_owned());
            user = Some(StopReason::User);
        }
        begun.attempt.mark(&planned, &mut record);
        let (samples, events, deliveries, messages) = Default::default();
        let assembled = AssembledRun { record, samples, events, deliveries, messages, datagrams: Vec::new() };
        let run = ConductedRun { assembled, link_samples: Vec::new(), origin: Timestamp::default() };
        progress.enter(begun, run).unwrap();
    }
    let (stopped, retries) = (user.or(progress.stopped), progress.due_retries(0));
    let member = progress.members.remove(0);
    (finish(member, stopped, retries), lefts)
}

fn ids(document: &ResultDocument) -> Vec<String> {
    document.runs.iter().map(|run| run.id.clone()).collect()
}

fn stopped(document: &ResultDocument) -> Option<StopReason> {
    document.study.as_ref().and_then(|study| study.stopped)
}

/// The first attempts at tcp are not valid.
const FIRST_TCP_FAILS: Outcome = |id| Ok(id.contains("mptcp") || id.ends_with("-a2"));

#[test]
fn both_attempts_stay_in_the_result_and_the_valid_one_counts() {
    let plan = plan(3, 1);
    let (document, _) = session(&plan, &options(), None, FIRST_TCP_FAILS);
    assert_eq!(document.runs.len(), 2 + 3 * 3);
    assert_eq!(document.runs.iter().filter(|run| run.retry_of.is_some()).count(), 3);
    let tcp = document.summary.groups.iter().find(|group| group.label == "tcp").unwrap();
    assert_eq!((tcp.runs, tcp.valid), (6, 3));
    let study = document.study.as_ref().unwrap();
    assert_eq!(
        (study.planned_runs, study.retry_invalid, study.stopped),
        (6, Some(2), Some(StopReason::Completed))
    );
    assert!(document.summary.expectations.iter().all(|one| one.held), "{:?}", document.summary.expectations);
    let repetitions: Vec<u32> = document.runs.iter().skip(2).map(|run| run.repetition).collect();
    assert!(repetitions.is_sorted(), "{repetitions:?}");
    // Without the option no run is repeated, and the study is the same.
    let (without, _) = session(&plan, &StudyOptions { retry_invalid: 0, ..options() }, None, FIRST_TCP_FAILS);
    assert_eq!(without.runs.len(), 8);
    let identity = |document: &ResultDocument| document.study.as_ref().map(|study| study.identity.clone());
    assert_eq!(identity(&without), identity(&document));
}

#[test]
fn a_time_limit_before_a_retry_leaves_a_study_that_can_be_resumed() {
    let plan = plan(1, 0);
    let limited = StudyOptions { time_limit: Some(RUN_TIME * 2), ..options() };
    let (first, _) = session(&plan, &limited, None, FIRST_TCP_FAILS);
    assert_eq!((first.runs.len(), stopped(&first)), (2, Some(StopReason::TimeLimit)));
    let note = "the time limit ended the study; 1 of the invalid runs were not repeated";
    assert_eq!(first.summary.notes, [note]);
    assert!(super::is_ending_note(note));
    let (second, _) = session(&plan, &limited, Some(&first), FIRST_TCP_FAILS);
    let (whole, _) = session(&plan, &options(), None, FIRST_TCP_FAILS);
    assert_eq!((ids(&second), stopped(&second)), (ids(&whole), Some(StopReason::Completed)));
}

#[test]
fn an_interrupted_retry_is_made_again_under_its_id() {
    let plan = plan(2, 0);
    let interrupted: Outcome = |id| if id.ends_with("-a2") { Err(()) } else { FIRST_TCP_FAILS(id) };
    let (first, _) = session(&plan, &options(), None, interrupted);
    assert_eq!(stopped(&first), Some(StopReason::User));
    let (second, _) = session(&plan, &options(), Some(&first), FIRST_TCP_FAILS);
    let (whole, _) = session(&plan, &options(), None, FIRST_TCP_FAILS);
    assert_eq!(ids(&second), ids(&whole));
}

#[test]
fn a_study_that_is_precise_ends_after_a_repetition_with_its_retries() {
    let plan = plan(50, 0);
    let precise = StudyOptions { until_ci_percent: Some(5.0), ..options() };
    let (document, _) = session(&plan, &precise, None, FIRST_TCP_FAILS);
    // An interval needs six valid runs.
    assert_eq!((document.runs.len(), stopped(&document)), (6 * 3, Some(StopReason::Precision)));
}

#[test]
fn shards_with_retries_join_to_the_order_of_the_whole_study() {
    let plan = plan(4, 0);
    let (whole, _) = session(&plan, &options(), None, FIRST_TCP_FAILS);
    let shards = [2, 1].map(|number| {
        let options = StudyOptions { shard: Some(Shard { number, of: 2 }), ..options() };
        let (document, _) = session(&plan, &options, None, FIRST_TCP_FAILS);
        super::ShardResult { directory: format!("shard-{number}").into(), document }
    });
    let joined = super::join(shards.to_vec(), false).unwrap();
    assert_eq!(ids(&joined), ids(&whole));
}

#[test]
fn expectations_about_runs_that_were_not_made_are_not_judged() {
    static SEEN: Mutex<u32> = Mutex::new(0);
    let plan = plan(1, 0);
    let first = session(&plan, &options(), None, |_| Ok(true)).0.runs[0].label.clone();
    // The user stops the second run: nothing is known about its label.
    let (document, _) = session(&plan, &options(), None, |_| {
        let mut seen = SEEN.lock().unwrap();
        *seen += 1;
        if *seen > 1 { Err(()) } else { Ok(true) }
    });
    let of = |label: &str| {
        let key = format!("{label}.goodput_mbps");
        document.summary.expectations.iter().find(|one| one.key == key).unwrap()
    };
    let other = if first == "tcp" { "mptcp" } else { "tcp" };
    assert!(of(&first).held && !of(&first).not_judged);
    assert!(!of(other).held && of(other).not_judged && !of(other).failed(), "{:?}", of(other));
    // A run that was made and was not valid at any attempt is no such run.
    let (document, _) = session(&plan, &options(), None, |id| Ok(id.contains("mptcp")));
    let tcp = document.summary.expectations.iter().find(|one| one.key == "tcp.goodput_mbps").unwrap();
    assert!(tcp.failed() && tcp.found == "no valid run of tcp", "{tcp:?}");
}

/// 10 s for each run, once one of its kind was made.
#[test]
fn the_time_that_is_left_counts_down_and_includes_retries() {
    let plan = plan(3, 0);
    let (document, lefts) = session(&plan, &options(), None, FIRST_TCP_FAILS);
    assert_eq!(document.runs.len(), lefts.len());
    let left: Vec<u64> = lefts.iter().skip(3).map(Duration::as_secs).collect();
    // Two repetitions of two runs; a retry takes the place of the run that it repeats.
    assert!(left.is_sorted_by(|earlier, later| earlier >= later), "{left:?}");
    assert_eq!((left.len(), left.first(), left.last()), (6, Some(&40), Some(&10)), "{left:?}");
}
