//! The answer of a result in one line: what the second path is worth.

use super::comparison::Verdict;
use super::link::Variant;
use crate::direction::Direction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of a result; without its parts if the result has nothing to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct Headline {
    /// One per variant, multipath label and direction of throughput; none of runs with disruptive events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gains: Vec<Gain>,
    /// One per variant and label whose runs had a disruptive event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failovers: Vec<Failover>,
}

/// Goodput of a multipath label ÷ goodput of the best single path, which is the label of the same protocol on one path
/// with the highest median in this direction. `ratio` is absent unless every path was measured alone and the label used
/// several paths.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Matrix key → value.
    pub variant: Variant,
    /// The pattern.
    pub pattern: String,
    /// Direction of the data.
    pub direction: Direction,
    /// The multipath label.
    pub label: String,
    /// Completed valid runs of the label with a goodput in this direction.
    pub runs: u32,
    /// Of `runs`, those that used several paths.
    pub multipath_used: u32,
    /// The best single path; absent if no path was measured alone.
    pub best_single: Option<String>,
    /// Paths that no completed valid run measured alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_alone: Vec<String>,
    /// Repetitions with a goodput of both.
    pub pairs: u32,
    /// Label ÷ best single path (Hodges–Lehmann).
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio; absent with fewer than 6 pairs.
    pub ci95: Option<[f64; 2]>,
    /// As in `comparisons`.
    pub verdict: Option<Verdict>,
    /// Pairs that decide with a probability of 80 %; absent if the verdict is decided, or if 10 000 do not decide.
    pub pairs_needed: Option<u32>,
    /// The limit that explains the rate of at least half of `runs`, as in `limited_by`; absent if the links do.
    pub limited_by: Option<String>,
}

/// The longest stall after the disruptive events of a run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failover {
    /// Matrix key → value.
    pub variant: Variant,
    /// The pattern.
    pub pattern: String,
    /// The label.
    pub label: String,
    /// Valid runs with a disruptive event.
    pub runs: u32,
    /// Of `runs`, those that did not complete.
    pub failed: u32,
    /// Median over the completed runs of the longest stall after an event; absent if none completed.
    pub stall_ms: Option<f64>,
}
