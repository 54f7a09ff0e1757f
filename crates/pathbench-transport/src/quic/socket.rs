//! A UDP socket of one local interface or address, or the server's.

use super::interfaces::{Egress, GsoLimit};
use crate::containment::lock;
use crate::options::{DatagramPort, SocketOptions};
use crate::socket::{inet, set_receive_buffer, set_send_buffer};
use bytes::BytesMut;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use noq_proto::{EcnCodepoint, FourTuple, Transmit};
use noq_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Default size of a socket's buffers, before the kernel doubles it: a full socket must not stall the other paths.
const BUFFER_BYTES: u64 = 4 << 20;
/// Bytes queued for a socket whose buffer is full; more are dropped, as by any full queue.
const QUEUE_BYTES: usize = 1 << 20;
/// Messages received with one system call.
const MESSAGES_PER_READ: usize = 16;
/// Buffer for a message: the datagrams that the kernel coalesces (`UDP_GRO`), at most the size of an IP packet.
const MESSAGE_BYTES: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct QuicSocket {
    socket: Socket,
    state: UdpSocketState,
    local: SocketAddr,
    /// Connected to its only peer: the kernel selects the source address and reports ICMP errors.
    connected: bool,
    gso: GsoLimit,
    queue: Mutex<SendQueue>,
    /// The kernel stamps arriving datagrams.
    stamps: AtomicBool,
}

#[derive(Debug, Default)]
struct SendQueue {
    batches: VecDeque<Batch>,
    bytes: usize,
}

#[derive(Debug)]
struct Batch {
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<noq_udp::EcnCodepoint>,
    segment_bytes: usize,
    contents: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct SocketError {
    pub(crate) doing: &'static str,
    pub(crate) source: io::Error,
}

/// The interface and address that a client's socket is bound to, and the address that it is connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) interface: Option<&'a str>,
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
}

pub(crate) struct ReceiveBuffers {
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; MESSAGES_PER_READ],
}

#[derive(Debug)]
pub(crate) struct QuicDatagram {
    pub(crate) route: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) payload: BytesMut,
    /// When the kernel received it, since 1970; only after [`QuicSocket::stamp_arrivals`].
    pub(crate) stamp: Option<Duration>,
}

impl QuicSocket {
    pub(crate) fn connect(route: &Binding<'_>, options: &SocketOptions) -> Result<Self, SocketError> {
        let socket = open(Domain::for_address(route.remote), options)?;
        if let Some(interface) = route.interface {
            socket
                .bind_device(Some(interface.as_bytes()))
                .map_err(socket_error("binding to the interface (SO_BINDTODEVICE)"))?;
        }
        let wildcard: IpAddr =
            if route.remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = SocketAddr::new(route.local.unwrap_or(wildcard), 0);
        socket.bind(&local.into()).map_err(socket_error("binding the local address"))?;
        socket.connect(&route.remote.into()).map_err(socket_error("connecting"))?;
        let interface = route.interface.map(str::to_owned);
        Self::ready(socket, true, |local| {
            GsoLimit::read(
                interface
                    .as_ref()
                    .map_or(Egress::Address(local), |name| Egress::Named(std::slice::from_ref(name))),
            )
        })
    }

    /// A server's socket; an IPv6 wildcard address also accepts IPv4 peers.
    pub(crate) fn listen(address: SocketAddr, options: &SocketOptions) -> Result<Self, SocketError> {
        let socket = open(Domain::for_address(address), options)?;
        if address.is_ipv6() {
            socket.set_only_v6(false).map_err(socket_error("clearing IPV6_V6ONLY"))?;
        }
        socket.bind(&address.into()).map_err(socket_error("binding the address"))?;
        Self::ready(socket, false, |local| GsoLimit::read(Egress::Any(local)))
    }

    fn ready(
        socket: Socket,
        connected: bool,
        gso: impl FnOnce(IpAddr) -> GsoLimit,
    ) -> Result<Self, SocketError> {
        let local = socket
            .local_addr()
            .and_then(|local| inet(&local))
            .map_err(socket_error("reading the address"))?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(socket_error("setting up UDP"))?;
        Ok(Self {
            socket,
            state,
            local,
            connected,
            gso: gso(local.ip()),
            queue: Mutex::default(),
            stamps: AtomicBool::new(false),
        })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Send and receive buffer including the kernel's bookkeeping, in bytes.
    pub(crate) fn buffers(&self) -> io::Result<(u64, u64)> {
        Ok((self.socket.send_buffer_size()? as u64, self.socket.recv_buffer_size()? as u64))
    }

    /// Whether batches are waiting until the socket is writable.
    pub(crate) fn has_queued(&self) -> bool {
        !lock(&self.queue).batches.is_empty()
    }

    /// Sends datagrams. Those that do not fit into the socket's buffer are kept for [`QuicSocket::flush`]; those that the
    /// kernel rejects are lost, as on any link: QUIC retransmits them.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) {
        let segment_bytes = transmit.segment_size.unwrap_or(contents.len()).max(1);
        let source = if self.connected { None } else { transmit.src_ip };
        let ecn = transmit.ecn.and_then(udp_ecn);
        let mut queue = lock(&self.queue);
        let segments = self.gso.segments_of(segment_bytes).min(self.state.max_gso_segments().get());
        for piece in contents.chunks(segments * segment_bytes) {
            let sent = queue.batches.is_empty()
                && self.send_now(transmit.destination, source, ecn, segment_bytes, piece);
            if !sent && queue.bytes + piece.len() <= QUEUE_BYTES {
                queue.bytes += piece.len();
                queue.batches.push_back(Batch {
                    destination: transmit.destination,
                    source,
                    ecn,
                    segment_bytes,
                    contents: piece.to_vec(),
                });
            }
        }
    }

