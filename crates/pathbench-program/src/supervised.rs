//! Processes of this program that other processes of it start (a measurement of the agent, a lab whose result is
//! submitted): they end with their parent, also if it is killed.

use crate::diagnostics;
use pathbench_host::namespace::set_parent_death_signal_kill;
use std::ffi::OsStr;
use std::process::Command;

/// Holds the number of the parent's process.
const VARIABLE: &str = "PATHBENCH_PARENT";

/// The file of this program.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// A command of `program`, most often this one, that ends with this process. The thread that starts it must live as long.
pub fn command<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, std::process::id().to_string()).envs(diagnostics::environment());
    command
}

/// The first act of such a process, which has one thread.
pub fn follow_parent() {
    let Some(parent) = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<i32>().ok()) else { return };
    let is_there = || rustix::process::getppid().is_some_and(|now| now.as_raw_pid() == parent);
    // Processes further down inherit the variable, and have another parent.
    if !is_there() {
        return;
    }
    let _without_it = set_parent_death_signal_kill();
    if !is_there() {
        std::process::exit(1);
    }
}
