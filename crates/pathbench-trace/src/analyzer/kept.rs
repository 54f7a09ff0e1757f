//! The connections with the most payload.

use pathbench_record::trace::TracedConnection;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keeps a bounded number of connections: those with the most payload, the earliest among equals.
#[derive(Debug)]
pub(super) struct Kept {
    most: usize,
    heap: BinaryHeap<Reverse<(u64, Reverse<u64>, usize)>>,
    places: Vec<Option<Box<TracedConnection>>>,
}

impl Kept {
    pub(super) fn new(most: usize) -> Self {
        Self { most, heap: BinaryHeap::new(), places: Vec::new() }
    }

    /// A connection with this payload would be kept.
    pub(super) fn wants(&self, payload_bytes: u64, id: u64) -> bool {
        self.places.len() < self.most
            || self.heap.peek().is_some_and(|Reverse((least, least_id, _))| {
                (*least, *least_id) < (payload_bytes, Reverse(id))
            })
    }

    pub(super) fn keep(&mut self, payload_bytes: u64, connection: TracedConnection) {
        if !self.wants(payload_bytes, connection.id) {
            return;
        }
        let id = Reverse(connection.id);
        let place = if self.places.len() < self.most {
            self.places.push(None);
            self.places.len() - 1
        } else {
            let Some(Reverse((_, _, place))) = self.heap.pop() else { return };
            place
        };
        self.places[place] = Some(Box::new(connection));
        self.heap.push(Reverse((payload_bytes, id, place)));
    }

    /// In order of their ids.
    pub(super) fn into_connections(self) -> Vec<TracedConnection> {
        let mut connections: Vec<_> =
            self.places.into_iter().flatten().map(|connection| *connection).collect();
        connections.sort_by_key(|connection| connection.id);
        connections
    }
}
