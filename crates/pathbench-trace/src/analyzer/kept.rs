//! The connections with the most payload.

use super::evidence::Shown;
use super::kept_times::KeptTimes;
use pathbench_record::trace::TracedConnection;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// State of a connection of the result that becomes part of it at the end.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// The frames of its findings.
    pub(super) shown: Shown,
    /// Of subflows at two points of capture.
    pub(super) times: Vec<KeptTimes>,
}

/// Keeps a bounded number of connections: those with the most payload, the earliest among equals.
#[derive(Debug)]
pub(super) struct Kept {
    most: usize,
    heap: BinaryHeap<Reverse<(u64, Reverse<u64>, usize)>>,
    slots: Vec<Option<Box<(TracedConnection, Aside)>>>,
}

impl Kept {
    pub(super) fn new(most: usize) -> Self {
        Self { most, heap: BinaryHeap::new(), slots: Vec::new() }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// A connection with this payload would be kept.
    pub(super) fn wants(&self, payload_bytes: u64, id: u64) -> bool {
        self.slots.len() < self.most
            || self.heap.peek().is_some_and(|Reverse((least, least_id, _))| {
                (*least, *least_id) < (payload_bytes, Reverse(id))
            })
    }

    pub(super) fn keep(&mut self, payload_bytes: u64, connection: TracedConnection, aside: Aside) {
        if !self.wants(payload_bytes, connection.id) {
            return;
        }
        let id = Reverse(connection.id);
        let slot = if self.slots.len() < self.most {
            self.slots.push(None);
            self.slots.len() - 1
        } else {
            let Some(Reverse((_, _, slot))) = self.heap.pop() else { return };
            slot
        };
        self.slots[slot] = Some(Box::new((connection, aside)));
        self.heap.push(Reverse((payload_bytes, id, slot)));
    }

    /// In order of their ids, with what belongs to them.
    pub(super) fn into_connections(self) -> (Vec<TracedConnection>, Vec<Aside>) {
        let mut connections: Vec<_> =
            self.slots.into_iter().flatten().map(|connection| *connection).collect();
        connections.sort_by_key(|(connection, _)| connection.id);
        connections.into_iter().unzip()
    }
}
