//! Controlled delay: RFC 8289, section 5, one packet after another.

use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    Mark,
    Drop,
}

#[derive(Debug)]
pub(crate) struct CoDel {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
    /// An interval after the delay came above the target, if it has stayed there.
    first_above: Option<Timestamp>,
    drop_next: Timestamp,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// Largest packet seen: a queue that holds no more is no standing one.
    largest_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) wire_bytes: u64,
    pub(crate) waited: Duration,
    pub(crate) backlog_bytes: u64,
    pub(crate) markable: bool,
}

/// How many intervals after leaving the dropping state its last drop rate is still worth something (RFC 8289, section 5.4).
const MEMORY_INTERVALS: u32 = 16;

impl CoDel {
    pub(crate) fn new(target: Duration, interval: Duration, now: Timestamp) -> Self {
        Self {
            target,
            interval,
            first_above: None,
            drop_next: now,
            count: 0,
            last_count: 0,
            dropping: false,
            largest_bytes: 0,
        }
    }

    pub(crate) fn found_empty(&mut self) {
        self.first_above = None;
        self.dropping = false;
    }

    pub(crate) fn judge(&mut self, taken: Taken, now: Timestamp) -> Verdict {
        let may_drop = self.stands_above(taken, now);
        if self.dropping && !may_drop {
            self.dropping = false;
            return Verdict::Send;
        }
        if self.dropping {
            if now < self.drop_next {
                return Verdict::Send;
            }
            self.count += 1;
            self.drop_next = self.control_law(self.drop_next);
        } else if may_drop {
            self.enter(now);
        } else {
            return Verdict::Send;
        }
        if taken.markable { Verdict::Mark } else { Verdict::Drop }
    }

    fn stands_above(&mut self, taken: Taken, now: Timestamp) -> bool {
        self.largest_bytes = self.largest_bytes.max(taken.wire_bytes);
        if taken.waited < self.target || taken.backlog_bytes <= self.largest_bytes {
            self.first_above = None;
            return false;
        }
        let due = *self.first_above.get_or_insert(now + self.interval);
        now >= due
    }

    /// Enters the dropping state, with the drop rate of the last time where that is not long ago.
    fn enter(&mut self, now: Timestamp) {
        let drops_then = self.count.saturating_sub(self.last_count);
        let lately = now.since(self.drop_next) < self.interval * MEMORY_INTERVALS;
        self.count = if drops_then > 1 && lately { drops_then } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = self.control_law(now);
    }

    fn control_law(&self, from: Timestamp) -> Timestamp {
        from + self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}
