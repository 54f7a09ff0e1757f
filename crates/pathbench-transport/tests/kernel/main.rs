//! The room against the running kernel, each test in a network namespace of its own.
//!
//! The program enters new namespaces (a user namespace too, unless it is root) while it has one thread, and
//! runs itself again inside them as PID 1, where the tests are. So they run for root and for ordinary users
//! alike, need no other program, and never touch the host's own network.

mod quic;
mod quic_mtu;
mod quic_paths;
mod routed_ways;
mod sampling;
mod sockets;
mod support;
mod telemetry;
mod two_ways;

use libtest_mimic::{Arguments, Trial};
use pathbench_host::namespace::{Isolation, enter_lab, set_parent_death_signal_kill};
use std::error::Error;
use std::process::{Command, ExitCode};

/// Set for the process inside.
const INSIDE: &str = "PATHBENCH_TRANSPORT_INSIDE";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::from_args();
    if arguments.list {
        return Ok(libtest_mimic::run(&arguments, trials()).exit_code());
    }
    if std::env::var_os(INSIDE).is_none() {
        return outside();
    }
    set_parent_death_signal_kill()?;
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
    [
        quic::trials(),
        quic_mtu::trials(),
        quic_paths::trials(),
        sampling::trials(),
        sockets::trials(),
        telemetry::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A list of tests out of functions, named after them, each to be run in a namespace of its own.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$(libtest_mimic::Trial::test(format!("{module}::{}", stringify!($name)), || {
                $crate::support::in_namespace($name)
            })),+]
        }
    };
}
use tests;
