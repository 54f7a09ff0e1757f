//! Cumulative bytes per path over time, and the shares that follow from them.

use crate::sample::{Sample, Side};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes received over a path since the start of the run, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCounter {
    /// The moment.
    pub at: Timestamp,
    /// The path's name.
    pub path: String,
    /// All its subflows and streams together.
    pub bytes: u64,
}

impl PathCounter {
    /// The counters of the receiving side's samples: of every path, the sum over all its subflows in all streams,
    /// closed ones with their last figure.
    ///
    /// `receiver` is the side that received the data; `origin` the zero of the samples' clock.
    #[must_use]
    pub fn from_samples<'a>(
        samples: impl IntoIterator<Item = &'a Sample>,
        receiver: Side,
        origin: Timestamp,
    ) -> Vec<Self> {
        let mut samples: Vec<&Sample> =
            samples.into_iter().filter(|sample| sample.side == receiver && sample.t_ms.is_finite()).collect();
        samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let mut subflows: BTreeMap<(&str, u32, u32), u64> = BTreeMap::new();
        let mut counters: Vec<Self> = Vec::new();
        for sample in samples {
            let at = moment(origin, sample.t_ms);
            let seen = subflows.entry((&sample.path, sample.stream, sample.figures.subflow)).or_default();
            *seen = sample.figures.bytes_received.max(*seen);
            let of_path = subflows.range((sample.path.as_str(), 0, 0)..=(&sample.path, u32::MAX, u32::MAX));
            let bytes = of_path.map(|(_, &bytes)| bytes).sum();
            // Several subflows of one path sampled at one moment are one point.
            let same_moment = counters.iter_mut().rev().take_while(|counter| counter.at == at);
            match same_moment.into_iter().find(|counter| counter.path == sample.path) {
                Some(counter) => counter.bytes = bytes,
                None => counters.push(Self { at, path: sample.path.clone(), bytes }),
            }
        }
        counters
    }
}

/// The moment `t_ms` milliseconds from `origin`.
fn moment(origin: Timestamp, t_ms: f64) -> Timestamp {
    let distance = Duration::from_nanos((t_ms.abs() * 1e6).round() as u64);
    if t_ms < 0.0 { origin - distance } else { origin + distance }
}

/// Bytes per path at any moment, linear between counters.
#[derive(Debug, Clone)]
pub(super) struct PathCurves<'a> {
    paths: BTreeMap<&'a str, Vec<(Timestamp, u64)>>,
    /// When every counter was zero.
    start: Timestamp,
}

impl<'a> PathCurves<'a> {
    pub(super) fn of(counters: &'a [PathCounter], start: Timestamp) -> Self {
        let mut paths: BTreeMap<&str, Vec<(Timestamp, u64)>> = BTreeMap::new();
        for counter in counters {
            paths.entry(&counter.path).or_default().push((counter.at, counter.bytes));
        }
        for points in paths.values_mut() {
            points.sort_unstable();
        }
        Self { paths, start }
    }

    /// Path → part of the bytes that arrived over any path in `from..until`; empty when none did.
    pub(super) fn shares(&self, from: Timestamp, until: Timestamp) -> BTreeMap<String, f64> {
        let arrived = self.paths.iter().map(|(&path, points)| {
            let bytes = (self.value(points, until) - self.value(points, from)).max(0.0);
            (path.to_owned(), bytes)
        });
        let arrived: BTreeMap<String, f64> = arrived.collect();
        let total: f64 = arrived.values().sum();
        if total <= 0.0 {
            return BTreeMap::new();
        }
        arrived.into_iter().map(|(path, bytes)| (path, bytes / total)).collect()
    }

    fn value(&self, points: &[(Timestamp, u64)], at: Timestamp) -> f64 {
        let next = points.partition_point(|&(time, _)| time <= at);
        let (before, bytes_before) =
            next.checked_sub(1).and_then(|index| points.get(index)).copied().unwrap_or((self.start, 0));
        let Some(&(after, bytes_after)) = points.get(next) else { return bytes_before as f64 };
        let width = after.since(before).as_nanos();
        if width == 0 {
            return bytes_before as f64;
        }
        let weight = at.since(before).as_nanos() as f64 / width as f64;
        bytes_before as f64 + weight * (bytes_after as f64 - bytes_before as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{PathFigures, PathState};

    fn sample(t_ms: f64, side: Side, path: &str, stream: u32, subflow: u32, bytes_received: u64) -> Sample {
        let address = ([10, 0, 0, 1], 5201).into();
        let figures = PathFigures {
            subflow,
            state: PathState::Open,
            bytes_received,
            ..PathFigures::between(address, address)
        };
        Sample {
            run: "r".to_owned(),
            t_ms,
            host: "h".to_owned(),
            side,
            stream,
            path: path.to_owned(),
            figures,
        }
    }

    #[test]
    fn subflows_and_streams_of_a_path_add_up_and_closed_ones_stay() {
        let origin = Timestamp::from_nanos(1_000_000_000);
        let samples = [
            sample(100.0, Side::Server, "wlan", 0, 1, 50),
            sample(100.0, Side::Server, "wlan", 1, 1, 7),
            sample(100.0, Side::Server, "eth", 0, 2, 1000),
            sample(100.0, Side::Client, "wlan", 0, 1, 999),
            // The first subflow on wlan is gone; a new one took its place.
            sample(200.0, Side::Server, "wlan", 0, 3, 20),
            sample(-10.0, Side::Server, "wlan", 0, 1, 0),
        ];
        let counters = PathCounter::from_samples(&samples, Side::Server, origin);
        let found: Vec<_> =
            counters.iter().map(|c| (c.at.ms_from(origin) as i64, c.path.as_str(), c.bytes)).collect();
        assert_eq!(found, [(-10, "wlan", 0), (100, "wlan", 57), (100, "eth", 1000), (200, "wlan", 77)]);
    }

    #[test]
    fn a_path_that_carried_nothing_has_a_share_of_nothing() {
        let at = |ms| Timestamp::from_nanos(9_000_000_000) + Duration::from_millis(ms);
        let counter = |ms, path: &str, bytes| PathCounter { at: at(ms), path: path.to_owned(), bytes };
        let counters = [counter(100, "eth", 100), counter(200, "eth", 400), counter(200, "wlan", 0)];
        let curves = PathCurves::of(&counters, at(0));
        assert_eq!(curves.shares(at(0), at(150)), [("eth".to_owned(), 1.0), ("wlan".to_owned(), 0.0)].into());
        assert!(
            curves.shares(at(200), at(500)).is_empty(),
            "after the last sample nothing is known to arrive"
        );
    }
}
