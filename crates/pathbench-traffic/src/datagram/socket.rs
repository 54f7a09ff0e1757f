//! The UDP socket of all datagrams other than QUIC. It sends them unfragmented, regardless of the cached path MTU, and
//! reads the error queue. Also queries to the kernel about a path.
//!
//! Sources: ip(7) (`IP_MTU_DISCOVER`, `IP_RECVERR`, `IP_MTU`), ipv6(7) (`IPV6_MTU_DISCOVER`, `IPV6_DONTFRAG`,
//! `IPV6_RECVERR`), `linux/errqueue.h`, `net/ipv4/ip_sockglue.c` (`ip_icmp_error`, `ip_local_error`), udp(7)
//! (`UDP_SEGMENT`, `UDP_GRO`), Documentation/networking/timestamping.rst (`SO_TIMESTAMPNS`), socket(7) (`SO_RXQ_OVFL`).

use super::message::{DatagramMessage, MAX_TEXT_BYTES};
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use pathbench_record::network::AddressFamily;
use pathbench_transport::set_option_int;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;
use thiserror::Error;

/// `IP_UNICAST_IF` (linux/in.h) and `IPV6_UNICAST_IF` (linux/in6.h).
const IP_UNICAST_IF: i32 = 50;
const IPV6_UNICAST_IF: i32 = 76;

/// The kernel may grant less.
const BUFFER_BYTES: usize = 1 << 20;
const METER_BUFFER_BYTES: usize = 8 << 20;
/// The next system call on the socket reports a pending network error, so it is repeated.
const ATTEMPTS: usize = 4;
/// Read length of a quoted payload: more than the header.
const QUOTED_BYTES: usize = 128;

#[derive(Debug, Error)]
pub enum DatagramError {
    #[error("{doing}: {source}")]
    Socket { doing: String, source: io::Error },
    #[error(
        "a token of {bytes} bytes: at most {MAX_TEXT_BYTES} are possible; copy it as the operator gave it"
    )]
    Token { bytes: usize },
    #[error("probes every {given:?}: at least 20 ms between them")]
    Interval { given: Duration },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsent {
    /// `EMSGSIZE` of the local interface, and the largest IP packet that it sends, if the kernel reports it.
    TooLong {
        limit_bytes: Option<u32>,
    },
    Full,
    Failed {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetworkReport {
    TooBig { router: IpAddr, mtu_bytes: u32, quoted: Vec<u8> },
    TooLong { limit_bytes: u32 },
    Refused { reason: String },
}

/// The interface and the source address of datagrams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UdpPath {
    /// The socket is bound to the interface (`SO_BINDTODEVICE`) or, where that is forbidden, to its address and index
    /// (`IP_UNICAST_IF`). `None`: according to the routes.
    pub interface: Option<String>,
    /// `None`: the kernel's choice, which follows a change of the interface's address.
    pub local: Option<IpAddr>,
}

#[derive(Debug)]
pub(crate) struct DatagramSocket {
    socket: Socket,
    pub(crate) family: AddressFamily,
}

/// A datagram, or several of one size that the kernel coalesced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedDatagram {
    pub(crate) length: usize,
    pub(crate) segment: usize,
    /// Arrival time on the kernel's wall clock, if timestamps are enabled.
    pub(crate) at_ns: Option<u64>,
    /// Running count of datagrams (or batches of them) that did not fit into the socket's buffer.
    pub(crate) drops: u32,
}

pub(crate) fn check_token(token: Option<&str>) -> Result<(), DatagramError> {
    match token.map(str::len) {
        Some(bytes) if bytes > MAX_TEXT_BYTES => Err(DatagramError::Token { bytes }),
        _ => Ok(()),
    }
}

fn io_error(doing: impl Into<String>) -> impl FnOnce(io::Error) -> DatagramError {
    let doing = doing.into();
    move |source| DatagramError::Socket { doing, source }
}

impl DatagramSocket {
    pub(crate) fn open(path: &UdpPath, server: SocketAddr) -> Result<Self, DatagramError> {
        let UdpPath { interface, local } = path;
        let via = interface.as_ref().map_or_else(String::new, |interface| format!(" by {interface}"));
        let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let opened = Self::bind(interface.as_deref(), SocketAddr::new(local.unwrap_or(any), 0))?;
        // With smaller buffers some datagrams are lost and the window shrinks, so errors are ignored.
        let _ = opened.socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = opened.socket.set_send_buffer_size(BUFFER_BYTES);
        opened.connect(server).map_err(io_error(format!("no route to {}{via}", server.ip())))?;
        opened.socket.set_nonblocking(true).map_err(io_error("setting up a UDP socket"))?;
        Ok(opened)
    }

