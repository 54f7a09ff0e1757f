//! Probes of the hops of a path, in the manner of tracebox: SYNs with few hops to live from a raw socket, and the routers'
//! ICMP messages, which quote the SYN as it arrived there.

mod packet;

pub use packet::{
    HopProbe, HopReply, HopReplyKind, QuotedOption, SynOption, icmpv4_reply, icmpv6_reply, ipv4_payload,
    tcp_reply,
};

use crate::syscall::set_option;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, connect,
    getsockname, ipproto, recvfrom, sendto, socket_with, sockopt,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Messages per call of [`HopProber::receive`]: a flood of ICMP messages does not prolong it.
const MOST_MESSAGES: usize = 256;
const MESSAGE_BYTES: usize = 2048;
/// `ICMPV6_FILTER` of linux/icmpv6.h: a set bit blocks the type.
const ICMPV6_FILTER: libc::c_int = 1;
const INTERFACE_NAME_BYTES: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum HopProbeError {
    #[error("raw sockets need CAP_NET_RAW in the network namespace ({0})")]
    NotPermitted(Errno),
    #[error("cannot {step}: {errno}")]
    Refused { step: &'static str, errno: Errno },
}

fn refused(step: &'static str) -> impl Fn(Errno) -> HopProbeError {
    move |errno| match errno {
        Errno::PERM | Errno::ACCESS => HopProbeError::NotPermitted(errno),
        errno => HopProbeError::Refused { step, errno },
    }
}

/// Sends probes from one local address to one server, and receives their answers.
#[derive(Debug)]
pub struct HopProber {
    server: IpAddr,
    source: SocketAddr,
    /// Keeps the port from other programs. No socket answers on it: the kernel resets what the server opens.
    _port: OwnedFd,
    sender: OwnedFd,
    icmp: OwnedFd,
    tcp: OwnedFd,
}

impl HopProber {
    /// Opens the sockets in the calling thread's network namespace; the probes leave by `interface`.
    pub fn open(interface: &str, local: IpAddr, server: IpAddr) -> Result<Self, HopProbeError> {
        let (family, raw, icmp) = match local {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::RAW, ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::TCP, ipproto::ICMPV6),
        };
        let open = |protocol: Protocol| -> Result<OwnedFd, HopProbeError> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(family, SocketType::RAW, flags, Some(protocol))
                .map_err(refused("open a raw socket"))?;
            set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &device(interface))
                .map_err(refused("bind a raw socket to its interface"))?;
            Ok(socket)
        };
        let sender = open(raw)?;
        let icmp = open(icmp)?;
        let tcp = open(ipproto::TCP)?;
        let any_port = SocketAddr::new(local, 0);
        bind(&sender, &any_port).map_err(refused("bind a raw socket"))?;
        bind(&tcp, &any_port).map_err(refused("bind a raw socket"))?;
        // Segments from other hosts are not received.
        connect(&tcp, &SocketAddr::new(server, 0)).map_err(refused("connect a raw socket"))?;
        if local.is_ipv6() {
            // Destination unreachable and time exceeded only.
            let mut blocked = [u32::MAX; 8];
            blocked[0] &= !(1 << 1 | 1 << 3);
            set_option(&icmp, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &blocked)
                .map_err(refused("filter ICMPv6"))?;
        }
        let port = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(refused("open a socket"))?;
        bind(&port, &any_port).map_err(refused("bind a socket"))?;
        let own = getsockname(&port).map_err(refused("read a socket's port"))?;
        let own = SocketAddr::try_from(own).map_err(refused("read a socket's port"))?;
        let source = SocketAddr::new(local, own.port());
        Ok(Self { server, source, _port: port, sender, icmp, tcp })
    }

    /// The address and port from which the probes are sent.
    pub const fn source(&self) -> SocketAddr {
        self.source
    }

    pub fn send(&self, probe: &HopProbe) -> Result<(), HopProbeError> {
        let to = SocketAddr::new(self.server, 0);
        let packet = if let Some(packet) = probe.ipv4_packet() {
            packet
        } else {
            sockopt::set_ipv6_unicast_hops(&self.sender, Some(probe.hops))
                .map_err(refused("limit the hops of a probe"))?;
            probe.segment()
        };
        sendto(&self.sender, &packet, SendFlags::empty(), &to).map(drop).map_err(refused("send a probe"))
    }

    /// The answers to `probes` among the messages that have arrived; waits up to `timeout` for the first message.
    pub fn receive(&self, timeout: Duration, probes: &[HopProbe]) -> Result<Vec<HopReply>, HopProbeError> {
        let mut fds = [PollFd::new(&self.icmp, PollFlags::IN), PollFd::new(&self.tcp, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(HopProbeError::Refused { step: "wait for answers", errno }),
        }
        let mut replies = Vec::new();
        let is_v4 = self.server.is_ipv4();
        drain(&self.icmp, |message, from| {
            replies.extend(if is_v4 {
                icmpv4_reply(message, probes)
            } else {
                from.and_then(|from| icmpv6_reply(message, from, probes))
            });
        })?;
        drain(&self.tcp, |message, _| {
            let segment = if is_v4 { ipv4_payload(message) } else { Some((self.server, message)) };
            replies.extend(segment.and_then(|(from, segment)| tcp_reply(segment, from, probes)));
        })?;
        Ok(replies)
    }
}

/// Passes the messages that have arrived to `take`, with the sender's address where it is IPv6.
fn drain(socket: impl AsFd, mut take: impl FnMut(&[u8], Option<Ipv6Addr>)) -> Result<(), HopProbeError> {
    let mut buffer = [0; MESSAGE_BYTES];
    for _ in 0..MOST_MESSAGES {
        match recvfrom(&socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((length, _, from)) => {
                let from = from.and_then(|from: SocketAddrAny| SocketAddr::try_from(from).ok());
                let from = from.and_then(|from| match from.ip() {
                    IpAddr::V6(from) => Some(from),
                    IpAddr::V4(_) => None,
                });
                take(buffer.get(..length).unwrap_or_default(), from);
            }
            Err(Errno::AGAIN) => break,
            // A signal, or the error of an earlier probe: a router's ICMP message.
            Err(
                Errno::INTR | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::CONNREFUSED | Errno::ACCESS,
            ) => {}
            Err(errno) => return Err(HopProbeError::Refused { step: "receive answers", errno }),
        }
    }
    Ok(())
}

/// The name of an interface, ended by NUL.
fn device(interface: &str) -> [u8; INTERFACE_NAME_BYTES] {
    let mut name = [0; INTERFACE_NAME_BYTES];
    let last = INTERFACE_NAME_BYTES - 1;
    name.iter_mut().take(last).zip(interface.bytes()).for_each(|(at, byte)| *at = byte);
    name
}
