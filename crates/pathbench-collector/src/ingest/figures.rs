//! Counters of the writer.

use super::commit::Committed;
use super::group::{NotWritten, SubmissionGroup, WrittenGroup};
use crate::metrics::Durations;
use pathbench_api::problem::LineStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Totals since the start, and the queue now.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Groups that were stored.
    pub groups: u64,
    /// Groups that the database or the raw store failed to store.
    pub failed_groups: u64,
    /// Groups that did not fit into the queue.
    pub refused_groups: u64,
    pub commits: u64,
    pub failed_commits: u64,
    /// Results by status.
    pub created: u64,
    pub known: u64,
    pub conflicts: u64,
    pub deleted: u64,
    /// Of created results, as stored.
    pub summary_bytes: u64,
    pub raw_bytes: u64,
    pub panics: u64,
    pub queue_groups: u64,
    pub queue_bytes: u64,
    /// Groups that the queue can hold.
    pub queue_capacity_groups: u64,
    /// Of all commits, failed ones included.
    pub commit_durations: Durations,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    totals: Mutex<Figures>,
}

impl Counters {
    fn totals(&self) -> MutexGuard<'_, Figures> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_refused(&self) {
        self.totals().refused_groups += 1;
    }

    pub(super) fn count_panic(&self) {
        self.totals().panics += 1;
    }

    pub(super) fn count_commit(&self, committed: &Committed, duration: Duration) {
        let mut totals = self.totals();
        totals.commit_durations.0.observe(duration.as_secs_f64());
        let is_failed = committed.failure.is_some();
        totals.commits += u64::from(!is_failed);
        totals.failed_commits += u64::from(is_failed);
        totals.summary_bytes += committed.summary_bytes;
        totals.raw_bytes += committed.raw_bytes;
    }

    pub(super) fn count_outcome(&self, group: &SubmissionGroup, outcome: &Result<WrittenGroup, NotWritten>) {
        let mut totals = self.totals();
        let Ok(written) = outcome else {
            totals.failed_groups += 1;
            return;
        };
        debug_assert_eq!(group.submissions.len(), written.statuses.len());
        totals.groups += 1;
        for status in &written.statuses {
            match status {
                LineStatus::Created => totals.created += 1,
                LineStatus::Known => totals.known += 1,
                LineStatus::Conflict => totals.conflicts += 1,
                LineStatus::Deleted => totals.deleted += 1,
                LineStatus::Invalid | LineStatus::Large | LineStatus::Busy => {}
            }
        }
    }

    pub(super) fn figures(&self, (queue_groups, queue_bytes): (usize, usize), most_groups: usize) -> Figures {
        Figures {
            queue_groups: queue_groups as u64,
            queue_bytes: queue_bytes as u64,
            queue_capacity_groups: most_groups as u64,
            ..self.totals().clone()
        }
    }
}
