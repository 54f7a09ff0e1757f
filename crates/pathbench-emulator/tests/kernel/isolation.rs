//! Namespaces of the program's own.

use pathbench_host::namespace::{Isolation, enter_lab, set_parent_death_signal_kill};
use std::process::{Command, ExitCode};

/// Tells a process of this program what it is.
const STAGE: &str = "PATHBENCH_KERNEL_TEST_STAGE";

/// Runs `task` as PID 1 of new namespaces. The program runs itself twice more for that: once to enter them (a user
/// namespace too, unless it is root) while it has one thread, and once inside.
pub(crate) fn in_namespaces(task: fn() -> ExitCode) -> ExitCode {
    let stage = std::env::var(STAGE);
    if stage.is_err() {
        return again("isolate");
    }
    if stage.as_deref() == Ok("isolate") {
        let root = rustix::process::geteuid().is_root();
        if let Err(error) = enter_lab(if root { Isolation::Root } else { Isolation::User }) {
            eprintln!("this needs namespaces of its own: {error}");
            return ExitCode::FAILURE;
        }
    }
    if let Err(errno) = set_parent_death_signal_kill() {
        eprintln!("cannot ask for the end with the parent: {errno}");
        return ExitCode::FAILURE;
    }
    if stage.as_deref() == Ok("isolate") { again("inside") } else { task() }
}

/// Runs this program again, with the same arguments.
fn again(stage: &str) -> ExitCode {
    let mut command = Command::new("/proc/self/exe");
    let status = command.args(std::env::args_os().skip(1)).env(STAGE, stage).status();
    // Ended by a signal: no code.
    let code = status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
