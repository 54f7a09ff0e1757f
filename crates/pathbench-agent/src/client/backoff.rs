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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_is_bounded() {
        let mut backoff = Backoff::default();
        let waits: Vec<f64> = (0..12).map(|_| backoff.next_wait(None, u64::MAX).as_secs_f64()).collect();
        assert_eq!(waits[..4], [1.0, 2.0, 4.0, 8.0]);
        assert!((waits[11] - 300.0).abs() < 1e-9, "{waits:?}");
        assert_eq!(Backoff::default().next_wait(None, 0), Duration::from_millis(500));
        backoff.reset();
        assert_eq!(backoff.next_wait(None, u64::MAX), Duration::from_secs(1));
    }

    #[test]
    fn a_collector_can_delay_an_agent_by_five_minutes_only() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next_wait(Some(Duration::from_secs(30)), 7), Duration::from_secs(30));
        assert_eq!(backoff.next_wait(Some(Duration::from_secs(1 << 40)), 7), LONGEST);
        for _ in 0..100 {
            assert!(backoff.next_wait(None, u64::MAX) <= LONGEST);
        }
    }
}
