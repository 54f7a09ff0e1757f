//! `run.json`: the document with the request, the host and the results.
//!
//! Every field name contains its unit. Fields without a value in a run are absent, never zero.

mod findings;
mod link;
mod mtu;

pub use findings::{
    DelayRecord, DiagnosisKind, HandoverReason, HandoverRecord, HandoverSummary, MobilitySummary,
    PathDiagnosis, PingRecord, ProbeLine, ProbeRecord,
};
pub use link::{
    DirectionFigures, EmulatedDirection, EmulationRecord, LatenessRecord, LinkFigures, LinkMeasurement,
    LinkRecord, LinkSample, OneWayDelay, PacketSizes, RouterRecord, RunLink, Variant,
};
pub use mtu::{
    ConnectionMtu, DirectionMtu, KernelPathState, MtuChange, MtuEvidence, MtuRecord, MtuStep, PathMtu,
};

use crate::direction::Direction;
use crate::event::EventKind;
use crate::network::AddressFamily;
use crate::sample::Side;
use crate::transport::Transport;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "pathbench.result/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultDocument {
    /// [`SCHEMA`], or the schema of the version that wrote the file.
    pub schema: String,
    pub scenario: ScenarioRecord,
    /// Seed of the run order and of all random decisions.
    pub seed: u64,
    pub host: HostRecord,
    /// Requested and measured figures of each link, over all runs.
    pub links: Vec<LinkRecord>,
    /// The servers pinged before the test, in the order given (`pathbench test` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerRecord>,
    /// The transports and ports that reached the chosen server (`pathbench test` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reachability: Vec<Reachability>,
    /// The MTU of each path (`pathbench mtu` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<MtuRecord>,
    /// Every run, in the order in which they ran.
    pub runs: Vec<RunRecord>,
    pub summary: Summary,
}

