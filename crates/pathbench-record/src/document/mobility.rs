//! What a host that moves from one network to another feels: the paper's mobility metrics.
//!
//! Definitions: Q. De Coninck and O. Bonaventure, "`MultipathTester`: Comparing MPTCP and MPQUIC in Mobile
//! Environments", section IV; docs/metrics.md says how each is computed from the samples.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why the second path came into use. In this order: the first that holds at its first sent byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandoverReason {
    /// The smoothed RTT of the first path was over 600 ms.
    RttThreshold,
    /// The first path was in retransmission timeout.
    UnderRto,
    /// The retransmission timeout of the first path was over 1500 ms.
    RtoThreshold,
    /// None of these.
    Other,
}

impl HandoverReason {
    /// `rtt-threshold`, `under-rto`, `rto-threshold` or `other`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RttThreshold => "rtt-threshold",
            Self::UnderRto => "under-rto",
            Self::RtoThreshold => "rto-threshold",
            Self::Other => "other",
        }
    }
}

/// A handover from the first path to the second, seen at the client; where data goes only down, at the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoverRecord {
    /// The path in use at the start.
    pub from: String,
    /// The path that came into use.
    pub to: String,
    /// First data sent on the second path.
    pub began_ms: f64,
    /// Last activity (data or acknowledgement) **sent** on the first path − first data sent on the second. Negative:
    /// the first path had fallen silent before (abrupt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_sent_ms: Option<f64>,
    /// The same with the last activity **received** on the first path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_received_ms: Option<f64>,
    pub reason: HandoverReason,
    /// Smoothed RTT of the first path at that moment.
    pub srtt_ms: f64,
    /// Its retransmission timeout in force.
    pub rto_ms: f64,
    /// Its exponential back-off steps.
    pub backoff: u32,
    /// What else is known of that moment, in words (`wlan went down 12 ms before`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

impl HandoverRecord {
    /// Whether nothing was received on the first path any more when the second came into use.
    pub fn is_abrupt(&self) -> bool {
        self.duration_received_ms.is_some_and(|duration| duration < 0.0)
    }
}

/// The mobility metrics over all repetitions of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MobilitySummary {
    /// Matrix key → value.
    pub variant: super::Variant,
    /// One per multipath label with handovers.
    pub handovers: Vec<HandoverSummary>,
    /// Maximum delay of mptcp ÷ that of mpquic in the same repetition, by direction; in the order of repetitions.
    pub max_delay_ratios: BTreeMap<String, Vec<f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct HandoverSummary {
    pub label: String,
    pub runs: u32,
    pub handovers: u32,
    /// Reason → runs.
    pub reasons: BTreeMap<HandoverReason, u32>,
    /// Runs in which the first path had fallen silent before the second was used (by what was received).
    pub abrupt: u32,
}

/// Probes of one interface during a run of `roam`: datagrams of its own, beside the tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ProbeRecord {
    pub path: String,
    /// Probes sent (or that could not be sent for want of a route or an interface).
    pub sent: u32,
    pub answered: u32,
    /// Median round-trip time of those answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// Longest time without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_silence_ms: Option<f64>,
}

/// One line of `probes.jsonl`: a probe and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeLine {
    /// When it was sent, milliseconds from the begin of the result.
    pub t_ms: f64,
    pub path: String,
    /// Number on its path, from 0.
    pub sequence: u32,
    /// Round-trip time; absent when no answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Why it could not be sent, where it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
