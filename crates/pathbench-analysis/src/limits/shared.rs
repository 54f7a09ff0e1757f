//! A bottleneck that all paths cross: over all paths together a transport has the rate that it has over one alone.

use super::order::{NAMED_SHARE, in_order};
use pathbench_record::direction::Direction;
use pathbench_record::document::{LimitKind, LimitRecord, RunRecord};
use pathbench_record::statistics::median;
use pathbench_record::transport::{Transport, TransportLabel};
use std::collections::{BTreeMap, BTreeSet};

/// Rate together ÷ rate of the best path alone, where the paths share their bottleneck.
const TOGETHER: std::ops::RangeInclusive<f64> = 0.75..=1.25;
/// Least sum of the rates alone ÷ rate together.
const ALONE: f64 = 1.5;
/// Fraction of the time in which the links hold each path back.
const BY_LINKS: f64 = 0.5;

/// Puts the shared bottleneck first in the limits of multipath runs whose rate it explains. It takes runs of the same
/// variant and pattern with each path alone.
pub fn name_shared_bottlenecks(runs: &mut [RunRecord]) {
    let mut found: Vec<(usize, LimitRecord)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let is_open = run.transport.is_multipath() && counts(run) && run.multipath.used;
        let directions = run.directions.iter().filter(|_| is_open && !run.limits.iter().any(|one| one.named));
        found.extend(
            directions
                .filter_map(|one| Some((index, bottleneck(run, one.direction, one.goodput_mbps?, runs)?))),
        );
    }
    for (index, limit) in found {
        let run = &mut runs[index];
        run.limits.push(limit);
        run.limits = in_order(std::mem::take(&mut run.limits));
        run.limited_by = run.limits.first().map(|first| first.kind.words().to_owned());
    }
}

const fn counts(run: &RunRecord) -> bool {
    run.valid && run.completed
}

fn bottleneck(run: &RunRecord, direction: Direction, mbps: f64, runs: &[RunRecord]) -> Option<LimitRecord> {
    let used: BTreeSet<&str> = by_links(run, direction).collect();
    let alone = rates_alone(run, direction, runs);
    let rates: Vec<f64> = used.iter().filter_map(|path| alone.get(*path).copied()).collect();
    let (sum, best) = (rates.iter().sum::<f64>(), rates.iter().copied().fold(0.0, f64::max));
    let all = run.paths.iter().filter(|path| path.share >= 0.01).count();
    let is_shared =
        rates.len() >= 2 && rates.len() == all && TOGETHER.contains(&(mbps / best)) && sum >= ALONE * mbps;
    is_shared.then(|| LimitRecord {
        direction,
        kind: LimitKind::SharedBottleneck,
        side: None,
        path: None,
        share: 1.0,
        named: true,
        because: format!(
            "the paths share a bottleneck: {sum:.1} Mbit/s is the sum of the paths alone, {best:.1} Mbit/s the best of them, \
             {mbps:.1} Mbit/s the rate over all together"
        ),
        remedy: None,
    })
}

/// The paths that the links held back most of the time.
fn by_links(run: &RunRecord, direction: Direction) -> impl Iterator<Item = &str> {
    let links = run.limits.iter().filter(move |one| {
        one.kind == LimitKind::CongestionWindow && one.direction == direction && one.share >= BY_LINKS
    });
    links.filter_map(|one| one.path.as_deref())
}

/// Path → median rate of the runs over this path alone, unless another limit than the links explains one of them.
fn rates_alone<'a>(run: &RunRecord, direction: Direction, runs: &'a [RunRecord]) -> BTreeMap<&'a str, f64> {
    let single = if run.transport.is_quic() { Transport::Quic } else { Transport::Tcp };
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for other in runs.iter().filter(|other| {
        let is_same = other.variant == run.variant && other.pattern == run.pattern;
        is_same && other.transport == single && counts(other)
    }) {
        if other.limits.iter().any(|one| one.named && one.share >= NAMED_SHARE) {
            return BTreeMap::new();
        }
        let on_path = other.paths.first().map(|path| path.name.as_str());
        let is_alone = other.label.parse::<TransportLabel>().is_ok();
        let of_direction = other.directions.iter().find(|one| one.direction == direction);
        if let (Some(path), Some(mbps), true) =
            (on_path, of_direction.and_then(|one| one.goodput_mbps), is_alone)
        {
            rates.entry(path).or_default().push(mbps);
        }
    }
    rates.into_iter().filter_map(|(path, rates)| Some((path, median(&rates)?))).collect()
}
