//! `run.json`: the document with the request, the host and the results.
//!
//! Every field name contains its unit. Fields without a value in a run are absent, never zero.

mod capture;
mod comparison;
mod failback;
mod findings;
mod headline;
mod limits;
mod link;
mod load;
mod mtu;
mod opening;
mod response;
mod study;

pub use capture::{CaptureCheck, CapturedPath};
pub use comparison::{ComparedRuns, Comparison, Verdict};
pub use failback::{FailbackAbsence, FailbackRecord};
pub use findings::{
    DelayRecord, DiagnosisKind, HandoverReason, HandoverRecord, LabelHandovers, MobilitySummary,
    PathDiagnosis, PingRecord, ProbeLine, ProbeRecord,
};
pub use headline::{Failover, Gain, Headline};
pub use limits::{CpuRecord, LimitKind, LimitRecord, UnexaminedLimit};
pub use link::{
    DirectionFigures, EmulatedDirection, EmulationRecord, LatenessRecord, LinkFigures, LinkMeasurement,
    LinkRecord, LinkSample, OneWayDelay, PacketSizes, RouterRecord, RunLink, Variant,
};
pub use load::MachineLoad;
pub use mtu::{
    ConnectionMtu, DirectionMtu, KernelPathState, MtuChange, MtuEvidence, MtuRecord, MtuStep, PathMtu,
};
pub use opening::{OpeningOutcome, OpeningRecord};
pub use response::{PhaseResponse, ResponseDelay, ResponsivenessRecord};
pub use study::{
    DEFAULT_RETRIES, JoinedShard, Shard, StopReason, StudyRecord, identity_differences, identity_parts,
    study_identity,
};

use crate::datagram::DatagramRecord;
use crate::direction::Direction;
use crate::event::EventKind;
use crate::network::AddressFamily;
use crate::sample::Side;
use crate::transport::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "pathbench.result/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultDocument {
    /// `pathbench.result/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The scenario and its overrides.
    pub scenario: ScenarioRecord,
    /// Seed of the order of runs and of all random decisions.
    pub seed: u64,
    /// The machine.
    pub host: HostRecord,
    /// Each link: requested and measured; empty outside the lab.
    pub links: Vec<LinkRecord>,
    /// The servers that were pinged before the test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerRecord>,
    /// The reachability of the chosen server by transport, IP version and port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reachability: Vec<Reachability>,
    /// The MTU of each path (`pathbench mtu` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<MtuRecord>,
    /// The study to which the runs belong (`lab run`, `test`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<StudyRecord>,
    /// Every run, in the order in which they ran.
    pub runs: Vec<RunRecord>,
    /// Comparison and verdicts.
    pub summary: ResultSummary,
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
            study: None,
            runs: Vec::new(),
            summary: ResultSummary::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ScenarioRecord {
    /// Its name; `test` for `pathbench test`, `roam` for `pathbench roam`.
    pub name: String,
    /// Its line of description.
    pub description: String,
    /// `builtin`, or the path of the file; `command line` for `pathbench test` and `pathbench roam`.
    pub origin: String,
    /// The whole file.
    pub text: String,
    /// Keys that the command line set: key of the scenario → value; of `pathbench test` and `pathbench roam` the
    /// traffic options that differ from their defaults, `--NAME` → value, an array of several values, `true` for a
    /// switch.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub overrides: Map<String, Value>,
}

/// The host that produced the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct HostRecord {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Version of Pathbench.
    pub pathbench: String,
    /// `user-namespace`, `root`, or `user` if neither was needed.
    pub privilege: String,
    /// Start time of the command, RFC 3339, UTC.
    pub started: String,
    /// The system's default congestion control.
    pub default_congestion: String,
    /// Whether a CPU latency request kept all processors awake during `lab run` (see [lab.md](lab.md)).
    pub processors_awake: bool,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ServerRecord {
    /// The address as given on the command line.
    pub address: String,
    /// The name that the server reports.
    pub name: Option<String>,
    /// Median round-trip time of the answered pings; absent if none was answered.
    pub ping_ms: Option<f64>,
    /// Unanswered pings.
    pub lost: u32,
    /// Whether the test used this server.
    pub chosen: bool,
    /// Why it cannot be used, in words.
    pub error: Option<String>,
}

