//! The real clocks. Only this module reads them.
#![expect(clippy::disallowed_methods, reason = "other modules get a clock as a parameter")]

use std::time::{Duration, Instant, SystemTime};

/// Unix time and monotonic time; tests pass their own.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn unix_ms(&self) -> u64;

    /// Time since a fixed moment.
    fn monotonic(&self) -> Duration;
}

#[derive(Debug, Clone, Copy)]
pub struct RealClock {
    origin: Instant,
}

impl Default for RealClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for RealClock {
    fn unix_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}
