//! Groups of submissions for the writer, and their outcomes.

use crate::facts::{self, Source};
use crate::store::NewResult;
use pathbench_api::problem::LineStatus;
use pathbench_api::submission::Checked;
use std::time::Duration;

/// The answer to a submission that was passed to the writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenGroup {
    /// One for each submission of the group, in order.
    pub statuses: Vec<LineStatus>,
}

/// Why a group of submissions was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWritten {
    /// The queue is full.
    #[error("the collector is busy; send it again in {} s", .retry_after.as_secs().max(1))]
    Busy { retry_after: Duration },
    /// The database or the raw store failed.
    #[error("the collector cannot store results now: {problem}")]
    Failed {
        problem: String,
        /// Whether the disk is full.
        is_full: bool,
        retry_after: Duration,
    },
}

/// An encoded submission for the writer: a parsed summary takes about 12 times the memory.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Without the location of its raw part.
    pub(super) result: NewResult,
    pub(super) raw: Vec<u8>,
}

impl Submitted {
    /// `received_ms` is Unix time.
    ///
    /// # Errors
    /// The summary cannot be written as JSON.
    pub fn new(checked: Checked, received_ms: u64, source: Source) -> serde_json::Result<Self> {
        let submission = &checked.submission;
        let result = NewResult {
            id: submission.id,
            digest: checked.digest,
            agent: submission.agent,
            consent: submission.consent,
            deletion: submission.deletion_sha256,
            received_ms,
            summary: serde_json::to_vec(&submission.summary)?,
            facts: facts::encode(&checked, source),
            raw: None,
        };
        Ok(Self { result, raw: checked.raw })
    }

    /// Its memory.
    pub fn bytes(&self) -> usize {
        let Self { result, raw } = self;
        size_of::<Self>() + result.summary.capacity() + result.facts.capacity() + raw.capacity()
    }
}

/// A group of submissions for the writer.
#[derive(Debug)]
pub struct SubmissionGroup {
    pub submissions: Vec<Submitted>,
}
