//! The host's clock. Only this module reads it.
#![expect(clippy::disallowed_methods, reason = "this module is the clock that everybody else is passed")]

use pathbench_record::time::{Clock, Timestamp, WallClock};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

/// A shorter remaining time is spent yielding, because so short a sleep ends late.
const SHORTEST_SLEEP: Duration = Duration::from_micros(80);

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
}

impl WallClock for RealClock {
    fn since_epoch(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}
