//! A UDP socket of one local interface or address, or the server's.

use super::interfaces::{Exits, GsoLimit};
use crate::options::SocketOptions;
use bytes::BytesMut;
use noq_proto::{EcnCodepoint, FourTuple, Transmit};
use noq_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Buffers of a socket when nothing else was asked for, before the kernel doubles them: one blocked socket must not
/// stall the other paths.
const BUFFER_BYTES: u64 = 4 << 20;
/// What is kept for a socket that takes no more; beyond that it is dropped, as a full queue drops.
const HELD_BYTES: usize = 1 << 20;
/// Messages taken from the kernel in one system call.
const MESSAGES_PER_READ: usize = 16;
/// Room for a message: as many datagrams as the kernel joins (`UDP_GRO`), at most an IP packet long.
const MESSAGE_BYTES: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct PathSocket {
    socket: Socket,
    state: UdpSocketState,
    local: SocketAddr,
    /// Connected to the one peer there is, so the kernel knows the source, and tells of ICMP errors.
    connected: bool,
    gso: GsoLimit,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
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

/// Where a client's socket is bound and what it is connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way<'a> {
    pub(crate) interface: Option<&'a str>,
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
}

pub(crate) struct Inbox {
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; MESSAGES_PER_READ],
}

#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) way: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) payload: BytesMut,
}

impl PathSocket {
    pub(crate) fn towards(way: &Way<'_>, options: &SocketOptions) -> Result<Self, SocketError> {
        let socket = open(Domain::for_address(way.remote), options)?;
        if let Some(interface) = way.interface {
            socket
                .bind_device(Some(interface.as_bytes()))
                .map_err(failed("binding to the interface (SO_BINDTODEVICE)"))?;
        }
        let wildcard: IpAddr =
            if way.remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = SocketAddr::new(way.local.unwrap_or(wildcard), 0);
        socket.bind(&local.into()).map_err(failed("binding the local address"))?;
        socket.connect(&way.remote.into()).map_err(failed("connecting"))?;
        let interface = way.interface.map(str::to_owned);
        Self::ready(socket, true, |local| {
            GsoLimit::of(
                interface.as_ref().map_or(Exits::Of(local), |name| Exits::Named(std::slice::from_ref(name))),
            )
        })
    }

    /// A server's socket; an IPv6 wildcard address takes IPv4 peers as well.
    pub(crate) fn listening(address: SocketAddr, options: &SocketOptions) -> Result<Self, SocketError> {
        let socket = open(Domain::for_address(address), options)?;
        if address.is_ipv6() {
            socket.set_only_v6(false).map_err(failed("clearing IPV6_V6ONLY"))?;
        }
        socket.bind(&address.into()).map_err(failed("binding the address"))?;
        Self::ready(socket, false, |local| GsoLimit::of(Exits::Any(local)))
    }

    fn ready(
        socket: Socket,
        connected: bool,
        gso: impl FnOnce(IpAddr) -> GsoLimit,
    ) -> Result<Self, SocketError> {
        let local = socket
            .local_addr()
            .and_then(|local| crate::connected_socket::inet(&local))
            .map_err(failed("reading the address"))?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(failed("setting up UDP"))?;
        Ok(Self { socket, state, local, connected, gso: gso(local.ip()), held: Mutex::default() })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Send and receive buffer including the kernel's bookkeeping, in bytes.
    pub(crate) fn buffers(&self) -> io::Result<(u64, u64)> {
        Ok((self.socket.send_buffer_size()? as u64, self.socket.recv_buffer_size()? as u64))
    }

    /// Whether batches are waiting until the socket is writable.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held().batches.is_empty()
    }

