//! What the byte streams of one test have in common at the client.

use crate::connect::{ConnectError, ConnectOptions, connect};
use crate::connection::Connection;
use crate::quic::QuicClient;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A client's dealings with one server over one transport.
///
/// [`Session::open`] gives a byte stream: a connection of its own over tcp and mptcp; over quic and mpquic a
/// bidirectional stream of one QUIC connection, which is opened with the first stream and closed when the
/// session and all its streams are dropped.
pub struct Session {
    transport: Transport,
    options: ConnectOptions,
    clock: Arc<dyn Clock>,
    quic: Mutex<Option<QuicClient>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("transport", &self.transport).finish_non_exhaustive()
    }
}

impl Session {
    /// A session in which nothing is open yet.
    pub fn new(transport: Transport, options: ConnectOptions, clock: Arc<dyn Clock>) -> Self {
        Self { transport, options, clock, quic: Mutex::default() }
    }

    /// Opens a byte stream, waiting at most [`ConnectOptions::timeout`] where a connection must be opened for it.
    ///
    /// A QUIC peer hears of a stream when the first byte is sent on it.
    ///
    /// # Errors
    /// See [`ConnectError`]; nothing stays behind.
    pub fn open(&self) -> Result<Connection, ConnectError> {
        match self.transport {
            Transport::Tcp | Transport::Mptcp => connect(self.transport, &self.options, &self.clock),
            Transport::Quic | Transport::Mpquic => self.open_stream(),
        }
    }

    /// A stream of the QUIC connection, which is opened first where there is none.
    fn open_stream(&self) -> Result<Connection, ConnectError> {
        let mut quic = self.quic.lock().unwrap_or_else(PoisonError::into_inner);
        if quic.as_ref().is_some_and(QuicClient::is_over) {
            *quic = None;
        }
        let client = match quic.take() {
            Some(client) => client,
            None => QuicClient::connect(self.transport, &self.options, Arc::clone(&self.clock))?,
        };
        quic.insert(client).open().map(Connection::from)
    }
}
