//! The way from the bottleneck to the far end: how long a packet takes.

use super::course::Course;
use crate::chance::{Chance, Purpose};
use pathbench_link::{BaseDelay, Distribution, LinkModel};
use pathbench_record::time::Timestamp;
use std::f64::consts::TAU;
use std::time::Duration;

/// The delay model at work.
#[derive(Debug)]
pub(crate) struct Delay {
    base: Course<Duration>,
    /// Zero where there is none.
    jitter: Duration,
    distribution: Distribution,
    reorder: bool,
}

impl Delay {
    pub(crate) fn new(model: &LinkModel, begin: Timestamp) -> Self {
        Self {
            base: course(&model.delay, begin),
            jitter: model.jitter,
            distribution: model.jitter_distribution,
            reorder: model.reorder,
        }
    }

    pub(crate) fn set_base(&mut self, base: &BaseDelay, begin: Timestamp) {
        self.base = course(base, begin);
    }

    pub(crate) fn set_jitter(&mut self, model: &LinkModel) {
        (self.jitter, self.distribution) = (model.jitter, model.jitter_distribution);
        self.reorder = model.reorder;
    }

    /// How long the packet of this number takes that leaves the bottleneck now.
    pub(crate) fn of(&mut self, number: u64, now: Timestamp, chance: Chance) -> Duration {
        let base = self.base.advance(now);
        if self.jitter.is_zero() {
            return base;
        }
        let extra_ns = draw(self.distribution, number, chance) * self.jitter.as_nanos() as f64;
        // Conversion from floating point saturates: below zero is zero.
        Duration::from_nanos((base.as_nanos() as f64 + extra_ns).round() as u64)
    }

    pub(crate) fn may_overtake(&self) -> bool {
        self.reorder && !self.jitter.is_zero()
    }

    pub(crate) fn base_at(&self, now: Timestamp) -> Duration {
        self.base.at(now).0
    }
}

fn course(base: &BaseDelay, begin: Timestamp) -> Course<Duration> {
    match base {
        BaseDelay::Constant(delay) => Course::constant(*delay),
        BaseDelay::Schedule(schedule) => Course::scheduled(schedule.clone(), begin),
    }
}

/// A draw from a distribution of size 1.
fn draw(distribution: Distribution, number: u64, chance: Chance) -> f64 {
    // In (0, 1], so that its logarithm is finite.
    let unit = 1.0 - chance.unit(Purpose::Jitter, number, 0);
    match distribution {
        Distribution::Uniform => 1.0 - 2.0 * unit,
        // Box and Muller, 1958.
        Distribution::Normal => {
            (-2.0 * unit.ln()).sqrt() * (TAU * chance.unit(Purpose::JitterAngle, number, 0)).cos()
        }
        Distribution::Exponential => -unit.ln(),
        // Inverse of Lomax's distribution function.
        Distribution::Pareto { shape } => unit.powf(-1.0 / shape) - 1.0,
    }
}
