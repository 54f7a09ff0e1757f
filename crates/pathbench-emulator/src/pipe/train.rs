//! Packet trains, one after another for as long as packets wait, and anew when they come to an idle link: see
//! [`TrainSchedule`].

use pathbench_link::{Train, TrainSchedule};
use pathbench_record::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// From one train to the next where all packets of the first one may leave at once: the traces' resolution.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

/// A place in a schedule of trains.
#[derive(Debug, Clone)]
pub(crate) struct Trains {
    schedule: Arc<TrainSchedule>,
    begin: Timestamp,
    /// The train in hand: when it began, which one it is, and which opportunity is next.
    current: Option<(Timestamp, usize, usize)>,
    /// Delay of the train whose opportunity was used last.
    base_delay: Duration,
}

impl Trains {
    pub(crate) fn new(schedule: Arc<TrainSchedule>, begin: Timestamp) -> Self {
        Self { schedule, begin, current: None, base_delay: Duration::ZERO }
    }

    /// When the next opportunity is, once [`Trains::skip`] has begun a train.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let (started, train, index) = self.current?;
        Some(started + offset(self.schedule.trains.get(train)?, index)?)
    }

    /// The next opportunity is used.
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

    /// Opportunities up to `now` are lost; where the train is over by then, or nobody has begun it, one begins now.
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

    /// Delay of the train whose opportunity was used last.
    pub(crate) fn base_delay(&self) -> Duration {
        self.base_delay
    }

    /// Delay of a train that begins at this time, between those of the two around it.
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

    /// Time within the schedule, which repeats when its last train's time is reached.
    fn elapsed(&self, now: Timestamp) -> Duration {
        let elapsed = now.since(self.begin).as_nanos();
        let period = self.schedule.trains.last().map_or(0, |train| train.at.as_nanos());
        let within = if period == 0 { elapsed } else { elapsed % period };
        Duration::from_nanos(u64::try_from(within).unwrap_or(u64::MAX))
    }
}

/// When an opportunity comes, counted from the train's first, which is the train's begin.
fn offset(train: &Train, index: usize) -> Option<Duration> {
    match train.opportunities.first() {
        None => (index == 0).then_some(Duration::ZERO),
        Some(first) => train.opportunities.get(index).map(|at| at.saturating_sub(*first)),
    }
}
