//! What is lost on the way.

use super::course::Course;
use super::ledger::Held;
use crate::chance::{Chance, Purpose};
use pathbench_link::LossModel;
use pathbench_record::time::Timestamp;

/// The loss model at work.
#[derive(Debug)]
pub(crate) struct Loss {
    model: LossModel,
    /// When the pipe began.
    begin: Timestamp,
    /// State of the two-state channel.
    bad_state: bool,
    scheduled: Course<f64>,
}

impl Loss {
    pub(crate) fn new(model: LossModel, begin: Timestamp) -> Self {
        let mut loss =
            Self { model: LossModel::default(), begin, bad_state: false, scheduled: Course::constant(0.0) };
        loss.change(model, begin);
        loss
    }

    /// A two-state channel that follows another keeps its state.
    pub(crate) fn change(&mut self, model: LossModel, now: Timestamp) {
        if !matches!((&self.model, &model), (LossModel::GilbertElliott(_), LossModel::GilbertElliott(_))) {
            self.bad_state = false;
        }
        self.scheduled = match &model {
            LossModel::Schedule(schedule) => Course::scheduled(schedule.clone(), now),
            _ => Course::constant(0.0),
        };
        self.model = model;
    }

    /// The channel's state at the packet of this number; moves on to the next one's.
    pub(crate) fn state_at(&mut self, number: u64, chance: Chance) -> bool {
        let LossModel::GilbertElliott(channel) = &self.model else { return false };
        let bad = self.bad_state;
        let leave = if bad { channel.to_good } else { channel.to_bad };
        if chance.happens(leave, Purpose::ChannelState, number, 0) {
            self.bad_state = !bad;
        }
        bad
    }

    /// Whether an attempt at a packet that ends now fails.
    pub(crate) fn takes<P>(&mut self, held: &Held<P>, attempt: u32, now: Timestamp, chance: Chance) -> bool {
        let probability = match &self.model {
            LossModel::Independent(loss) => *loss,
            LossModel::GilbertElliott(channel) if held.bad_state => channel.loss_bad,
            LossModel::GilbertElliott(channel) => channel.loss_good,
            LossModel::Bursts { .. } => self.in_bursts(now),
            LossModel::Schedule(_) => self.scheduled.advance(now),
        };
        chance.happens(probability, Purpose::Loss, held.number, attempt)
    }

    /// The probability in force, where it does not depend on the packet before.
    pub(crate) fn at(&self, now: Timestamp) -> Option<f64> {
        match &self.model {
            LossModel::Independent(loss) => Some(*loss),
            LossModel::GilbertElliott(_) => None,
            LossModel::Bursts { .. } => Some(self.in_bursts(now)),
            LossModel::Schedule(_) => Some(self.scheduled.at(now).0),
        }
    }

    fn in_bursts(&self, now: Timestamp) -> f64 {
        let LossModel::Bursts { period, length, loss } = &self.model else { return 0.0 };
        let (period, length) = (period.as_nanos().max(1), length.as_nanos());
        let within = now.since(self.begin).as_nanos() % period;
        if within + length >= period { *loss } else { 0.0 }
    }
}
