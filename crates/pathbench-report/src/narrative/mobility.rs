//! Handovers, and the return of traffic to a restored path, in words.

use super::event::in_words;
use crate::list::grouped;
use crate::quantity::{counted, duration, spread};
use crate::series::{ZERO, path_curves};
use crate::view::{GroupView, RunData, View};
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverReason, HandoverRecord, RunRecord};
use pathbench_record::event::{Event, EventKind};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use std::collections::BTreeMap;

pub(crate) const fn reason_title(reason: HandoverReason) -> &'static str {
    match reason {
        HandoverReason::RttThreshold => "smoothed RTT over 600 ms",
        HandoverReason::UnderRto => "in retransmission timeout",
        HandoverReason::RtoThreshold => "RTO over 1500 ms",
        HandoverReason::Other => "other",
    }
}

fn because(handover: &HandoverRecord) -> String {
    let HandoverRecord { from, srtt_ms, rto_ms, .. } = handover;
    let (srtt, rto) = (duration(*srtt_ms), duration(*rto_ms));
    match handover.reason {
        HandoverReason::RttThreshold => format!("the smoothed RTT of {from} was {srtt}, over 600 ms"),
        HandoverReason::UnderRto => format!("{from} was in retransmission timeout (RTO {rto})"),
        HandoverReason::RtoThreshold => {
            format!("the retransmission timeout of {from} was {rto}, over 1500 ms")
        }
        HandoverReason::Other => {
            format!("neither RTT ({srtt}) nor retransmission timeout ({rto}) of {from} explains it")
        }
    }
}

fn overlap(handover: &HandoverRecord) -> Option<String> {
    let received = handover.duration_received_ms?;
    Some(if received < 0.0 {
        format!("abrupt: no packet had arrived over {} for {}", handover.from, duration(-received))
    } else {
        format!("packets still arrived over {} for {}", handover.from, duration(received))
    })
}

pub(crate) fn of_run(handover: &HandoverRecord) -> String {
    let mut parts = vec![format!(
        "{} came into use at {}: {}",
        handover.to,
        duration(handover.began_ms),
        because(handover)
    )];
    parts.extend(overlap(handover));
    parts.extend(handover.remark.clone());
    parts.join("; ")
}

pub(crate) fn of_group<'a>(group: &GroupView<'a>) -> Vec<(&'a RunRecord, &'a HandoverRecord)> {
    group.valid_runs().filter_map(|run| Some((run, run.handover.as_ref()?))).collect()
}

pub(super) fn details(group: &GroupView) -> Vec<String> {
    let handovers = of_group(group);
    let Some((_, first)) = handovers.first() else { return Vec::new() };
    if let ([(_, only)], 1) = (handovers.as_slice(), group.valid()) {
        return vec![of_run(only)];
    }
    let mut reasons: BTreeMap<HandoverReason, usize> = BTreeMap::new();
    for (_, handover) in &handovers {
        *reasons.entry(handover.reason).or_default() += 1;
    }
    let reasons: Vec<String> =
        reasons.into_iter().map(|(reason, runs)| format!("{} in {runs}", reason_title(reason))).collect();
    let mut sentences = vec![format!(
        "{} came into use in {} of {}; {}: {}",
        first.to,
        handovers.len(),
        counted(group.valid(), "run"),
        first.from,
        reasons.join(", ")
    )];
    let received: Vec<f64> = handovers.iter().filter_map(|(_, one)| one.duration_received_ms).collect();
    let smooth: Vec<f64> = received.iter().copied().filter(|ms| *ms >= 0.0).collect();
    let abrupt = received.len() - smooth.len();
    let mut parts = Vec::new();
    if let Some(spread) = spread(&smooth, duration) {
        parts.push(format!("packets still arrived over {} for {spread}", first.from));
    }
    if abrupt > 0 {
        parts.push(format!("abrupt in {abrupt} of {}", counted(handovers.len() as u32, "handover")));
    }
    if !parts.is_empty() {
        sentences.push(parts.join("; "));
    }
    sentences
}

/// Growth of a byte counter without data: the kernel counts SYN and FIN as one byte each.
const CONTROL_BYTES: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    CameBack { after_ms: f64, new_subflow: bool },
    BackOff { rto_ms: f64 },
    Closed,
    Idle,
    Absent,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Restoration {
    path: String,
    /// The number of earlier returns of the path.
    before: usize,
    kind: EventKind,
    /// The time to the next event on the path or the last sample of the run.
    watched_ms: f64,
    fate: Fate,
}

const fn restores(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Up | EventKind::Restore | EventKind::AddAddress)
}

/// The returns of paths in the run, and whether traffic returned to them.
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

pub(crate) fn sentences(view: &View, group: &GroupView) -> Vec<String> {
    let sampled = group.valid_runs().any(|run| !view.data(run).samples.is_empty());
    let of_run = |run| view.restorations(run);
    let all = group.valid_runs().filter(|_| sampled).flat_map(of_run);
    let mut returns = grouped(all, |one| (one.path.clone(), one.before));
    returns.sort_by(|a, b| a.0.cmp(&b.0));
    returns.iter().filter_map(|(_, all)| sentence(all, group.is_quic())).collect()
}

fn sentence(all: &[Restoration], is_quic: bool) -> Option<String> {
    let first = all.first()?;
    let path = &first.path;
    let event = in_words(&first.kind, Some("it"));
    let back = all.iter().filter_map(|one| match one.fate {
        Fate::CameBack { after_ms, new_subflow } => Some((after_ms, new_subflow)),
        _ => None,
    });
    let (after, new): (Vec<f64>, Vec<bool>) = back.unzip();
    let by = match is_quic {
        _ if new.is_empty() || new.contains(&false) => "",
        true => ", on a new QUIC path",
        false => ", on a new subflow",
    };
    let reason = all.iter().find_map(|one| reason(one.fate, is_quic));
    let watched: Vec<f64> = all.iter().map(|one| one.watched_ms).collect();
    match (spread(&after, duration), reason) {
        (Some(after), None) => Some(format!("traffic was back on {path} {after} after {event}{by}")),
        (Some(spread), Some(reason)) => Some(format!(
            "traffic was back on {path} {spread} after {event}{by} in {} of {}; elsewhere {reason}",
            after.len(),
            counted(all.len() as u32, "run"),
        )),
        (None, reason) => Some(format!(
            "traffic did not return to {path} in the {} after {event}: {}",
            spread(&watched, duration)?,
            reason?,
        )),
    }
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
            "a QUIC path was open, but the scheduler sent no data on it".to_owned(),
            "a subflow was open, but the transport sent no data on it".to_owned(),
        ),
        Fate::Absent => (
            "the connection had no QUIC path on it".to_owned(),
            "the connection had no subflow on it".to_owned(),
        ),
    };
    Some(if is_quic { of_quic } else { of_mptcp })
}
