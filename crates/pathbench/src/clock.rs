//! The real clock. Only this module reads it.
#![expect(clippy::disallowed_methods, reason = "this module is the clock that everybody else is passed")]

use pathbench_record::time::{Clock, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MonotonicClock;

/// A shorter remaining time is spent yielding, because so short a sleep ends late.
const SHORTEST_SLEEP: Duration = Duration::from_micros(80);

impl Clock for MonotonicClock {
    fn now(&self) -> Timestamp {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
        Timestamp::from_nanos(tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs())
    }

    fn sleep_until(&self, deadline: Timestamp) {
        loop {
            let remaining = deadline.since(self.now());
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
}

/// Seconds since the Unix epoch, for the date in a result; never used to measure a duration.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Nanoseconds from the monotonic clock to the Unix epoch, for the dates in captures; as accurate as the system time.
pub(crate) fn wall_offset_ns() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let offset = since_epoch.as_nanos() as i128 - i128::from(MonotonicClock.now().as_nanos());
    i64::try_from(offset).unwrap_or_default()
}
