//! `PostgreSQL` and systemd, as Debian packages them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests print, and a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod crash;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod unit;

use std::process::ExitCode;

fn main() -> ExitCode {
    let golden = store::golden::trials().into_iter().map(|trial| trial.with_ignored_flag(true));
    pathbench_testkit::run_with_programs([crash::trials(), store::trials(), golden.collect(), unit::trials()])
}
