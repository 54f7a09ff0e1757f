//! The processes of a test program: the first enters new namespaces; its child, PID 1 in them, runs the tests. Tests
//! thus run for root and for ordinary users, need no other program, and never touch the host's network.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests print")]

use crate::diagnostics::{self, DiagnosticsFile};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Output};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The environment variable that holds the stage of a process.
pub const STAGE: &str = "PATHBENCH_KERNEL_TEST_STAGE";

const INSIDE: &str = "inside";

/// Time limit of a test: several times the longest test's duration on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The result of a test. See [`crate::ensure!`].
pub type TrialOutcome = Result<(), libtest_mimic::Failed>;

/// Concurrency of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialOrder {
    /// Sequential, for tests that measure times or rates.
    OneByOne,
    SideBySide,
}

/// A test of a module; a test that exceeds the time limit ends the program.
#[doc(hidden)]
pub fn trial(module: &str, name: &str, test: impl FnOnce() -> TrialOutcome + Send + 'static) -> Trial {
    let name = format!("{}::{name}", module.rsplit("::").next().unwrap_or_default());
    let watched = name.clone();
    Trial::test(name, move || {
        let (_over, ended) = channel::<()>();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                report_failure(&format!("test {watched} FAILED: it is not over after {PATIENCE:?}"));
                std::process::exit(1);
            }
        });
        let mark = diagnostics::own_length();
        let outcome = catch_unwind(AssertUnwindSafe(test));
        if !matches!(outcome, Ok(Ok(()))) {
            diagnostics::show_own_since(mark);
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The output and status of a child, which is killed when it exceeds the time limit of a test.
///
/// # Panics
/// The child was killed, or its output cannot be read.
#[track_caller]
pub fn output(child: Child) -> Output {
    let process = Pid::from_child(&child);
    let (over, ended) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let late = ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        late && kill_process(process, Signal::KILL).is_ok()
    });
    let output = child.wait_with_output().expect("its output can be read");
    drop(over);
    let killed = watch.join().unwrap_or(true);
    assert!(!killed, "it was not over after {PATIENCE:?}: {output:#?}");
    output
}

/// The source directory, for tests that read the sources.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs tests in namespaces that `enter` moves this process into; see [`in_namespaces`]. Listing requires no namespaces.
pub fn run<E: Display>(
    order: TrialOrder,
    enter: impl FnOnce() -> Result<(), E>,
    trials: Vec<Trial>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if order == TrialOrder::OneByOne {
        arguments.test_threads = Some(1);
    }
    let run = || {
        diagnostics::start();
        libtest_mimic::run(&arguments, trials).exit_code()
    };
    if arguments.list {
        run()
    } else {
        enter_and_run(enter, run, |inside| {
            let file = DiagnosticsFile::create();
            file.collect_from(inside);
            file
        })
    }
}

/// Runs `task` as PID 1 of new namespaces, in a child process of this program. `task` is called only in the child,
/// `enter` only in this process, which must be single-threaded. Prints failures to standard error.
pub fn in_namespaces<E: Display>(
    enter: impl FnOnce() -> Result<(), E>,
    task: impl FnOnce() -> ExitCode,
) -> ExitCode {
    enter_and_run(enter, task, |_| ())
}

/// `prepare` changes the command of the child; its value lasts as long as the child.
fn enter_and_run<E: Display, P>(
    enter: impl FnOnce() -> Result<(), E>,
    task: impl FnOnce() -> ExitCode,
    prepare: impl FnOnce(&mut Command) -> P,
) -> ExitCode {
    if std::env::var(STAGE).is_ok_and(|stage| stage == INSIDE) {
        return match set_parent_process_death_signal(Some(Signal::KILL)) {
            Ok(()) => task(),
            Err(errno) => report_failure(&format!("cannot ask for the end with the parent: {errno}")),
        };
    }
    if let Err(error) = enter() {
        return report_failure(&format!("this needs namespaces of its own: {error}"));
    }
    // Only children enter the PID namespace.
    let mut inside = again(INSIDE);
    let _prepared = prepare(&mut inside);
    match inside.status() {
        Ok(status) => exit_code(status),
        Err(error) => report_failure(&format!("cannot start this program again: {error}")),
    }
}

/// Starts this program again, with the same arguments, as stage `stage`.
pub fn again(stage: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(STAGE, stage);
    command
}

/// Converts the exit status of a child process.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    // Terminated by a signal: no exit code.
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn report_failure(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}
