//! What a disruptive event did: dip, recovery and stall.

use super::phase::{Moment, name};
use super::stall::Stalls;
use super::{LONGEST_BASELINE, Measurement, SHORTEST_BASELINE, SHORTEST_RECOVERY_PHASE, STAY, STEP, WINDOW};
use crate::binning::{ByteCurve, Window};
use pathbench_record::document::Impact;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Goodput counts as recovered from this part of what can be reached; what stays above it is no dip.
const RECOVERED: f64 = 0.9;

/// A single window below this part is another dip, not a fluctuation.
const FLUCTUATION: f64 = 0.5;

/// A window counts at most for this much, so that data held back during an outage and released at once (by
/// the receiver's reordering queue) cannot make up for goodput that is still low.
const BURST: f64 = 1.25;

/// Windows looked at in a phase; more are only in a record that contradicts itself.
const MOST_WINDOWS: u64 = 1_000_000;

/// One impact per disruptive event, in order; says in `notes` why a figure is missing.
pub(super) fn impacts(
    measurement: &Measurement<'_>,
    curve: &ByteCurve,
    stalls: &Stalls,
    window: Option<Window>,
    moments: &[Moment<'_>],
    notes: &mut Vec<String>,
) -> Vec<Impact> {
    let mut impacts = Vec::new();
    for (index, moment) in moments.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|before| moments.get(before));
        let next = moments.get(index + 1).map(|next| next.from);
        for event in moment.events.iter().filter(|event| event.disruptive) {
            let mut impact = Impact {
                direction: measurement.direction,
                kind: event.kind.clone(),
                path: event.path.clone(),
                at_ms: event.at.ms_from(measurement.origin),
                before_mbps: None,
                settled_mbps: None,
                dip: None,
                recovery_ms: None,
                stall_ms: None,
            };
            let mut missing = |figure: &str, why: String| {
                let (direction, at_ms) = (measurement.direction.name(), impact.at_ms);
                notes.push(format!("{direction}: no {figure} for `{}` at {at_ms:.0} ms: {why}", name(event)));
            };
            let Some(window) = window.filter(|window| event.at < window.until) else {
                missing("impact", "no data was to be delivered after it".to_owned());
                impacts.push(impact);
                continue;
            };
            let from = event.at.max(window.from);
            let until = next.map_or(window.until, |next| next.min(window.until)).max(from);
            let baseline = baseline(previous.map(|previous| previous.until), moment.from, window);
            let dent = Dent::of(curve, stalls, baseline, Window { from, until });
            impact.before_mbps = dent.before.as_ref().ok().copied();
            impact.settled_mbps = dent.settled.as_ref().ok().copied();
            impact.recovery_ms = match (&dent.depth, &dent.recovered_at) {
                // What did not fall has nothing to recover from.
                (Ok(depth), Ok(_)) if !depth.is_dip() => Some(0.0),
                (_, recovered_at) => recovered_at.as_ref().ok().map(|at| at.ms_from(event.at)),
            };
            impact.dip = dent.depth.map_err(|why| missing("dip", why)).ok().map(Depth::dip);
            if let Err(why) = dent.recovered_at {
                missing("recovery", why);
            }
            impact.stall_ms = Some(stalls.longest_ms_begun_in(event.at, next));
            impacts.push(impact);
        }
    }
    impacts
}

/// How far goodput fell, as the part of what can be reached that was left.
#[derive(Debug, Clone, Copy)]
struct Depth(f64);

impl Depth {
    fn dip(self) -> f64 {
        (1.0 - self.0).clamp(0.0, 1.0)
    }

    fn is_dip(self) -> bool {
        self.0 < RECOVERED
    }
}

/// What an event did to goodput, or why that cannot be said.
struct Dent {
    /// Mean before the event, Mbit/s.
    before: Result<f64, String>,
    settled: Result<f64, String>,
    depth: Result<Depth, String>,
    recovered_at: Result<Timestamp, String>,
}

impl Dent {
    fn of(curve: &ByteCurve, stalls: &Stalls, baseline: Window, phase: Window) -> Self {
        let (before, settled) = (before(curve, baseline), settled(curve, phase));
        // A path less is less goodput for as long as it is away: no dip, and nothing that is recovered from.
        let known = before.iter().chain(&settled);
        let reachable = known.copied().reduce(f64::min).unwrap_or_default();
        let recovered_at = settled.clone().and_then(|_| recovery(curve, phase, reachable));
        let searched = recovered_at.as_ref().map_or(phase.until, |at| (*at + WINDOW).min(phase.until));
        let searched = Window { from: phase.from, until: searched };
        let depth = before.clone().and_then(|_| lowest(curve, stalls, searched, reachable));
        Self { before, settled, depth: depth.map(|lowest| Depth(lowest / reachable)), recovered_at }
    }
}

