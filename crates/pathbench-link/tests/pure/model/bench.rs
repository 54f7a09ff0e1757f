//! A pipe in virtual time, which begins at zero.

use pathbench_link::packet::{DropCause, Ecn, Fate, Outcome, PacketFlow, PipePacket};
use pathbench_link::pipe::Pipe;
use pathbench_link::pipe::PipeCondition;
use pathbench_link::{BaseDelay, LinkChange, LinkModel, RateModel};
use pathbench_record::time::Timestamp;
use pathbench_record::units::QueueLimit;
use std::time::Duration;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

pub(crate) fn at(after: Duration) -> Timestamp {
    Timestamp::default() + after
}

pub(crate) fn wire() -> LinkModel {
    LinkModel { mtu_bytes: 65_535, queue: QueueLimit::Packets(1_000), ..LinkModel::default() }
}

pub(crate) fn rate(rate_bps: u64) -> LinkModel {
    LinkModel { rate: RateModel::Constant(rate_bps), ..wire() }
}

/// A packet of 1500 bytes takes a millisecond at this rate.
pub(crate) const PACKET_A_MS_BPS: u64 = 1_514 * 8 * 1_000;

pub(crate) fn constant(base: Duration) -> BaseDelay {
    BaseDelay::Constant(base)
}

pub(crate) fn delay_change(delay: Duration) -> LinkChange {
    LinkChange { delay: Some(BaseDelay::Constant(delay)), ..LinkChange::default() }
}

/// A pipe and all its outcomes.
pub(crate) struct Bench {
    pub(crate) pipe: Pipe<()>,
    outcomes: Vec<Outcome<()>>,
}

impl Bench {
    pub(crate) fn new(model: LinkModel, seed: u64) -> Self {
        Self { pipe: Pipe::new(model, seed, Timestamp::default()), outcomes: Vec::new() }
    }

    pub(crate) fn offer(&mut self, after: Duration, ip_bytes: u32) {
        self.offer_ecn(after, ip_bytes, Ecn::NotEct);
    }

    pub(crate) fn offer_ecn(&mut self, after: Duration, ip_bytes: u32, ecn: Ecn) {
        let flow = PacketFlow::default();
        self.pipe.offer(at(after), PipePacket { ip_bytes, segments: 1, ecn, flow, payload: () });
    }

    pub(crate) fn offer_flow(&mut self, after: Duration, ip_bytes: u32, flow: PacketFlow) {
        let ecn = Ecn::NotEct;
        self.pipe.offer(at(after), PipePacket { ip_bytes, segments: 1, ecn, flow, payload: () });
    }

    pub(crate) fn change(&mut self, after: Duration, change: &LinkChange) {
        self.pipe.change(at(after), change);
    }

    pub(crate) fn condition(&mut self, after: Duration, condition: PipeCondition) {
        self.pipe.set_condition(at(after), condition);
    }

    /// Fetches the outcomes up to a time.
    pub(crate) fn poll(&mut self, after: Duration) {
        while let Some(outcome) = self.pipe.poll(at(after)) {
            self.outcomes.push(outcome);
        }
    }

    /// Goes from deadline to deadline until there is none, or for a day of virtual time.
    pub(crate) fn finish(&mut self) -> Vec<Outcome<()>> {
        while let Some(deadline) = self.pipe.next_deadline()
            && deadline < at(Duration::from_secs(86_400))
        {
            self.poll(deadline.duration_since(Timestamp::default()));
        }
        std::mem::take(&mut self.outcomes)
    }

    pub(crate) fn dropped(&self, cause: DropCause) -> u64 {
        self.pipe.statistics().dropped_packets.get(&cause).copied().unwrap_or(0)
    }
}

/// Numbers and times of the delivered packets.
pub(crate) fn delivered(outcomes: &[Outcome<()>]) -> impl Iterator<Item = (u64, Duration)> + '_ {
    outcomes.iter().filter_map(|outcome| match outcome.fate {
        Fate::Delivered(delivery) => {
            Some((outcome.number, delivery.due.duration_since(Timestamp::default())))
        }
        Fate::Dropped { .. } => None,
    })
}

/// Numbers of the dropped packets, of all causes.
pub(crate) fn dropped(outcomes: &[Outcome<()>]) -> impl Iterator<Item = u64> + '_ {
    outcomes
        .iter()
        .filter(|outcome| matches!(outcome.fate, Fate::Dropped { .. }))
        .map(|outcome| outcome.number)
}

/// The time of the outcome.
pub(crate) fn ended(outcome: &Outcome<()>) -> Timestamp {
    match outcome.fate {
        Fate::Delivered(delivery) => delivery.due,
        Fate::Dropped { at, .. } => at,
    }
}
