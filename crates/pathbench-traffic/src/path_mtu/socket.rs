//! A UDP socket that sends whole packets only, whatever the kernel believes of the path, and reads what the network
//! says about them.
//!
//! Sources: ip(7) (`IP_MTU_DISCOVER`, `IP_RECVERR`), ipv6(7) (`IPV6_MTU_DISCOVER`, `IPV6_DONTFRAG`, `IPV6_RECVERR`),
//! `linux/errqueue.h`, `net/ipv4/ip_sockglue.c` (`ip_icmp_error`, `ip_local_error`).
#![allow(unsafe_code, reason = "setsockopt, and recvmsg from the error queue, which no safe wrapper knows")]

use super::finder::Unsent;
use super::{MtuError, MtuPath};
use crate::probe::words;
use crate::socket_option::set_option;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read as _};
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

/// `IP_UNICAST_IF` (linux/in.h) and `IPV6_UNICAST_IF` (linux/in6.h).
const IP_UNICAST_IF: i32 = 50;
const IPV6_UNICAST_IF: i32 = 76;

/// Asked for, not always granted.
const BUFFER_BYTES: usize = 1 << 20;
/// A pending error of the network is told by the next call, whatever that does; so it is repeated.
const ATTEMPTS: usize = 4;
/// Of a quoted payload, more than any message has that matters.
const QUOTED_BYTES: usize = 128;

/// What the network or the kernel says about a packet of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// It is too long for the next link (ICMP).
    TooBig {
        router: IpAddr,
        said_bytes: u32,
        /// The beginning of its payload, as far as it was quoted.
        quoted: Vec<u8>,
    },
    /// It is too long for the local interface, which takes so much.
    TooLong { limit_bytes: u32 },
    /// Something else, in words.
    Refused { reason: String },
}

/// See the module.
#[derive(Debug)]
pub(super) struct PathSocket {
    socket: Socket,
    local: IpAddr,
}

/// Room for ancillary data, aligned as `cmsghdr` must be.
#[repr(C, align(8))]
struct Control([u8; 512]);

impl PathSocket {
    /// A socket on `path`, connected to `server`.
    pub(super) fn open(path: &MtuPath, server: SocketAddr) -> Result<Self, MtuError> {
        let place =
            path.interface.as_deref().map_or_else(String::new, |interface| format!(" by {interface}"));
        let failed = |doing: String| move |source: io::Error| MtuError::Socket { doing, source };
        let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))
            .map_err(failed("opening a UDP socket".to_owned()))?;
        if let Some(interface) = &path.interface {
            bind_interface(&socket, interface, server.is_ipv4())
                .map_err(failed(format!("binding to the interface {interface}")))?;
        }
        let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = SocketAddr::new(path.local.unwrap_or(any), 0);
        socket.bind(&local.into()).map_err(failed(format!("using the address {}{place}", local.ip())))?;
        keep_whole(&socket, server.is_ipv4()).map_err(failed("forbidding fragmentation".to_owned()))?;
        // Where the system grants less, less is under way before some is lost, which is noticed.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        socket.connect(&server.into()).map_err(failed(format!("finding a way to {}{place}", server.ip())))?;
        socket.set_nonblocking(true).map_err(failed("setting up a UDP socket".to_owned()))?;
        let local = socket.local_addr().map_err(failed("reading the local address".to_owned()))?;
        let local = local.as_socket().map_or(any, |address| address.ip());
        Ok(Self { socket, local })
    }

    /// The address it sends from.
    pub(super) fn local(&self) -> IpAddr {
        self.local
    }

    /// Sends a datagram whole. What the network has said meanwhile is added to `told`.
    pub(super) fn send(&self, payload: &[u8], told: &mut Vec<Told>) -> Result<(), Unsent> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Err(error) = self.socket.send(payload) else { return Ok(()) };
            let full =
                error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS);
            if full {
                return Err(Unsent::Full);
            }
            while let Some(word) = self.take_told() {
                match word {
                    Told::TooLong { limit_bytes } => {
                        return Err(Unsent::TooLong { limit_bytes: Some(limit_bytes) });
                    }
                    other => told.push(other),
                }
            }
            last = Some(error);
        }
        match last {
            Some(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                Err(Unsent::TooLong { limit_bytes: None })
            }
            Some(error) => Err(Unsent::Failed { reason: format!("sending: {}", words(&error)) }),
            None => Err(Unsent::Full),
        }
    }

    /// Takes a datagram that has arrived; `None` when there is none.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        for _ in 0..ATTEMPTS {
            match (&self.socket).read(buffer) {
                Ok(length) => return Some(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // What the network said, which stands in the error queue as well.
                Err(_) => {}
            }
        }
        None
    }

    /// Takes what the network or the kernel said, if anything.
    pub(super) fn take_told(&self) -> Option<Told> {
        take_told(&self.socket)
    }
}

