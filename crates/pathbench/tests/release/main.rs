//! Tests that are due before a release: programs that few machines have.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod cluster;
mod run;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([cluster::trials(), run::trials()])
}
