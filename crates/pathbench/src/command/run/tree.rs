//! The program's processes: signals for them, and their end.

use pathbench_host::process::{descendants, send_signal};
use pathbench_program::signals::{forwardable_signals, is_from_terminal};
use pathbench_transport::lock;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait, waitpid};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
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
    Signals::new(forwardable_signals().into_iter().chain([SIGCHLD]))
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
            if !is_from_terminal(signal) {
                if is_meant_to_end(signal) {
                    state.forwarded = Some(signal);
                }
                send(self.root, signal);
            }
            return;
        }
        drop(state);
        if is_meant_to_end(signal) {
            self.send_to_remaining(signal);
        }
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

/// Whether programs end at this signal. Many reload or reopen files at the others.
const fn is_meant_to_end(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGQUIT | SIGTERM)
}

fn send(process: Pid, signal: i32) {
    // It may have ended.
    let _ended = send_signal(process, signal);
}
