//! The progress of a running test, and the live records: one line per event and interval of `--json-stream`,
//! and the input of `--tui` (docs/live.md).
//!
//! A live record shows what the client knows while a run lasts. `run.json` has the figures of both ends.

use crate::document::{MtuChange, Reachability, RunRecord, Variant};
use crate::event::Event;
use crate::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// The progress of a test at its client. Counters run from the first byte of data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub at: Timestamp,
    /// The test's first byte of data, zero of the run's clock.
    pub first_byte: Timestamp,
    /// Payload bytes that the client's sockets accepted (upload).
    pub sent_bytes: u64,
    /// Payload bytes that the client received (download).
    pub received_bytes: u64,
    /// By path, from the latest sample; the counters of several streams or subflows on a path are summed.
    pub paths: Vec<PathProgress>,
    /// Delays of the client's messages that were acknowledged since the last progress (interactive), or round-trip times
    /// of the answered requests (ping).
    pub delays: Vec<Duration>,
    /// When the client's oldest unacknowledged message was due.
    pub waiting_since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathProgress {
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Bytes on the path that the server's kernel acknowledged (protocol overhead of the test included).
    pub acknowledged_bytes: u64,
    /// Bytes received on the path (protocol overhead of the test included).
    pub received_bytes: u64,
    /// Bytes that the client sent again.
    pub retransmitted_bytes: u64,
    /// Mean of the smoothed round-trip times of the open subflows; `None` without an open subflow.
    pub rtt: Option<Duration>,
    /// Sum over the open subflows.
    pub cwnd_bytes: u64,
}

/// A line of `--json-stream`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum LiveRecord {
    Start(LiveStart),
    RunStart(LiveRunStart),
    RunStage(LiveRunStage),
    Interval(LiveInterval),
    /// As a line of `events.jsonl`.
    Event(Event),
    RunEnd(Box<LiveRunEnd>),
    ProbeInterval(LiveProbes),
    MtuPath(LiveMtuPath),
    MtuChange(MtuChange),
    Result(LiveResult),
    Note(LiveNote),
    Omitted(LiveOmitted),
    End(LiveEnd),
}

