//! Opening a connection.

use crate::connected_socket::ConnectedSocket;
use crate::connection::Connection;
use crate::options::{ApplyError, CongestionError, SocketOptions};
use crate::tls::{ClientSetup, HandshakeError, Security, TlsSocket, TrustError};
use pathbench_mpquic::QuicOptions;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Where to connect to, from where, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectOptions {
    pub remote: SocketAddr,
    /// The local address to start from; the kernel's choice when absent.
    pub local: Option<IpAddr>,
    /// The interface to leave by (`SO_BINDTODEVICE`). For mptcp it binds every subflow.
    pub interface: Option<String>,
    pub socket: SocketOptions,
    /// How long to wait for the server's answer.
    pub timeout: Duration,
    /// Whether to encrypt, and what the server is known by; quic and mpquic always encrypt.
    pub security: Security,
    /// What quic and mpquic take beyond that.
    pub quic: QuicOptions,
}

impl ConnectOptions {
    /// A connection to `remote` in clear text by the kernel's choice of address, with default options.
    pub fn to(remote: SocketAddr, timeout: Duration) -> Self {
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

/// Why MPTCP sockets cannot be had on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MptcpUnavailable {
    #[error("this kernel knows no MPTCP; it takes Linux 5.6 or newer")]
    KernelTooOld,
    /// `EPROTONOSUPPORT`: the kernel was built without it.
    #[error("this kernel was built without MPTCP (CONFIG_MPTCP); it takes another kernel")]
    NotBuilt,
    #[error("MPTCP is switched off in this network namespace; as root: sysctl net.mptcp.enabled=1")]
    Disabled,
}

/// Why a connection could not be opened.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("transport {transport} cannot be opened by this version")]
    NoSuchTransport { transport: Transport },
    #[error("{transport} to {remote} takes the fingerprint or the authority of the server's certificate")]
    NoTrust { transport: Transport, remote: SocketAddr },
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Somebody answers, but cannot prove to be the server that was meant.
    #[error(
        "{remote} is not the server that was meant: {message}. Compare with what `pathbench serve` prints there; a \
         self-made certificate is another one at each start"
    )]
    Untrusted {
        remote: SocketAddr,
        /// What is wrong with the certificate.
        message: String,
    },
    #[error("no encrypted connection to {remote}: {message}")]
    NotEncrypted { remote: SocketAddr, message: String },
    #[error(transparent)]
    Mptcp(#[from] MptcpUnavailable),
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    #[error("no interface `{interface}` in this network namespace")]
    NoSuchInterface { interface: String },
    #[error("{local} is not an address of this host; `ip address` shows which are")]
    NotALocalAddress { local: IpAddr },
    #[error("cannot reach {remote} from {local}: one is IPv4 and the other IPv6")]
    FamilyMismatch { local: IpAddr, remote: SocketAddr },
    #[error("{remote} refused the connection: nothing listens on that port there (or a firewall rejects it)")]
    Refused { remote: SocketAddr },
    #[error("no route to {remote}{}: {message}", from(.local.as_ref()))]
    Unreachable {
        remote: SocketAddr,
        /// Where it was tried from, when that was asked for.
        local: Option<IpAddr>,
        message: String,
    },
    #[error("no answer from {remote}{} within {} s: the packets or the answers get lost on the way, or the host is off",
        from(.local.as_ref()), .after.as_secs_f64())]
    TimedOut {
        remote: SocketAddr,
        /// Where it was tried from, when that was asked for.
        local: Option<IpAddr>,
        after: Duration,
    },
    #[error("{doing} for a connection to {remote}: {source}")]
    Failed { remote: SocketAddr, doing: &'static str, source: io::Error },
}

fn from(local: Option<&IpAddr>) -> String {
    local.map(|local| format!(" from {local}")).unwrap_or_default()
}

/// Opens a tcp or mptcp connection, waiting at most `options.timeout` for the server's answer, and as long again for
/// TLS where that is asked for.
///
/// # Errors
/// See [`ConnectError`]; nothing stays behind.
pub(crate) fn connect(
    transport: Transport,
    options: &ConnectOptions,
    clock: &Arc<dyn Clock>,
) -> Result<Connection, ConnectError> {
    let remote = options.remote;
    let Some(trust) = options.security.trust() else {
        return connect_socket(transport, options).map(Connection::from);
    };
    let setup = ClientSetup::new(trust, remote.ip())?;
    let socket = connect_socket(transport, options)?;
    TlsSocket::connect(socket, &setup, Arc::clone(clock), options.timeout).map(Connection::from).map_err(
        |error| match error {
            HandshakeError::Untrusted(message) => ConnectError::Untrusted { remote, message },
            HandshakeError::Failed(message) => ConnectError::NotEncrypted { remote, message },
            HandshakeError::TimedOut => {
                ConnectError::TimedOut { remote, local: options.local, after: options.timeout }
            }
        },
    )
}

