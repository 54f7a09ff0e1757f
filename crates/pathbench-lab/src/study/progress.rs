//! The progress of a study: options, the order of the runs, the next one, and the results so far.

use super::attempts::{Attempt, AttemptQueue};
use super::ending::{Pace, StoppingRule, is_interrupted, is_precise};
use super::order::{Block, RunKind, ScheduledRun, interleave, order_of, run_id};
use crate::agent::AgentLauncher;
use crate::environment::EnvironmentError;
use crate::scenario::{PatternPlan, ScenarioPlan, VariantPlan};
use pathbench_analysis::assembly::{AssembledRun, ClientPath};
use pathbench_analysis::comparison;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{HostRecord, LinkSample, ResultDocument, RunRecord, Shard, StopReason};
use pathbench_record::event::Event;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_traffic::client::Progress;
use pathbench_transport::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;

/// Time of a run in addition to its traffic until one has been measured: the lab, its calibration, the records.
const OVERHEAD: Duration = Duration::from_secs(5);

/// A study failed. Files that are already written stay.
#[derive(Debug, Error)]
pub enum StudyError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl StudyError {
    /// Whether this host lacks a capability: a retry cannot help.
    pub fn is_incapable(&self) -> bool {
        matches!(self, Self::Environment(error) if error.is_incapable())
    }
}

#[derive(Debug)]
pub struct StudyOptions {
    /// The command that starts host agents.
    pub launcher: AgentLauncher,
    /// Whether links are measured before each run.
    pub calibrate: bool,
    /// Whether the packets of every emulated link are written to files, not only of links with `capture`.
    pub capture: bool,
    /// Offset from the clock to nanoseconds since 1970, for captures.
    pub wall_offset_ns: i64,
    pub host: HostRecord,
    /// Maximum number of parallel runs, each in its own lab. They share the machine: for light traffic only.
    pub jobs: NonZeroUsize,
    /// The part of the study to make.
    pub shard: Option<Shard>,
    /// Retries of a run that is not valid.
    pub retry_invalid: u32,
    /// The study ends when every interval is this precise.
    pub until_ci_percent: Option<f64>,
    /// Time after which no run begins that would probably end later.
    pub time_limit: Option<Duration>,
    /// Set when the user stops the study: the current run is discarded, finished runs are kept.
    pub stop: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy)]
pub struct BegunRun<'a> {
    pub id: &'a str,
    /// From 1, over all scenarios of the session.
    pub number: usize,
    /// Runs of this session that have begun or are due.
    pub runs: usize,
    /// Number of this attempt at the planned run, from 1.
    pub attempt: u32,
    /// Expected time of this and all later runs.
    pub left: Duration,
    pub scheduled: &'a ScheduledRun,
    pub scenario: &'a str,
    pub plan: &'a VariantPlan,
    pub pattern: &'a PatternPlan,
}

/// Receives the progress of a study, for a live display. `run` is the id of the run; with parallel runs, the calls of
/// several runs alternate.
pub trait StudyObserver: Send {
    fn on_run(&mut self, run: &BegunRun<'_>);
    fn on_calibration(&mut self, run: &str);
    fn on_connecting(&mut self, run: &str, paths: &[ClientPath]);
    fn on_progress(&mut self, run: &str, progress: Progress);
    /// Events of the scenario and of the kernels since the first byte of data, on the clock of the run.
    fn on_events(&mut self, run: &str, events: Vec<Event>);
    /// `left` is the expected time of the runs that have not begun.
    fn on_record(&mut self, record: &RunRecord, left: Duration);
}

pub(super) struct ConductedRun {
    pub(super) assembled: AssembledRun,
    pub(super) link_samples: Vec<LinkSample>,
    /// Time of the samples' zero.
    pub(super) origin: Timestamp,
}

#[derive(Debug)]
pub struct StudyMember<'a> {
    pub plan: &'a ScenarioPlan,
    pub writer: &'a mut ResultWriter,
    /// The document of the start, with the runs of earlier sessions.
    pub document: ResultDocument,
}

/// The location of an attempt in the document of its scenario.
type RecordKey = (Block, u32, usize);

pub(super) struct MemberProgress<'a> {
    pub(super) member: StudyMember<'a>,
    pub(super) order: Vec<ScheduledRun>,
    /// The keys in the order of the document's runs.
    keys: Vec<RecordKey>,
}

