//! What an application with messages feels: delays and round-trip times.

use serde::{Deserialize, Serialize};

/// Delay of the messages of `interactive`, in milliseconds: due → acknowledgement received (docs/metrics.md).
///
/// Percentiles are over **all** messages. One that was never acknowledged enters with the time from its due
/// time to the end of the run, which is less than its true delay; [`Self::late`] says how many there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct DelayRecord {
    pub messages: u32,
    /// Of these, never acknowledged.
    pub late: u32,
    pub p50: f64,
    /// 95th percentile (nearest rank).
    pub p95: f64,
    /// 99th percentile (nearest rank).
    pub p99: f64,
    pub max: f64,
}

/// Round-trip times of `ping`, request handed to the socket → answer received, warm-up left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct PingRecord {
    pub sent: u32,
    /// Of these, not answered in time; they are in none of the figures below.
    pub lost: u32,
    /// Median of those answered; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<f64>,
    /// Smallest of those answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ms: Option<f64>,
    /// Largest of those answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// Those answered, in the order in which they were sent.
    pub rtts_ms: Vec<f64>,
}
