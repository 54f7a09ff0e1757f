//! The queue in front of the bottleneck.

use crate::model::{QueueDiscipline, QueueLimit, QueueModel};
use crate::packet::DropCause;
use crate::pipe::ledger::{Held, Ledger};
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;

/// Packets that wait, oldest first.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    model: QueueModel,
    waiting: VecDeque<Held<P>>,
    bytes: u64,
    /// Wire packets.
    packets: u64,
}

impl<P> Queue<P> {
    pub(crate) fn new(model: QueueModel) -> Self {
        Self { model, waiting: VecDeque::new(), bytes: 0, packets: 0 }
    }

    /// What waits stays, even beyond a smaller limit.
    pub(crate) fn change(&mut self, model: QueueModel) {
        self.model = model;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A packet arrives: it, or an older one, may be dropped.
    pub(crate) fn put(&mut self, held: Held<P>, now: Timestamp, ledger: &mut Ledger<P>) {
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
        self.bytes += held.wire_bytes;
        self.packets += u64::from(held.packet.segments);
        self.waiting.push_back(held);
        self.count(ledger);
    }

    /// The next packet for the bottleneck.
    pub(crate) fn take(&mut self, _now: Timestamp, ledger: &mut Ledger<P>) -> Option<Held<P>> {
        self.remove(ledger)
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
