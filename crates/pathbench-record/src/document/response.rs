//! Latency under load: the figures of a `responsiveness` run (definitions in docs/metrics.md).

use crate::direction::Direction;
use crate::response::{LoadPhase, ProbeAbsence, ProbeKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Delays of probes while the connection is idle and under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ResponsivenessRecord {
    /// Phase → its period, goodput and RPM; a phase that did not begin is absent.
    pub phases: BTreeMap<LoadPhase, PhaseResponse>,
    /// Phase → delays of requests in the loaded byte stream itself.
    #[serde(rename = "self", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<LoadPhase, ResponseDelay>,
    /// Phase → delays of requests on a new connection of the same transport.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub foreign: BTreeMap<LoadPhase, ResponseDelay>,
    /// Path → phase → delays of UDP datagrams on the path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path: BTreeMap<String, BTreeMap<LoadPhase, ResponseDelay>>,
    /// Kinds of probes that were not examined in all phases, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_examined: Vec<ProbeAbsence>,
}

/// A phase on the run's clock. Its first part, in which slow start fills the queue, is not measured.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct PhaseResponse {
    /// Begin of the load.
    pub from_ms: f64,
    /// Begin of the measured part.
    pub measured_from_ms: f64,
    /// End.
    pub to_ms: f64,
    /// Goodput of the measured part, where the phase has load in this direction.
    pub upload_mbps: Option<f64>,
    /// As `upload_mbps`.
    pub download_mbps: Option<f64>,
    /// Path → payload that arrived over it in the measured part, as a rate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path_upload_mbps: BTreeMap<String, f64>,
    /// As `path_upload_mbps`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path_download_mbps: BTreeMap<String, f64>,
    /// Time to open the connection of the `foreign` probes, its encryption included.
    pub foreign_setup_ms: Option<f64>,
    /// Round trips per minute, derived from the `self` and `foreign` delays
    /// ([formula](metrics.md#latency-under-load)); absent without both.
    pub rpm: Option<f64>,
}

/// Round-trip times of the probes of one kind that were due in the measured part of one phase.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ResponseDelay {
    /// Probes sent.
    pub sent: u32,
    /// Probes without an answer; no other figure includes them.
    pub lost: u32,
    /// Median of the answered probes.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the answered probes.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the answered probes.
    pub p99_ms: Option<f64>,
    /// `p50_ms` − `p50_ms` of the idle phase; absent in the idle phase.
    pub increase_p50_ms: Option<f64>,
    /// `p95_ms` − `p95_ms` of the idle phase; absent in the idle phase.
    pub increase_p95_ms: Option<f64>,
}

impl ResponsivenessRecord {
    /// Delays of a kind of probe by phase; of `path`, those of the named path.
    pub fn delays(&self, kind: ProbeKind, path: Option<&str>) -> Option<&BTreeMap<LoadPhase, ResponseDelay>> {
        match kind {
            ProbeKind::Own => Some(&self.own),
            ProbeKind::Foreign => Some(&self.foreign),
            ProbeKind::Path => self.path.get(path?),
        }
    }

    /// Goodput of one direction in the phase with load in this direction only, else in the phase with load in both.
    pub fn goodput_mbps(&self, direction: Direction) -> Option<f64> {
        let (own, of_phase): (LoadPhase, fn(&PhaseResponse) -> Option<f64>) = match direction {
            Direction::Upload => (LoadPhase::Upload, |phase| phase.upload_mbps),
            Direction::Download => (LoadPhase::Download, |phase| phase.download_mbps),
        };
        [own, LoadPhase::Both].iter().find_map(|phase| of_phase(self.phases.get(phase)?))
    }

    /// A figure of the idle phase.
    pub fn idle(&self, kind: ProbeKind, figure: fn(&ResponseDelay) -> Option<f64>) -> Option<f64> {
        figure(self.delays(kind, None)?.get(&LoadPhase::Idle)?)
    }

    /// The largest increase of the 95th percentile of UDP datagrams, of all paths and phases of load.
    pub fn path_increase_p95_ms(&self) -> Option<f64> {
        let delays = self.path.values().flat_map(BTreeMap::values);
        delays.filter_map(|delay| delay.increase_p95_ms).max_by(f64::total_cmp)
    }

    /// The lowest RPM of the phases of load.
    pub fn least_rpm(&self) -> Option<f64> {
        let loaded = self.phases.iter().filter(|(phase, _)| **phase != LoadPhase::Idle);
        loaded.filter_map(|(_, one)| one.rpm).min_by(f64::total_cmp)
    }

    /// The largest value of a figure in the phases of load.
    pub fn loaded(&self, kind: ProbeKind, figure: fn(&ResponseDelay) -> Option<f64>) -> Option<f64> {
        let delays = self.delays(kind, None)?.iter();
        let loaded = delays.filter(|(phase, _)| **phase != LoadPhase::Idle);
        loaded.filter_map(|(_, delay)| figure(delay)).max_by(f64::total_cmp)
    }
}
