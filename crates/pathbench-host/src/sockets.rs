//! The TCP and MPTCP sockets of a network namespace with their figures, by `sock_diag(7)`, and the sockets of a process.
//!
//! Any user may list them. A subflow of MPTCP is a TCP socket with the inode of its MPTCP socket.

use crate::connections::{
    ID_BYTES, INET_DIAG_INFO, INET_DIAG_ULP_INFO, INET_ULP_INFO_NAME, LiveSubflow, MESSAGE_HEADER,
    SOCK_DIAG_BY_FAMILY, WITH_INFO, address, port, request, subflow,
};
use crate::netlink::NetlinkError;
use crate::netlink::channel::{MulticastListener, MulticastMessage, NetlinkChannel, NetlinkProtocol};
use crate::netlink::message::{Attributes, Encoder, NetlinkMessage, u32_at, u64_at};
use crate::seccomp::OptionName;
use crate::syscall::set_option;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// `INET_DIAG_REQ_PROTOCOL` of `linux/inet_diag.h`: the protocol, where its number exceeds a byte.
const REQUEST_PROTOCOL: u16 = 3;
// Groups of linux/sock_diag.h.
const GROUP_TCP_DESTROY: u32 = 1;
const GROUP_TCP6_DESTROY: u32 = 3;
/// All states of `net/tcp_states.h` except `TCP_TIME_WAIT`, which has no socket, and `TCP_NEW_SYN_RECV`.
const ALL_STATES: u32 = 0xfff & !(1 << 6);
/// `TCP_LISTEN`
const LISTEN: u8 = 10;

/// A socket as the kernel reports it (`struct inet_diag_msg`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The kernel's number for the socket (`SO_COOKIE`), which is never used again.
    pub cookie: u64,
    /// Inode of the socket's file; 0 before accept(2), after close(2), and in a report of its destruction.
    pub inode: u32,
    /// `TCP_*` of `net/tcp_states.h`.
    pub state: u8,
    /// Its subflow data, where the kernel reports it (`CAP_NET_ADMIN` before Linux 6.15).
    pub subflow: Option<LiveSubflow>,
    /// Whether it is a subflow of MPTCP.
    pub is_subflow: bool,
    /// `struct tcp_info` or `struct mptcp_info`, as long as this kernel's; empty if it was not reported.
    pub info: Vec<u8>,
}

impl Socket {
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, MESSAGE_HEADER)?;
        let family = *header.first()?;
        let ulp = attributes.nested(INET_DIAG_ULP_INFO);
        Some(Self {
            local: SocketAddr::new(address(family, header, 8)?, port(header, 4)?),
            remote: SocketAddr::new(address(family, header, 24)?, port(header, 6)?),
            cookie: u64_at(header, 44)?,
            inode: u32_at(header, 68)?,
            state: *header.get(1)?,
            subflow: ulp.and_then(subflow),
            is_subflow: ulp.and_then(|ulp| ulp.text(INET_ULP_INFO_NAME)).is_some_and(|name| name == "mptcp"),
            info: attributes.get(INET_DIAG_INFO).unwrap_or_default().to_vec(),
        })
    }

    pub const fn is_listening(&self) -> bool {
        self.state == LISTEN
    }
}

/// The sockets of a network namespace at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// MPTCP sockets, also those that have fallen back; without sockets that are neither connected nor listening.
    pub mptcp: Vec<Socket>,
    /// TCP sockets, subflows included.
    pub tcp: Vec<Socket>,
}

/// Lists sockets in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct SocketLister {
    channel: NetlinkChannel,
}

impl SocketLister {
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { channel: NetlinkChannel::open(NetlinkProtocol::SOCK_DIAG)? })
    }

    /// All IPv4 sockets, and on request the IPv6 ones; the MPTCP sockets first: a subflow that a snapshot has without its
    /// MPTCP socket is newer. The kernel walks its tables once per family and protocol, which takes most of the time.
    pub fn snapshot(&mut self, with_ipv6: bool) -> Result<Snapshot, NetlinkError> {
        let mut found = Snapshot::default();
        let families = [libc::AF_INET as u8, libc::AF_INET6 as u8];
        let families = if with_ipv6 { &families[..] } else { &families[..1] };
        for family in families {
            let sockets =
                self.channel.dump("list the MPTCP sockets", &mptcp_request(*family), Socket::parse)?;
            found.mptcp.extend(sockets);
        }
        for family in families {
            let all = request(SOCK_DIAG_BY_FAMILY, *family, WITH_INFO, ALL_STATES, &[0; ID_BYTES]);
            found.tcp.extend(self.channel.dump("list the TCP sockets", &all, Socket::parse)?);
        }
        Ok(found)
    }
}

