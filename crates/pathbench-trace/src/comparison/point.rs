//! A direction of a flow at one point of capture.

use crate::coverage::Coverage;
use crate::tcp::nearest_position;

/// Position of the initial sequence number: earlier ones, sent again, lie below.
const BASE: u64 = 1 << 32;

/// The sequence number at [`BASE`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) sequence: u32,
    /// The sequence number is that of a SYN.
    pub(super) syn: bool,
}

#[derive(Debug, Default)]
pub(super) struct PointState {
    pub(super) origin: Option<Origin>,
    /// After the highest position.
    next: u64,
    coverage: Coverage,
    pub(super) hop_limit: Option<u8>,
    pub(super) payload_bytes: u64,
    pub(super) data_segments: u64,
    /// Those with a DSS.
    pub(super) data_sequence_segments: u64,
}

impl PointState {
    /// The first packet of this direction. Without both SYNs the sequence numbers are taken to be the same at both
    /// points; `other` is the other point's origin.
    pub(super) fn begin(&mut self, sequence: u32, syn: bool, other: Option<Origin>, hop_limit: u8) {
        if self.origin.is_some() {
            return;
        }
        let origin = match other {
            Some(other) if !(other.syn && syn) => other,
            _ => Origin { sequence, syn },
        };
        self.origin = Some(origin);
        self.next = BASE + u64::from(sequence.wrapping_sub(origin.sequence));
        if sequence.wrapping_sub(origin.sequence) as i32 <= 0 {
            self.next = BASE;
        }
        self.hop_limit = Some(hop_limit);
    }

    /// The position nearest to the data so far.
    pub(super) fn position(&self, sequence: u32) -> u64 {
        let origin = self.origin.map_or(0, |origin| origin.sequence);
        nearest_position(sequence.wrapping_sub(origin), self.next)
    }

    /// [`position`](Self::position), unless this direction has no packet yet.
    pub(super) fn existing_position(&self, sequence: u32) -> Option<u64> {
        self.origin.map(|_| self.position(sequence))
    }

    /// Accounts for a range; whether some of it was captured here before.
    pub(super) fn repeats(&mut self, start: u64, end: u64) -> bool {
        self.next = self.next.max(end);
        self.coverage.add(start, end) < end.saturating_sub(start)
    }
}
