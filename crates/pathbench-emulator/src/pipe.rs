//! One direction of a link at work: packets and time go in, packets and what became of them come out.
//!
//! A packet's times follow from the model alone. Everything happens at its own time, however late the pipe is asked, so
//! that it makes no difference how often it is.

mod bottleneck;
mod course;
mod transit;

use crate::chance::{Chance, Purpose};
use crate::packet::{Delivery, DropCause, Held, Ledger, Outcome, Packet, PipeStatistics};
use crate::queue::{Queue, QueueSettings};
use bottleneck::{Bottleneck, Progress};
use pathbench_link::ChangeSchedule;
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;
use transit::{Delay, Flight, Loss};

/// One direction of a link. See [`LinkModel`] for what it does to packets and in which order.
///
/// Whoever owns it offers packets, fetches outcomes with [`Pipe::poll`] until there are none, and comes back at
/// [`Pipe::next_deadline`]. Times must not decrease from call to call; one that does counts as the latest one.
#[derive(Debug)]
pub struct Pipe<P> {
    model: LinkModel,
    condition: Condition,
    chance: Chance,
    now: Timestamp,
    offered: u64,
    queue: Queue<P>,
    bottleneck: Bottleneck<P>,
    bottleneck_due: Option<Timestamp>,
    loss: Loss,
    delay: Delay,
    flight: Flight<P>,
    followed: VecDeque<(Timestamp, LinkChange)>,
    ledger: Ledger<P>,
}

/// How a pipe carries packets at present, apart from its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    #[default]
    Carrying,
    /// Nothing is sent; packets wait in the queue until it overflows, and go on afterwards.
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
    /// A pipe whose random decisions `seed` decides and whose schedules begin at `now`.
    pub fn new(model: LinkModel, seed: u64, now: Timestamp) -> Self {
        let chance = Chance::new(seed);
        Self {
            condition: Condition::Carrying,
            chance,
            now,
            offered: 0,
            queue: Queue::new(QueueSettings::of(&model), chance, now),
            bottleneck: Bottleneck::new(&model.rate, now),
            bottleneck_due: None,
            loss: Loss::new(model.loss.clone(), now),
            delay: Delay::new(&model, now),
            flight: Flight::new(),
            followed: VecDeque::new(),
            ledger: Ledger::new(),
            model,
        }
    }

    /// Puts a packet in. What happened before is done first.
    pub fn offer(&mut self, now: Timestamp, packet: Packet<P>) {
        let now = self.run(now, false);
        let held = self.admit(now, packet);
        if self.condition == Condition::Blackhole {
            return self.ledger.drop(held, DropCause::Blackhole, now);
        }
        let segment_bytes = held.packet.ip_bytes.div_ceil(held.packet.segments.max(1));
        if segment_bytes > self.model.mtu_bytes {
            return self.ledger.drop(held, DropCause::Mtu, now);
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

    fn admit(&mut self, now: Timestamp, packet: Packet<P>) -> Held<P> {
        let number = self.offered;
        self.offered += 1;
        let overhead_bytes = u64::from(packet.segments) * u64::from(self.model.overhead_bytes);
        let held = Held {
            number,
            offered_at: now,
            wire_bytes: u64::from(packet.ip_bytes) + overhead_bytes,
            twice: self.chance.happens(self.model.duplicate, Purpose::Duplicate, number, 0),
            corrupt: self.chance.happens(self.model.corrupt, Purpose::Corrupt, number, 0),
            mark: false,
            bad_state: self.loss.state_at(number, self.chance),
            packet,
        };
        let statistics = &mut self.ledger.statistics;
        statistics.offered_packets += u64::from(held.packet.segments);
        statistics.offered_bytes += held.wire_bytes;
        held
    }

    /// The next of what happened up to now, in order of time; to be called until there is nothing.
    pub fn poll(&mut self, now: Timestamp) -> Option<Outcome<P>> {
        if let Some(outcome) = self.ledger.fetch() {
            return Some(outcome);
        }
        self.run(now, true);
        self.ledger.fetch()
    }

    /// When [`Pipe::poll`] has something to do next, if no packet comes before.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.ledger.oldest().or_else(|| self.next_event().map(|(at, _)| at))
    }

    /// Puts new parameters in force. What waits or is under way stays; what is being sent goes on at the new rate. A
    /// schedule that is followed changes these parameters no more, and goes on with the others.
    pub fn change(&mut self, now: Timestamp, change: &LinkChange) {
        let now = self.run(now, false);
        self.leave_out(change);
        self.apply(now, change);
        if change.queue.is_some() || change.rate.is_some() {
            // A queue given as a time follows the rate of a change, not that of a schedule: no buffer shrinks because its
            // link fades.
            self.queue.set_limit(&self.model);
        }
    }

    /// Follows a schedule of changes from now on. One that is followed already goes on with the parameters that the new
    /// one does not change.
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

    pub fn set_condition(&mut self, now: Timestamp, condition: Condition) {
        let now = self.run(now, false);
        self.condition = condition;
        self.bottleneck.halt(condition == Condition::Outage, !self.queue.is_empty(), now);
        self.resume(now);
    }

    pub fn model(&self) -> &LinkModel {
        &self.model
    }

    /// How packets are carried at present.
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// The rate in force; `None` where it is unlimited or made of opportunities.
    pub fn rate_bps(&self, now: Timestamp) -> Option<u64> {
        self.bottleneck.rate_bps(now)
    }

    /// The probability of loss in force; `None` where it depends on the packet before.
    pub fn loss(&self, now: Timestamp) -> Option<f64> {
        self.loss.at(now)
    }

    /// The base delay in force, that of packet trains included.
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
                Event::Bottleneck => self.work(at),
            }
        }
        self.now = self.now.max(now);
        self.now
    }

    fn deliver(&mut self) {
        let Some((due, held)) = self.flight.take() else { return };
        let corrupt = held.corrupt.then(|| self.chance.bits(Purpose::CorruptedBit, held.number, 0));
        let delivery = Delivery { due, mark: held.mark, corrupt, twice: held.twice };
        self.ledger.deliver(held, delivery);
    }

    fn work(&mut self, now: Timestamp) {
        self.bottleneck.open(now);
        self.resume(now);
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
            let due = now + self.delay.of(held.number, now, self.chance) + self.bottleneck.train_delay();
            let packets = u64::from(held.packet.segments);
            if self.flight.add(held, due, self.delay.may_overtake()) {
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
        if disciplines || change.queue_discipline.is_some() || change.ecn.is_some() {
            self.queue.change(QueueSettings::of(model), now);
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
