//! UDP sockets with segmentation offload, arrival times and counted drops.
//!
//! Sources: udp(7) (`UDP_SEGMENT`, `UDP_GRO`), Documentation/networking/timestamping.rst (`SO_TIMESTAMPNS`), socket(7)
//! (`SO_RXQ_OVFL`).

use crate::datagram::{Message, ignore_cached_mtu};
use crate::stream::lock;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Mutex;
use std::time::Duration;

/// The kernel grants less without `CAP_NET_ADMIN`.
const BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// A datagram, or several of one size that the kernel handed over at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) length: usize,
    pub(super) segment: usize,
    pub(super) at_ns: Option<u64>,
    /// Running count of datagrams (or batches of them) that found no room in the socket's buffer.
    pub(super) drops: u32,
}

impl Arrival {
    pub(super) fn messages(self, bytes: &[u8]) -> impl Iterator<Item = (Message, usize)> + '_ {
        let datagrams = bytes[..self.length].chunks(self.segment.max(1));
        datagrams.filter_map(|datagram| Some((Message::decode(datagram)?, datagram.len())))
    }
}

#[derive(Debug)]
pub(super) struct CalibrationSocket {
    socket: Socket,
    pub(super) local: SocketAddr,
    peer: Mutex<Option<SocketAddr>>,
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
        Ok(Self { socket, local, peer: Mutex::new(None) })
    }

    /// Not by connect(2): a connected socket reports ICMP errors at the next send.
    pub(super) fn connect(&self, peer: SocketAddr) {
        *lock(&self.peer) = Some(peer);
    }

    fn peer(&self) -> io::Result<SocketAddr> {
        lock(&self.peer).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send_to(bytes, &self.peer()?.into()).map(drop)
    }

    pub(super) fn send_segments(&self, bytes: &[u8], segment: u16) -> io::Result<()> {
        let control = [ControlMessage::UdpGsoSegments(&segment)];
        let parts = [IoSlice::new(bytes)];
        let peer = SockaddrStorage::from(self.peer()?);
        sendmsg(self.socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&peer))?;
        Ok(())
    }

    /// Waits up to `timeout` for a datagram; `None` when there was none.
    pub(super) fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<Arrival>> {
        let mut control = nix::cmsg_space!(i32, libc::timespec, u32);
        let mut flags = MsgFlags::MSG_DONTWAIT;
        loop {
            let mut parts = [IoSliceMut::new(buffer)];
            match recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
                Ok(message) => {
                    let from = message.address.as_ref().and_then(address);
                    let is_peer = from.is_some_and(|from| self.peer().is_ok_and(|peer| from == peer));
                    return Ok(if is_peer { Some(arrival(message.bytes, message.cmsgs()?)) } else { None });
                }
                Err(Errno::EAGAIN) if !flags.is_empty() => {
                    self.socket.set_read_timeout(Some(timeout.max(Duration::from_micros(1))))?;
                    flags = MsgFlags::empty();
                }
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = from.as_sockaddr_in().map(|from| SocketAddr::from((from.ip(), from.port())));
    v4.or_else(|| from.as_sockaddr_in6().map(|from| SocketAddr::from((from.ip(), from.port()))))
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