/// The command begins to measure.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveStart {
    /// The names of the scenarios, joined by `, `; `test`, `roam` or `mtu` for these commands.
    pub name: String,
    /// Planned number of runs.
    pub runs: u32,
    pub seed: u64,
    /// Start time, RFC 3339, UTC.
    pub started: String,
    /// Least time between two intervals of a run.
    pub interval_ms: f64,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveRunStart {
    /// The run's id in `run.json`.
    pub run: String,
    /// From 1, in the order in which runs begin.
    pub number: u32,
    pub runs: u32,
    /// The transport with the path to which it is bound: `tcp@wlan`.
    pub label: String,
    pub pattern: String,
    pub variant: Variant,
    /// From 1.
    pub repetition: u32,
    /// Expected duration of the traffic; absent where unknown.
    pub expected_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveRunStage {
    pub run: String,
    pub stage: RunStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStage {
    Calibrating,
    Connecting,
}

/// The bytes that the client sent and received between two times of the run's clock.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveInterval {
    pub run: String,
    pub from_ms: f64,
    pub to_ms: f64,
    /// Payload bytes that the client's sockets accepted; the server has received fewer by the bytes in buffers and in
    /// flight.
    pub upload_bytes: u64,
    /// Payload bytes that the client received.
    pub download_bytes: u64,
    /// `upload_bytes` and `download_bytes` per second.
    pub rate_mbps: f64,
    pub paths: Vec<IntervalPath>,
    /// Interactive: delays of the client's messages acknowledged in this interval. Ping: round-trip times.
    pub delay_ms: Option<LiveDelay>,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct IntervalPath {
    /// The path's name as in the scenario; the local address if it has none.
    pub name: String,
    /// Bytes that the server acknowledged and bytes received on the path, from the latest sample of its figures. Protocol
    /// overhead of the test included.
    pub bytes: u64,
    /// `bytes` per second.
    pub rate_mbps: f64,
    /// Bytes that the client sent again.
    pub retransmitted_bytes: u64,
    /// Smoothed round-trip time at the end of the interval; absent if the path is not open.
    pub rtt_ms: Option<f64>,
    /// The client's congestion window at the end of the interval.
    pub cwnd_bytes: u64,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveDelay {
    pub messages: u32,
    /// Absent without a message.
    pub median: Option<f64>,
    /// Absent without a message.
    pub max: Option<f64>,
    /// For how long the oldest unacknowledged message has been due at the end of the interval.
    pub waiting: Option<f64>,
}

/// Probes of each path in `roam`, on the clock of the command.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveProbes {
    pub from_ms: f64,
    pub to_ms: f64,
    pub paths: Vec<LiveProbedPath>,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveProbedPath {
    pub name: String,
    /// Latest round-trip time; absent while the path does not answer.
    pub rtt_ms: Option<f64>,
    /// Probes without an answer, since the start.
    pub lost: u32,
}

/// A run's figures from both ends, as in `run.json`.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveRunEnd {
    pub run: String,
    pub valid: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<String>,
    pub completed: bool,
    pub error: Option<String>,
    pub duration_ms: f64,
    pub delivered_bytes: u64,
    pub goodput_mbps: Option<f64>,
    pub stall_ms: Option<f64>,
    pub recovery_ms: Option<f64>,
    pub fct_ms: Option<f64>,
    /// Median round-trip time of `ping`.
    pub ping_ms: Option<f64>,
    /// Median delay of `interactive`.
    pub delay_p50_ms: Option<f64>,
    pub delay_max_ms: Option<f64>,
    pub multipath_used: bool,
    pub paths: Vec<LivePathShare>,
}

#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LivePathShare {
    pub name: String,
    pub bytes_delivered: u64,
    /// 0 to 1.
    pub share: f64,
}

impl From<&RunRecord> for LiveRunEnd {
    fn from(run: &RunRecord) -> Self {
        let share = |path: &crate::document::PathRecord| LivePathShare {
            name: path.name.clone(),
            bytes_delivered: path.bytes_delivered,
            share: path.share,
        };
        Self {
            run: run.id.clone(),
            valid: run.valid,
            invalid_because: run.invalid_because.clone(),
            completed: run.completed,
            error: run.error.clone(),
            duration_ms: run.duration_ms,
            delivered_bytes: run.delivered_bytes,
            goodput_mbps: run.goodput_mbps,
            stall_ms: run.stall_ms,
            recovery_ms: run.recovery_ms,
            fct_ms: run.fct_ms,
            ping_ms: run.ping.as_ref().and_then(|ping| ping.median_ms),
            delay_p50_ms: run.delay_ms.as_ref().map(|delay| delay.p50),
            delay_max_ms: run.delay_ms.as_ref().map(|delay| delay.max),
            multipath_used: run.multipath.used,
            paths: run.paths.iter().map(share).collect(),
        }
    }
}

/// The MTU of a path in `mtu --watch`.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveMtuPath {
    /// Time since the start of the watch.
    pub t_ms: f64,
    pub path: String,
    /// Absent while nothing passes.
    pub upload_bytes: Option<u32>,
    pub download_bytes: Option<u32>,
    /// Differences between the kernel's state and the probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
}

/// The result directory of a scenario or command is complete.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveResult {
    pub name: String,
    pub directory: String,
    pub runs: u32,
    /// Runs that count in the statistics.
    pub valid_runs: u32,
}

/// A line of the progress for people.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveNote {
    pub text: String,
}

/// Records that were not written here, because the reader was too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LiveOmitted {
    pub records: u64,
}

/// The last record.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LiveEnd {
    pub exit_code: u8,
    /// Why the command failed.
    pub error: Option<String>,
    /// The attempts to reach a server, of a command that made no run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reachability: Vec<Reachability>,
}
