//! The interface by which the packets of a TCP connection or an MPTCP subflow leave, and the bytes that interfaces carry.
//!
//! The address of a subflow does not determine its interface: without a rule for the source address or a bound device,
//! the main table sends the packets of all addresses by one interface.

use crate::connections::{ID_BYTES, MESSAGE_HEADER, SOCK_DIAG_BY_FAMILY, address, port, request};
use crate::netlink::channel::{NetlinkChannel, NetlinkProtocol};
use crate::netlink::message::{Attributes, u32_at};
use crate::netlink::{NetlinkError, NetworkInterface, RouteSocket};
use pathbench_record::network::canonical;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// `INET_DIAG_MARK` of `linux/inet_diag.h`; reported to privileged users.
const INET_DIAG_MARK: u16 = 15;
/// All states of `net/tcp_states.h`.
const ALL_STATES: u32 = 0xfff;
/// A bound socket is found by its interface only; on a host with more interfaces, sockets bound to others are not found.
const MOST_INTERFACES: usize = 256;

/// The device and mark of a socket, which determine its route together with its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Binding {
    /// Index of the interface to which it is bound (`SO_BINDTODEVICE`, or `dev` of an MPTCP endpoint).
    device: Option<u32>,
    mark: Option<u32>,
}

/// Looks up interfaces in the network namespace of the thread that opened it. Requires no privilege.
#[derive(Debug)]
pub struct EgressLookup {
    routes: RouteSocket,
    sockets: NetlinkChannel,
    links: Vec<NetworkInterface>,
}

impl EgressLookup {
    pub fn open() -> Result<Self, NetlinkError> {
        let mut routes = RouteSocket::open()?;
        let links = routes.links()?;
        Ok(Self { routes, sockets: NetlinkChannel::open(NetlinkProtocol::SOCK_DIAG)?, links })
    }

    /// The interface by which the packets of the existing TCP socket with these addresses leave now; `None` where the
    /// kernel has no such socket or no route for it.
    pub fn interface(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<String> {
        let (local, remote) = (canonical(local), canonical(remote));
        let binding = self.binding(local, remote)?;
        let index = match binding.device {
            Some(device) => device,
            None => self.routes.egress(local, remote, binding.mark).ok().flatten()?,
        };
        self.name(index)
    }

    /// A lookup finds a bound socket only if it names the socket's interface (`inet_sk_bound_dev_eq`,
    /// `net/ipv4/inet_hashtables.c`), and a socket that is not bound with any.
    fn binding(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<Binding> {
        if let Some(found) = self.look_up(local, remote, 0) {
            return Some(found);
        }
        let candidates: Vec<u32> = self.links.iter().map(|link| link.index).take(MOST_INTERFACES).collect();
        let found = candidates.into_iter().find_map(|index| self.look_up(local, remote, index));
        if found.is_some() {
            return found;
        }
        // An interface that appeared since.
        let known: Vec<u32> = self.links.iter().map(|link| link.index).collect();
        self.links = self.routes.links().ok()?;
        let fresh: Vec<u32> =
            self.links.iter().map(|link| link.index).filter(|index| !known.contains(index)).collect();
        fresh.into_iter().find_map(|index| self.look_up(local, remote, index))
    }

    fn look_up(&mut self, local: SocketAddr, remote: SocketAddr, interface: u32) -> Option<Binding> {
        let family = if remote.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
        let id = socket_id(local, remote, interface);
        let message = request(SOCK_DIAG_BY_FAMILY, family, 0, ALL_STATES, &id);
        let parse = |payload: &[u8]| parse(payload, local, remote);
        self.sockets.get("look up a TCP socket", 0, &message, parse).ok().flatten()
    }

    fn name(&mut self, index: u32) -> Option<String> {
        let of = |links: &[NetworkInterface]| {
            links.iter().find(|link| link.index == index).map(|link| link.name.clone())
        };
        if let Some(name) = of(&self.links) {
            return Some(name);
        }
        self.links = self.routes.links().ok()?;
        of(&self.links)
    }
}

/// `struct inet_diag_sockid` with `INET_DIAG_NOCOOKIE`.
fn socket_id(local: SocketAddr, remote: SocketAddr, interface: u32) -> [u8; ID_BYTES] {
    let mut id = [0; ID_BYTES];
    id[..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    for (offset, address) in [(4, local.ip()), (20, remote.ip())] {
        match address {
            IpAddr::V4(v4) => id[offset..offset + 4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => id[offset..offset + 16].copy_from_slice(&v6.octets()),
        }
    }
    id[36..40].copy_from_slice(&interface.to_ne_bytes());
    id[40..].fill(0xff);
    id
}

/// The binding of the connection between these addresses; `None` for another socket: the kernel also answers with a
/// listener.
fn parse(payload: &[u8], local: SocketAddr, remote: SocketAddr) -> Option<Binding> {
    let (header, attributes) = Attributes::parse_after_header(payload, MESSAGE_HEADER)?;
    let family = *header.first()?;
    let ends = [
        SocketAddr::new(address(family, header, 8)?, port(header, 4)?),
        SocketAddr::new(address(family, header, 24)?, port(header, 6)?),
    ];
    if ends.map(canonical) != [local, remote].map(without_scope) {
        return None;
    }
    let device = u32_at(header, 40).filter(|index| *index != 0);
    Some(Binding { device, mark: attributes.u32(INET_DIAG_MARK) })
}

/// `sock_diag(7)` reports no scope.
fn without_scope(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// Bytes that an interface has carried since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterfaceBytes {
    pub sent: u64,
    pub received: u64,
}

/// The counters of all interfaces of the calling thread's network namespace, by name.
pub fn interface_bytes() -> Result<BTreeMap<String, InterfaceBytes>, NetlinkError> {
    let mut socket = RouteSocket::open()?;
    let mut found = BTreeMap::new();
    for link in socket.links()? {
        // Absent: it has been removed meanwhile.
        if let Ok(counted) = socket.statistics(link.index) {
            found.insert(link.name, InterfaceBytes { sent: counted.tx_bytes, received: counted.rx_bytes });
        }
    }
    Ok(found)
}

/// The rise of each counter since `before`, of interfaces that exist in both.
pub fn bytes_since(
    before: &BTreeMap<String, InterfaceBytes>,
    after: &BTreeMap<String, InterfaceBytes>,
) -> BTreeMap<String, InterfaceBytes> {
    let rise = |(name, after): (&String, &InterfaceBytes)| {
        let before = before.get(name)?;
        let sent = after.sent.checked_sub(before.sent)?;
        Some((name.clone(), InterfaceBytes { sent, received: after.received.checked_sub(before.received)? }))
    };
    after.iter().filter_map(rise).collect()
}
