//! One commit: raw parts into the raw store, then one transaction for all groups.

use super::group::{SubmissionGroup, Submitted};
use crate::raw::{RawError, RawStore};
use crate::store::{Database, Inserted, NewResult, RawRange, StoreError};
use pathbench_api::Uuid;
use pathbench_api::digest::Digest;
use pathbench_api::problem::LineStatus;
use std::collections::HashMap;
use std::sync::Arc;
use thiserror::Error;

pub(super) struct Commit {
    pub(super) database: Arc<dyn Database>,
    pub(super) raw: Arc<dyn RawStore>,
}

pub(super) struct Committed {
    /// For each group, in order, the status of each submission; `None` if the commit failed.
    pub(super) groups: Vec<Option<Vec<LineStatus>>>,
    pub(super) failure: Option<CommitError>,
    /// Of created results.
    pub(super) summary_bytes: u64,
    pub(super) raw_bytes: u64,
}

/// Why a commit failed.
#[derive(Debug, Error)]
pub(super) enum CommitError {
    #[error(transparent)]
    Database(#[from] StoreError),
    #[error(transparent)]
    Raw(#[from] RawError),
    #[error("the disk has no space beside the reserve for deletions: free some space")]
    Reserve,
}

impl CommitError {
    /// Whether the disk, or the disk of a store, is full.
    pub(super) const fn is_full(&self) -> bool {
        matches!(
            self,
            Self::Database(StoreError::Full { .. }) | Self::Raw(RawError::Full { .. }) | Self::Reserve
        )
    }
}

/// The state of an id in this commit.
#[derive(Clone, Copy)]
enum Id {
    Deleted,
    Stored(Digest),
    /// The index in the list of new results.
    New(usize),
}

/// The status of a submission, or its index in the list of new results.
enum Slot {
    Status(LineStatus),
    New(usize),
    /// A repetition in the same commit.
    Same(usize),
    /// Another digest under the id of a new result.
    Different(usize),
}

fn compare(stored: Digest, submitted: Digest) -> LineStatus {
    if stored == submitted { LineStatus::Known } else { LineStatus::Conflict }
}

impl Commit {
    pub(super) fn write(&self, groups: &[SubmissionGroup], has_space: &dyn Fn() -> bool) -> Committed {
        let all = || groups.iter().flat_map(|group| &group.submissions);
        let mut ids: Vec<Uuid> = all().map(|submission| submission.result.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let known = match self.database.known(&ids) {
            Ok(known) => known,
            Err(error) => return failed(groups, error.into()),
        };
        let state = |(id, digest): (Uuid, Option<Digest>)| (id, digest.map_or(Id::Deleted, Id::Stored));
        let mut ids: HashMap<Uuid, Id> = known.into_iter().map(state).collect();
        let mut new = Vec::new();
        let mut slots = Vec::with_capacity(groups.len());
        for group in groups {
            let slot = |submission| slot(&mut ids, &mut new, submission);
            slots.push(group.submissions.iter().map(slot).collect::<Vec<Slot>>());
        }
        let stored = if new.is_empty() || has_space() { self.store(&new) } else { Err(CommitError::Reserve) };
        let (summary_bytes, raw_bytes) =
            stored.as_ref().map_or((0, 0), |stored| (stored.summary_bytes, stored.raw_bytes));
        let inserted = stored.as_ref().map(|stored| stored.inserted.as_slice()).ok();
        let groups = slots.iter().map(|slots| outcome(slots, inserted)).collect();
        Committed { groups, failure: stored.err(), summary_bytes, raw_bytes }
    }

    fn store(&self, new: &[&Submitted]) -> Result<Stored, CommitError> {
        if new.is_empty() {
            return Ok(Stored { inserted: Vec::new(), summary_bytes: 0, raw_bytes: 0 });
        }
        let mut batch: Vec<NewResult> = new.iter().map(|one| one.result.clone()).collect();
        let with_raw: Vec<usize> = (0..new.len()).filter(|at| !new[*at].raw.is_empty()).collect();
        let parts: Vec<&[u8]> = with_raw.iter().map(|at| new[*at].raw.as_slice()).collect();
        let ranges: Vec<RawRange> = self.raw.append(&parts)?;
        for (at, range) in with_raw.into_iter().zip(ranges) {
            batch[at].raw = Some(range);
        }
        // If this fails, its outcome can be unknown: the raw parts stay, and maintenance erases what no result refers
        // to.
        let inserted = self.database.insert(&batch)?;
        let created = || batch.iter().zip(&inserted).filter(|(_, outcome)| **outcome == Inserted::Created);
        let summary_bytes = created().map(|(result, _)| result.summary.len() as u64).sum();
        let raw_bytes = created().filter_map(|(result, _)| Some(result.raw.as_ref()?.bytes)).sum();
        Ok(Stored { inserted, summary_bytes, raw_bytes })
    }
}

struct Stored {
    inserted: Vec<Inserted>,
    summary_bytes: u64,
    raw_bytes: u64,
}

fn slot<'a>(ids: &mut HashMap<Uuid, Id>, new: &mut Vec<&'a Submitted>, submission: &'a Submitted) -> Slot {
    let NewResult { id, digest, .. } = submission.result;
    match ids.get(&id) {
        Some(Id::Deleted) => Slot::Status(LineStatus::Deleted),
        Some(Id::Stored(stored)) => Slot::Status(compare(*stored, digest)),
        Some(Id::New(first)) if new[*first].result.digest == digest => Slot::Same(*first),
        Some(Id::New(first)) => Slot::Different(*first),
        None => {
            ids.insert(id, Id::New(new.len()));
            new.push(submission);
            Slot::New(new.len() - 1)
        }
    }
}

fn outcome(slots: &[Slot], inserted: Option<&[Inserted]>) -> Option<Vec<LineStatus>> {
    let status = |slot: &Slot| match (slot, inserted) {
        (Slot::Status(status), _) => Some(*status),
        (_, None) => None,
        (Slot::New(at), Some(inserted)) => Some(match inserted[*at] {
            Inserted::Created => LineStatus::Created,
            Inserted::Known => LineStatus::Known,
            Inserted::Conflict => LineStatus::Conflict,
            Inserted::Deleted => LineStatus::Deleted,
        }),
        (Slot::Same(at), Some(inserted)) => Some(match inserted[*at] {
            Inserted::Created | Inserted::Known => LineStatus::Known,
            Inserted::Conflict => LineStatus::Conflict,
            Inserted::Deleted => LineStatus::Deleted,
        }),
        (Slot::Different(at), Some(inserted)) => Some(match inserted[*at] {
            Inserted::Created | Inserted::Known => LineStatus::Conflict,
            // Another collector stored a third one, or this one.
            Inserted::Conflict => LineStatus::Busy,
            Inserted::Deleted => LineStatus::Deleted,
        }),
    };
    slots.iter().map(status).collect()
}

fn failed(groups: &[SubmissionGroup], error: CommitError) -> Committed {
    Committed { groups: vec![None; groups.len()], failure: Some(error), summary_bytes: 0, raw_bytes: 0 }
}
