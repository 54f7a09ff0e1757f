//! Compared with programs of other projects.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod attempts;
mod filters;
mod table;
mod tshark;
#[path = "../pure/wire.rs"]
#[allow(dead_code, reason = "shared with the other ring")]
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([filters::trials(), table::trials()])
}
