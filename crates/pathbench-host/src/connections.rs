//! Lists the TCP connections and MPTCP subflows of a network namespace by `sock_diag(7)`; resets them like `ss --kill`.

use crate::namespace::NetNamespace;
use crate::netlink::NetlinkError;
use crate::netlink::channel::{NetlinkChannel, NetlinkProtocol};
use crate::netlink::message::{Attributes, NetlinkMessage, u32_at, u64_at};
use pathbench_record::network::{AddressFamily, TCP_HEADER_BYTES};
use pathbench_record::time::Timestamp;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

// linux/sock_diag.h
pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
// linux/inet_diag.h
pub(crate) const INET_DIAG_INFO: u16 = 2;
pub(crate) const INET_DIAG_ULP_INFO: u16 = 19;
pub(crate) const INET_ULP_INFO_NAME: u16 = 1;
const INET_ULP_INFO_MPTCP: u16 = 3;
/// `struct inet_diag_msg`: family, state, timer, retransmissions; `struct inet_diag_sockid`; counters.
pub(crate) const MESSAGE_HEADER: usize = 72;
/// `struct inet_diag_sockid`
pub(crate) const ID_BYTES: usize = 48;
const ID_OFFSET: usize = 4;
/// The bit of `idiag_ext` that requests `INET_DIAG_INFO`.
pub(crate) const WITH_INFO: u8 = 1 << (INET_DIAG_INFO - 1);
// linux/mptcp.h
const SUBFLOW_TOKEN_LOCAL: u16 = 2;
const SUBFLOW_ID_LOCAL: u16 = 10;
/// States of `net/tcp_states.h` in which a program may send: `ESTABLISHED`, `CLOSE_WAIT`. The other states include
/// connections whose program has ended, and removed subflows, which close for some time.
const SENDING: u32 = 1 << 1 | 1 << 8;
/// All states except `TCP_TIME_WAIT`, which has no socket, and `TCP_LISTEN`, which is no connection.
const RESETTABLE: u32 = !(1 << 6 | 1 << 10);
/// Duration of progress after which a subflow has recovered.
const LASTING: Duration = Duration::from_millis(200);
/// `TCP_ESTABLISHED` of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
/// The SYN counts as one acknowledged byte.
const HANDSHAKE_BYTES: u64 = 1;

/// Resets every TCP connection of `namespace`, subflows of MPTCP included, and returns their number.
///
/// While a connection has unacknowledged data, it outlives its program and keeps its namespace alive: for minutes if
/// the link is down. Running programs get `ECONNABORTED`.
pub fn abort_all(namespace: &NetNamespace) -> Result<usize, NetlinkError> {
    let mut channel = NetlinkChannel::open_in(NetlinkProtocol::SOCK_DIAG, namespace)?;
    let mut aborted = 0;
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let all = request(SOCK_DIAG_BY_FAMILY, family, 0, RESETTABLE, &[0; ID_BYTES]);
        let id = |connection: &[u8]| connection.get(ID_OFFSET..)?.first_chunk().copied();
        for id in channel.dump("list the TCP connections", &all, id)? {
            let one = request(SOCK_DESTROY, family, 0, RESETTABLE, &id);
            match channel.execute("reset a TCP connection", 0, &one) {
                Ok(()) => aborted += 1,
                // The connection has ended already.
                Err(NetlinkError::Refused { errno: Errno::NOENT, .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(aborted)
}

/// `struct inet_diag_req_v2` for TCP: family, protocol, extensions, padding; states; addresses, ports and cookie.
pub(crate) fn request(
    kind: u16,
    family: u8,
    extensions: u8,
    states: u32,
    id: &[u8; ID_BYTES],
) -> NetlinkMessage {
    let head = [family, libc::IPPROTO_TCP as u8, extensions, 0];
    NetlinkMessage { kind, payload: [&head[..], &states.to_ne_bytes(), id].concat() }
}

/// A TCP connection, which may be a subflow of MPTCP, by its `struct tcp_info`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveConnection {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The kernel's number for the socket (`SO_COOKIE`), which is never used again.
    pub cookie: u64,
    /// Index of the interface to which it is bound, if any.
    pub interface: Option<u32>,
    /// Its subflow data; `None` for plain TCP, or where the kernel does not report it.
    pub subflow: Option<LiveSubflow>,
    /// `TCP_*` of `net/tcp_states.h`: 1 is established.
    pub state: u8,
    /// Current path MTU in bytes (`tcpi_pmtu`). A change of the route takes effect with the next packet sent.
    pub pmtu_bytes: u32,
    /// Current sending MSS (`tcpi_snd_mss`), without TCP options.
    pub mss_bytes: u32,
    /// Doublings of the retransmission timer (`tcpi_backoff`).
    pub backoff: u32,
    /// Segments sent and not acknowledged (`tcpi_unacked`).
    pub unacked_segments: u32,
    /// `tcpi_total_retrans`
    pub retransmitted_segments: u32,
    /// `tcpi_bytes_acked`
    pub bytes_acked: u64,
    /// Retransmissions included (`tcpi_bytes_sent`, Linux 4.19).
    pub bytes_sent: u64,
    /// `tcpi_last_ack_recv`
    pub since_last_ack_ms: u32,
    /// Current retransmission timeout, backoff included (`tcpi_rto`), in microseconds.
    pub rto_us: u32,
}

/// A subflow of an MPTCP connection (`tcp-ulp-mptcp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LiveSubflow {
    pub token: u32,
    /// Id of its local address: 0 for the connection's first address, otherwise the id of an endpoint.
    pub local_id: u8,
}

impl LiveConnection {
    /// Parses a connection from an answer of `sock_diag(7)` (`struct inet_diag_msg`).
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, MESSAGE_HEADER)?;
        let (family, state) = (*header.first()?, *header.get(1)?);
        let info = attributes.get(INET_DIAG_INFO)?;
        let number = |at| u32_at(info, at);
        Some(Self {
            local: SocketAddr::new(address(family, header, 8)?, port(header, 4)?),
            remote: SocketAddr::new(address(family, header, 24)?, port(header, 6)?),
            interface: u32_at(header, 40).filter(|index| *index != 0),
            cookie: u64_at(header, 44)?,
            subflow: attributes.nested(INET_DIAG_ULP_INFO).and_then(subflow),
            state,
            backoff: u32::from(*info.get(4)?),
            rto_us: number(8)?,
            mss_bytes: number(16)?,
            unacked_segments: number(24)?,
            since_last_ack_ms: number(56)?,
            pmtu_bytes: number(60)?,
            retransmitted_segments: number(100)?,
            bytes_acked: u64_at(info, 120)?,
            bytes_sent: u64_at(info, 200).unwrap_or(0),
        })
    }

    /// The largest IP packet that it sends, in bytes: MSS plus headers without options.
    pub fn largest_packet_bytes(&self) -> u32 {
        let ip_header_bytes = AddressFamily::from_address(self.remote.ip()).header_bytes();
        self.mss_bytes.saturating_add(ip_header_bytes + TCP_HEADER_BYTES)
    }

    pub fn is_same_as(&self, other: &Self) -> bool {
        (self.cookie, self.local, self.remote) == (other.cookie, other.local, other.remote)
    }
}

