//! How late the server's requests come, by their own pace: what the client knows of the download's delays before it has the
//! server's record.

use pathbench_record::time::Timestamp;
use pathbench_traffic::messages::Arrival;
use std::collections::VecDeque;
use std::time::Duration;

/// The pace is taken from so many requests, so that clocks which drift apart do not pass for a delay.
const REMEMBERED: usize = 600;

/// Follows requests that are due at a steady pace.
///
/// The request that came soonest after it was due sets the pace; every other one is late by what it took longer.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    interval: Duration,
    /// Arrival − number × interval, in nanoseconds, of the latest requests.
    offsets: VecDeque<u64>,
    latest: Option<(u32, Duration)>,
    longest: Duration,
}

impl Pace {
    pub(super) const fn of(interval: Duration) -> Self {
        Self { interval, offsets: VecDeque::new(), latest: None, longest: Duration::ZERO }
    }

    pub(super) fn arrived(&mut self, arrival: Arrival) {
        let offset = arrival.at - self.interval.saturating_mul(arrival.sequence);
        if self.offsets.len() == REMEMBERED {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset.as_nanos());
        let late = self.late(offset);
        self.latest = Some((arrival.sequence, late));
        // One that set no pace any more when a faster one came was late, too.
        let slowest = self.offsets.iter().max().copied().unwrap_or_default();
        self.longest = self.longest.max(self.late(Timestamp::from_nanos(slowest)));
    }

    fn late(&self, offset: Timestamp) -> Duration {
        let soonest = self.offsets.iter().min().copied().unwrap_or_default();
        offset.since(Timestamp::from_nanos(soonest))
    }

    /// How late the latest request came, or how long the next one has been missing when that is more.
    pub(super) fn now(&self, at: Timestamp) -> Option<Duration> {
        let (sequence, late) = self.latest?;
        let missing = self.late(at - self.interval.saturating_mul(sequence.saturating_add(1)));
        Some(late.max(missing))
    }

    /// How late the latest of all came.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.latest.map(|_| self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn requests_are_late_by_what_they_took_longer_than_the_fastest() {
        let mut pace = Pace::of(ms(100));
        assert_eq!((pace.now(at(5)), pace.longest()), (None, None));
        // Due on the server's clock at 0, 100, 200, …; 20 ms on the way, but for a stall from 250 to 700 ms.
        for (sequence, arrived) in [(0, 1_025), (1, 1_120), (2, 1_220)] {
            pace.arrived(Arrival { sequence, at: at(arrived) });
        }
        assert_eq!(pace.longest(), Some(ms(5)));
        assert_eq!(pace.now(at(1_250)), Some(Duration::ZERO));
        // The next was to come at 1320 ms.
        assert_eq!(pace.now(at(1_500)), Some(ms(180)));
        for sequence in 3..7 {
            pace.arrived(Arrival { sequence, at: at(1_720) });
        }
        assert_eq!(pace.longest(), Some(ms(400)));
        assert_eq!(pace.now(at(1_730)), Some(ms(100)));
        pace.arrived(Arrival { sequence: 7, at: at(1_720) });
        assert_eq!((pace.now(at(1_730)), pace.longest()), (Some(ms(0)), Some(ms(400))));
    }

    #[test]
    fn a_clock_that_drifts_is_no_delay() {
        let mut pace = Pace::of(ms(100));
        // A server's clock that is slow by 100 ppm for an hour.
        for sequence in 0..36_000_u32 {
            let arrived = Timestamp::from_nanos(1_000_000_000 + u64::from(sequence) * 100_010_000);
            pace.arrived(Arrival { sequence, at: arrived });
        }
        assert!(pace.longest().unwrap() <= ms(6), "{:?}", pace.longest());
    }
}