impl<'a> MemberProgress<'a> {
    /// Orders the runs of the member. Runs of earlier sessions are known by their ids.
    pub(super) fn new(mut member: StudyMember<'a>, shard: Option<Shard>) -> Self {
        let order = order_of(member.plan, shard);
        let ids: BTreeMap<String, usize> =
            order.iter().enumerate().map(|(index, run)| (run_id(member.plan, run, shard), index)).collect();
        let mut made: Vec<(RecordKey, RunRecord)> = std::mem::take(&mut member.document.runs)
            .into_iter()
            .filter_map(|run| {
                let index = *ids.get(run.planned_id())?;
                Some(((order[index].block(), run.attempt_number(), index), run))
            })
            .collect();
        made.sort_by_key(|(key, _)| *key);
        made.dedup_by_key(|(key, _)| *key);
        let (keys, runs) = made.into_iter().unzip();
        member.document.runs = runs;
        Self { member, order, keys }
    }

    pub(super) fn run(&self, index: usize) -> (&'a ScenarioPlan, &ScheduledRun) {
        (self.member.plan, &self.order[index])
    }

    pub(super) fn missing_runs(&self) -> usize {
        let made: BTreeSet<usize> = self.keys.iter().map(|(_, _, index)| *index).collect();
        self.order.len() - made.len()
    }
}

pub(super) struct StudyProgress<'a> {
    pub(super) members: Vec<MemberProgress<'a>>,
    clock: &'a Arc<dyn Clock>,
    /// The planned runs of all members: member and index.
    sequence: Vec<(usize, usize)>,
    queue: AttemptQueue,
    /// Runs of this session that have begun.
    begun: usize,
    jobs: u32,
    pace: Pace<RunKind>,
    ending: StoppingRule,
    /// Why no further run begins.
    pub(super) stopped: Option<StopReason>,
}

#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub(super) attempt: Attempt,
    pub(super) member: usize,
    pub(super) index: usize,
    /// From 1, in this session.
    pub(super) number: usize,
    /// Runs of this session that have begun or are due.
    pub(super) runs: usize,
    /// Expected time of this and all later runs.
    pub(super) left: Duration,
    at: Timestamp,
}

impl<'a> StudyProgress<'a> {
    pub(super) fn new(
        members: Vec<MemberProgress<'a>>,
        options: &'a StudyOptions,
        clock: &'a Arc<dyn Clock>,
    ) -> Self {
        let orders: Vec<Vec<ScheduledRun>> = members.iter().map(|member| member.order.clone()).collect();
        let seed = members.first().map_or(0, |member| member.member.plan.seed);
        let sequence = interleave(&orders, seed);
        let planned = sequence.iter().map(|&(member, index)| (member, &orders[member][index]));
        let mut queue = AttemptQueue::new(planned, options.retry_invalid);
        let positions: BTreeMap<(usize, usize), usize> =
            sequence.iter().enumerate().map(|(position, &at)| (at, position)).collect();
        for (number, member) in members.iter().enumerate() {
            for (&(_, attempt, index), run) in member.keys.iter().zip(&member.member.document.runs) {
                if let Some(&planned) = positions.get(&(number, index)) {
                    queue.replay(Attempt { planned, number: attempt }, run.valid);
                }
            }
        }
        Self {
            members,
            clock,
            sequence,
            queue,
            begun: 0,
            jobs: u32::try_from(options.jobs.get()).unwrap_or(u32::MAX),
            pace: Pace::new(OVERHEAD),
            ending: StoppingRule::new(clock.now(), options.time_limit, options.until_ci_percent),
            stopped: None,
        }
    }

    /// The number of runs that have not begun.
    pub(super) fn pending_runs(&self) -> usize {
        self.queue.pending_count()
    }

    /// The number of retries that were due for the scenario at the end of the study.
    pub(super) fn due_retries(&self, member: usize) -> usize {
        self.queue.due_retries().filter(|planned| self.sequence[*planned].0 == member).count()
    }

    /// The next run; `None` if all runs have begun, or the study ends.
    pub(super) fn begin(&mut self) -> Option<Begun> {
        let attempt = self.queue.peek()?;
        let &(member, index) = self.sequence.get(attempt.planned)?;
        let now = self.clock.now();
        self.stopped = self.stopped.or_else(|| self.reason_to_stop(member, index, now));
        if self.stopped.is_some() {
            return None;
        }
        let left = self.left();
        self.queue.begin();
        self.begun += 1;
        let runs = self.begun + self.queue.pending_count();
        Some(Begun { attempt, member, index, number: self.begun, runs, left, at: now })
    }

