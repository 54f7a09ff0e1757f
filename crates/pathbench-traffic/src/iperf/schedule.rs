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
    /// # Errors
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

    /// Books `bytes` that start now.
    pub const fn book(&mut self, bytes: u64) {
        self.scheduled += bytes;
    }

    fn due(&self) -> Timestamp {
        let nanos = u128::from(self.scheduled) * 8_000_000_000 / u128::from(self.rate_bps);
        self.origin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    /// Runs a schedule whose every wake-up is `late` late, for `span`; returns the bytes booked.
    fn run(rate_bps: u64, block: u64, late: u64, span: u64) -> u64 {
        let mut schedule = RateSchedule::new(rate_bps, at(0));
        let (mut now, mut bytes) = (0, 0);
        while now < span {
            match schedule.ready(at(now)) {
                Ok(()) => {
                    schedule.book(block);
                    bytes += block;
                }
                Err(due) => now = due.as_nanos() + late,
            }
        }
        bytes
    }

    #[test]
    fn late_wake_ups_do_not_make_it_drift() {
        // 333 Mbit/s in odd blocks, each wake-up 137 µs late, over a minute.
        let bytes = run(333_333_333, 7_777, 137_000, 60_000_000_000);
        let asked = 333_333_333_u64 * 60 / 8;
        assert!(bytes.abs_diff(asked) < 20_000, "{bytes} instead of {asked}");
    }

    #[test]
    fn a_stall_is_caught_up_by_the_bound_only() {
        let mut schedule = RateSchedule::new(8_000_000, at(0));
        assert_eq!(schedule.ready(at(0)), Ok(()));
        schedule.book(1_000);
        // One second of silence: 1 MB was forgone, 50 ms of it (50 kB) may follow at once.
        let now = at(1_000_000_000);
        let mut burst = 0;
        while schedule.ready(now).is_ok() {
            schedule.book(1_000);
            burst += 1_000;
        }
        assert_eq!(burst, 51_000);
    }

    #[test]
    fn the_due_time_does_not_overflow() {
        let mut schedule = RateSchedule::new(8_000, at(5));
        schedule.book(u64::MAX / 2);
        assert!(schedule.ready(at(u64::MAX / 2)).is_err());
    }
}
