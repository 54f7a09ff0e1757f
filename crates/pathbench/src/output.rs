//! Standard output and standard error. No other module writes to them, which clippy enforces.
//!
//! A command whose standard output cannot be written saves what it has measured and undoes what it has to
//! undo. Where the reader is gone (`pathbench … | head`), it ends without a message and as
//! [`Exit::OutputClosed`]; any other error is reported.

#![allow(clippy::disallowed_methods, reason = "the one place in which standard output and error are opened")]

use crate::exit::{Exit, Failure};
use pathbench_record::text;
use pathbench_report::terminal::Style;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once the reader of standard output is gone, in commands that watch for it.
static READER_GONE: AtomicBool = AtomicBool::new(false);

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| not_written(&error))
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    text.push('\n');
    print(&text)
}

/// Writes lines to standard error, which may quote a file or a peer: nothing in them reaches the terminal as a command.
/// An error of standard error cannot be reported and is ignored.
pub(crate) fn note(lines: impl Display) {
    let plain: Vec<String> =
        lines.to_string().split('\n').map(|line| text::plain(line, usize::MAX)).collect();
    let _nobody_reads = writeln!(io::stderr(), "{}", plain.join("\n"));
}

/// Writes clap's message: help and version to standard output, a mistake of usage to standard error.
pub(crate) fn usage(said: &clap::Error) -> Result<Exit, Failure> {
    let written = said.print().and_then(|()| io::stdout().flush());
    if said.use_stderr() {
        return Ok(Exit::BadInput);
    }
    written.map(|()| Exit::Done).map_err(|error| not_written(&error))
}

/// Calls `act` on a thread of its own once the reader of standard output is gone, so that commands without output end,
/// too.
pub(crate) fn on_reader_gone(act: impl FnOnce() + Send + 'static) {
    let Ok(out) = io::stdout().as_fd().try_clone_to_owned() else { return };
    std::thread::spawn(move || {
        if wait_for_reader_gone(&out) {
            READER_GONE.store(true, Ordering::Relaxed);
            act();
        }
    });
}

/// Blocks until the reader of `out` is gone; false when that cannot be known.
fn wait_for_reader_gone(out: &OwnedFd) -> bool {
    // poll(2): POLLERR at the write end of a pipe whose read end is closed, POLLHUP at a socket or terminal; both are
    // reported without being asked for, and never at a file.
    let mut polled = [PollFd::new(out, PollFlags::empty())];
    loop {
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP),
        }
    }
}

/// An error once the reader of standard output is gone, in a command that was stopped for that.
pub(crate) fn check() -> Result<(), Failure> {
    if READER_GONE.load(Ordering::Relaxed) { Err(closed()) } else { Ok(()) }
}

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Columns of standard output's terminal.
pub(crate) fn columns() -> Option<usize> {
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

/// Width without a terminal.
const DEFAULT_WIDTH: usize = 100;

pub(crate) fn style() -> Style {
    Style {
        colour: stdout_is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        width: columns().unwrap_or(DEFAULT_WIDTH),
    }
}

/// Creates `file` with these permissions (less the umask) and this content.
pub(crate) fn create_file(file: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "{}: the file exists already, and pathbench does not overwrite it; move it away or choose another name",
            file.display()
        )),
        _ => Failure::failed(format!("cannot write {}: {error}", file.display())),
    };
    let mut created =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(file).map_err(failed)?;
    created.write_all(text.as_bytes()).map_err(|error| {
        let _nothing_better = fs::remove_file(file);
        failed(error)
    })
}
