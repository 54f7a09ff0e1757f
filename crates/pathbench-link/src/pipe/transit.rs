//! From the bottleneck to the far end: loss, delay and packets in flight.

use super::schedule::ScheduledValue;
use crate::packet::{Chance, DrawPurpose, Held};
use crate::{BaseDelay, JitterDistribution, LinkModel, LossModel};
use pathbench_record::time::Timestamp;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::f64::consts::TAU;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Delay {
    base: ScheduledValue<Duration>,
    jitter: Duration,
    distribution: JitterDistribution,
    reorder: bool,
}

impl Delay {
    pub(crate) fn new(model: &LinkModel, begin: Timestamp) -> Self {
        Self {
            base: scheduled_delay(&model.delay, begin),
            jitter: model.jitter,
            distribution: model.jitter_distribution,
            reorder: model.reorder,
        }
    }

    pub(crate) fn set_base(&mut self, base: &BaseDelay, begin: Timestamp) {
        self.base = scheduled_delay(base, begin);
    }

    pub(crate) fn set_jitter(&mut self, model: &LinkModel) {
        (self.jitter, self.distribution) = (model.jitter, model.jitter_distribution);
        self.reorder = model.reorder;
    }

    #[inline]
    pub(crate) fn packet_delay<P>(&mut self, held: &Held<P>, now: Timestamp, chance: Chance) -> Duration {
        let base = self.base.advance(now);
        if held.early {
            return Duration::ZERO;
        }
        if self.jitter.is_zero() {
            return base;
        }
        let deviation = held.jitter_level.unwrap_or_else(|| self.distribution.draw(held.number, chance));
        let extra_ns = deviation * self.jitter.as_nanos() as f64;
        // The conversion from floating point saturates: a negative delay becomes zero.
        Duration::from_nanos((base.as_nanos() as f64 + extra_ns).round() as u64)
    }

    #[inline]
    pub(crate) fn may_overtake(&self) -> bool {
        self.reorder && !self.jitter.is_zero()
    }

    #[inline]
    pub(crate) fn base_at(&self, now: Timestamp) -> Duration {
        self.base.value_at(now).0
    }
}

fn scheduled_delay(base: &BaseDelay, begin: Timestamp) -> ScheduledValue<Duration> {
    match base {
        BaseDelay::Constant(delay) => ScheduledValue::constant(*delay),
        BaseDelay::Schedule(schedule) => ScheduledValue::scheduled(schedule.clone(), begin),
    }
}

impl JitterDistribution {
    /// The deviation of a packet's delay in units of the jitter.
    #[inline]
    pub(crate) fn draw(self, number: u64, chance: Chance) -> f64 {
        // In (0, 1], so that its logarithm is finite.
        let unit = 1.0 - chance.unit(DrawPurpose::Jitter, number, 0);
        match self {
            Self::Uniform => 1.0 - 2.0 * unit,
            // Box and Muller, 1958.
            Self::Normal => {
                (-2.0 * unit.ln()).sqrt() * (TAU * chance.unit(DrawPurpose::JitterAngle, number, 0)).cos()
            }
            Self::Exponential => -unit.ln(),
            // Inverse of Lomax's distribution function.
            Self::Pareto { shape } => unit.powf(-1.0 / shape) - 1.0,
            // `netem/pareto.c` of iproute2.
            Self::NetemPareto => ((unit.powf(-1.0 / 3.0) - 1.5) * 4.0 / 3.0).min(4.0),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Flight<P> {
    /// Packets with non-decreasing due times: all packets, if none can overtake another.
    in_order: VecDeque<Flying<P>>,
    overtaking: BinaryHeap<Flying<P>>,
    latest: Timestamp,
}

#[derive(Debug)]
struct Flying<P> {
    due: Timestamp,
    held: Held<P>,
}

impl<P> Flight<P> {
    pub(crate) fn new() -> Self {
        Self { in_order: VecDeque::new(), overtaking: BinaryHeap::new(), latest: Timestamp::default() }
    }

    pub(crate) fn add(&mut self, held: Held<P>, due: Timestamp, may_overtake: bool) -> bool {
        if due < self.latest && may_overtake {
            self.overtaking.push(Flying { due, held });
            return true;
        }
        self.latest = self.latest.max(due);
        self.in_order.push_back(Flying { due: self.latest, held });
        false
    }

    /// Number of packets in flight.
    pub(crate) fn packets(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        match (self.in_order.front(), self.overtaking.peek()) {
            (Some(first), Some(other)) => Some(first.due.min(other.due)),
            (first, other) => first.or(other).map(|flying| flying.due),
        }
    }

    pub(crate) fn take(&mut self) -> Option<(Timestamp, Held<P>)> {
        let from_heap = match (self.in_order.front(), self.overtaking.peek()) {
            (Some(first), Some(other)) => (other.due, other.held.number) < (first.due, first.held.number),
            (None, Some(_)) => true,
            _ => false,
        };
        let flying = if from_heap { self.overtaking.pop() } else { self.in_order.pop_front() }?;
        Some((flying.due, flying.held))
    }
}

impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.held.number).cmp(&(self.due, self.held.number))
    }
}

