//! The figures of the live view. The figures of results follow from the records instead.

use super::test::Fresh;
use crate::progress::bytes_per_path;
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::Progress;
use pathbench_traffic::messages::Arrival;
use pathbench_traffic::probe::{ProbeOutcome, ProbeSample};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Shares are over the last so much time.
const WINDOW: Duration = Duration::from_secs(2);

pub(super) struct Figures {
    pub(super) begun: Timestamp,
    pub(super) tests: Vec<TestFigures>,
    pub(super) probes: Vec<ProbeFigures>,
}

pub(super) struct TestFigures {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) upload: Upload,
    pub(super) download: RequestDelay,
    carried: VecDeque<(Timestamp, BTreeMap<IpAddr, u64>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Running,
    /// Only the server's record is missing.
    Closing,
    /// With the error.
    Over(Option<String>),
}

/// Delays of the client's messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Upload {
    latest: Option<Duration>,
    /// When the oldest unacknowledged message was due.
    waiting_since: Option<Timestamp>,
    longest: Option<Duration>,
}

/// A path's probes.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeFigures {
    pub(super) name: String,
    pub(super) latest: Option<Duration>,
    pub(super) longest: Option<Duration>,
    /// Unanswered since the last answer.
    pub(super) unanswered: u32,
    pub(super) lost: u32,
}

impl TestFigures {
    pub(super) fn new(name: String, interval: Duration) -> Self {
        Self {
            name,
            state: State::Connecting,
            upload: Upload::default(),
            download: RequestDelay::new(interval),
            carried: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, fresh: &Fresh) {
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

    pub(super) fn transferred(&mut self, progress: &Progress) {
        self.carried.push_back((progress.at, bytes_per_path(progress)));
        while self.carried.get(1).is_some_and(|(at, _)| progress.at.since(*at) >= WINDOW) {
            self.carried.pop_front();
        }
    }

    /// Share of the latest bytes of each path that carried any, by its local address.
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
    /// Delay of the latest message, or of the oldest unacknowledged one where that is more.
    pub(super) fn now(&self, at: Timestamp) -> Option<Duration> {
        let waiting = self.waiting_since.map(|since| at.since(since));
        self.latest.map(|latest| latest.max(waiting.unwrap_or_default())).or(waiting)
    }

    pub(super) fn longest(&self, at: Timestamp) -> Option<Duration> {
        self.longest.max(self.now(at))
    }
}

impl ProbeFigures {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    pub(super) fn add(&mut self, sample: &ProbeSample) {
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

/// Requests that set the pace: few enough that the drift of the clocks does not count as delay.
const REMEMBERED: usize = 600;

/// Delays of the server's requests, from their arrival alone: the fastest request sets the pace, and every other one
/// is delayed by the difference. The delays since the requests were due are known only from the server's record.
#[derive(Debug, Clone)]
pub(super) struct RequestDelay {
    interval: Duration,
    /// Arrival − number × interval, in nanoseconds, of the latest requests.
    offsets: VecDeque<u64>,
    latest: Option<(u32, Duration)>,
    longest: Duration,
}

impl RequestDelay {
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, offsets: VecDeque::new(), latest: None, longest: Duration::ZERO }
    }

    pub(super) fn arrived(&mut self, arrival: Arrival) {
        let offset = arrival.at - self.interval.saturating_mul(arrival.sequence);
        if self.offsets.len() == REMEMBERED {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset.as_nanos());
        let delay = self.delay(offset);
        self.latest = Some((arrival.sequence, delay));
        // A faster request makes the earlier ones slower.
        let slowest = self.offsets.iter().max().copied().unwrap_or_default();
        self.longest = self.longest.max(self.delay(Timestamp::from_nanos(slowest)));
    }

    fn delay(&self, offset: Timestamp) -> Duration {
        let soonest = self.offsets.iter().min().copied().unwrap_or_default();
        offset.since(Timestamp::from_nanos(soonest))
    }

    /// Delay of the latest request, or of the next one, which has not come, where that is more.
    pub(super) fn now(&self, at: Timestamp) -> Option<Duration> {
        let (sequence, delay) = self.latest?;
        let missing = self.delay(at - self.interval.saturating_mul(sequence.saturating_add(1)));
        Some(delay.max(missing))
    }

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
    fn the_fastest_request_sets_the_pace() {
        let mut delay = RequestDelay::new(ms(100));
        assert_eq!((delay.now(at(5)), delay.longest()), (None, None));
        // Due on the server's clock at 0, 100, 200, …; 20 ms on the way, but for a stall from 250 to 700 ms.
        for (sequence, arrived) in [(0, 1_025), (1, 1_120), (2, 1_220)] {
            delay.arrived(Arrival { sequence, at: at(arrived) });
        }
        assert_eq!(delay.longest(), Some(ms(5)));
        assert_eq!(delay.now(at(1_250)), Some(Duration::ZERO));
        // The next was to come at 1320 ms.
        assert_eq!(delay.now(at(1_500)), Some(ms(180)));
        for sequence in 3..7 {
            delay.arrived(Arrival { sequence, at: at(1_720) });
        }
        assert_eq!(delay.longest(), Some(ms(400)));
        assert_eq!(delay.now(at(1_730)), Some(ms(100)));
        delay.arrived(Arrival { sequence: 7, at: at(1_720) });
        assert_eq!((delay.now(at(1_730)), delay.longest()), (Some(ms(0)), Some(ms(400))));
    }

    #[test]
    fn a_clock_that_drifts_is_no_delay() {
        let mut delay = RequestDelay::new(ms(100));
        // A server's clock that is slow by 100 ppm for an hour.
        for sequence in 0..36_000_u32 {
            let arrived = Timestamp::from_nanos(1_000_000_000 + u64::from(sequence) * 100_010_000);
            delay.arrived(Arrival { sequence, at: arrived });
        }
        assert!(delay.longest().unwrap() <= ms(6), "{:?}", delay.longest());
    }
}
