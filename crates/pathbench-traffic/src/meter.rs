//! The bytes that one end of a stream has sent and received, its last progress, and its waits.

use crate::protocol::EndFrame;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::time::Timestamp;
use pathbench_transport::{Connection, Telemetry};
use std::time::Duration;

/// The state that all cores share. Each core defines its own progress.
#[derive(Debug, Clone)]
pub struct Meter {
    /// Bytes that the socket accepted, and when.
    pub offered: DeliverySeries,
    pub deliveries: DeliverySeries,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// `None` before the test begins.
    pub last_progress: Option<Timestamp>,
    /// Longest silence of a peer that works correctly.
    pub(crate) patience: Duration,
    first_write: Option<Timestamp>,
}

impl Meter {
    /// A meter whose series count from `origin`.
    pub fn new(origin: Timestamp, patience: Duration) -> Self {
        Self {
            offered: DeliverySeries::starting_at(origin),
            deliveries: DeliverySeries::starting_at(origin),
            sent_bytes: 0,
            received_bytes: 0,
            last_progress: None,
            patience,
            first_write: None,
        }
    }

    pub fn progressed(&mut self, now: Timestamp) {
        self.last_progress = Some(now);
    }

    /// Bytes are passed to the socket at `now`.
    pub fn begin_write(&mut self, now: Timestamp) {
        self.first_write.get_or_insert(now);
    }

    pub fn sent(&mut self, now: Timestamp, bytes: u64) {
        self.sent_bytes += bytes;
        self.offered.record(now, bytes);
        if self.offered.first == Some(now) {
            // The receiver may receive the first bytes before the write call returns; sending must not appear later.
            self.offered.first = self.first_write.or(Some(now));
        }
    }

    pub fn received(&mut self, now: Timestamp, bytes: u64) {
        self.received_bytes += bytes;
        self.deliveries.record(now, bytes);
    }

    /// This end itself waited for `time`, which does not count as silence of the peer.
    pub fn excuse(&mut self, time: Duration) {
        self.last_progress = self.last_progress.map(|last| last + time);
    }

    /// Time without progress, once it exceeds the patience.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        let silence = now.duration_since(self.last_progress?);
        (silence >= self.patience).then_some(silence)
    }

    /// Body of the END frame for the bytes that the socket accepted.
    pub fn end(&self, cut_short: bool) -> EndFrame {
        let elapsed = match (self.offered.first, self.offered.last) {
            (Some(first), Some(last)) => last.duration_since(first),
            _ => Duration::ZERO,
        };
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        EndFrame { bytes: self.sent_bytes, elapsed_ns, cut_short }
    }
}

/// A wait until a fixed deadline, or until an earlier time without progress.
#[derive(Debug)]
pub struct Wait {
    begun: Timestamp,
    deadline: Timestamp,
    /// The peer's task until the deadline; `None` for the test's deadline.
    task: Option<&'static str>,
    /// Silence that ends the wait, and the begin of the current silence.
    patience: Option<Duration>,
    silent_since: Timestamp,
    acknowledgements: Option<Acknowledgements>,
}

impl Wait {
    pub fn with_timeout(now: Timestamp, time: Duration, task: &'static str) -> Self {
        Self { task: Some(task), ..Self::with_deadline(now, now + time) }
    }

    pub const fn with_deadline(now: Timestamp, deadline: Timestamp) -> Self {
        Self { begun: now, deadline, task: None, patience: None, silent_since: now, acknowledgements: None }
    }

    pub fn or_silence(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    pub fn watching(self, acknowledgements: Option<Acknowledgements>) -> Self {
        Self { acknowledgements, ..self }
    }

    pub fn progressed(&mut self, now: Timestamp) {
        self.silent_since = now;
    }

    pub fn check(&mut self, now: Timestamp) -> Result<(), WaitEnd> {
        if now > self.deadline {
            let too_late = |task| WaitEnd::TooLate { task, after: now.duration_since(self.begun) };
            return Err(self.task.map_or(WaitEnd::Overtime, too_late));
        }
        if self.acknowledgements.as_mut().is_some_and(Acknowledgements::advanced) {
            self.progressed(now);
        }
        let silence = now.duration_since(self.silent_since);
        match self.patience {
            Some(patience) if silence >= patience => Err(WaitEnd::Silence(silence)),
            _ => Ok(()),
        }
    }
}

/// Reason for the end of a wait: the deadline of the peer's task or of the test, or silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitEnd {
    TooLate { task: &'static str, after: Duration },
    Overtime,
    Silence(Duration),
}

/// The bytes that the peer has acknowledged on a connection, as progress.
#[derive(Debug)]
pub struct Acknowledgements {
    telemetry: Option<Telemetry>,
    acknowledged: u64,
}

impl Acknowledgements {
    /// Watches `connection` from now on. Without telemetry, no bytes count as acknowledged.
    pub(crate) fn new(connection: &Connection) -> Self {
        let mut watch = Self { telemetry: connection.telemetry().ok(), acknowledged: 0 };
        watch.advanced();
        watch
    }

    pub(crate) fn advanced(&mut self) -> bool {
        let Some(Ok(snapshot)) = self.telemetry.as_mut().map(Telemetry::snapshot) else { return false };
        let acknowledged: u64 = snapshot.subflows.iter().map(|path| path.bytes_acked).sum();
        let advanced = acknowledged > self.acknowledged;
        self.acknowledged = acknowledged.max(self.acknowledged);
        advanced
    }
}
