//! How much may be under way at once: little at first, more as it comes through, less when it does not or
//! has to wait.

use super::exchange::{Fate, Settled};
use pathbench_record::time::Timestamp;
use std::time::Duration;

const FIRST_BYTES: u64 = 12_000;
const LEAST_BYTES: u64 = 3_000;
const MOST_BYTES: u64 = 64 * 1024;
/// It is made smaller so often and no more.
const ONCE: Duration = Duration::from_millis(100);
/// How long a packet may have waited for others for the window to grow, and for it to stay as it is.
const SHORT_QUEUE: Duration = Duration::from_millis(30);
const LONG_QUEUE: Duration = Duration::from_millis(60);

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
    pub(super) fn settle(&mut self, now: Timestamp, settled: &Settled, control: bool) {
        let size = u64::from(settled.trial.size_bytes);
        if settled.fate == Fate::PassedLate {
            return;
        }
        self.under_way_bytes = self.under_way_bytes.saturating_sub(size);
        match settled.fate {
            Fate::Passed if settled.delayed.is_none_or(|delayed| delayed < SHORT_QUEUE) => {
                self.bytes = (self.bytes + size).min(MOST_BYTES);
            }
            Fate::Passed if settled.delayed.is_some_and(|delayed| delayed > LONG_QUEUE) => {
                self.shrink(now, 7, 8);
            }
            Fate::Lost if control => self.shrink(now, 1, 2),
            _ => {}
        }
    }

    fn shrink(&mut self, now: Timestamp, times: u64, over: u64) {
        if self.shrunk_at.is_none_or(|at| now.since(at) > ONCE) {
            self.bytes = (self.bytes * times / over).max(LEAST_BYTES);
            self.shrunk_at = Some(now);
        }
    }
}
