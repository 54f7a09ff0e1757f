//! What the streams of one test at one end know of each other.

use super::lock;
use pathbench_transport::Connection;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// The streams of one test at one end.
///
/// Over quic and mpquic they are streams of one connection, whose figures only the first of them reports: it goes
/// on sampling until the data of all of them has ended, and what it sees acknowledged is progress of each.
#[derive(Debug)]
pub(crate) struct Companions {
    running: Mutex<u32>,
    changed: Condvar,
    first: OnceLock<Weak<Connection>>,
    /// The test is to come to its end before its time is over.
    stopping: AtomicBool,
}

/// A stream's membership: its drop says that the stream's data has ended, however it ended.
#[derive(Debug)]
pub(crate) struct Member(Arc<Companions>);

impl Member {
    pub(super) fn companions(&self) -> Arc<Companions> {
        Arc::clone(&self.0)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut running = lock(&self.0.running);
        *running = running.saturating_sub(1);
        self.0.changed.notify_all();
    }
}

impl Companions {
    pub(crate) fn new(streams: u32) -> Arc<Self> {
        Arc::new(Self {
            running: Mutex::new(streams),
            changed: Condvar::new(),
            first: OnceLock::new(),
            stopping: AtomicBool::new(false),
        })
    }

    /// The connection of stream 0.
    pub(super) fn introduce_first(&self, connection: &Arc<Connection>) {
        // A second stream 0 was refused before it came here.
        let _ = self.first.set(Arc::downgrade(connection));
    }

    pub(super) fn first(&self) -> Option<Arc<Connection>> {
        self.first.get().and_then(Weak::upgrade)
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn member(self: &Arc<Self>) -> Member {
        Member(Arc::clone(self))
    }

    pub(crate) fn dissolve(&self) {
        *lock(&self.running) = 0;
        self.changed.notify_all();
    }

    /// Waits until the data of all has ended, at most `time`.
    pub(super) fn wait_for_all(&self, time: Duration) {
        let running = lock(&self.running);
        // A poisoned lock means that a stream's thread panicked; there is nothing to wait for then.
        drop(
            self.changed
                .wait_timeout_while(running, time, |running| *running > 0)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}
