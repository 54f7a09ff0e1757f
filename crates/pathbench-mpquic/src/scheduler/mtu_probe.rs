//! Which MTU probe is the last of its size, and how long it waits for room in the path's queue.
//!
//! noq takes a size for too large when three probes of it are lost (RFC 8899 section 5.1.2, `MAX_PROBES`), and probes
//! only when nothing else can be sent: on a busy path, when the window is full. A queue that is full then, as it is when
//! slow start overshoots, drops one probe after another, and the search ends below the path's MTU. So before the last
//! one of a size the path is silent for a moment.

use super::slot::Slot;
use std::time::{Duration, Instant};

/// Probes of one size until noq gives it up (its `MAX_PROBE_RETRANSMITS`).
const PROBES_OF_A_SIZE: u32 = 3;
/// The wait is half of what the queue adds to the RTT, within these.
const SHORTEST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MtuProbes {
    bytes: u64,
    count: u32,
    /// The path sends nothing until then, and the probe leaves.
    pub(super) quiet_until: Option<Instant>,
}

impl Slot {
    /// noq gave out an MTU probe; until when it is to be held back, if it is.
    pub(super) fn on_mtu_probe(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let probes = &mut self.mtu_probes;
        probes.count = if probes.bytes == bytes { probes.count % PROBES_OF_A_SIZE + 1 } else { 1 };
        probes.bytes = bytes;
        let busy = 2 * self.data_in_flight_bytes >= self.seen.cwnd_bytes;
        if self.mtu_probes.count < PROBES_OF_A_SIZE || !busy {
            return None;
        }
        let queued = self.seen.srtt.unwrap_or_default().saturating_sub(self.seen.min_rtt.unwrap_or_default());
        self.mtu_probes.quiet_until = Some(now + (queued / 2).clamp(SHORTEST_WAIT, LONGEST_WAIT));
        self.mtu_probes.quiet_until
    }

    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        self.mtu_probes.quiet_until.is_some_and(|until| now < until)
    }
}
