//! Round-trip times, and how long to wait for an answer.

use std::time::Duration;

/// Before anything is known.
const INITIAL: Duration = Duration::from_secs(1);
/// A machine that is busy answers late.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(3);
/// An answer that is overtaken by a later one is waited for so long at least.
const LEAST_SLACK: Duration = Duration::from_millis(3);
/// Samples that are kept for the median.
const KEPT: usize = 512;

/// Smoothed as TCP's (RFC 6298).
#[derive(Debug, Clone, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<(Duration, Duration)>,
    /// Nothing but the answers to hellos has told it.
    is_guess: bool,
    shortest: Option<Duration>,
    small: Vec<Duration>,
}

impl RoundTrip {
    /// Takes the time of a hello. It may have waited in the kernel until neighbours were found, for seconds where their
    /// messages get lost; so it counts only until something better is known.
    pub(super) fn guess(&mut self, rtt: Duration) {
        let is_better = self.is_guess && self.smoothed.is_some_and(|(mean, _)| rtt < mean);
        if self.smoothed.is_none() || is_better {
            self.smoothed = Some((rtt, rtt / 2));
            self.is_guess = true;
        }
    }

    /// Takes a sample; `small`: of short messages both ways.
    pub(super) fn sample(&mut self, rtt: Duration, small: bool) {
        if std::mem::take(&mut self.is_guess) {
            self.smoothed = None;
        }
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2),
            Some((mean, deviation)) => ((mean * 7 + rtt) / 8, (deviation * 3 + rtt.abs_diff(mean)) / 4),
        });
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        if small && self.small.len() < KEPT {
            self.small.push(rtt);
        }
    }

    /// How long to wait when nothing is heard.
    pub(super) fn timeout(&self) -> Duration {
        self.smoothed.map_or(INITIAL, |(mean, deviation)| (mean + deviation * 4).clamp(SHORTEST, LONGEST))
    }

    /// How long to wait for what others have overtaken.
    pub(super) fn slack(&self) -> Duration {
        self.smoothed.map_or(LEAST_SLACK, |(mean, deviation)| deviation.min(mean / 2).max(LEAST_SLACK))
    }

    /// The shortest of all.
    pub(super) fn shortest(&self) -> Duration {
        self.shortest.unwrap_or_default()
    }

    /// Median of the round trips of small messages.
    pub(super) fn median(&self) -> Option<Duration> {
        let mut sorted = self.small.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}
