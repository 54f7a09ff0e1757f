//! The delay of the last MTU probe of a size, until the path's queue has drained.
//!
//! noq considers a size too large when three probes of it are lost (RFC 8899 section 5.1.2, `MAX_PROBES`). It probes
//! only when it can send nothing else: on a busy path, when the window is full. When slow start overshoots, the queue
//! is full then and drops every probe, and the search ends below the path's MTU. So the path sends nothing for a moment
//! before the last probe of a size.

use super::slot::Slot;
use std::time::{Duration, Instant};

/// Lost probes of one size after which noq considers it too large (its `MAX_PROBE_RETRANSMITS`).
const PROBES_OF_A_SIZE: u32 = 3;
/// Limits of the delay, which is half of the RTT increase by the queue.
const SHORTEST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(25);

impl Slot {
    /// Records an MTU probe that noq built; returns when to send it, if it must wait.
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
