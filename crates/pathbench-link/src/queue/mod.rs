//! The queue in front of the bottleneck.

mod fair;
mod management;

use crate::packet::{Chance, DrawPurpose, DropCause, Ecn, Held, Ledger};
use crate::{Discipline, LinkModel, queue_bytes};
use fair::{FairQueue, FairTaken};
use management::{CoDel, Pie, Taken, Verdict};
use pathbench_record::time::Timestamp;
use pathbench_record::units::QueueLimit;
use std::collections::VecDeque;
use std::time::Duration;

/// RFC 8289, sections 4.2 and 4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);
const CODEL_INTERVAL: Duration = Duration::from_millis(100);
/// RFC 8033, section 4.2 (`QDELAY_REF` and `T_UPDATE`).
const PIE_TARGET: Duration = Duration::from_millis(15);
const PIE_UPDATE: Duration = Duration::from_millis(15);

#[derive(Debug, Clone, Copy)]
enum Limit {
    Packets(u32),
    Bytes(u64),
}

impl Limit {
    fn from_model(model: &LinkModel) -> Self {
        match model.queue {
            QueueLimit::Packets(packets) => Self::Packets(packets),
            limit => Self::Bytes(queue_bytes(limit, model.mean_rate_bps().unwrap_or(0), model.mtu_bytes)),
        }
    }
}

/// Target and interval of `CoDel`.
fn codel(model: &LinkModel) -> (Duration, Duration) {
    (model.queue_target.unwrap_or(CODEL_TARGET), model.queue_interval.unwrap_or(CODEL_INTERVAL))
}

/// Target and update period of PIE.
fn pie(model: &LinkModel) -> (Duration, Duration) {
    (model.queue_target.unwrap_or(PIE_TARGET), model.queue_interval.unwrap_or(PIE_UPDATE))
}

#[derive(Debug)]
pub(crate) struct Queue<P> {
    limit: Limit,
    ecn: bool,
    management: Management<P>,
    chance: Chance,
    /// In the order of their arrival; empty for a fair queue.
    waiting: VecDeque<Held<P>>,
    bytes: u64,
    packets: u64,
    last_waited: Duration,
}

#[derive(Debug)]
enum Management<P> {
    DropTail,
    DropHead,
    CoDel(CoDel),
    Pie(Pie),
    /// Holds the packets itself.
    Fair(Box<FairQueue<P>>),
}

impl<P> Management<P> {
    fn new(model: &LinkModel, chance: Chance, now: Timestamp) -> Self {
        match model.queue_discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::DropHead => Self::DropHead,
            Discipline::CoDel => Self::CoDel(CoDel::new(codel(model), now)),
            Discipline::Pie => Self::Pie(Pie::new(pie(model))),
            Discipline::FqCoDel => Self::Fair(Box::new(FairQueue::new(model, codel(model), chance, now))),
        }
    }
}

impl<P> Queue<P> {
    pub(crate) fn new(model: &LinkModel, chance: Chance, now: Timestamp) -> Self {
        Self {
            limit: Limit::from_model(model),
            ecn: model.ecn,
            management: Management::new(model, chance, now),
            chance,
            waiting: VecDeque::new(),
            bytes: 0,
            packets: 0,
            last_waited: Duration::ZERO,
        }
    }

    /// Queued packets stay, even beyond a smaller limit; a discipline of the same kind keeps its state.
    pub(crate) fn change(&mut self, model: &LinkModel, now: Timestamp) {
        self.ecn = model.ecn;
        match (&mut self.management, model.queue_discipline) {
            (Management::CoDel(known), Discipline::CoDel) => (known.target, known.interval) = codel(model),
            (Management::Pie(known), Discipline::Pie) => (known.target, known.update) = pie(model),
            (Management::Fair(known), Discipline::FqCoDel) => known.change(model, codel(model)),
            _ => self.replace(Management::new(model, self.chance, now)),
        }
    }

    fn replace(&mut self, management: Management<P>) {
        if let Management::Fair(before) = std::mem::replace(&mut self.management, management) {
            self.waiting = before.into_waiting();
        }
        if let Management::Fair(queue) = &mut self.management {
            self.waiting.drain(..).for_each(|held| queue.put(held));
        }
    }