/// Whether a transport reached a server at one address and port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reachability {
    /// The server, as given on the command line.
    pub server: String,
    /// The transport.
    pub transport: Transport,
    /// `ipv4` or `ipv6`.
    pub family: AddressFamily,
    /// Port tried.
    pub port: u16,
    /// Whether a connection was opened and the server answered on it.
    pub reachable: bool,
    /// Opening the connection → the server's answer on it.
    pub rtt_ms: Option<f64>,
    /// Why it was not reachable, in words.
    pub error: Option<String>,
    /// The kind of error.
    pub error_kind: Option<UnreachableBecause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts of a run")]
pub struct RunRecord {
    /// Unique in the result; the `run` of the other files.
    pub id: String,
    /// Matrix key → value; empty without a matrix.
    pub variant: Variant,
    /// The transport.
    pub transport: Transport,
    /// The transport with the path to which it is bound: `tcp@wlan`.
    pub label: String,
    /// `ping`, `bulk`, `throughput`, `interactive`, `responsiveness` or `datagrams`; `throughput-upload` and
    /// `throughput-download` if a result has
    /// both.
    pub pattern: String,
    /// Address of the server as given on the command line; absent in the lab.
    pub server: Option<String>,
    /// From 1.
    pub repetition: u32,
    /// Whether it is a warm-up run, made before the others and never valid; `repetition` counts the warm-up
    /// repetitions then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_up: bool,
    /// The id of the planned run that this run repeats because every earlier attempt was not valid; absent for a first
    /// attempt.
    pub retry_of: Option<String>,
    /// The number of this attempt at the planned run, from 2; absent for a first attempt.
    pub attempt: Option<u32>,
    /// Whether the data was encrypted: always on quic and mpquic, with TLS on tcp and mptcp.
    pub encrypted: bool,
    /// Protocol and cipher suite in force: `TLS 1.3 TLS13_AES_128_GCM_SHA256`; absent in clear text.
    pub encryption: Option<String>,
    /// False if the environment deviated from the scenario; the run then enters no statistic.
    pub valid: bool,
    /// Why it is not valid, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<String>,
    /// Whether the test ran to its end and the receiver confirmed it.
    pub completed: bool,
    /// Why it did not complete, in words; else `null`.
    #[serialize_always]
    pub error: Option<String>,
    /// Bytes delivered to receiving applications per measured second, both directions together
    /// ([definition](metrics.md#goodput)).
    pub goodput_mbps: Option<f64>,
    /// All bytes delivered, warm-up included, both directions.
    pub delivered_bytes: u64,
    /// First byte offered → last byte delivered or giving up, the longer of the directions
    /// ([definition](metrics.md#duration)).
    pub duration_ms: f64,
    /// Time without a byte before the application gave up ([definition](metrics.md#hung)).
    pub hung_ms: Option<f64>,
    /// Longest stall, the longer of the directions ([definition](metrics.md#stall)).
    pub stall_ms: Option<f64>,
    /// After the first disruptive event, the slower of the directions ([definition](metrics.md#recovery)); 0
    /// without a dip; absent if a direction never recovered, or without such an event.
    pub recovery_ms: Option<f64>,
    /// After the first disruptive event, the deeper of the directions ([definition](metrics.md#dip)).
    pub dip: Option<f64>,
    /// The slowest return of a path to its share after an event that improved it
    /// ([definition](metrics.md#failback)); absent if one of them has no duration (`failbacks[].reason`), or without
    /// such an event.
    pub failback_ms: Option<f64>,
    /// Opening the connection → its first stream can carry data, TLS and QUIC handshakes included; of the attempt that
    /// succeeded.
    pub handshake_ms: Option<f64>,
    /// First attempt to open the connection → its first stream can carry data
    /// ([definition](metrics.md#opening)); absent if it was never opened.
    pub connect_ms: Option<f64>,
    /// How the opening of the connection ended.
    pub opening: Option<OpeningRecord>,
    /// `bulk` only: before the connection is opened → last byte received and verified, in all its directions
    /// ([definition](metrics.md#flow-completion-time)).
    pub fct_ms: Option<f64>,
    /// `ping` only.
    pub ping: Option<PingRecord>,
    /// `interactive` only: delay of the messages of both directions together.
    pub delay_ms: Option<DelayRecord>,
    /// `responsiveness` only: delays of probes while the connection is idle and under load
    /// ([definition](metrics.md#latency-under-load)).
    pub responsiveness: Option<ResponsivenessRecord>,
    /// `datagrams` only: `upload` or `download` → the datagrams of that direction.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub datagrams: BTreeMap<Direction, DatagramRecord>,
    /// Unplanned network changes during the run, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched_by: Vec<String>,
    /// Whether multipath was used.
    pub multipath: MultipathRecord,
    /// Every path of the connection, with or without data.
    pub paths: Vec<PathRecord>,
    /// The figures of each direction.
    pub directions: Vec<DirectionRecord>,
    /// Each disruptive event and its impact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impacts: Vec<Impact>,
    /// Each event after which a path could carry its share again, and when it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failbacks: Vec<FailbackRecord>,
    /// The phases between events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Each link: its calibration before the run and its counters during the run; absent outside the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<RunLink>,
    /// Paths that carried nothing, for all of the run or a part of it, and the cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnoses: Vec<PathDiagnosis>,
    /// The captures compared with the transport's counters; absent without captures.
    pub capture: Option<CaptureCheck>,
    /// The lab's routers with rules for packets that are too large.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterRecord>,
    /// The handover from the first path to the second; absent without a handover.
    pub handover: Option<HandoverRecord>,
    /// The probes of each interface (`pathbench roam` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeRecord>,
    /// The parameters of the pattern.
    pub parameters: Parameters,
    /// Load of the client's machine during the run; in a lab, of the one machine. Absent where it was not measured.
    pub load: Option<MachineLoad>,
    /// Kernel MIB counters that changed during the run: `client` or `server` → name → difference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Side, BTreeMap<String, i64>>,
    /// Remarks on this run for the reader, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The limit at the head of `limits`, in words: `receive window`, `send buffer`, `congestion window` (the links),
    /// `application`, `sender's CPU`, `receiver's CPU`, `head-of-line blocking`, `qdisc` or `shared bottleneck`. Absent
    /// where the records do not decide it ([definition](metrics.md#limits)).
    pub limited_by: Option<String>,
    /// The limits of the rate: the one that explains it first, then by share; none for patterns of messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRecord>,
    /// The limits that the records do not decide; none for patterns of messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_examined: Vec<UnexaminedLimit>,
    /// CPU time of the test: `client` or `server` → its threads; an end that does not report it is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu: BTreeMap<Side, CpuRecord>,
}

