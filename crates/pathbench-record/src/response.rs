//! Latency under load: the parameters and phases of the pattern `responsiveness`, and the probes that a client records.

use crate::direction::{DataDirection, Direction};
use crate::time::Timestamp;
use crate::units::milliseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The client's wait for the last answers after the last phase.
pub const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// A phase of the pattern, named after the directions that carry load.
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
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum LoadPhase {
    /// No load.
    Idle,
    /// The server sends.
    Download,
    /// The client sends.
    Upload,
    /// Both ends send.
    Both,
}

impl LoadPhase {
    pub const ALL: [Self; 4] = [Self::Idle, Self::Download, Self::Upload, Self::Both];

    pub fn name(self) -> &'static str {
        self.into()
    }

    pub const fn has_load(self, direction: Direction) -> bool {
        match direction {
            Direction::Upload => matches!(self, Self::Upload | Self::Both),
            Direction::Download => matches!(self, Self::Download | Self::Both),
        }
    }
}

impl From<DataDirection> for LoadPhase {
    fn from(direction: DataDirection) -> Self {
        match direction {
            DataDirection::Upload => Self::Upload,
            DataDirection::Download => Self::Download,
            DataDirection::Both => Self::Both,
        }
    }
}

/// The connection that a probe measures.
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
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    /// A request in the loaded byte stream itself.
    #[serde(rename = "self")]
    #[strum(serialize = "self")]
    Own,
    /// A request on a new connection of the same transport.
    Foreign,
    /// A UDP datagram on one path.
    Path,
}

impl ProbeKind {
    pub const ALL: [Self; 3] = [Self::Own, Self::Foreign, Self::Path];

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Parameters of `responsiveness`: an idle phase, then the phases of load in order, with a pause before each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsivenessParameters {
    #[serde(rename = "idle_ms", with = "milliseconds")]
    pub idle: Duration,
    /// Length of a phase of load.
    #[serde(rename = "load_ms", with = "milliseconds")]
    pub load: Duration,
    /// The first part of a phase of load, in which slow start fills the queue; its probes are in no figure.
    #[serde(rename = "settle_ms", with = "milliseconds")]
    pub settle: Duration,
    /// Time without load before each phase of load, in which the queues of the phase before drain.
    #[serde(rename = "pause_ms", with = "milliseconds")]
    pub pause: Duration,
    /// The directions of the phases of load, each at most once.
    pub phases: Vec<DataDirection>,
    /// Parallel byte streams of the load.
    pub streams: u32,
    /// Interval of the probes of each kind.
    #[serde(rename = "interval_ms", with = "milliseconds")]
    pub interval: Duration,
    /// Size of a request and of its answer (`self`, `foreign`): the frame's body.
    pub probe_bytes: u32,
    /// Largest write of load, frame header included: a probe waits for the block before it.
    pub block_bytes: u32,
}

impl Default for ResponsivenessParameters {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(3),
            load: Duration::from_secs(8),
            settle: Duration::from_secs(3),
            pause: Duration::from_secs(1),
            phases: vec![DataDirection::Download, DataDirection::Upload, DataDirection::Both],
            streams: 1,
            interval: Duration::from_millis(100),
            probe_bytes: 64,
            block_bytes: 16 * 1024,
        }
    }
}

/// One phase on the client's timeline. Times count from the start of the stream at each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseWindow {
    pub phase: LoadPhase,
    /// The begin of the load.
    pub from: Duration,
    /// The begin of the measured part.
    pub measured_from: Duration,
    pub until: Duration,
}

impl ResponsivenessParameters {
    /// The phases in order.
    pub fn windows(&self) -> Vec<PhaseWindow> {
        let idle = PhaseWindow {
            phase: LoadPhase::Idle,
            from: Duration::ZERO,
            measured_from: Duration::ZERO,
            until: self.idle,
        };
        let mut windows = vec![idle];
        let mut end = self.idle;
        for direction in &self.phases {
            let from = end.saturating_add(self.pause);
            end = from.saturating_add(self.load);
            let phase = LoadPhase::from(*direction);
            windows.push(PhaseWindow {
                phase,
                from,
                measured_from: from.saturating_add(self.settle),
                until: end,
            });
        }
        windows
    }

    /// The end of the last phase.
    pub fn duration(&self) -> Duration {
        let phases = u32::try_from(self.phases.len()).unwrap_or(u32::MAX);
        self.idle.saturating_add(self.pause.saturating_add(self.load).saturating_mul(phases))
    }

    /// Number of probes of one kind on one path.
    pub fn probes(&self) -> u32 {
        let interval = self.interval.as_nanos().max(1);
        u32::try_from(self.duration().as_nanos().div_ceil(interval)).unwrap_or(u32::MAX)
    }
}

/// The probes of a test at its client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ResponseRecord {
    /// The begin of the first phase.
    pub begun: Timestamp,
    pub probes: Vec<LoadProbe>,
    /// The connections of `foreign` probes.
    pub openings: Vec<ForeignOpening>,
    pub absent: Vec<ProbeAbsence>,
}

/// A probe and its answer, on the client's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadProbe {
    pub kind: ProbeKind,
    /// The path's name (`path`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// From 0 for each kind and path.
    pub sequence: u32,
    /// Scheduled time of sending (`self`), else the time when it was passed to the socket.
    pub due: Timestamp,
    /// `None`: lost, or not answered by the end of the test.
    pub answered: Option<Timestamp>,
}

impl LoadProbe {
    pub fn round_trip(&self) -> Option<Duration> {
        self.answered.map(|at| at.duration_since(self.due))
    }
}

/// The set-up of the connection for `foreign` probes in one phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignOpening {
    pub phase: LoadPhase,
    /// Time to open the connection, its encryption included; `None`: it was not opened.
    pub took: Option<Duration>,
    pub error: Option<String>,
}

/// A kind of probe that was not examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeAbsence {
    /// `self`, `foreign` or `path`.
    pub probe: ProbeKind,
    /// Why, in words.
    pub reason: String,
}
