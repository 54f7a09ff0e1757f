//! The answer of a result: gain over the best single path, and stalls after failures.

use crate::comparison::estimate::paired;
use crate::comparison::rule::{MARGIN, Rule, judge, repetitions_needed};
use pathbench_record::direction::Direction;
use pathbench_record::document::{Failover, Gain, Headline, RunRecord, Variant, Verdict};
use pathbench_record::statistics::median;
use pathbench_record::summary::order_of_variants;
use pathbench_record::transport::{Transport, TransportLabel};
use std::collections::{BTreeMap, BTreeSet};

/// Gains and failovers of one result; a study of more variants has its answer in the tables.
const MOST: usize = 64;

/// `None` without a run that counts.
pub(super) fn of_runs(runs: &[RunRecord]) -> Option<Headline> {
    let counted: Vec<&RunRecord> = runs.iter().filter(|run| !run.warm_up).collect();
    if counted.is_empty() {
        return None;
    }
    let mut series = grouped(counted, |run| (&run.pattern, &run.variant));
    // The random order of the runs is no order for readers.
    series.sort_by(|a, b| {
        let by_variant = order_of_variants(&a[0].variant, &b[0].variant);
        by_variant.then_with(|| a[0].pattern.cmp(&b[0].pattern))
    });
    let mut headline = Headline::default();
    for runs in &series {
        if runs.iter().any(|run| !run.impacts.is_empty()) {
            headline.failovers.extend(failovers(runs));
        } else {
            headline.gains.extend(gains(runs));
        }
    }
    headline.gains.truncate(MOST);
    headline.failovers.truncate(MOST);
    Some(headline)
}

/// The runs with equal keys; no group is empty.
fn grouped<'a, K: PartialEq>(
    runs: impl IntoIterator<Item = &'a RunRecord>,
    key: impl Fn(&'a RunRecord) -> K,
) -> Vec<Vec<&'a RunRecord>> {
    let mut groups: Vec<Vec<&RunRecord>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| key(group[0]) == key(run)) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// The runs of one variant and pattern by label.
fn by_label<'a>(runs: &[&'a RunRecord]) -> Vec<(&'a str, Vec<&'a RunRecord>)> {
    let groups = grouped(runs.iter().copied(), |run| &run.label).into_iter();
    let mut labels: Vec<_> = groups.map(|of_label| (of_label[0].label.as_str(), of_label)).collect();
    labels.sort_by_key(|(label, of_label)| (of_label[0].transport, *label));
    labels
}

/// Completed valid runs: repetition → goodput in a direction, Mbit/s.
fn goodputs(runs: &[&RunRecord], direction: Direction) -> BTreeMap<u32, f64> {
    let of_direction = |run: &&RunRecord| {
        let record = run.directions.iter().find(|one| one.direction == direction)?;
        Some((run.repetition, record.goodput_mbps.filter(|mbps| mbps.is_finite() && *mbps > 0.0)?))
    };
    runs.iter().filter(|run| run.valid && run.completed).filter_map(of_direction).collect()
}

fn gains(runs: &[&RunRecord]) -> Vec<Gain> {
    let is_throughput = runs.iter().any(|run| run.pattern.split('-').next() == Some("throughput"));
    if !is_throughput {
        return Vec::new();
    }
    let labels = by_label(runs);
    let of_direction = |direction: Direction| {
        let labels = &labels;
        let asked = runs.iter().any(|run| run.directions.iter().any(|one| one.direction == direction));
        let multipath = labels.iter().filter(move |(_, runs)| asked && runs[0].transport.is_multipath());
        multipath.map(move |(label, runs)| gain(label, runs, labels, direction))
    };
    [Direction::Download, Direction::Upload].into_iter().flat_map(of_direction).collect()
}

