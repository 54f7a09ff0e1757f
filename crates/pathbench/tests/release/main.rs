//! Tests that are due before a release: programs that few machines have.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod cluster;
mod run;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([cluster::trials(), run::trials()])
}