    pub(crate) fn set_limit(&mut self, model: &LinkModel) {
        self.limit = Limit::from_model(model);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(crate) fn next_update(&self) -> Option<Timestamp> {
        match &self.management {
            Management::Pie(pie) => pie.next_update(),
            _ => None,
        }
    }

    pub(crate) fn update(&mut self, now: Timestamp) {
        let delay = self
            .waiting
            .front()
            .map_or(Duration::ZERO, |held| self.last_waited.max(now.duration_since(held.offered_at)));
        if let Management::Pie(pie) = &mut self.management {
            pie.update_probability(delay, now);
        }
    }

    pub(crate) fn put(&mut self, mut held: Held<P>, now: Timestamp, ledger: &mut Ledger<P>) {
        if let Management::Fair(queue) = &mut self.management {
            self.bytes += held.wire_bytes;
            self.packets += u64::from(held.packet.segments);
            queue.put(held);
            self.shorten(now, ledger);
            return self.count(ledger);
        }
        while !self.is_empty() && self.overflows_with(&held) {
            let oldest = match self.management {
                Management::DropHead => self.remove(ledger),
                _ => None,
            };
            match oldest {
                Some(oldest) => ledger.drop(oldest, DropCause::QueueFull, now),
                None => return ledger.drop(held, DropCause::QueueFull, now),
            }
        }
        if let Management::Pie(pie) = &mut self.management {
            let unit = self.chance.unit(DrawPurpose::QueueManagement, held.number, 0);
            let markable = self.ecn && held.packet.ecn != Ecn::NotEct;
            match pie.judge(self.bytes, markable, unit, now) {
                Verdict::Pass => {}
                Verdict::Mark => held.mark = true,
                Verdict::Drop => return ledger.drop(held, DropCause::QueueManagement, now),
            }
        }
        self.bytes += held.wire_bytes;
        self.packets += u64::from(held.packet.segments);
        self.waiting.push_back(held);
        self.count(ledger);
    }

    /// Drops packets of the longest queues of a fair queue beyond the limit, but never the only packet.
    fn shorten(&mut self, now: Timestamp, ledger: &mut Ledger<P>) {
        while self.exceeds(self.packets, self.bytes)
            && let Management::Fair(queue) = &mut self.management
            && queue.holds_several()
            && let Some(oldest) = queue.remove_from_longest()
        {
            self.bytes -= oldest.wire_bytes;
            self.packets -= u64::from(oldest.packet.segments);
            ledger.drop(oldest, DropCause::QueueFull, now);
        }
    }

    fn take_fairly(&mut self, now: Timestamp, ledger: &mut Ledger<P>) -> Option<Held<P>> {
        while let Management::Fair(queue) = &mut self.management
            && let Some(FairTaken { held, drop }) = queue.take(self.ecn, now)
        {
            self.bytes -= held.wire_bytes;
            self.packets -= u64::from(held.packet.segments);
            self.count(ledger);
            if !drop {
                return Some(held);
            }
            ledger.drop(held, DropCause::QueueManagement, now);
        }
        None
    }

    pub(crate) fn take(&mut self, now: Timestamp, ledger: &mut Ledger<P>) -> Option<Held<P>> {
        if matches!(self.management, Management::Fair(_)) {
            return self.take_fairly(now, ledger);
        }
        loop {
            let Some(mut held) = self.remove(ledger) else {
                if let Management::CoDel(codel) = &mut self.management {
                    codel.found_empty();
                }
                self.last_waited = Duration::ZERO;
                return None;
            };
            self.last_waited = now.duration_since(held.offered_at);
            let Management::CoDel(codel) = &mut self.management else { return Some(held) };
            match codel.judge(Taken::new(&held, self.bytes, self.ecn, now), now) {
                Verdict::Pass => return Some(held),
                Verdict::Mark => {
                    held.mark = true;
                    return Some(held);
                }
                Verdict::Drop => ledger.drop(held, DropCause::QueueManagement, now),
            }
        }
    }

    fn overflows_with(&self, held: &Held<P>) -> bool {
        self.exceeds(self.packets + u64::from(held.packet.segments), self.bytes + held.wire_bytes)
    }

    fn exceeds(&self, packets: u64, bytes: u64) -> bool {
        match self.limit {
            Limit::Packets(limit) => packets > u64::from(limit),
            Limit::Bytes(limit) => bytes > limit,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disciplines_have_the_targets_and_intervals_of_their_rfcs() {
        let ms = Duration::from_millis;
        let usual = LinkModel::default();
        assert_eq!(codel(&usual), (ms(5), ms(100)));
        assert_eq!(pie(&usual), (ms(15), ms(15)));
        assert_eq!(codel(&LinkModel { queue_target: Some(ms(8)), ..usual }), (ms(8), ms(100)));
    }
}
