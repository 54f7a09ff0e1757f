//! Figures of running tests. The figures of results are computed from the records instead.

mod interval;

pub use interval::IntervalMeter;

use pathbench_record::end::MessageRecord;
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Shares cover this much of the latest time.
const WINDOW: Duration = Duration::from_secs(2);

/// Figures of a running test.
#[derive(Debug, Clone)]
pub struct TestFigures {
    pub name: String,
    pub state: State,
    pub upload: Upload,
    pub download: RequestDelay,
    carried: VecDeque<(Timestamp, BTreeMap<IpAddr, u64>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Connecting,
    Running,
    /// Only the server's record is outstanding.
    Closing,
    /// The test ended, with the error if any.
    Over(Option<String>),
}

/// Delays of the client's messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Upload {
    latest: Option<Duration>,
    /// When the oldest unacknowledged message was due.
    waiting_since: Option<Timestamp>,
    longest: Option<Duration>,
}

/// A path's probes.
#[derive(Debug, Clone, Default)]
pub struct ProbeFigures {
    pub name: String,
    pub latest: Option<Duration>,
    pub longest: Option<Duration>,
    /// Unanswered probes since the last answer.
    pub unanswered: u32,
    pub lost: u32,
}

impl TestFigures {
    pub fn new(name: String, interval: Duration) -> Self {
        Self {
            name,
            state: State::Connecting,
            upload: Upload::default(),
            download: RequestDelay::new(interval),
            carried: VecDeque::new(),
        }
    }

    /// Adds the latest `messages` of the client, and number and arrival time of the server's requests.
    pub fn add(
        &mut self,
        messages: &[MessageRecord],
        arrivals: impl IntoIterator<Item = (u32, Timestamp)>,
        is_exchanged: bool,
    ) {
        self.state = if is_exchanged { State::Closing } else { State::Running };
        self.upload.waiting_since = None;
        for message in messages {
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
        for (sequence, at) in arrivals {
            self.download.arrived(sequence, at);
        }
    }

    /// Adds the bytes that each path has carried until `now`, by local address.
    pub fn transferred(&mut self, now: Timestamp, carried: BTreeMap<IpAddr, u64>) {
        self.carried.push_back((now, carried));
        while self.carried.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.carried.pop_front();
        }
    }

    /// Share of the latest bytes of each path that carried any, by its local address.
    pub fn shares(&self) -> Vec<(IpAddr, f64)> {
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
    pub fn now(&self, at: Timestamp) -> Option<Duration> {
        let waiting = self.waiting_since.map(|since| at.duration_since(since));
        self.latest.map(|latest| latest.max(waiting.unwrap_or_default())).or(waiting)
    }

    pub fn longest(&self, at: Timestamp) -> Option<Duration> {
        self.longest.max(self.now(at))
    }
}

impl ProbeFigures {
    pub fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Adds the round-trip time of a probe; `None` without an answer.
    pub fn add(&mut self, rtt: Option<Duration>) {
        if rtt.is_some() {
            self.latest = rtt;
            self.longest = self.longest.max(rtt);
            self.unanswered = 0;
        } else {
            self.lost += 1;
            self.unanswered += 1;
        }
    }
}

/// Number of latest requests for the reference: few enough that clock drift does not count as delay.
const REMEMBERED: usize = 600;

/// Delays of the server's requests, from their arrival times alone. The fastest request is the reference; the delay
/// of a request is its difference to the reference. Only the server's record has the delays since the due times.
#[derive(Debug, Clone)]
pub struct RequestDelay {
    interval: Duration,
    /// Arrival − number × interval, in nanoseconds, of the latest requests.
    offsets: VecDeque<u64>,
    latest: Option<(u32, Duration)>,
    longest: Duration,
}

impl RequestDelay {
    pub const fn new(interval: Duration) -> Self {
        Self { interval, offsets: VecDeque::new(), latest: None, longest: Duration::ZERO }
    }

    pub fn arrived(&mut self, sequence: u32, at: Timestamp) {
        let offset = at - self.interval.saturating_mul(sequence);
        if self.offsets.len() == REMEMBERED {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset.as_nanos());
        let delay = self.delay(offset);
        self.latest = Some((sequence, delay));
        // A faster request increases the delays of the earlier ones.
        let slowest = self.offsets.iter().max().copied().unwrap_or_default();
        self.longest = self.longest.max(self.delay(Timestamp::from_nanos(slowest)));
    }

    fn delay(&self, offset: Timestamp) -> Duration {
        let soonest = self.offsets.iter().min().copied().unwrap_or_default();
        offset.duration_since(Timestamp::from_nanos(soonest))
    }

    /// Delay of the latest request, or of the next, missing one where that is longer.
    pub fn now(&self, at: Timestamp) -> Option<Duration> {
        let (sequence, delay) = self.latest?;
        let missing = self.delay(at - self.interval.saturating_mul(sequence.saturating_add(1)));
        Some(delay.max(missing))
    }

    pub fn longest(&self) -> Option<Duration> {
        self.latest.map(|_| self.longest)
    }
}
