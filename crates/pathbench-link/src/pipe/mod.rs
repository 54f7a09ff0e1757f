//! One direction of a running link. The input is packets and their arrival times, the output packets and their fates.
//!
//! The times of a packet depend on the model only, not on the times or the number of polls.
//!
//! At 12.112 Mbit/s, a packet of 1500 bytes and its Ethernet header take 1 ms:
//!
//! ```rust
//! use pathbench_link::packet::{Ecn, Fate, PacketFlow, PipePacket};
//! use pathbench_link::pipe::Pipe;
//! use pathbench_link::{BaseDelay, LinkModel, RateModel};
//! use pathbench_record::time::Timestamp;
//! use std::time::Duration;
//!
//! let model = LinkModel {
//!     rate: RateModel::Constant(12_112_000),
//!     delay: BaseDelay::Constant(Duration::from_millis(20)),
//!     ..LinkModel::default()
//! };
//! let start = Timestamp::default();
//! let mut pipe = Pipe::new(model, 1, start);
//! for name in ["first", "second"] {
//!     let flow = PacketFlow::default();
//!     pipe.offer(start, PipePacket { ip_bytes: 1_500, segments: 1, ecn: Ecn::NotEct, flow, payload: name });
//! }
//! let mut arrivals = Vec::new();
//! while let Some(deadline) = pipe.next_deadline() {
//!     while let Some(outcome) = pipe.poll(deadline) {
//!         let Fate::Delivered(delivery) = outcome.fate else { panic!("this link loses no packet") };
//!         arrivals.push((outcome.packet.payload, delivery.due.duration_since(start).as_millis()));
//!     }
//! }
//! assert_eq!(arrivals, [("first", 21), ("second", 22)]);
//! ```

mod bottleneck;
mod correlation;
mod policer;
mod schedule;
mod transit;

use crate::packet::{
    Chance, Delivery, DrawPurpose, DropCause, Held, Ledger, Outcome, PipePacket, PipeStatistics,
};
use crate::queue::Queue;
use crate::{ChangeSchedule, LinkChange, LinkModel};
use bottleneck::{Bottleneck, Progress};
use correlation::Correlations;
use pathbench_record::time::Timestamp;
use policer::Policer;
use std::collections::VecDeque;
use std::time::Duration;
use transit::{Delay, Flight, Loss};

/// One direction of a link. [`LinkModel`] describes its effects on packets and their order.
///
/// The owner offers packets, fetches outcomes with [`Pipe::poll`] until there are none, and polls again at
/// [`Pipe::next_deadline`]. Times must not decrease from call to call; the pipe replaces an earlier time by the latest.
#[derive(Debug)]
pub struct Pipe<P> {
    model: LinkModel,
    condition: PipeCondition,
    chance: Chance,
    now: Timestamp,
    offered: u64,
    policer: Option<Policer>,
    correlations: Correlations,
    queue: Queue<P>,
    bottleneck: Bottleneck<P>,
    bottleneck_due: Option<Timestamp>,
    loss: Loss,
    delay: Delay,
    flight: Flight<P>,
    followed: VecDeque<(Timestamp, LinkChange)>,
    ledger: Ledger<P>,
}

/// The state of a pipe, apart from its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PipeCondition {
    #[default]
    Carrying,
    /// Sends no packets. They wait in the queue, which may overflow, until the outage ends.
    Outage,
    /// New packets are dropped silently; those already in the pipe still arrive.
    Blackhole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Change,
    Delivery,
    Queue,
    Bottleneck,
}

impl<P> Pipe<P> {
    /// A pipe with random decisions from `seed` and schedules that begin at `now`.
    pub fn new(model: LinkModel, seed: u64, now: Timestamp) -> Self {
        let chance = Chance::new(seed);
        Self {
            condition: PipeCondition::Carrying,
            chance,
            now,
            offered: 0,
            policer: model.policer.map(|policer| Policer::new(policer, now)),
            correlations: Correlations::default(),
            queue: Queue::new(&model, chance, now),
            bottleneck: Bottleneck::new(&model.rate, model.burst_bytes, now),
            bottleneck_due: None,
            loss: Loss::new(model.loss.clone(), now),
            delay: Delay::new(&model, now),
            flight: Flight::new(),
            followed: VecDeque::new(),
            ledger: Ledger::new(),
            model,
        }
    }

