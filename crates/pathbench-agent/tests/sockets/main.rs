//! The service of the agent in this process, in virtual time, with fakes of the collector, the networks and the program.

#![allow(clippy::disallowed_methods, reason = "a test is an outermost shell")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod clock;
#[allow(dead_code, reason = "each test program uses its own part of this")]
#[path = "../../../pathbench/tests/support/collector.rs"]
mod collector;
mod consent;
mod host;
mod limits;
mod outbox;
mod schedule;

use std::time::{Duration, Instant};

/// Waits at most `time` until `condition` holds; returns whether it does.
fn within(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() >= time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
