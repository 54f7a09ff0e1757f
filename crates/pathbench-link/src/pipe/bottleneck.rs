//! The bottleneck: sends one packet at a time at the current rate.
//!
//! A token bucket of depth `burst` saves the work of idle times, so a packet leaves when the bucket and the work since
//! its start hold its size: exactly when the qdisc tbf would let it pass.
//!
//! The unit of work is 10⁻⁹ bit, so that all numbers are integers: a rate of r bit/s does r units in each nanosecond.
//! The next packet uses the work that remains in the last nanosecond of a packet.

use super::schedule::{Opportunities, ScheduledValue, Trains};
use crate::packet::Held;
use crate::{ArqModel, OpportunitySchedule, RateModel};
use pathbench_record::time::Timestamp;
use std::time::Duration;

pub(super) const WORK_PER_BYTE: u64 = 8_000_000_000;

#[derive(Debug)]
enum Pace {
    Unlimited,
    Steady(ScheduledValue<u64>),
    Opportunities(Opportunities),
    Trains(Trains),
}

impl Pace {
    fn new(model: &RateModel, begin: Timestamp) -> Self {
        match model {
            RateModel::Unlimited => Self::Unlimited,
            RateModel::Constant(rate_bps) => Self::Steady(ScheduledValue::constant(*rate_bps)),
            RateModel::Steps(schedule) => Self::Steady(ScheduledValue::scheduled(schedule.clone(), begin)),
            RateModel::Opportunities(schedule) => {
                Self::Opportunities(Opportunities::new(schedule.clone(), begin))
            }
            RateModel::Trains(schedule) => Self::Trains(Trains::new(schedule.clone(), begin)),
        }
    }

    fn work<P>(&self, held: &Held<P>) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Steady(_) => held.wire_bytes.saturating_mul(WORK_PER_BYTE),
            Self::Opportunities(_) | Self::Trains(_) => {
                u64::from(held.packet.ip_bytes).saturating_mul(WORK_PER_BYTE)
            }
        }
    }

    /// Whether packets leave only at delivery opportunities, and wait for these in the queue.
    #[inline]
    const fn is_by_opportunity(&self) -> bool {
        matches!(self, Self::Opportunities(_) | Self::Trains(_))
    }

    #[inline]
    fn next_opportunity(&self) -> Option<Timestamp> {
        match self {
            Self::Opportunities(opportunities) => opportunities.next(),
            Self::Trains(trains) => trains.next(),
            Self::Unlimited | Self::Steady(_) => None,
        }
    }

    #[inline]
    fn use_opportunity(&mut self) {
        match self {
            Self::Opportunities(opportunities) => opportunities.advance(),
            Self::Trains(trains) => trains.advance(),
            Self::Unlimited | Self::Steady(_) => {}
        }
    }

    #[inline]
    fn catch_up(&mut self, now: Timestamp) {
        match self {
            Self::Opportunities(opportunities) => opportunities.skip(now),
            Self::Trains(trains) => trains.skip(now),
            Self::Steady(rate) => _ = rate.advance(now),
            Self::Unlimited => {}
        }
    }
}

#[derive(Debug)]
struct Sending<P> {
    held: Held<P>,
    attempt: u32,
    work: u64,
    left: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Sending(Timestamp),
    Pausing(Timestamp),
}

#[derive(Debug)]
pub(crate) struct Bottleneck<P> {
    pace: Pace,
    sending: Option<Sending<P>>,
    /// Work saved up for the next packets: a token bucket's tokens, or without a bucket only the work that remains in the
    /// last nanosecond of the previous packet; and the time up to which it counts.
    saved: (u64, Timestamp),
    burst_work: u64,
    budget: u64,
    halted: bool,
}

#[derive(Debug)]
pub(crate) enum Progress<P> {
    Wants,
    /// An attempt has ended. Contains the number of earlier attempts. [`Bottleneck::again`] starts the next one.
    Sent(Held<P>, u32),
    Nothing,
}

impl<P> Bottleneck<P> {
    /// A bottleneck with a full token bucket of `burst_bytes`.
    pub(crate) fn new(model: &RateModel, burst_bytes: u64, begin: Timestamp) -> Self {
        let burst_work = burst_bytes.saturating_mul(WORK_PER_BYTE);
        Self {
            pace: Pace::new(model, begin),
            sending: None,
            saved: (burst_work, begin),
            burst_work,
            budget: 0,
            halted: false,
        }
    }

