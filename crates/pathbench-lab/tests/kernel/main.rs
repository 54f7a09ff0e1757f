//! What takes a network, traffic and the running kernel together, in namespaces of their own.
//!
//! The program enters new namespaces (a user namespace too, unless it is root) while it has one thread, and runs itself
//! again inside them as PID 1, where the tests are. So they run for root and for ordinary users alike, need no other
//! program, and never touch the host's own network.

mod chain;
mod path_mtu;

use libtest_mimic::{Arguments, Trial};
use pathbench_host::namespace::{Isolation, enter_lab, set_parent_death_signal_kill};
use std::error::Error;
use std::process::{Command, ExitCode};

/// Set for the process inside.
const INSIDE: &str = "PATHBENCH_LAB_KERNEL_INSIDE";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::from_args();
    if arguments.list {
        return Ok(libtest_mimic::run(&arguments, trials()).exit_code());
    }
    if std::env::var_os(INSIDE).is_none() {
        return outside();
    }
    set_parent_death_signal_kill()?;
    // One after the other: they are held to times.
    let arguments = Arguments { test_threads: Some(1), ..arguments };
    Ok(libtest_mimic::run(&arguments, trials()).exit_code())
}

/// Enters the namespaces and runs the tests in them, as a child, for only a child comes into the PID namespace.
fn outside() -> Result<ExitCode, Box<dyn Error>> {
    let root = rustix::process::geteuid().is_root();
    enter_lab(if root { Isolation::Root } else { Isolation::User })
        .map_err(|error| format!("these tests need namespaces of their own: {error}"))?;
    let arguments = std::env::args_os().skip(1);
    let status = Command::new("/proc/self/exe").args(arguments).env(INSIDE, "1").status()?;
    // No code: ended by a signal.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn trials() -> Vec<Trial> {
    path_mtu::trials()
}

/// Like `assert!`, for functions that return a `Result<_, Failed>`.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(libtest_mimic::Failed::from(format!($($text)+)));
        }
    };
}
use ensure;
