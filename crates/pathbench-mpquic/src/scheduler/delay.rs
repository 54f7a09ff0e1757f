//! What the RTT of a path would be for a packet sent now, for the comparison of paths.

use super::slot::Slot;
use std::time::{Duration, Instant};

/// Extremes are those of one to two times this.
const LATELY: Duration = Duration::from_secs(1);
/// Packets in flight that make no queue worth speaking of (the initial window of RFC 9002 section 7.2).
const LIGHT_PACKETS: u64 = 10;

/// The RTT of a path, and what this connection has to do with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delay {
    /// Smoothed RTT without the peer's delay of acknowledgements (RFC 9002 section 5.3), which on a path that carries
    /// nothing but PINGs is all there is to see: up to 25 ms.
    pub(super) smoothed: Option<Duration>,
    /// Since when the later of the two extremes are taken.
    since: Option<Instant>,
    /// The least RTT, and the most bytes that were acknowledged a second, before and since then.
    least: [Option<Duration>; 2],
    rate: [f64; 2],
    /// When the packet left whose acknowledgement ends the measurement of the rate, and what was acknowledged before.
    mark: Option<(Instant, u64)>,
}

impl Delay {
    pub(super) fn note_sent(&mut self, now: Instant, acked_bytes: u64) {
        self.mark.get_or_insert((now, acked_bytes));
    }

    /// A packet was answered after `rtt`, when so many bytes had been acknowledged.
    pub(super) fn note_answer(&mut self, now: Instant, rtt: Duration, acked_bytes: u64) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= LATELY) {
            self.since = Some(now);
            self.least = [self.least[1], None];
            self.rate = [self.rate[1], 0.0];
        }
        self.least[1] = Some(self.least[1].map_or(rtt, |least| least.min(rtt)));
        if let Some((sent, before)) = self.mark
            && now.saturating_duration_since(sent) >= rtt
        {
            self.mark = None;
            let seconds = now.saturating_duration_since(sent).as_secs_f64().max(1e-6);
            self.rate[1] = self.rate[1].max(acked_bytes.saturating_sub(before) as f64 / seconds);
        }
    }
}

impl Slot {
    /// The RTT that the last packet of a batch of `datagrams` sent now may expect; `None` before the first sample.
    ///
    /// The smoothed RTT is that of packets sent before. Once the scheduler turns to another path because of a queue that
    /// this connection has made, the queue drains, and nobody tells. So it is no more than what is in flight, and the
    /// batch behind it, take at the rate at which it was acknowledged of late, and no less than the least RTT of late,
    /// which has in it what others have queued.
    pub(super) fn expected_rtt(&self, datagrams: usize) -> Option<Duration> {
        let smoothed = self.delay.smoothed.or(self.seen.srtt)?;
        let rate = self.delay.rate[0].max(self.delay.rate[1]);
        let light = LIGHT_PACKETS * u64::from(self.seen.mtu_bytes);
        // Less says nothing of the rate that the path has.
        if rate * smoothed.as_secs_f64() <= light as f64 {
            return Some(smoothed);
        }
        let least = self.delay.least.into_iter().flatten().fold(smoothed, Duration::min);
        let batch = datagrams as u64 * u64::from(self.seen.mtu_bytes);
        let sent = Duration::try_from_secs_f64((self.data_in_flight_bytes + batch) as f64 / rate);
        Some(sent.unwrap_or(smoothed).clamp(least, smoothed))
    }
}
