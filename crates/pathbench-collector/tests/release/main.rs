//! Tests that are due before a release: programs that few machines have, and tests that take minutes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests print, and a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod bucket;
mod demo;
mod killed;
mod schemathesis;
#[path = "../support/mod.rs"]
mod support;
mod time_limits;

use pathbench_testkit::STAGE;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Ok(stage) = std::env::var(STAGE) {
        return killed::main(&stage);
    }
    pathbench_testkit::run_with_programs([
        bucket::trials(),
        demo::trials(),
        killed::trials(),
        schemathesis::trials(),
        time_limits::trials(),
    ])
}