    /// Sends datagrams; what the kernel does not take now is held back for [`PathSocket::flush`], and what it refuses
    /// is lost, as on any link: QUIC repeats it.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) {
        let segment_bytes = transmit.segment_size.unwrap_or(contents.len()).max(1);
        let source = if self.connected { None } else { transmit.src_ip };
        let ecn = transmit.ecn.map(udp_ecn);
        let mut held = self.held();
        let segments = self.gso.segments_of(segment_bytes).min(self.state.max_gso_segments().get());
        for piece in contents.chunks(segments * segment_bytes) {
            let sent = held.batches.is_empty()
                && self.send_now(transmit.destination, source, ecn, segment_bytes, piece);
            if !sent && held.bytes + piece.len() <= HELD_BYTES {
                held.bytes += piece.len();
                held.batches.push_back(Batch {
                    destination: transmit.destination,
                    source,
                    ecn,
                    segment_bytes,
                    contents: piece.to_vec(),
                });
            }
        }
    }

    /// Sends one datagram that is not QUIC's, whole. What the kernel refuses is told, and lost.
    ///
    /// # Errors
    /// `EMSGSIZE` when it is longer than the interface takes.
    pub(crate) fn send_whole(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        if !self.is_holding() {
            let (destination, ecn) = (transmit.destination, transmit.ecn.map(udp_ecn));
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
        let mut held = self.held();
        while let Some(batch) = held.batches.pop_front() {
            if !self.send_now(
                batch.destination,
                batch.source,
                batch.ecn,
                batch.segment_bytes,
                &batch.contents,
            ) {
                held.batches.push_front(batch);
                return;
            }
            held.bytes -= batch.contents.len();
        }
    }

    /// Whether that is done with, sent or lost; `false` when the kernel has no room now.
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
            // What ICMP says of an earlier packet, an MTU probe's "fragmentation needed" above all, is told by the next
            // call (udp(7)), which then sends nothing.
            sent = self.state.try_send(UdpSockRef::from(&self.socket), &transmit);
        }
        // Any other error, as when the interface is down or its MTU smaller than a probe, loses it.
        !sent.is_err_and(|error| full(&error))
    }

    /// Takes what has arrived, as much as one system call brings. `Ok(0)` when there was nothing.
    ///
    /// An error is one of the network (ICMP), not of the socket: later calls go on.
    pub(crate) fn receive(&self, inbox: &mut Inbox, mut take: impl FnMut(Datagram)) -> io::Result<usize> {
        let Inbox { buffers, metas } = inbox;
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
            let way = FourTuple::new(meta.addr, meta.dst_ip);
            for datagram in message.chunks(meta.stride.max(1)) {
                // Memory of its own: a frame that waits in a stream keeps its datagram, and must not keep 43 others.
                let payload = BytesMut::from(datagram);
                take(Datagram { way, ecn: meta.ecn.map(proto_ecn), payload });
            }
        }
        Ok(count)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for PathSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            buffers: (0..MESSAGES_PER_READ).map(|_| vec![0; MESSAGE_BYTES]).collect(),
            metas: [RecvMeta::default(); MESSAGES_PER_READ],
        }
    }
}

/// Whether a full read was made, so that there may be more.
pub(crate) const fn was_full(count: usize) -> bool {
    count == MESSAGES_PER_READ
}

fn open(domain: Domain, options: &SocketOptions) -> Result<Socket, SocketError> {
    let socket =
        Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(failed("opening a UDP socket"))?;
    let send = options.send_buffer_bytes.unwrap_or(BUFFER_BYTES);
    let receive = options.receive_buffer_bytes.unwrap_or(BUFFER_BYTES);
    SocketOptions::set_buffers(socket.as_fd(), send, receive).map_err(failed("setting the buffers"))?;
    Ok(socket)
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> SocketError {
    move |source| SocketError { doing, source }
}

const fn udp_ecn(ecn: EcnCodepoint) -> noq_udp::EcnCodepoint {
    match ecn {
        EcnCodepoint::Ect0 => noq_udp::EcnCodepoint::Ect0,
        EcnCodepoint::Ect1 => noq_udp::EcnCodepoint::Ect1,
        EcnCodepoint::Ce => noq_udp::EcnCodepoint::Ce,
    }
}

const fn proto_ecn(ecn: noq_udp::EcnCodepoint) -> EcnCodepoint {
    match ecn {
        noq_udp::EcnCodepoint::Ect0 => EcnCodepoint::Ect0,
        noq_udp::EcnCodepoint::Ect1 => EcnCodepoint::Ect1,
        noq_udp::EcnCodepoint::Ce => EcnCodepoint::Ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// An ICMP error about one packet once cost the next one, or the next batch of 44.
    #[test]
    fn what_icmp_says_of_one_packet_does_not_lose_the_next() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let remote = receiver.local_addr().unwrap();
        drop(receiver);
        let way = Way { interface: None, local: None, remote };
        let socket = PathSocket::towards(&way, &SocketOptions::default()).unwrap();
        let transmit = |contents: &[u8]| Transmit {
            destination: remote,
            ecn: None,
            size: contents.len(),
            segment_size: None,
            src_ip: None,
        };
        // Nobody is there: on loopback the kernel says so before the call returns.
        socket.send(&transmit(b"first"), b"first");
        let receiver = UdpSocket::bind(remote).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send(&transmit(b"second"), b"second");
        let mut buffer = [0; 16];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(buffer.get(..length), Some(b"second".as_slice()));
    }
}