impl RunRecord {
    /// The id of the planned run at which this run is an attempt.
    pub fn planned_id(&self) -> &str {
        self.retry_of.as_deref().unwrap_or(&self.id)
    }

    /// The number of this attempt at the planned run, from 1.
    pub fn attempt_number(&self) -> u32 {
        self.attempt.unwrap_or(1)
    }

    /// The largest delay of the messages with requests in this direction; `None` for patterns without such messages.
    pub fn max_delay_ms(&self, direction: Direction) -> Option<f64> {
        let of_direction = self.directions.iter().find(|record| record.direction == direction)?;
        Some(of_direction.delay_ms.as_ref()?.max)
    }
}

/// Whether multipath was used, as observed and not inferred from the requested option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct MultipathRecord {
    /// Whether the transport is a multipath transport.
    pub requested: bool,
    /// Whether multipath was negotiated and still in force at the end, according to the kernel (mptcp) or to the
    /// transport parameters (mpquic).
    pub negotiated: bool,
    /// Whether at least two paths each carried 1 % of the delivered payload or more.
    pub used: bool,
    /// Why multipath was not used, with a remedy, in words; or the evidence that it was used.
    pub reason: String,
    /// Paths that carried at least 1 %.
    pub paths_used: u32,
    /// Opened subflows, the first included; absent on kernels that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subflows_total: Option<u32>,
    /// Attempted subflows, the opened ones included; absent where only opened ones are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subflows_attempted: Option<u32>,
}

