//! What a schedule amounts to: for the calibration to judge against, and for people to read.

use crate::model::RateModel;
use crate::schedule::{
    DelaySchedule, End, LossSchedule, OpportunitySchedule, RateSchedule, Steps, TrainSchedule,
};
use std::time::Duration;

impl OpportunitySchedule {
    /// When it repeats.
    pub fn period(&self) -> Option<Duration> {
        self.at_ms.last().filter(|&&last| last > 0).map(|&last| Duration::from_millis(last))
    }

    /// Bits per second if every opportunity is used, over a whole period; `None` where it takes no time.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        let bits = self.at_ms.len() as u128 * u128::from(Self::BYTES) * 8;
        let mean = bits * 1_000 / u128::from(*self.at_ms.last()?).max(1);
        self.period().and(u64::try_from(mean).ok())
    }
}

impl TrainSchedule {
    /// Bits per second of packets after the first of their train, over all trains; `None` where all of them come at
    /// once.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        let (packets, time) = self.trains.iter().fold((0_u128, 0_u128), |(packets, time), train| {
            let length = train.opportunities.last().map_or(0, Duration::as_nanos);
            (packets + train.opportunities.len().saturating_sub(1) as u128, time + length)
        });
        let bits = packets * u128::from(OpportunitySchedule::BYTES) * 8;
        (bits * 1_000_000_000).checked_div(time).and_then(|mean| u64::try_from(mean).ok())
    }

    /// Delay of a train's first packet, in the mean over trains.
    pub fn mean_base_delay(&self) -> Option<Duration> {
        let sum: u128 = self.trains.iter().map(|train| train.base_delay.as_nanos()).sum();
        let mean = sum.checked_div(self.trains.len() as u128)?;
        u64::try_from(mean).ok().map(Duration::from_nanos)
    }
}

impl RateSchedule {
    /// Bits per second in the long run: over a period, or the last value where it stays.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        self.mean(|&rate_bps| rate_bps as f64).map(|mean| mean.round() as u64)
    }
}

impl LossSchedule {
    /// Loss in the long run: over a period, or the last value where it stays.
    pub fn mean_loss(&self) -> Option<f64> {
        self.mean(|&loss| loss)
    }
}

impl DelaySchedule {
    /// Delay in the long run: over a period, or the last value where it stays.
    pub fn mean_delay(&self) -> Option<Duration> {
        self.mean(Duration::as_secs_f64).and_then(|mean| Duration::try_from_secs_f64(mean).ok())
    }
}

impl<V> Steps<V> {
    fn mean(&self, number: fn(&V) -> f64) -> Option<f64> {
        let (_, last) = self.steps.last()?;
        let End::Repeat(period) = self.end else { return Some(number(last)) };
        if period.is_zero() {
            return Some(number(last));
        }
        let ends = self.steps.iter().skip(1).map(|(at, _)| *at).chain([period]);
        let sum: f64 = self
            .steps
            .iter()
            .zip(ends)
            .map(|((begin, value), end)| number(value) * end.saturating_sub(*begin).as_secs_f64())
            .sum();
        Some(sum / period.as_secs_f64())
    }
}

impl RateModel {
    /// Bits per second in the long run; `None` where there is no limit.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Constant(rate_bps) => Some(*rate_bps),
            Self::Steps(schedule) => schedule.mean_rate_bps(),
            Self::Opportunities(schedule) => schedule.mean_rate_bps(),
            Self::Trains(schedule) => schedule.mean_rate_bps(),
        }
    }
}
