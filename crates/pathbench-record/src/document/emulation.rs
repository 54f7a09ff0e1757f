//! What an emulated link did to the packets of a run, and how well it kept its times.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A link that Pathbench's own data plane carried, during one run.
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
    /// Packets that came out, duplicates not counted.
    pub delivered_packets: u64,
    /// Bytes that came out, duplicates not counted.
    pub delivered_bytes: u64,
    /// Packets dropped by cause: `queue-full`, `queue-management`, `loss`, `arq`, `mtu`, `blackhole`; causes that
    /// did not occur are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped_packets: BTreeMap<String, u64>,
    /// Packets marked with CE (RFC 3168).
    pub marked_packets: u64,
    /// Packets in which a bit was turned over.
    pub corrupted_packets: u64,
    pub duplicated_packets: u64,
    /// Packets that left before one that had come before them.
    pub reordered_packets: u64,
    /// Link-layer retransmissions (ARQ) of the emulated link.
    pub arq_retransmissions: u64,
    pub largest_queue_bytes: u64,
    /// Packets that the receiving interface did not take.
    pub refused_packets: u64,
    /// Real departures minus those of the model.
    pub lateness_ms: LatenessRecord,
}

/// How late packets left an emulated link, over all packets of a run (docs/metrics.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct LatenessRecord {
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    pub max: f64,
}

/// One line of `links.jsonl`: a direction of an emulated link at one moment. Counters run from the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSample {
    pub run: String,
    /// Time on the run's clock.
    pub t_ms: f64,
    pub link: String,
    pub direction: crate::direction::LinkDirection,
    pub queue_bytes: u64,
    pub queue_packets: u64,
    pub offered_bytes: u64,
    pub delivered_bytes: u64,
    pub dropped_packets: u64,
    /// Rate in force; absent when unlimited or made of opportunities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Probability of loss in force, where it is independent of the packet before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
}

/// One-way delays of small packets on an idle link, as measured before a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct OneWayDelay {
    pub packets: u32,
    pub min_ms: f64,
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    pub max_ms: f64,
}