/// Up to 2 s before the event, back to the previous event or the begin.
fn baseline(previous: Option<Timestamp>, event: Timestamp, window: Window) -> Window {
    let earliest = previous.map_or(window.from, |previous| previous.max(window.from));
    Window { from: earliest.max(event - LONGEST_BASELINE), until: event }
}

fn before(curve: &ByteCurve, baseline: Window) -> Result<f64, String> {
    if baseline.until.since(baseline.from) < SHORTEST_BASELINE {
        return Err(format!(
            "less than {} ms of data between it and what was before it",
            SHORTEST_BASELINE.as_millis()
        ));
    }
    let before = baseline.mbps(curve.between(baseline.from, baseline.until)).unwrap_or_default();
    if before > 0.0 { Ok(before) } else { Err("nothing was delivered before it".to_owned()) }
}

fn settled(curve: &ByteCurve, phase: Window) -> Result<f64, String> {
    let length = phase.until.since(phase.from);
    if length < SHORTEST_RECOVERY_PHASE {
        let least = SHORTEST_RECOVERY_PHASE.as_millis();
        return Err(format!("its phase lasted {} ms, {least} ms are needed", length.as_millis()));
    }
    let tail = phase.until - (length / 2).clamp(STAY, Duration::from_secs(1));
    let end = Window { from: tail, until: phase.until };
    let settled = end.mbps(curve.between(end.from, end.until)).unwrap_or_default();
    if settled > 0.0 { Ok(settled) } else { Err("nothing was delivered at the end of its phase".to_owned()) }
}

/// The lowest goodput of any window in `searched`, but not above `reachable`.
fn lowest(curve: &ByteCurve, stalls: &Stalls, searched: Window, reachable: f64) -> Result<f64, String> {
    let mut windows = positions(curve, searched).peekable();
    if windows.peek().is_none() {
        return Err(format!("its phase lasted less than {} ms", WINDOW.as_millis()));
    }
    // A window in which the sender had nothing to send at some moment says nothing about the network.
    let lowest = windows
        .filter(|&from| stalls.outstanding_throughout(from, from + WINDOW))
        .map(|from| rate(curve, from))
        .fold(reachable, f64::min);
    Ok(lowest)
}

/// Where a window may begin so that it lies within `searched`. Beyond the last byte, where one is like the other,
/// only the first.
fn positions(curve: &ByteCurve, searched: Window) -> impl Iterator<Item = Timestamp> + use<> {
    let silent = curve.end().map_or(searched.from, |end| end.max(searched.from)) + WINDOW + STEP;
    let length = searched.until.min(silent).since(searched.from);
    let steps = length.checked_sub(WINDOW).map(|slack| slack.as_nanos() / STEP.as_nanos());
    let count = steps.map_or(0, |steps| u64::try_from(steps).map_or(MOST_WINDOWS, |steps| steps + 1));
    (0..count.min(MOST_WINDOWS))
        .map(move |step| searched.from + Duration::from_nanos(step * STEP.as_nanos() as u64))
}

fn recovery(curve: &ByteCurve, phase: Window, reachable: f64) -> Result<Timestamp, String> {
    // A window begins with a byte: the end of an outage is known exactly, not to the step.
    let mut from = phase.from;
    // A bin of 10 ms has two candidates at most; a stretch that has more is in a record that contradicts itself.
    for _ in 0..=2 * curve.stretches() {
        let candidate = curve.next_byte(from).filter(|&at| phase.until.since(at) >= STAY);
        let Some(candidate) = candidate else { break };
        if stays(curve, candidate, reachable) {
            return Ok(candidate);
        }
        from = candidate + STEP;
    }
    Err(format!("goodput never stayed at {reachable:.1} Mbit/s"))
}

fn stays(curve: &ByteCurve, from: Timestamp, target: f64) -> bool {
    let count = STAY.as_nanos() / WINDOW.as_nanos();
    let parts: Vec<f64> = (0..count)
        .map(|index| {
            let offset = Duration::from_nanos((index * WINDOW.as_nanos()) as u64);
            rate(curve, from + offset) / target
        })
        .collect();
    let mean = parts.iter().map(|part| part.min(BURST)).sum::<f64>() / count as f64;
    parts.first().is_some_and(|&first| first >= RECOVERED)
        && mean >= RECOVERED
        && parts.iter().all(|&part| part >= FLUCTUATION)
        // The windows that follow each other miss a silence that lies across two of them.
        && curve.longest_silence(from, from + STAY) < WINDOW
}

fn rate(curve: &ByteCurve, from: Timestamp) -> f64 {
    let window = Window { from, until: from + WINDOW };
    window.mbps(curve.between(window.from, window.until)).unwrap_or_default()
}
