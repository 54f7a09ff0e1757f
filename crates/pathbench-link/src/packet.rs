//! Packets in a pipe, their fates, the random decisions about them, and the counters of a pipe.

use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};

/// A packet in a pipe. The pipe never reads `payload`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipePacket<P> {
    pub ip_bytes: u32,
    /// Number of wire packets: 1, or the segments of a GSO packet. Each one counts with the pipe's overhead.
    pub segments: u32,
    pub ecn: Ecn,
    pub flow: PacketFlow,
    /// Identifies the packet to the pipe's owner.
    pub payload: P,
}

/// Digests of a packet's addresses and of its flow, by which a fair queue separates packets. Packets with equal digests
/// share a queue, so packets without digests are one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketFlow {
    pub source: u32,
    pub destination: u32,
    /// Of addresses, protocol and ports.
    pub flow: u32,
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
    pub packet: PipePacket<P>,
    /// The number of the packet in the order of arrival, from 0.
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
    /// Departure time by the model. The real departure minus this time is the data plane's lateness.
    pub due: Timestamp,
    /// Whether the ECN field must be set to CE.
    pub mark: bool,
    /// For a bit error, a random number: its remainder by the packet's length in bits is the number of the flipped bit.
    pub corrupt: Option<u64>,
    pub twice: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropCause {
    QueueFull,
    /// `CoDel` (also that of `fq_codel`) or PIE dropped it.
    QueueManagement,
    Loss,
    Arq,
    Mtu,
    Blackhole,
    /// More than the policer's rate and burst.
    Policer,
    /// As many packets as `in_flight_limit` allows were in flight.
    InFlight,
}

impl DropCause {
    pub const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::QueueManagement,
        Self::Loss,
        Self::Arq,
        Self::Mtu,
        Self::Blackhole,
        Self::Policer,
        Self::InFlight,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::QueueManagement => "queue-management",
            Self::Loss => "loss",
            Self::Arq => "arq",
            Self::Mtu => "mtu",
            Self::Blackhole => "blackhole",
            Self::Policer => "policer",
            Self::InFlight => "in-flight",
        }
    }
}

/// Counters of a pipe since its creation. Packets are wire packets; bytes include IP packets and overhead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PipeStatistics {
    pub offered_packets: u64,
    pub offered_bytes: u64,
    /// Without duplicates.
    pub delivered_packets: u64,
    /// Without duplicates.
    pub delivered_bytes: u64,
    /// Packets dropped, by cause; causes that did not occur are absent.
    pub dropped_packets: BTreeMap<DropCause, u64>,
    pub marked_packets: u64,
    pub corrupted_packets: u64,
    pub duplicated_packets: u64,
    /// Packets that left before a packet that had arrived earlier.
    pub reordered_packets: u64,
    /// Attempts of link-layer retransmission beyond the first.
    pub arq_retransmissions: u64,
    /// Bytes in the queue now, overhead included.
    pub queue_bytes: u64,
    pub queue_packets: u64,
    /// Maximum of `queue_bytes`.
    pub largest_queue_bytes: u64,
    /// Maximum of `queue_packets`.
    pub largest_queue_packets: u64,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "decisions that have nothing to do with each other")]
pub(crate) struct Held<P> {
    pub(crate) packet: PipePacket<P>,
    pub(crate) number: u64,
    pub(crate) offered_at: Timestamp,
    pub(crate) wire_bytes: u64,
    pub(crate) twice: bool,
    pub(crate) corrupt: bool,
    pub(crate) mark: bool,
    pub(crate) bad_state: bool,
    /// The number that decides about the loss of the first attempt, if losses are correlated.
    pub(crate) loss_level: Option<f64>,
    /// The deviation from the delay in units of the jitter, if jitter is correlated.
    pub(crate) jitter_level: Option<f64>,
    /// Whether the packet skips the delay, as one of the fixed share that is reordered.
    pub(crate) early: bool,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawPurpose {
    Duplicate = 1,
    Corrupt,
    CorruptedBit,
    ChannelState,
    Loss,
    Jitter,
    JitterAngle,
    QueueManagement,
    /// The numbers that correlated decisions begin with.
    Correlation,
    Reorder,
    FlowHash,
}

/// Random decisions that depend only on a seed, a purpose and a packet's number, not on time, on the fates of other
/// packets or on other probabilities.
#[derive(Debug, Clone, Copy)]
pub struct Chance {
    seed: u64,
}

/// The increment of `SplitMix64`: 2⁶⁴ divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014), Stafford's variant 13.
#[inline]
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

impl Chance {
    #[inline]
    pub const fn new(seed: u64) -> Self {
        Self { seed: mix(seed.wrapping_add(GOLDEN)) }
    }

    /// 64 random bits for one attempt to send a packet.
    #[inline]
    pub const fn bits(self, purpose: DrawPurpose, number: u64, attempt: u32) -> u64 {
        let stream = mix(self.seed ^ (purpose as u64).wrapping_mul(GOLDEN));
        let packet = mix(stream.wrapping_add(number.wrapping_mul(GOLDEN)));
        if attempt == 0 { packet } else { mix(packet.wrapping_add((attempt as u64).wrapping_mul(GOLDEN))) }
    }

    /// A number in `[0, 1)`.
    #[inline]
    pub fn unit(self, purpose: DrawPurpose, number: u64, attempt: u32) -> f64 {
        (self.bits(purpose, number, attempt) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether an event with this probability occurs: never for 0, always for 1.
    #[inline]
    pub fn happens(self, probability: f64, purpose: DrawPurpose, number: u64, attempt: u32) -> bool {
        probability > 0.0 && self.unit(purpose, number, attempt) < probability
    }
}
