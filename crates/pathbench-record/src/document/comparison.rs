//! Comparisons of two groups of runs (definitions in docs/metrics.md).

use super::link::Variant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One figure of two groups of runs. `ratio` and `ci95` are those of candidate ÷ baseline; a figure that can be zero or
/// negative has `difference` (candidate − baseline) instead, and `ci95` and `margin` are in its unit.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The pattern.
    pub pattern: String,
    /// As in `summary.groups[].figures`.
    pub figure: String,
    /// The side that the effect relates to.
    pub baseline: ComparedRuns,
    /// The other side.
    pub candidate: ComparedRuns,
    /// Repetitions with the figure in a valid run of both groups; absent if the runs are of different results and not paired.
    pub pairs: Option<u32>,
    /// Candidate ÷ baseline (Hodges–Lehmann); absent for figures that can be zero.
    pub ratio: Option<f64>,
    /// Candidate − baseline, instead of `ratio`, for figures that can be zero.
    pub difference: Option<f64>,
    /// 95 % confidence interval of the ratio or difference (Walsh averages; Mann–Whitney without pairs); absent with fewer than 6 pairs.
    pub ci95: Option<[f64; 2]>,
    /// Smallest effect that counts: 0.05 of a ratio; of a difference in its unit.
    pub margin: f64,
    /// `different`, `same` or `cannot-tell`.
    pub verdict: Verdict,
    /// Repetitions that decide with a probability of 80 %; absent if the verdict is decided, or if 10 000 do not decide.
    pub repetitions_needed: Option<u32>,
    /// Two-sided p value of the signed-rank (without pairs: Mann–Whitney) test.
    pub p: f64,
    /// Number of comparisons of the same figure and pattern, which Holm's correction counts together.
    pub family: u32,
    /// Whether the verdict is *different* after Holm's correction, too.
    pub adjusted: bool,
    /// Probability that the candidate's figure is larger, less the probability that it is smaller.
    pub cliffs_delta: Option<f64>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ComparedRuns {
    /// The label.
    pub label: String,
    /// Matrix key → value.
    pub variant: Variant,
    /// Valid runs with the figure.
    pub runs: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval excludes "no effect", and the effect is at least the margin.
    Different,
    /// The whole interval is within the margin.
    Same,
    /// Neither, or fewer than 6 pairs.
    CannotTell,
}

impl Verdict {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Different => "different",
            Self::Same => "same",
            Self::CannotTell => "cannot tell",
        }
    }
}