/// One path of a run. The sending end counts sent data, the receiving end counts delivered data; with data in both
/// directions the figures are sums over both. Several subflows on one path are summed.
///
/// "Payload" is TCP payload for tcp and mptcp, data of STREAM frames for quic and mpquic;
/// [`crate::sample::PathFigures`] gives the source of each figure.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct PathRecord {
    /// The path.
    pub name: String,
    /// Client's address.
    pub local: String,
    /// Server's address.
    pub remote: String,
    /// Payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload that arrived on this path (on tcp and mptcp: in order), duplicates of other paths' data included.
    pub bytes_delivered: u64,
    /// Fraction of the `bytes_delivered` of all paths.
    pub share: f64,
    /// Of `bytes_sent`, payload that had been sent before (tcp, mptcp: on the same subflow; quic, mpquic: on any
    /// path); the rest of `bytes_sent` is new.
    pub retransmitted_bytes: u64,
    /// Sizes of the packets that the sender declared lost on this path; absent on tcp and mptcp.
    pub lost_bytes: Option<u64>,
    /// UDP payload that both ends sent on this path in packets without stream data: handshake, acknowledgements,
    /// heartbeats, MTU probes, path validation; absent on tcp and mptcp.
    pub control_bytes: Option<u64>,
    /// Sending MSS while the path last carried data (quic, mpquic: largest UDP payload): at the last sample between
    /// two sampling intervals in which payload was acknowledged.
    pub mss_bytes: u32,
    /// Path MTU in force in the transport at the same time.
    pub pmtu_bytes: u32,
    /// Median smoothed RTT over the samples.
    pub rtt_ms: f64,
    /// `open` or `closed` at the end.
    pub state: String,
    /// Backup flag; absent where the transport has none.
    pub backup: Option<bool>,
    /// Subflows that used the path.
    pub subflows: u32,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionRecord {
    /// `upload` or `download`.
    pub direction: Direction,
    /// The run's figure, of this direction.
    pub goodput_mbps: Option<f64>,
    /// The run's figure, of this direction.
    pub delivered_bytes: u64,
    /// The run's figure, of this direction.
    pub stall_ms: Option<f64>,
    /// The run's figure, of the messages whose requests were sent in this direction.
    pub delay_ms: Option<DelayRecord>,
}

/// The impact of a disruptive event on the deliveries (docs/metrics.md).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Impact {
    /// Direction of the deliveries.
    pub direction: Direction,
    /// The event's kind.
    pub kind: EventKind,
    /// The event's path.
    pub path: Option<String>,
    /// When it took effect.
    pub at_ms: f64,
    /// Mean goodput before the event ([definition](metrics.md#level)).
    pub before_mbps: Option<f64>,
    /// Mean goodput at the end of its phase ([definition](metrics.md#level)).
    pub settled_mbps: Option<f64>,
    /// Largest reduction below the reachable level, as a fraction of it ([definition](metrics.md#dip)).
    pub dip: Option<f64>,
    /// Time until goodput stays at the reachable level; 0 if `dip` is at most 0.1
    /// ([definition](metrics.md#recovery)).
    pub recovery_ms: Option<f64>,
    /// Longest stall that ends after the event and starts before the next event, counted from the event on.
    pub stall_ms: Option<f64>,
}

