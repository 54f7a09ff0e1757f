//! The options of sockets, connections and listeners.

use crate::quic::capacity::{QuicCapacity, QuicLimits};
use crate::tls::{Security, ServerIdentity};
use pathbench_mpquic::QuicOptions;
use pathbench_record::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Options to set before a socket connects or listens; absent fields keep the kernel's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketOptions {
    /// Congestion control of every subflow (`TCP_CONGESTION`).
    pub congestion: Option<String>,
    /// Send buffer (`SO_SNDBUF`); disables autotuning. The kernel doubles the value for its own bookkeeping and,
    /// without `CAP_NET_ADMIN`, caps it at `net.core.wmem_max`: see `InForce`.
    pub send_buffer_bytes: Option<u64>,
    /// Receive buffer (`SO_RCVBUF`), likewise capped at `net.core.rmem_max`.
    pub receive_buffer_bytes: Option<u64>,
    /// Disable Nagle's algorithm (`TCP_NODELAY`).
    pub no_delay: bool,
}

/// Server address, local address and options of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectOptions {
    pub remote: SocketAddr,
    /// The local address; selected by the kernel when absent.
    pub local: Option<IpAddr>,
    /// The outgoing interface (`SO_BINDTODEVICE`). With mptcp it applies to every subflow.
    pub interface: Option<String>,
    pub socket: SocketOptions,
    /// Timeout for the server's answer.
    pub timeout: Duration,
    /// Whether to encrypt, and how to authenticate the server; quic and mpquic always encrypt.
    pub security: Security,
    pub quic: QuicOptions,
}

impl ConnectOptions {
    /// A clear-text connection to `remote` with default options and a source address selected by the kernel.
    pub fn new(remote: SocketAddr, timeout: Duration) -> Self {
        Self {
            remote,
            local: None,
            interface: None,
            socket: SocketOptions::default(),
            timeout,
            security: Security::Clear,
            quic: QuicOptions::default(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Backlog: connections that the kernel completes before they are accepted (tcp, mptcp).
    pub backlog: u32,
    /// Socket options of accepted connections; for quic and mpquic, congestion control and buffer sizes.
    pub socket: SocketOptions,
    /// The server's certificate and key. Required by quic and mpquic. With an identity, tcp and mptcp listeners accept
    /// TLS and clear text on the same port; the client chooses.
    pub identity: Option<Arc<ServerIdentity>>,
    pub quic: QuicOptions,
    /// Limits of quic and mpquic connections, shared by all listeners with the same value.
    pub quic_capacity: Arc<QuicCapacity>,
    /// Another service on the UDP port of quic and mpquic.
    pub datagrams: Option<Arc<dyn DatagramService>>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 128,
            socket: SocketOptions::default(),
            identity: None,
            quic: QuicOptions::default(),
            quic_capacity: Arc::new(QuicCapacity::new(QuicLimits::default())),
            datagrams: None,
        }
    }
}

/// The UDP port of a QUIC listener, for datagrams that are not answers.
pub trait DatagramPort: Debug + Send + Sync {
    /// Sends a datagram to `to` from the local address `from`, where it is given; it never waits.
    /// Errors: the kernel's, `WouldBlock` when the socket's buffer is full. The datagram is not sent.
    fn send_from(&self, from: Option<IpAddr>, to: SocketAddr, datagram: &[u8]) -> io::Result<()>;

    /// From now on, the arrival times of datagrams are those at which the kernel received them.
    fn stamp_arrivals(&self);
}

/// Answers non-QUIC datagrams on the UDP port of a QUIC listener. It is called before QUIC, in the thread that drives
/// all connections, and must return quickly.
///
/// A service must not accept QUIC packets. The first byte is not sufficient to distinguish them: peers that grease the
/// QUIC bit (RFC 9287) send any value.
pub trait DatagramService: Debug + Send + Sync {
    fn takes(&self, datagram: &[u8]) -> bool;

    /// The answer to an accepted datagram, if any; it is sent to `from` from `local`, the destination address of the
    /// datagram, where the kernel reports it. `arrival` is its port, and its time of arrival if the port stamps arrivals.
    fn answer(
        &self,
        from: SocketAddr,
        local: Option<IpAddr>,
        datagram: &[u8],
        arrival: (&Arc<dyn DatagramPort>, Option<Timestamp>),
    ) -> Option<Vec<u8>>;

    /// The replacement for an answer that the kernel rejects with `EMSGSIZE`: answers are sent with "don't fragment",
    /// and an answer may exceed the interface MTU.
    fn unsent(
        &self,
        from: SocketAddr,
        local: Option<IpAddr>,
        answer: &[u8],
        error: &io::Error,
    ) -> Option<Vec<u8>> {
        let _ = (from, local, answer, error);
        None
    }
}
