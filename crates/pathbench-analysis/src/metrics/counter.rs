//! Cumulative bytes per path over time, and the shares that follow from them.

use crate::binning::ByteCurve;
use pathbench_record::sample::{PathFigures, Sample};
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

/// Bytes per path at any moment, linear between samples.
#[derive(Debug, Clone)]
pub struct PathCurves {
    paths: BTreeMap<String, Vec<ByteCurve>>,
}

type SubflowKey = (u32, SocketAddr, SocketAddr);

struct Course {
    start: Timestamp,
    subflows: BTreeMap<SubflowKey, u64>,
    present: BTreeSet<SubflowKey>,
    /// One of these is the sum of closed ones: those that are not sampled any longer are in it.
    has_sum: bool,
    points: Vec<(Timestamp, u64)>,
}

impl Course {
    fn from(start: Timestamp) -> Self {
        let (subflows, present, points) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Self { start, subflows, present, has_sum: false, points }
    }

    /// Was not there at `moment`, if it has no sample of that time.
    fn absent_at(&mut self, moment: Timestamp) {
        if let Some((_, total)) = self.points.last().copied().filter(|(latest, _)| *latest < moment) {
            self.points.push((moment, total));
        }
    }

    fn take(&mut self, at: Timestamp, figures: &PathFigures, value: u64) {
        if self.points.last().is_none_or(|(latest, _)| *latest < at) {
            if std::mem::take(&mut self.has_sum) {
                self.subflows.retain(|key, _| self.present.contains(key));
            }
            self.present.clear();
            self.points.push((at, 0));
        }
        let key = (figures.subflow, figures.local, figures.remote);
        let highest = self.subflows.entry(key).or_default();
        *highest = value.max(*highest);
        self.present.insert(key);
        self.has_sum |= figures.closed_paths.is_some();
        let counted = self.subflows.iter().filter(|(key, _)| !self.has_sum || self.present.contains(key));
        let total = counted.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        if let Some((_, latest)) = self.points.last_mut() {
            *latest = total;
        }
    }
}

impl PathCurves {
    pub const fn empty() -> Self {
        Self { paths: BTreeMap::new() }
    }

    /// From curves with the names of their paths.
    pub fn new(curves: impl IntoIterator<Item = (String, ByteCurve)>) -> Self {
        let mut paths: BTreeMap<String, Vec<ByteCurve>> = BTreeMap::new();
        for (path, curve) in curves {
            paths.entry(path).or_default().push(curve);
        }
        Self { paths }
    }

