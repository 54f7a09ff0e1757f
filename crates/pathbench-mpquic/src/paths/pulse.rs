//! Whether packets arrive on a path, and when a PING is due on it. Pure functions of counters and time.
//!
//! Acknowledgements for all paths are sent on one path, so a path can work although no packet arrives on it. Therefore
//! both ends send a packet on every path each interval (a heartbeat). A path is silent when no packet arrived on it
//! while packets arrived on *another* path. If all paths are silent, the peer is busy or all links are down, and no
//! path is better than another. Without heartbeats from the peer, all paths but one would appear silent.

use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Upper bound of the silence before a path is suspended, for any RTT variation.
const MAX_SUSPEND_AFTER: Duration = Duration::from_secs(1);
/// A path suspended this long is closed. Only then is its lost data retransmitted on other paths. With 300 ms of
/// silence before, a path that is a black hole is closed within 0.5 s. That leaves noq the rest of a second: it
/// retransmits after a round trip and three PTOs of the path.
pub(super) const GIVE_UP_AFTER: Duration = Duration::from_millis(150);
/// Margin added to the expected time of the library's tail loss probe, which is never early.
const PROBE_MARGIN: Duration = Duration::from_millis(15);

#[derive(Debug, Clone, Copy)]
pub(super) struct HeartbeatOptions {
    /// A PING is sent on each path on which no other packet was sent this long, or no ack-eliciting one twice this long.
    pub(super) interval: Duration,
    /// A path on which no packet arrived this long gets no new data. If the RTT varies, the limit is at least two
    /// intervals and four times the RTT variation, up to a second.
    pub(super) suspend_after: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Heard,
    Silent,
    /// Silent for so long that it should be closed.
    Dead,
}

#[derive(Debug)]
pub(super) struct Pulse {
    pub(super) verdict: Verdict,
    pub(super) heard_at: Timestamp,
    received: u64,
    sent: u64,
    sent_at: Timestamp,
    /// Bytes of ack-eliciting packets sent, and when the last one was.
    elicited_bytes: u64,
    elicited_at: Timestamp,
    pinged: bool,
    pub(super) rttvar: Duration,
    /// How long after the last packet the library sends a tail loss probe of 1200 bytes on a path with a full window. A
    /// PING instead would be filled with data up to the path MTU and delay that probe. It would be dropped where the
    /// path MTU has become smaller.
    pub(super) probe_after: Option<Duration>,
}

impl Pulse {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self {
            verdict: Verdict::Heard,
            heard_at: now,
            received: 0,
            sent: 0,
            sent_at: now,
            elicited_bytes: 0,
            elicited_at: now,
            pinged: false,
            rttvar: Duration::ZERO,
            probe_after: None,
        }
    }

    /// Takes the counters of received and sent datagrams and of sent ack-eliciting bytes.
    pub(super) fn observe(&mut self, received: u64, sent: u64, elicited_bytes: u64, now: Timestamp) {
        if received != self.received {
            self.received = received;
            self.heard_at = self.heard_at.max(now);
        }
        if sent != self.sent {
            self.sent = sent;
            if !std::mem::take(&mut self.pinged) {
                self.sent_at = self.sent_at.max(now);
                if elicited_bytes != self.elicited_bytes {
                    self.elicited_at = self.sent_at;
                }
            }
            self.elicited_bytes = elicited_bytes;
        }
    }

    /// When to send a PING, if no other packet is sent before. Acknowledgements of the peer's PINGs replace this end's
    /// only once in a row: they do not measure the RTT. PINGs twice as often would hide longer that a path loses most
    /// packets. The PING waits for a probe of the library that is due well before the peer would find the path silent.
    /// The peer is assumed to have the same options.
    pub(super) fn ping_at(&self, options: &HeartbeatOptions) -> Timestamp {
        let probe = self.probe_after.map(|after| after + PROBE_MARGIN);
        let probe = probe.filter(|after| *after <= options.suspend_after * 2 / 3).unwrap_or_default();
        let elicited = self.elicited_at + probe.max(options.interval * 2);
        elicited.min(self.sent_at + probe.max(options.interval))
    }

    /// Whether a PING is due now; the caller sends it.
    pub(super) fn takes_ping(&mut self, options: &HeartbeatOptions, now: Timestamp) -> bool {
        let due = now >= self.ping_at(options);
        if due {
            (self.sent_at, self.elicited_at, self.pinged) = (now, now, true);
        }
        due
    }

    /// Updates the verdict. `elsewhere` is when the latest packet on any other path arrived.
    pub(super) fn judge(&mut self, elsewhere: Option<Timestamp>, options: &HeartbeatOptions, now: Timestamp) {
        let varying = (options.interval * 2 + self.rttvar * 4).min(MAX_SUSPEND_AFTER);
        let suspend_after = options.suspend_after.max(varying);
        let silence = elsewhere.map_or(Duration::ZERO, |elsewhere| elsewhere.duration_since(self.heard_at));
        self.verdict = if silence < suspend_after {
            // When the other paths are silent now, too, the path keeps its verdict until a packet arrives on it.
            let lately = now.duration_since(self.heard_at) < suspend_after;
            if lately { Verdict::Heard } else { self.verdict }
        } else if silence < suspend_after + GIVE_UP_AFTER && self.verdict != Verdict::Dead {
            Verdict::Silent
        } else {
            Verdict::Dead
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// The times of PINGs within 400 ms, if the library probes the path this long after the last packet.
    fn pings(probe_after_ms: Option<u64>) -> Vec<u64> {
        let options = HeartbeatOptions { interval: ms(60), suspend_after: ms(300) };
        let mut pulse = Pulse { probe_after: probe_after_ms.map(ms), ..Pulse::new(Timestamp::default()) };
        (1..=400).filter(|at| pulse.takes_ping(&options, Timestamp::default() + ms(*at))).collect()
    }

    #[test]
    fn a_probe_of_the_library_is_waited_for_where_it_comes_soon() {
        let usual = pings(None);
        assert_eq!(usual.first(), Some(&60));
        // One probe is due before the next PING anyway, the other too late for the PING to wait.
        assert_eq!(pings(Some(30)), usual);
        assert_eq!(pings(Some(250)), usual);
        assert_eq!(pings(Some(120)), [135, 270]);
    }
    #[test]
    fn acknowledgements_replace_every_second_ping() {
        let options = HeartbeatOptions { interval: ms(60), suspend_after: ms(300) };
        let mut pulse = Pulse::new(Timestamp::default());
        let mut pings = Vec::new();
        // The peer's PING is acknowledged 10 ms before this end's is due.
        for at in 1..=400 {
            let now = Timestamp::default() + ms(at);
            let sent = (at + 10) / 60 + pings.len() as u64;
            pulse.observe(0, sent, 40 * pings.len() as u64, now);
            if pulse.takes_ping(&options, now) {
                pings.push(at);
            }
        }
        assert_eq!(pings, [120, 240, 360]);
    }
}
