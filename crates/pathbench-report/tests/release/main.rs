//! Tests that are due before a release: other programs, and loops that take minutes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

use std::process::ExitCode;

mod export;
#[path = "../results/mod.rs"]
mod results;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([export::trials()])
}