    fn reason_to_stop(&mut self, member: usize, index: usize, now: Timestamp) -> Option<StopReason> {
        let kind = self.members[member].order[index].kind(member);
        if self.begun > 0 && self.ending.is_late(now, self.pace.expected_time(&kind, self.nominal(&kind))) {
            return Some(StopReason::TimeLimit);
        }
        let complete = self.queue.complete_repetitions();
        let percent = self.ending.precision_after(complete)?;
        let is_precise = |member: &MemberProgress<'_>| {
            let runs = member.member.document.runs.iter();
            is_precise(runs.filter(|run| run.repetition <= complete), percent)
        };
        self.members.iter().all(is_precise).then_some(StopReason::Precision)
    }

    /// Length of the traffic of runs of this kind, if known.
    fn nominal(&self, (member, variant, _, pattern): &RunKind) -> Option<Duration> {
        let run = &self.members[*member].member.plan.variants[*variant].run;
        run.patterns[*pattern].parameters().nominal_duration()
    }

    /// Expected time of the runs that have not begun.
    pub(super) fn left(&self) -> Duration {
        let expected = |(kind, count): (&RunKind, &usize)| {
            let count = u32::try_from(*count).unwrap_or(u32::MAX);
            self.pace.expected_time(kind, self.nominal(kind)).saturating_mul(count)
        };
        let all = self.queue.pending().iter().map(expected);
        all.fold(Duration::ZERO, Duration::saturating_add) / self.jobs.max(1)
    }

    /// Writes the results of a run. The document keeps the order of blocks and, within each, of attempts and planned
    /// runs.
    pub(super) fn enter(&mut self, begun: Begun, run: ConductedRun) -> Result<RunRecord, StudyError> {
        let kind = self.members[begun.member].order[begun.index].kind(begun.member);
        let nominal = self.nominal(&kind);
        self.pace.add(kind, self.clock.now().duration_since(begun.at), nominal);
        let MemberProgress { member, order, keys } = &mut self.members[begun.member];
        let ConductedRun { assembled, link_samples, .. } = run;
        let AssembledRun { mut record, samples, events, deliveries, messages, datagrams } = assembled;
        if order[begun.index].warm_up {
            record.leave_out_as_warm_up();
        }
        if !is_interrupted(&record) {
            self.queue.finish(begun.attempt, record.valid);
        }
        member.writer.append(&samples)?;
        member.writer.append(&events)?;
        member.writer.append(&deliveries)?;
        member.writer.append(&messages)?;
        member.writer.append(&datagrams)?;
        member.writer.append(&link_samples)?;
        member.writer.append_run(&record)?;
        let key = (order[begun.index].block(), begun.attempt.number, begun.index);
        let position = keys.partition_point(|earlier| *earlier < key);
        keys.insert(position, key);
        member.document.runs.insert(position, record.clone());
        Ok(record)
    }
}

/// The observer, which has a lock of its own: while a run writes its result, the others notify.
pub(super) struct ObserverHandle<'a>(pub(super) Mutex<&'a mut dyn StudyObserver>);

impl ObserverHandle<'_> {
    pub(super) fn notify(&self, notify: impl FnOnce(&mut dyn StudyObserver)) {
        notify(&mut **lock(&self.0));
    }
}

/// Computes the summary of `document` from its runs.
pub fn conclude(plan: &ScenarioPlan, document: &mut ResultDocument) {
    comparison::summarise_runs(document);
    let unmade = unmade_runs(plan, document);
    document.summary.expectations =
        plan.expectations.iter().map(|expectation| expectation.judge(document, &unmade)).collect();
    document.summary.notes.clear();
}

/// The planned runs without a record of their own, or with that of an interrupted run, as records of their kinds.
fn unmade_runs(plan: &ScenarioPlan, document: &ResultDocument) -> Vec<RunRecord> {
    let shard = document.study.as_ref().and_then(|study| study.shard);
    let made: BTreeSet<&str> =
        document.runs.iter().filter(|run| !is_interrupted(run)).map(RunRecord::planned_id).collect();
    let unmade = order_of(plan, shard).into_iter();
    let unmade = unmade.filter(|run| !run.warm_up && !made.contains(run_id(plan, run, shard).as_str()));
    unmade
        .map(|run| {
            let variant = &plan.variants[run.variant];
            RunRecord {
                variant: variant.variant.clone(),
                label: run.label.to_string(),
                pattern: variant.run.patterns[run.pattern].name().to_owned(),
                ..RunRecord::default()
            }
        })
        .collect()
}
