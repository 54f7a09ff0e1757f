//! What SIGINT and SIGTERM mean: stop in good order; the second time, stop at once.

use crate::clock::MonotonicClock;
use pathbench_record::time::Clock as _;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Exit status after a second signal, as shells show it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Ctrl-C reaches the command in front and the orchestrator, and the former forwards it to the latter: signals
/// that close together are one.
const SAME_KEYSTROKE: Duration = Duration::from_millis(300);

/// Sets the returned flag at the first SIGINT or SIGTERM and exits at the second.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    let mut first = None;
    on_signal(move || {
        let now = MonotonicClock.now();
        set.store(true, Ordering::Relaxed);
        if now.since(*first.get_or_insert(now)) > SAME_KEYSTROKE {
            std::process::exit(INTERRUPTED);
        }
    });
    stop
}

/// Calls `act` for each SIGINT and SIGTERM from now on, on a thread of its own.
pub(crate) fn on_signal(mut act: impl FnMut() + Send + 'static) {
    // Registering can only fail for signals that may not be caught, which these two are not.
    if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
        std::thread::spawn(move || signals.forever().for_each(|_| act()));
    }
}

/// Swallows SIGINT and SIGTERM, without a thread.
pub(crate) fn ignore_interrupts() {
    for signal in [SIGINT, SIGTERM] {
        let _never_refused = flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// Starts a child and waits for its end; meanwhile SIGINT and SIGTERM go to `forward`. Without a thread, for a
/// process whose children are to be in another PID namespace can have none (`clone(2)`, `EINVAL`).
pub(crate) fn wait_forwarding(
    start: impl FnOnce() -> io::Result<Child>,
    forward: impl Fn(&Child, i32),
) -> io::Result<ExitStatus> {
    // Registered before the child starts, so that its end cannot be missed.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGCHLD])?;
    let mut child = start()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        for signal in signals.wait() {
            if signal != SIGCHLD {
                forward(&child, signal);
            }
        }
    }
}
