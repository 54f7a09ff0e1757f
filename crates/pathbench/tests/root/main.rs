//! Tests of the places where Pathbench differs for root. `./test` runs all other rings as an ordinary user.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod hostile_results;
mod labs;
mod places;
mod release;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([
        hostile_results::trials(),
        labs::trials(),
        places::trials(),
        release::trials(),
    ])
}
