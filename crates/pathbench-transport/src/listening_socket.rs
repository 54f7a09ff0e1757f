//! A listening kernel socket: what a listener of tcp and mptcp is.

use crate::connect::{OpenError, open_socket};
use crate::connected_socket::{ConnectedSocket, inet};
use crate::listener::{AcceptError, BindError};
use crate::options::{ApplyError, SocketOptions};
use pathbench_record::address::canonical;
use pathbench_record::transport::Transport;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use socket2::{Domain, Socket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// A listening socket. Its methods are those of [`crate::Listener`].
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    socket: Socket,
    transport: Transport,
    options: SocketOptions,
    local: SocketAddr,
    closing: OwnedFd,
}

impl ListeningSocket {
    /// Listens on `address` (port 0: the kernel's choice); accepted connections get `options`.
    ///
    /// An IPv6 wildcard address takes IPv4 peers as well; their addresses are reported as IPv4.
    pub(crate) fn bind(
        transport: Transport,
        address: SocketAddr,
        backlog: u32,
        options: &SocketOptions,
    ) -> Result<Self, BindError> {
        let domain = Domain::for_address(address);
        let failed = |doing| move |source| BindError::Failed { address, doing, source };
        let socket = open_socket(transport, domain).map_err(|error| match error {
            OpenError::NoSuchTransport => BindError::NoSuchTransport { transport },
            OpenError::Mptcp(unavailable) => unavailable.into(),
            OpenError::Failed(source) => failed("opening a socket")(source),
        })?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            // Otherwise net.ipv6.bindv6only would decide.
            socket.set_only_v6(false).map_err(failed("clearing IPV6_V6ONLY"))?;
        }
        socket.set_reuse_address(true).map_err(failed("setting SO_REUSEADDR"))?;
        // Buffers must be set before listening: the window scale is negotiated in the handshake.
        options.apply(&socket, domain).map_err(|error| match error {
            ApplyError::Congestion(error) => error.into(),
            ApplyError::Option { option, source } => failed(option)(source),
        })?;
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { address },
            io::ErrorKind::AddrNotAvailable => BindError::NotALocalAddress { address },
            io::ErrorKind::PermissionDenied => BindError::Denied { address },
            _ => failed("binding the address")(source),
        };
        socket.bind(&address.into()).map_err(refused)?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX)).map_err(refused)?;
        socket.set_nonblocking(true).map_err(failed("setting O_NONBLOCK"))?;
        let local =
            socket.local_addr().and_then(|local| inet(&local)).map_err(failed("reading the address"))?;
        let closing = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed("opening an event descriptor")(error.into()))?;
        Ok(Self { socket, transport, options: options.clone(), local, closing })
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// `Closed` once [`crate::Listener::close`] was called; the others leave the listener usable.
    pub(crate) fn accept(&self) -> Result<(ConnectedSocket, SocketAddr), AcceptError> {
        let local = self.local;
        loop {
            self.wait()?;
            let (socket, peer) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => continue,
                Err(source) => return Err(accept_failure(local, source)),
            };
            let connection = match self.adopt(socket) {
                Ok(connection) => connection,
                // The peer was gone before it could be looked at.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::EINVAL)) => continue,
                Err(source) => return Err(accept_failure(local, source)),
            };
            let peer = inet(&peer).map_or(connection.peer_addr(), canonical);
            return Ok((connection, peer));
        }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Makes [`crate::Listener::accept`] return `Closed`, now in every thread blocked in it and whenever it is called.
    pub(crate) fn close(&self) {
        // Fails only when the counter is full, that is, when it has been closed already.
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
        // Accepted sockets inherit buffers and congestion control, but not on every kernel TCP_NODELAY.
        if self.options.no_delay {
            socket.set_tcp_nodelay(true)?;
        }
        ConnectedSocket::established(socket, self.transport)
    }
}

/// Errors of one connection that was gone before it was accepted (accept(2), "Error handling").
fn is_passing(error: &io::Error) -> bool {
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
