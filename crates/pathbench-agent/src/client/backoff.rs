//! Waits between attempts to reach a collector: doubled after each failure, with jitter, never more than 5 min.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after a failure. `retry_after` is the collector's `Retry-After`, `random` a random number: half of the wait is
    /// jitter, so that agents do not return together.
    pub(crate) fn next_wait(&mut self, retry_after: Option<Duration>, random: u64) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = doubled / 2;
        let fraction = random as f64 / u64::MAX as f64;
        (half + half.mul_f64(fraction)).max(retry_after.unwrap_or_default()).min(LONGEST)
    }
}