fn mptcp_request(family: u8) -> NetlinkMessage {
    let plain = request(SOCK_DIAG_BY_FAMILY, family, WITH_INFO, ALL_STATES, &[0; ID_BYTES]);
    let protocol = libc::IPPROTO_MPTCP as u32;
    Encoder::with_header(&plain.payload).u32(REQUEST_PROTOCOL, protocol).message(plain.kind)
}

/// Reports of destroyed TCP sockets, with their final figures. Their inode is 0, and the figures of a connection's initial
/// subflow are 0 if the peer closed first or after a fallback. MPTCP sockets are not reported.
#[derive(Debug)]
pub struct DestroyedSockets {
    listener: MulticastListener,
}

impl DestroyedSockets {
    /// Subscribes in the calling thread's network namespace. Requires no privilege.
    pub fn subscribe() -> Result<Self, NetlinkError> {
        let groups = [GROUP_TCP_DESTROY, GROUP_TCP6_DESTROY];
        let request = "subscribe to the end of TCP sockets";
        Ok(Self { listener: MulticastListener::subscribe(NetlinkProtocol::SOCK_DIAG, &groups, request)? })
    }

    /// All reports since the last call, without waiting. Reports are lost where they arrive faster than they are read.
    pub fn receive(&mut self) -> Result<Vec<Socket>, NetlinkError> {
        let mut found = Vec::new();
        self.listener.drain("receive the end of TCP sockets", |notice| {
            if let MulticastMessage::Message(SOCK_DIAG_BY_FAMILY, payload) = notice {
                found.extend(Socket::parse(payload));
            }
        })?;
        Ok(found)
    }
}

impl AsFd for DestroyedSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The inodes of a process's sockets, by its descriptors (`/proc/PID/fd`).
/// Errors: `NotFound` without such a process, `PermissionDenied` for another user's.
pub fn of_process(id: u32) -> io::Result<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{id}/fd"))? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // A descriptor that was closed meanwhile.
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let inode = target
            .to_str()
            .and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        found.extend(number.zip(inode));
    }
    Ok(found)
}

/// The protocol of a socket, by a process's thread and descriptor: `TCP`, `MPTCP`, `UDPv6` (`sock_prot_name` of
/// net/socket.c). Copies no descriptor. `None` if it is no socket or not readable by this user.
pub fn protocol_name(thread: u32, descriptor: i32) -> Option<String> {
    let mut name = [0; 32];
    let file = format!("/proc/{thread}/fd/{descriptor}");
    let length = rustix::fs::getxattr(file, "system.sockprotoname", &mut name).ok()?;
    let name = name.get(..length)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

/// The options of `candidates` that MPTCP sockets of this kernel refuse (`EOPNOTSUPP`, `ENOPROTOOPT`), by trying them on
/// sockets that are closed afterwards.
pub fn refused_by_mptcp(candidates: &[OptionName]) -> Result<Vec<OptionName>, Errno> {
    let make = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::MPTCP));
    let v4 = make(AddressFamily::INET)?;
    // A host without IPv6 has no such socket, and no program sets an option of one.
    let v6 = make(AddressFamily::INET6).ok();
    let is_refused = |option: &&OptionName| {
        let socket = if option.level == libc::SOL_IPV6 { v6.as_ref() } else { Some(&v4) };
        let set = |socket| set_option(socket, option.level, option.name, &0_i32);
        matches!(socket.map(set), Some(Err(Errno::OPNOTSUPP | Errno::NOPROTOOPT)))
    };
    Ok(candidates.iter().filter(is_refused).copied().collect())
}
