//! The queue in front of the bottleneck.

mod management;

use crate::packet::{Chance, DrawPurpose, DropCause, Ecn, Held, Ledger};
use crate::{Discipline, LinkModel, queue_bytes};
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
    management: Management,
    chance: Chance,
    waiting: VecDeque<Held<P>>,
    bytes: u64,
    packets: u64,
    last_waited: Duration,
}

#[derive(Debug)]
enum Management {
    DropTail,
    DropHead,
    CoDel(CoDel),
    Pie(Pie),
}

impl Management {
    fn new(model: &LinkModel, now: Timestamp) -> Self {
        match model.queue_discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::DropHead => Self::DropHead,
            Discipline::CoDel => Self::CoDel(CoDel::new(codel(model), now)),
            Discipline::Pie => Self::Pie(Pie::new(pie(model))),
        }
    }
}

impl<P> Queue<P> {
    pub(crate) fn new(model: &LinkModel, chance: Chance, now: Timestamp) -> Self {
        Self {
            limit: Limit::from_model(model),
            ecn: model.ecn,
            management: Management::new(model, now),
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
            (management, _) => *management = Management::new(model, now),
        }
    }

    pub(crate) fn set_limit(&mut self, model: &LinkModel) {
        self.limit = Limit::from_model(model);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
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

    pub(crate) fn take(&mut self, now: Timestamp, ledger: &mut Ledger<P>) -> Option<Held<P>> {
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
            let taken = Taken {
                wire_bytes: held.wire_bytes,
                waited: self.last_waited,
                backlog_bytes: self.bytes,
                markable: self.ecn && held.packet.ecn != Ecn::NotEct,
            };
            match codel.judge(taken, now) {
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
        match self.limit {
            Limit::Packets(limit) => self.packets + u64::from(held.packet.segments) > u64::from(limit),
            Limit::Bytes(limit) => self.bytes + held.wire_bytes > limit,
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
