//! The writer: a bounded queue, one thread, and one durable commit for all submissions that wait.

use pathbench_api::problem::LineStatus;
use pathbench_api::submission::Checked;
use std::time::Duration;

/// The answer to a submission that was passed to the writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
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
    Failed { problem: String, retry_after: Duration },
}

/// A group of submissions on its way to the writer.
#[derive(Debug)]
pub struct Group {
    pub submissions: Vec<Checked>,
    /// Unix time.
    pub received_ms: u64,
}
