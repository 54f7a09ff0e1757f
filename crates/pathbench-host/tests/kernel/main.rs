//! Tests against the running kernel, in namespaces of their own.
//!
//! The program runs itself twice more: once to enter new namespaces (a user namespace too, unless it is
//! root) while it has one thread, and once inside them as PID 1, where the tests are. So they run for root
//! and for ordinary users alike and never touch the host's own network.

#![allow(clippy::disallowed_methods, reason = "these tests measure rates against the clock")]

mod addressing;
mod beliefs;
mod black_holes;
mod connections;
mod events;
mod fixture;
mod guests;
mod isolation;
mod packet_sizes;
mod path_manager;
mod raw_routes;
mod remedies;
mod routers;
mod settings;
mod shaping;
mod wifi;
mod wires;

use libtest_mimic::{Arguments, Failed, Trial};
use pathbench_host::namespace::{Isolation, enter_lab, set_parent_death_signal_kill};
use pathbench_host::netlink::RouteSocket;
use std::process::{Command, ExitCode};

/// Tells a process of this program what it is.
const STAGE: &str = "PATHBENCH_KERNEL_TEST_STAGE";

type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    match std::env::var(STAGE).as_deref() {
        Err(_) => outside(),
        Ok("isolate") => isolate(),
        Ok("inside") => inside(),
        Ok(stage) => guests::main(stage),
    }
}

/// In the host's network: lists, or starts the rest and looks afterwards that nothing is left.
fn outside() -> ExitCode {
    let arguments = Arguments::from_args();
    if arguments.list {
        return libtest_mimic::run(&arguments, trials()).exit_code();
    }
    let code = again("isolate").status().map_or(ExitCode::FAILURE, exit_code);
    match RouteSocket::open().and_then(|mut socket| socket.links()) {
        Ok(links) if links.iter().all(|link| !fixture::is_ours(&link.name)) => code,
        Ok(links) => {
            eprintln!("interfaces were left in the host's namespace: {links:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn isolate() -> ExitCode {
    let root = rustix::process::geteuid().is_root();
    if let Err(error) = enter_lab(if root { Isolation::Root } else { Isolation::User }) {
        eprintln!("the tests against the kernel need namespaces of their own: {error}");
        return ExitCode::FAILURE;
    }
    if let Err(errno) = set_parent_death_signal_kill() {
        eprintln!("cannot ask for the end with the parent: {errno}");
        return ExitCode::FAILURE;
    }
    again("inside").status().map_or(ExitCode::FAILURE, exit_code)
}

fn inside() -> ExitCode {
    let ready = set_parent_death_signal_kill().map_err(Failed::from).and_then(|()| {
        RouteSocket::open()?.set_loopback_up()?;
        Ok(())
    });
    if let Err(error) = ready {
        eprintln!("cannot prepare the tests' namespace: {error:?}");
        return ExitCode::FAILURE;
    }
    // One after the other: they measure rates.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials()).exit_code()
}

fn trials() -> Vec<Trial> {
    [
        wires::trials(),
        addressing::trials(),
        settings::trials(),
        shaping::trials(),
        path_manager::trials(),
        events::trials(),
        isolation::trials(),
        connections::trials(),
        wifi::trials(),
        beliefs::trials(),
        remedies::trials(),
        black_holes::trials(),
        routers::trials(),
        packet_sizes::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// This program again, with the same arguments.
fn again(stage: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(STAGE, stage);
    command
}

fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    // Ended by a signal: no code.
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// A list of tests out of functions, named after them.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$(libtest_mimic::Trial::test(format!("{module}::{}", stringify!($name)), $name)),+]
        }
    };
}
use tests;

/// Like `assert!`, for functions that return an [`Outcome`].
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(libtest_mimic::Failed::from(format!($($text)+)));
        }
    };
}
use ensure;
