//! The datagrams (RFC 9221) of a connection: blocking calls with a time limit.

use super::connection::QuicConnection;
use bytes::Bytes;
use pathbench_mpquic::{DatagramArrival, DatagramDeparture, DatagramUnsent};
use std::sync::Arc;
use std::time::Duration;

/// Sends and receives the datagrams of a quic or mpquic connection. It keeps the connection's state, not the connection
/// open.
#[derive(Debug)]
pub struct QuicDatagrams {
    connection: Arc<QuicConnection>,
}

impl QuicDatagrams {
    pub(super) fn new(connection: &Arc<QuicConnection>) -> Self {
        connection.lock().use_datagrams();
        connection.endpoint.stamp_arrivals();
        Self { connection: Arc::clone(connection) }
    }

    /// Passes a datagram to the connection; it never waits.
    /// Errors: the datagram is not sent.
    pub fn send(&self, datagram: &[u8]) -> Result<(), DatagramUnsent> {
        let mut core = self.connection.lock();
        core.send_datagram(Bytes::copy_from_slice(datagram))?;
        self.connection.submit(core);
        Ok(())
    }

    /// The datagrams that arrived since the last call; waits up to `limit` for the first one. Empty after that time, or
    /// when the connection has ended.
    pub fn receive(&self, limit: Duration) -> Vec<DatagramArrival> {
        let deadline = self.connection.endpoint.now() + limit;
        let mut core = self.connection.lock();
        loop {
            let arrivals = core.take_arrivals();
            let left = deadline.duration_since(self.connection.endpoint.now());
            if !arrivals.is_empty() || left.is_zero() || core.ended().is_some() {
                return arrivals;
            }
            core = self.connection.wait(core, left);
        }
    }

    /// The datagrams that were sent since the last call, each with its path.
    pub fn take_departures(&self) -> Vec<DatagramDeparture> {
        self.connection.lock().take_departures()
    }

    /// Whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        self.connection.lock().ended().is_some()
    }

    /// Datagrams that arrived or left and found the lists of this end full.
    pub fn omitted(&self) -> u64 {
        self.connection.lock().omitted_datagrams()
    }
}