/// A period between two events (or start and end).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// Direction of the deliveries.
    pub direction: Direction,
    /// `start`, or the event at its start: `down wlan`.
    pub name: String,
    /// Start.
    pub from_ms: f64,
    /// End.
    pub to_ms: f64,
    /// Goodput of the phase.
    pub goodput_mbps: f64,
    /// Path → fraction of the payload that arrived over all paths ([definition](metrics.md#phases)); empty if none
    /// arrived.
    pub shares: BTreeMap<String, f64>,
}

/// Socket options as requested and as in use in the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct Parameters {
    /// The requested parameters of the pattern, defaults filled in.
    pub asked: Map<String, Value>,
    /// Socket options as read back (`client.congestion`, `server.receive_buffer_bytes`, …), and `streams`: the
    /// number of opened byte streams, which on quic and mpquic are more than one for bulk data.
    pub in_force: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ResultSummary {
    /// The answer in one line; absent in a result without runs ([definition](metrics.md#headline)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<Headline>,
    /// One per variant, label and pattern, in the order of their first run.
    pub groups: Vec<Group>,
    /// The scenario's `[expect]` entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// Groups of runs compared by one figure ([definition](metrics.md#comparisons)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Comparisons left out because there are too many; absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub comparisons_omitted: u32,
    /// The mobility metrics, one per variant ([definition](metrics.md#handover)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mobility: Vec<MobilitySummary>,
    /// Remarks on the whole result, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// All repetitions of one label and pattern in one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Matrix key → value.
    pub variant: Variant,
    /// The label.
    pub label: String,
    /// The pattern.
    pub pattern: String,
    /// All runs.
    pub runs: u32,
    /// Valid runs; the following fields cover only these.
    pub valid: u32,
    /// Valid runs that completed.
    pub completed: u32,
    /// Valid runs that used several paths.
    pub multipath_used: u32,
    /// `goodput_mbps`, `stall_ms`, `recovery_ms`, `dip`, `failback_ms`, `hung_ms`, `handshake_ms`, `fct_ms`,
    /// `ping_ms` (a run's median), `delay_p50_ms`, `delay_p95_ms`, `delay_max_ms`, `delay_max_upload_ms`, `delay_max_download_ms`,
    /// `handover_sent_ms`, `handover_received_ms`, `self_idle_p50_ms`, `self_idle_p95_ms`, `foreign_idle_p50_ms`,
    /// `foreign_idle_p95_ms` and the same with `loaded` (the phase of load with the largest) → its distribution over the valid runs; a figure that no run has
    /// is absent.
    pub figures: BTreeMap<String, Distribution>,
    /// Path → median of its share.
    pub shares: BTreeMap<String, f64>,
    /// Median of Jain's index of the paths' bytes ÷ link rate ([definition](metrics.md#comparisons)); absent with fewer than two
    /// paths, with data in both directions, and where a path's rate is unlimited or changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jains_index: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Runs that have the figure; less than `valid` if some runs lack it (they never recovered, did not hang).
    pub n: u32,
    /// Median ([statistics](metrics.md#statistics)).
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Distribution-free 95 % confidence interval of the median, from order statistics; absent for fewer than 6
    /// values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

/// One `[expect]` entry and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct Expectation {
    /// As written: `mptcp.stall_ms`.
    pub key: String,
    /// As written: `< 500`.
    pub expected: String,
    /// The value found, with the run it comes from.
    pub found: String,
    /// Whether it held in every valid run it applies to, of which there was at least one.
    pub held: bool,
    /// Whether it could not be judged, because runs to which it applies were not made; `held` is false then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_judged: bool,
}

impl Expectation {
    /// Whether a run contradicts it.
    pub const fn failed(&self) -> bool {
        !self.held && !self.not_judged
    }
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}