    /// Sends one datagram that is not QUIC's, without segmentation.
    /// Errors: the kernel rejects it, with `EMSGSIZE` if it exceeds the interface MTU.
    pub(crate) fn send_whole(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        if !self.has_queued() {
            let (destination, ecn) = (transmit.destination, transmit.ecn.and_then(udp_ecn));
            let src_ip = if self.connected { None } else { transmit.src_ip };
            let whole = noq_udp::Transmit { destination, ecn, contents, segment_size: None, src_ip };
            match self.state.try_send(UdpSockRef::from(&self.socket), &whole) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        self.send(transmit, contents);
        Ok(())
    }

    pub(crate) fn flush(&self) {
        let mut queue = lock(&self.queue);
        while let Some(batch) = queue.batches.pop_front() {
            if !self.send_now(
                batch.destination,
                batch.source,
                batch.ecn,
                batch.segment_bytes,
                &batch.contents,
            ) {
                queue.batches.push_front(batch);
                return;
            }
            queue.bytes -= batch.contents.len();
        }
    }

    /// Whether the datagrams are sent or lost; `false` when the socket's buffer is full.
    fn send_now(
        &self,
        destination: SocketAddr,
        src_ip: Option<IpAddr>,
        ecn: Option<noq_udp::EcnCodepoint>,
        segment_bytes: usize,
        contents: &[u8],
    ) -> bool {
        let segment_size = (contents.len() > segment_bytes).then_some(segment_bytes);
        let transmit = noq_udp::Transmit { destination, ecn, contents, segment_size, src_ip };
        let full = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        let mut sent = self.state.try_send(UdpSockRef::from(&self.socket), &transmit);
        if self.connected && sent.as_ref().is_err_and(|error| !full(error)) {
            // An ICMP error about an earlier packet, above all "fragmentation needed" about an MTU probe, is returned by the
            // next call (udp(7)), which then sends nothing.
            sent = self.state.try_send(UdpSockRef::from(&self.socket), &transmit);
        }
        // After any other error (interface down, MTU probe larger than the interface MTU) the datagrams are lost.
        !sent.is_err_and(|error| full(&error))
    }

    /// Receives datagrams with one system call; `Ok(0)` if there are none.
    /// Errors: ICMP messages; the socket remains usable.
    pub(crate) fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(QuicDatagram),
    ) -> io::Result<usize> {
        if self.stamps.load(Ordering::Relaxed) {
            return self.receive_stamped(buffers, take);
        }
        let ReceiveBuffers { buffers, metas } = buffers;
        let mut slices = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut slices: [IoSliceMut<'_>; MESSAGES_PER_READ] =
            std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let count = match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        for (meta, slice) in metas.iter().zip(&slices).take(count) {
            let message = slice.get(..meta.len).unwrap_or_default();
            let route = FourTuple::new(meta.addr, meta.dst_ip);
            for datagram in message.chunks(meta.stride.max(1)) {
                // A copy: an unread stream frame keeps its datagram in memory, and must not keep 43 others.
                let payload = BytesMut::from(datagram);
                take(QuicDatagram {
                    route,
                    ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
                    payload,
                    stamp: None,
                });
            }
        }
        Ok(count)
    }

    /// As [`QuicSocket::receive`], with a system call for each message: noq's buffer for control messages has no space for a
    /// timestamp beside the others.
    fn receive_stamped(
        &self,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(QuicDatagram),
    ) -> io::Result<usize> {
        let Some(buffer) = buffers.buffers.first_mut() else { return Ok(0) };
        let mut control = nix::cmsg_space!([u8; 256]);
        for count in 0..MESSAGES_PER_READ {
            let mut parts = [IoSliceMut::new(buffer)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let fd = self.socket.as_raw_fd();
            let message = match recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(count),
                Err(error) => return Err(error.into()),
            };
            let remote = message.address.as_ref().and_then(socket_address);
            let arrival = Arrival::from_control(message.cmsgs().into_iter().flatten());
            let length = message.bytes;
            let Some(remote) = remote else { continue };
            let contents = buffer.get(..length).unwrap_or_default();
            for datagram in contents.chunks(arrival.segment_bytes.unwrap_or(length).max(1)) {
                take(QuicDatagram {
                    route: FourTuple::new(remote, arrival.local),
                    ecn: arrival.ecn.and_then(EcnCodepoint::from_bits),
                    payload: BytesMut::from(datagram),
                    stamp: arrival.stamp,
                });
            }
        }
        Ok(MESSAGES_PER_READ)
    }
}

/// The control messages of a received message.
#[derive(Debug, Default)]
struct Arrival {
    local: Option<IpAddr>,
    ecn: Option<u8>,
    segment_bytes: Option<usize>,
    stamp: Option<Duration>,
}

impl Arrival {
    fn from_control(messages: impl Iterator<Item = ControlMessageOwned>) -> Self {
        let mut arrival = Self::default();
        for message in messages {
            match message {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    arrival.local = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    arrival.local = Some(IpAddr::from(info.ipi6_addr.s6_addr));
                }
                ControlMessageOwned::Ipv4Tos(tos) => arrival.ecn = Some(tos & 0b11),
                ControlMessageOwned::Ipv6TClass(class) => arrival.ecn = Some((class & 0b11) as u8),
                ControlMessageOwned::UdpGroSegments(bytes) => {
                    arrival.segment_bytes = usize::try_from(bytes).ok();
                }
                ControlMessageOwned::ScmTimestampns(time) => {
                    arrival.stamp = Some(Duration::new(time.tv_sec().unsigned_abs(), time.tv_nsec() as u32));
                }
                _ => {}
            }
        }
        arrival
    }
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let ipv4 = address.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    ipv4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into())))
}

