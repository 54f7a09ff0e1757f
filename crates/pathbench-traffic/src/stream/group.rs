//! The state that the streams of one test share at one end.

use pathbench_transport::{Connection, QuicSlot, lock};
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
    counts: Mutex<Counts>,
    changed: Condvar,
    first: OnceLock<Weak<Connection>>,
    /// At a server: the MPTCP counters at the beginning of the test.
    counters: OnceLock<BTreeMap<String, u64>>,
    /// The test ends before its time is over.
    pub(super) stopping: AtomicBool,
    /// At a server: the memory slots of the test and its streams.
    pub(crate) memory: Mutex<Vec<QuicSlot>>,
}

#[derive(Debug)]
struct Counts {
    /// Streams whose data has not ended.
    running: u32,
    /// Streams without the server's START.
    unstarted: u32,
}

/// A stream's membership. Its drop marks the end of the stream's data, completed or failed.
#[derive(Debug)]
pub(crate) struct GroupMember(pub(crate) Arc<StreamGroup>);

impl Drop for GroupMember {
    fn drop(&mut self) {
        self.0.change(|counts| counts.running = counts.running.saturating_sub(1));
    }
}

impl StreamGroup {
    pub(crate) fn new(streams: u32) -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::new(Counts { running: streams, unstarted: streams }),
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

    /// The increase of the counters since the beginning of the test.
    pub(crate) fn counters_until(&self, now: Option<BTreeMap<String, u64>>) -> Option<BTreeMap<String, u64>> {
        let before = self.counters.get()?;
        let rise =
            |name: &str, value: u64| value.saturating_sub(before.get(name).copied().unwrap_or_default());
        Some(now?.into_iter().map(|(name, value)| (name.clone(), rise(&name, value))).collect())
    }

    pub(super) fn first(&self) -> Option<Arc<Connection>> {
        self.first.get().and_then(Weak::upgrade)
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.counts));
        self.changed.notify_all();
    }

    /// Waits up to `time` until `holds`; whether it does.
    fn wait_until(&self, time: Duration, holds: impl Fn(&Counts) -> bool) -> bool {
        let counts = lock(&self.counts);
        // A poisoned lock means that a stream's thread panicked; then there is no wait.
        let waited = self.changed.wait_timeout_while(counts, time, |counts| !holds(counts));
        let (counts, _) = waited.unwrap_or_else(PoisonError::into_inner);
        holds(&counts)
    }

    pub(super) fn count_start(&self) {
        self.change(|counts| counts.unstarted = counts.unstarted.saturating_sub(1));
    }

    /// Waits up to `time` until every stream has its START; whether that is so.
    pub(super) fn wait_for_starts(&self, time: Duration) -> bool {
        self.wait_until(time, |counts| counts.unstarted == 0)
    }

    pub(crate) fn stop_waiting(&self) {
        self.change(|counts| counts.running = 0);
    }

    pub(super) fn wait_for_all(&self, time: Duration) {
        self.wait_until(time, |counts| counts.running == 0);
    }
}
