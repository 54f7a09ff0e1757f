//! How much is taken from the application and not yet acknowledged.

/// A start, before the congestion windows say anything.
const LEAST_BYTES: u64 = 1 << 20;
/// As much as the peer takes at most.
const MOST_BYTES: u64 = 16 << 20;

/// The bound on bytes taken from the application and not yet acknowledged, all streams of a connection together.
///
/// Twice what may be under way on all paths, as Linux sizes a TCP socket's send buffer (`net/ipv4/tcp_input.c`,
/// `tcp_sndbuf_expand`): enough never to run dry, and little enough that a test by time does not go on for seconds to
/// empty it, nor a message wait behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendWindow {
    bytes: u64,
    fixed: bool,
}

impl SendWindow {
    /// The window asked for, which stays, or one that follows the congestion windows.
    pub(crate) fn new(asked_bytes: Option<u64>) -> Self {
        Self { bytes: asked_bytes.unwrap_or(LEAST_BYTES), fixed: asked_bytes.is_some() }
    }

    /// The bound in force.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
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
