//! `run.json`: the one document that says what was asked, on what machine, and what came out of it.
//!
//! Every unit stands in its field's name. Fields that a run has no value for are absent, never zero.

mod application;
mod diagnosis;
mod emulation;
mod link;
mod mobility;
mod mtu;
mod packet_sizes;
mod server;

pub use application::{DelayRecord, PingRecord};
pub use diagnosis::{DiagnosisKind, PathDiagnosis};
pub use emulation::{EmulatedDirection, EmulationRecord, LatenessRecord, LinkSample, OneWayDelay};
pub use link::{DirectionFigures, LinkFigures, LinkMeasurement, LinkRecord, RunLink};
pub use mobility::{
    HandoverReason, HandoverRecord, HandoverSummary, MobilitySummary, ProbeLine, ProbeRecord,
};
pub use mtu::{
    ConnectionMtu, DirectionMtu, KernelBelief, MtuChange, MtuEvidence, MtuRecord, MtuStep, PathMtu,
};
pub use packet_sizes::{PacketSizes, RouterRecord};
pub use server::{AddressFamily, Reachability, ServerRecord, UnreachableBecause};

use crate::direction::Direction;
use crate::event::EventKind;
use crate::sample::Side;
use crate::transport::Transport;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "pathbench.result/1";

/// Goodput, stall and the like by matrix key: key → value as written in the scenario.
pub type Variant = BTreeMap<String, Value>;

/// The whole of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultDocument {
    /// [`SCHEMA`], or that of the version which wrote the file.
    pub schema: String,
    pub scenario: ScenarioRecord,
    /// Seed of the run order and of everything random.
    pub seed: u64,
    pub host: HostRecord,
    /// Each link: what was requested and what it measured over all runs.
    pub links: Vec<LinkRecord>,
    /// The servers that were asked before the test, in the order given (`pathbench test` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerRecord>,
    /// Which transport reached the chosen server on which port (`pathbench test` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reachability: Vec<Reachability>,
    /// The MTU of each path (`pathbench mtu` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<MtuRecord>,
    /// Every run, in the order in which they ran.
    pub runs: Vec<RunRecord>,
    /// The comparison over repetitions, and the verdicts.
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
    /// Its name; `test` for `pathbench test`.
    pub name: String,
    pub description: String,
    /// `builtin`, or the path of the file; `command line` for `pathbench test`.
    pub origin: String,
    pub text: String,
    /// What was changed on the command line: key of the scenario, or `--NAME` of an option, → value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub overrides: Map<String, Value>,
}

/// The machine on which the result was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct HostRecord {
    pub kernel: String,
    pub machine: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub pathbench: String,
    /// `user-namespace` (rootless) or `root`; `user` where nothing of the kind was needed.
    pub privilege: String,
    /// When the result was begun, RFC 3339, UTC.
    pub started: String,
    /// Congestion control in force when none is asked for.
    pub default_congestion: String,
    /// Whether its processors were kept from sleeping while it measured, so that none had to be woken for a packet.
    #[serde(default)]
    pub processors_awake: bool,
}

