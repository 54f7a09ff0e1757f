//! The receive window that one end advertises (RFC 9293, section 3.8.6; RFC 7323, section 2).

/// Beyond the window, for what hosts send in spite of it.
const SLACK: i64 = 1 << 16;
/// Of RFC 7323: assumed where the SYN was not captured.
const LARGEST_SCALE: u8 = 14;
/// The largest window that is assumed then.
const UNSCALED: i64 = 1 << 24;
/// The largest window of any scale.
const LARGEST: i64 = 1 << 30;

/// The windows that one end has advertised.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceiveWindow {
    /// As in the header.
    largest: u16,
    is_known: bool,
    /// Scale of the SYN; `None` before a SYN, and in one without the option.
    scale: Option<u8>,
    /// Start of the zero window that lasts, 0 if none.
    zero_since_ns: u64,
    /// Start and length of the longest zero window.
    longest_zero_ns: (u64, u64),
}

impl ReceiveWindow {
    #[inline]
    pub(super) fn advertise(&mut self, window: u16, time_ns: u64) {
        self.largest = self.largest.max(window);
        self.is_known = true;
        if (window == 0) != (self.zero_since_ns != 0) {
            self.change(window, time_ns);
        }
    }

    #[cold]
    fn change(&mut self, window: u16, time_ns: u64) {
        if window == 0 {
            self.zero_since_ns = time_ns.max(1);
        } else {
            self.longest_zero_ns = self.longest_zero(time_ns);
            self.zero_since_ns = 0;
        }
    }

    pub(super) fn set_scale(&mut self, scale: Option<u8>) {
        self.scale = scale;
    }

    #[inline]
    pub(super) fn is_zero(&self) -> bool {
        self.zero_since_ns != 0
    }

    /// Start and length of the longest time with a window of zero, up to the last packet at `last_ns`.
    pub fn longest_zero(&self, last_ns: u64) -> (u64, u64) {
        let lasting = last_ns.saturating_sub(self.zero_since_ns);
        if self.is_zero() && lasting > self.longest_zero_ns.1 {
            (self.zero_since_ns, lasting)
        } else {
            self.longest_zero_ns
        }
    }

    /// Bytes ahead of the acknowledged ones that the peer may have sent. `own_syn` and `peer_syn`: these were captured;
    /// `peer_scales`: with a window scale.
    pub(super) fn limit(&self, own_syn: bool, peer_syn: bool, peer_scales: bool) -> i64 {
        if !self.is_known && !own_syn {
            return LARGEST;
        }
        let scale = match self.scale {
            _ if !own_syn => LARGEST_SCALE,
            Some(scale) if peer_scales || !peer_syn => scale.min(LARGEST_SCALE),
            _ => 0,
        };
        let largest = if self.is_known { self.largest } else { u16::MAX };
        let window = i64::from(largest) << scale;
        if own_syn { window + SLACK } else { window.min(UNSCALED) + SLACK }
    }

    pub(super) fn scales(&self) -> bool {
        self.scale.is_some()
    }
}
