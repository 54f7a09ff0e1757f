//! One direction of a TCP flow.

use super::black_hole::BlackHole;
use super::copies::Copies;
use super::position::nearest_position;
use super::sizes::Sizes;
use super::window::ReceiveWindow;
use crate::coverage::Coverage;
use crate::histogram::DurationHistogram;
use crate::packet::Tcp;
use crate::series::Windows;
use std::hint::black_box;
use std::mem::offset_of;

/// Position of the first captured byte of a direction whose SYN was not captured: earlier bytes, sent again, lie below.
const BASE_WITHOUT_SYN: u64 = 1 << 32;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes below the highest position that a late segment may be.
const OLDEST: i64 = 1 << 24;

/// Data of one direction.
///
/// Positions are 64-bit sequence numbers relative to the initial sequence number: the SYN is 0, the first byte 1.
///
/// The order of the fields is that of the cache lines: a segment needs the first ones.
#[derive(Debug, Clone, Default)]
#[repr(C, align(64))]
pub struct FlowDirection {
    /// Sequence number of position 0.
    pub(super) origin: u32,
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
    pub last_new_ns: u64,
    /// Data that the connection had not carried before.
    pub goodput: Windows,
    /// Packet sizes against acknowledgments, for the suspicion of a black hole.
    pub black_hole: BlackHole,
    /// The receive window that this direction's sender advertises.
    pub window: ReceiveWindow,
    pub stall_ns: u64,
    pub largest_ip_bytes: u32,
    pub mss: Option<u16>,
    /// Packets outside the window that continue each other: sequence number and acknowledgment of the last, and count.
    pub(super) elsewhere: (u32, u32, u8),
    pub(super) copies: Copies,
    rtt: DurationHistogram,
    pub retransmitted_bytes: u64,
    pub retransmitted_packets: u64,
    pub out_of_order_bytes: u64,
    /// Acknowledgments sent in this direction that repeat the one before while data were outstanding.
    pub duplicate_acks: u64,
    pub sack_blocks: u64,
    pub zero_windows: u64,
    pub congestion_experienced: u64,
    /// Copies of packets that were captured before.
    pub duplicates: u64,
    /// Packets outside the window.
    pub out_of_window: u64,
    /// Segments without new data that ask for an acknowledgment, as keep-alives and window probes do.
    pub keep_alives: u64,
    /// Bytes that a gap of the capture skips, of unknown number.
    pub(super) skipped: u64,
    /// Start of the longest time without new data, which is `stall_ns`.
    pub stall_start_ns: u64,
    /// The other initial sequence number that the SYN was captured with.
    pub(super) other_initial: Option<u32>,
}

// The fields that segments need share few lines.
const _: () = {
    assert!(offset_of!(FlowDirection, coverage) == LINE);
    assert!(
        offset_of!(FlowDirection, throughput) < 3 * LINE && offset_of!(FlowDirection, goodput) == 3 * LINE
    );
    assert!(offset_of!(FlowDirection, window) == 4 * LINE);
    assert!(offset_of!(FlowDirection, copies) == 5 * LINE && size_of::<Copies>() == LINE);
    assert!(offset_of!(FlowDirection, rtt) == 6 * LINE);
};

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
        let idle_ns = time_ns.saturating_sub(self.last_new_ns);
        if self.last_new_ns != 0 && idle_ns > self.stall_ns {
            (self.stall_ns, self.stall_start_ns) = (idle_ns, self.last_new_ns);
        }
        self.last_new_ns = time_ns;
    }

    /// Loads the lines that each segment needs into the processor's cache.
    #[inline]
    pub(crate) fn touch(&self) {
        black_box(self.next);
        self.coverage.touch();
    }

    /// The same for a segment of this direction.
    #[inline]
    pub(crate) fn touch_sender(&self, has_payload: bool) {
        black_box(self.window.is_zero());
        self.copies.touch();
        if has_payload {
            black_box((self.throughput.is_empty(), self.goodput.is_empty()));
        }
    }

    /// The same for an acknowledgment of this direction's data.
    #[inline]
    pub(crate) fn touch_acknowledged(&self) {
        black_box((self.black_hole.largest_acknowledged, self.largest_ip_bytes));
        self.rtt.touch();
    }

    pub fn rtt(&self) -> &DurationHistogram {
        &self.rtt
    }

    /// Position after the data that the peer has acknowledged, without the FIN.
    fn acknowledged_end(&self) -> u64 {
        self.acknowledged - u64::from(self.fin && self.acknowledged > self.next)
    }

    /// Bytes of data that the peer has acknowledged, without SYN and FIN.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.acknowledged_end().saturating_sub(self.first_data()).saturating_sub(self.skipped)
    }

    /// Acknowledged bytes that were never captured.
    pub fn missing_bytes(&self) -> u64 {
        let (first, end) = (self.first_data(), self.acknowledged_end());
        end.saturating_sub(first).saturating_sub(self.coverage.covered(first, end.max(first)))
    }

    /// Distance of a sequence number from the highest position that was sent or acknowledged.
    #[inline]
    pub(super) fn distance(&self, sequence: u32) -> i64 {
        let edge = self.next.max(self.acknowledged);
        i64::from(sequence.wrapping_sub(self.origin).wrapping_sub(edge as u32) as i32)
    }

    /// A sequence number of this direction, or an acknowledgment of it, is within the window of its receiver.
    pub(super) fn admits(&self, sequence: u32, receiver: &Self) -> bool {
        let limit = receiver.window.limit(receiver.syn_captured, self.syn_captured, self.window.scales());
        !self.started || (-OLDEST.max(2 * limit)..=limit).contains(&self.distance(sequence))
    }

    /// A segment continues one that was outside the window.
    pub(super) fn goes_on_elsewhere(&self, tcp: &Tcp<'_>) -> bool {
        const NEAR: u32 = 1 << 20;
        let (sequence, acknowledgment, count) = self.elsewhere;
        count > 0
            && tcp.sequence.wrapping_sub(sequence) < NEAR
            && tcp.acknowledgment.wrapping_sub(acknowledgment) < NEAR
    }

    /// The sequence number that stands for one of the other numbering, on the far side of a middlebox.
    pub(super) fn translated(&self, sequence: u32) -> Option<u32> {
        let other = self.other_initial?;
        Some(sequence.wrapping_sub(other).wrapping_add(self.origin))
    }

    /// The SYN had another sequence number; nothing was sent with the first.
    pub(super) fn exchange_initial(&mut self) {
        if let Some(other) = self.other_initial.replace(self.origin) {
            self.origin = other;
        }
    }

    /// The capture has a gap before this sequence number; it does not tell how many bytes were in it.
    pub(super) fn skip_to(&mut self, sequence: u32) {
        let (edge, distance) = (self.next.max(self.acknowledged), self.distance(sequence));
        match u64::try_from(distance) {
            Ok(ahead) => {
                let to = edge + ahead;
                self.skipped += to - self.next;
                self.coverage.add(self.next, to);
                self.next = to;
            }
            // Positions never go back.
            Err(_) => self.origin = sequence.wrapping_sub(edge as u32),
        }
        self.sample = (0, 0);
    }
}
