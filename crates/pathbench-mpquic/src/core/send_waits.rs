//! Time in which a limit of the connection held the application's data back, although a path had room for it.
//!
//! The library sends no `DATA_BLOCKED` and `STREAM_DATA_BLOCKED` frames (RFC 9000, sections 19.12 and 19.13) and does not
//! report the peer's limits. A writer that waits while all that it wrote has been sent waits for the peer's flow control,
//! or for a send buffer of fixed size: the usual one holds twice the congestion windows.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendWait {
    ReceiveWindow,
    SendBuffer,
}

/// The waits so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SendWaits {
    receive_window: Duration,
    send_buffer: Duration,
    current: Option<(SendWait, Instant)>,
}

impl SendWaits {
    pub(super) fn note(&mut self, wait: Option<SendWait>, now: Instant) {
        self.end(now);
        self.current = wait.map(|wait| (wait, now));
    }

    fn end(&mut self, now: Instant) {
        let Some((wait, since)) = self.current else { return };
        let sum = match wait {
            SendWait::ReceiveWindow => &mut self.receive_window,
            SendWait::SendBuffer => &mut self.send_buffer,
        };
        *sum += now.saturating_duration_since(since);
    }

    /// Microseconds of waits for the peer's receive window and for the send buffer.
    pub(super) fn micros(mut self, now: Instant) -> [u64; 2] {
        self.end(now);
        [self.receive_window, self.send_buffer]
            .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }
}
