//! What happened to the paths of a QUIC connection.

use super::path_number::path_number;
use noq_proto::PathId;
use pathbench_record::document::HandoverReason;
use pathbench_record::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Something that happened to a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEvent {
    /// When it was noticed.
    pub at: Timestamp,
    /// The path's id (draft-ietf-quic-multipath section 2.1); absent for an interface without a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<u64>,
    /// The path's local address, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<IpAddr>,
    /// The peer's address on the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
    /// What.
    #[serde(flatten)]
    pub kind: PathEventKind,
}

/// What happened to a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum PathEventKind {
    /// This end began to open it.
    PathOpened,
    /// It could not even be begun.
    PathRefused {
        /// Why, in words.
        reason: String,
    },
    /// It can carry data.
    PathEstablished,
    /// This end asked for its end.
    PathGivenUp {
        /// Why, in words.
        reason: String,
    },
    /// One of the ends gave it up, and it carries nothing more.
    PathAbandoned {
        /// Who and why, in words.
        reason: String,
    },
    /// Its last traces are gone.
    PathClosed,
    /// It is a backup path from now on, or no longer.
    PathStatus {
        /// Whether it is a backup path now.
        backup: bool,
        /// The peer said so.
        by_peer: bool,
    },
    /// Nothing was heard on it for too long while another path was heard: it gets no new data.
    PathSuspended,
    /// It was heard again.
    PathResumed,
    /// Its interface or address is gone, in words.
    InterfaceGone {
        /// What the kernel reported.
        change: String,
    },
    /// Its interface and address are back, in words.
    InterfaceBack {
        /// What the kernel reported.
        change: String,
    },
    /// The scheduler took to other paths than the preferred one, or returned to it.
    Scheduler {
        /// Why, in words.
        reason: String,
        /// Which condition made it leave the preferred path; absent when it returned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<HandoverReason>,
    },
    /// Packets of the path MTU no longer arrive: the search begins again at 1200 bytes.
    MtuBlackHole,
    /// More happened than is kept of one connection; what followed is counted only.
    EventsOmitted {
        /// Events that are not kept.
        count: u64,
    },
}

impl PathEventKind {
    /// `path-opened`, `path-established`, ….
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PathOpened => "path-opened",
            Self::PathRefused { .. } => "path-refused",
            Self::PathEstablished => "path-established",
            Self::PathGivenUp { .. } => "path-given-up",
            Self::PathAbandoned { .. } => "path-abandoned",
            Self::PathClosed => "path-closed",
            Self::PathStatus { .. } => "path-status",
            Self::PathSuspended => "path-suspended",
            Self::PathResumed => "path-resumed",
            Self::InterfaceGone { .. } => "interface-gone",
            Self::InterfaceBack { .. } => "interface-back",
            Self::Scheduler { .. } => "scheduler",
            Self::MtuBlackHole => "mtu-black-hole",
            Self::EventsOmitted { .. } => "events-omitted",
        }
    }
}

/// The path events of a connection.
#[derive(Debug)]
pub(crate) struct PathLog {
    events: Vec<PathEvent>,
    /// How many are kept, that of the omission included.
    most: usize,
    omitted: u64,
}

/// Events kept of one connection.
pub(crate) const MAX_EVENTS: usize = 4096;
/// The same at a server that has not admitted a test on the connection.
pub(crate) const FIRST_EVENTS: usize = 256;

impl PathLog {
    /// A log that keeps so many events.
    pub(crate) fn of(most: usize) -> Self {
        Self { events: Vec::new(), most, omitted: 0 }
    }

    /// Keeps so many from now on.
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
        self.events.push(PathEvent {
            at,
            path: path.map(|(id, ..)| path_number(id).into()),
            local: path.map(|(_, local, _)| local).or(local),
            remote: path.map(|(.., remote)| remote),
            kind,
        });
    }

    fn omit(&mut self, at: Timestamp) {
        self.omitted += 1;
        let kind = PathEventKind::EventsOmitted { count: self.omitted };
        // The last in order of time.
        let at = self.events.last().map_or(at, |last| last.at.max(at));
        let omission = PathEvent { at, path: None, local: None, remote: None, kind };
        if self.omitted > 1 {
            self.events.pop();
        }
        self.events.push(omission);
    }

    /// All of them, in order of time.
    pub(crate) fn events(&mut self) -> &[PathEvent] {
        self.events.sort_by_key(|event| event.at);
        &self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_is_counted() {
        let mut log = PathLog::of(MAX_EVENTS);
        for number in 0..10_000_u64 {
            log.record(Timestamp::from_nanos(number), None, None, PathEventKind::PathClosed);
        }
        let events = log.events();
        assert_eq!(events.len(), MAX_EVENTS);
        let omitted = 10_000 - (MAX_EVENTS as u64 - 1);
        assert_eq!(events.last().unwrap().kind, PathEventKind::EventsOmitted { count: omitted });
    }
}