/// One run: one transport × one pattern × one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct RunRecord {
    /// Unique within the result, e.g. `02-mptcp-r1`; samples, events and deliveries refer to it.
    pub id: String,
    /// Matrix key → value.
    pub variant: Variant,
    pub transport: Transport,
    /// The transport with the path it was bound to: `tcp@wlan`.
    pub label: String,
    /// `ping`, `bulk`, `iperf` or `interactive`; `iperf-upload` and `iperf-download` where a result has both.
    pub pattern: String,
    /// Address of the server, as it was given, where the server is not a host of the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// From 1.
    pub repetition: u32,
    /// Whether what travelled was encrypted: always on quic and mpquic, with TLS on tcp and mptcp.
    #[serde(default)]
    pub encrypted: bool,
    /// Protocol and cipher suite in force: `TLS 1.3 TLS13_AES_128_GCM_SHA256`; absent in clear text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<String>,
    /// False when the environment was not what the scenario asks for; such a run counts in no statistic.
    pub valid: bool,
    /// Why it is not valid; empty when it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<String>,
    /// Whether the test ran to its end and the receiver confirmed it.
    pub completed: bool,
    #[serde(default)]
    pub error: Option<String>,
    /// Bytes delivered to receiving applications per second of the measured time, both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_mbps: Option<f64>,
    /// All bytes delivered to receiving applications, both directions together, warm-up included.
    pub delivered_bytes: u64,
    /// First to last byte delivered.
    pub duration_ms: f64,
    /// For a run that did not complete: how long the application waited without a byte before it gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hung_ms: Option<f64>,
    /// Longest time the receiver got no byte while data was outstanding (docs/metrics.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ms: Option<f64>,
    /// Recovery after the first disruptive event (docs/metrics.md); absent when it never came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_ms: Option<f64>,
    /// Dip after the first disruptive event, 0 to 1 (docs/metrics.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dip: Option<f64>,
    /// Opening the connection → its first stream can carry data; TLS and QUIC handshakes included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<f64>,
    /// `bulk`: before the connection is opened → last byte received and found right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_ms: Option<f64>,
    /// `ping`: round-trip times of its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping: Option<PingRecord>,
    /// `interactive`: delay of the messages of both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<DelayRecord>,
    /// Network changes that nobody ordered and that fell into the run, in words; empty when there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched_by: Vec<String>,
    pub multipath: MultipathRecord,
    /// Every path of the connection, data or not.
    pub paths: Vec<PathRecord>,
    pub directions: Vec<DirectionRecord>,
    /// Each disruptive event and what it did, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impacts: Vec<Impact>,
    /// The stretches between events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Links as measured before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<RunLink>,
    /// Paths that carried nothing, for all of the run or a part of it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnoses: Vec<PathDiagnosis>,
    /// Routers of the lab and what they did about packets that were too large.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterRecord>,
    /// The handover from the first path to the second, where there was one (mptcp, mpquic; a spare path came into use).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<HandoverRecord>,
    /// Probes of each interface (`pathbench roam`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeRecord>,
    pub parameters: Parameters,
    /// MIB counters that changed during the run, after − before: side → name (`MPTcpExt.MPJoinSynTx`) → difference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Side, BTreeMap<String, i64>>,
    /// Anything a person should know about this run, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl RunRecord {
    /// The largest delay of the messages whose requests went this way; `None` for patterns without such messages.
    pub fn max_delay_ms(&self, direction: Direction) -> Option<f64> {
        let of_direction = self.directions.iter().find(|record| record.direction == direction)?;
        Some(of_direction.delay_ms.as_ref()?.max)
    }
}

/// Was multipath really used? Never inferred from the option that asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MultipathRecord {
    pub requested: bool,
    /// Whether the protocol was negotiated and still in force at the end (no fallback), by the word of the
    /// kernel (mptcp) or of the transport parameters (mpquic).
    pub negotiated: bool,
    /// Whether at least two paths each carried 1 % of the delivered bytes or more.
    pub used: bool,
    /// Why not, in words a person can act on; how it is known when it was used.
    pub reason: String,
    /// Paths that carried at least 1 % of the delivered bytes.
    pub paths_used: u32,
    /// Subflows ever opened, the first included, where the kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subflows_total: Option<u32>,
}

