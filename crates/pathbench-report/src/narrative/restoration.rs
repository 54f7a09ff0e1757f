//! Whether traffic returned to a path that came back, and why not.

use crate::quantity::{counted, duration, spread};
use crate::series::{ZERO, path_curves};
use crate::view::{GroupView, RunData, View};
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use pathbench_record::event::{Event, EventKind};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;

/// Growth of a byte counter up to this is no traffic: the kernel counts SYN and FIN as a byte each.
const CONTROL_BYTES: f64 = 2.0;

/// The state of a path after the event that restored it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    CameBack {
        /// Event → first sample in which a byte counter of the path had grown.
        after_ms: f64,
        new_subflow: bool,
    },
    BackOff {
        /// The timeout in force at the last sample.
        rto_ms: f64,
    },
    /// Its subflow had been closed before, and none came in its place.
    Closed,
    /// A subflow was open and the transport gave it nothing to carry.
    Idle,
    Absent,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Restoration {
    pub path: String,
    /// The event's kind: `up`, `restore` or `add-address`.
    pub kind: EventKind,
    pub at_ms: f64,
    /// How long was watched for traffic: to the next event on the path or the last sample of the run.
    pub watched_ms: f64,
    pub fate: Fate,
}

const fn restores(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Up | EventKind::Restore | EventKind::AddAddress)
}

/// Every return of a path during `run`. Empty for a connection that is not multipath and died.
pub(crate) fn restorations(run: &RunRecord, data: &RunData) -> Vec<Restoration> {
    if !run.completed && !run.multipath.requested {
        return Vec::new();
    }
    let concerned = |path: &str| run.multipath.requested || data.samples.iter().any(|line| line.path == path);
    let events: Vec<&Event> = data.scenario_events().collect();
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
            kind: event.kind.clone(),
            at_ms: event.t_ms,
            watched_ms: until_ms - event.t_ms,
            fate: fate(run, data, path, event.t_ms, until_ms),
        });
    }
    found
}

fn fate(run: &RunRecord, data: &RunData, path: &str, at_ms: f64, until_ms: f64) -> Fate {
    let on_path: Vec<&Sample> =
        data.samples.iter().copied().filter(|line| line.path == path && line.t_ms <= until_ms).collect();
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
    // A subflow that is no longer sampled is gone, whatever its last sample says.
    let gone = |sample: &Sample| sample.figures.state == PathState::Closed || sample.t_ms < at_ms;
    let alive: Vec<&Sample> = last.into_iter().filter(|sample| !gone(sample)).collect();
    let waiting = alive.iter().filter(|sample| sample.figures.backoff > 0);
    let waiting = waiting.max_by(|a, b| a.figures.rto_ms.total_cmp(&b.figures.rto_ms));
    match (alive.is_empty(), waiting) {
        (true, _) => Fate::Closed,
        (false, Some(sample)) => Fate::BackOff { rto_ms: sample.figures.rto_ms },
        (false, None) => Fate::Idle,
    }
}

/// The first sample of `side` after `at_ms` in which data had moved, and whether on a subflow that is new.
fn first_growth(on_path: &[&Sample], side: Side, at_ms: f64) -> Option<(f64, bool)> {
    let of_side = || on_path.iter().copied().filter(move |line| line.side == side);
    let counters: [fn(&PathFigures) -> u64; 2] =
        [|figures| figures.bytes_received, PathFigures::payload_acked];
    let mut first: Option<f64> = None;
    for counter in counters {
        let curves = path_curves(of_side(), counter);
        // The sample in force when the path came back; not interpolated towards the first one after it.
        let before_ms = of_side().map(|line| line.t_ms).take_while(|t_ms| *t_ms <= at_ms).last();
        let total = |t_ms: f64| curves.at(ZERO.plus_ms(t_ms)).values().sum::<f64>();
        let before = before_ms.map_or(0.0, total);
        let times = of_side().map(|line| line.t_ms).filter(|t_ms| *t_ms > at_ms);
        let grown = times.into_iter().find(|t_ms| total(*t_ms) > before + CONTROL_BYTES);
        first = first.into_iter().chain(grown).min_by(f64::total_cmp);
    }
    let t_ms = first?;
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

/// What to say of a group's returns: one sentence per path and event.
pub(crate) fn sentences(view: &View, group: &GroupView) -> Vec<String> {
    let is_quic = matches!(group.transport(), Some(Transport::Quic | Transport::Mpquic));
    let sampled = group.valid_runs().any(|run| !view.data(run).samples.is_empty());
    if !sampled {
        return Vec::new();
    }
    let mut returns: BTreeMap<(String, usize), Vec<Restoration>> = BTreeMap::new();
    for run in group.valid_runs() {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for one in restorations(run, view.data(run)) {
            let nth = count.entry(one.path.clone()).or_insert(0);
            returns.entry((one.path.clone(), *nth)).or_default().push(one);
            *nth += 1;
        }
    }
    returns.values().filter_map(|all| sentence(all, is_quic)).collect()
}

fn sentence(all: &[Restoration], is_quic: bool) -> Option<String> {
    let first = all.first()?;
    let (path, event) = (&first.path, event_words(&first.kind));
    let mut after = Vec::new();
    let mut on_new = 0;
    for one in all {
        if let Fate::CameBack { after_ms, new_subflow } = one.fate {
            after.push(after_ms);
            on_new += usize::from(new_subflow);
        }
    }
    let by = if on_new > 0 && on_new == after.len() { on_a_new(is_quic) } else { "" };
    let reason = all.iter().find_map(|one| reason(one.fate, is_quic));
    let watched: Vec<f64> = all.iter().map(|one| one.watched_ms).collect();
    match (spread(&after, duration), reason) {
        (Some(after), None) => Some(format!("traffic was back on {path} {after} after it {event}{by}")),
        (Some(spread), Some(reason)) => Some(format!(
            "traffic was back on {path} {spread} after it {event}{by} in {} of {}; elsewhere {reason}",
            after.len(),
            counted(all.len() as u32, "run"),
        )),
        (None, reason) => Some(format!(
            "traffic did not return to {path} in the {} after it {event}: {}",
            spread(&watched, duration)?,
            reason?,
        )),
    }
}

const fn event_words(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Restore => "was restored",
        EventKind::AddAddress => "got its address back",
        _ => "came up",
    }
}

const fn on_a_new(is_quic: bool) -> &'static str {
    if is_quic { ", on a new QUIC path" } else { ", on a new subflow" }
}

fn reason(fate: Fate, is_quic: bool) -> Option<String> {
    let (of_quic, of_mptcp) = match fate {
        Fate::CameBack { .. } => return None,
        Fate::BackOff { rto_ms } => (
            format!("the path was still waiting for an answer to its probes (PTO {})", duration(rto_ms)),
            format!("the subflow was still in retransmission back-off (RTO {})", duration(rto_ms)),
        ),
        Fate::Closed => (
            "its QUIC path had been abandoned and was not opened again".to_owned(),
            "its subflow had been closed; the kernel does not re-create closed subflows".to_owned(),
        ),
        Fate::Idle => (
            "a QUIC path was open, but the scheduler gave it nothing to carry".to_owned(),
            "a subflow was open, but the transport gave it nothing to carry".to_owned(),
        ),
        Fate::Absent => (
            "the connection had no QUIC path on it".to_owned(),
            "the connection had no subflow on it".to_owned(),
        ),
    };
    Some(if is_quic { of_quic } else { of_mptcp })
}
