//! What became of packets: outcomes that wait to be fetched, and the counters.

use crate::packet::{Delivery, DropCause, Fate, Outcome, Packet};
use crate::statistics::PipeStatistics;
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;

/// A packet inside the pipe and what has been decided about it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "decisions that have nothing to do with each other")]
pub(crate) struct Held<P> {
    pub(crate) packet: Packet<P>,
    pub(crate) number: u64,
    pub(crate) offered_at: Timestamp,
    /// IP bytes and overhead of all its segments.
    pub(crate) wire_bytes: u64,
    pub(crate) twice: bool,
    pub(crate) corrupt: bool,
    /// To be marked with CE.
    pub(crate) mark: bool,
    /// Whether the two-state channel is in its bad state at this packet's number.
    pub(crate) bad_state: bool,
}

/// Outcomes in order of time, and counters.
#[derive(Debug)]
pub(crate) struct Ledger<P> {
    outcomes: VecDeque<Outcome<P>>,
    pub(crate) statistics: PipeStatistics,
}

impl<P> Ledger<P> {
    pub(crate) fn new() -> Self {
        Self { outcomes: VecDeque::new(), statistics: PipeStatistics::default() }
    }

    pub(crate) fn drop(&mut self, held: Held<P>, cause: DropCause, at: Timestamp) {
        *self.statistics.dropped_packets.entry(cause).or_insert(0) += u64::from(held.packet.segments);
        self.end(held, Fate::Dropped { cause, at });
    }

    pub(crate) fn deliver(&mut self, held: Held<P>, delivery: Delivery) {
        let packets = u64::from(held.packet.segments);
        self.statistics.delivered_packets += packets;
        self.statistics.delivered_bytes += held.wire_bytes;
        if held.mark {
            self.statistics.marked_packets += packets;
        }
        if held.corrupt {
            self.statistics.corrupted_packets += packets;
        }
        if held.twice {
            self.statistics.duplicated_packets += packets;
        }
        self.end(held, Fate::Delivered(delivery));
    }

    fn end(&mut self, held: Held<P>, fate: Fate) {
        let Held { packet, number, offered_at, .. } = held;
        self.outcomes.push_back(Outcome { packet, number, offered_at, fate });
    }

    pub(crate) fn fetch(&mut self) -> Option<Outcome<P>> {
        self.outcomes.pop_front()
    }

    /// When the oldest unfetched outcome happened.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.outcomes.front().map(|outcome| match outcome.fate {
            Fate::Delivered(delivery) => delivery.due,
            Fate::Dropped { at, .. } => at,
        })
    }
}
