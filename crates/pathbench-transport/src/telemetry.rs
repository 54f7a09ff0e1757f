//! What is known of a connection and of each of its paths.

use crate::quic::QuicTelemetry;
use crate::socket_telemetry::SocketTelemetry;
use pathbench_record::connection::{MptcpFigures, Negotiation};
use pathbench_record::sample::PathFigures;
use serde::Serialize;
use std::io;
use thiserror::Error;

/// Looks at the addresses before and after the figures, until both looks agree.
pub(crate) const ATTEMPTS: usize = 8;

/// A connection and its subflows at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionSnapshot {
    /// Every subflow in order of appearance, closed ones with their last figures. Of closed ones the last 32 are kept
    /// one by one, those before them as sums ([`PathFigures::closed_paths`]).
    pub subflows: Vec<PathFigures>,
    /// The connection as a whole; absent for tcp and after a fallback.
    pub mptcp: Option<MptcpFigures>,
    /// Whether multipath is in force.
    pub multipath: Negotiation,
}

/// Where figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TelemetrySource {
    /// `MPTCP_FULL_INFO` (6.5): everything in one consistent call, with the kernel's subflow ids.
    FullInfo,
    /// `MPTCP_INFO`, `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS` (5.16).
    SeparateOptions,
    /// `TCP_INFO`: one path. On an mptcp connection that is the initial subflow only.
    TcpInfo,
}

/// Why no figures could be read.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The kernel's answer lacks what the figures need.
    #[error("this kernel tells too little about {what} ({length} bytes); it takes Linux {needed} or newer")]
    KernelTooOld {
        what: &'static str,
        length: usize,
        /// The oldest kernel that will do.
        needed: &'static str,
    },
    #[error("subflows of the connection changed during each of {ATTEMPTS} looks at them")]
    Unsteady,
    #[error("reading {what} of the connection: {source}")]
    Failed { what: &'static str, source: io::Error },
}

/// Reads a connection's figures. Of a kernel socket it holds a handle of its own, and the socket stays open until it
/// is dropped.
#[derive(Debug)]
pub struct Telemetry {
    figures: Figures,
}

#[derive(Debug)]
enum Figures {
    Socket(Box<SocketTelemetry>),
    Quic(QuicTelemetry),
}

impl From<SocketTelemetry> for Telemetry {
    fn from(socket: SocketTelemetry) -> Self {
        Self { figures: Figures::Socket(Box::new(socket)) }
    }
}

impl From<QuicTelemetry> for Telemetry {
    fn from(quic: QuicTelemetry) -> Self {
        Self { figures: Figures::Quic(quic) }
    }
}

impl Telemetry {
    /// Takes figures from `source` alone, or from the best one there is (`None`), and forgets the subflows seen so
    /// far. For tests and comparisons; QUIC has one source only.
    pub fn restrict_to(&mut self, source: Option<TelemetrySource>) {
        match &mut self.figures {
            Figures::Socket(socket) => socket.restrict_to(source),
            Figures::Quic(_) => {}
        }
    }

    /// The connection now, closed subflows or paths included.
    ///
    /// # Errors
    /// See [`TelemetryError`]; what was seen before stays and the next call may succeed.
    pub fn snapshot(&mut self) -> Result<ConnectionSnapshot, TelemetryError> {
        match &mut self.figures {
            Figures::Socket(socket) => socket.snapshot(),
            Figures::Quic(quic) => Ok(quic.snapshot()),
        }
    }
}
