//! One direction of a TCP flow.

use super::position::nearest_position;
use super::sizes::Sizes;
use crate::coverage::Coverage;
use crate::histogram::DurationHistogram;
use crate::series::Windows;

/// Position of the first captured byte of a direction whose SYN was not captured: earlier bytes, sent again, lie below.
const BASE_WITHOUT_SYN: u64 = 1 << 32;

/// Data of one direction.
///
/// Positions are 64-bit sequence numbers relative to the initial sequence number: the SYN is 0, the first byte 1.
///
/// The order of the fields is that of the cache lines: a segment needs the first ones.
#[derive(Debug, Clone, Default)]
#[repr(C, align(64))]
pub struct FlowDirection {
    /// Sequence number of position 0.
    origin: u32,
    pub started: bool,
    pub syn_captured: bool,
    pub fin: bool,
    /// Position after the highest byte captured.
    pub next: u64,
    /// Highest position that the peer has acknowledged.
    pub acknowledged: u64,
    pub packets: u64,
    pub ip_bytes: u64,
    pub payload_bytes: u64,
    /// Position whose acknowledgment ends the running RTT sample, and its time; 0 without a sample.
    sample: (u64, u64),
    pub coverage: Coverage,
    pub sizes: Sizes,
    pub throughput: Windows,
    /// Data that the connection had not carried before.
    pub goodput: Windows,
    pub last_new_ns: u64,
    pub stall_ns: u64,
    pub largest_ip_bytes: u32,
    pub mss: Option<u16>,
    /// Packet sizes against acknowledgments, for the suspicion of a black hole.
    pub black_hole: BlackHole,
    pub retransmitted_bytes: u64,
    pub retransmitted_packets: u64,
    pub out_of_order_bytes: u64,
    /// Acknowledgments sent in this direction that repeat the one before while data were outstanding.
    pub duplicate_acks: u64,
    pub sack_blocks: u64,
    pub zero_windows: u64,
    pub congestion_experienced: u64,
    rtt: DurationHistogram,
}

/// Whether packets above a size are lost while smaller ones arrive.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlackHole {
    /// IP length of the largest packet whose data were acknowledged without having been sent in a smaller one.
    pub largest_acknowledged: u32,
    /// IP length and end of the packet at the left edge of the outstanding data, and its retransmissions.
    edge: (u64, u32, u32),
    /// Smallest IP length that was retransmitted at least thrice and never acknowledged at that size.
    pub lost_above: Option<u32>,
}

/// Retransmissions of one packet at one size before it is suspected to be too large.
const RETRANSMISSIONS_OF_A_BLACK_HOLE: u32 = 3;

impl BlackHole {
    fn sent_again(&mut self, end: u64, ip_length: u32) {
        match self.edge {
            (edge, length, count) if edge == end && length == ip_length => self.edge.2 = count + 1,
            // The same data in smaller packets: the sender has lowered its packet size.
            (_, length, count)
                if ip_length < length
                    && count >= RETRANSMISSIONS_OF_A_BLACK_HOLE
                    && length > self.largest_acknowledged =>
            {
                self.lost_above = Some(self.lost_above.map_or(length - 1, |lost| lost.min(length - 1)));
                self.edge = (end, ip_length, 1);
            }
            _ => self.edge = (end, ip_length, 1),
        }
    }

    /// A sender that never lowers its size leaves a packet that was sent again and again.
    pub fn suspicion(&self) -> Option<u32> {
        let (_, length, count) = self.edge;
        let stuck = count > RETRANSMISSIONS_OF_A_BLACK_HOLE && length > self.largest_acknowledged;
        self.lost_above.or(stuck.then(|| length.saturating_sub(1))).filter(|_| self.largest_acknowledged > 0)
    }
}

/// The payload of a packet in its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Position of the first byte.
    pub start: u64,
    pub end: u64,
    /// Bytes that were not captured before.
    pub new: u64,
    /// Position that was expected before.
    pub expected: u64,
}

impl Arrival {
    pub fn retransmitted(&self) -> u64 {
        self.end - self.start - self.new
    }
}

