//! Values and delivery opportunities that change with time.

use crate::{OpportunitySchedule, Steps, Train, TrainSchedule};
use pathbench_record::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct ScheduledValue<V> {
    schedule: Option<(Arc<Steps<V>>, Timestamp)>,
    value: V,
    from: Timestamp,
    until: Option<Timestamp>,
}

impl<V: Copy + Default> ScheduledValue<V> {
    pub(crate) fn constant(value: V) -> Self {
        Self { schedule: None, value, from: Timestamp::default(), until: None }
    }

    pub(crate) fn scheduled(schedule: Arc<Steps<V>>, begin: Timestamp) -> Self {
        let mut value =
            Self { schedule: Some((schedule, begin)), value: V::default(), from: begin, until: Some(begin) };
        value.advance(begin);
        value
    }

    pub(crate) fn value_at(&self, now: Timestamp) -> (V, Option<Timestamp>) {
        if now >= self.from && self.until.is_none_or(|until| now < until) {
            return (self.value, self.until);
        }
        let Some((schedule, begin)) = &self.schedule else { return (self.value, None) };
        match schedule.value_at(now.duration_since(*begin)) {
            Some((value, next)) => (value, next.map(|next| *begin + next)),
            None => (V::default(), None),
        }
    }

    /// Advances to `now` and returns its value.
    pub(crate) fn advance(&mut self, now: Timestamp) -> V {
        if self.until.is_some_and(|until| now >= until) {
            (self.value, self.until) = self.value_at(now);
            self.from = now;
        }
        self.value
    }

    pub(crate) fn value(&self) -> V {
        self.value
    }

    pub(crate) fn next_step(&self) -> Option<Timestamp> {
        self.until
    }
}

const NS_PER_MS: u64 = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Opportunities {
    schedule: Arc<OpportunitySchedule>,
    begin: Timestamp,
    cycle: u64,
    index: usize,
}

impl Opportunities {
    pub(crate) fn new(schedule: Arc<OpportunitySchedule>, begin: Timestamp) -> Self {
        Self { schedule, begin, cycle: 0, index: 0 }
    }

    #[inline]
    fn period_ms(&self) -> u64 {
        self.schedule.at_ms.last().copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let at_ms = self.schedule.at_ms.get(self.index)?;
        let ms = self.cycle.saturating_mul(self.period_ms()).saturating_add(*at_ms);
        Some(Timestamp::from_nanos(self.begin.as_nanos().saturating_add(ms.saturating_mul(NS_PER_MS))))
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.index += 1;
        if self.index >= self.schedule.at_ms.len() {
            self.index = 0;
            self.cycle += 1;
        }
    }

    pub(crate) fn skip(&mut self, now: Timestamp) {
        if self.next().is_none_or(|next| next > now) {
            return;
        }
        let (elapsed_ms, period_ms) =
            (now.duration_since(self.begin).as_nanos() as u64 / NS_PER_MS, self.period_ms().max(1));
        self.cycle = elapsed_ms / period_ms;
        self.index = self.schedule.at_ms.partition_point(|&at_ms| at_ms <= elapsed_ms % period_ms);
        if self.index >= self.schedule.at_ms.len() {
            self.index = 0;
            self.cycle += 1;
        }
    }
}

/// Interval to the next train if all packets of a train may leave simultaneously: the resolution of traces.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub(crate) struct Trains {
    schedule: Arc<TrainSchedule>,
    begin: Timestamp,
    /// The current train: its start time, its index and the index of its next opportunity.
    current: Option<(Timestamp, usize, usize)>,
    base_delay: Duration,
}

impl Trains {
    pub(crate) fn new(schedule: Arc<TrainSchedule>, begin: Timestamp) -> Self {
        Self { schedule, begin, current: None, base_delay: Duration::ZERO }
    }

    #[inline]
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let (started, train, index) = self.current?;
        Some(started + offset(self.schedule.trains.get(train)?, index)?)
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        let Some((started, index, next)) = self.current else { return };
        self.base_delay = self.base_delay_at(started);
        let Some(train) = self.schedule.trains.get(index) else { return };
        self.current = Some(if offset(train, next + 1).is_some() {
            (started, index, next + 1)
        } else {
            let gaps = u32::try_from(next).unwrap_or(u32::MAX).max(1);
            let last = offset(train, next).unwrap_or_default();
            let after = started + last + (last / gaps).max(SHORTEST_GAP);
            (after, self.train_at(after), 0)
        });
    }

    pub(crate) fn skip(&mut self, now: Timestamp) {
        if let Some((started, index, next)) = self.current
            && (next > 0 || started > now)
            && let Some(train) = self.schedule.trains.get(index)
            && let Some(upcoming) = (next..train.opportunities.len())
                .find(|&i| offset(train, i).is_some_and(|at| started + at > now))
        {
            self.current = Some((started, index, upcoming));
        } else if !self.schedule.trains.is_empty() {
            self.current = Some((now, self.train_at(now), 0));
        }
    }

    pub(crate) fn base_delay(&self) -> Duration {
        self.base_delay
    }

    pub(crate) fn base_delay_at(&self, now: Timestamp) -> Duration {
        let trains = &self.schedule.trains;
        let index = self.train_at(now);
        let Some(train) = trains.get(index) else { return Duration::ZERO };
        let (Some(next), elapsed) = (trains.get(index + 1), self.elapsed(now)) else {
            return train.base_delay;
        };
        let gap = next.at.saturating_sub(train.at);
        if gap.is_zero() {
            return train.base_delay;
        }
        let share = elapsed.saturating_sub(train.at).as_secs_f64() / gap.as_secs_f64();
        let (from, to) = (train.base_delay.as_secs_f64(), next.base_delay.as_secs_f64());
        Duration::try_from_secs_f64(from + (to - from) * share.min(1.0)).unwrap_or(train.base_delay)
    }

    fn train_at(&self, now: Timestamp) -> usize {
        let elapsed = self.elapsed(now);
        self.schedule.trains.partition_point(|train| train.at <= elapsed).saturating_sub(1)
    }

    fn elapsed(&self, now: Timestamp) -> Duration {
        let elapsed = now.duration_since(self.begin).as_nanos();
        let period = self.schedule.trains.last().map_or(0, |train| train.at.as_nanos());
        let within = if period == 0 { elapsed } else { elapsed % period };
        Duration::from_nanos(u64::try_from(within).unwrap_or(u64::MAX))
    }
}

fn offset(train: &Train, index: usize) -> Option<Duration> {
    match train.opportunities.first() {
        None => (index == 0).then_some(Duration::ZERO),
        Some(first) => train.opportunities.get(index).map(|at| at.saturating_sub(*first)),
    }
}
