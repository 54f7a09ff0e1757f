//! A value that changes with time, followed along.

use pathbench_link::Steps;
use pathbench_record::time::Timestamp;
use std::sync::Arc;

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
