//! When each path sent and received, from the samples of one end.

use pathbench_record::sample::{PathFigures, Sample, Side};
use std::collections::BTreeMap;

/// A subflow among all connections of a run: stream and subflow.
type Subflow = (u32, u32);

/// The samples of one end by path and subflow, sorted by time.
#[derive(Debug)]
pub(super) struct Timeline<'a> {
    first: &'a str,
    paths: BTreeMap<&'a str, BTreeMap<Subflow, Vec<&'a Sample>>>,
    moments: BTreeMap<u32, Vec<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Onset<'a> {
    pub(super) path: &'a str,
    pub(super) stream: u32,
    pub(super) at_ms: f64,
    pub(super) unseen_ms: f64,
    pub(super) seen_ms: f64,
}

fn sent(figures: &PathFigures) -> u64 {
    figures.packets_sent.unwrap_or(figures.bytes_sent)
}

fn received(figures: &PathFigures) -> u64 {
    figures.packets_received.unwrap_or(figures.bytes_received)
}

impl<'a> Timeline<'a> {
    /// `None` without samples of that side.
    pub(super) fn from_samples(samples: &'a [Sample], side: Side) -> Option<Self> {
        let of_side = || samples.iter().filter(|sample| sample.side == side && sample.t_ms.is_finite());
        // Every path of a connection has one sample per sampling time; the first subflow has the lowest number.
        let first = of_side().min_by(|a, b| {
            let order = |sample: &Sample| (sample.figures.subflow, sample.stream);
            order(a).cmp(&order(b)).then(a.t_ms.total_cmp(&b.t_ms))
        })?;
        let mut paths: BTreeMap<&str, BTreeMap<Subflow, Vec<&Sample>>> = BTreeMap::new();
        let mut moments: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in of_side() {
            let subflow = (sample.stream, sample.figures.subflow);
            paths.entry(&sample.path).or_default().entry(subflow).or_default().push(sample);
            moments.entry(sample.stream).or_default().push(sample.t_ms);
        }
        for of_subflow in paths.values_mut().flat_map(BTreeMap::values_mut) {
            of_subflow.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        }
        for of_stream in moments.values_mut() {
            of_stream.sort_by(f64::total_cmp);
            of_stream.dedup();
        }
        Some(Self { first: &first.path, paths, moments })
    }

    pub(super) fn first_path(&self) -> &'a str {
        self.first
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.paths.keys().copied().filter(|path| *path != self.first)
    }

    pub(super) fn onset(&self, path: &'a str) -> Option<Onset<'a>> {
        let of_subflow = |(&(stream, _), samples): (&Subflow, &Vec<&Sample>)| {
            let seen = samples.iter().find(|sample| sample.figures.bytes_sent > 0)?;
            let unseen_ms = self.moment_before(stream, seen.t_ms);
            let at_ms = change_time_ms(seen.t_ms, seen.figures.since_last_sent_ms, unseen_ms);
            Some(Onset { path, stream, at_ms, unseen_ms, seen_ms: seen.t_ms })
        };
        let of_path = self.paths.get(path)?.iter().filter_map(of_subflow);
        of_path.min_by(|a, b| a.at_ms.total_cmp(&b.at_ms))
    }

    pub(super) fn first_data_ms(&self, path: &'a str) -> Option<f64> {
        self.onset(path).map(|onset| onset.at_ms)
    }

    pub(super) fn last_data_ms(&self, path: &str) -> Option<f64> {
        self.last_change_ms(path, |figures| figures.bytes_sent, |figures| figures.since_last_sent_ms)
    }

    pub(super) fn last_sent_ms(&self, path: &str) -> Option<f64> {
        self.last_change_ms(path, sent, |figures| figures.since_last_sent_ms)
    }

    pub(super) fn last_received_ms(&self, path: &str) -> Option<f64> {
        self.last_change_ms(path, received, |figures| figures.since_last_received_ms)
    }

    /// Figures of `path` for the connection of `onset`: its last sample before and its first sample after the onset.
    pub(super) fn around(&self, path: &str, onset: &Onset<'_>) -> Vec<&'a PathFigures> {
        let subflows = self.paths.get(path).into_iter().flatten();
        let samples: Vec<&Sample> = subflows
            .filter(|((stream, _), _)| *stream == onset.stream)
            .flat_map(|(_, samples)| samples.iter().copied())
            .collect();
        // If a path has several subflows, the newest counts.
        let newest = |a: &&&Sample, b: &&&Sample| a.figures.subflow.cmp(&b.figures.subflow);
        let before = samples.iter().filter(|sample| sample.t_ms < onset.seen_ms);
        let before = before.max_by(|a, b| a.t_ms.total_cmp(&b.t_ms).then_with(|| newest(a, b)));
        let after = samples.iter().filter(|sample| sample.t_ms >= onset.seen_ms);
        let after = after.min_by(|a, b| a.t_ms.total_cmp(&b.t_ms).then_with(|| newest(b, a)));
        before.into_iter().chain(after).map(|sample| &sample.figures).collect()
    }

    /// The last time when `counter` increased on any subflow of `path`. `since_ms` counts from the last *data*: if
    /// that time is between the two samples in question, it is exact; otherwise the later sample is an upper bound.
    fn last_change_ms(
        &self,
        path: &str,
        counter: fn(&PathFigures) -> u64,
        since_ms: fn(&PathFigures) -> u64,
    ) -> Option<f64> {
        let of_subflow = |(&(stream, _), samples): (&Subflow, &Vec<&Sample>)| {
            let mut most = 0;
            let mut last = None;
            for sample in samples {
                if counter(&sample.figures) > most {
                    most = counter(&sample.figures);
                    let before = self.moment_before(stream, sample.t_ms);
                    last = Some(change_time_ms(sample.t_ms, since_ms(&sample.figures), before));
                }
            }
            last
        };
        self.paths.get(path)?.iter().filter_map(of_subflow).max_by(f64::total_cmp)
    }

    /// The connection's previous sampling time; for the first one, the time itself.
    fn moment_before(&self, stream: u32, at_ms: f64) -> f64 {
        let moments = self.moments.get(&stream).map(Vec::as_slice).unwrap_or_default();
        let index = moments.partition_point(|&moment| moment < at_ms);
        index.checked_sub(1).and_then(|before| moments.get(before)).copied().unwrap_or(at_ms)
    }
}

/// `since_ms` before `at_ms` if that is after `earliest_ms`; otherwise `at_ms`.
fn change_time_ms(at_ms: f64, since_ms: u64, earliest_ms: f64) -> f64 {
    let moment = at_ms - since_ms as f64;
    if moment > earliest_ms { moment } else { at_ms }
}