    /// Tokens beyond a smaller bucket are lost.
    pub(crate) fn set_burst(&mut self, burst_bytes: u64, now: Timestamp) {
        self.save(now);
        self.burst_work = burst_bytes.saturating_mul(WORK_PER_BYTE);
        self.saved.0 = self.saved.0.min(self.burst_work);
    }

    /// Fills the token bucket up to `now`, unless a packet takes all the work.
    fn save(&mut self, now: Timestamp) {
        let Pace::Steady(rate) = &self.pace else { return };
        let idle = self.sending.as_ref().is_none_or(|sending| matches!(sending.phase, Phase::Pausing(_)));
        while idle && self.saved.0 < self.burst_work && self.saved.1 < now {
            let (rate_bps, until) = rate.value_at(self.saved.1);
            let until = until.map_or(now, |until| until.min(now));
            let work =
                u128::from(until.duration_since(self.saved.1).as_nanos() as u64) * u128::from(rate_bps);
            let filled = u64::try_from(work).unwrap_or(u64::MAX).saturating_add(self.saved.0);
            self.saved = (filled.min(self.burst_work), until);
        }
        if self.burst_work > 0 {
            self.saved.1 = now;
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        !self.halted && self.sending.is_none() && !self.pace.is_by_opportunity()
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// The current rate; `None` if it is unlimited or consists of delivery opportunities.
    pub(crate) fn rate_bps(&self, now: Timestamp) -> Option<u64> {
        match &self.pace {
            Pace::Steady(rate) => Some(rate.value_at(now).0),
            Pace::Unlimited | Pace::Opportunities(_) | Pace::Trains(_) => None,
        }
    }

    pub(crate) fn train_delay(&self) -> Duration {
        match &self.pace {
            Pace::Trains(trains) => trains.base_delay(),
            Pace::Unlimited | Pace::Steady(_) | Pace::Opportunities(_) => Duration::ZERO,
        }
    }

    pub(crate) fn train_delay_at(&self, now: Timestamp) -> Duration {
        match &self.pace {
            Pace::Trains(trains) => trains.base_delay_at(now),
            Pace::Unlimited | Pace::Steady(_) | Pace::Opportunities(_) => Duration::ZERO,
        }
    }

    pub(crate) fn send(&mut self, held: Held<P>, now: Timestamp) {
        let work = self.pace.work(&held);
        self.begin(held, work, 0, now);
    }

    fn begin(&mut self, held: Held<P>, work: u64, attempt: u32, now: Timestamp) {
        self.save(now);
        let mut left = work;
        if let Pace::Steady(rate) = &mut self.pace {
            rate.advance(now);
            let saved = if self.saved.1 == now { self.saved.0.min(left) } else { 0 };
            left -= saved;
            self.saved.0 = if self.burst_work > 0 { self.saved.0 - saved } else { 0 };
        }
        self.sending = Some(Sending { held, attempt, work, left, phase: Phase::Sending(now) });
    }

    pub(crate) fn again(&mut self, held: Held<P>, attempt: u32, arq: ArqModel, now: Timestamp) {
        let work = self.pace.work(&held);
        if arq.pause.is_zero() {
            self.begin(held, work, attempt, now);
        } else {
            let phase = Phase::Pausing(now + arq.pause);
            self.sending = Some(Sending { held, attempt, work, left: work, phase });
            self.budget = 0;
        }
    }

    /// Skips opportunities before `now`, which a packet that arrives at an idle link cannot use.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        self.pace.catch_up(now);
    }

    pub(crate) fn next(&self, something_waits: bool) -> Option<Timestamp> {
        if self.halted {
            return None;
        }
        let since = match self.sending.as_ref().map(|sending| (sending.phase, sending.left)) {
            Some((Phase::Pausing(until), _)) => return Some(until),
            Some((Phase::Sending(since), left)) => Some((since, left)),
            None => None,
        };
        match (&self.pace, since) {
            (Pace::Unlimited, Some((since, _))) => Some(since),
            (Pace::Steady(rate), Some((since, left))) => {
                let end = match (left, rate.value()) {
                    (0, _) => Some(since),
                    (_, 0) => None,
                    (left, bps) => Some(since + Duration::from_nanos(left.div_ceil(bps))),
                };
                match (end, rate.next_step()) {
                    (Some(end), Some(until)) => Some(end.min(until)),
                    (end, until) => end.or(until),
                }
            }
            (pace, since) if since.is_some() || something_waits => pace.next_opportunity(),
            _ => None,
        }
    }

    pub(crate) fn open(&mut self, now: Timestamp) {
        self.budget = 0;
        let pausing = self.sending.as_ref().is_some_and(|sending| matches!(sending.phase, Phase::Pausing(_)));
        if !pausing && self.pace.next_opportunity() == Some(now) {
            self.pace.use_opportunity();
            self.budget = u64::from(OpportunitySchedule::BYTES) * WORK_PER_BYTE;
        }
    }

    /// Advances to `now`, at most to [`Bottleneck::next`]. Call it until it returns [`Progress::Nothing`].
    pub(crate) fn advance(&mut self, now: Timestamp) -> Progress<P> {
        if self.halted {
            return Progress::Nothing;
        }
        let Some(sending) = &mut self.sending else {
            return if self.pace.is_by_opportunity() && self.budget == 0 {
                Progress::Nothing
            } else {
                Progress::Wants
            };
        };
        match sending.phase {
            Phase::Pausing(until) if until <= now => {
                sending.phase = Phase::Sending(now);
                self.pace.catch_up(now);
            }
            Phase::Pausing(_) => return Progress::Nothing,
            Phase::Sending(_) => {}
        }
        self.settle(now);
        match self.sending.take() {
            Some(sent) if sent.left == 0 => Progress::Sent(sent.held, sent.attempt),
            unfinished => {
                self.sending = unfinished;
                Progress::Nothing
            }
        }
    }

    fn settle(&mut self, now: Timestamp) {
        let Some(sending) = &mut self.sending else { return };
        let Phase::Sending(since) = sending.phase else { return };
        sending.phase = Phase::Sending(now);
        match &mut self.pace {
            Pace::Unlimited => sending.left = 0,
            Pace::Steady(rate) => {
                let done =
                    u128::from(now.as_nanos().saturating_sub(since.as_nanos())) * u128::from(rate.value());
                let done = u64::try_from(done).unwrap_or(u64::MAX);
                if done >= sending.left {
                    let saved = if self.burst_work > 0 { self.saved.0 } else { 0 };
                    self.saved = (saved.saturating_add(done - sending.left), now);
                }
                sending.left = sending.left.saturating_sub(done);
                rate.advance(now);
            }
            Pace::Opportunities(_) | Pace::Trains(_) => {
                let done = sending.left.min(self.budget);
                sending.left -= done;
                self.budget -= done;
            }
        }
    }

    pub(crate) fn change(&mut self, model: &RateModel, something_waits: bool, now: Timestamp) {
        if !self.halted {
            self.budget = 0;
            self.settle(now);
        }
        self.save(now);
        self.pace = Pace::new(model, now);
        if self.burst_work == 0 {
            self.saved.0 = 0;
        }
        if let Some(sending) = &mut self.sending {
            let work = self.pace.work(&sending.held);
            sending.left = match sending.work {
                0 => work,
                before => (u128::from(sending.left) * u128::from(work)).div_ceil(u128::from(before)) as u64,
            };
            sending.work = work;
        }
        self.catch_up(something_waits, now);
    }

    pub(crate) fn halt(&mut self, halted: bool, something_waits: bool, now: Timestamp) {
        if halted == self.halted {
            return;
        }
        if halted {
            self.budget = 0;
            self.settle(now);
        } else if let Some(sending) = &mut self.sending {
            sending.phase = match sending.phase {
                Phase::Pausing(until) => Phase::Pausing(until.max(now)),
                Phase::Sending(_) => Phase::Sending(now),
            };
        }
        self.halted = halted;
        self.catch_up(something_waits, now);
    }

    fn catch_up(&mut self, something_waits: bool, now: Timestamp) {
        if something_waits || self.sending.is_some() {
            self.pace.catch_up(now);
        }
    }
}
