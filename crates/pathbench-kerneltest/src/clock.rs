//! The real clock, for tests, benchmarks and examples: outermost shells, as the program is.

use pathbench_record::time::{Clock, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[expect(clippy::disallowed_methods, reason = "the clock that tests on the running kernel are passed")]
    fn now(&self) -> Timestamp {
        let now = clock_gettime(ClockId::Monotonic);
        Timestamp::from_nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }

    fn sleep_until(&self, deadline: Timestamp) {
        std::thread::sleep(deadline.since(self.now()));
    }
}