fn gain(label: &str, runs: &[&RunRecord], labels: &[(&str, Vec<&RunRecord>)], direction: Direction) -> Gain {
    let single = single_path(runs[0].transport);
    let alone: Vec<(&str, BTreeMap<u32, f64>, Option<String>)> = labels
        .iter()
        .filter(|(_, runs)| runs[0].transport == single)
        .map(|(label, runs)| (*label, goodputs(runs, direction), path_of(label, runs)))
        .collect();
    let measured: BTreeSet<&str> = alone
        .iter()
        .filter(|(_, goodputs, _)| !goodputs.is_empty())
        .filter_map(|(_, _, path)| path.as_deref())
        .collect();
    let not_alone: Vec<String> =
        known_paths(labels).into_iter().filter(|path| !measured.contains(path.as_str())).collect();
    let median_of = |goodputs: &BTreeMap<u32, f64>| median(&goodputs.values().copied().collect::<Vec<_>>());
    let best = alone
        .iter()
        .filter_map(|(label, goodputs, _)| Some((*label, goodputs, median_of(goodputs)?)))
        .max_by(|(_, _, a), (_, _, b)| a.total_cmp(b));
    let together = goodputs(runs, direction);
    let used = runs.iter().filter(|run| together.contains_key(&run.repetition) && counts(run)).count();
    let pairs: Vec<f64> = best
        .map(|(_, base, _)| base)
        .into_iter()
        .flatten()
        .filter_map(|(repetition, base)| Some((together.get(repetition)? / base).ln()))
        .collect();
    let estimate = paired(&pairs).filter(|_| not_alone.is_empty() && used > 0);
    let rule = Rule::of_ratios(MARGIN);
    let verdict = estimate.as_ref().map(|estimate| judge(estimate, rule));
    Gain {
        variant: runs[0].variant.clone(),
        pattern: runs[0].pattern.clone(),
        direction,
        label: label.to_owned(),
        runs: count(together.len()),
        multipath_used: count(used),
        best_single: best.map(|(label, _, _)| label.to_owned()),
        not_alone,
        pairs: count(pairs.len()),
        ratio: estimate.as_ref().map(|estimate| estimate.shift.exp()),
        ci95: estimate.as_ref().and_then(|one| one.ci95).map(|interval| interval.map(f64::exp)),
        verdict,
        pairs_needed: estimate
            .filter(|_| verdict == Some(Verdict::CannotTell))
            .and_then(|estimate| repetitions_needed(&estimate, rule)),
        limited_by: limited_by(runs, direction),
    }
}

/// The first named limit of at least half of the runs.
fn limited_by(runs: &[&RunRecord], direction: Direction) -> Option<String> {
    let runs: Vec<&&RunRecord> = runs.iter().filter(|run| run.valid && run.completed).collect();
    let first = |run: &&&RunRecord| {
        let limit = run.limits.iter().find(|limit| limit.named && limit.direction == direction)?;
        Some(limit.kind)
    };
    let mut kinds: BTreeMap<_, usize> = BTreeMap::new();
    for kind in runs.iter().filter_map(first) {
        *kinds.entry(kind).or_default() += 1;
    }
    let (kind, count) = kinds.into_iter().max_by_key(|(_, count)| *count)?;
    (2 * count >= runs.len()).then(|| kind.words().to_owned())
}

fn counts(run: &RunRecord) -> bool {
    run.valid && run.completed && run.multipath.used
}

const fn single_path(transport: Transport) -> Transport {
    if transport.is_quic() { Transport::Quic } else { Transport::Tcp }
}

/// The path that a single-path label names, or on which its runs were: the one path with data.
fn path_of(label: &str, runs: &[&RunRecord]) -> Option<String> {
    let named = label.parse::<TransportLabel>().ok().and_then(|label| label.path);
    named.or_else(|| runs.iter().find_map(|run| run.paths.first()).map(|path| path.name.clone()))
}

/// All paths of the runs of one variant and pattern.
fn known_paths(labels: &[(&str, Vec<&RunRecord>)]) -> BTreeSet<String> {
    let named = labels.iter().filter_map(|(label, _)| label.parse::<TransportLabel>().ok()?.path);
    let runs = labels.iter().flat_map(|(_, runs)| runs);
    let seen = runs.flat_map(|run| &run.paths).map(|path| path.name.clone());
    named.chain(seen).collect()
}

fn failovers(runs: &[&RunRecord]) -> Vec<Failover> {
    let longest = |run: &RunRecord| run.impacts.iter().filter_map(|impact| impact.stall_ms).reduce(f64::max);
    let of_label = |(label, runs): (&str, Vec<&RunRecord>)| {
        let touched: Vec<&RunRecord> =
            runs.into_iter().filter(|run| run.valid && !run.impacts.is_empty()).collect();
        let (completed, failed): (Vec<&RunRecord>, Vec<&RunRecord>) =
            touched.iter().copied().partition(|run| run.completed);
        let stalls: Vec<f64> = completed.iter().filter_map(|run| longest(run)).collect();
        let first = touched.first()?;
        Some(Failover {
            variant: Variant::clone(&first.variant),
            pattern: first.pattern.clone(),
            label: label.to_owned(),
            runs: count(touched.len()),
            failed: count(failed.len()),
            stall_ms: median(&stalls),
        })
    };
    by_label(runs).into_iter().filter_map(of_label).collect()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
