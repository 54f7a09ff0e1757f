//! What a server's operator may want to know, as it happens.

use crate::protocol::RefusalCode;
use pathbench_record::transport::Transport;
use std::net::SocketAddr;
use std::time::Duration;

/// Hears what a server does; called from its threads, so it must be quick.
///
/// Tests carry numbers here, not their ids: whoever knows an id can end that test and fetch its record.
pub trait ServerObserver: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &ServerEvent<'_>);
}

/// Something that happened on a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent<'a> {
    /// A test begins.
    Started {
        /// Counted from 1.
        number: u64,
        /// Its pattern.
        pattern: &'static str,
        /// Its transport, as the client has it.
        transport: Transport,
        /// The client.
        client: SocketAddr,
    },
    /// A test is over.
    Ended {
        /// The number it began with.
        number: u64,
        /// Whether every stream ran to its end, with every byte confirmed.
        completed: bool,
        /// Payload sent to the client.
        sent_bytes: u64,
        /// Payload received from the client.
        received_bytes: u64,
        /// How long it took.
        lasted: Duration,
    },
    /// A client was refused.
    Refused {
        /// The class of reason.
        code: RefusalCode,
        /// The reason, as the client was told.
        message: &'a str,
        /// The client.
        client: SocketAddr,
    },
    /// A connection was closed at once, for there were too many.
    TooManyConnections {
        /// The client.
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
        /// Its transport.
        transport: Transport,
        /// Where it listened.
        address: SocketAddr,
        /// Why.
        message: &'a str,
    },
}

/// How loaded a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Tests that run.
    pub tests: usize,
    /// Tests that it runs at most.
    pub max_tests: usize,
    /// Connections, those that have not said anything yet included.
    pub connections: usize,
    /// Whether it takes no new tests any more.
    pub draining: bool,
    /// Listeners that died.
    pub failed: Vec<(Transport, SocketAddr)>,
}