    /// An unconnected socket with blocking sends.
    pub(crate) fn bind(interface: Option<&str>, local: SocketAddr) -> Result<Self, DatagramError> {
        let via = interface.map_or_else(String::new, |interface| format!(" by {interface}"));
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))
            .map_err(io_error("opening a UDP socket"))?;
        if let Some(interface) = interface {
            bind_interface(&socket, interface, local.is_ipv4())
                .map_err(io_error(format!("binding to the interface {interface}")))?;
        }
        socket.bind(&local.into()).map_err(io_error(format!("using the address {}{via}", local.ip())))?;
        forbid_fragments(&socket, local.is_ipv4()).map_err(io_error("forbidding fragmentation"))?;
        Ok(Self { socket, family: AddressFamily::from_address(local.ip()) })
    }

    pub(crate) fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(&peer.into())
    }

    pub(crate) fn local(&self) -> io::Result<Option<SocketAddr>> {
        Ok(self.socket.local_addr()?.as_socket())
    }

    /// Enables timestamps of arrivals.
    pub(crate) fn stamp_arrivals(&self) -> io::Result<()> {
        Ok(setsockopt(&self.socket, sockopt::ReceiveTimestampns, &true)?)
    }

    /// Enables GRO, timestamps of arrivals and the drop counter, and sets a large receive buffer.
    pub(crate) fn meter_arrivals(&self) -> io::Result<()> {
        setsockopt(&self.socket, sockopt::UdpGroSegment, &true)?;
        self.stamp_arrivals()?;
        setsockopt(&self.socket, sockopt::RxqOvfl, &1)?;
        // The kernel grants less without `CAP_NET_ADMIN`.
        setsockopt(&self.socket, sockopt::RcvBufForce, &METER_BUFFER_BYTES)
            .or_else(|_| self.socket.set_recv_buffer_size(METER_BUFFER_BYTES))
    }

    /// Sends a datagram, or several of `segment` bytes each (GSO), unfragmented, and appends the network's error
    /// reports to `reports`.
    pub(crate) fn send(
        &self,
        payload: &[u8],
        segment: Option<u16>,
        reports: &mut Vec<NetworkReport>,
    ) -> Result<(), Unsent> {
        let control = segment.as_ref().map(ControlMessage::UdpGsoSegments);
        let (fd, parts) = (self.socket.as_raw_fd(), [IoSlice::new(payload)]);
        let mut last = Errno::EAGAIN;
        for _ in 0..ATTEMPTS {
            last = match sendmsg::<()>(fd, &parts, control.as_slice(), MsgFlags::empty(), None) {
                Ok(_) => return Ok(()),
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return Err(Unsent::Full),
                Err(error) => error,
            };
            while let Some(report) = self.take_report() {
                match report {
                    NetworkReport::TooLong { limit_bytes } => {
                        return Err(Unsent::TooLong { limit_bytes: Some(limit_bytes) });
                    }
                    other => reports.push(other),
                }
            }
        }
        Err(match last {
            Errno::EMSGSIZE => Unsent::TooLong { limit_bytes: None },
            error => Unsent::Failed { reason: format!("sending: {}", words(&error.into())) },
        })
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<ReceivedDatagram> {
        let mut control = nix::cmsg_space!(i32, libc::timespec, u32);
        for _ in 0..ATTEMPTS {
            let mut parts = [IoSliceMut::new(buffer)];
            let flags = MsgFlags::MSG_DONTWAIT;
            match recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
                Ok(message) => {
                    return Some(arrival(message.bytes, message.cmsgs().into_iter().flatten()));
                }
                Err(Errno::EAGAIN) => return None,
                // An ICMP error, which is also in the error queue.
                Err(_) => {}
            }
        }
        None
    }

    pub(crate) fn take_report(&self) -> Option<NetworkReport> {
        take_report(&self.socket)
    }
}

impl ReceivedDatagram {
    pub(crate) fn messages(self, bytes: &[u8]) -> impl Iterator<Item = (DatagramMessage, usize)> + '_ {
        let datagrams = bytes[..self.length].chunks(self.segment.max(1));
        datagrams.filter_map(|datagram| Some((DatagramMessage::decode(datagram)?, datagram.len())))
    }
}

