//! Returns of paths to service, and whether traffic came back to them.

use crate::run_data::{RunData, ZERO, path_curves};
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use pathbench_record::event::{Event, EventKind};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use std::collections::BTreeMap;

/// Growth of a byte counter without data: the kernel counts SYN and FIN as one byte each.
const CONTROL_BYTES: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    CameBack { after_ms: f64, new_subflow: bool },
    BackOff { rto_ms: f64 },
    Closed,
    Idle,
    Absent,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Restoration {
    pub(crate) path: String,
    /// The number of earlier returns of the path.
    pub(crate) before: usize,
    pub(crate) kind: EventKind,
    /// The time to the next event on the path or the last sample of the run.
    pub(crate) watched_ms: f64,
    pub(crate) fate: Fate,
}

pub(crate) const fn restores(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Up | EventKind::Restore | EventKind::AddAddress)
}

/// The returns of paths in the run, and whether traffic returned to them.
pub(crate) fn restorations(run: &RunRecord, data: &RunData) -> Vec<Restoration> {
    if !run.completed && !run.multipath.requested {
        return Vec::new();
    }
    let concerned = |path: &str| run.multipath.requested || data.samples.iter().any(|line| line.path == path);
    let end_ms = data.gave_up_ms().unwrap_or(f64::INFINITY);
    let events: Vec<&Event> = data.scenario_events().filter(|event| event.t_ms < end_ms).collect();
    let mut found = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let Some(path) = event.path.as_deref().filter(|path| restores(&event.kind) && concerned(path)) else {
            continue;
        };
        let next = events.iter().skip(index + 1).find(|later| later.path.as_deref() == Some(path));
        let last_sample = data.samples.last().map_or(event.t_ms, |sample| sample.t_ms);
        let until_ms = next.map_or(last_sample, |later| later.t_ms).max(event.t_ms);
        found.push(Restoration {
            path: path.to_owned(),
            before: found.iter().filter(|one: &&Restoration| one.path == path).count(),
            kind: event.kind.clone(),
            watched_ms: until_ms - event.t_ms,
            fate: fate(run, data, path, event.t_ms, until_ms),
        });
    }
    found
}

fn fate(run: &RunRecord, data: &RunData, path: &str, at_ms: f64, until_ms: f64) -> Fate {
    let on_path: Vec<&Sample> =
        data.samples.iter().filter(|line| line.path == path && line.t_ms <= until_ms).collect();
    let grown = [Side::Client, Side::Server]
        .into_iter()
        .filter_map(|side| first_growth(&on_path, side, at_ms))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((t_ms, new_subflow)) = grown {
        return Fate::CameBack { after_ms: t_ms - at_ms, new_subflow };
    }
    let last = last_of_each_subflow(run, &on_path);
    if last.is_empty() {
        return Fate::Absent;
    }
    // A subflow without further samples is closed, regardless of its last sampled state.
    let is_closed = |sample: &Sample| sample.figures.state == PathState::Closed || sample.t_ms < at_ms;
    let alive: Vec<&Sample> = last.into_iter().filter(|sample| !is_closed(sample)).collect();
    let waiting = alive.iter().filter(|sample| sample.figures.backoff > 0);
    let waiting = waiting.max_by(|a, b| a.figures.rto_ms.total_cmp(&b.figures.rto_ms));
    match (alive.is_empty(), waiting) {
        (true, _) => Fate::Closed,
        (false, Some(sample)) => Fate::BackOff { rto_ms: sample.figures.rto_ms },
        (false, None) => Fate::Idle,
    }
}

/// The time of the first sample of `side` after `at_ms` with new data, and whether a new subflow carried it.
fn first_growth(on_path: &[&Sample], side: Side, at_ms: f64) -> Option<(f64, bool)> {
    let of_side = || on_path.iter().copied().filter(move |line| line.side == side);
    let counters: [fn(&PathFigures) -> u64; 2] =
        [|figures| figures.bytes_received, PathFigures::payload_acked];
    let grown = |counter| {
        let curves = path_curves(of_side(), counter);
        // The last sample before the return of the path, without interpolation to the next one.
        let before_ms = of_side().map(|line| line.t_ms).take_while(|t_ms| *t_ms <= at_ms).last();
        let total = |t_ms: f64| curves.values_at(ZERO.plus_ms(t_ms)).values().sum::<f64>();
        let before = before_ms.map_or(0.0, total);
        let times = of_side().map(|line| line.t_ms).filter(|t_ms| *t_ms > at_ms);
        times.into_iter().find(|t_ms| total(*t_ms) > before + CONTROL_BYTES)
    };
    let t_ms = counters.into_iter().filter_map(grown).min_by(f64::total_cmp)?;
    let known = |id: u32| of_side().any(|line| line.t_ms <= at_ms && line.figures.subflow == id);
    let new = of_side().any(|line| line.t_ms.total_cmp(&t_ms).is_eq() && !known(line.figures.subflow));
    Some((t_ms, new))
}

fn last_of_each_subflow<'a>(run: &RunRecord, on_path: &[&'a Sample]) -> Vec<&'a Sample> {
    let sends = |side: Side| {
        let direction = if side == Side::Client { Direction::Upload } else { Direction::Download };
        run.directions.is_empty() || run.directions.iter().any(|one| one.direction == direction)
    };
    let last_where = |wanted: &dyn Fn(Side) -> bool| {
        let mut last = BTreeMap::new();
        for sample in on_path.iter().filter(|sample| wanted(sample.side)) {
            last.insert((sample.side, sample.stream, sample.figures.subflow), *sample);
        }
        last.into_values().collect::<Vec<_>>()
    };
    let sending = last_where(&sends);
    if sending.is_empty() { last_where(&|_| true) } else { sending }
}
