//! Packets in a pipe, their fates, and the counters of both.

use pathbench_record::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A packet in a pipe. The pipe never looks at `payload`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<P> {
    pub ip_bytes: u32,
    /// Wire packets that it stands for: 1, or the segments of a GSO packet, each of which counts the pipe's overhead.
    pub segments: u32,
    pub ecn: Ecn,
    /// Whatever the owner of the pipe needs to recognise it.
    pub payload: P,
}

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not ECN-capable: 00.
    #[default]
    NotEct,
    /// ECN-capable: 01 or 10.
    Ect,
    /// Congestion experienced: 11.
    Ce,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<P> {
    pub packet: Packet<P>,
    /// Its number among those put into the pipe, from 0.
    pub number: u64,
    pub offered_at: Timestamp,
    pub fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Delivered(Delivery),
    Dropped { cause: DropCause, at: Timestamp },
}

/// How a packet leaves the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// When, by the model. The difference to when it really leaves is the data plane's lateness.
    pub due: Timestamp,
    /// Whether its ECN field is to be set to CE.
    pub mark: bool,
    /// A random number where a bit is to be flipped: the bit of this number modulo the packet's bits.
    pub corrupt: Option<u64>,
    pub twice: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCause {
    QueueFull,
    /// `CoDel` or PIE dropped it.
    QueueManagement,
    Loss,
    Arq,
    Mtu,
    Blackhole,
}

impl DropCause {
    pub const ALL: [Self; 6] =
        [Self::QueueFull, Self::QueueManagement, Self::Loss, Self::Arq, Self::Mtu, Self::Blackhole];

    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::QueueManagement => "queue-management",
            Self::Loss => "loss",
            Self::Arq => "arq",
            Self::Mtu => "mtu",
            Self::Blackhole => "blackhole",
        }
    }
}

/// Counters of a pipe since it was made. Packets are wire packets; bytes are IP bytes and overhead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PipeStatistics {
    pub offered_packets: u64,
    pub offered_bytes: u64,
    /// Left by the far end, duplicates not counted.
    pub delivered_packets: u64,
    /// Left by the far end, duplicates not counted.
    pub delivered_bytes: u64,
    /// Packets dropped, by cause; causes that did not occur are absent.
    pub dropped_packets: BTreeMap<DropCause, u64>,
    pub marked_packets: u64,
    pub corrupted_packets: u64,
    pub duplicated_packets: u64,
    /// That left before one that had come before it.
    pub reordered_packets: u64,
    /// Attempts of link-layer retransmission beyond the first.
    pub arq_retransmissions: u64,
    /// In the queue now, overhead included.
    pub queue_bytes: u64,
    pub queue_packets: u64,
    /// Most that was ever in the queue.
    pub largest_queue_bytes: u64,
    /// Most that was ever in the queue.
    pub largest_queue_packets: u64,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "decisions that have nothing to do with each other")]
pub(crate) struct Held<P> {
    pub(crate) packet: Packet<P>,
    pub(crate) number: u64,
    pub(crate) offered_at: Timestamp,
    pub(crate) wire_bytes: u64,
    pub(crate) twice: bool,
    pub(crate) corrupt: bool,
    pub(crate) mark: bool,
    pub(crate) bad_state: bool,
}

#[derive(Debug)]
pub(crate) struct Ledger<P> {
    outcomes: VecDeque<Outcome<P>>,
    pub(crate) statistics: PipeStatistics,
}

impl<P> Ledger<P> {
    pub(crate) fn new() -> Self {
        Self { outcomes: VecDeque::new(), statistics: PipeStatistics::default() }
    }

    pub(crate) fn drop(&mut self, held: Held<P>, cause: DropCause, at: Timestamp) {
        *self.statistics.dropped_packets.entry(cause).or_insert(0) += u64::from(held.packet.segments);
        self.end(held, Fate::Dropped { cause, at });
    }

    pub(crate) fn deliver(&mut self, held: Held<P>, delivery: Delivery) {
        let packets = u64::from(held.packet.segments);
        self.statistics.delivered_packets += packets;
        self.statistics.delivered_bytes += held.wire_bytes;
        if held.mark {
            self.statistics.marked_packets += packets;
        }
        if held.corrupt {
            self.statistics.corrupted_packets += packets;
        }
        if held.twice {
            self.statistics.duplicated_packets += packets;
        }
        self.end(held, Fate::Delivered(delivery));
    }

    fn end(&mut self, held: Held<P>, fate: Fate) {
        let Held { packet, number, offered_at, .. } = held;
        self.outcomes.push_back(Outcome { packet, number, offered_at, fate });
    }

    pub(crate) fn fetch(&mut self) -> Option<Outcome<P>> {
        self.outcomes.pop_front()
    }

    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.outcomes.front().map(|outcome| match outcome.fate {
            Fate::Delivered(delivery) => delivery.due,
            Fate::Dropped { at, .. } => at,
        })
    }
}
