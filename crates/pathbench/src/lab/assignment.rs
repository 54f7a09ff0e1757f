//! What the command in front hands to the orchestrator, over its standard input.

use pathbench_lab::scenario::{Overrides, Source};
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Everything an orchestrator needs to know.
#[derive(Debug, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "switches that have nothing to do with each other")]
pub(crate) struct Assignment {
    /// `user-namespace` or `root`.
    pub(crate) privilege: String,
    /// The command in front keeps the processors awake until all is done.
    pub(crate) processors_awake: bool,
    /// What to run, one after the other; `lab up` has exactly one.
    pub(crate) jobs: Vec<Job>,
    /// Print the result document instead of the summary.
    pub(crate) json: bool,
    /// No progress.
    pub(crate) quiet: bool,
    /// Measure links before each run.
    pub(crate) calibrate: bool,
    /// Runs at the same time.
    pub(crate) side_by_side: NonZeroUsize,
    /// Write the packets of all emulated links to files.
    pub(crate) capture: bool,
}

/// One scenario to run. Validated once in front; planning it again here gives the same plan.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) source: Source,
    pub(crate) overrides: Overrides,
    /// Result directory; a default one beside others where `None`.
    pub(crate) out: Option<PathBuf>,
}
