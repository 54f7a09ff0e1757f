//! The host's clock. Only this module reads it.
#![expect(clippy::disallowed_methods, reason = "this module is the clock that everybody else is passed")]

use pathbench_record::time::{Clock, Timestamp, WallClock};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

/// A shorter remaining time is spent yielding, because so short a sleep ends late.
const SHORTEST_SLEEP: Duration = Duration::from_micros(80);

/// An older stamp comes from a system clock that was set since.
const OLDEST_STAMP: Duration = Duration::from_secs(10);
/// Both clocks are read again if the thread was interrupted for longer than this between them.
const LONGEST_READING: Duration = Duration::from_micros(20);
const READINGS: usize = 4;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
        Timestamp::from_nanos(tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs())
    }

    fn sleep_until(&self, deadline: Timestamp) {
        loop {
            let remaining = deadline.duration_since(self.now());
            if remaining.is_zero() {
                return;
            }
            if remaining < SHORTEST_SLEEP {
                std::thread::yield_now();
            } else {
                std::thread::sleep(remaining);
            }
        }
    }

    fn convert_system_time(&self, since_epoch: Duration) -> Option<Timestamp> {
        let reading = |_| {
            let (before, system) = (self.now(), WallClock::since_epoch(self));
            let now = self.now();
            (now.duration_since(before), now, system)
        };
        let readings = (0..READINGS).map(reading);
        let mut best: Option<(Duration, Timestamp, Duration)> = None;
        for reading in readings {
            best = Some(best.map_or(reading, |best| best.min(reading)));
            if reading.0 <= LONGEST_READING {
                break;
            }
        }
        let (_, now, system) = best?;
        let age = system.checked_sub(since_epoch).filter(|age| *age <= OLDEST_STAMP)?;
        Some(now - age)
    }
}

impl WallClock for RealClock {
    fn since_epoch(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_the_system_clock_becomes_a_time_of_the_monotonic_clock() {
        let before = RealClock.now();
        let stamp = RealClock.since_epoch();
        let at = RealClock.convert_system_time(stamp);
        assert!(at.is_some_and(|at| (before..=RealClock.now()).contains(&at)), "{at:?}");
        // The system clock was set back, or forward.
        let hour = Duration::from_secs(3600);
        assert_eq!(RealClock.convert_system_time(stamp + hour), None);
        assert_eq!(RealClock.convert_system_time(stamp.saturating_sub(hour)), None);
    }
}
