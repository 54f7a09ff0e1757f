//! Bytes that arrived after bytes that were sent later.

/// Matches that are kept until their order at the receiver is certain.
const KEPT: usize = 256;

/// A range at both points.
#[derive(Debug, Clone, Copy)]
struct Matched {
    /// Number of the packet at each point.
    serials: [u64; 2],
    start: u64,
    bytes: u64,
}

impl Matched {
    fn rank(&self, point: usize) -> (u64, u64) {
        (self.serials[point & 1], self.start)
    }
}

/// Matches come in any order, because either clock may be ahead; they count in order of the receiver's packets.
#[derive(Debug, Default)]
pub(super) struct Order {
    matched: Vec<Matched>,
    /// The latest range of the sender that has arrived.
    latest: (u64, u64),
    reordered_bytes: u64,
}

impl Order {
    pub(super) fn push(&mut self, serials: [u64; 2], start: u64, bytes: u64) {
        self.matched.push(Matched { serials, start, bytes });
    }

    pub(super) fn is_full(&self) -> bool {
        self.matched.len() >= 2 * KEPT
    }

    pub(super) fn settle(&mut self, receiver: usize) {
        let settled = self.matched.len().saturating_sub(KEPT);
        self.settle_first(receiver, settled);
    }

    pub(super) fn settle_all(&mut self, receiver: usize) {
        self.settle_first(receiver, self.matched.len());
    }

    fn settle_first(&mut self, receiver: usize, count: usize) {
        self.matched.sort_by_key(|matched| matched.rank(receiver));
        for matched in self.matched.drain(..count) {
            let sent = matched.rank(1 - receiver);
            if sent < self.latest {
                self.reordered_bytes += matched.bytes;
            }
            self.latest = self.latest.max(sent);
        }
    }

    pub(super) fn reordered_bytes(&self) -> u64 {
        self.reordered_bytes
    }
}
