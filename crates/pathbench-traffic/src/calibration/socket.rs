//! UDP sockets with segmentation offload, arrival times and counted drops.
//!
//! Sources: udp(7) (`UDP_SEGMENT`, `UDP_GRO`), Documentation/networking/timestamping.rst (`SO_TIMESTAMPNS`), socket(7)
//! (`SO_RXQ_OVFL`).

use crate::datagram::{Message, ignore_cached_mtu};
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// The kernel grants less without `CAP_NET_ADMIN`.
const BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// A datagram, or several of one size that the kernel handed over at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// Of all datagrams together.
    pub(super) length: usize,
    /// Of each datagram; the last may be shorter.
    pub(super) segment: usize,
    /// When the kernel took it from the link, on the wall clock.
    pub(super) at_ns: Option<u64>,
    /// Running count of datagrams (or batches of them) that found no room in the socket's buffer.
    pub(super) drops: u32,
}

impl Arrival {
    /// The messages, with the length of each datagram.
    pub(super) fn messages(self, bytes: &[u8]) -> impl Iterator<Item = (Message, usize)> + '_ {
        let datagrams = bytes[..self.length].chunks(self.segment.max(1));
        datagrams.filter_map(|datagram| Some((Message::decode(datagram)?, datagram.len())))
    }
}

/// A UDP socket that exchanges datagrams with one other address.
#[derive(Debug)]
pub(super) struct CalibrationSocket {
    socket: Socket,
    pub(super) local: SocketAddr,
}

impl CalibrationSocket {
    pub(super) fn bind(local: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        socket.bind(&local.into())?;
        ignore_cached_mtu(&socket, local.is_ipv4())?;
        setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1)?;
        if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
            socket.set_recv_buffer_size(BUFFER_BYTES)?;
        }
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("the socket's address is neither IPv4 nor IPv6"))?;
        Ok(Self { socket, local })
    }

    pub(super) fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(&peer.into())
    }

    /// A port that is closed by now, or an error that a router reports, belongs to an earlier datagram and is skipped.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self.socket.send(bytes) {
            Err(error) if is_remote(&error) => self.socket.send(bytes).map(drop),
            result => result.map(drop),
        }
    }

    /// Sends `bytes` as datagrams of `segment` bytes each in one system call.
    pub(super) fn send_segments(&self, bytes: &[u8], segment: u16) -> io::Result<()> {
        let control = [ControlMessage::UdpGsoSegments(&segment)];
        let parts = [IoSlice::new(bytes)];
        sendmsg::<()>(self.socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), None)?;
        Ok(())
    }

    /// Waits up to `timeout` for a datagram; `None` when there was none.
    pub(super) fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<Arrival>> {
        let mut control = nix::cmsg_space!(i32, libc::timespec, u32);
        let mut flags = MsgFlags::MSG_DONTWAIT;
        loop {
            let mut parts = [IoSliceMut::new(buffer)];
            match recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
                Ok(message) => return Ok(Some(arrival(message.bytes, message.cmsgs()?))),
                Err(Errno::EAGAIN) if !flags.is_empty() => {
                    self.socket.set_read_timeout(Some(timeout.max(Duration::from_micros(1))))?;
                    flags = MsgFlags::empty();
                }
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
                Err(error) if is_remote(&error.into()) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether a socket's pending error was reported by the network.
fn is_remote(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH))
}

fn arrival(length: usize, control: impl Iterator<Item = ControlMessageOwned>) -> Arrival {
    let mut arrival = Arrival { length, segment: length, at_ns: None, drops: 0 };
    for message in control {
        match message {
            ControlMessageOwned::UdpGroSegments(segment) => {
                arrival.segment = usize::try_from(segment).unwrap_or(0).clamp(1, length.max(1));
            }
            ControlMessageOwned::ScmTimestampns(time) => {
                arrival.at_ns = Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64);
            }
            ControlMessageOwned::RxqOvfl(drops) => arrival.drops = drops,
            _ => {}
        }
    }
    arrival
}
