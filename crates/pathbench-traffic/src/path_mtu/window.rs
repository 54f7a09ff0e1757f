//! How much may be under way at once: little at first, more as it comes through, half when it does not.

use super::exchange::Fate;
use pathbench_record::time::Timestamp;
use std::time::Duration;

const FIRST_BYTES: u64 = 6_000;
const LEAST_BYTES: u64 = 3_000;
const MOST_BYTES: u64 = 64 * 1024;
/// Losses within so short a time are one.
const ONE_LOSS: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    bytes: u64,
    under_way_bytes: u64,
    shrunk_at: Option<Timestamp>,
}

impl Default for Window {
    fn default() -> Self {
        Self { bytes: FIRST_BYTES, under_way_bytes: 0, shrunk_at: None }
    }
}

impl Window {
    /// Whether a packet of `size` may be sent now; one may always be under way.
    pub(super) fn admits(&self, size: u32) -> bool {
        self.under_way_bytes == 0 || self.under_way_bytes + u64::from(size) <= self.bytes
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way_bytes == 0
    }

    /// A packet was sent.
    pub(super) fn sent(&mut self, size: u32) {
        self.under_way_bytes += u64::from(size);
    }

    /// What became of one; `control`: it should have come through.
    pub(super) fn settle(&mut self, now: Timestamp, size: u32, fate: Fate, control: bool) {
        if fate == Fate::PassedLate {
            return;
        }
        self.under_way_bytes = self.under_way_bytes.saturating_sub(u64::from(size));
        match fate {
            Fate::Passed => self.bytes = (self.bytes + u64::from(size)).min(MOST_BYTES),
            Fate::Lost if control && self.shrunk_at.is_none_or(|at| now.since(at) > ONE_LOSS) => {
                self.bytes = (self.bytes / 2).max(LEAST_BYTES);
                self.shrunk_at = Some(now);
            }
            _ => {}
        }
    }
}
