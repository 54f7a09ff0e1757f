//! The queue in front of the bottleneck.

mod codel;
mod pie;

use crate::chance::{Chance, Purpose};
use crate::model::{QueueDiscipline, QueueLimit, QueueModel};
use crate::packet::{DropCause, Ecn};
use crate::pipe::ledger::{Held, Ledger};
use codel::{CoDel, Taken};
use pathbench_record::time::Timestamp;
use pie::Pie;
use std::collections::VecDeque;
use std::time::Duration;

/// Packets that wait, oldest first.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    model: QueueModel,
    management: Management,
    chance: Chance,
    waiting: VecDeque<Held<P>>,
    bytes: u64,
    /// Wire packets.
    packets: u64,
    /// How long the packet taken last had waited.
    last_waited: Duration,
}

/// What is dropped before the queue is full.
#[derive(Debug)]
enum Management {
    Nothing,
    CoDel(CoDel),
    Pie(Pie),
}

impl Management {
    fn new(discipline: QueueDiscipline, now: Timestamp) -> Self {
        match discipline {
            QueueDiscipline::DropTail | QueueDiscipline::DropHead => Self::Nothing,
            QueueDiscipline::CoDel { target, interval } => Self::CoDel(CoDel::new(target, interval, now)),
            QueueDiscipline::Pie { target, update } => Self::Pie(Pie::new(target, update)),
        }
    }
}

impl<P> Queue<P> {
    pub(crate) fn new(model: QueueModel, chance: Chance, now: Timestamp) -> Self {
        Self {
            model,
            management: Management::new(model.discipline, now),
            chance,
            waiting: VecDeque::new(),
            bytes: 0,
            packets: 0,
            last_waited: Duration::ZERO,
        }
    }

    /// What waits stays, even beyond a smaller limit; a discipline of the same kind keeps its state.
    pub(crate) fn change(&mut self, model: QueueModel, now: Timestamp) {
        self.model = model;
        match (&mut self.management, model.discipline) {
            (Management::CoDel(codel), QueueDiscipline::CoDel { target, interval }) => {
                (codel.target, codel.interval) = (target, interval);
            }
            (Management::Pie(pie), QueueDiscipline::Pie { target, update }) => pie.tune(target, update),
            (management, discipline) => *management = Management::new(discipline, now),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When [`Queue::update`] has something to do.
    pub(crate) fn next_update(&self) -> Option<Timestamp> {
        match &self.management {
            Management::Pie(pie) => pie.next_update(),
            Management::Nothing | Management::CoDel(_) => None,
        }
    }

    /// What is to be done from time to time.
    pub(crate) fn update(&mut self, now: Timestamp) {
        let delay = self
            .waiting
            .front()
            .map_or(Duration::ZERO, |held| self.last_waited.max(now.since(held.offered_at)));
        if let Management::Pie(pie) = &mut self.management {
            pie.reckon(delay, now);
        }
    }

    /// A packet arrives: it, or an older one, may be dropped.
    pub(crate) fn put(&mut self, mut held: Held<P>, now: Timestamp, ledger: &mut Ledger<P>) {
        while !self.is_empty() && self.overflows_with(&held) {
            let oldest = match self.model.discipline {
                QueueDiscipline::DropHead => self.remove(ledger),
                _ => None,
            };
            match oldest {
                Some(oldest) => ledger.drop(oldest, DropCause::QueueFull, now),
                None => return ledger.drop(held, DropCause::QueueFull, now),
            }
        }
        if let Management::Pie(pie) = &mut self.management {
            let unit = self.chance.unit(Purpose::QueueManagement, held.number, 0);
            let markable = self.model.ecn && held.packet.ecn != Ecn::NotEct;
            match pie.judge(self.bytes, markable, unit, now) {
                pie::Verdict::Queue => {}
                pie::Verdict::Mark => held.mark = true,
                pie::Verdict::Drop => return ledger.drop(held, DropCause::QueueManagement, now),
            }
        }
        self.bytes += held.wire_bytes;
        self.packets += u64::from(held.packet.segments);
        self.waiting.push_back(held);
        self.count(ledger);
    }

    /// The next packet for the bottleneck.
    pub(crate) fn take(&mut self, now: Timestamp, ledger: &mut Ledger<P>) -> Option<Held<P>> {
        loop {
            let Some(mut held) = self.remove(ledger) else {
                if let Management::CoDel(codel) = &mut self.management {
                    codel.found_empty();
                }
                self.last_waited = Duration::ZERO;
                return None;
            };
            self.last_waited = now.since(held.offered_at);
            let Management::CoDel(codel) = &mut self.management else { return Some(held) };
            let taken = Taken {
                wire_bytes: held.wire_bytes,
                waited: self.last_waited,
                backlog_bytes: self.bytes,
                markable: self.model.ecn && held.packet.ecn != Ecn::NotEct,
            };
            match codel.judge(taken, now) {
                codel::Verdict::Send => return Some(held),
                codel::Verdict::Mark => {
                    held.mark = true;
                    return Some(held);
                }
                codel::Verdict::Drop => ledger.drop(held, DropCause::QueueManagement, now),
            }
        }
    }

    fn overflows_with(&self, held: &Held<P>) -> bool {
        match self.model.limit {
            QueueLimit::Packets(limit) => self.packets + u64::from(held.packet.segments) > u64::from(limit),
            QueueLimit::Bytes(limit) => self.bytes + held.wire_bytes > limit,
        }
    }

    fn remove(&mut self, ledger: &mut Ledger<P>) -> Option<Held<P>> {
        let held = self.waiting.pop_front()?;
        self.bytes -= held.wire_bytes;
        self.packets -= u64::from(held.packet.segments);
        self.count(ledger);
        Some(held)
    }

    fn count(&self, ledger: &mut Ledger<P>) {
        let statistics = &mut ledger.statistics;
        statistics.queue_bytes = self.bytes;
        statistics.queue_packets = self.packets;
        statistics.largest_queue_bytes = statistics.largest_queue_bytes.max(self.bytes);
        statistics.largest_queue_packets = statistics.largest_queue_packets.max(self.packets);
    }
}
