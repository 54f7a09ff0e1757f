//! The program's processes: signals for them, and their end.

use pathbench_host::process::descendants;
use pathbench_record::file;
use pathbench_transport::lock;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpgrp, kill_process, wait, waitpid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGQUIT};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Mutex;

/// The processes of a program that this process started.
#[derive(Debug)]
pub(super) struct Tree {
    root: Pid,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The exit status of the first process.
    status: Option<ExitStatus>,
    /// The last signal that was forwarded to the first process to end it.
    forwarded: Option<i32>,
    signals_after_end: u32,
}

/// The signals that a [`Tree`] handles, registered before the program starts, so that none is missed.
pub(super) fn signals() -> io::Result<Signals> {
    Signals::new(pathbench_program::signals::stop_signals().into_iter().chain([SIGCHLD, SIGQUIT]))
}

impl Tree {
    pub(super) fn new(root: u32) -> Option<Self> {
        let root = Pid::from_raw(i32::try_from(root).ok()?)?;
        Some(Self { root, state: Mutex::default() })
    }

    /// The exit status of the first process, once it has ended.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        lock(&self.state).status
    }

    /// Reaps processes and forwards signals until the handle of `signals` is closed.
    pub(super) fn attend(&self, signals: &mut Signals) {
        self.reap();
        for signal in signals.forever() {
            match signal {
                SIGCHLD => self.reap(),
                signal => self.forward(signal),
            }
        }
    }

    /// The exit status of the first process, for which this waits. Ends [`Self::attend`].
    pub(super) fn end(&self, attending: &Handle) -> Option<ExitStatus> {
        attending.close();
        if self.status().is_none()
            && let Ok(Some((_, status))) = waitpid(Some(self.root), WaitOptions::empty())
        {
            self.note_end(self.root, status);
        }
        self.reap();
        self.status()
    }

    fn reap(&self) {
        while let Ok(Some((process, status))) = wait(WaitOptions::NOHANG) {
            self.note_end(process, status);
        }
    }

    fn note_end(&self, process: Pid, status: WaitStatus) {
        if process == self.root && (status.exited() || status.signaled()) {
            let mut state = lock(&self.state);
            state.status = Some(ExitStatus::from_raw(status.as_raw()));
            let forwarded = state.forwarded.take();
            drop(state);
            // The first process may have been ending when the signal was sent to it.
            if let Some(signal) = forwarded {
                self.send_to_remaining(signal);
            }
        }
    }

    /// A signal from the terminal reaches the program without this process. The remaining processes get it after the end
    /// of the first one, and SIGKILL at the second signal.
    fn forward(&self, signal: i32) {
        // The end of the first process may be pending.
        self.reap();
        let mut state = lock(&self.state);
        if state.status.is_none() {
            let is_from_terminal = matches!(signal, SIGINT | SIGQUIT) && is_in_foreground();
            if !is_from_terminal {
                // Many programs do not end at SIGHUP.
                state.forwarded = Some(signal).filter(|signal| *signal != SIGHUP);
                send(self.root, signal);
            }
            return;
        }
        drop(state);
        self.send_to_remaining(signal);
    }

    fn send_to_remaining(&self, signal: i32) {
        let mut state = lock(&self.state);
        state.signals_after_end += 1;
        let signal = if state.signals_after_end > 1 { SIGKILL } else { signal };
        drop(state);
        for process in descendants() {
            send(process, signal);
        }
    }
}

fn send(process: Pid, signal: i32) {
    // It may have ended.
    let _ended = Signal::from_named_raw(signal).map(|signal| kill_process(process, signal));
}

/// Whether this process belongs to the foreground process group of its terminal, which gets the terminal's signals.
fn is_in_foreground() -> bool {
    let Ok(terminal) = file::open_stream("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
}
