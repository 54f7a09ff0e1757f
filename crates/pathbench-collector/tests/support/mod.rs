//! Shared code of the test programs: servers, clients, results, and a clock that tests move.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

pub(crate) mod clients;
pub(crate) mod connections;
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

use pathbench_collector::clock::{Clock, RealClock};
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
    fn unix_ms(&self) -> u64 {
        self.real.unix_ms() + self.ahead_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
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
    let clock = RealClock::default();
    while clock.monotonic() < patience {
        if let Some(value) = task() {
            return Some(value);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
