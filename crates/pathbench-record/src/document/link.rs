//! Links: requested figures, measured figures, and the fates of a run's packets.

use crate::direction::LinkDirection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Matrix key → value as written in the scenario.
pub type Variant = BTreeMap<String, Value>;

/// A link's requested and measured figures, over all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRecord {
    /// Its name.
    pub name: String,
    /// The two hosts; *forward* is from the first to the second.
    pub ends: [String; 2],
    /// `kernel` or `emulated`.
    pub engine: String,
    /// Matrix values of its variant: key → value; absent if it is the same in all variants.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variant: Variant,
    /// The link as the scenario describes it.
    pub requested: LinkFigures,
    /// Medians over all runs of its variant (fields as in `runs[].links[].measured`); of loss the mean, of delays
    /// the smallest and the largest of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<LinkMeasurement>,
    /// Permitted relative deviation of the rate.
    pub tolerance: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct LinkFigures {
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// The direction first end → second end.
    pub forward: DirectionFigures,
    /// The direction second end → first end.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct DirectionFigures {
    /// Rate, in Ethernet frames without preamble and checksum; absent: unlimited.
    pub rate_bps: Option<u64>,
    /// One-way delay.
    pub delay_ms: Option<f64>,
    /// Queue in front of the bottleneck.
    pub queue_bytes: Option<u64>,
    /// Probability that a packet is lost.
    pub loss: Option<f64>,
    /// Every [link parameter](scenarios.md#link-parameters) that the scenario or its preset gives, key → value;
    /// times in `_ms`, rates in `_bps`, sizes in `_bytes`, probabilities from 0 to 1, traces by their file's name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub given: Map<String, Value>,
}

/// The calibration of a link before a run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct LinkMeasurement {
    /// Rate first end → second end; absent when the link has no limit.
    pub forward_bps: Option<u64>,
    /// Rate second end → first end; absent when the link has no limit.
    pub reverse_bps: Option<u64>,
    /// Median round-trip time of small packets on the idle link.
    pub rtt_ms: f64,
    /// Smallest round-trip time of these packets.
    pub min_rtt_ms: f64,
    /// Largest IP packet that passed, first end → second end.
    pub forward_mtu_bytes: u32,
    /// Largest IP packet that passed, second end → first end.
    pub reverse_mtu_bytes: u32,
    /// One-way delays of small packets on the idle link, first end → second end; emulated links only.
    pub forward_delay: Option<OneWayDelay>,
    /// The same, second end → first end.
    pub reverse_delay: Option<OneWayDelay>,
    /// Lost fraction of these packets, first end → second end; emulated links only.
    pub forward_loss: Option<f64>,
    /// The same, second end → first end.
    pub reverse_loss: Option<f64>,
}

/// A link in one run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct RunLink {
    /// The link.
    pub name: String,
    /// The measurement before the run; absent without calibration.
    pub measured: Option<LinkMeasurement>,
    /// Whether all measured values are within tolerance of the requested ones; true without calibration.
    pub within_tolerance: bool,
    /// The values out of tolerance, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<String>,
    /// Bytes of frames that passed the bottleneck during the run, forward.
    pub forward_bytes: Option<u64>,
    /// Bytes of frames that passed the bottleneck during the run, reverse.
    pub reverse_bytes: Option<u64>,
    /// Counters of the data plane during the run; emulated links only.
    pub emulation: Option<EmulationRecord>,
    /// IP packets that entered the link during the run; only if the scenario has `run.packet_sizes`.
    pub packet_sizes: Option<PacketSizes>,
}

/// A link of Pathbench's own data plane, during one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct EmulationRecord {
    /// First end → second end.
    pub forward: EmulatedDirection,
    /// Second end → first end.
    pub reverse: EmulatedDirection,
}

/// One direction of an emulated link during one run. Packets are wire packets, bytes are frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct EmulatedDirection {
    /// Packets that entered the link.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that left the link, without duplicates.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Cause → dropped packets: `queue-full`, `queue-management`, `loss`, `arq`, `mtu`, `blackhole`, `policer`,
    /// `in-flight`; causes that did not occur are absent, and the whole field if no packet was dropped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped_packets: BTreeMap<String, u64>,
    /// Packets marked CE (RFC 3168) instead of dropped.
    pub marked_packets: u64,
    /// Packets in which a bit was inverted.
    pub corrupted_packets: u64,
    /// Packets delivered twice.
    pub duplicated_packets: u64,
    /// Packets that left before a packet that had entered before them.
    pub reordered_packets: u64,
    /// Link-layer retransmissions (ARQ) of the emulated link.
    pub arq_retransmissions: u64,
    /// Largest queue length.
    pub largest_queue_bytes: u64,
    /// Packets that the receiving interface rejected.
    pub refused_packets: u64,
    /// Lateness of the packets against the model's departure times ([definition](metrics.md#lateness)).
    pub lateness_ms: LatenessRecord,
}

/// Scheduling delay of packets at departure from an emulated link, over all packets of a run (docs/metrics.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct LatenessRecord {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// One line of `links.jsonl`: a direction of an emulated link at one time. Counters run from the start of the run.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkSample {
    /// The run's `id`.
    pub run: String,
    /// Time of the sample.
    pub t_ms: f64,
    /// The link.
    pub link: String,
    /// `forward` (first end → second end) or `reverse`.
    pub direction: LinkDirection,
    /// Bytes that wait in the queue.
    pub queue_bytes: u64,
    /// Packets that wait in the queue.
    pub queue_packets: u64,
    /// Bytes that entered the link.
    pub offered_bytes: u64,
    /// Bytes that left the link.
    pub delivered_bytes: u64,
    /// Packets dropped, all causes.
    pub dropped_packets: u64,
    /// Rate in force; absent if unlimited, or with a trace of delivery opportunities.
    pub rate_bps: Option<u64>,
    /// Probability of loss in force; absent without loss, and if it depends on the previous packet.
    pub loss: Option<f64>,
    /// Base delay in force.
    pub delay_ms: Option<f64>,
}

/// One-way delays of small packets on an idle link, as measured before a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct OneWayDelay {
    /// Packets that arrived.
    pub packets: u32,
    /// Smallest delay.
    pub min_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// Largest.
    pub max_ms: f64,
}

/// IP packets of one run by their length, IP header included: counted at the link, not at the sending kernel.
/// Packets that the link's own queue dropped are included. GSO packets (segmentation offload) count as their segments,
/// each with its headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct PacketSizes {
    /// First end → second end: length with the IP header → packets.
    pub forward: BTreeMap<u32, u64>,
    /// Second end → first end: length with the IP header → packets.
    pub reverse: BTreeMap<u32, u64>,
    /// Packets that entered the link and could not be counted; absent: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_packets: u64,
}

/// A router of the lab and its handling of packets too large for their next hop, during one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct RouterRecord {
    /// The router.
    pub name: String,
    /// Its "fragmentation needed" and "packet too big" messages: `on`, `off`, or a rate limit: `10/s`.
    pub icmp: String,
    /// Whether it clamps the MSS option of SYNs to the MTU of the next hop.
    pub clamp_mss: bool,
    /// ICMP messages of these kinds that it sent during the run.
    pub too_big_sent: u64,
    /// ICMP messages of these kinds that its rules dropped.
    pub too_big_suppressed: u64,
    /// SYNs whose MSS option it examined.
    pub clamped_syns: u64,
    /// Its [middleboxes](scenarios.md#middleboxes) → packets that each has treated; a GSO packet counts once;
    /// absent without.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub middlebox: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}
