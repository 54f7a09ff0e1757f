//! Delays of messages, diagnoses of unused paths, and the mobility metrics: Q. De Coninck and
//! O. Bonaventure, "`MultipathTester`: Comparing MPTCP and MPQUIC in Mobile Environments", section IV
//! (definitions in docs/metrics.md).

use super::link::Variant;
use crate::sample::Side;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Delay of the messages of `interactive`, in milliseconds: from due to acknowledgement received (docs/metrics.md).
///
/// Percentiles are over **all** messages. An unacknowledged message counts with the time from its due time to the end
/// of the run, which is less than its true delay; [`Self::unacknowledged`] counts these messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct DelayRecord {
    /// Messages that were due.
    pub messages: u32,
    /// Messages without an acknowledgement.
    pub unacknowledged: u32,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest; a lower bound if a message is unacknowledged.
    pub max: f64,
}

/// Round-trip times of `ping`, from passing the request to the socket to receiving the answer, without the warm-up.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct PingRecord {
    /// Measured requests.
    pub sent: u32,
    /// Requests without an answer in time; no other figure includes them.
    pub lost: u32,
    /// Median of the answered requests; absent if none was answered.
    pub median_ms: Option<f64>,
    /// Smallest of the answered requests.
    pub min_ms: Option<f64>,
    /// Largest of the answered requests.
    pub max_ms: Option<f64>,
    /// RTTs of the answered requests, in the order of sending.
    pub rtts_ms: Vec<f64>,
}

/// The explanation of a path that was unused, or that carried nothing for a second or more while others carried data.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathDiagnosis {
    /// The path.
    pub path: String,
    /// The sending end: `client` or `server`.
    pub side: Side,
    /// The cause.
    pub kind: DiagnosisKind,
    /// Start; absent if it covers the whole run.
    pub from_ms: Option<f64>,
    /// End; absent if it lasts to the end of the run.
    pub to_ms: Option<f64>,
    /// Its signs, in words.
    pub because: String,
    /// The remedy, in one line.
    pub remedy: String,
}

/// The reason why a path carries no data.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosisKind {
    /// Small packets pass and full-sized ones are dropped: nothing is acknowledged, the retransmission timer backs off,
    /// and the path MTU in use is still the local interface's (RFC 2923, section 2.1).
    MtuBlackHole,
    /// The path is silent: packets of all sizes are lost (MPTCP calls such a subflow stale).
    Stale,
    Backup,
    /// No subflow or QUIC path was established on the path.
    NeverEstablished,
    /// The host has no route to the server from the path's address.
    NoRoute,
    /// The path was open and healthy, and the scheduler preferred others.
    NotChosen,
    /// The connection begins on this path, which was silent, refused it or had no route: it was opened late or never.
    InitialPath,
}

impl DiagnosisKind {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The reason why the second path came into use: in this order, the first that holds at its first sent byte.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum HandoverReason {
    /// The smoothed RTT of the first path exceeded 600 ms.
    RttThreshold,
    /// The first path was in retransmission timeout.
    UnderRto,
    /// The retransmission timeout of the first path exceeded 1500 ms.
    RtoThreshold,
    /// None of the other reasons.
    Other,
}

impl HandoverReason {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A handover from the first path to the second, observed at the client or, with download data only, at the server.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HandoverRecord {
    /// The first path, on which the connection started.
    pub from: String,
    /// The second path.
    pub to: String,
    /// First data sent on the second path.
    pub began_ms: f64,
    /// Last activity sent on the first path − `began_ms`; negative: abrupt.
    pub duration_sent_ms: Option<f64>,
    /// Last activity received on the first path − `began_ms`; negative: abrupt.
    pub duration_received_ms: Option<f64>,
    /// The first condition that held for the first path when the second came into use.
    pub reason: HandoverReason,
    /// Smoothed RTT of the first path at that moment.
    pub srtt_ms: f64,
    /// Its retransmission timeout at that moment.
    pub rto_ms: f64,
    /// Its back-off steps at that moment.
    pub backoff: u32,
    /// Further observations at that moment, in words.
    pub remark: Option<String>,
}

impl HandoverRecord {
    /// Whether reception on the first path ended before the second came into use.
    pub fn is_abrupt(&self) -> bool {
        self.duration_received_ms.is_some_and(|duration| duration < 0.0)
    }
}

/// The mobility metrics over all repetitions of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct MobilitySummary {
    /// Matrix key → value.
    pub variant: Variant,
    /// One per multipath label.
    pub handovers: Vec<LabelHandovers>,
    /// `upload`, `download` → largest delay of mptcp ÷ that of mpquic in the same repetition, in the order of
    /// repetitions.
    pub max_delay_ratios: BTreeMap<String, Vec<f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct LabelHandovers {
    /// The label.
    pub label: String,
    /// Valid runs.
    pub runs: u32,
    /// Valid runs with a handover.
    pub handovers: u32,
    /// Reason → runs.
    pub reasons: BTreeMap<HandoverReason, u32>,
    /// Runs in which the first path had stopped receiving when the second came into use.
    pub abrupt: u32,
}

/// Probes of one interface during a run of `roam`: separate datagrams, independent of the tests.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ProbeRecord {
    /// The path.
    pub path: String,
    /// Probes that were due, including those that could not be sent.
    pub sent: u32,
    /// Answered probes.
    pub answered: u32,
    /// Median round-trip time of the answered probes.
    pub p50_ms: Option<f64>,
    /// Largest round-trip time.
    pub max_ms: Option<f64>,
    /// Longest time without an answer.
    pub longest_silence_ms: Option<f64>,
}

/// One line of `probes.jsonl`: a probe and its answer.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeLine {
    /// Time of sending, in milliseconds from the start of the result.
    pub t_ms: f64,
    /// The path.
    pub path: String,
    /// Number on its path, from 0.
    pub sequence: u32,
    /// Round-trip time; absent without an answer.
    pub rtt_ms: Option<f64>,
    /// Why it could not be sent; absent if it was sent.
    pub error: Option<String>,
}
