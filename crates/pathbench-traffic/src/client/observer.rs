//! The events of a test while it runs.

use crate::stream::Update;
use pathbench_record::end::EndRecord;
use pathbench_record::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Sender;

/// Called from the test's threads, which it must not delay.
pub trait ClientObserver: Sync {
    fn on_connected(&self, _connected: &Connected) {}

    /// The test's first byte of data: before it is passed to the socket (upload) or after it is received (download),
    /// the earlier of the two. Called once.
    fn on_first_byte(&self, _at: Timestamp) {}

    /// About every 100 ms between first byte and end.
    fn on_progress(&self, _progress: &Progress) {}

    fn wants_updates(&self) -> bool {
        false
    }

    /// The changes since the last call, about every 100 ms between first byte and end. `record_so_far` returns the
    /// current record without samples, in time proportional to the test's length; `None` for a test without streams.
    fn on_update(&self, _update: Update, _record_so_far: &dyn Fn() -> Option<EndRecord>) {}

    /// Called every 100 ms.
    fn control(&self) -> Control {
        Control::Continue
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub at: Timestamp,
    /// Payload bytes that the client's sockets accepted (upload).
    pub sent_bytes: u64,
    /// Payload bytes that the client received (download).
    pub received_bytes: u64,
    /// By path, from the latest sample; the figures of several streams or subflows on a path are summed.
    pub paths: Vec<PathProgress>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathProgress {
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Bytes on the path that the server's kernel acknowledged (protocol overhead of the test included).
    pub acknowledged_bytes: u64,
    /// Bytes received on the path (protocol overhead of the test included).
    pub received_bytes: u64,
}
