//! The figures of the live view. Those of results are computed elsewhere, from what was recorded.

use super::test::Fresh;
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::Progress;
use pathbench_traffic::messages::Arrival;
use pathbench_traffic::probe::{ProbeOutcome, ProbeSample};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Shares are over the last so much time.
const WINDOW: Duration = Duration::from_secs(2);

/// What is shown.
pub(super) struct Dashboard {
    pub(super) begun: Timestamp,
    pub(super) tests: Vec<TestFigures>,
    pub(super) probes: Vec<ProbeFigures>,
}

/// A transport's figures.
pub(super) struct TestFigures {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) upload: Upload,
    pub(super) download: Pace,
    carried: VecDeque<(Timestamp, BTreeMap<IpAddr, u64>)>,
}

/// How far a test is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Running,
    /// Only the server's record is still to come.
    Closing,
    /// With what went wrong.
    Over(Option<String>),
}

/// Delays of the client's messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Upload {
    latest: Option<Duration>,
    /// When the oldest was due that is not acknowledged.
    waiting_since: Option<Timestamp>,
    longest: Option<Duration>,
}

/// A path's probes.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeFigures {
    pub(super) name: String,
    pub(super) latest: Option<Duration>,
    pub(super) longest: Option<Duration>,
    /// Without an answer since the last one that had one.
    pub(super) unanswered: u32,
    pub(super) lost: u32,
}

impl TestFigures {
    pub(super) fn new(name: String, interval: Duration) -> Self {
        Self {
            name,
            state: State::Connecting,
            upload: Upload::default(),
            download: Pace::of(interval),
            carried: VecDeque::new(),
        }
    }

    pub(super) fn hear(&mut self, fresh: &Fresh) {
        self.state = if fresh.is_exchanged { State::Closing } else { State::Running };
        self.upload.waiting_since = None;
        for message in &fresh.messages {
            match message.delay() {
                Some(delay) => {
                    self.upload.latest = Some(delay);
                    self.upload.longest = self.upload.longest.max(Some(delay));
                }
                None => {
                    self.upload.waiting_since.get_or_insert(message.due);
                }
            }
        }
        for arrival in &fresh.arrivals {
            self.download.arrived(*arrival);
        }
    }

    pub(super) fn progress(&mut self, progress: &Progress) {
        let mut carried = BTreeMap::new();
        for path in &progress.paths {
            *carried.entry(path.local).or_insert(0) += path.acknowledged_bytes + path.received_bytes;
        }
        self.carried.push_back((progress.at, carried));
        while self.carried.get(1).is_some_and(|(at, _)| progress.at.since(*at) >= WINDOW) {
            self.carried.pop_front();
        }
    }

    /// Part of the latest bytes on each path that carried any, by its local address.
    pub(super) fn shares(&self) -> Vec<(IpAddr, f64)> {
        let (Some((_, first)), Some((_, last))) = (self.carried.front(), self.carried.back()) else {
            return Vec::new();
        };
        let grown = |(local, bytes): (&IpAddr, &u64)| {
            (*local, bytes.saturating_sub(first.get(local).copied().unwrap_or_default()))
        };
        let grown: Vec<(IpAddr, u64)> = last.iter().map(grown).filter(|(_, bytes)| *bytes > 0).collect();
        let total: u64 = grown.iter().map(|(_, bytes)| bytes).sum();
        grown.into_iter().map(|(local, bytes)| (local, bytes as f64 / total as f64)).collect()
    }
}

impl Upload {
    /// Of the latest message, or how long the oldest without acknowledgement has been waiting when that is more.
    pub(super) fn now(&self, at: Timestamp) -> Option<Duration> {
        let waiting = self.waiting_since.map(|since| at.since(since));
        // One that is on its way is not late yet.
        self.latest.map(|latest| latest.max(waiting.unwrap_or_default())).or(waiting)
    }

    pub(super) fn longest(&self, at: Timestamp) -> Option<Duration> {
        self.longest.max(self.now(at))
    }
}

impl ProbeFigures {
    pub(super) fn of(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    pub(super) fn hear(&mut self, sample: &ProbeSample) {
        match &sample.outcome {
            ProbeOutcome::Answered { rtt } => {
                self.latest = Some(*rtt);
                self.longest = self.longest.max(Some(*rtt));
                self.unanswered = 0;
            }
            ProbeOutcome::Lost | ProbeOutcome::Refused { .. } => {
                self.lost += 1;
                self.unanswered += 1;
            }
        }
    }
}

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