/// Whether a connection is stuck because its packets exceed the path MTU: between two reads no data was acknowledged
/// although data was always in flight, the retransmission timer has fired, and its packets are larger than the
/// discovered MTU, `mtu_bytes`.
pub fn is_stuck(earlier: &LiveConnection, later: &LiveConnection, mtu_bytes: u32) -> bool {
    earlier.is_same_as(later)
        && earlier.bytes_acked == later.bytes_acked
        && earlier.unacked_segments > 0
        && later.unacked_segments > 0
        && later.backoff > 0
        && later.backoff >= earlier.backoff
        && later.pmtu_bytes > mtu_bytes
        && later.largest_packet_bytes() > mtu_bytes
}

/// The connections of the namespace in a sending state. Older kernels report their subflow data to privileged users
/// only.
pub(crate) fn live_connections(channel: &mut NetlinkChannel) -> Result<Vec<LiveConnection>, NetlinkError> {
    let mut found = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let all = request(SOCK_DIAG_BY_FAMILY, family, WITH_INFO, SENDING, &[0; ID_BYTES]);
        found.extend(channel.dump("list the TCP connections", &all, LiveConnection::parse)?);
    }
    Ok(found)
}

pub(crate) fn subflow(ulp: Attributes<'_>) -> Option<LiveSubflow> {
    if ulp.text(INET_ULP_INFO_NAME)? != "mptcp" {
        return None;
    }
    let mptcp = ulp.nested(INET_ULP_INFO_MPTCP)?;
    // A subflow that fell back to plain TCP has no token.
    let token = mptcp.u32(SUBFLOW_TOKEN_LOCAL).filter(|token| *token != 0)?;
    Some(LiveSubflow { token, local_id: mptcp.u8(SUBFLOW_ID_LOCAL)? })
}

pub(crate) fn port(header: &[u8], at: usize) -> Option<u16> {
    header.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

pub(crate) fn address(family: u8, header: &[u8], at: usize) -> Option<IpAddr> {
    let bytes = header.get(at..)?;
    if i32::from(family) == libc::AF_INET {
        return bytes.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes));
    }
    bytes.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes).to_canonical())
}

/// A connection with a stuck subflow, until one of its subflows on the same path makes progress.
#[derive(Debug)]
pub struct Recovery<'a> {
    pub stuck: &'a LiveConnection,
    /// The cookie of a subflow that makes progress, and the start of the progress.
    seen: Option<(u64, Timestamp)>,
}

impl<'a> Recovery<'a> {
    pub const fn new(stuck: &'a LiveConnection) -> Self {
        Self { stuck, seen: None }
    }

    /// Evaluates the current connections; returns the start of the progress once it has lasted long enough. A subflow
    /// that the peer resets immediately does not count.
    pub fn check(&mut self, now: &[LiveConnection], at: Timestamp) -> Option<Timestamp> {
        let going = now.iter().find(|one| self.is_on(one)).map(|one| one.cookie);
        self.seen = match (going, self.seen) {
            (Some(cookie), Some((known, since))) if cookie == known => Some((known, since)),
            (Some(cookie), _) => Some((cookie, at)),
            (None, _) => None,
        };
        self.seen.map(|(_, since)| since).filter(|since| at.duration_since(*since) >= LASTING)
    }

    fn is_on(&self, one: &LiveConnection) -> bool {
        let token = |one: &LiveConnection| one.subflow.map(|own| own.token);
        let before = if one.is_same_as(self.stuck) { self.stuck.bytes_acked } else { HANDSHAKE_BYTES };
        one.state == ESTABLISHED && token(one) == token(self.stuck) && one.bytes_acked > before
    }
}
