//! Accepting connections, until told to stop.

use crate::connect::MptcpUnavailable;
use crate::connection::Connection;
use crate::listening_socket::ListeningSocket;
use crate::options::{CongestionError, SocketOptions};
use crate::quic::{QuicCapacity, QuicLimits, QuicListener};
use crate::tls::{ServerIdentity, TlsAcceptor};
use pathbench_mpquic::QuicOptions;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use thiserror::Error;

#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Connections that the kernel completes before they are accepted (tcp, mptcp).
    pub backlog: u32,
    /// Options of accepted connections; of quic and mpquic, congestion control and buffers.
    pub socket: SocketOptions,
    /// Who the server is. Needed by quic and mpquic; with it, tcp and mptcp listeners accept TLS as well as clear
    /// text on the same port, as each client chooses.
    pub identity: Option<Arc<ServerIdentity>>,
    /// What quic and mpquic take beyond that.
    pub quic: QuicOptions,
    /// How many connections of quic and mpquic there may be, shared by all listeners that have the same.
    pub quic_capacity: Arc<QuicCapacity>,
    /// Something else that is served at the UDP port of quic and mpquic.
    pub datagrams: Option<Arc<dyn DatagramService>>,
}

/// Answers datagrams that are not QUIC's, at the UDP port where QUIC is served. It is asked before QUIC is, from the
/// thread that drives all connections, so it must be quick.
///
/// What it takes must not be mistaken for QUIC: the first byte alone does not tell, for peers that grease the QUIC bit
/// (RFC 9287) may send any.
pub trait DatagramService: Debug + Send + Sync {
    fn takes(&self, datagram: &[u8]) -> bool;

    /// The answer to a datagram that it takes, if it gives one; it goes back to `from`, from the address that was
    /// asked, which is `local` where the kernel told it.
    fn answer(&self, from: SocketAddr, local: Option<IpAddr>, datagram: &[u8]) -> Option<Vec<u8>>;

    /// What goes to `from` instead of an answer that the kernel would not send: an answer is sent whole or not at all
    /// (don't fragment), and one that is longer than the interface takes is refused with `EMSGSIZE`.
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

/// Listens. An mptcp listener accepts plain TCP peers, too, and an mpquic listener
/// quic peers: the telemetry of the connections says which. A quic listener agrees to one path only.
///
/// Keep an mptcp listener open for as long as its connections shall be able to get further subflows: a join is a
/// SYN to the listening port, and without a listener there it is answered with a reset.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// tcp and mptcp; with an acceptor, encrypted or not as each client chooses.
    Socket {
        socket: ListeningSocket,
        tls: Option<TlsAcceptor>,
    },
    Quic(QuicListener),
}

/// Why a listener could not be opened.
#[derive(Debug, Error)]
pub enum BindError {
    #[error("transport {transport} cannot be served by this version")]
    NoSuchTransport { transport: Transport },
    #[error(transparent)]
    Mptcp(#[from] MptcpUnavailable),
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    #[error("{address} is taken: another program listens on that port (`ss -ltnp` shows which)")]
    InUse { address: SocketAddr },
    #[error("{address} is not an address of this host; `ip address` shows which are")]
    NotALocalAddress { address: SocketAddr },
    /// A privileged port without the privilege.
    #[error("this user may not listen on {address}: ports below 1024 take root or CAP_NET_BIND_SERVICE")]
    Denied { address: SocketAddr },
    /// quic or mpquic without a certificate.
    #[error("{transport} on {address} takes a certificate: QUIC always encrypts")]
    NoIdentity { transport: Transport, address: SocketAddr },
    #[error("{doing} to listen on {address}: {source}")]
    Failed { address: SocketAddr, doing: &'static str, source: io::Error },
}

/// Why nothing was accepted.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// [`Listener::close`] was called.
    #[error("the listener on {local} was closed")]
    Closed { local: SocketAddr },
    #[error("the QUIC driver of {local} panicked: {message}")]
    Dead {
        local: SocketAddr,
        /// The panic's message.
        message: String,
    },
    #[error("no room for another connection on {local}: {source}")]
    Exhausted { local: SocketAddr, source: io::Error },
    #[error("accepting on {local}: {source}")]
    Failed { local: SocketAddr, source: io::Error },
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

impl Listener {
    /// Listens on `address` (port 0: the kernel's choice) over tcp or mptcp; accepted connections get `options`.
    ///
    /// An IPv6 wildcard address takes IPv4 peers as well; their addresses are reported as IPv4.
    pub fn bind(
        transport: Transport,
        address: SocketAddr,
        backlog: u32,
        options: &SocketOptions,
    ) -> Result<Self, BindError> {
        let socket = ListeningSocket::bind(transport, address, backlog, options)?;
        Ok(Self { kind: Kind::Socket { socket, tls: None } })
    }

    /// Listens on `address` (port 0: the kernel's choice) over any transport. Over quic and mpquic every stream that a
    /// peer opens is a connection.
    ///
    /// An IPv6 wildcard address takes IPv4 peers as well; their addresses are reported as IPv4.
    pub fn open(
        transport: Transport,
        address: SocketAddr,
        options: &ListenOptions,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, BindError> {
        match transport {
            Transport::Tcp | Transport::Mptcp => {
                let tls = match &options.identity {
                    None => None,
                    Some(identity) => {
                        Some(TlsAcceptor::new(identity, Arc::clone(clock)).map_err(|error| {
                            let source = io::Error::other(error);
                            BindError::Failed { address, doing: "setting up TLS", source }
                        })?)
                    }
                };
                let socket = ListeningSocket::bind(transport, address, options.backlog, &options.socket)?;
                Ok(Self { kind: Kind::Socket { socket, tls } })
            }
            Transport::Quic | Transport::Mpquic => {
                let listener = QuicListener::open(transport, address, options, Arc::clone(clock))?;
                Ok(Self { kind: Kind::Quic(listener) })
            }
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// `Closed` once [`Listener::close`] was called, `Dead` once its driver panicked; the others leave the listener usable.
    pub fn accept(&self) -> Result<(Connection, SocketAddr), AcceptError> {
        match &self.kind {
            Kind::Socket { socket, tls } => {
                let (connected, peer) = socket.accept()?;
                let connection = match tls {
                    None => Connection::from(connected),
                    Some(tls) => Connection::from(tls.accept(connected)),
                };
                Ok((connection, peer))
            }
            Kind::Quic(listener) => listener.accept().map(|stream| {
                let peer = stream.peer_addr();
                (Connection::from(stream), peer)
            }),
        }
    }

    /// Where it listens, the port filled in.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.kind {
            Kind::Socket { socket, .. } => socket.local_addr(),
            Kind::Quic(listener) => listener.local_addr(),
        }
    }

    /// Makes [`Listener::accept`] return `Closed`, now in every thread blocked in it and whenever it is called.
    pub fn close(&self) {
        match &self.kind {
            Kind::Socket { socket, .. } => socket.close(),
            Kind::Quic(listener) => listener.close(),
        }
    }
}
