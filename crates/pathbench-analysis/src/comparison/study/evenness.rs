//! How evenly the runs of a group fill their paths.

use crate::comparison::description::jains_index;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DirectionFigures, Group, LinkRecord, RunRecord};
use pathbench_record::statistics::median;

/// The median of Jain's index over the valid runs of `group`; `None` unless each run has one.
pub(super) fn of_group(group: &Group, runs: &[RunRecord], links: &[LinkRecord]) -> Option<f64> {
    let is_member = |run: &&RunRecord| {
        run.valid && run.label == group.label && run.pattern == group.pattern && run.variant == group.variant
    };
    let all = runs.iter().filter(is_member).map(|run| of_run(run, links));
    median(&all.collect::<Option<Vec<f64>>>()?)
}

/// Jain's index of the bytes that arrived over each path ÷ the path's requested rate. `None` without a constant rate on each
/// path, and with data in both directions, because the bytes of a path are those of both.
fn of_run(run: &RunRecord, links: &[LinkRecord]) -> Option<f64> {
    let mut with_data = run.directions.iter().filter(|one| one.delivered_bytes > 0);
    let (direction, None) = (with_data.next()?.direction, with_data.next()) else { return None };
    if !run.impacts.is_empty() {
        return None;
    }
    let paths = run.paths.iter().map(|path| {
        let of_path = links.iter().filter(|link| is_of(link, run, &path.name));
        let asked = of_path.map(|link| match direction {
            Direction::Upload => &link.requested.forward,
            Direction::Download => &link.requested.reverse,
        });
        // A link without a limit does not limit a path whose other links have one.
        let constant = asked.map(|asked| has_constant_rate(asked).then_some(asked.rate_bps));
        let slowest = constant.collect::<Option<Vec<_>>>()?.into_iter().flatten().min()?;
        Some((path.bytes_delivered as f64, slowest as f64))
    });
    jains_index(&paths.collect::<Option<Vec<_>>>()?)
}

/// Whether `link` is of the run's variant and the path's link, or one of its inner links (`wlan.hop` of `wlan`).
fn is_of(link: &LinkRecord, run: &RunRecord, path: &str) -> bool {
    let of_variant = link.variant.iter().all(|(key, value)| run.variant.get(key) == Some(value));
    let rest = link.name.strip_prefix(path).filter(|_| !path.is_empty());
    of_variant && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn has_constant_rate(asked: &DirectionFigures) -> bool {
    !["rate_trace", "rate_steps"].iter().any(|key| asked.given.contains_key(*key))
}
