//! Pages in a real browser.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

use std::process::ExitCode;

mod browser;
#[path = "../synthetic/mod.rs"]
mod synthetic;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([browser::trials()])
}
