//! What a disruptive event did: dip, recovery and stall.

use super::curve::Curve;
use super::phase::{Moment, name};
use super::stall::Stalls;
use super::window::Window;
use super::{LONGEST_BASELINE, Measurement, SHORTEST_BASELINE, SHORTEST_RECOVERY_PHASE, STAY, STEP, WINDOW};
use crate::document::Impact;
use crate::time::Timestamp;
use std::time::Duration;

/// Goodput counts as recovered from this part of what the end of the phase gives.
const RECOVERED: f64 = 0.9;

/// A single window below this part is another dip, not a fluctuation.
const FLUCTUATION: f64 = 0.5;

/// A window counts at most for this much, so that data held back during an outage and released at once (by
/// the receiver's reordering queue) cannot make up for goodput that is still low.
const BURST: f64 = 1.25;

/// One impact per disruptive event, in order; says in `notes` why a figure is missing.
pub(super) fn impacts(
    measurement: &Measurement<'_>,
    curve: &Curve,
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
            let phase = Window { from, until };
            let baseline = baseline(previous.map(|previous| previous.until), moment.from, window);
            let dip = dip(curve, stalls, baseline, phase);
            impact.dip = dip.map_err(|why| missing("dip", why)).ok();
            let recovered_at = recovery(curve, phase).map_err(|why| missing("recovery", why)).ok();
            impact.recovery_ms = recovered_at.map(|at| at.ms_from(event.at));
            impact.stall_ms = Some(stalls.longest_ms_begun_in(event.at, next));
            impacts.push(impact);
        }
    }
    impacts
}

/// What the dip is compared with: up to 2 s before the event, back to the previous event or the begin.
fn baseline(previous: Option<Timestamp>, event: Timestamp, window: Window) -> Window {
    let earliest = previous.map_or(window.from, |previous| previous.max(window.from));
    Window { from: earliest.max(event - LONGEST_BASELINE), until: event }
}

/// Where a window may begin so that it lies within `phase`. Beyond the last byte, where one is like the other,
/// only the first.
fn positions(curve: &Curve, phase: Window) -> impl Iterator<Item = Timestamp> + use<> {
    let silent = curve.end().map_or(phase.from, |end| end.max(phase.from)) + WINDOW + STEP;
    let room = phase.until.min(silent).since(phase.from);
    let steps = room.checked_sub(WINDOW).map(|slack| slack.as_nanos() / STEP.as_nanos());
    // More steps than bins there are only in a record from another machine that contradicts itself.
    let most = curve.bins() as u128 + WINDOW.as_nanos() / STEP.as_nanos() + 2;
    let count = steps.map_or(0, |steps| (steps + 1).min(most) as u64);
    (0..count).map(move |step| phase.from + Duration::from_nanos(step * STEP.as_nanos() as u64))
}

fn dip(curve: &Curve, stalls: &Stalls, baseline: Window, phase: Window) -> Result<f64, String> {
    if baseline.until.since(baseline.from) < SHORTEST_BASELINE {
        return Err(format!(
            "less than {} ms of data between it and what was before it",
            SHORTEST_BASELINE.as_millis()
        ));
    }
    let before = baseline.mbps(curve.between(baseline.from, baseline.until)).unwrap_or_default();
    if before <= 0.0 {
        return Err("nothing was delivered before it".to_owned());
    }
    let mut windows = positions(curve, phase).peekable();
    if windows.peek().is_none() {
        return Err(format!("its phase lasted less than {} ms", WINDOW.as_millis()));
    }
    // A window in which the sender had nothing to send at some moment says nothing about the network.
    let lowest = windows
        .filter(|&from| stalls.outstanding_throughout(from, from + WINDOW))
        .map(|from| rate(curve, from))
        .fold(before, f64::min);
    Ok((1.0 - lowest / before).clamp(0.0, 1.0))
}

/// The moment from which goodput stays at what the surviving paths give at the end of the phase.
fn recovery(curve: &Curve, phase: Window) -> Result<Timestamp, String> {
    let length = phase.until.since(phase.from);
    if length < SHORTEST_RECOVERY_PHASE {
        let least = SHORTEST_RECOVERY_PHASE.as_millis();
        return Err(format!("its phase lasted {} ms, {least} ms are needed", length.as_millis()));
    }
    let tail = phase.until - (length / 2).clamp(STAY, Duration::from_secs(1));
    let end = Window { from: tail, until: phase.until };
    let target = end.mbps(curve.between(end.from, end.until)).unwrap_or_default();
    if target <= 0.0 {
        return Err("nothing was delivered at the end of its phase".to_owned());
    }
    // A window begins with a byte: the end of an outage is known exactly, not to the step.
    let mut from = phase.from;
    while let Some(candidate) = curve.next_byte(from).filter(|&at| phase.until.since(at) >= STAY) {
        if stays(curve, candidate, target) {
            return Ok(candidate);
        }
        from = candidate + STEP;
    }
    Err(format!("goodput never stayed at that of the end of its phase, {target:.1} Mbit/s"))
}

/// Whether goodput is at its target from `from` on, over [`STAY`].
fn stays(curve: &Curve, from: Timestamp, target: f64) -> bool {
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

/// Goodput in Mbit/s of the window that begins at `from`.
fn rate(curve: &Curve, from: Timestamp) -> f64 {
    let window = Window { from, until: from + WINDOW };
    window.mbps(curve.between(window.from, window.until)).unwrap_or_default()
}
