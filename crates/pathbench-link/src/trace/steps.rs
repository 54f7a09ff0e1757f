//! Puts values in the order of their times together into a schedule.

use super::error::TraceError;
use super::limits::MAX_VALUES;
use super::lines::Line;
use crate::{ScheduleEnd, Steps};
use std::time::Duration;

/// A trace that begins later than this contains clock times, not times since its start.
pub(super) const LATEST_BEGIN: Duration = Duration::from_secs(3_600);

/// The rule of the times of a table in messages.
pub(super) const INCREASE: &str = "increase from line to line: sort the lines, and keep one of each time";

/// Collects the lines of a table: a value applies until the time of the next line; the first one applies from zero, the
/// last one as long as the one before it.
pub(super) struct StepBuilder<V> {
    steps: Vec<(Duration, V)>,
    last: Option<Duration>,
    interval: Duration,
}

impl<V> StepBuilder<V> {
    pub(super) const fn new() -> Self {
        Self { steps: Vec::new(), last: None, interval: Duration::ZERO }
    }

    pub(super) fn push(&mut self, line: &Line<'_>, at: Duration, value: V) -> Result<(), TraceError> {
        match self.last {
            None => self.steps.push((Duration::ZERO, value)),
            Some(before) if at <= before => {
                let (found, before) =
                    (format!("{} s", at.as_secs_f64()), format!("{} s", before.as_secs_f64()));
                return Err(TraceError::Order { line: line.number, found, before, rule: INCREASE });
            }
            Some(_) if self.steps.len() == MAX_VALUES => {
                return Err(TraceError::TooLong { line: line.number });
            }
            Some(before) => {
                self.interval = at.saturating_sub(before);
                self.steps.push((at, value));
            }
        }
        self.last = Some(at);
        Ok(())
    }

    /// The schedule, which repeats; the value of a single line holds. `None` if there was no line.
    pub(super) fn finish(self) -> Option<Steps<V>> {
        let last = self.last?;
        let end = if self.interval.is_zero() {
            ScheduleEnd::Hold
        } else {
            ScheduleEnd::Repeat(last + self.interval)
        };
        Some(Steps { steps: self.steps, end })
    }
}

/// Values that each last for a time of their own, from zero; equal neighbours become one step.
pub(super) fn from_durations<V: PartialEq>(
    values: impl IntoIterator<Item = (Duration, V)>,
) -> Option<Steps<V>> {
    let mut steps: Vec<(Duration, V)> = Vec::new();
    let mut at = Duration::ZERO;
    for (duration, value) in values {
        if steps.last().is_none_or(|(_, before)| *before != value) {
            steps.push((at, value));
        }
        at += duration;
    }
    (!steps.is_empty()).then_some(Steps { steps, end: ScheduleEnd::Repeat(at) })
}
