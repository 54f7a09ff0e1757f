//! The state that the streams of one test share at one end.

use pathbench_transport::{Connection, Slot, lock};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// The streams of one test at one end.
///
/// Over quic and mpquic they are streams of one connection. Only the first stream reports its figures: it samples until
/// the data of all streams has ended, and acknowledged bytes are progress of each stream.
#[derive(Debug)]
pub(crate) struct StreamGroup {
    running: Mutex<u32>,
    changed: Condvar,
    first: OnceLock<Weak<Connection>>,
    /// At a server: the MPTCP counters at the beginning of the test.
    counters: OnceLock<BTreeMap<String, u64>>,
    /// The test ends before its time is over.
    pub(super) stopping: AtomicBool,
    /// At a server: the memory slots of the test and its streams.
    pub(crate) memory: Mutex<Vec<Slot>>,
}

/// A stream's membership. Its drop marks the end of the stream's data, completed or failed.
#[derive(Debug)]
pub(crate) struct Member(pub(crate) Arc<StreamGroup>);

impl Drop for Member {
    fn drop(&mut self) {
        let mut running = lock(&self.0.running);
        *running = running.saturating_sub(1);
        self.0.changed.notify_all();
    }
}

impl StreamGroup {
    pub(crate) fn new(streams: u32) -> Arc<Self> {
        Arc::new(Self {
            running: Mutex::new(streams),
            changed: Condvar::new(),
            first: OnceLock::new(),
            counters: OnceLock::new(),
            stopping: AtomicBool::new(false),
            memory: Mutex::default(),
        })
    }

    pub(super) fn set_first(&self, connection: &Arc<Connection>) {
        // A second stream 0 was refused earlier.
        let _ = self.first.set(Arc::downgrade(connection));
    }

    pub(crate) fn set_counters(&self, counters: Option<BTreeMap<String, u64>>) {
        if let Some(counters) = counters {
            // Only the test's first stream sets them.
            let _ = self.counters.set(counters);
        }
    }

    /// How much the counters have risen since the beginning of the test.
    pub(crate) fn counters_until(&self, now: Option<BTreeMap<String, u64>>) -> Option<BTreeMap<String, u64>> {
        let before = self.counters.get()?;
        let rise =
            |name: &str, value: u64| value.saturating_sub(before.get(name).copied().unwrap_or_default());
        Some(now?.into_iter().map(|(name, value)| (name.clone(), rise(&name, value))).collect())
    }

    pub(super) fn first(&self) -> Option<Arc<Connection>> {
        self.first.get().and_then(Weak::upgrade)
    }

    pub(crate) fn stop_waiting(&self) {
        *lock(&self.running) = 0;
        self.changed.notify_all();
    }

    pub(super) fn wait_for_all(&self, time: Duration) {
        let running = lock(&self.running);
        // A poisoned lock means that a stream's thread panicked; then there is no wait.
        drop(
            self.changed
                .wait_timeout_while(running, time, |running| *running > 0)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}
