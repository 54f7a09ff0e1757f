//! Programs of other projects that `./test` installs.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod live;
mod run;
#[path = "../support/mod.rs"]
mod support;
mod units;

use std::process::ExitCode;

fn main() -> ExitCode {
    pathbench_kerneltest::run_with_programs([live::trials(), run::trials(), units::trials()])
}