fn arrival(length: usize, control: impl Iterator<Item = ControlMessageOwned>) -> ReceivedDatagram {
    let mut arrival = ReceivedDatagram { length, segment: length, at_ns: None, drops: 0 };
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

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The largest packet that the outgoing interface from `local` to `to` sends, after it has rejected a datagram of
/// `length` bytes; `None` when the kernel does not report it.
pub(super) fn interface_limit(to: SocketAddr, local: Option<IpAddr>, length: usize) -> Option<u32> {
    let (socket, to) = connect(to, local)?;
    forbid_fragments(&socket, to.is_ipv4()).ok()?;
    // The kernel rejects this datagram, too; its error report contains the limit.
    socket.send(&vec![0; length]).err()?;
    match take_report(&socket)? {
        NetworkReport::TooLong { limit_bytes } => Some(limit_bytes),
        NetworkReport::TooBig { .. } | NetworkReport::Refused { .. } => None,
    }
}

/// The path MTU from `local` to `to` in this host's kernel (`IP_MTU`, ip(7)), which comes from ICMP, from the route or
/// from the interface.
pub(super) fn kernel_path_mtu(to: SocketAddr, local: Option<IpAddr>) -> Option<u32> {
    let (socket, to) = connect(to, local)?;
    if to.is_ipv4() { ip_mtu(&socket) } else { ipv6_mtu(&socket) }.ok()
}

/// A socket on the path from `local` to `to`, for queries to the kernel.
fn connect(mut to: SocketAddr, local: Option<IpAddr>) -> Option<(Socket, SocketAddr)> {
    to.set_ip(to.ip().to_canonical());
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP)).ok()?;
    socket.set_nonblocking(true).ok()?;
    let local = local.map(|local| local.to_canonical()).filter(|local| local.is_ipv4() == to.is_ipv4());
    if let Some(local) = local {
        socket.bind(&SocketAddr::new(local, 0).into()).ok()?;
    }
    socket.connect(&to.into()).ok()?;
    Some((socket, to))
}

/// Where `SO_BINDTODEVICE` is forbidden (before Linux 5.7, without `CAP_NET_RAW`), at least unicast uses the interface.
fn bind_interface(socket: &Socket, interface: &str, is_ipv4: bool) -> io::Result<()> {
    match socket.bind_device(Some(interface.as_bytes())) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let index = rustix::net::netdevice::name_to_index(socket, interface)?;
            let (level, option) = if is_ipv4 {
                (libc::IPPROTO_IP, IP_UNICAST_IF)
            } else {
                (libc::IPPROTO_IPV6, IPV6_UNICAST_IF)
            };
            set_option_int(socket.as_fd(), level, option, index.to_be() as i32)
        }
        other => other,
    }
}

/// Packets have the DF bit and ignore the cached path MTU (`IP_PMTUDISC_PROBE`); errors go to the error queue.
fn forbid_fragments(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    if is_ipv4 {
        set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
        return Ok(setsockopt(socket, sockopt::Ipv4RecvErr, &true)?);
    }
    set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
    setsockopt(socket, sockopt::Ipv6DontFrag, &true)?;
    Ok(setsockopt(socket, sockopt::Ipv6RecvErr, &true)?)
}

fn take_report(socket: &Socket) -> Option<NetworkReport> {
    let mut quoted = vec![0; QUOTED_BYTES];
    let mut control = nix::cmsg_space!([u8; 256]);
    let mut parts = [IoSliceMut::new(&mut quoted)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags).ok()?;
    let (error, router) = message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, router) => {
            let router = router.filter(|router| i32::from(router.sin_family) == libc::AF_INET);
            Some((error, router.map(|router| IpAddr::from(router.sin_addr.s_addr.to_ne_bytes()))))
        }
        ControlMessageOwned::Ipv6RecvErr(error, router) => {
            let router = router.filter(|router| i32::from(router.sin6_family) == libc::AF_INET6);
            Some((error, router.map(|router| IpAddr::from(router.sin6_addr.s6_addr))))
        }
        _ => None,
    })?;
    let length = message.bytes;
    quoted.truncate(length);
    let is_icmp = matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
    let errno = i32::try_from(error.ee_errno).unwrap_or_default();
    Some(match (errno, router.filter(|_| is_icmp)) {
        (libc::EMSGSIZE, Some(router)) => NetworkReport::TooBig { router, mtu_bytes: error.ee_info, quoted },
        (libc::EMSGSIZE, None) if !is_icmp => NetworkReport::TooLong { limit_bytes: error.ee_info },
        (_, router) => {
            let words = words(&io::Error::from_raw_os_error(errno));
            let reason = router.map_or(words.clone(), |router| format!("{router} reports: {words}"));
            NetworkReport::Refused { reason }
        }
    })
}

pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" (os error ").map_or(text.as_str(), |(words, _)| words).to_owned()
}
