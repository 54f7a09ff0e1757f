//! Failback: the time from an event that improves a path until the path carries its share again.

use super::counter::PathCurves;
use super::measurement::{
    Disturbance, LONGEST_BASELINE, SAME_MOMENT, SHORTEST_BASELINE, SHORTEST_RECOVERY_PHASE, STAY, STEP,
    WINDOW,
};
use crate::binning::{ByteCurve, Window};
use crate::verdict::USED_SHARE;
use pathbench_record::direction::Direction;
use pathbench_record::document::{FailbackAbsence, FailbackRecord};
use pathbench_record::end::MessageRecord;
use pathbench_record::event::{EventKind, PathEffect};
use pathbench_record::text::duration;
use pathbench_record::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// A path has its share again at this part of the share before.
const RETURNED: f64 = 0.8;

/// A window below this part of the share before is another loss, not a fluctuation.
const FLUCTUATION: f64 = 0.5;

/// The other paths carried all that was offered if they delivered this part of it in time.
const ALL_OFFERED: f64 = 0.9;

/// Maximum number of candidate moments in a phase; longer phases have larger steps.
const MOST_CANDIDATES: u32 = 100_000;

/// The data that the application offers in one direction.
#[derive(Debug, Clone, Copy)]
pub enum Demand<'a> {
    /// More than the paths can carry.
    Unlimited,
    /// A rate limit over all streams, and the bytes delivered.
    Rate { bps: u64, delivered: &'a ByteCurve },
    /// Requests at a fixed interval.
    Messages { messages: &'a [MessageRecord], interval: Duration },
}

impl Demand<'_> {
    /// Whether all data offered in `phase` was delivered in time.
    fn is_met(&self, phase: Window) -> bool {
        match self {
            Self::Unlimited => false,
            Self::Rate { bps, delivered } => {
                let bytes = delivered.bytes_between(phase.from, phase.until);
                phase.mbps(bytes).is_some_and(|mbps| mbps * 1e6 >= ALL_OFFERED * *bps as f64)
            }
            Self::Messages { messages, interval } => {
                let due = messages.iter().filter(|one| one.due >= phase.from && one.due < phase.until);
                let (all, in_time) = due.fold((0_u32, 0_u32), |(all, in_time), one| {
                    let met = one.delay_by(phase.until.max(one.due)) <= *interval;
                    (all + 1, in_time + u32::from(met))
                });
                f64::from(in_time) >= ALL_OFFERED * f64::from(all)
            }
        }
    }
}

/// One direction of one run. All timestamps are of one clock.
#[derive(Debug, Clone, Copy)]
pub struct FailbackInput<'a> {
    /// Zero of the run's clock.
    pub origin: Timestamp,
    pub direction: Direction,
    /// The measured time; `None` if nothing was delivered.
    pub measured: Option<Window>,
    /// The scenario's events on paths that the run can use, in any order.
    pub events: &'a [Disturbance],
    /// Bytes received per path over time.
    pub paths: &'a PathCurves,
    pub demand: Demand<'a>,
}

/// One record for each event after which a path could carry its share again, in order of path and time.
pub fn failbacks(input: &FailbackInput<'_>) -> Vec<FailbackRecord> {
    let mut events: Vec<&Disturbance> = input.events.iter().collect();
    events.sort_by_key(|event| event.at);
    let paths: BTreeSet<&str> = events.iter().filter_map(|event| event.path.as_deref()).collect();
    paths.into_iter().flat_map(|path| of_path(input, &events, path)).collect()
}

