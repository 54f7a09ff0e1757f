//! Parameters that change with time: the contents of traces. All times count from the start of the schedule.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Continuation after the end of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScheduleEnd {
    /// The last value stays.
    Hold,
    /// The schedule repeats with this period, which is not shorter than the time of the last step.
    Repeat(Duration),
}

/// Values that hold from their time until the next step; the first time is zero, times strictly increase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steps<V> {
    /// At least one.
    pub steps: Vec<(Duration, V)>,
    pub end: ScheduleEnd,
}

/// Bits per second; 0: no service.
pub type RateSchedule = Steps<u64>;
pub type DelaySchedule = Steps<Duration>;
/// Loss probabilities, 0 to 1.
pub type LossSchedule = Steps<f64>;

/// Times at which up to [`OpportunitySchedule::BYTES`] may leave; unused bytes are lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpportunitySchedule {
    /// Milliseconds, not decreasing, the last above zero; a millisecond may occur several times.
    pub at_ms: Vec<u64>,
}

impl OpportunitySchedule {
    /// Bytes per opportunity (mahimahi's MTU without its TUN header).
    pub const BYTES: u32 = 1_500;
}

/// `CellReplay`'s packet trains.
///
/// A train begins with a packet that arrives after the end of the previous train. It uses the opportunities of the last
/// line at or before this time, and a base delay interpolated between that line and the next. If packets still wait
/// when its opportunities are used up, another train follows after the last opportunity, at the mean interval of the
/// opportunities. Small packets share an opportunity, large ones span several, unused ones are lost. The trace repeats
/// from the time of its last line.
///
/// (`CellReplay` continues with a second trace, recorded under load, when a train is used up, and begins a new train
/// with every packet that arrives after the last one's departure, which lets a paced sender exceed the measured rate.)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainSchedule {
    /// In the order of their times; at least one.
    pub trains: Vec<Train>,
}

/// Delay and opportunities of a train of packets that begins at `at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Train {
    pub at: Duration,
    /// Delay of the train's first packet.
    pub base_delay: Duration,
    /// Departure times of the train's 1500-byte packets, relative to the first departure; not decreasing.
    pub opportunities: Vec<Duration>,
}

impl OpportunitySchedule {
    pub fn period(&self) -> Option<Duration> {
        self.at_ms.last().filter(|&&last| last > 0).map(|&last| Duration::from_millis(last))
    }

    /// Bits per second if every opportunity is used, over a whole period; `None` for a period of zero.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        let bits = self.at_ms.len() as u128 * u128::from(Self::BYTES) * 8;
        let mean = bits * 1_000 / u128::from(*self.at_ms.last()?).max(1);
        self.period().and(u64::try_from(mean).ok())
    }
}

impl TrainSchedule {
    /// Bits per second of the packets after the first of their train, over all trains; `None` if their times are all
    /// zero.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        let (packets, time) = self.trains.iter().fold((0_u128, 0_u128), |(packets, time), train| {
            let length = train.opportunities.last().map_or(0, Duration::as_nanos);
            (packets + train.opportunities.len().saturating_sub(1) as u128, time + length)
        });
        let bits = packets * u128::from(OpportunitySchedule::BYTES) * 8;
        (bits * 1_000_000_000).checked_div(time).and_then(|mean| u64::try_from(mean).ok())
    }

    /// Mean delay of a train's first packet over all trains.
    pub fn mean_base_delay(&self) -> Option<Duration> {
        let sum: u128 = self.trains.iter().map(|train| train.base_delay.as_nanos()).sum();
        let mean = sum.checked_div(self.trains.len() as u128)?;
        u64::try_from(mean).ok().map(Duration::from_nanos)
    }
}

impl RateSchedule {
    /// Long-term mean in bits per second: over a period, or the last value if it stays.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        self.mean(|&rate_bps| rate_bps as f64).map(|mean| mean.round() as u64)
    }
}

impl LossSchedule {
    /// Long-term mean loss: over a period, or the last value if it stays.
    pub fn mean_loss(&self) -> Option<f64> {
        self.mean(|&loss| loss)
    }
}

impl DelaySchedule {
    /// Long-term mean delay: over a period, or the last value if it stays.
    pub fn mean_delay(&self) -> Option<Duration> {
        self.mean(Duration::as_secs_f64).and_then(|mean| Duration::try_from_secs_f64(mean).ok())
    }
}

impl<V> Steps<V> {
    fn mean(&self, number: fn(&V) -> f64) -> Option<f64> {
        let (_, last) = self.steps.last()?;
        let ScheduleEnd::Repeat(period) = self.end else { return Some(number(last)) };
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

impl<V: Copy> Steps<V> {
    /// The value `elapsed` after the start, and the time of the next step, if any. `None` for an empty schedule.
    pub fn value_at(&self, elapsed: Duration) -> Option<(V, Option<Duration>)> {
        let period = match self.end {
            ScheduleEnd::Repeat(period) if !period.is_zero() => Some(period.as_nanos()),
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
