//! Cumulative bytes per path over time, and shares of paths.

use crate::binning::ByteCurve;
use pathbench_record::sample::{PathFigures, Sample};
use pathbench_record::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

/// Bytes per path over time, linear between samples.
#[derive(Debug, Clone)]
pub struct PathCurves {
    paths: BTreeMap<String, Vec<ByteCurve>>,
}

type SubflowKey = (u32, SocketAddr, SocketAddr);

struct Course {
    start: Timestamp,
    subflows: BTreeMap<SubflowKey, u64>,
    present: BTreeSet<SubflowKey>,
    /// One sample of this moment is the sum of closed subflows; it includes those without further samples.
    has_sum: bool,
    points: Vec<(Timestamp, u64)>,
}

impl Course {
    fn new(start: Timestamp) -> Self {
        let (subflows, present, points) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Self { start, subflows, present, has_sum: false, points }
    }

    /// Marks the path as absent at `moment` unless it has a sample of that time.
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

    pub fn new(curves: impl IntoIterator<Item = (String, ByteCurve)>) -> Self {
        let mut paths: BTreeMap<String, Vec<ByteCurve>> = BTreeMap::new();
        for (path, curve) in curves {
            paths.entry(path).or_default().push(curve);
        }
        Self { paths }
    }

    /// The values of `counter` in the samples of one end. A path's value is the sum over its subflows in all streams;
    /// a closed subflow keeps its last value. `zero` is the zero of the samples' clock.
    pub fn from_samples<'a>(
        samples: impl IntoIterator<Item = &'a Sample>,
        zero: Timestamp,
        counter: fn(&PathFigures) -> u64,
    ) -> Self {
        let mut samples: Vec<&Sample> =
            samples.into_iter().filter(|sample| sample.t_ms.is_finite()).collect();
        samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let mut paths: BTreeMap<(&str, u32), Course> = BTreeMap::new();
        // Times of the latest and of the previous sample of each stream.
        let mut moments: HashMap<u32, [Timestamp; 2]> = HashMap::new();
        for sample in samples {
            let at = zero.plus_ms(sample.t_ms);
            let [latest, before] = moments.entry(sample.stream).or_insert([at, zero.min(at)]);
            if *latest < at {
                (*before, *latest) = (*latest, at);
            }
            // A path's counter starts or resumes at the last moment at which the path was absent.
            let path = paths.entry((&sample.path, sample.stream)).or_insert_with(|| Course::new(*before));
            path.absent_at(*before);
            path.take(at, &sample.figures, counter(&sample.figures));
        }
        Self::new(paths.into_iter().map(|((path, _), course)| {
            (path.to_owned(), ByteCurve::from_counter(course.start, course.points))
        }))
    }

    /// Path → value of its counter.
    pub fn values_at(&self, at: Timestamp) -> BTreeMap<&str, f64> {
        self.each(|curve| curve.bytes_before(at))
    }

    /// Path → growth of its counter in the half-open `from..until`.
    pub fn growth(&self, from: Timestamp, until: Timestamp) -> BTreeMap<&str, f64> {
        self.each(|curve| curve.bytes_between(from, until))
    }

    /// Path → part (0 to 1) of the bytes that arrived in `from..until`; empty without bytes.
    pub fn shares(&self, from: Timestamp, until: Timestamp) -> BTreeMap<String, f64> {
        let grown = self.growth(from, until);
        let total: f64 = grown.values().sum();
        if total <= 0.0 {
            return BTreeMap::new();
        }
        grown.into_iter().map(|(path, bytes)| (path.to_owned(), bytes / total)).collect()
    }

    /// The first moment at or after `at` at which a byte arrived over `path`.
    pub fn next_byte(&self, path: &str, at: Timestamp) -> Option<Timestamp> {
        self.paths.get(path)?.iter().filter_map(|curve| curve.next_byte(at)).min()
    }

    fn each(&self, of: impl Fn(&ByteCurve) -> f64) -> BTreeMap<&str, f64> {
        self.paths.iter().map(|(path, curves)| (path.as_str(), curves.iter().map(&of).sum())).collect()
    }
}
