//! Probes of a path (ping, IRTT, tables of delays) as schedules of delay and loss.

use super::steps::from_durations;
use crate::{DelaySchedule, LossSchedule, ScheduleEnd, Steps};
use pathbench_record::direction::Direction;
use std::time::Duration;

/// A window of loss has at least this many probes, and lasts at least a second: fewer would turn each lost probe into a
/// moment without service.
const WINDOW_PROBES: u32 = 10;
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);
const MAX_WINDOWS: usize = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered(Duration),
    /// Lost in this direction, if it is known.
    Lost(Option<Direction>),
}

impl Fate {
    pub(super) const LOST: Self = Self::Lost(None);
}

/// Whether delays are of one direction or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trip {
    OneWay,
    Round,
}

/// A probe; times of consecutive probes increase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) fate: Fate,
}

/// The delay of one direction: half of a round trip. A lost probe leaves the delay as it was.
pub(super) fn delays(samples: &[Sample], trip: Trip) -> Option<DelaySchedule> {
    let parts = if trip == Trip::Round { 2 } else { 1 };
    let origin = samples.first()?.at;
    let mut steps: Vec<(Duration, Duration)> = Vec::new();
    for sample in samples {
        if let Fate::Answered(delay) = sample.fate {
            let at = if steps.is_empty() { Duration::ZERO } else { sample.at.saturating_sub(origin) };
            if steps.last().is_none_or(|(before, _)| *before < at) || steps.is_empty() {
                steps.push((at, delay / parts));
            }
        }
    }
    let last = samples.last()?.at.saturating_sub(origin);
    let end = match interval(samples) {
        Some(interval) => ScheduleEnd::Repeat(last + interval),
        None => ScheduleEnd::Hold,
    };
    (!steps.is_empty()).then_some(Steps { steps, end })
}

/// Median time between consecutive probes.
fn interval(samples: &[Sample]) -> Option<Duration> {
    let mut gaps: Vec<Duration> = samples
        .windows(2)
        .map(|pair| pair[1].at.saturating_sub(pair[0].at))
        .filter(|gap| !gap.is_zero())
        .collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

/// The loss of one direction in windows of at least 1 s and 10 probes. If `direction` is given and each loss is known to
/// be of one direction, those of `direction` count; otherwise a loss p of round trips is 1 − √(1 − p) in each.
pub(super) fn losses(samples: &[Sample], trip: Trip, direction: Option<Direction>) -> Option<LossSchedule> {
    let origin = samples.first()?.at;
    let span = samples.last()?.at.saturating_sub(origin);
    let interval = interval(samples).unwrap_or(SHORTEST_WINDOW);
    let window = (interval * WINDOW_PROBES).max(SHORTEST_WINDOW).max(span / MAX_WINDOWS as u32);
    let is_known = !samples.iter().any(|sample| sample.fate == Fate::LOST);
    let own = direction.filter(|_| is_known);
    let mut windows: Vec<(u32, u32)> = Vec::new();
    for sample in samples {
        let index = (sample.at.saturating_sub(origin).as_nanos() / window.as_nanos().max(1)) as usize;
        if windows.len() <= index {
            windows.resize(index + 1, (0, 0));
        }
        let (sent, lost) = &mut windows[index];
        // A packet that was lost in the direction to the server says nothing about the other direction.
        let is_elsewhere =
            matches!((own, sample.fate), (Some(Direction::Download), Fate::Lost(Some(Direction::Upload))));
        let is_lost = match (own, sample.fate) {
            (_, Fate::Answered(_)) => false,
            (Some(own), Fate::Lost(in_direction)) => in_direction == Some(own),
            (None, Fate::Lost(_)) => true,
        };
        *sent += u32::from(!is_elsewhere);
        *lost += u32::from(is_lost);
    }
    // The last window is as long as the others only if the probes fill it; its few probes join those before it.
    if let [.., before, last] = windows.as_mut_slice()
        && last.0 < WINDOW_PROBES
    {
        (before.0, before.1) = (before.0 + last.0, before.1 + last.1);
        windows.pop();
    }
    let share = |(sent, lost): (u32, u32)| {
        let loss = if sent == 0 { 0.0 } else { f64::from(lost) / f64::from(sent) };
        if own.is_none() && trip == Trip::Round { 1.0 - (1.0 - loss).sqrt() } else { loss }
    };
    from_durations(windows.into_iter().map(|counts| (window, share(counts))))
}
