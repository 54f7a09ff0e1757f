//! Parameters that change with time: what traces become. All times count from when the schedule is put in force.

use crate::model::{LinkChange, RateModel};
use std::time::Duration;

/// What comes after the end of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The last value stays.
    Hold,
    /// It begins anew after this much time in all, which is not before the last step.
    Repeat(Duration),
}

/// Values that hold from their time on until the next; the first at zero, times strictly increasing.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps<V> {
    /// At least one.
    pub steps: Vec<(Duration, V)>,
    pub end: End,
}

/// Bits per second; 0 is no service at all.
pub type RateSchedule = Steps<u64>;
pub type DelaySchedule = Steps<Duration>;
/// Loss probabilities, 0 to 1.
pub type LossSchedule = Steps<f64>;

/// Moments at which up to [`OpportunitySchedule::BYTES`] may leave; what is not used is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpportunitySchedule {
    /// Milliseconds, not decreasing, the last above zero; a millisecond may occur several times.
    pub at_ms: Vec<u64>,
}

impl OpportunitySchedule {
    /// Bytes of an opportunity (mahimahi's MTU without its TUN header).
    pub const BYTES: u32 = 1_500;
}

/// `CellReplay`'s packet trains: what a train of packets that begins at a time meets.
///
/// A train begins with a packet that comes when the train before is over. It meets the opportunities of the last line
/// whose time has come, and a base delay between those of this line and the next, in proportion. Where packets still wait
/// when its opportunities are used up, another train follows, as far from the last opportunity as they were from each
/// other in the mean. Small packets share an opportunity, large ones span several, unused ones are lost. The trace
/// repeats when its last line's time is reached.
///
/// (`CellReplay` goes on with a second trace, recorded under load, when a train is used up, and begins a new one with
/// every packet that comes after the last one's departure, which lets a paced sender exceed what was measured.)
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSchedule {
    /// In the order of their times; at least one.
    pub trains: Vec<Train>,
}

/// What a train of packets that begins at `at` meets.
#[derive(Debug, Clone, PartialEq)]
pub struct Train {
    pub at: Duration,
    /// Delay of its first packet.
    pub base_delay: Duration,
    /// When each 1500-byte packet of it may leave, counted from the first's departure; not decreasing.
    pub opportunities: Vec<Duration>,
}

/// Changes of a model at their times: what a fade becomes. Times do not decrease.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeSchedule {
    pub changes: Vec<(Duration, LinkChange)>,
}

impl OpportunitySchedule {
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

impl<V: Copy> Steps<V> {
    /// The value `elapsed` after the begin, and when the next step is due, if there is one. `None` where the schedule
    /// is empty.
    pub fn at(&self, elapsed: Duration) -> Option<(V, Option<Duration>)> {
        let period = match self.end {
            End::Repeat(period) if !period.is_zero() => Some(period.as_nanos()),
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