fn of_path(input: &FailbackInput<'_>, events: &[&Disturbance], path: &str) -> Vec<FailbackRecord> {
    let own: Vec<&Disturbance> =
        events.iter().copied().filter(|event| event.path.as_deref() == Some(path)).collect();
    let mut found = Vec::new();
    let mut interruptions = Interruptions::default();
    // The share before the first loss since the path last carried its share.
    let mut before: Option<Result<f64, String>> = None;
    for (index, event) in own.iter().enumerate() {
        interruptions.take(&event.kind);
        match event.effect {
            PathEffect::Worse => {
                before.get_or_insert_with(|| share_before(input, events, path, event.at));
            }
            PathEffect::Better if !interruptions.remain() => {
                let Some(share) = &before else { continue };
                let record = judge(input, events, path, event, share);
                let is_back = record.failback_ms.is_some();
                // The path improved in several steps; the last one decides.
                let is_step = own.get(index + 1).is_some_and(|next| next.effect == PathEffect::Better);
                if is_back {
                    before = None;
                }
                if is_back || !is_step {
                    found.push(record);
                }
            }
            PathEffect::Better | PathEffect::Neutral => {}
        }
    }
    found
}

/// Interruptions of a path; each keeps it from carrying any packet.
#[derive(Debug, Clone, Copy, Default)]
struct Interruptions {
    is_down: bool,
    drops_all: bool,
    has_no_address: bool,
}

impl Interruptions {
    const fn take(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Down => self.is_down = true,
            EventKind::Up => self.is_down = false,
            EventKind::Blackhole | EventKind::Outage => self.drops_all = true,
            EventKind::Restore => self.drops_all = false,
            EventKind::RemoveAddress => self.has_no_address = true,
            EventKind::AddAddress => self.has_no_address = false,
            _ => {}
        }
    }

    const fn remain(self) -> bool {
        self.is_down || self.drops_all || self.has_no_address
    }
}

/// Share of the path in up to 2 s before `at`, but not before the previous event or the start.
fn share_before(
    input: &FailbackInput<'_>,
    events: &[&Disturbance],
    path: &str,
    at: Timestamp,
) -> Result<f64, String> {
    let measured = input.measured.ok_or("nothing was delivered")?;
    let previous = events.iter().map(|event| event.at).rfind(|&other| other < at);
    let earliest = previous.map_or(measured.from, |previous| previous.max(measured.from));
    let from = earliest.max(at - LONGEST_BASELINE);
    if at.duration_since(from) < SHORTEST_BASELINE {
        let least = duration(SHORTEST_BASELINE);
        return Err(format!("less than {least} of data between the loss of the path and what was before"));
    }
    match share(input.paths, path, Window { from, until: at }) {
        None => Err("no byte is known to have arrived before the loss of the path".to_owned()),
        Some(share) if share < USED_SHARE => {
            Err(format!("it carried {:.1} % before its loss", share * 100.0))
        }
        Some(share) => Ok(share),
    }
}

fn judge(
    input: &FailbackInput<'_>,
    events: &[&Disturbance],
    path: &str,
    event: &Disturbance,
    before: &Result<f64, String>,
) -> FailbackRecord {
    let next = events.iter().map(|next| next.at).find(|&next| next >= event.at + SAME_MOMENT);
    let found = match (input.measured, before) {
        (_, Err(why)) => Err((FailbackAbsence::NoShareBefore, why.clone())),
        (None, Ok(_)) => Err((FailbackAbsence::EndedTooEarly, "nothing was delivered".to_owned())),
        (Some(measured), Ok(before)) => {
            let until = next.map_or(measured.until, |next| next.min(measured.until));
            let phase = Window { from: event.at.max(measured.from), until };
            returned(input, path, phase, *before).map(|at| at.ms_from(event.at).max(0.0))
        }
    };
    let (failback_ms, absence) = match found {
        Ok(failback_ms) => (Some(failback_ms), None),
        Err(absence) => (None, Some(absence)),
    };
    let (reason, because) = absence.unzip();
    FailbackRecord {
        direction: input.direction,
        kind: event.kind.clone(),
        path: path.to_owned(),
        at_ms: event.at.ms_from(input.origin),
        share_before: before.as_ref().ok().copied(),
        failback_ms,
        reason,
        because,
    }
}

