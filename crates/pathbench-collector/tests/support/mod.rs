//! What the tests of storage share: servers, results, and a clock that tests move.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

pub(crate) mod demo;
pub(crate) mod memory;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod results;
pub(crate) mod s3;
pub(crate) mod synthetic;

use pathbench_collector::clock::{Clock, RealClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The real clock, ahead by as much as a test says.
#[derive(Debug, Default)]
pub(crate) struct MovedClock {
    real: RealClock,
    ahead_ms: AtomicU64,
}

impl MovedClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for MovedClock {
    fn unix_ms(&self) -> u64 {
        self.real.unix_ms() + self.ahead_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }
}

pub(crate) fn random() -> [u8; 10] {
    let mut bytes = [0; 10];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).unwrap();
    bytes
}

/// Repeats `task` until it returns something, for at most `patience`.
pub(crate) fn within<T>(patience: Duration, mut task: impl FnMut() -> Option<T>) -> Option<T> {
    let clock = RealClock::default();
    while clock.monotonic() < patience {
        if let Some(value) = task() {
            return Some(value);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