    /// Accepts a packet, after processing all events that are due by `now`.
    ///
    /// ```rust
    /// use pathbench_link::packet::DropCause;
    /// use pathbench_link::pipe::Pipe;
    /// use pathbench_link::{LinkModel, RateModel};
    /// use pathbench_record::time::Timestamp;
    /// use pathbench_record::units::QueueLimit;
    /// # use pathbench_link::packet::{Ecn, PacketFlow, PipePacket};
    /// # fn packet() -> PipePacket<()> {
    /// #     let flow = PacketFlow::default();
    /// #     PipePacket { ip_bytes: 1_500, segments: 1, ecn: Ecn::NotEct, flow, payload: () }
    /// # }
    ///
    /// let (rate, queue) = (RateModel::Constant(1_000_000), QueueLimit::Packets(2));
    /// let mut pipe = Pipe::new(LinkModel { rate, queue, ..LinkModel::default() }, 1, Timestamp::default());
    /// for _ in 0..4 {
    ///     pipe.offer(Timestamp::default(), packet());
    /// }
    /// // One packet is being sent, two wait, and the fourth finds the queue full.
    /// assert_eq!(pipe.statistics().offered_packets, 4);
    /// assert_eq!(pipe.statistics().dropped_packets[&DropCause::QueueFull], 1);
    /// ```
    pub fn offer(&mut self, now: Timestamp, packet: PipePacket<P>) {
        let now = self.run(now, false);
        let held = self.admit(now, packet);
        if self.condition == PipeCondition::Blackhole {
            return self.ledger.drop(held, DropCause::Blackhole, now);
        }
        let segment_bytes = held.packet.ip_bytes.div_ceil(held.packet.segments.max(1));
        if segment_bytes > self.model.mtu_bytes {
            return self.ledger.drop(held, DropCause::Mtu, now);
        }
        if self.policer.as_mut().is_some_and(|policer| !policer.passes(held.wire_bytes, now)) {
            return self.ledger.drop(held, DropCause::Policer, now);
        }
        if self.bottleneck.is_free() && self.queue.is_empty() {
            self.bottleneck.send(held, now);
        } else {
            if self.queue.is_empty() && !self.bottleneck.is_sending() {
                self.bottleneck.wake(now);
            }
            self.queue.put(held, now, &mut self.ledger);
        }
        self.rearm();
    }

    fn admit(&mut self, now: Timestamp, packet: PipePacket<P>) -> Held<P> {
        let number = self.offered;
        self.offered += 1;
        let overhead_bytes = u64::from(packet.segments) * u64::from(self.model.overhead_bytes);
        let held = Held {
            number,
            offered_at: now,
            wire_bytes: u64::from(packet.ip_bytes) + overhead_bytes,
            twice: self.chance.happens(self.model.duplicate, DrawPurpose::Duplicate, number, 0),
            corrupt: self.chance.happens(self.model.corrupt, DrawPurpose::Corrupt, number, 0),
            mark: false,
            bad_state: self.loss.state_at(number, self.chance),
            loss_level: self.correlations.loss_level(&self.model, number, self.chance),
            jitter_level: self.correlations.jitter_level(&self.model, number, self.chance),
            early: self.correlations.is_early(&self.model, number, self.chance),
            packet,
        };
        let statistics = &mut self.ledger.statistics;
        statistics.offered_packets += u64::from(held.packet.segments);
        statistics.offered_bytes += held.wire_bytes;
        held
    }

    /// The next outcome up to `now`, in order of time. Call it until it returns `None`.
    pub fn poll(&mut self, now: Timestamp) -> Option<Outcome<P>> {
        if let Some(outcome) = self.ledger.fetch() {
            return Some(outcome);
        }
        self.run(now, true);
        self.ledger.fetch()
    }

