//! A clock that stands still.

use pathbench_record::time::{Clock, Timestamp, WallClock};
use std::time::Duration;

/// A clock for code that asks for the time and never waits.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock {
    epoch: Duration,
}

impl FixedClock {
    /// A clock that stands at this number of seconds since the Unix epoch.
    pub const fn from_unix(seconds: u64) -> Self {
        Self { epoch: Duration::from_secs(seconds) }
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    /// # Panics
    /// Always: the deadline would never come.
    fn sleep_until(&self, deadline: Timestamp) {
        panic!("a sleep until {deadline:?} by a clock that stands still");
    }
}

impl WallClock for FixedClock {
    fn since_epoch(&self) -> Duration {
        self.epoch
    }
}
