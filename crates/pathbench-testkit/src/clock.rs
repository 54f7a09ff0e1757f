//! A clock that only sleeps move.

use pathbench_record::time::{Clock, Timestamp, WallClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Virtual time: a sleep ends at once, at its deadline, and moves the time of all threads. Between sleeps other threads get
/// the processor for a millisecond.
#[derive(Debug)]
pub struct SteppingClock {
    nanos: AtomicU64,
    epoch: Duration,
}

impl SteppingClock {
    /// A clock that starts at this number of seconds since the Unix epoch.
    pub const fn from_unix(seconds: u64) -> Self {
        Self { nanos: AtomicU64::new(0), epoch: Duration::from_secs(seconds) }
    }
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, deadline: Timestamp) {
        std::thread::sleep(Duration::from_millis(1));
        self.nanos.fetch_max(deadline.as_nanos(), Ordering::SeqCst);
    }
}

impl WallClock for SteppingClock {
    fn since_epoch(&self) -> Duration {
        self.epoch + Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }
}
