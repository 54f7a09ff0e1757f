//! A value that changes with time, followed along.

use crate::schedule::{End, Steps};
use pathbench_record::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

impl<V: Copy> Steps<V> {
    /// The value `elapsed` after the begin, and when the next step is due, if there is one. `None` where the schedule
    /// is empty.
    pub fn at(&self, elapsed: Duration) -> Option<(V, Option<Duration>)> {
        let period = match self.end {
            End::Repeat(period) if !period.is_zero() => Some(period.as_nanos()),
            _ => None,
        };
        let elapsed = elapsed.as_nanos();
        let within = period.map_or(elapsed, |period| elapsed % period);
        let begin = elapsed - within;
        let later = self.steps.partition_point(|(at, _)| at.as_nanos() <= within);
        let &(_, value) = self.steps.get(later.saturating_sub(1))?;
        let next = match (self.steps.get(later), period) {
            (Some((at, _)), Some(period)) => Some(begin + at.as_nanos().min(period)),
            (Some((at, _)), None) => Some(at.as_nanos()),
            (None, Some(period)) => Some(begin + period),
            (None, None) => None,
        };
        Some((value, next.map(|next| Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX)))))
    }
}

/// A value on its course: constant, or by a schedule that began at some time.
#[derive(Debug, Clone)]
pub(crate) struct Course<V> {
    schedule: Option<(Arc<Steps<V>>, Timestamp)>,
    value: V,
    from: Timestamp,
    /// When it changes next.
    until: Option<Timestamp>,
}

impl<V: Copy + Default> Course<V> {
    pub(crate) fn constant(value: V) -> Self {
        Self { schedule: None, value, from: Timestamp::default(), until: None }
    }

    pub(crate) fn scheduled(schedule: Arc<Steps<V>>, begin: Timestamp) -> Self {
        let mut course =
            Self { schedule: Some((schedule, begin)), value: V::default(), from: begin, until: Some(begin) };
        course.advance(begin);
        course
    }

    /// The value in force and when it ends.
    pub(crate) fn at(&self, now: Timestamp) -> (V, Option<Timestamp>) {
        if now >= self.from && self.until.is_none_or(|until| now < until) {
            return (self.value, self.until);
        }
        let Some((schedule, begin)) = &self.schedule else { return (self.value, None) };
        match schedule.at(now.since(*begin)) {
            Some((value, next)) => (value, next.map(|next| *begin + next)),
            None => (V::default(), None),
        }
    }

    /// Goes along to `now`, so that asking for it is cheap.
    pub(crate) fn advance(&mut self, now: Timestamp) -> V {
        if self.until.is_some_and(|until| now >= until) {
            (self.value, self.until) = self.at(now);
            self.from = now;
        }
        self.value
    }

    pub(crate) fn value(&self) -> V {
        self.value
    }

    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.until
    }
}