/// One path of a run. Figures are the sending end's for what it sent, the receiving end's for what arrived;
/// with data both ways they are sums over both directions. Several subflows on one path are added up.
///
/// "Payload" is TCP payload for tcp and mptcp, data of STREAM frames for quic and mpquic;
/// [`crate::sample::PathFigures`] says where each figure comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct PathRecord {
    pub name: String,
    pub local: String,
    pub remote: String,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes that arrived over this path, in order where the transport has one order per path
    /// (reinjected duplicates included).
    pub bytes_delivered: u64,
    /// Part of all `bytes_delivered`, 0 to 1.
    pub share: f64,
    /// Of `bytes_sent`, payload that had been sent before.
    pub retransmitted_bytes: u64,
    /// Sizes of the packets that the sender declared lost, where the transport tells (quic, mpquic).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_bytes: Option<u64>,
    /// UDP payload sent by both ends in packets without stream data (quic, mpquic).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_bytes: Option<u64>,
    /// Sending MSS when the path last carried data.
    pub mss_bytes: u32,
    /// Path MTU in force in the transport when the path last carried data.
    pub pmtu_bytes: u32,
    /// Median smoothed RTT over the run's samples.
    pub rtt_ms: f64,
    /// `open` or `closed` at the end of the run.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// Subflows (or QUIC paths) that used it.
    pub subflows: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionRecord {
    pub direction: Direction,
    /// Goodput over the measured time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_mbps: Option<f64>,
    /// Bytes delivered, warm-up included.
    pub delivered_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ms: Option<f64>,
    /// `interactive`: delay of the messages whose requests went this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<DelayRecord>,
}

/// What a disruptive event did to the deliveries (docs/metrics.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Impact {
    /// Direction whose deliveries are meant.
    pub direction: Direction,
    pub kind: EventKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub at_ms: f64,
    /// Mean goodput before it, at most 2 s back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_mbps: Option<f64>,
    /// Mean goodput at the end of its phase: what the paths that are left give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_mbps: Option<f64>,
    /// 1 − lowest 100 ms goodput until the recovery ÷ the lower one of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dip: Option<f64>,
    /// Event → first 100 ms window from which goodput stays at the lower one of both; 0 without a dip; absent when it never
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_ms: Option<f64>,
    /// Longest stall that begins after (or spans) the event, up to the next event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ms: Option<f64>,
}

/// A stretch between two events (or start and end).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Direction whose deliveries are meant.
    pub direction: Direction,
    /// `start`, or the event that began it: `down wlan`.
    pub name: String,
    pub from_ms: f64,
    pub to_ms: f64,
    pub goodput_mbps: f64,
    /// Path → part of the bytes that arrived over any path during the stretch (from the receiver's samples).
    pub shares: BTreeMap<String, f64>,
}

/// What was asked of the sockets, and what the kernel put in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Parameters {
    /// As in the scenario (`run.iperf.*`), defaults filled in.
    pub asked: Map<String, Value>,
    /// As read back from the sockets: `client.congestion`, `server.receive_buffer_bytes`, ….
    pub in_force: Map<String, Value>,
}

/// Comparison over repetitions, and verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Summary {
    /// One per variant × label.
    pub groups: Vec<Group>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// Mobility metrics, one per variant, where there were handovers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mobility: Vec<MobilitySummary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a group without a `pattern` ran: results from before there were others.
fn first_pattern() -> String {
    "iperf".to_owned()
}

/// All repetitions of one label and pattern in one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Matrix key → value.
    pub variant: Variant,
    pub label: String,
    #[serde(default = "first_pattern")]
    pub pattern: String,
    pub runs: u32,
    /// Runs in a valid environment; only these enter the figures below.
    pub valid: u32,
    pub completed: u32,
    /// Valid runs in which multipath was really used.
    pub multipath_used: u32,
    /// Figure name (`goodput_mbps`, `stall_ms`, `delay_p95_ms`, …: docs/results.md) → its distribution.
    pub figures: BTreeMap<String, Distribution>,
    /// Path → median share.
    pub shares: BTreeMap<String, f64>,
}

/// A figure over repetitions.
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
    /// The value found, in words, with the run it comes from.
    pub found: String,
    /// Whether it held in every valid run it applies to (and applied to at least one).
    pub held: bool,
}
