//! What went through a pipe, and how well the data plane kept its times.

use crate::packet::DropCause;
use std::collections::BTreeMap;

/// Counters of a pipe since it was made. Packets are wire packets; bytes are IP bytes and overhead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PipeStatistics {
    /// Put in.
    pub offered_packets: u64,
    /// Put in.
    pub offered_bytes: u64,
    /// Left by the far end, duplicates not counted.
    pub delivered_packets: u64,
    /// Left by the far end, duplicates not counted.
    pub delivered_bytes: u64,
    /// Packets dropped, by cause; causes that did not occur are absent.
    pub dropped_packets: BTreeMap<DropCause, u64>,
    /// Marked with CE.
    pub marked_packets: u64,
    /// With a bit turned over.
    pub corrupted_packets: u64,
    /// Delivered twice.
    pub duplicated_packets: u64,
    /// That left before one that had come before it.
    pub reordered_packets: u64,
    /// Attempts of link-layer retransmission beyond the first.
    pub arq_retransmissions: u64,
    /// In the queue now, overhead included.
    pub queue_bytes: u64,
    /// In the queue now.
    pub queue_packets: u64,
    /// Most that was ever in the queue.
    pub largest_queue_bytes: u64,
    /// Most that was ever in the queue.
    pub largest_queue_packets: u64,
}