impl AsFd for PathSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// How long a packet the interface takes by which this host sends from `local` to `to`, when it has just refused a
/// datagram of `length` bytes; `None` when the kernel does not tell.
pub(crate) fn interface_limit(to: SocketAddr, local: Option<IpAddr>, length: usize) -> Option<u32> {
    let (socket, _) = connected(to, local, true)?;
    // Refused as the one before was; the refusal says what would not be.
    socket.send(&vec![0; length]).err()?;
    match take_told(&socket)? {
        Told::TooLong { limit_bytes } => Some(limit_bytes),
        Told::TooBig { .. } | Told::Refused { .. } => None,
    }
}

/// How long a packet this host's kernel believes to get through from `local` to `to` (`IP_MTU`, ip(7)): what it has
/// learnt from ICMP, what the route says, or what the interface takes.
pub(crate) fn believed_mtu(to: SocketAddr, local: Option<IpAddr>) -> Option<u32> {
    let (socket, to) = connected(to, local, false)?;
    let (level, option) =
        if to.is_ipv4() { (libc::IPPROTO_IP, libc::IP_MTU) } else { (libc::IPPROTO_IPV6, libc::IPV6_MTU) };
    let mut value = 0_i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers are to a live i32 and to its length.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length)
    };
    (result == 0).then(|| u32::try_from(value).ok())?
}

/// A socket on the way from `local` to `to`, for questions to the kernel.
fn connected(to: SocketAddr, local: Option<IpAddr>, whole: bool) -> Option<(Socket, SocketAddr)> {
    let mut to = to;
    to.set_ip(to.ip().to_canonical());
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP)).ok()?;
    if whole {
        keep_whole(&socket, to.is_ipv4()).ok()?;
    }
    socket.set_nonblocking(true).ok()?;
    let local = local.map(|local| local.to_canonical()).filter(|local| local.is_ipv4() == to.is_ipv4());
    if let Some(local) = local {
        socket.bind(&SocketAddr::new(local, 0).into()).ok()?;
    }
    socket.connect(&to.into()).ok()?;
    Some((socket, to))
}

/// By `interface` only. Where this is not allowed (before Linux 5.7, without `CAP_NET_RAW`), unicast goes by it at
/// least.
fn bind_interface(socket: &Socket, interface: &str, is_ipv4: bool) -> io::Result<()> {
    match socket.bind_device(Some(interface.as_bytes())) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let index = rustix::net::netdevice::name_to_index(socket, interface)?;
            let (level, option) = if is_ipv4 {
                (libc::IPPROTO_IP, IP_UNICAST_IF)
            } else {
                (libc::IPPROTO_IPV6, IPV6_UNICAST_IF)
            };
            set_option(socket, level, option, index.to_be() as i32)
        }
        other => other,
    }
}

/// Never fragments, neither here nor on the way, does not heed the cached path MTU, and reports errors.
fn keep_whole(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    if is_ipv4 {
        set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        return set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1);
    }
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
}

/// Reads one message of the error queue.
fn take_told(socket: &Socket) -> Option<Told> {
    let mut quoted = vec![0; QUOTED_BYTES];
    let mut control = Control([0; 512]);
    let mut part = libc::iovec { iov_base: quoted.as_mut_ptr().cast(), iov_len: quoted.len() };
    // SAFETY: a plain structure of integers and pointers; all-zero is its empty value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: every pointer in `message` refers to a live, exclusively borrowed object of the length given beside it.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    quoted.truncate(usize::try_from(received).ok()?);
    let (error, offender) = extended_error(&message)?;
    let is_icmp = matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
    let errno = i32::try_from(error.ee_errno).unwrap_or_default();
    Some(match (errno, offender) {
        (libc::EMSGSIZE, Some(router)) if is_icmp => {
            Told::TooBig { router, said_bytes: error.ee_info, quoted }
        }
        (libc::EMSGSIZE, _) if !is_icmp => Told::TooLong { limit_bytes: error.ee_info },
        (_, offender) => {
            let words = words(&io::Error::from_raw_os_error(errno));
            let reason = match offender.filter(|_| is_icmp) {
                Some(router) => format!("{router} says: {words}"),
                None => words,
            };
            Told::Refused { reason }
        }
    })
}

/// The error itself, and who reported it.
fn extended_error(message: &libc::msghdr) -> Option<(libc::sock_extended_err, Option<IpAddr>)> {
    // SAFETY: `message` was filled in by recvmsg, whose control buffer is still alive; the CMSG macros walk it within
    // msg_controllen. A payload is read only as far as its header says it goes, without assuming alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let place = ((*header).cmsg_level, (*header).cmsg_type);
            let data = libc::CMSG_DATA(header);
            let length = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let is_error = matches!(
                place,
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            );
            if is_error && length >= size_of::<libc::sock_extended_err>() {
                let error = ptr::read_unaligned(data.cast::<libc::sock_extended_err>());
                let behind = size_of::<libc::sock_extended_err>();
                let rest = std::slice::from_raw_parts(data.add(behind), length - behind);
                return Some((error, offender(rest)));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// The address in a `sockaddr_in` or `sockaddr_in6`.
fn offender(bytes: &[u8]) -> Option<IpAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}
