//! The impact of a disruptive event: dip, recovery and stall.

use super::measurement::{
    LONGEST_BASELINE, Measurement, SHORTEST_BASELINE, SHORTEST_RECOVERY_PHASE, STAY, STEP, WINDOW,
};
use super::phase::{Moment, name};
use super::stall::Stalls;
use crate::binning::{ByteCurve, Window};
use pathbench_record::document::Impact;
use pathbench_record::text::duration;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Goodput has recovered at this part of the reachable goodput; goodput above it is no dip.
const RECOVERED: f64 = 0.9;

/// A single window below this part is another dip, not a fluctuation.
const FLUCTUATION: f64 = 0.5;

/// Maximum part of the reachable goodput that a window counts for: data that the receiver's reordering queue held back
/// during an outage and released at once cannot compensate for goodput that is still low.
const BURST: f64 = 1.25;

/// Maximum number of windows in a phase; only a record that contradicts itself has more.
const MOST_WINDOWS: u64 = 1_000_000;

/// One impact per disruptive event, in order. `notes` gets the reason for each missing figure.
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
            let dent = Dent::measure(curve, stalls, baseline, Window { from, until });
            impact.before_mbps = dent.before.as_ref().ok().copied();
            impact.settled_mbps = dent.settled.as_ref().ok().copied();
            impact.recovery_ms = match (&dent.depth, &dent.recovered_at) {
                // Goodput without a dip needs no recovery.
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

/// The lowest goodput, as a part of the reachable goodput.
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

/// An event's effect on goodput, or the reason why it cannot be computed.
struct Dent {
    /// Mean before the event, Mbit/s.
    before: Result<f64, String>,
    settled: Result<f64, String>,
    depth: Result<Depth, String>,
    recovered_at: Result<Timestamp, String>,
}

impl Dent {
    fn measure(curve: &ByteCurve, stalls: &Stalls, baseline: Window, phase: Window) -> Self {
        let (before, settled) = (goodput_before(curve, baseline), settled(curve, phase));
        // The lower of both: goodput that is missing because a path is down is neither a dip nor a recovery.
        let known = before.iter().chain(&settled);
        let reachable = known.copied().reduce(f64::min).unwrap_or_default();
        let recovered_at = settled.clone().and_then(|_| recovery(curve, phase, reachable));
        let searched = recovered_at.as_ref().map_or(phase.until, |at| (*at + WINDOW).min(phase.until));
        let searched = Window { from: phase.from, until: searched };
        let depth = before.clone().and_then(|_| lowest(curve, stalls, searched, reachable));
        Self { before, settled, depth: depth.map(|lowest| Depth(lowest / reachable)), recovered_at }
    }
}

/// Up to 2 s before the event, but not before the previous event or the start.
fn baseline(previous: Option<Timestamp>, event: Timestamp, window: Window) -> Window {
    let earliest = previous.map_or(window.from, |previous| previous.max(window.from));
    Window { from: earliest.max(event - LONGEST_BASELINE), until: event }
}

fn goodput_before(curve: &ByteCurve, baseline: Window) -> Result<f64, String> {
    if baseline.until.duration_since(baseline.from) < SHORTEST_BASELINE {
        return Err(format!(
            "less than {} of data between it and what was before it",
            duration(SHORTEST_BASELINE)
        ));
    }
    let before = baseline.mbps(curve.bytes_between(baseline.from, baseline.until)).unwrap_or_default();
    if before > 0.0 { Ok(before) } else { Err("nothing was delivered before it".to_owned()) }
}

fn settled(curve: &ByteCurve, phase: Window) -> Result<f64, String> {
    let length = phase.until.duration_since(phase.from);
    if length < SHORTEST_RECOVERY_PHASE {
        let [length, least] = [length, SHORTEST_RECOVERY_PHASE].map(duration);
        return Err(format!("its phase lasted {length}, at least {least} needed"));
    }
    let tail = phase.until - (length / 2).clamp(STAY, Duration::from_secs(1));
    let end = Window { from: tail, until: phase.until };
    let settled = end.mbps(curve.bytes_between(end.from, end.until)).unwrap_or_default();
    if settled > 0.0 { Ok(settled) } else { Err("nothing was delivered at the end of its phase".to_owned()) }
}

/// The lowest goodput of any window in `searched`, but not above `reachable`.
fn lowest(curve: &ByteCurve, stalls: &Stalls, searched: Window, reachable: f64) -> Result<f64, String> {
    let mut windows = positions(curve, searched).peekable();
    if windows.peek().is_none() {
        return Err(format!("its phase lasted less than {}", duration(WINDOW)));
    }
    // Windows in which the sender had nothing to send at some moment say nothing about the network.
    let lowest = windows
        .filter(|&from| stalls.outstanding_throughout(from, from + WINDOW))
        .map(|from| rate(curve, from))
        .fold(reachable, f64::min);
    Ok(lowest)
}

/// The starts of windows within `searched`. After the last byte all windows are equal, so only the first is used.
fn positions(curve: &ByteCurve, searched: Window) -> impl Iterator<Item = Timestamp> + use<> {
    let silent = curve.end().map_or(searched.from, |end| end.max(searched.from)) + WINDOW + STEP;
    let length = searched.until.min(silent).duration_since(searched.from);
    let steps = length.checked_sub(WINDOW).map(|slack| slack.as_nanos() / STEP.as_nanos());
    let count = steps.map_or(0, |steps| u64::try_from(steps).map_or(MOST_WINDOWS, |steps| steps + 1));
    (0..count.min(MOST_WINDOWS))
        .map(move |step| searched.from + Duration::from_nanos(step * STEP.as_nanos() as u64))
}

fn recovery(curve: &ByteCurve, phase: Window, reachable: f64) -> Result<Timestamp, String> {
    // A window starts with a byte, so the end of an outage is exact and not rounded to the step.
    let mut from = phase.from;
    // A 10 ms bin has at most two candidates; only a record that contradicts itself has more per segment.
    for _ in 0..=2 * curve.stretches() {
        let candidate = curve.next_byte(from).filter(|&at| phase.until.duration_since(at) >= STAY);
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
        // Consecutive windows do not show a silence that spans two of them.
        && curve.longest_silence(from, from + STAY) < WINDOW
}

fn rate(curve: &ByteCurve, from: Timestamp) -> f64 {
    let window = Window { from, until: from + WINDOW };
    window.mbps(curve.bytes_between(window.from, window.until)).unwrap_or_default()
}