/// The first moment of `phase` from which the path keeps its share `before`.
fn returned(
    input: &FailbackInput<'_>,
    path: &str,
    phase: Window,
    before: f64,
) -> Result<Timestamp, (FailbackAbsence, String)> {
    let early = |why: String| Err((FailbackAbsence::EndedTooEarly, why));
    if phase.until <= phase.from {
        return early("the transfer had ended before it".to_owned());
    }
    let length = phase.until.duration_since(phase.from);
    let step = STEP.max(length / MOST_CANDIDATES);
    let mut from = phase.from;
    while let Some(at) =
        input.paths.next_byte(path, from).filter(|at| phase.until.duration_since(*at) >= STAY)
    {
        if stays(input.paths, path, at, before) {
            return Ok(at);
        }
        from = at + step;
    }
    let least = duration(SHORTEST_RECOVERY_PHASE);
    if length < SHORTEST_RECOVERY_PHASE {
        return early(format!("its phase lasted {}, at least {least} needed", duration(length)));
    }
    let first = input.paths.next_byte(path, phase.from).filter(|&at| at < phase.until);
    if let Some(left) =
        first.map(|at| phase.until.duration_since(at)).filter(|left| *left < SHORTEST_RECOVERY_PHASE)
    {
        let left = duration(left);
        return early(format!(
            "the path carried data again {left} before the end of its phase, at least {least} needed"
        ));
    }
    let carried = share(input.paths, path, phase).unwrap_or_default() * 100.0;
    let (length, before) = (duration(length), before * 100.0);
    let figures =
        format!("it carried {carried:.1} % in the {length} after it, and {before:.1} % before its loss");
    Err(if input.demand.is_met(phase) {
        (
            FailbackAbsence::NotNeeded,
            format!("the application offered so little that the paths in use carried it; {figures}"),
        )
    } else {
        (FailbackAbsence::NeverReturned, figures)
    })
}

/// Whether the path keeps at least [`RETURNED`] of the share `before` for [`STAY`].
fn stays(paths: &PathCurves, path: &str, from: Timestamp, before: f64) -> bool {
    let part = |offset: Duration, length: Duration| {
        let from = from + offset;
        Some(share(paths, path, Window { from, until: from + length })? / before)
    };
    part(Duration::ZERO, WINDOW).is_some_and(|part| part >= RETURNED)
        && part(Duration::ZERO, STAY).is_some_and(|part| part >= RETURNED)
        // A window without a byte on any path shows nothing.
        && (1..STAY.as_millis() as u32 / WINDOW.as_millis() as u32)
            .filter_map(|index| part(WINDOW * index, WINDOW))
            .all(|part| part >= FLUCTUATION)
}

/// Part of the bytes that arrived over `path`; `None` if none arrived over any.
fn share(paths: &PathCurves, path: &str, window: Window) -> Option<f64> {
    let grown = paths.growth(window.from, window.until);
    let total: f64 = grown.values().sum();
    (total > 0.0).then(|| grown.get(path).copied().unwrap_or_default() / total)
}

/// The slowest failback of a run; `None` without a failback, or if one has no duration.
pub fn slowest_failback_ms(found: &[FailbackRecord]) -> Option<f64> {
    let all: Option<Vec<f64>> = found.iter().map(|one| one.failback_ms).collect();
    all?.into_iter().max_by(f64::total_cmp)
}

/// One note for each failback without a duration.
pub fn failback_notes(found: &[FailbackRecord]) -> Vec<String> {
    found
        .iter()
        .filter_map(|one| {
            let (direction, at_ms) = (one.direction.name(), one.at_ms);
            let event = format!("{} {}", one.kind, one.path);
            Some(format!(
                "{direction}: no failback for `{event}` at {at_ms:.0} ms: {}",
                one.because.as_ref()?
            ))
        })
        .collect()
}
