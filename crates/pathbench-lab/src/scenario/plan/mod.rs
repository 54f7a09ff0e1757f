//! A valid scenario as types, which need no further checks.

mod event;
mod link;
mod topology;
mod traffic;

pub use event::{EventAction, EventPlan, EventTime, FadePlan, PathChange};
pub use link::{LinkEnd, LinkEngine, LinkPlan};
pub use topology::{
    EndpointPlan, Hop, MptcpPlan, Node, NodeRole, RoutePlan, RulesChange, TopologyPlan, icmp_in_words,
};
pub(crate) use topology::{Middlebox, RouterRules, TooBigTreatment, path_of};
pub use traffic::{PatternPlan, QuicPlan, RunPlan, SocketPlan, ThroughputPlan};

use super::expect::ExpectationPlan;
use pathbench_record::document::Variant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// A scenario, validated in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioPlan {
    pub name: String,
    pub description: String,
    /// `builtin`, or the path of the file.
    pub origin: String,
    pub text: String,
    /// Keys changed on the command line: key path → value.
    pub overrides: Map<String, Value>,
    /// Seed of the run order and of all random decisions.
    pub seed: u64,
    /// Repetitions of each label in each variant, at least 1.
    pub repeat: u32,
    /// Repetitions before the others, which no statistic uses.
    pub warm_up: u32,
    /// The combinations of the matrix in file order, the last key varying fastest; one without a matrix.
    pub variants: Vec<VariantPlan>,
    pub expectations: Vec<ExpectationPlan>,
    /// Expectations omitted because the command line removed their transport or pattern, with the reason.
    pub left_out: Vec<String>,
    /// Time between two samples of a path.
    pub sample_interval: Duration,
    /// Maximum 99th percentile of the lateness of emulated links in a valid run.
    pub lateness_tolerance: Duration,
}

impl ScenarioPlan {
    /// Number of runs without warm-up runs: each transport and pattern of each variant, times the repetitions.
    pub fn run_count(&self) -> u64 {
        let of_variant = |variant: &VariantPlan| variant.run.labels.len() * variant.run.patterns.len();
        self.variants.iter().map(of_variant).sum::<usize>() as u64 * u64::from(self.repeat)
    }
}

/// One combination of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantPlan {
    /// Matrix key → value; empty without a matrix.
    pub variant: Variant,
    pub topology: TopologyPlan,
    /// In the order of their times.
    pub events: Vec<EventPlan>,
    pub run: RunPlan,
}
