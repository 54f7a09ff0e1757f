//! The expected RTT of a packet that is sent now, to compare paths.

use super::slot::Slot;
use std::time::Duration;

/// So many packets in flight build no significant queue (the initial window of RFC 9002 section 7.2).
const LIGHT_PACKETS: u64 = 10;

impl Slot {
    /// The expected RTT of the last packet of a batch of `datagrams` sent now; `None` before the first sample.
    ///
    /// The smoothed RTT is that of earlier packets. When the scheduler leaves a path because of a queue that this
    /// connection has built, the queue drains, and no sample shows that. So the expected RTT is the time that the bytes
    /// in flight and the batch take at the recent delivery rate. It is at most the smoothed RTT, and at least the
    /// recent minimum RTT, which includes queueing by other traffic.
    pub(super) fn expected_rtt(&self, datagrams: usize) -> Option<Duration> {
        let smoothed = self.seen.srtt?;
        let rate = self.delay.rate[0].max(self.delay.rate[1]);
        let light = LIGHT_PACKETS * u64::from(self.seen.mtu_bytes);
        // With less traffic, the delivery rate does not show the path's capacity.
        if rate * smoothed.as_secs_f64() <= light as f64 {
            return Some(smoothed);
        }
        let least = self.delay.least.into_iter().flatten().fold(smoothed, Duration::min);
        let batch = datagrams as u64 * u64::from(self.seen.mtu_bytes);
        let sent = Duration::try_from_secs_f64((self.data_in_flight_bytes + batch) as f64 / rate);
        Some(sent.unwrap_or(smoothed).clamp(least, smoothed))
    }
}
