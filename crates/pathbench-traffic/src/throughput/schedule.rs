//! When the next byte of a rate-limited stream is due.

use pathbench_record::time::Timestamp;
use std::time::Duration;

/// A stream that fell behind its schedule (a stalled socket, a late wake-up) catches up at most this much
/// of it in one burst; what lies further back is forgone.
pub const MAX_CATCH_UP: Duration = Duration::from_millis(50);

/// A schedule in absolute time: byte `n` is due `n / rate` after the start. Rounding and late wake-ups
/// therefore never add up to a drift.
#[derive(Debug, Clone)]
pub struct RateSchedule {
    rate_bps: u64,
    origin: Timestamp,
    scheduled: u64,
}

impl RateSchedule {
    /// A schedule of `rate_bps` (not zero) whose first byte is due at `origin`.
    pub fn new(rate_bps: u64, origin: Timestamp) -> Self {
        Self { rate_bps: rate_bps.max(1), origin, scheduled: 0 }
    }

    /// Whether the next byte is due at `now`; if not, when it will be.
    ///
    /// The time at which it is due.
    pub fn ready(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let due = self.due();
        if now < due {
            return Err(due);
        }
        let behind = now.since(due);
        if behind > MAX_CATCH_UP {
            self.origin = self.origin + behind.saturating_sub(MAX_CATCH_UP);
        }
        Ok(())
    }

    pub const fn book(&mut self, bytes: u64) {
        self.scheduled += bytes;
    }

    fn due(&self) -> Timestamp {
        let nanos = u128::from(self.scheduled) * 8_000_000_000 / u128::from(self.rate_bps);
        self.origin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
