//! The log of path events of a QUIC connection.

use noq_proto::PathId;
use pathbench_record::connection::{PathEvent, PathEventKind};
use pathbench_record::time::Timestamp;
use std::net::{IpAddr, SocketAddr};
use tracing::{info, info_span};

/// The number of a path id, which the library exposes only as text.
pub(crate) fn path_number(path: PathId) -> u32 {
    path.to_string().parse().unwrap_or(u32::MAX)
}

#[derive(Debug)]
pub(crate) struct PathLog {
    events: Vec<PathEvent>,
    most: usize,
    omitted: u64,
}

/// Events kept per connection.
pub const MAX_EVENTS: usize = 4096;
/// Events kept of a connection on which the server has not admitted a test yet.
pub const FIRST_EVENTS: usize = 256;

impl PathLog {
    /// A log that keeps at most `most` events.
    pub(crate) fn new(most: usize) -> Self {
        Self { events: Vec::new(), most, omitted: 0 }
    }

    pub(crate) fn keep(&mut self, most: usize) {
        self.most = most;
    }

    /// Adds an event of a path (id, local address, the peer's address), or of a local address without one.
    pub(crate) fn record(
        &mut self,
        at: Timestamp,
        path: Option<(PathId, IpAddr, SocketAddr)>,
        local: Option<IpAddr>,
        kind: PathEventKind,
    ) {
        if self.events.len() + 1 >= self.most || self.omitted > 0 {
            return self.omit(at);
        }
        let event = PathEvent {
            at,
            path: path.map(|(id, ..)| path_number(id).into()),
            local: path.map(|(_, local, _)| local).or(local),
            remote: path.map(|(.., remote)| remote),
            kind,
        };
        let _span =
            info_span!("path", id = event.path, local = ?event.local, remote = ?event.remote).entered();
        info!(kind = ?event.kind, "path event");
        // The scheduler's events are recorded after the turn in which they occurred.
        let later = self.events.iter().rev().take_while(|known| known.at > at).count();
        self.events.insert(self.events.len() - later, event);
    }

    fn omit(&mut self, at: Timestamp) {
        self.omitted += 1;
        let kind = PathEventKind::EventsOmitted { count: self.omitted };
        // The omission is the last event in order of time.
        let at = self.events.last().map_or(at, |last| last.at.max(at));
        let omission = PathEvent { at, path: None, local: None, remote: None, kind };
        if self.omitted > 1 {
            self.events.pop();
        }
        self.events.push(omission);
    }

    /// In order of time.
    pub(crate) fn events(&self) -> &[PathEvent] {
        &self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_is_counted() {
        let mut log = PathLog::new(MAX_EVENTS);
        for number in 0..10_000_u64 {
            log.record(Timestamp::from_nanos(number), None, None, PathEventKind::PathClosed);
        }
        let events = log.events();
        assert_eq!(events.len(), MAX_EVENTS);
        let omitted = 10_000 - (MAX_EVENTS as u64 - 1);
        assert_eq!(events.last().unwrap().kind, PathEventKind::EventsOmitted { count: omitted });
    }
}