impl<P> PartialOrd for Flying<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flying<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flying<P> {}

#[derive(Debug)]
pub(crate) struct Loss {
    model: LossModel,
    begin: Timestamp,
    bad_state: bool,
    scheduled: ScheduledValue<f64>,
}

impl Loss {
    pub(crate) fn new(model: LossModel, begin: Timestamp) -> Self {
        let mut loss = Self {
            model: LossModel::default(),
            begin,
            bad_state: false,
            scheduled: ScheduledValue::constant(0.0),
        };
        loss.change(model, begin);
        loss
    }

    pub(crate) fn change(&mut self, model: LossModel, now: Timestamp) {
        if !matches!((&self.model, &model), (LossModel::GilbertElliott(_), LossModel::GilbertElliott(_))) {
            self.bad_state = false;
        }
        self.scheduled = match &model {
            LossModel::Schedule(schedule) => ScheduledValue::scheduled(schedule.clone(), now),
            _ => ScheduledValue::constant(0.0),
        };
        self.model = model;
    }

    #[inline]
    pub(crate) fn state_at(&mut self, number: u64, chance: Chance) -> bool {
        let LossModel::GilbertElliott(channel) = &self.model else { return false };
        let bad = self.bad_state;
        let leave = if bad { channel.to_good } else { channel.to_bad };
        if chance.happens(leave, DrawPurpose::ChannelState, number, 0) {
            self.bad_state = !bad;
        }
        bad
    }

    pub(crate) fn takes<P>(&mut self, held: &Held<P>, attempt: u32, now: Timestamp, chance: Chance) -> bool {
        let probability = match &self.model {
            LossModel::Independent(loss) => match held.loss_level {
                Some(level) if attempt == 0 => return level < *loss,
                _ => *loss,
            },
            LossModel::GilbertElliott(channel) if held.bad_state => channel.loss_bad,
            LossModel::GilbertElliott(channel) => channel.loss_good,
            LossModel::Bursts { .. } => self.in_bursts(now),
            LossModel::Schedule(_) => self.scheduled.advance(now),
        };
        chance.happens(probability, DrawPurpose::Loss, held.number, attempt)
    }

    #[inline]
    pub(crate) fn probability_at(&self, now: Timestamp) -> Option<f64> {
        match &self.model {
            LossModel::Independent(loss) => Some(*loss),
            LossModel::GilbertElliott(_) => None,
            LossModel::Bursts { .. } => Some(self.in_bursts(now)),
            LossModel::Schedule(_) => Some(self.scheduled.value_at(now).0),
        }
    }

    #[inline]
    fn in_bursts(&self, now: Timestamp) -> f64 {
        let LossModel::Bursts { period, length, loss } = &self.model else { return 0.0 };
        let (period, length) = (period.as_nanos().max(1), length.as_nanos());
        let within = now.duration_since(self.begin).as_nanos() % period;
        if within + length >= period { *loss } else { 0.0 }
    }
}
