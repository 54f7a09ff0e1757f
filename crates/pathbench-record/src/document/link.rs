//! Links: requested figures, measured figures, and the fates of a run's packets.

use crate::direction::LinkDirection;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Matrix key → value as written in the scenario.
pub type Variant = BTreeMap<String, Value>;

/// A link's requested and measured figures, over all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    pub name: String,
    pub ends: [String; 2],
    pub engine: String,
    /// The matrix variant of the link, if the link differs between variants.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variant: Variant,
    pub requested: LinkFigures,
    /// Measured figures: medians over the runs.
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
    /// Delay of a packet and its answer; absent if neither direction has a requested delay.
    pub fn rtt_ms(&self) -> Option<f64> {
        let delays = [self.forward.delay_ms, self.reverse.delay_ms];
        delays.iter().flatten().copied().reduce(|one, other| one + other)
    }
}

/// The requested figures of one direction of a link. Absent: unlimited, none, or the engine's default.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct DirectionFigures {
    /// Rate, counted in Ethernet frames without preamble and checksum.
    pub rate_bps: Option<u64>,
    pub delay_ms: Option<f64>,
    pub queue_bytes: Option<u64>,
    /// Probability that a packet is lost, 0 to 1.
    pub loss: Option<f64>,
    /// Every parameter that the scenario sets, by its key and unit.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub given: Map<String, Value>,
}

/// The calibration of a link before a run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct LinkMeasurement {
    /// Rate first end → second end; absent when the link is not rate-limited.
    pub forward_bps: Option<u64>,
    /// Rate second end → first end.
    pub reverse_bps: Option<u64>,
    /// Median round-trip time of small packets on the idle link.
    pub rtt_ms: f64,
    /// Smallest round-trip time of small packets on the idle link.
    pub min_rtt_ms: f64,
    /// Largest IP packet that passed, first end → second end.
    pub forward_mtu_bytes: u32,
    /// Largest IP packet that passed, second end → first end.
    pub reverse_mtu_bytes: u32,
    /// One-way delays, first end → second end (emulated links).
    pub forward_delay: Option<OneWayDelay>,
    /// One-way delays, second end → first end (emulated links).
    pub reverse_delay: Option<OneWayDelay>,
    /// Fraction of lost packets, 0 to 1, first end → second end (emulated links).
    pub forward_loss: Option<f64>,
    /// Fraction of lost packets, 0 to 1, second end → first end (emulated links).
    pub reverse_loss: Option<f64>,
}

/// A link in one run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct RunLink {
    pub name: String,
    /// The calibration before the run; absent without one.
    pub measured: Option<LinkMeasurement>,
    /// Whether no calibration found a deviation.
    pub within_tolerance: bool,
    /// Figures out of tolerance, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<String>,
    /// Bytes that passed the link's bottlenecks during the run (frames), first end → second end.
    pub forward_bytes: Option<u64>,
    /// Bytes that passed the link's bottlenecks during the run (frames), second end → first end.
    pub reverse_bytes: Option<u64>,
    /// Counters of the data plane of an emulated link.
    pub emulation: Option<EmulationRecord>,
    /// Sizes of the packets that crossed the link during the run, if the scenario requests them (`packet_sizes`).
    pub packet_sizes: Option<PacketSizes>,
}

/// A link of Pathbench's own data plane, during one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct EmulationRecord {
    /// First end → second end.
    pub forward: EmulatedDirection,
    /// Second end → first end.
    pub reverse: EmulatedDirection,
}

/// One direction of an emulated link during one run. Packets are wire packets, bytes are frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct EmulatedDirection {
    pub offered_packets: u64,
    pub offered_bytes: u64,
    /// Delivered packets without duplicates.
    pub delivered_packets: u64,
    /// Delivered bytes without duplicates.
    pub delivered_bytes: u64,
    /// Packets dropped by cause: `queue-full`, `queue-management`, `loss`, `arq`, `mtu`, `blackhole`; causes that
    /// did not occur are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped_packets: BTreeMap<String, u64>,
    /// Packets marked with CE (RFC 3168).
    pub marked_packets: u64,
    /// Packets in which a bit was flipped.
    pub corrupted_packets: u64,
    pub duplicated_packets: u64,
    /// Packets that left before an earlier one.
    pub reordered_packets: u64,
    /// Link-layer retransmissions (ARQ) of the emulated link.
    pub arq_retransmissions: u64,
    pub largest_queue_bytes: u64,
    /// Packets that the receiving interface rejected.
    pub refused_packets: u64,
    /// Actual departure times minus those of the model.
    pub lateness_ms: LatenessRecord,
}

/// Scheduling delay of packets at departure from an emulated link, over all packets of a run (docs/metrics.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct LatenessRecord {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// One line of `links.jsonl`: a direction of an emulated link at one time. Counters run from the start of the run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSample {
    pub run: String,
    /// Time on the run's clock.
    pub t_ms: f64,
    pub link: String,
    pub direction: LinkDirection,
    pub queue_bytes: u64,
    pub queue_packets: u64,
    pub offered_bytes: u64,
    pub delivered_bytes: u64,
    pub dropped_packets: u64,
    /// Current rate; absent when unlimited or made of opportunities.
    pub rate_bps: Option<u64>,
    /// Current loss probability, if it does not depend on earlier packets.
    pub loss: Option<f64>,
    pub delay_ms: Option<f64>,
}

/// One-way delays of small packets on an idle link, as measured before a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct OneWayDelay {
    pub packets: u32,
    pub min_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub max_ms: f64,
}

/// IP packets of one run by their length, IP header included: counted at the link, not at the sending kernel.
/// Packets that the link's own queue dropped are included. GSO packets (segmentation offload) count as their segments,
/// each with its headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct PacketSizes {
    /// First end → second end: length in bytes → packets.
    pub forward: BTreeMap<u32, u64>,
    /// Second end → first end: length in bytes → packets.
    pub reverse: BTreeMap<u32, u64>,
    /// Packets that entered the link but were not counted, because the host was too busy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_packets: u64,
}

/// A router of the lab and its handling of packets too large for their next hop, during one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RouterRecord {
    pub name: String,
    /// `on`, `off`, or the messages per second that pass: `10/s`.
    pub icmp: String,
    /// Whether the router clamps the MSS of SYNs to the next hop's MTU.
    pub clamp_mss: bool,
    /// "Fragmentation needed" and "packet too big" messages sent by the router.
    pub too_big_sent: u64,
    /// Such messages that were dropped before they left the router.
    pub too_big_suppressed: u64,
    /// SYNs whose MSS option the router inspected.
    pub clamped_syns: u64,
    /// The router's middleboxes (`strip-mp-join`, `drop-udp`, …) → packets that each has treated; a GSO packet counts
    /// once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub middlebox: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}
