//! RTT samples without the peer's acknowledgement delay (RFC 9002 section 5.3).
//!
//! A peer acknowledges a single packet up to 25 ms later. noq reports neither that delay to controllers nor the send
//! time of packets that are only acknowledged with others, as packets of acknowledgements are. Its own smoothed RTT
//! contains the delay unless the rest is at least its minimum RTT, which may be that of larger packets: on an idle path
//! of 0.1 ms it is up to 25 ms. So the samples are computed here, from the send times and the ACK frames.
//!
//! The rest may be less than the minimum RTT. RFC 9002 forbids that because a peer may exaggerate its delay. Here that is
//! harmless: the delay is bounded, and all timeouts are longer than the smoothed RTT by more than the bound.

use super::slot::LONGEST_ACK_DELAY;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Recorded send times, and how many of them are recorded in an RTT.
const MARKS: usize = 128;
const MARKS_PER_RTT: u32 = 64;

/// When the last packets were sent, packets of acknowledgements included.
#[derive(Debug, Clone, Default)]
pub(super) struct SentTimes(VecDeque<(u64, Instant)>);

impl SentTimes {
    pub(super) fn note(&mut self, now: Instant, packet: u64, rtt: Duration) {
        let before = self.0.iter().nth_back(1);
        if before.is_some_and(|(_, at)| now.saturating_duration_since(*at) < rtt / MARKS_PER_RTT) {
            self.0.pop_back();
        } else if self.0.len() >= MARKS {
            self.0.pop_front();
        }
        self.0.push_back((packet, now));
    }

    /// When `packet` was sent at the earliest.
    fn earliest(&self, packet: u64) -> Option<Instant> {
        self.0.iter().rev().find(|(other, _)| *other <= packet).map(|(_, at)| *at)
    }
}

/// An acknowledgement that arrives at `now`: the newest of its packets that the controller knows was sent at `sent`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) now: Instant,
    pub(super) sent: Instant,
    /// The largest acknowledged packet, and the peer's delay since its arrival.
    pub(super) largest: Option<(u64, Duration)>,
}

impl Answer {
    /// The RTT, and the acknowledgement delay that the RTT excludes.
    pub(super) fn sample(self, sent_times: &SentTimes) -> (Duration, Duration) {
        let Some((packet, delay)) = self.largest else {
            return (self.now.saturating_duration_since(self.sent), Duration::ZERO);
        };
        let sent = sent_times.earliest(packet).map_or(self.sent, |at| at.max(self.sent));
        let whole = self.now.saturating_duration_since(sent);
        let delay = delay.min(LONGEST_ACK_DELAY);
        match whole.checked_sub(delay).filter(|rtt| !rtt.is_zero()) {
            Some(rtt) => (rtt, delay),
            // No delay of this packet.
            None => (whole, Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::scheduler::tests::instant;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn sample(
        times: &SentTimes,
        now: Instant,
        sent: Instant,
        largest: (u64, Duration),
    ) -> (Duration, Duration) {
        Answer { now, sent, largest: Some(largest) }.sample(times)
    }

    #[test]
    fn the_delay_is_subtracted_up_to_a_bound() {
        let (times, sent) = (SentTimes::default(), instant());
        assert_eq!(sample(&times, sent + ms(30), sent, (7, ms(25))), (ms(5), ms(25)));
        assert_eq!(sample(&times, sent + ms(300), sent, (7, ms(200))), (ms(265), ms(35)));
        // Longer than since the packet was sent: not the delay of that packet.
        assert_eq!(sample(&times, sent + ms(20), sent, (7, ms(25))), (ms(20), ms(0)));
        assert_eq!(Answer { now: sent + ms(30), sent, largest: None }.sample(&times), (ms(30), ms(0)));
    }

    #[test]
    fn the_delay_of_a_packet_of_acknowledgements_counts_from_its_own_send_time() {
        let (mut times, sent) = (SentTimes::default(), instant());
        times.note(sent, 7, ms(1));
        times.note(sent + ms(20), 8, ms(1));
        times.note(sent + ms(26), 9, ms(1));
        // Packet 7 is a PING, and its acknowledgement was due 5 ms after packet 8 had arrived.
        assert_eq!(sample(&times, sent + ms(27), sent, (8, ms(5))), (ms(2), ms(5)));
    }

    #[test]
    fn send_times_are_few_and_never_late() {
        let (mut times, begun) = (SentTimes::default(), instant());
        let at = |packet: u64| begun + Duration::from_micros(packet * 100);
        for packet in 0..10_000 {
            times.note(at(packet), packet, ms(64));
            assert!(times.0.len() <= MARKS);
        }
        for packet in 9500..10_000 {
            let found = times.earliest(packet).expect("an RTT");
            assert!(found <= at(packet) && at(packet) - found <= ms(1), "packet {packet}");
        }
        assert_eq!(times.earliest(0), None);
    }
}