    /// The time of the next event for [`Pipe::poll`], if no packet arrives earlier.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.ledger.oldest().or_else(|| self.next_event().map(|(at, _)| at))
    }

    /// Applies new parameters. Packets in the queue and in flight stay; the packet being sent continues at the new
    /// rate. The current schedule continues to change the other parameters, but no longer these.
    pub fn change(&mut self, now: Timestamp, change: &LinkChange) {
        let now = self.run(now, false);
        self.leave_out(change);
        self.apply(now, change);
        if change.queue.is_some() || change.rate.is_some() {
            // A queue limit given as a time is converted at the rate of a change, not of a schedule: the buffer of a
            // device does not shrink when its link fades.
            self.queue.set_limit(&self.model);
        }
    }

    /// Follows a schedule of changes from now on. The previous schedule continues with the parameters that the new one
    /// does not change.
    pub fn follow(&mut self, now: Timestamp, schedule: ChangeSchedule) {
        let now = self.run(now, false);
        if !self.followed.is_empty() {
            let mut changed = LinkChange::default();
            schedule.changes.iter().for_each(|(_, change)| changed.take_in(change));
            self.leave_out(&changed);
        }
        self.followed.extend(schedule.changes.into_iter().map(|(after, change)| (now + after, change)));
        self.followed.make_contiguous().sort_by_key(|(at, _)| *at);
        self.run(now, false);
    }

    fn leave_out(&mut self, change: &LinkChange) {
        self.followed.iter_mut().for_each(|(_, later)| later.leave_out(change));
        self.followed.retain(|(_, later)| *later != LinkChange::default());
    }
    /// ```rust
    /// use pathbench_link::LinkModel;
    /// use pathbench_link::pipe::{Pipe, PipeCondition};
    /// use pathbench_record::time::Timestamp;
    /// use std::time::Duration;
    /// # use pathbench_link::packet::{Ecn, PacketFlow, PipePacket};
    /// # fn packet() -> PipePacket<()> {
    /// #     let flow = PacketFlow::default();
    /// #     PipePacket { ip_bytes: 1_500, segments: 1, ecn: Ecn::NotEct, flow, payload: () }
    /// # }
    ///
    /// let start = Timestamp::default();
    /// let end = start + Duration::from_secs(3);
    /// let mut pipe = Pipe::new(LinkModel::default(), 1, start);
    /// pipe.set_condition(start, PipeCondition::Outage);
    /// pipe.offer(start, packet());
    /// assert!(pipe.poll(end).is_none(), "the packet waits for the end of the outage");
    /// pipe.set_condition(end, PipeCondition::Carrying);
    /// assert!(pipe.poll(end).is_some());
    /// ```
    pub fn set_condition(&mut self, now: Timestamp, condition: PipeCondition) {
        let now = self.run(now, false);
        self.condition = condition;
        self.bottleneck.halt(condition == PipeCondition::Outage, !self.queue.is_empty(), now);
        self.resume(now);
    }

    pub fn model(&self) -> &LinkModel {
        &self.model
    }

    pub fn condition(&self) -> PipeCondition {
        self.condition
    }

    /// The current rate; `None` if it is unlimited or consists of delivery opportunities.
    pub fn rate_bps(&self, now: Timestamp) -> Option<u64> {
        self.bottleneck.rate_bps(now)
    }

    /// The current loss probability; `None` if it depends on the previous packet.
    pub fn loss(&self, now: Timestamp) -> Option<f64> {
        self.loss.probability_at(now)
    }

    /// The current base delay, including the base delay of packet trains.
    pub fn base_delay(&self, now: Timestamp) -> Duration {
        self.delay.base_at(now) + self.bottleneck.train_delay_at(now)
    }

    /// The counters, as of the latest call.
    pub fn statistics(&self) -> &PipeStatistics {
        &self.ledger.statistics
    }

    fn next_event(&self) -> Option<(Timestamp, Event)> {
        let change = self.followed.front().map(|(at, _)| (*at, Event::Change));
        let delivery = self.flight.next_due().map(|due| (due, Event::Delivery));
        let queue = self.queue.next_update().map(|at| (at, Event::Queue));
        let bottleneck = self.bottleneck_due.map(|due| (due, Event::Bottleneck));
        [change, delivery, queue, bottleneck].into_iter().flatten().min()
    }

    fn run(&mut self, now: Timestamp, until_outcome: bool) -> Timestamp {
        while let Some((at, event)) = self.next_event() {
            if at > now {
                break;
            }
            if until_outcome && self.ledger.oldest().is_some() {
                return self.now;
            }
            let at = at.max(self.now);
            self.now = at;
            match event {
                Event::Change => {
                    if let Some((_, change)) = self.followed.pop_front() {
                        self.apply(at, &change);
                    }
                }
                Event::Delivery => self.deliver(),
                Event::Queue => self.queue.update(at),
                Event::Bottleneck => {
                    self.bottleneck.open(at);
                    self.resume(at);
                }
            }
        }
        self.now = self.now.max(now);
        self.now
    }

    fn deliver(&mut self) {
        let Some((due, held)) = self.flight.take() else { return };
        let corrupt = held.corrupt.then(|| self.chance.bits(DrawPurpose::CorruptedBit, held.number, 0));
        let delivery = Delivery { due, mark: held.mark, corrupt, twice: held.twice };
        self.ledger.deliver(held, delivery);
    }

    fn resume(&mut self, now: Timestamp) {
        loop {
            match self.bottleneck.advance(now) {
                Progress::Wants => match self.queue.take(now, &mut self.ledger) {
                    Some(held) => self.bottleneck.send(held, now),
                    None => break,
                },
                Progress::Sent(held, attempt) => self.sent(held, attempt, now),
                Progress::Nothing => break,
            }
        }
        self.rearm();
    }

    fn sent(&mut self, held: Held<P>, attempt: u32, now: Timestamp) {
        if !self.loss.takes(&held, attempt, now, self.chance) {
            let limit = self.model.in_flight_limit as usize;
            if limit > 0 && self.flight.packets() >= limit {
                return self.ledger.drop(held, DropCause::InFlight, now);
            }
            let train_delay = if held.early { Duration::ZERO } else { self.bottleneck.train_delay() };
            let due = now + self.delay.packet_delay(&held, now, self.chance) + train_delay;
            let packets = u64::from(held.packet.segments);
            let may_overtake = held.early || self.delay.may_overtake();
            if self.flight.add(held, due, may_overtake) {
                self.ledger.statistics.reordered_packets += packets;
            }
            return;
        }
        match self.model.arq {
            None => self.ledger.drop(held, DropCause::Loss, now),
            Some(arq) if attempt < arq.retries => {
                self.ledger.statistics.arq_retransmissions += u64::from(held.packet.segments);
                self.bottleneck.again(held, attempt + 1, arq, now);
            }
            Some(_) => self.ledger.drop(held, DropCause::Arq, now),
        }
    }

    fn rearm(&mut self) {
        self.bottleneck_due = self.bottleneck.next(!self.queue.is_empty());
    }

    fn apply(&mut self, now: Timestamp, change: &LinkChange) {
        change.apply(&mut self.model);
        let model = &self.model;
        let disciplines = [change.queue_target, change.queue_interval].iter().any(Option::is_some);
        let kinds = change.queue_discipline.is_some() || change.queue_isolation.is_some();
        if disciplines || kinds || change.ecn.is_some() {
            self.queue.change(model, now);
        }
        if let Some(policer) = change.policer {
            match (&mut self.policer, policer) {
                (Some(running), Some(changed)) => running.change(changed, now),
                (running, changed) => *running = changed.map(|changed| Policer::new(changed, now)),
            }
        }
        if let Some(burst_bytes) = change.burst_bytes {
            self.bottleneck.set_burst(burst_bytes, now);
        }
        if change.loss.is_some() {
            self.loss.change(model.loss.clone(), now);
        }
        if change.delay.is_some() {
            self.delay.set_base(&model.delay, now);
        }
        self.delay.set_jitter(model);
        if change.rate.is_some() {
            self.bottleneck.change(&model.rate, !self.queue.is_empty(), now);
            self.resume(now);
        }
    }
}
