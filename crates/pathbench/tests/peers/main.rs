//! Programs of other projects that `./test` installs.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod check;
mod lab_exec;
mod live;
mod measured;
mod option_names;
mod remedies;
mod run;
mod service;
#[path = "../support/mod.rs"]
mod support;
mod units;

use std::process::ExitCode;

fn main() -> ExitCode {
    pathbench_testkit::run_with_programs([
        check::trials(),
        lab_exec::trials(),
        live::trials(),
        measured::roam::trials(),
        option_names::trials(),
        remedies::trials(),
        run::trials(),
        service::trials(),
        units::trials(),
    ])
}
