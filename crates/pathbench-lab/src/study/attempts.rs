//! The next run of a study: planned runs in their order and, at the end of each block, retries of the runs of the block
//! that were not valid. Pure.

use super::order::{Block, RunKind, ScheduledRun};
use pathbench_record::document::RunRecord;
use std::collections::{BTreeMap, BTreeSet};

/// An attempt at a planned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Index in the order of planned runs.
    pub planned: usize,
    /// From 1.
    pub number: u32,
}

impl Attempt {
    /// The id of this attempt at the run `planned`: `02-mptcp-r1`, `02-mptcp-r1-a2`.
    pub fn id(self, planned: &str) -> String {
        if self.number > 1 { format!("{planned}-a{}", self.number) } else { planned.to_owned() }
    }

    /// Marks the record of this attempt at the run `planned`.
    pub fn mark(self, planned: &str, record: &mut RunRecord) {
        if self.number > 1 {
            (record.retry_of, record.attempt) = (Some(planned.to_owned()), Some(self.number));
        }
    }
}

#[derive(Debug, Clone)]
struct PlannedRun {
    block: Block,
    kind: RunKind,
    /// Attempts that have begun.
    begun: u32,
    /// Whether no further attempt is due.
    is_settled: bool,
}

/// The runs of a study that have not begun.
///
/// A run that is not valid is repeated after the planned runs of its block, at most `most_retries` times. Warm-up runs are
/// not repeated. When all attempts at a run were in vain, later runs of its kind are not repeated either, until one is
/// valid: a cause that does not pass costs a study `most_retries` runs for each kind, not for each run.
#[derive(Debug)]
pub struct AttemptQueue {
    runs: Vec<PlannedRun>,
    most_retries: u32,
    /// Index before which every planned run has begun.
    next: usize,
    /// Block, number and planned run of the retries that are due.
    retries: BTreeSet<(Block, u32, usize)>,
    in_vain: BTreeSet<RunKind>,
    /// The attempts that have not begun.
    pending: BTreeMap<RunKind, usize>,
}

impl AttemptQueue {
    /// `runs` are the planned runs in their order, each with the index of its scenario.
    pub fn new<'a>(runs: impl Iterator<Item = (usize, &'a ScheduledRun)>, most_retries: u32) -> Self {
        let planned = |(scenario, run): (usize, &ScheduledRun)| PlannedRun {
            block: run.block(),
            kind: run.kind(scenario),
            begun: 0,
            is_settled: false,
        };
        let runs: Vec<PlannedRun> = runs.map(planned).collect();
        let mut pending = BTreeMap::new();
        for run in &runs {
            *pending.entry(run.kind.clone()).or_insert(0) += 1;
        }
        Self { runs, most_retries, next: 0, retries: BTreeSet::new(), in_vain: BTreeSet::new(), pending }
    }

    /// The queue of a study of one scenario with the ids and planned runs `order`, of which earlier sessions have made
    /// `made`.
    pub fn resume(order: &[(String, ScheduledRun)], most_retries: u32, made: &[RunRecord]) -> Self {
        let mut queue = Self::new(order.iter().map(|(_, run)| (0, run)), most_retries);
        let index_of: BTreeMap<&str, usize> =
            order.iter().enumerate().map(|(index, (id, _))| (id.as_str(), index)).collect();
        for run in made {
            if let Some(&planned) = index_of.get(run.planned_id()) {
                queue.replay(Attempt { planned, number: run.attempt_number() }, run.valid);
            }
        }
        queue
    }

    /// Sorts the records of the planned runs `order`: blocks in their order, in each the retries last.
    pub fn sort(&self, order: &[(String, ScheduledRun)], runs: &mut [RunRecord]) {
        let index_of: BTreeMap<&str, usize> =
            order.iter().enumerate().map(|(index, (id, _))| (id.as_str(), index)).collect();
        runs.sort_by_cached_key(|run| {
            let index = index_of.get(run.planned_id()).copied();
            (index.map(|index| self.runs[index].block), run.attempt_number(), index)
        });
    }

    /// Takes in an attempt of an earlier session.
    pub fn replay(&mut self, attempt: Attempt, is_valid: bool) {
        if attempt.planned < self.runs.len() {
            self.take(attempt);
            self.finish(attempt, is_valid);
        }
    }

    /// The attempt that begins next.
    pub fn peek(&self) -> Option<Attempt> {
        let planned = (self.next..self.runs.len()).find(|index| self.runs[*index].begun == 0);
        let retry = self.retries.first();
        match (planned, retry) {
            (Some(planned), Some(&(block, number, retried))) if block < self.runs[planned].block => {
                Some(Attempt { planned: retried, number })
            }
            (Some(planned), _) => Some(Attempt { planned, number: 1 }),
            (None, retry) => retry.map(|&(_, number, planned)| Attempt { planned, number }),
        }
    }

    /// Begins the next attempt.
    pub fn begin(&mut self) -> Option<Attempt> {
        let attempt = self.peek()?;
        self.take(attempt);
        Some(attempt)
    }

    fn take(&mut self, attempt: Attempt) {
        let run = &mut self.runs[attempt.planned];
        let is_pending = run.begun == 0 || self.retries.remove(&(run.block, attempt.number, attempt.planned));
        if is_pending && let Some(pending) = self.pending.get_mut(&run.kind) {
            *pending = pending.saturating_sub(1);
        }
        run.begun = run.begun.max(attempt.number);
        while self.runs.get(self.next).is_some_and(|run| run.begun > 0) {
            self.next += 1;
        }
    }

    /// Ends an attempt that has begun.
    pub fn finish(&mut self, attempt: Attempt, is_valid: bool) {
        let run = &mut self.runs[attempt.planned];
        let (is_warm_up, _) = run.block.parts();
        let has_retries = !is_warm_up && attempt.number <= self.most_retries;
        if is_valid {
            self.in_vain.remove(&run.kind);
        } else if has_retries && !self.in_vain.contains(&run.kind) {
            self.retries.insert((run.block, attempt.number.saturating_add(1), attempt.planned));
            *self.pending.entry(run.kind.clone()).or_insert(0) += 1;
            return;
        } else if !is_warm_up && !has_retries {
            self.in_vain.insert(run.kind.clone());
        }
        run.is_settled = true;
    }

    /// The number of attempts of each kind that have not begun.
    pub const fn pending(&self) -> &BTreeMap<RunKind, usize> {
        &self.pending
    }

    /// The planned run of each attempt that has not begun.
    pub fn pending_runs(&self) -> impl Iterator<Item = usize> {
        let planned = (self.next..self.runs.len()).filter(|index| self.runs[*index].begun == 0);
        planned.chain(self.due_retries())
    }

    /// The number of attempts that have not begun.
    pub fn pending_count(&self) -> usize {
        self.pending.values().sum()
    }

    /// The planned runs of which a retry is due.
    pub fn due_retries(&self) -> impl Iterator<Item = usize> {
        self.retries.iter().map(|(_, _, planned)| *planned)
    }

    /// The number of repetitions of which every run is settled.
    pub fn complete_repetitions(&self) -> u32 {
        let unsettled = self.runs.iter().find(|run| !run.is_settled);
        unsettled.map_or(u32::MAX, |run| match run.block.parts() {
            (true, _) => 0,
            (false, repetition) => repetition.saturating_sub(1),
        })
    }
}
