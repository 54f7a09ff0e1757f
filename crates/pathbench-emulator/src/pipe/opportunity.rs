//! Delivery opportunities in the order of their times, without end.

use pathbench_link::OpportunitySchedule;
use pathbench_record::time::Timestamp;
use std::sync::Arc;

const NS_PER_MS: u64 = 1_000_000;

/// A place in a schedule that repeats from its end, its last entry being its period.
#[derive(Debug, Clone)]
pub(crate) struct Opportunities {
    schedule: Arc<OpportunitySchedule>,
    begin: Timestamp,
    /// Repetitions before this one.
    cycle: u64,
    /// Of the next opportunity within this one.
    index: usize,
}

impl Opportunities {
    pub(crate) fn new(schedule: Arc<OpportunitySchedule>, begin: Timestamp) -> Self {
        Self { schedule, begin, cycle: 0, index: 0 }
    }

    fn period_ms(&self) -> u64 {
        self.schedule.at_ms.last().copied().unwrap_or(0)
    }

    /// When the next one is; never, in an empty schedule.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let at_ms = self.schedule.at_ms.get(self.index)?;
        let ms = self.cycle.saturating_mul(self.period_ms()).saturating_add(*at_ms);
        Some(Timestamp::from_nanos(self.begin.as_nanos().saturating_add(ms.saturating_mul(NS_PER_MS))))
    }

    /// The next one is used.
    pub(crate) fn advance(&mut self) {
        self.index += 1;
        if self.index >= self.schedule.at_ms.len() {
            self.index = 0;
            self.cycle += 1;
        }
    }

    /// Those up to and at `now` are lost.
    pub(crate) fn skip(&mut self, now: Timestamp) {
        if self.next().is_none_or(|next| next > now) {
            return;
        }
        let (elapsed_ms, period_ms) =
            (now.since(self.begin).as_nanos() as u64 / NS_PER_MS, self.period_ms().max(1));
        self.cycle = elapsed_ms / period_ms;
        self.index = self.schedule.at_ms.partition_point(|&at_ms| at_ms <= elapsed_ms % period_ms);
        if self.index >= self.schedule.at_ms.len() {
            self.index = 0;
            self.cycle += 1;
        }
    }
}
