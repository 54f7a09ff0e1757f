//! Proportional integral controller enhanced: RFC 8033, with delays measured by timestamps, its sections 4 and 5.1
//! (marking) and 5.5 (capped adjustment).

use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Weight of the deviation from the target, per second of delay.
const ALPHA: f64 = 0.125;
/// Weight of the delay's growth, per second of delay.
const BETA: f64 = 1.25;
const MAX_BURST: Duration = Duration::from_millis(150);
const MARK_BELOW: f64 = 0.1;
const MEAN_PACKET_BYTES: u64 = 1_024;
/// What is left of the probability after each update without a queue.
const DECAY: f64 = 0.98;
const SMALLEST: f64 = 1e-9;

/// The controller's adjustments are divided where the probability is below a bound (RFC 8033, section 4.2).
const TUNING: [(f64, f64); 6] =
    [(0.000_001, 2_048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Queue,
    Mark,
    Drop,
}

#[derive(Debug)]
pub(crate) struct Pie {
    pub(crate) target: Duration,
    update: Duration,
    drop_probability: f64,
    burst_allowance: Duration,
    last_delay: Duration,
    next_update: Option<Timestamp>,
}

impl Pie {
    pub(crate) fn new(target: Duration, update: Duration) -> Self {
        Self {
            target,
            update,
            drop_probability: 0.0,
            burst_allowance: MAX_BURST,
            last_delay: Duration::ZERO,
            next_update: None,
        }
    }

    pub(crate) fn tune(&mut self, target: Duration, update: Duration) {
        (self.target, self.update) = (target, update);
    }

    /// When the probability is to be reckoned anew; `None` while nothing would come of it.
    pub(crate) fn next_update(&self) -> Option<Timestamp> {
        self.next_update
    }

    /// Judges an arriving packet. `unit` is its random number in `[0, 1)`.
    pub(crate) fn judge(&mut self, backlog_bytes: u64, markable: bool, unit: f64, now: Timestamp) -> Verdict {
        // Not a whole period must pass from an update to the next: the first comes one after the queue's begin.
        self.next_update.get_or_insert(now + self.update.max(Duration::from_micros(1)));
        let calm = self.last_delay < self.target / 2 && self.drop_probability < 0.2;
        if !self.burst_allowance.is_zero()
            || calm
            || backlog_bytes <= 2 * MEAN_PACKET_BYTES
            || unit >= self.drop_probability
        {
            return Verdict::Queue;
        }
        if markable && self.drop_probability < MARK_BELOW { Verdict::Mark } else { Verdict::Drop }
    }

    pub(crate) fn reckon(&mut self, delay: Duration, now: Timestamp) {
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
