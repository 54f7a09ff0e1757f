//! Links: what was asked of them, and what they measured.

use super::{EmulationRecord, OneWayDelay, PacketSizes, Variant};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A link: requested against measured, over all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    pub name: String,
    pub ends: [String; 2],
    pub engine: String,
    /// The matrix variant it belongs to, where variants differ in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variant: Variant,
    pub requested: LinkFigures,
    /// What was measured: medians over the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<LinkMeasurement>,
    /// Allowed relative deviation of the rate.
    pub tolerance: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct LinkFigures {
    pub mtu_bytes: u32,
    /// First end → second end.
    pub forward: DirectionFigures,
    /// Second end → first end.
    pub reverse: DirectionFigures,
}

impl LinkFigures {
    /// Delay of a packet and its answer; absent where neither direction asks for one.
    pub fn rtt_ms(&self) -> Option<f64> {
        let delays = [self.forward.delay_ms, self.reverse.delay_ms];
        delays.iter().flatten().copied().reduce(|one, other| one + other)
    }
}

/// What one direction of a link is asked to be. Absent: unlimited, none, or the engine's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct DirectionFigures {
    /// Rate, counted in Ethernet frames without preamble and checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// Probability that a packet is lost, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Every parameter that the scenario gives, by its key and unit.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub given: Map<String, Value>,
}

/// What a link measured before a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct LinkMeasurement {
    /// Rate first end → second end; absent when the link is not rate-limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_bps: Option<u64>,
    /// Rate second end → first end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_bps: Option<u64>,
    /// Median round-trip time of small packets on the idle link.
    pub rtt_ms: f64,
    /// Smallest round-trip time of small packets on the idle link.
    pub min_rtt_ms: f64,
    /// Largest IP packet that came through, first end → second end.
    pub forward_mtu_bytes: u32,
    /// Largest IP packet that came through, second end → first end.
    pub reverse_mtu_bytes: u32,
    /// One-way delays, first end → second end (emulated links).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_delay: Option<OneWayDelay>,
    /// One-way delays, second end → first end (emulated links).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_delay: Option<OneWayDelay>,
    /// Part of the packets that did not arrive, 0 to 1, first end → second end (emulated links).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_loss: Option<f64>,
    /// Part of the packets that did not arrive, 0 to 1, second end → first end (emulated links).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_loss: Option<f64>,
}

/// A link as measured before one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct RunLink {
    pub name: String,
    pub measured: LinkMeasurement,
    pub within_tolerance: bool,
    /// What was off, in words; empty when nothing was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<String>,
    /// Bytes that the link's bottlenecks let through during the run (frames), first end → second end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_bytes: Option<u64>,
    /// Bytes that the link's bottlenecks let through during the run (frames), second end → first end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_bytes: Option<u64>,
    /// What the data plane did, where the link was emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulation: Option<EmulationRecord>,
    /// Sizes of the packets that crossed it during the run, where the scenario asks for them (`packet_sizes`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_sizes: Option<PacketSizes>,
}
