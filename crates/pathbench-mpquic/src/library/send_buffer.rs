//! Limits of the data taken from the application, and of the data that the library holds.
//!
//! The library's own limit, the send window, counts unacknowledged bytes. But the library frees memory only up to the
//! first unacknowledged byte: if a peer acknowledges everything but the first packet, and raises the stream's window,
//! the library keeps all sent data. So this module counts the bytes passed to the library until the library drops them.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A connection takes no more application data while it holds this much: four times the bytes that may be in flight.
pub const MOST_HELD_BYTES: u64 = 64 << 20;

/// The same limit at a server that has not admitted a test on the connection: it sends rejections and records.
pub const FIRST_HELD_BYTES: u64 = 1 << 20;

/// The library copies pieces of up to this length (its `MAX_COMBINE`), so their memory cannot be tracked.
pub(crate) const COPIED_BYTES: usize = 1452;

/// Longest piece that is passed to the library, and freed, as a whole.
pub(crate) const PIECE_BYTES: usize = 128 << 10;

#[derive(Debug, Clone, Default)]
pub(crate) struct HeldBytes(Arc<AtomicU64>);

#[derive(Debug, Clone, Default)]
pub(crate) struct CopiedBytes(Arc<Copied>);

#[derive(Debug, Default)]
struct Copied {
    /// Bytes copied since the stream began.
    all: AtomicU64,
    /// Copied bytes known to be freed, since the library frees a stream's data in order.
    freed: AtomicU64,
}

struct Piece {
    bytes: Vec<u8>,
    held: HeldBytes,
    stream: CopiedBytes,
    copied_before: u64,
}

impl HeldBytes {
    /// Bytes to pass to the library for `stream`, counted until the library has dropped them.
    pub(crate) fn piece(&self, stream: &CopiedBytes, bytes: &[u8]) -> Bytes {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Bytes::from_owner(Piece {
            bytes: bytes.to_vec(),
            held: self.clone(),
            stream: stream.clone(),
            copied_before: stream.0.all.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl CopiedBytes {
    pub(crate) fn note_written(&self, count: usize) {
        if count <= COPIED_BYTES {
            self.0.all.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.all.load(Ordering::Relaxed).saturating_sub(self.0.freed.load(Ordering::Relaxed))
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        self.stream.0.freed.fetch_max(self.copied_before, Ordering::Relaxed);
    }
}

/// The window before the congestion windows have grown.
const LEAST_BYTES: u64 = 1 << 20;
/// The largest flow control window of a connection.
const MOST_BYTES: u64 = 16 << 20;

/// The limit of bytes taken from the application and not yet acknowledged, for all streams of a connection together.
///
/// Twice the sum of the congestion windows of all paths, as Linux sizes a TCP socket's send buffer
/// (`net/ipv4/tcp_input.c`, `tcp_sndbuf_expand`). That keeps the paths busy; a larger buffer would take seconds to
/// drain after a timed test, and would delay messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendWindow {
    bytes: u64,
    fixed: bool,
}

impl SendWindow {
    /// A fixed window of `asked_bytes`, or one that follows the congestion windows.
    pub(crate) fn new(asked_bytes: Option<u64>) -> Self {
        Self { bytes: asked_bytes.unwrap_or(LEAST_BYTES), fixed: asked_bytes.is_some() }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The window that the user requested.
    pub(crate) fn fixed_bytes(&self) -> Option<u64> {
        self.fixed.then_some(self.bytes)
    }

    /// Follows the sum of all paths' congestion windows; the new bound when it has changed by an eighth or more.
    pub(crate) fn follow(&mut self, cwnd_bytes: u64) -> Option<u64> {
        let wanted = cwnd_bytes.saturating_mul(2).clamp(LEAST_BYTES, MOST_BYTES);
        if self.fixed || wanted.abs_diff(self.bytes) < self.bytes / 8 {
            return None;
        }
        self.bytes = wanted;
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_is_free_when_something_after_it_is() {
        let (held, stream, other) = (HeldBytes::default(), CopiedBytes::default(), CopiedBytes::default());
        stream.note_written(1000);
        other.note_written(10);
        let piece = held.piece(&stream, &[0; 5000]);
        stream.note_written(5000);
        stream.note_written(3);
        assert_eq!((held.count(), stream.count(), other.count()), (5000, 1003, 10));
        let slice = piece.slice(100..200);
        drop(piece);
        assert_eq!((held.count(), stream.count()), (5000, 1003), "a part of it is still in use");
        drop(slice);
        assert_eq!((held.count(), stream.count(), other.count()), (0, 3, 10));
    }

    #[test]
    fn it_follows_the_congestion_windows_within_bounds() {
        let mut window = SendWindow::new(None);
        assert_eq!(window.bytes(), LEAST_BYTES);
        assert_eq!(window.follow(30_000), None);
        assert_eq!(window.follow(2 << 20), Some(4 << 20));
        assert_eq!(window.follow((2 << 20) + 1000), None);
        assert_eq!(window.follow(u64::MAX), Some(MOST_BYTES));
        assert_eq!(window.follow(0), Some(LEAST_BYTES));
    }

    #[test]
    fn what_was_asked_for_stays() {
        let mut window = SendWindow::new(Some(100_000));
        assert_eq!((window.follow(1 << 30), window.bytes()), (None, 100_000));
    }
}