    /// What `counter` counts in the samples of one end: of every path the sum over all its subflows in all streams, closed
    /// ones with their last figure. `zero` is the zero of the samples' clock.
    pub fn of_samples<'a>(
        samples: impl IntoIterator<Item = &'a Sample>,
        zero: Timestamp,
        counter: fn(&PathFigures) -> u64,
    ) -> Self {
        let mut samples: Vec<&Sample> =
            samples.into_iter().filter(|sample| sample.t_ms.is_finite()).collect();
        samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let mut paths: BTreeMap<(&str, u32), Course> = BTreeMap::new();
        // When each stream was sampled last, and before that.
        let mut moments: HashMap<u32, [Timestamp; 2]> = HashMap::new();
        for sample in samples {
            let at = zero.plus_ms(sample.t_ms);
            let [latest, before] = moments.entry(sample.stream).or_insert([at, zero.min(at)]);
            if *latest < at {
                (*before, *latest) = (*latest, at);
            }
            // A path begins to count after the last moment at which it was not there yet, or not any more.
            let path = paths.entry((&sample.path, sample.stream)).or_insert_with(|| Course::from(*before));
            path.absent_at(*before);
            path.take(at, &sample.figures, counter(&sample.figures));
        }
        Self::new(
            paths.into_iter().map(|((path, _), course)| {
                (path.to_owned(), ByteCurve::of_counter(course.start, course.points))
            }),
        )
    }

    /// Path → what its counter stood at.
    pub fn at(&self, at: Timestamp) -> BTreeMap<&str, f64> {
        self.each(|curve| curve.before(at))
    }

    /// Path → what its counter grew by in the half-open `from..until`.
    pub fn growth(&self, from: Timestamp, until: Timestamp) -> BTreeMap<&str, f64> {
        self.each(|curve| curve.between(from, until))
    }

    /// Path → part of the bytes that arrived over any path in `from..until`; empty when none did.
    pub fn shares(&self, from: Timestamp, until: Timestamp) -> BTreeMap<String, f64> {
        let grown = self.growth(from, until);
        let total: f64 = grown.values().sum();
        if total <= 0.0 {
            return BTreeMap::new();
        }
        grown.into_iter().map(|(path, bytes)| (path.to_owned(), bytes / total)).collect()
    }

    fn each(&self, of: impl Fn(&ByteCurve) -> f64) -> BTreeMap<&str, f64> {
        self.paths.iter().map(|(path, curves)| (path.as_str(), curves.iter().map(&of).sum())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::sample::{PathState, Side};
    use std::time::Duration;

    const ZERO: Timestamp = Timestamp::from_nanos(9_000_000_000);

    fn at(ms: u64) -> Timestamp {
        ZERO + Duration::from_millis(ms)
    }

    fn sample(t_ms: f64, path: &str, stream: u32, subflow: u32, bytes_received: u64) -> Sample {
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
            host: "server".to_owned(),
            side: Side::Server,
            stream,
            path: path.to_owned(),
            figures,
        }
    }

    #[test]
    fn a_path_has_all_its_subflows_and_streams() {
        let samples = [
            sample(100.0, "wlan", 0, 1, 50),
            sample(100.0, "wlan", 1, 1, 7),
            sample(100.0, "eth", 0, 2, 1000),
            // The first subflow on wlan is gone; a new one took its place.
            sample(200.0, "wlan", 0, 3, 20),
            sample(-10.0, "wlan", 0, 1, 0),
        ];
        let curves = PathCurves::of_samples(&samples, ZERO, |figures| figures.bytes_received);
        let found = [0, 50, 100, 150, 200, 900].map(|ms| {
            let values = curves.at(at(ms));
            (values["wlan"].round() as u64, values["eth"].round() as u64)
        });
        assert_eq!(found, [(5, 91), (31, 545), (57, 1000), (67, 1000), (77, 1000), (77, 1000)]);
    }

    #[test]
    fn a_closed_subflow_that_is_summed_up_counts_once() {
        let mut summed = sample(300.0, "wlan", 0, 1, 57);
        summed.figures.closed_paths = Some(2);
        let samples = [
            sample(100.0, "wlan", 0, 1, 50),
            sample(200.0, "wlan", 0, 1, 50),
            sample(200.0, "wlan", 0, 2, 7),
            summed,
            sample(300.0, "wlan", 0, 3, 20),
        ];
        let curves = PathCurves::of_samples(&samples, ZERO, |figures| figures.bytes_received);
        let found = [100, 200, 300].map(|ms| curves.at(at(ms))["wlan"].round() as u64);
        assert_eq!(found, [50, 57, 77]);
    }

    /// What a path carried once it was back was spread over the whole time without it.
    #[test]
    fn a_path_that_comes_back_has_carried_nothing_meanwhile() {
        let samples = [
            sample(100.0, "wlan", 0, 1, 50),
            sample(100.0, "eth", 0, 2, 100),
            sample(200.0, "eth", 0, 2, 200),
            sample(300.0, "eth", 0, 2, 300),
            sample(400.0, "eth", 0, 2, 400),
            sample(400.0, "wlan", 0, 3, 20),
            sample(500.0, "wlan", 0, 3, 30),
        ];
        let curves = PathCurves::of_samples(&samples, ZERO, |figures| figures.bytes_received);
        let found = [100, 200, 300, 350, 400, 500].map(|ms| curves.at(at(ms))["wlan"].round() as u64);
        assert_eq!(found, [50, 50, 50, 60, 70, 80]);
    }

    #[test]
    fn counters_are_linear_between_samples() {
        let samples =
            [(0.0, 0), (100.0, 1000), (200.0, 1000)].map(|(t_ms, bytes)| sample(t_ms, "a", 0, 1, bytes));
        let curves = PathCurves::of_samples(&samples, ZERO, |figures| figures.bytes_received);
        let found = [50, 150, 900].map(|ms| curves.at(at(ms))["a"]);
        assert!(
            found.iter().zip([500.0, 1000.0, 1000.0]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-9),
            "{found:?}"
        );
        assert!(curves.at(ZERO - Duration::from_millis(5))["a"].abs() < 1e-9);
    }

    #[test]
    fn a_path_that_carried_nothing_has_a_share_of_nothing() {
        let samples = [
            sample(100.0, "eth", 0, 1, 100),
            sample(200.0, "eth", 0, 1, 400),
            sample(200.0, "wlan", 0, 2, 0),
        ];
        let curves = PathCurves::of_samples(&samples, ZERO, |figures| figures.bytes_received);
        assert_eq!(curves.shares(at(0), at(150)), [("eth".to_owned(), 1.0), ("wlan".to_owned(), 0.0)].into());
        assert!(
            curves.shares(at(200), at(500)).is_empty(),
            "after the last sample nothing is known to arrive"
        );
    }
}
