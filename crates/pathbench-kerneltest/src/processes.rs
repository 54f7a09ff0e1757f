//! The processes of a program of tests: one that enters new namespaces, and its child, PID 1 inside them, where the
//! tests are. So they run for root and for ordinary users alike, need no other program, and never touch the host's own
//! network.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests print")]

use crate::Outcome;
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The environment variable with the stage of a process.
pub const STAGE: &str = "PATHBENCH_KERNEL_TEST_STAGE";

/// Set by `./test` when it runs the program as an ordinary user.
const UNPRIVILEGED: &str = "PATHBENCH_TEST_UNPRIVILEGED";

/// The environment variable by which `./test` names a copy of the sources.
const CHECKOUT: &str = "PATHBENCH_TEST_CHECKOUT";

const INSIDE: &str = "inside";

/// How long a test may take: several times what the longest does on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// How many tests run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other: they are held to times or rates.
    OneByOne,
    SideBySide,
}

/// A test of a module, which ends the program where it does not come to an end itself.
#[doc(hidden)]
pub fn trial(module: &str, name: &str, test: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
    let name = format!("{}::{name}", module.rsplit("::").next().unwrap_or_default());
    let watched = name.clone();
    Trial::test(name, move || {
        let (_over, ended) = channel::<()>();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                failed(&format!("test {watched} FAILED: it is not over after {PATIENCE:?}"));
                std::process::exit(1);
            }
        });
        test()
    })
}

/// The sources, for tests that read them: a copy where an ordinary user cannot reach those that were compiled.
pub fn checkout() -> PathBuf {
    let compiled = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os(CHECKOUT).map_or_else(compiled, PathBuf::from)
}

/// What is wrong when `./test` set out to run this as an ordinary user, and did not.
pub fn wrong_user() -> Option<&'static str> {
    let meant = std::env::var_os(UNPRIVILEGED).is_some();
    (meant && rustix::process::geteuid().is_root()).then_some("this is root, not an ordinary user")
}

/// Runs tests in namespaces that `enter` moves this process into; see [`in_namespaces`]. Listing needs none, and lists
/// what [`unprivileged_too!`](crate::unprivileged_too) declares.
pub fn run<E: Display>(
    order: Order,
    enter: impl FnOnce() -> Result<(), E>,
    mut trials: Vec<Trial>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.list {
        trials.push(Trial::test("unprivileged_too", || Ok(())));
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    // In the namespaces every user is root.
    if std::env::var_os(STAGE).is_none()
        && let Some(wrong) = wrong_user()
    {
        return failed(wrong);
    }
    if order == Order::OneByOne {
        arguments.test_threads = Some(1);
    }
    in_namespaces(enter, || libtest_mimic::run(&arguments, trials).exit_code())
}

/// Runs `task` as PID 1 of new namespaces, in another process of this program. It is called in that process alone;
/// `enter` in this one alone, which must have a single thread. Says on standard error what did not work.
pub fn in_namespaces<E: Display>(
    enter: impl FnOnce() -> Result<(), E>,
    task: impl FnOnce() -> ExitCode,
) -> ExitCode {
    if std::env::var(STAGE).is_ok_and(|stage| stage == INSIDE) {
        return match set_parent_process_death_signal(Some(Signal::KILL)) {
            Ok(()) => task(),
            Err(errno) => failed(&format!("cannot ask for the end with the parent: {errno}")),
        };
    }
    if let Err(error) = enter() {
        return failed(&format!("this needs namespaces of its own: {error}"));
    }
    // Only a child comes into the PID namespace.
    match again(INSIDE).status() {
        Ok(status) => exit_code(status),
        Err(error) => failed(&format!("cannot start this program again: {error}")),
    }
}

/// This program again, with the same arguments, as stage `stage`.
pub fn again(stage: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(STAGE, stage);
    command
}

/// How a process of this program ended, for the one that started it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    // Ended by a signal: no code.
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn failed(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}