fn connect_socket(transport: Transport, options: &ConnectOptions) -> Result<ConnectedSocket, ConnectError> {
    let remote = options.remote;
    let domain = Domain::for_address(remote);
    let failed = |doing| move |source| ConnectError::Failed { remote, doing, source };
    let socket = open_socket(transport, domain).map_err(|error| match error {
        OpenError::NoSuchTransport => ConnectError::NoSuchTransport { transport },
        OpenError::Mptcp(unavailable) => unavailable.into(),
        OpenError::Failed(source) => failed("opening a socket")(source),
    })?;
    options.socket.apply(&socket, domain).map_err(|error| match error {
        ApplyError::Congestion(error) => error.into(),
        ApplyError::Option { option, source } => ConnectError::Failed { remote, doing: option, source },
    })?;
    if let Some(interface) = &options.interface {
        socket.bind_device(Some(interface.as_bytes())).map_err(|source| match source.raw_os_error() {
            Some(libc::ENODEV) => ConnectError::NoSuchInterface { interface: interface.clone() },
            _ => failed("binding to the interface (SO_BINDTODEVICE)")(source),
        })?;
    }
    if let Some(local) = options.local {
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(ConnectError::FamilyMismatch { local, remote });
        }
        socket.bind(&SocketAddr::new(local, 0).into()).map_err(|source| match source.kind() {
            io::ErrorKind::AddrNotAvailable => ConnectError::NotALocalAddress { local },
            _ => failed("binding the local address")(source),
        })?;
    }
    socket
        .connect_timeout(&SockAddr::from(remote), options.timeout)
        .map_err(|source| connect_failure(options, source))?;
    let connection =
        ConnectedSocket::established(socket, transport).map_err(failed("reading the socket's options"))?;
    options.socket.verify(connection.in_force())?;
    Ok(connection)
}

fn connect_failure(options: &ConnectOptions, source: io::Error) -> ConnectError {
    let (remote, local) = (options.remote, options.local);
    match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => ConnectError::Refused { remote },
        io::ErrorKind::TimedOut => ConnectError::TimedOut { remote, local, after: options.timeout },
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::PermissionDenied => {
            ConnectError::Unreachable { remote, local, message: source.to_string() }
        }
        _ => ConnectError::Failed { remote, doing: "connecting", source },
    }
}

/// Whether MPTCP sockets can be opened in this network namespace, and why not.
///
/// # Errors
/// [`MptcpUnavailable`] with the remedy in its words.
pub fn mptcp_available() -> Result<(), MptcpUnavailable> {
    match open_socket(Transport::Mptcp, Domain::IPV4) {
        Err(OpenError::Mptcp(unavailable)) => Err(unavailable),
        _ => Ok(()),
    }
}

pub(crate) enum OpenError {
    NoSuchTransport,
    Mptcp(MptcpUnavailable),
    Failed(io::Error),
}

pub(crate) fn open_socket(transport: Transport, domain: Domain) -> Result<Socket, OpenError> {
    let protocol = match transport {
        Transport::Tcp => Protocol::TCP,
        Transport::Mptcp => Protocol::MPTCP,
        Transport::Quic | Transport::Mpquic => return Err(OpenError::NoSuchTransport),
    };
    Socket::new(domain, Type::STREAM, Some(protocol)).map_err(|error| {
        match (transport, error.raw_os_error()) {
            (Transport::Mptcp, Some(libc::EINVAL)) => OpenError::Mptcp(MptcpUnavailable::KernelTooOld),
            (Transport::Mptcp, Some(libc::EPROTONOSUPPORT)) => OpenError::Mptcp(MptcpUnavailable::NotBuilt),
            (Transport::Mptcp, Some(libc::ENOPROTOOPT)) => OpenError::Mptcp(MptcpUnavailable::Disabled),
            _ => OpenError::Failed(error),
        }
    })
}
