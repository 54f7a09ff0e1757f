//! Active queue management: `CoDel` and PIE, which mark or drop packets.

use crate::packet::{Ecn, Held};
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// The decision about one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// Mark with CE (RFC 3168).
    Mark,
    Drop,
}

/// Controlled delay (RFC 8289, section 5); decides about one packet at a time.
#[derive(Debug)]
pub(super) struct CoDel {
    pub(super) target: Duration,
    pub(super) interval: Duration,
    /// One interval after the delay first exceeded the target; `None` while the delay is below the target.
    first_above: Option<Timestamp>,
    drop_next: Timestamp,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// Largest packet so far: a queue of at most this size is not a standing queue.
    largest_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) wire_bytes: u64,
    pub(super) waited: Duration,
    pub(super) backlog_bytes: u64,
    pub(super) markable: bool,
}

impl Taken {
    /// `held` is the packet taken out, `backlog_bytes` the bytes that its queue still holds.
    pub(super) fn new<P>(held: &Held<P>, backlog_bytes: u64, ecn: bool, now: Timestamp) -> Self {
        Self {
            wire_bytes: held.wire_bytes,
            waited: now.duration_since(held.offered_at),
            backlog_bytes,
            markable: ecn && held.packet.ecn != Ecn::NotEct,
        }
    }
}

/// Intervals after the end of the dropping state for which its last drop rate is reused (RFC 8289, section 5.4).
const MEMORY_INTERVALS: u32 = 16;

impl CoDel {
    pub(super) fn new((target, interval): (Duration, Duration), now: Timestamp) -> Self {
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

    #[inline]
    pub(super) fn found_empty(&mut self) {
        self.first_above = None;
        self.dropping = false;
    }

    #[inline]
    pub(super) fn judge(&mut self, taken: Taken, now: Timestamp) -> Verdict {
        let may_drop = self.stands_above(taken, now);
        if self.dropping && !may_drop {
            self.dropping = false;
            return Verdict::Pass;
        }
        if self.dropping {
            if now < self.drop_next {
                return Verdict::Pass;
            }
            self.count += 1;
            self.drop_next = self.control_law(self.drop_next);
        } else if may_drop {
            self.enter(now);
        } else {
            return Verdict::Pass;
        }
        if taken.markable { Verdict::Mark } else { Verdict::Drop }
    }

    #[inline]
    fn stands_above(&mut self, taken: Taken, now: Timestamp) -> bool {
        self.largest_bytes = self.largest_bytes.max(taken.wire_bytes);
        if taken.waited < self.target || taken.backlog_bytes <= self.largest_bytes {
            self.first_above = None;
            return false;
        }
        let due = *self.first_above.get_or_insert(now + self.interval);
        now >= due
    }

    /// Enters the dropping state, with the last drop rate if that is recent.
    #[inline]
    fn enter(&mut self, now: Timestamp) {
        let drops_then = self.count.saturating_sub(self.last_count);
        let lately = now.duration_since(self.drop_next) < self.interval * MEMORY_INTERVALS;
        self.count = if drops_then > 1 && lately { drops_then } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = self.control_law(now);
    }

    #[inline]
    fn control_law(&self, from: Timestamp) -> Timestamp {
        from + self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}

/// Weight of the deviation from the target, per second of delay.
const ALPHA: f64 = 0.125;
/// Weight of the delay's growth, per second of delay.
const BETA: f64 = 1.25;
const MAX_BURST: Duration = Duration::from_millis(150);
const MARK_BELOW: f64 = 0.1;
const MEAN_PACKET_BYTES: u64 = 1_024;
/// Factor of the probability at each update without a queue.
const DECAY: f64 = 0.98;
const SMALLEST: f64 = 1e-9;

/// Upper bounds of the drop probability, and the divisors of the adjustment below them (RFC 8033, section 4.2).
const TUNING: [(f64, f64); 6] =
    [(0.000_001, 2_048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];

/// Proportional integral controller enhanced (RFC 8033, sections 4, 5.1 (marking) and 5.5 (capped adjustment)), with
/// delays measured by timestamps.
#[derive(Debug)]
pub(super) struct Pie {
    pub(super) target: Duration,
    pub(super) update: Duration,
    drop_probability: f64,
    burst_allowance: Duration,
    last_delay: Duration,
    next_update: Option<Timestamp>,
}

impl Pie {
    pub(super) fn new((target, update): (Duration, Duration)) -> Self {
        Self {
            target,
            update,
            drop_probability: 0.0,
            burst_allowance: MAX_BURST,
            last_delay: Duration::ZERO,
            next_update: None,
        }
    }

    /// Time of the next update of the probability; `None` while an update would not change it.
    #[inline]
    pub(super) fn next_update(&self) -> Option<Timestamp> {
        self.next_update
    }

    /// Decides about an arriving packet. `unit` is its random number in `[0, 1)`.
    #[inline]
    pub(super) fn judge(&mut self, backlog_bytes: u64, markable: bool, unit: f64, now: Timestamp) -> Verdict {
        // The first update is one period after the first packet.
        self.next_update.get_or_insert(now + self.update.max(Duration::from_micros(1)));
        let calm = self.last_delay < self.target / 2 && self.drop_probability < 0.2;
        if !self.burst_allowance.is_zero()
            || calm
            || backlog_bytes <= 2 * MEAN_PACKET_BYTES
            || unit >= self.drop_probability
        {
            return Verdict::Pass;
        }
        if markable && self.drop_probability < MARK_BELOW { Verdict::Mark } else { Verdict::Drop }
    }

    pub(super) fn update_probability(&mut self, delay: Duration, now: Timestamp) {
        let seconds = |delay: Duration| delay.as_secs_f64();
        let mut step = ALPHA * (seconds(delay) - seconds(self.target))
            + BETA * (seconds(delay) - seconds(self.last_delay));
        if let Some((_, divisor)) = TUNING.iter().find(|(below, _)| self.drop_probability < *below) {
            step /= divisor;
        }
        if self.drop_probability >= 0.1 {
            step = step.min(0.02);
        }
        self.drop_probability += step;
        if delay.is_zero() && self.last_delay.is_zero() {
            self.drop_probability *= DECAY;
        }
        self.drop_probability = self.drop_probability.clamp(0.0, 1.0);
        if self.drop_probability < SMALLEST {
            self.drop_probability = 0.0;
        }
        let small = self.target / 2;
        self.burst_allowance = if self.drop_probability == 0.0 && delay < small && self.last_delay < small {
            MAX_BURST
        } else {
            self.burst_allowance.saturating_sub(self.update)
        };
        let idle = self.drop_probability == 0.0 && delay.is_zero() && self.last_delay.is_zero();
        self.last_delay = delay;
        self.next_update = (!idle).then(|| now + self.update.max(Duration::from_micros(1)));
    }
}