impl Default for ResultDocument {
    fn default() -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            scenario: ScenarioRecord::default(),
            seed: 0,
            host: HostRecord::default(),
            links: Vec::new(),
            servers: Vec::new(),
            reachability: Vec::new(),
            mtu: None,
            runs: Vec::new(),
            summary: Summary::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ScenarioRecord {
    /// The scenario's name; `test` for `pathbench test`.
    pub name: String,
    pub description: String,
    /// `builtin`, or the path of the file; `command line` for `pathbench test`.
    pub origin: String,
    pub text: String,
    /// Overrides on the command line: key of the scenario, or `--NAME` of an option, → value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub overrides: Map<String, Value>,
}

/// The host that produced the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct HostRecord {
    pub kernel: String,
    pub machine: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub pathbench: String,
    /// `user-namespace` (rootless) or `root`; `user` if neither was needed.
    pub privilege: String,
    /// Start time of the result, RFC 3339, UTC.
    pub started: String,
    /// Default congestion control, used if none is requested.
    pub default_congestion: String,
    /// Whether the CPUs were kept out of sleep states during the measurement.
    pub processors_awake: bool,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ServerRecord {
    pub address: String,
    pub name: Option<String>,
    /// Median round-trip time of the answered pings; absent without an answer.
    pub ping_ms: Option<f64>,
    pub lost: u32,
    pub chosen: bool,
    pub error: Option<String>,
}

/// Whether a transport reached a server at one address and port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reachability {
    pub server: String,
    pub transport: Transport,
    pub family: AddressFamily,
    pub port: u16,
    /// Whether a connection was opened and the server answered on it.
    pub reachable: bool,
    /// From opening the connection to the server's answer on it.
    pub rtt_ms: Option<f64>,
    pub error: Option<String>,
    pub error_kind: Option<UnreachableBecause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnreachableBecause {
    /// No answer in time: the server is down, or the path drops the packets.
    Timeout,
    /// No route to host (`ENETUNREACH`, `EHOSTUNREACH`, no address of the family).
    NoRoute,
    /// The host answered that no socket listens on the port.
    Refused,
    /// Any other error; the message describes it.
    Other,
}

/// One run: one transport × one pattern × one repetition.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct RunRecord {
    /// Unique within the result, e.g. `02-mptcp-r1`; samples, events and deliveries refer to it.
    pub id: String,
    pub variant: Variant,
    pub transport: Transport,
    /// The transport with the path to which it was bound: `tcp@wlan`.
    pub label: String,
    /// `ping`, `bulk`, `throughput`, `interactive`; `throughput-upload` and `throughput-download` if a result has both.
    pub pattern: String,
    /// Address of the server as given, if the server is not a host of the lab.
    pub server: Option<String>,
    /// From 1.
    pub repetition: u32,
    /// Whether the data was encrypted: always on quic and mpquic, with TLS on tcp and mptcp.
    pub encrypted: bool,
    /// Protocol and cipher suite in use: `TLS 1.3 TLS13_AES_128_GCM_SHA256`; absent without encryption.
    pub encryption: Option<String>,
    /// False when the environment differed from the scenario; such a run counts in no statistic.
    pub valid: bool,
    /// Reasons why the run is not valid; empty for a valid run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<String>,
    /// Whether the test completed and the receiver confirmed it.
    pub completed: bool,
    #[serialize_always]
    pub error: Option<String>,
    /// Bytes delivered to receiving applications per second of the measured time, both directions together.
    pub goodput_mbps: Option<f64>,
    /// All bytes delivered to receiving applications, both directions together, warm-up included.
    pub delivered_bytes: u64,
    pub duration_ms: f64,
    /// For a run that did not complete: time without a byte before the application ended the test.
    pub hung_ms: Option<f64>,
    /// Longest time without a byte at the receiver while data was outstanding (docs/metrics.md).
    pub stall_ms: Option<f64>,
    /// Recovery after the first disruptive event (docs/metrics.md); absent without recovery.
    pub recovery_ms: Option<f64>,
    /// Dip after the first disruptive event, 0 to 1 (docs/metrics.md).
    pub dip: Option<f64>,
    /// From opening the connection until its first stream can carry data; TLS and QUIC handshakes included.
    pub handshake_ms: Option<f64>,
    /// `bulk`: from before the connection is opened to the last byte received and verified.
    pub fct_ms: Option<f64>,
    pub ping: Option<PingRecord>,
    /// `interactive`: delay of the messages of both directions together.
    pub delay_ms: Option<DelayRecord>,
    /// Network changes during the run that the scenario does not contain, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched_by: Vec<String>,
    pub multipath: MultipathRecord,
    /// Every path of the connection, with or without data.
    pub paths: Vec<PathRecord>,
    pub directions: Vec<DirectionRecord>,
    /// Each disruptive event and its impact, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impacts: Vec<Impact>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<RunLink>,
    /// Paths that carried nothing during all or a part of the run, and the causes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnoses: Vec<PathDiagnosis>,
    /// Routers of the lab and their handling of packets that were too large.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterRecord>,
    /// The handover from the first path to the second, if one occurred (mptcp, mpquic; an unused path came into use).
    pub handover: Option<HandoverRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeRecord>,
    pub parameters: Parameters,
    /// MIB counters that changed during the run, after − before: side → name (`MPTcpExt.MPJoinSynTx`) → difference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Side, BTreeMap<String, i64>>,
    /// Remarks about this run for the user, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl RunRecord {
    /// The largest delay of the messages with requests in this direction; `None` for patterns without such messages.
    pub fn max_delay_ms(&self, direction: Direction) -> Option<f64> {
        let of_direction = self.directions.iter().find(|record| record.direction == direction)?;
        Some(of_direction.delay_ms.as_ref()?.max)
    }
}

/// Whether multipath was used, as observed and not inferred from the requested option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MultipathRecord {
    pub requested: bool,
    /// Whether multipath was negotiated and still in use at the end (no fallback), according to the kernel (mptcp) or
    /// the transport parameters (mpquic).
    pub negotiated: bool,
    /// Whether at least two paths each carried 1 % of the delivered bytes or more.
    pub used: bool,
    /// The reason why multipath was not used and a remedy, or the evidence that it was used, as text.
    pub reason: String,
    /// Paths that carried at least 1 % of the delivered bytes.
    pub paths_used: u32,
    /// Number of subflows opened during the run, the first included, if the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subflows_total: Option<u32>,
}

