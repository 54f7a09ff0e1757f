//! What a server's operator may want to know, as it happens.

use crate::protocol::RefusalCode;
use pathbench_record::transport::Transport;
use std::net::SocketAddr;
use std::time::Duration;

/// Hears what a server does; called from its threads, so it must be quick.
///
/// Tests carry numbers here, not their ids: a test's id permits to end that test and to fetch its record.
pub trait ServerObserver: Send + Sync {
    fn on_event(&self, event: &ServerEvent<'_>);
}

#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent<'a> {
    Started {
        /// Counted from 1.
        number: u64,
        pattern: &'static str,
        transport: Transport,
        client: SocketAddr,
    },
    Ended {
        number: u64,
        /// Whether every stream ran to its end, with every byte confirmed.
        completed: bool,
        sent_bytes: u64,
        received_bytes: u64,
        lasted: Duration,
    },
    Refused {
        code: RefusalCode,
        message: &'a str,
        client: SocketAddr,
    },
    TooManyConnections {
        client: SocketAddr,
    },
    /// A thread of one connection panicked: the connection is aborted, its slots are released. The panic hook has
    /// printed where it was.
    Panicked {
        /// What it was doing: `connection`, `stream` or `observer`.
        place: &'static str,
        /// The panic's message.
        message: &'a str,
    },
    /// A listener died and accepts nothing any more; the others go on. Only a new server brings it back.
    ListenerFailed {
        transport: Transport,
        address: SocketAddr,
        message: &'a str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    pub tests: usize,
    pub max_tests: usize,
    /// Connections, those that have not said anything yet included.
    pub connections: usize,
    pub draining: bool,
    pub failed: Vec<(Transport, SocketAddr)>,
}
