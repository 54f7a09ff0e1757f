//! The figures of a QUIC connection.

use super::connection::QuicConnection;
use crate::telemetry::ConnectionSnapshot;
use pathbench_record::connection::Negotiation;
use pathbench_record::transport::Transport;
use std::sync::Arc;

/// Reads the figures of a connection's paths. The first stream of a connection reports them, the others none, so
/// that sums over streams count everything once.
#[derive(Debug)]
pub(crate) struct QuicTelemetry {
    connection: Arc<QuicConnection>,
    transport: Transport,
    reports_paths: bool,
}

impl QuicTelemetry {
    pub(crate) fn new(connection: Arc<QuicConnection>, transport: Transport, reports_paths: bool) -> Self {
        Self { connection, transport, reports_paths }
    }

    /// The connection now: its paths, the last closed ones, and the sums of those before.
    pub(crate) fn snapshot(&self) -> ConnectionSnapshot {
        let now = self.connection.endpoint.now();
        let mut core = self.connection.lock();
        let multipath = match self.transport {
            Transport::Mpquic if core.is_multipath() => Negotiation::Negotiated,
            Transport::Mpquic => Negotiation::NotNegotiated,
            _ => Negotiation::NotAsked,
        };
        let subflows = if self.reports_paths { core.path_figures(now) } else { Vec::new() };
        ConnectionSnapshot { subflows, mptcp: None, multipath }
    }
}
