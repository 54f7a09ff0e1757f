//! The figures of the live view. Those of results are computed elsewhere, from what was recorded.

use super::pace::Pace;
use super::test::Fresh;
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::Progress;
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
