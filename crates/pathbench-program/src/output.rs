//! Standard output and standard error. No other module writes to them, which clippy enforces.
//!
//! A command that cannot write to standard output still saves its measurements and undoes its changes. If the reader
//! has closed standard output (`pathbench … | head`), the command ends without a message, as [`Exit::OutputClosed`];
//! any other error is reported.

#![allow(clippy::disallowed_methods, reason = "the one place in which standard output and error are opened")]

use crate::exit::{Exit, Failure};
use pathbench_record::file;
use pathbench_record::text;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when the reader has closed standard output, in commands that monitor it.
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| not_written(&error))
}

pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    text.push('\n');
    print(&text)
}

/// Writes lines to standard error without control sequences, because they may quote a file or a peer. An error of
/// standard error cannot be reported and is ignored.
pub fn note(lines: impl Display) {
    let plain: Vec<String> =
        lines.to_string().split('\n').map(|line| text::printable(line, usize::MAX)).collect();
    let _ignored = writeln!(io::stderr(), "{}", plain.join("\n"));
}

/// Prints a failure on standard error, with further lines indented. A closed standard output needs no message.
pub fn report_failure(program: &str, failure: &Failure) {
    if failure.exit == Exit::OutputClosed {
        return;
    }
    let mut lines = failure.message.lines();
    note(format_args!("{program}: {}", lines.next().unwrap_or("failed")));
    lines.for_each(|line| note(format_args!("  {line}")));
}

/// Writes clap's message: help and version to standard output, usage errors to standard error.
pub fn print_usage(message: &clap::Error) -> Result<Exit, Failure> {
    let written = message.print().and_then(|()| io::stdout().flush());
    if message.use_stderr() {
        return Ok(Exit::BadInput);
    }
    written.map(|()| Exit::Done).map_err(|error| not_written(&error))
}

/// Calls `act` on a separate thread when the reader has closed standard output, so that commands that print nothing
/// end as well.
pub fn on_output_closed(act: impl FnOnce() + Send + 'static) {
    let Ok(out) = io::stdout().as_fd().try_clone_to_owned() else { return };
    std::thread::spawn(move || {
        if wait_until_closed(&out) {
            OUTPUT_CLOSED.store(true, Ordering::Relaxed);
            act();
        }
    });
}

/// Blocks until the reader has closed `out`; false if the kernel does not report the close.
fn wait_until_closed(out: &OwnedFd) -> bool {
    // poll(2): POLLERR at the write end of a pipe whose read end is closed, POLLHUP at a socket or terminal. The
    // kernel reports both without a request, and never for a file.
    let mut polled = [PollFd::new(out, PollFlags::empty())];
    loop {
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP),
        }
    }
}

/// Returns an error if the reader has closed standard output, in a command that was stopped because of it.
pub fn check_open() -> Result<(), Failure> {
    if OUTPUT_CLOSED.load(Ordering::Relaxed) { Err(closed()) } else { Ok(()) }
}

pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Standard error, for the screen.
pub fn stderr() -> io::Stderr {
    io::stderr()
}

/// Whether the environment allows colours.
pub fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A descriptor of standard error, for another process's standard output.
pub fn duplicate_of_stderr() -> io::Result<OwnedFd> {
    io::stderr().as_fd().try_clone_to_owned()
}

/// Width of standard output's terminal in columns.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

fn closed() -> Failure {
    Failure { exit: Exit::OutputClosed, message: String::new() }
}

fn not_written(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => closed(),
        _ => Failure::failed(format!("cannot write to standard output: {error}")),
    }
}

/// Creates `file` with these permissions (less the umask) and this content.
pub fn create_file(file: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "{}: the file exists already, and pathbench does not overwrite it; move it away or choose another name",
            file.display()
        )),
        _ => Failure::failed(format!("cannot write {}: {error}", file.display())),
    };
    let mut created = file::create_new(file, mode).map_err(failed)?;
    created.write_all(text.as_bytes()).map_err(|error| {
        let _nothing_better = fs::remove_file(file);
        failed(error)
    })
}