impl DatagramPort for QuicSocket {
    fn send_from(&self, from: Option<IpAddr>, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        let src_ip = if self.connected { None } else { from };
        let whole =
            noq_udp::Transmit { destination: to, ecn: None, contents: datagram, segment_size: None, src_ip };
        self.state.try_send(UdpSockRef::from(&self.socket), &whole)
    }

    fn stamp_arrivals(&self) {
        // Without stamps, the times of arrival are those at which this process was awake.
        if !self.stamps.load(Ordering::Relaxed)
            && setsockopt(&self.socket, sockopt::ReceiveTimestampns, &true).is_ok()
        {
            self.stamps.store(true, Ordering::Relaxed);
        }
    }
}

impl AsFd for QuicSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self {
            buffers: (0..MESSAGES_PER_READ).map(|_| vec![0; MESSAGE_BYTES]).collect(),
            metas: [RecvMeta::default(); MESSAGES_PER_READ],
        }
    }
}

/// Whether a read was full, so that more datagrams may be waiting.
pub(crate) const fn was_full(count: usize) -> bool {
    count == MESSAGES_PER_READ
}

fn open(domain: Domain, options: &SocketOptions) -> Result<Socket, SocketError> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
        .map_err(socket_error("opening a UDP socket"))?;
    let send = options.send_buffer_bytes.unwrap_or(BUFFER_BYTES);
    let receive = options.receive_buffer_bytes.unwrap_or(BUFFER_BYTES);
    set_send_buffer(socket.as_fd(), send)
        .and_then(|()| set_receive_buffer(socket.as_fd(), receive))
        .map_err(socket_error("setting the buffers"))?;
    Ok(socket)
}

fn socket_error(doing: &'static str) -> impl Fn(io::Error) -> SocketError {
    move |source| SocketError { doing, source }
}

fn udp_ecn(ecn: EcnCodepoint) -> Option<noq_udp::EcnCodepoint> {
    noq_udp::EcnCodepoint::from_bits(ecn as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// Regression: an ICMP error about one packet lost the next one, or the next batch of 44.
    #[test]
    fn an_icmp_error_about_one_packet_does_not_lose_the_next() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let remote = receiver.local_addr().unwrap();
        drop(receiver);
        let route = Binding { interface: None, local: None, remote };
        let socket = QuicSocket::connect(&route, &SocketOptions::default()).unwrap();
        let transmit = |contents: &[u8]| Transmit {
            destination: remote,
            ecn: None,
            size: contents.len(),
            segment_size: None,
            src_ip: None,
        };
        // The port is closed: on loopback the ICMP error arrives before the call returns.
        socket.send(&transmit(b"first"), b"first");
        let receiver = UdpSocket::bind(remote).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send(&transmit(b"second"), b"second");
        let mut buffer = [0; 16];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(buffer.get(..length), Some(b"second".as_slice()));
    }
}
