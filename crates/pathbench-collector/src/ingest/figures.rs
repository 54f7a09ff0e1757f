//! Counters of the writer.

use super::commit::Committed;
use super::group::{NotWritten, SubmissionGroup, WrittenGroup};
use crate::metrics::Durations;
use pathbench_api::problem::LineStatus;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Counters {
    groups: AtomicU64,
    failed_groups: AtomicU64,
    refused_groups: AtomicU64,
    commits: AtomicU64,
    failed_commits: AtomicU64,
    created: AtomicU64,
    known: AtomicU64,
    conflicts: AtomicU64,
    deleted: AtomicU64,
    summary_bytes: AtomicU64,
    raw_bytes: AtomicU64,
    panics: AtomicU64,
    commit_durations: Durations,
}

/// Totals since the start, and the queue now.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Groups that were stored.
    pub groups: u64,
    /// Groups that the database or the raw store failed to store.
    pub failed_groups: u64,
    /// Groups for which the queue had no room.
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

impl Counters {
    pub(super) fn refused(&self) {
        self.refused_groups.fetch_add(1, Relaxed);
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    pub(super) fn committed(&self, committed: &Committed, duration: Duration) {
        self.commit_durations.0.observe(duration.as_secs_f64());
        let counter = if committed.failure.is_none() { &self.commits } else { &self.failed_commits };
        counter.fetch_add(1, Relaxed);
        self.summary_bytes.fetch_add(committed.summary_bytes, Relaxed);
        self.raw_bytes.fetch_add(committed.raw_bytes, Relaxed);
    }

    pub(super) fn answered(&self, group: &SubmissionGroup, outcome: &Result<WrittenGroup, NotWritten>) {
        let Ok(written) = outcome else {
            self.failed_groups.fetch_add(1, Relaxed);
            return;
        };
        debug_assert_eq!(group.submissions.len(), written.statuses.len());
        self.groups.fetch_add(1, Relaxed);
        for status in &written.statuses {
            let counter = match status {
                LineStatus::Created => &self.created,
                LineStatus::Known => &self.known,
                LineStatus::Conflict => &self.conflicts,
                LineStatus::Deleted => &self.deleted,
                LineStatus::Invalid | LineStatus::Large | LineStatus::Busy => continue,
            };
            counter.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn figures(&self, (queue_groups, queue_bytes): (usize, usize), most_groups: usize) -> Figures {
        Figures {
            groups: self.groups.load(Relaxed),
            failed_groups: self.failed_groups.load(Relaxed),
            refused_groups: self.refused_groups.load(Relaxed),
            commits: self.commits.load(Relaxed),
            failed_commits: self.failed_commits.load(Relaxed),
            created: self.created.load(Relaxed),
            known: self.known.load(Relaxed),
            conflicts: self.conflicts.load(Relaxed),
            deleted: self.deleted.load(Relaxed),
            summary_bytes: self.summary_bytes.load(Relaxed),
            raw_bytes: self.raw_bytes.load(Relaxed),
            panics: self.panics.load(Relaxed),
            queue_groups: queue_groups as u64,
            queue_bytes: queue_bytes as u64,
            queue_capacity_groups: most_groups as u64,
            commit_durations: self.commit_durations.clone(),
        }
    }
}
