//! The figures of a schedule that show at once whether its unit is right.

use crate::{DelaySchedule, LossSchedule, RateModel, ScheduleEnd, Steps};
use std::time::Duration;

/// Duration, mean and extremes of a trace, in bit/s, seconds or as a probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceSummary {
    /// Until the trace repeats; `None`: one value, which holds.
    pub duration: Option<Duration>,
    pub mean: f64,
    /// Of opportunities: in windows of a second.
    pub least: f64,
    pub most: f64,
}

impl TraceSummary {
    fn from_steps<V>(steps: &Steps<V>, mean: Option<f64>, number: impl Fn(&V) -> f64) -> Option<Self> {
        let values = || steps.steps.iter().map(|(_, value)| number(value));
        let duration = match steps.end {
            ScheduleEnd::Repeat(period) => Some(period),
            ScheduleEnd::Hold => None,
        };
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        Some(Self { duration, mean: mean?, least, most })
    }

    /// In bit/s; `None` for a rate that is no trace.
    pub fn from_rate(rate: &RateModel) -> Option<Self> {
        match rate {
            RateModel::Steps(steps) => {
                Self::from_steps(steps, steps.mean_rate_bps().map(|bps| bps as f64), |bps| *bps as f64)
            }
            RateModel::Opportunities(schedule) => {
                let mean = schedule.mean_rate_bps()? as f64;
                let seconds = schedule.at_ms.last()? / 1_000;
                // The opportunities are in the order of their times, and only whole seconds have a rate.
                let in_second = |second: u64| {
                    let until = |ms: u64| schedule.at_ms.partition_point(|at_ms| *at_ms < ms);
                    (until((second + 1) * 1_000) - until(second * 1_000)) as f64 * 12_000.0
                };
                let rates = || (0..seconds).map(in_second);
                let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
                let (least, most) = if seconds == 0 { (mean, mean) } else { (least, most) };
                Some(Self { duration: schedule.period(), mean, least, most })
            }
            RateModel::Trains(schedule) => {
                let mean = schedule.mean_rate_bps()? as f64;
                let duration = schedule.trains.last().map(|train| train.at);
                Some(Self { duration, mean, least: mean, most: mean })
            }
            RateModel::Unlimited | RateModel::Constant(_) => None,
        }
    }

    /// In seconds.
    pub fn from_delay(delay: &DelaySchedule) -> Option<Self> {
        Self::from_steps(delay, delay.mean_delay().map(|mean| mean.as_secs_f64()), Duration::as_secs_f64)
    }

    pub fn from_loss(loss: &LossSchedule) -> Option<Self> {
        Self::from_steps(loss, loss.mean_loss(), |loss| *loss)
    }
}
