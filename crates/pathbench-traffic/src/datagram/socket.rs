//! A UDP socket on one path, which sends whole packets only, regardless of the cached path MTU, and reads what the
//! network reports about them; and questions to the kernel about a path.
//!
//! Sources: ip(7) (`IP_MTU_DISCOVER`, `IP_RECVERR`, `IP_MTU`), ipv6(7) (`IPV6_MTU_DISCOVER`, `IPV6_DONTFRAG`,
//! `IPV6_RECVERR`), `linux/errqueue.h`, `net/ipv4/ip_sockglue.c` (`ip_icmp_error`, `ip_local_error`).

use super::message::MAX_TEXT_BYTES;
use super::shell::Unsent;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use pathbench_transport::set_option_int;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;
use thiserror::Error;

/// `IP_UNICAST_IF` (linux/in.h) and `IPV6_UNICAST_IF` (linux/in6.h).
const IP_UNICAST_IF: i32 = 50;
const IPV6_UNICAST_IF: i32 = 76;

/// The kernel may grant less.
const BUFFER_BYTES: usize = 1 << 20;
/// The next call of any kind reports a pending network error, so it is repeated.
const ATTEMPTS: usize = 4;
/// Of a quoted payload, more than the header.
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
pub(crate) enum NetworkReport {
    TooBig { router: IpAddr, said_bytes: u32, quoted: Vec<u8> },
    TooLong { limit_bytes: u32 },
    Refused { reason: String },
}

#[derive(Debug)]
pub(crate) struct PathSocket {
    socket: Socket,
    local: IpAddr,
}

pub(crate) fn check_token(token: Option<&str>) -> Result<(), DatagramError> {
    match token.map(str::len) {
        Some(bytes) if bytes > MAX_TEXT_BYTES => Err(DatagramError::Token { bytes }),
        _ => Ok(()),
    }
}

impl PathSocket {
    /// A socket that sends to `server` through `interface` from `local`; `None`: as the routes say.
    pub(crate) fn open(
        interface: Option<&str>,
        local: Option<IpAddr>,
        server: SocketAddr,
    ) -> Result<Self, DatagramError> {
        let place = interface.map_or_else(String::new, |interface| format!(" by {interface}"));
        let failed = |doing: String| move |source: io::Error| DatagramError::Socket { doing, source };
        let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))
            .map_err(failed("opening a UDP socket".to_owned()))?;
        if let Some(interface) = interface {
            bind_interface(&socket, interface, server.is_ipv4())
                .map_err(failed(format!("binding to the interface {interface}")))?;
        }
        let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = SocketAddr::new(local.unwrap_or(any), 0);
        socket.bind(&local.into()).map_err(failed(format!("using the address {}{place}", local.ip())))?;
        forbid_fragments(&socket, server.is_ipv4()).map_err(failed("forbidding fragmentation".to_owned()))?;
        // With smaller buffers some datagrams are lost, and the window shrinks.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        socket.connect(&server.into()).map_err(failed(format!("no route to {}{place}", server.ip())))?;
        socket.set_nonblocking(true).map_err(failed("setting up a UDP socket".to_owned()))?;
        let local = socket.local_addr().map_err(failed("reading the local address".to_owned()))?;
        let local = local.as_socket().map_or(any, |address| address.ip());
        Ok(Self { socket, local })
    }

    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// Sends a datagram whole. What the network has reported meanwhile is added to `reports`.
    pub(crate) fn send(&self, payload: &[u8], reports: &mut Vec<NetworkReport>) -> Result<(), Unsent> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Err(error) = self.socket.send(payload) else { return Ok(()) };
            let full =
                error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS);
            if full {
                return Err(Unsent::Full);
            }
            while let Some(report) = self.take_report() {
                match report {
                    NetworkReport::TooLong { limit_bytes } => {
                        return Err(Unsent::TooLong { limit_bytes: Some(limit_bytes) });
                    }
                    other => reports.push(other),
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

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        for _ in 0..ATTEMPTS {
            match (&self.socket).read(buffer) {
                Ok(length) => return Some(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // A report of the network, which stands in the error queue as well.
                Err(_) => {}
            }
        }
        None
    }

    pub(crate) fn take_report(&self) -> Option<NetworkReport> {
        take_report(&self.socket)
    }
}

impl AsFd for PathSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The longest packet that the interface takes by which this host sends from `local` to `to`, when it has just refused a
/// datagram of `length` bytes; `None` when the kernel does not report it.
pub(super) fn interface_limit(to: SocketAddr, local: Option<IpAddr>, length: usize) -> Option<u32> {
    let (socket, to) = connected(to, local)?;
    forbid_fragments(&socket, to.is_ipv4()).ok()?;
    // Refused as the one before was; the report says what would not be.
    socket.send(&vec![0; length]).err()?;
    match take_report(&socket)? {
        NetworkReport::TooLong { limit_bytes } => Some(limit_bytes),
        NetworkReport::TooBig { .. } | NetworkReport::Refused { .. } => None,
    }
}

/// The path MTU from `local` to `to` in this host's kernel (`IP_MTU`, ip(7)): as learnt from ICMP, from the route or
/// from the interface.
pub(super) fn kernel_path_mtu(to: SocketAddr, local: Option<IpAddr>) -> Option<u32> {
    let (socket, to) = connected(to, local)?;
    if to.is_ipv4() { ip_mtu(&socket) } else { ipv6_mtu(&socket) }.ok()
}

/// A socket on the path from `local` to `to`, for questions to the kernel.
fn connected(mut to: SocketAddr, local: Option<IpAddr>) -> Option<(Socket, SocketAddr)> {
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

/// Where `SO_BINDTODEVICE` is forbidden (before Linux 5.7, without `CAP_NET_RAW`), unicast uses the interface at least.
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

/// Neither this host nor a router fragments; the kernel's cached path MTU does not count, and errors are reported.
fn forbid_fragments(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    ignore_cached_mtu(socket, is_ipv4)?;
    if is_ipv4 {
        return Ok(setsockopt(socket, sockopt::Ipv4RecvErr, &true)?);
    }
    setsockopt(socket, sockopt::Ipv6DontFrag, &true)?;
    Ok(setsockopt(socket, sockopt::Ipv6RecvErr, &true)?)
}

/// Sends with the DF bit, regardless of the cached path MTU (`IP_PMTUDISC_PROBE`).
pub(crate) fn ignore_cached_mtu(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    if is_ipv4 {
        set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
    } else {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(())
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
            Some((
                error,
                router.map(|router| u32::from_be(router.sin_addr.s_addr)).map(Ipv4Addr::from).map(IpAddr::V4),
            ))
        }
        ControlMessageOwned::Ipv6RecvErr(error, router) => {
            let router = router.filter(|router| i32::from(router.sin6_family) == libc::AF_INET6);
            Some((error, router.map(|router| Ipv6Addr::from(router.sin6_addr.s6_addr)).map(IpAddr::V6)))
        }
        _ => None,
    })?;
    let length = message.bytes;
    quoted.truncate(length);
    let is_icmp = matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
    let errno = i32::try_from(error.ee_errno).unwrap_or_default();
    Some(match (errno, router.filter(|_| is_icmp)) {
        (libc::EMSGSIZE, Some(router)) => NetworkReport::TooBig { router, said_bytes: error.ee_info, quoted },
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
    match text.rsplit_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
