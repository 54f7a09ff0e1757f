//! The program `pathbench`.

use pathbench_program::clock::RealClock;
use pathbench_program::supervised;
use pathbench_record::time::SharedClock;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    supervised::follow_parent();
    pathbench::run_command_line(&(Arc::new(RealClock) as SharedClock)).into()
}
