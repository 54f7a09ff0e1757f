//! A netlink socket that only listens to a multicast group.

use super::channel::{Messages, Protocol};
use super::error::NetlinkError;
use netlink_sys::Socket;
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

/// Asked for as the socket's receive buffer; events come in bursts and must not be lost.
const RECEIVE_BUFFER_BYTES: usize = 8 * 1024 * 1024;
const DATAGRAM_BYTES: usize = 64 * 1024;

/// One thing that came over a [`Listener`].
#[derive(Debug)]
pub(crate) enum Notice<'a> {
    /// A message's type and what follows the netlink header.
    Message(u16, &'a [u8]),
    /// The kernel had more to say than fitted the receive buffer; something was lost.
    Overrun,
}

/// A non-blocking netlink socket subscribed to multicast groups.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Listener {
    /// Subscribes in the calling thread's network namespace. `request` completes "cannot …".
    pub(crate) fn subscribe(protocol: Protocol, groups: &[u32], request: &str) -> Result<Self, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(protocol.number())?;
            // Beyond the administrator's limit where allowed (CAP_NET_ADMIN), up to it otherwise.
            if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err()
            {
                rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)?;
            }
            socket.bind_auto()?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|source| NetlinkError::Open { protocol: protocol.name(), source })?;
        for group in groups {
            socket.add_membership(*group).map_err(|error| NetlinkError::Refused {
                request: request.to_owned(),
                errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
                kernel_message: None,
            })?;
        }
        Ok(Self { socket, buffer: Vec::with_capacity(DATAGRAM_BYTES) })
    }

    /// Hands everything that has arrived to `take`, without waiting.
    pub(crate) fn drain(
        &mut self,
        request: &str,
        mut take: impl FnMut(Notice<'_>),
    ) -> Result<(), NetlinkError> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(length) => {
                    for message in Messages::new(&self.buffer).flatten() {
                        take(Notice::Message(message.kind, message.payload));
                    }
                    if length > self.buffer.len() {
                        take(Notice::Overrun);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => take(Notice::Overrun),
                Err(source) => return Err(NetlinkError::Exchange { request: request.to_owned(), source }),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
