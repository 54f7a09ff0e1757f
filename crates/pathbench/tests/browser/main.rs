//! Pages in a real browser.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod agent_page;
mod report_page;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([agent_page::trials(), report_page::trials()])
}
