//! Packets between the bottleneck and the far end.

use super::ledger::Held;
use pathbench_record::time::Timestamp;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Packets under way, fetched in the order of their due times.
#[derive(Debug)]
pub(crate) struct Flight<P> {
    /// Packets whose due times do not decrease: all of them where nothing overtakes.
    in_order: VecDeque<Flying<P>>,
    /// Those that overtake one of `in_order`.
    overtaking: BinaryHeap<Flying<P>>,
    /// Latest due time of all packets so far.
    latest: Timestamp,
}

#[derive(Debug)]
struct Flying<P> {
    due: Timestamp,
    held: Held<P>,
}

impl<P> Flight<P> {
    pub(crate) fn new() -> Self {
        Self { in_order: VecDeque::new(), overtaking: BinaryHeap::new(), latest: Timestamp::default() }
    }

    /// Adds a packet; says whether it overtakes one that went before it. Where it may not, it waits for that one.
    pub(crate) fn add(&mut self, held: Held<P>, due: Timestamp, may_overtake: bool) -> bool {
        if due < self.latest && may_overtake {
            self.overtaking.push(Flying { due, held });
            return true;
        }
        self.latest = self.latest.max(due);
        self.in_order.push_back(Flying { due: self.latest, held });
        false
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        match (self.in_order.front(), self.overtaking.peek()) {
            (Some(first), Some(other)) => Some(first.due.min(other.due)),
            (first, other) => first.or(other).map(|flying| flying.due),
        }
    }

    pub(crate) fn take(&mut self) -> Option<(Timestamp, Held<P>)> {
        let from_heap = match (self.in_order.front(), self.overtaking.peek()) {
            (Some(first), Some(other)) => (other.due, other.held.number) < (first.due, first.held.number),
            (None, Some(_)) => true,
            _ => false,
        };
        let flying = if from_heap { self.overtaking.pop() } else { self.in_order.pop_front() }?;
        Some((flying.due, flying.held))
    }
}

/// The earliest is the greatest, as a heap of the standard library wants it.
impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.held.number).cmp(&(self.due, self.held.number))
    }
}

impl<P> PartialOrd for Flying<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flying<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flying<P> {}
