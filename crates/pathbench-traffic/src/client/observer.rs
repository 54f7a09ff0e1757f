//! The events of a test while it runs.

use crate::stream::Update;
use pathbench_record::end::EndRecord;
pub use pathbench_record::live::{PathProgress, Progress};
use pathbench_record::time::Timestamp;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// Called from the test's threads, which it must not delay.
pub trait ClientObserver: Sync {
    fn on_connected(&self, _connected: &Connected) {}

    /// The test's first byte of data: before it is passed to the socket (upload) or after it is received (download),
    /// the earlier of the two. Called once.
    fn on_first_byte(&self, _at: Timestamp) {}

    /// About every 100 ms between first byte and end, and at the end, with all bytes of the test.
    fn on_progress(&self, _progress: &Progress) {}

    fn wants_updates(&self) -> bool {
        false
    }

    /// The changes since the last call, about every 100 ms between first byte and end. `record_so_far` returns the
    /// current record without samples, in time proportional to the test's length; `None` for a test without streams.
    fn on_update(&self, _update: Update, _record_so_far: &dyn Fn() -> Option<EndRecord>) {}

    /// Called every 100 ms.
    fn control(&self) -> ClientControl {
        ClientControl::Continue
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientControl {
    #[default]
    Continue,
    /// The test ends early, with both ends' records (interactive: no further requests; other patterns ignore it).
    Stop,
    Abort,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl ClientObserver for Unobserved {}

impl ClientObserver for Sender<Progress> {
    fn on_progress(&self, progress: &Progress) {
        // The receiver may have been dropped.
        let _dropped = self.send(progress.clone());
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    pub at: Timestamp,
    pub stream: u32,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}
