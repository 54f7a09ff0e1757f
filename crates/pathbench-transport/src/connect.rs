//! Opening a connection.

use crate::connection::Connection;
use crate::containment::lock;
use crate::error::{CongestionError, ConnectError, MptcpUnavailable, SetupError};
use crate::options::{ConnectOptions, SocketOptions};
use crate::quic::client::QuicClient;
use crate::socket::{ConnectedSocket, open_socket};
use crate::tls::socket::StreamSocket;
use crate::tls::{ALPN, client_config};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use socket2::{Domain, SockAddr};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tracing::{debug, info, info_span};

/// Opens a tcp or mptcp connection. Waits up to `options.timeout` for the server's answer, and up to `options.timeout`
/// again for the TLS handshake.
/// Errors: every resource is released.
fn connect(
    transport: Transport,
    options: &ConnectOptions,
    clock: &Arc<dyn Clock>,
) -> Result<Connection, ConnectError> {
    let Some(trust) = options.security.trust() else {
        return connect_socket(transport, options).map(|socket| StreamSocket::in_clear_text(socket).into());
    };
    let (config, name) = (client_config(trust, ALPN)?, trust.server_name(options.remote.ip())?);
    let socket = connect_socket(transport, options)?;
    StreamSocket::connect(socket, config, name, Arc::clone(clock), options).map(Connection::from)
}

fn connect_socket(transport: Transport, options: &ConnectOptions) -> Result<ConnectedSocket, ConnectError> {
    let remote = options.remote;
    let failed = |doing| move |source| ConnectError::Failed { remote, doing, source };
    let socket = open_socket(transport, Domain::for_address(remote), &options.socket)
        .map_err(|error| error.convert(|doing, source| failed(doing)(source)))?;
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
    let connection = ConnectedSocket::from_established(socket, transport)
        .map_err(failed("reading the socket's options"))?;
    // An unconnected mptcp socket accepts the name of any congestion control.
    let in_force = &connection.in_force.congestion;
    match &options.socket.congestion {
        Some(name) if name != in_force => {
            Err(CongestionError::NotInForce { name: name.clone(), in_force: in_force.clone() }.into())
        }
        _ => Ok(connection),
    }
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

/// Whether MPTCP sockets can be opened in this network namespace; otherwise the reason.
pub fn mptcp_available() -> Result<(), MptcpUnavailable> {
    match open_socket(Transport::Mptcp, Domain::IPV4, &SocketOptions::default()) {
        Err(SetupError::Mptcp(unavailable)) => Err(unavailable),
        _ => Ok(()),
    }
}

/// The connections of a client to one server over one transport.
///
/// [`Session::open`] opens a byte stream: over tcp and mptcp a connection; over quic and mpquic a bidirectional stream
/// of one QUIC connection. The QUIC connection opens with the first stream and closes when the session and all its
/// streams are dropped.
#[derive(Debug)]
pub struct Session {
    transport: Transport,
    options: ConnectOptions,
    clock: Arc<dyn Clock>,
    quic: Mutex<Option<QuicClient>>,
}

impl Session {
    /// A session without a connection.
    pub fn new(transport: Transport, options: ConnectOptions, clock: Arc<dyn Clock>) -> Self {
        Self { transport, options, clock, quic: Mutex::default() }
    }

    /// Opens a byte stream. Waits up to [`ConnectOptions::timeout`] if a connection must be opened first.
    ///
    /// A QUIC peer can accept the stream only after its first byte has arrived.
    /// Errors: every resource is released.
    pub fn open(&self) -> Result<Connection, ConnectError> {
        let _span =
            info_span!("connection", transport = %self.transport, remote = %self.options.remote).entered();
        let opened = match self.transport {
            Transport::Tcp | Transport::Mptcp => connect(self.transport, &self.options, &self.clock),
            // The control connection of the datagrams.
            Transport::Udp => connect(Transport::Tcp, &self.options, &self.clock),
            Transport::Quic | Transport::Mpquic => self.open_stream(),
        };
        match &opened {
            Ok(connection) => {
                info!(local = %connection.local_addr(), "connected");
                debug!(in_force = ?connection.in_force(), "settings in force");
            }
            Err(error) => info!(%error, "not connected"),
        }
        opened
    }

    fn open_stream(&self) -> Result<Connection, ConnectError> {
        let mut quic = lock(&self.quic);
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