/// One path of a run. The sending end counts sent data, the receiving end counts delivered data; with data in both
/// directions the figures are sums over both. Several subflows on one path are summed.
///
/// "Payload" is TCP payload for tcp and mptcp, data of STREAM frames for quic and mpquic;
/// [`crate::sample::PathFigures`] gives the source of each figure.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct PathRecord {
    pub name: String,
    pub local: String,
    pub remote: String,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes that arrived over this path, in order if the transport has one order per path (reinjected
    /// duplicates included).
    pub bytes_delivered: u64,
    /// Fraction of all `bytes_delivered`, 0 to 1.
    pub share: f64,
    /// Part of `bytes_sent` that had been sent before.
    pub retransmitted_bytes: u64,
    /// Sizes of the packets that the sender declared lost, where the transport reports them (quic, mpquic).
    pub lost_bytes: Option<u64>,
    /// UDP payload sent by both ends in packets without stream data (quic, mpquic).
    pub control_bytes: Option<u64>,
    /// Sending MSS when the path last carried data.
    pub mss_bytes: u32,
    /// Path MTU in use by the transport when the path last carried data.
    pub pmtu_bytes: u32,
    /// Median smoothed RTT over the run's samples.
    pub rtt_ms: f64,
    /// `open` or `closed` at the end of the run.
    pub state: String,
    pub backup: Option<bool>,
    pub subflows: u32,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionRecord {
    pub direction: Direction,
    pub goodput_mbps: Option<f64>,
    pub delivered_bytes: u64,
    pub stall_ms: Option<f64>,
    /// `interactive`: delay of the messages with requests in this direction.
    pub delay_ms: Option<DelayRecord>,
}

/// The impact of a disruptive event on the deliveries (docs/metrics.md).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Impact {
    pub direction: Direction,
    pub kind: EventKind,
    pub path: Option<String>,
    pub at_ms: f64,
    /// Mean goodput before the event, over at most 2 s.
    pub before_mbps: Option<f64>,
    /// Mean goodput at the end of the event's phase: the goodput over the remaining paths.
    pub settled_mbps: Option<f64>,
    /// 1 − (lowest 100 ms goodput until the recovery ÷ the lower of `before_mbps` and `settled_mbps`).
    pub dip: Option<f64>,
    /// From the event to the first 100 ms window from which goodput stays at the lower of `before_mbps` and
    /// `settled_mbps`; 0 without a dip; absent without recovery.
    pub recovery_ms: Option<f64>,
    /// Longest stall that begins after (or spans) the event, up to the next event.
    pub stall_ms: Option<f64>,
}

/// A period between two events (or start and end).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    pub direction: Direction,
    /// `start`, or the event at its beginning: `down wlan`.
    pub name: String,
    pub from_ms: f64,
    pub to_ms: f64,
    pub goodput_mbps: f64,
    /// Path → fraction of the bytes that arrived during the phase (from the receiver's samples).
    pub shares: BTreeMap<String, f64>,
}

/// Socket options as requested and as in use in the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Parameters {
    /// As in the scenario (`run.throughput.*`), defaults filled in.
    pub asked: Map<String, Value>,
    /// As read back from the sockets: `client.congestion`, `server.receive_buffer_bytes`, ….
    pub in_force: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Summary {
    pub groups: Vec<Group>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// Mobility metrics, one entry per variant, if there were handovers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mobility: Vec<MobilitySummary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// All repetitions of one label and pattern in one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub variant: Variant,
    pub label: String,
    pub pattern: String,
    pub runs: u32,
    /// Runs in a valid environment; only these count in the figures below.
    pub valid: u32,
    pub completed: u32,
    /// Valid runs in which multipath was used.
    pub multipath_used: u32,
    /// Figure name (`goodput_mbps`, `stall_ms`, `delay_p95_ms`, …: docs/results.md) → its distribution.
    pub figures: BTreeMap<String, Distribution>,
    pub shares: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub n: u32,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Distribution-free 95 % confidence interval of the median, from order statistics; absent for n < 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

/// One `[expect]` entry and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// As written: `mptcp.stall_ms`.
    pub key: String,
    /// As written: `< 500`.
    pub expected: String,
    /// The value found, as text, with its run.
    pub found: String,
    /// Whether the expectation held in every valid run to which it applies (at least one).
    pub held: bool,
}
