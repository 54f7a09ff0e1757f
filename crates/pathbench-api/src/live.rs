//! The measurements of an agent at this moment, for the page of running measurements.

use crate::name::Name;
use pathbench_record::transport::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `PUT /v1/live/AGENT`: replaces the previous report of this agent; it expires after 15 s. Agents with the consent
/// `private` report as well: only the collector's operator may see their reports.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LiveReport {
    /// Name of the agent; shown as it is.
    pub agent: Name,
    pub experiment: Option<Name>,
    pub server: Option<Name>,
    pub transport: Option<Transport>,
    pub pattern: Option<Name>,
    pub runs_done: u32,
    pub runs_planned: u32,
    /// Goodput of each path in the last second; at most 8 paths.
    pub paths: Vec<LivePath>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LivePath {
    pub name: Name,
    pub goodput_mbps: f64,
}

/// Time after which a report that was not replaced is dropped.
pub const EXPIRY_MS: u64 = 15_000;

pub const MOST_PATHS: usize = 8;

impl LiveReport {
    /// The first violation of a bound.
    pub fn problem(&self) -> Option<&'static str> {
        let is_rate =
            |path: &LivePath| path.goodput_mbps.is_finite() && (0.0..=1e6).contains(&path.goodput_mbps);
        match () {
            () if self.paths.len() > MOST_PATHS => Some("`paths` has more than 8 entries"),
            () if !self.paths.iter().all(is_rate) => Some("`goodput_mbps` is not between 0 and 1e6"),
            () => None,
        }
    }
}