impl FlowDirection {
    /// Position of a sequence number, the nearest to the highest captured.
    #[inline]
    pub fn position(&self, sequence: u32) -> u64 {
        nearest_position(sequence.wrapping_sub(self.origin), self.next.max(self.acknowledged))
    }

    /// Sequence number of position 0, from the SYN.
    pub fn initial_sequence(&self) -> Option<u32> {
        self.syn_captured.then_some(self.origin)
    }

    /// Position of the first byte of data that a capture without the SYN contains, otherwise 1.
    pub fn first_data(&self) -> u64 {
        if self.syn_captured { 1 } else { BASE_WITHOUT_SYN }
    }

    pub(super) fn start(&mut self, sequence: u32, syn: bool) {
        self.started = true;
        self.syn_captured = syn;
        if syn {
            self.origin = sequence;
            self.next = 1;
            self.coverage.add(0, 1);
        } else {
            self.origin = sequence.wrapping_sub(BASE_WITHOUT_SYN as u32);
            self.next = BASE_WITHOUT_SYN;
            self.acknowledged = BASE_WITHOUT_SYN;
        }
    }

    /// Accounts for `length` bytes of payload at `start`.
    #[inline]
    pub(super) fn data(&mut self, start: u64, length: u32, ip_length: u32, time_ns: u64) -> Arrival {
        let end = start + u64::from(length);
        let expected = self.next;
        let new = self.coverage.add(start, end);
        let arrival = Arrival { start, end, new, expected };
        self.payload_bytes += u64::from(length);
        self.sizes.add(length);
        let again = arrival.retransmitted();
        if again > 0 {
            self.retransmitted_bytes += again;
            self.retransmitted_packets += 1;
            self.black_hole.sent_again(end, ip_length);
            // Karn's algorithm: an acknowledgment of data sent twice has no known cause.
            if self.sample.0 > start {
                self.sample = (0, 0);
            }
        } else if start < expected {
            self.out_of_order_bytes += new;
            if self.sample.0 > start {
                self.sample = (0, 0);
            }
        } else if self.sample.0 == 0 {
            self.sample = (end, time_ns);
        }
        self.next = expected.max(end);
        arrival
    }

    /// The peer acknowledges `position`. Returns whether it is a new acknowledgment.
    #[inline]
    pub(super) fn acknowledge(&mut self, position: u64, time_ns: u64) -> bool {
        if position <= self.acknowledged {
            return false;
        }
        self.acknowledged = position;
        let (end, sent_ns) = self.sample;
        if end != 0 && position >= end {
            self.sample = (0, 0);
            self.rtt.record(time_ns.saturating_sub(sent_ns));
        }
        let (edge, length, _) = self.black_hole.edge;
        if edge != 0 && position >= edge {
            self.black_hole.largest_acknowledged = self.black_hole.largest_acknowledged.max(length);
            self.black_hole.edge = (0, 0, 0);
        } else if edge == 0 {
            self.black_hole.largest_acknowledged =
                self.black_hole.largest_acknowledged.max(self.largest_ip_bytes);
        }
        true
    }

    /// Accounts for data that the connection, which started at `start_ns`, had not carried before.
    #[inline]
    pub fn new_data(&mut self, bytes: u64, time_ns: u64, start_ns: u64) {
        if bytes == 0 {
            return;
        }
        self.goodput.add(time_ns.saturating_sub(start_ns), bytes);
        if self.last_new_ns != 0 {
            self.stall_ns = self.stall_ns.max(time_ns.saturating_sub(self.last_new_ns));
        }
        self.last_new_ns = time_ns;
    }

    pub fn rtt(&self) -> &DurationHistogram {
        &self.rtt
    }

    /// Bytes of data that the peer has acknowledged, without SYN and FIN.
    pub fn acknowledged_bytes(&self) -> u64 {
        let fin = u64::from(self.fin && self.acknowledged > self.next);
        self.acknowledged.saturating_sub(self.first_data()).saturating_sub(fin)
    }

    /// Acknowledged bytes that were never captured.
    pub fn missing_bytes(&self) -> u64 {
        let first = self.first_data();
        let end = first + self.acknowledged_bytes();
        (end - first).saturating_sub(self.coverage.covered(first, end))
    }
}
