//! SIGINT, SIGTERM and SIGHUP: the first signal stops a command after clean-up, the second stops it immediately. A service
//! reads its files again at SIGHUP instead.

use crate::clock::RealClock;
use crate::output;
use pathbench_host::process::send_signal;
use pathbench_record::file;
use pathbench_record::time::Clock as _;
use rustix::process::{Pid, getpgrp};
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTRAP, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Exit status after a second signal, the shells' status for SIGINT.
pub const INTERRUPTED: i32 = 130;

/// Ctrl-C reaches the foreground command and the orchestrator, and the former forwards it to the latter: signals this
/// close together count as one.
const SAME_KEYSTROKE: Duration = Duration::from_millis(300);

/// The signals that stop a command. SIGHUP (a closed terminal) stays ignored if the caller ignores it, as `nohup`
/// does.
pub fn stop_signals() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    let status = file::read_text("/proc/self/status", file::SMALL_FILE_BYTES).unwrap_or_default();
    if !is_ignored(&status, SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// Whether the process with this `/proc/PID/status` ignores the signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Sets the returned flag at the first signal and if standard output is closed; at the second signal calls `before_exit`
/// and exits.
pub fn stop_flag(before_exit: impl Fn() + Send + 'static) -> Arc<AtomicBool> {
    let stop = stop_on_signal(before_exit);
    let set = Arc::clone(&stop);
    output::on_output_closed(move || set.store(true, Ordering::Relaxed));
    stop
}

/// As [`stop_flag`], for a program that a closed standard output does not end.
pub fn stop_on_signal(before_exit: impl Fn() + Send + 'static) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    on_stop_signal(move || set.store(true, Ordering::Relaxed), before_exit);
    stop
}

/// The stop flag of a service, which SIGHUP does not set.
pub fn service_stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    on_service_signal(exit_at_second(move || set.store(true, Ordering::Relaxed), || {}));
    stop
}

/// A flag that SIGHUP sets from now on: the service reads its files again.
pub fn reload_flag() -> Arc<AtomicBool> {
    let reload = Arc::new(AtomicBool::new(false));
    let _never_refused = flag::register(SIGHUP, Arc::clone(&reload));
    reload
}

/// From now on calls `act` for each stop signal; at the second one calls `before_exit` and exits.
pub fn on_stop_signal(act: impl Fn() + Send + 'static, before_exit: impl Fn() + Send + 'static) {
    on_signal(exit_at_second(act, before_exit));
}

/// Calls `act` each time; the second time it calls `before_exit`, too, and exits.
pub fn exit_at_second(act: impl Fn(), before_exit: impl Fn()) -> impl FnMut() {
    let mut first = None;
    move || {
        let now = RealClock.now();
        act();
        if now.duration_since(*first.get_or_insert(now)) > SAME_KEYSTROKE {
            before_exit();
            std::process::exit(INTERRUPTED);
        }
    }
}

/// From now on calls `act` for each stop signal, on a separate thread.
pub fn on_signal(act: impl FnMut() + Send + 'static) {
    on_signals(stop_signals(), act);
}

/// As [`on_signal`], for a service: SIGHUP does not stop it.
pub fn on_service_signal(act: impl FnMut() + Send + 'static) {
    on_signals(vec![SIGINT, SIGTERM], act);
}

fn on_signals(signals: Vec<i32>, mut act: impl FnMut() + Send + 'static) {
    // Registering fails only for signals that cannot be caught; these can.
    if let Ok(mut signals) = Signals::new(signals) {
        std::thread::spawn(move || signals.forever().for_each(|_| act()));
    }
}

/// The signals that a process can pass on to the program that it runs: all but those of faults, of stopping (SIGSTOP,
/// SIGTSTP, SIGTTIN, SIGTTOU), SIGKILL, SIGCHLD and SIGPIPE. SIGHUP stays ignored if the caller ignores it.
pub fn forwardable_signals() -> Vec<i32> {
    let mut signals = stop_signals();
    signals.extend([
        libc::SIGPWR,
        SIGABRT,
        SIGALRM,
        SIGCONT,
        SIGIO,
        SIGPROF,
        SIGQUIT,
        SIGTRAP,
        SIGURG,
        SIGUSR1,
        SIGUSR2,
        SIGVTALRM,
        SIGWINCH,
        SIGXCPU,
        SIGXFSZ,
    ]);
    signals.extend(libc::SIGRTMIN()..=libc::SIGRTMAX());
    signals
}

/// Whether the program got this signal from the terminal, too: the kernel sends it to the foreground process group.
pub fn is_from_terminal(signal: i32) -> bool {
    let Ok(terminal) = file::open_stream("/dev/tty") else { return false };
    matches!(signal, SIGINT | SIGQUIT | SIGWINCH | SIGCONT)
        && rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
}

/// Ignores the signals that would end this process, without a thread. A program that it executes gets their defaults.
pub fn ignore_all() {
    ignore(forwardable_signals());
}

/// Ignores stop signals, without a thread.
pub fn ignore_interrupts() {
    ignore(stop_signals());
}

fn ignore(signals: Vec<i32>) {
    for signal in signals {
        let _never_refused = flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// Starts a program, waits for its end, and meanwhile passes on every signal that the terminal does not send to it, too.
/// Uses no thread, as [`wait_forwarding`].
pub fn wait_passing_on(start: impl FnOnce() -> io::Result<Child>) -> io::Result<ExitStatus> {
    wait_with(forwardable_signals(), start, |signal| (!is_from_terminal(signal)).then_some(signal))
}

/// Starts a child, waits for its end, and meanwhile sends it SIGINT for SIGINT and SIGTERM for the other stop signals. Uses
/// no thread: a process whose children enter another PID namespace must not have several threads (`clone(2)`, `EINVAL`).
pub fn wait_forwarding(start: impl FnOnce() -> io::Result<Child>) -> io::Result<ExitStatus> {
    wait_with(stop_signals(), start, |signal| Some(if signal == SIGINT { SIGINT } else { SIGTERM }))
}

fn wait_with(
    signals: Vec<i32>,
    start: impl FnOnce() -> io::Result<Child>,
    forwarded: impl Fn(i32) -> Option<i32>,
) -> io::Result<ExitStatus> {
    // Registered before the child starts, so that the end of the child cannot be missed.
    let mut signals = Signals::new(signals.into_iter().chain([SIGCHLD]))?;
    let mut child = start()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        for signal in signals.wait() {
            if let Some(signal) = forwarded(signal).filter(|_| signal != SIGCHLD) {
                // If the process has already ended, the wait for it ends as well.
                let _dead = send_signal(Pid::from_child(&child), signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_known_from_its_bit() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(!is_ignored(status, SIGINT));
        assert!(!is_ignored("", SIGHUP));
    }
}
