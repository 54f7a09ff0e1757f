//! Pages in a real browser.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::process::ExitCode;

mod browser;
#[path = "../synthetic/mod.rs"]
mod synthetic;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([browser::trials()])
}
