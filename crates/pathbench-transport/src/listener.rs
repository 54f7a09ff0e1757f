//! Listeners for all transports.

use crate::connection::Connection;
use crate::error::{AcceptError, BindError};
use crate::options::{ListenOptions, SocketOptions};
use crate::quic::listener::QuicListener;
use crate::socket::{ConnectedSocket, inet, open_socket};
use crate::tls::socket::{StreamSocket, TlsAcceptor};
use pathbench_record::network::canonical;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use socket2::{Domain, Socket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A listening socket. An mptcp listener also accepts plain TCP peers, and an mpquic listener quic peers; the telemetry
/// of a connection reports which. A quic listener negotiates a single path.
///
/// Keep an mptcp listener open while its connections may add subflows: `MP_JOIN` is a SYN to the listening port, and
/// without a listener the kernel answers with a reset.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// tcp and mptcp.
    Socket(ListeningSocket),
    Quic(QuicListener),
}

impl Listener {
    /// Listens on `address` (port 0: selected by the kernel). Over quic and mpquic, every stream that a peer opens is a
    /// connection.
    ///
    /// An IPv6 wildcard address also accepts IPv4 peers; their addresses are reported as IPv4.
    pub fn open(
        transport: Transport,
        address: SocketAddr,
        options: &ListenOptions,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, BindError> {
        match transport {
            // Of udp: the control connections. The datagrams arrive at the port of a quic listener.
            Transport::Tcp | Transport::Mptcp | Transport::Udp => {
                let transport = if transport == Transport::Udp { Transport::Tcp } else { transport };
                let socket = ListeningSocket::bind(transport, address, options, clock)?;
                Ok(Self { kind: Kind::Socket(socket) })
            }
            Transport::Quic | Transport::Mpquic => {
                let listener = QuicListener::open(transport, address, options, Arc::clone(clock))?;
                Ok(Self { kind: Kind::Quic(listener) })
            }
        }
    }

    /// Waits for the next connection.
    /// Errors: `Closed` after [`Listener::close`], `Dead` after a panic of the QUIC driver; after any other error the
    /// listener remains usable.
    pub fn accept(&self) -> Result<(Connection, SocketAddr), AcceptError> {
        match &self.kind {
            Kind::Socket(socket) => socket.accept().map(|(stream, peer)| (stream.into(), peer)),
            Kind::Quic(listener) => listener.accept().map(|stream| {
                let peer = stream.peer_addr();
                (Connection::from(stream), peer)
            }),
        }
    }

    /// The listening address with the actual port.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.kind {
            Kind::Socket(socket) => socket.local,
            Kind::Quic(listener) => listener.local_addr(),
        }
    }

    /// Makes every current and later call of [`Listener::accept`] return `Closed`.
    pub fn close(&self) {
        match &self.kind {
            Kind::Socket(socket) => socket.close(),
            Kind::Quic(listener) => listener.close(),
        }
    }
}

/// A listening tcp or mptcp socket; without an acceptor, clear text only.
#[derive(Debug)]
struct ListeningSocket {
    socket: Socket,
    transport: Transport,
    options: SocketOptions,
    tls: Option<TlsAcceptor>,
    local: SocketAddr,
    closing: OwnedFd,
}

impl ListeningSocket {
    fn bind(
        transport: Transport,
        address: SocketAddr,
        options: &ListenOptions,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, BindError> {
        let failed = |doing| move |source| BindError::Failed { address, doing, source };
        let tls = options.identity.as_ref().map(|identity| TlsAcceptor::new(identity, Arc::clone(clock)));
        let tls = tls.transpose().map_err(|error| failed("setting up TLS")(io::Error::other(error)))?;
        let socket = open_socket(transport, Domain::for_address(address), &options.socket)
            .map_err(|error| error.convert(|doing, source| failed(doing)(source)))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            // The default depends on net.ipv6.bindv6only.
            socket.set_only_v6(false).map_err(failed("clearing IPV6_V6ONLY"))?;
        }
        socket.set_reuse_address(true).map_err(failed("setting SO_REUSEADDR"))?;
        let refused = |source| BindError::classify(address, "binding the address", source);
        socket.bind(&address.into()).map_err(refused)?;
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX)).map_err(refused)?;
        socket.set_nonblocking(true).map_err(failed("setting O_NONBLOCK"))?;
        let local =
            socket.local_addr().and_then(|local| inet(&local)).map_err(failed("reading the address"))?;
        let closing = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed("opening an event descriptor")(error.into()))?;
        Ok(Self { socket, transport, options: options.socket.clone(), tls, local, closing })
    }

    fn accept(&self) -> Result<(StreamSocket, SocketAddr), AcceptError> {
        let local = self.local;
        loop {
            self.wait()?;
            let (socket, peer) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_transient(&error) => continue,
                Err(source) => return Err(accept_failure(local, source)),
            };
            let connection = match self.adopt(socket) {
                Ok(connection) => connection,
                // The peer reset the connection before getpeername(2).
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::EINVAL)) => continue,
                Err(source) => return Err(accept_failure(local, source)),
            };
            let peer = inet(&peer).map_or(connection.peer, canonical);
            return Ok((StreamSocket::from_accepted(connection, self.tls.as_ref()), peer));
        }
    }

    fn close(&self) {
        // The write fails only when the eventfd counter is full, that is, after an earlier close.
        let _ = rustix::io::write(&self.closing, &1_u64.to_ne_bytes());
    }

    fn wait(&self) -> Result<(), AcceptError> {
        let local = self.local;
        let mut watched = [
            PollFd::from_borrowed_fd(self.closing.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
        ];
        loop {
            match poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(AcceptError::Failed { local, source: error.into() }),
                Ok(_) if !watched[0].revents().is_empty() => return Err(AcceptError::Closed { local }),
                Ok(_) => return Ok(()),
            }
        }
    }

    fn adopt(&self, socket: Socket) -> io::Result<ConnectedSocket> {
        socket.set_nonblocking(false)?;
        // Accepted sockets inherit buffer sizes and congestion control, but not TCP_NODELAY on every kernel.
        if self.options.no_delay {
            socket.set_tcp_nodelay(true)?;
        }
        ConnectedSocket::from_established(socket, self.transport)
    }
}

/// Errors of a connection that ended before it was accepted (accept(2), "Error handling").
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::EINTR
                | libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}

fn accept_failure(local: SocketAddr, source: io::Error) -> AcceptError {
    match source.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
            AcceptError::Exhausted { local, source }
        }
        _ => AcceptError::Failed { local, source },
    }
}
