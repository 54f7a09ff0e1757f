//! The progress of a study: options, the order of the runs, the next one, and the results so far.

use super::ending::{Pace, StoppingRule, is_precise};
use super::order::{ScheduledRun, interleave, order_of, run_id};
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
use std::collections::BTreeMap;
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
    fn on_record(&mut self, record: &RunRecord);
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

pub(super) struct MemberProgress<'a> {
    pub(super) member: StudyMember<'a>,
    pub(super) order: Vec<ScheduledRun>,
    /// The indices in the order of the document's runs.
    indices: Vec<usize>,
}

impl<'a> MemberProgress<'a> {
    /// Orders the runs of the member. Runs of earlier sessions are known by their ids.
    pub(super) fn new(mut member: StudyMember<'a>, shard: Option<Shard>) -> Self {
        let order = order_of(member.plan, shard);
        let ids: BTreeMap<String, usize> =
            order.iter().enumerate().map(|(index, run)| (run_id(member.plan, run, shard), index)).collect();
        let mut made: Vec<(usize, RunRecord)> = std::mem::take(&mut member.document.runs)
            .into_iter()
            .filter_map(|run| Some((*ids.get(&run.id)?, run)))
            .collect();
        made.sort_by_key(|(index, _)| *index);
        made.dedup_by_key(|(index, _)| *index);
        let (indices, runs) = made.into_iter().unzip();
        member.document.runs = runs;
        Self { member, order, indices }
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.indices.binary_search(&index).is_ok()
    }

    pub(super) fn run(&self, index: usize) -> (&'a ScenarioPlan, &ScheduledRun) {
        (self.member.plan, &self.order[index])
    }

    pub(super) fn missing_runs(&self) -> usize {
        self.order.len() - self.indices.len()
    }
}

/// The key of runs that take about as long: scenario, variant, label and pattern.
type Kind = (usize, usize, String, usize);

pub(super) struct StudyProgress<'a> {
    pub(super) members: Vec<MemberProgress<'a>>,
    clock: &'a Arc<dyn Clock>,
    /// The runs of this session: member and index.
    sequence: Vec<(usize, usize)>,
    next: usize,
    /// By position in the sequence.
    finished: Vec<bool>,
    pace: Pace<Kind>,
    ending: StoppingRule,
    /// Why no further run begins.
    pub(super) stopped: Option<StopReason>,
}

#[derive(Clone, Copy)]
pub(super) struct Begun {
    /// Position in the sequence of this session.
    pub(super) position: usize,
    pub(super) member: usize,
    pub(super) index: usize,
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
        let mut sequence = interleave(&orders, seed);
        sequence.retain(|&(member, index)| !members[member].has(index));
        Self {
            members,
            clock,
            finished: vec![false; sequence.len()],
            sequence,
            next: 0,
            pace: Pace::new(OVERHEAD),
            ending: StoppingRule::new(clock.now(), options.time_limit, options.until_ci_percent),
            stopped: None,
        }
    }

    pub(super) fn planned_runs(&self) -> usize {
        self.sequence.len()
    }

    /// The next run; `None` if all runs have begun, or the study ends.
    pub(super) fn begin(&mut self) -> Option<Begun> {
        let position = self.next;
        let &(member, index) = self.sequence.get(position)?;
        let now = self.clock.now();
        self.stopped = self.stopped.or_else(|| self.reason_to_stop(member, index, now));
        if self.stopped.is_some() {
            return None;
        }
        self.next += 1;
        Some(Begun { position, member, index, at: now })
    }

    fn reason_to_stop(&mut self, member: usize, index: usize, now: Timestamp) -> Option<StopReason> {
        let (kind, nominal) = self.kind(member, index);
        if self.next > 0 && self.ending.is_late(now, self.pace.expected_time(&kind, nominal)) {
            return Some(StopReason::TimeLimit);
        }
        let complete = self.complete_repetitions();
        let percent = self.ending.precision_after(complete)?;
        let is_precise = |member: &MemberProgress<'_>| {
            let runs = member.member.document.runs.iter();
            is_precise(runs.filter(|run| run.repetition <= complete), percent)
        };
        self.members.iter().all(is_precise).then_some(StopReason::Precision)
    }

    /// The number of repetitions of which every run is finished.
    fn complete_repetitions(&self) -> u32 {
        let unfinished = self.finished.iter().position(|finished| !finished);
        let Some(&(member, index)) = unfinished.and_then(|first| self.sequence.get(first)) else {
            return u32::MAX;
        };
        let (_, run) = self.members[member].run(index);
        if run.warm_up { 0 } else { run.repetition - 1 }
    }

    fn kind(&self, member: usize, index: usize) -> (Kind, Option<Duration>) {
        let (plan, run) = self.members[member].run(index);
        let pattern = &plan.variants[run.variant].run.patterns[run.pattern];
        ((member, run.variant, run.label.to_string(), run.pattern), pattern.parameters().nominal_duration())
    }

    /// Writes the results of a run. The document keeps the order in which runs began.
    pub(super) fn enter(&mut self, begun: Begun, run: ConductedRun) -> Result<RunRecord, StudyError> {
        let (kind, nominal) = self.kind(begun.member, begun.index);
        self.pace.add(kind, self.clock.now().duration_since(begun.at), nominal);
        self.finished[begun.position] = true;
        let MemberProgress { member, order, indices } = &mut self.members[begun.member];
        let ConductedRun { assembled, link_samples, .. } = run;
        let AssembledRun { mut record, samples, events, deliveries, messages } = assembled;
        if order[begun.index].warm_up {
            record.leave_out_as_warm_up();
        }
        member.writer.append(&samples)?;
        member.writer.append(&events)?;
        member.writer.append(&deliveries)?;
        member.writer.append(&messages)?;
        member.writer.append(&link_samples)?;
        member.writer.append_run(&record)?;
        let position = indices.partition_point(|&earlier| earlier < begun.index);
        indices.insert(position, begun.index);
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
    document.summary.expectations =
        plan.expectations.iter().map(|expectation| expectation.evaluate(document)).collect();
    document.summary.notes.clone_from(&plan.left_out);
}
