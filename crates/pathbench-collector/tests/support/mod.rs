//! Shared code of the test programs: servers, clients, results, and a clock that tests move.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

pub(crate) mod clients;
pub(crate) mod connections;
pub(crate) mod costly;
pub(crate) mod demo;
pub(crate) mod maintenance_suite;
#[allow(clippy::duplicate_mod, reason = "the bodies of the fuzz targets load it, too")]
pub(crate) mod memory;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod raw_suite;
pub(crate) mod results;
pub(crate) mod s3;
pub(crate) mod store_suite;
pub(crate) mod synthetic;

use pathbench_program::clock::RealClock;
use pathbench_record::time::{Clock, Timestamp, WallClock};
use ring::rand::{SecureRandom as _, SystemRandom};
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
    fn now(&self) -> Timestamp {
        self.real.now()
    }

    fn sleep_until(&self, deadline: Timestamp) {
        self.real.sleep_until(deadline);
    }
}

impl WallClock for MovedClock {
    fn since_epoch(&self) -> Duration {
        self.real.since_epoch() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).unwrap();
    bytes
}

/// Whether `part` is somewhere in `bytes`.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Repeats `task` until it returns something, for at most `patience`.
pub(crate) fn within<T>(patience: Duration, mut task: impl FnMut() -> Option<T>) -> Option<T> {
    let (clock, begun) = (RealClock, RealClock.now());
    while clock.now().duration_since(begun) < patience {
        if let Some(value) = task() {
            return Some(value);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
