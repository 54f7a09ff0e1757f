//! Routes, rules and endpoints in the kernel's binary form: to compare states, and to create routes that the types of
//! this crate cannot express.

use libtest_mimic::Failed;
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use pathbench_host::mptcp::{MptcpEndpoint, MptcpLimits, PathManager};
use pathbench_host::namespace::NetNamespace;
use std::net::IpAddr;

// linux/rtnetlink.h, linux/netlink.h
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
const RTM_NEWNEXTHOP: u16 = 104;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const APPEND: u16 = 0x800;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const RTA_DST: u16 = 1;
const RTA_CACHEINFO: u16 = 12;

/// All state that a remedy may change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// All routes of every table in the kernel's order, byte for byte except the remaining lifetime. Excludes routes of
    /// link-local addresses, which appear some seconds after an interface, once duplicate address detection has ended.
    routes: Vec<Vec<u8>>,
    rules: Vec<Vec<u8>>,
    endpoints: Vec<MptcpEndpoint>,
    limits: MptcpLimits,
}

impl Image {
    pub(crate) fn open(namespace: &NetNamespace) -> Result<Self, Failed> {
        let (routes, rules) = namespace.run_in(|| {
            let mut routes = Vec::new();
            let mut rules = Vec::new();
            for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
                let mut header = [0; ROUTE_HEADER];
                header[0] = family;
                let all = exchange(RTM_GETROUTE, REQUEST | DUMP, &header)?;
                routes.extend(all.iter().filter(|route| !is_link_local(route)).map(|route| steady(route)));
                rules.extend(exchange(RTM_GETRULE, REQUEST | DUMP, &header)?);
            }
            Ok::<_, Failed>((routes, rules))
        })??;
        let mut manager = PathManager::open_in(namespace)?;
        Ok(Self { routes, rules, endpoints: manager.endpoints()?, limits: manager.limits()? })
    }
}

impl Image {
    /// Number of IPv6 addresses, loopback included, for which the kernel has already created the local route. The
    /// kernel creates it asynchronously.
    pub(crate) fn own_addresses_v6(&self) -> usize {
        // RTN_LOCAL
        self.routes.iter().filter(|route| route[0] == libc::AF_INET6 as u8 && route[7] == 2).count()
    }

    /// The entries in only one of the two images.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let only = |ours: &[Vec<u8>], theirs: &[Vec<u8>]| -> Vec<Vec<u8>> {
            ours.iter().filter(|one| !theirs.contains(one)).cloned().collect()
        };
        format!(
            "gone {:?} {:?} {:?} {:?}\nnew {:?} {:?} {:?} {:?}\nor in another order",
            only(&self.routes, &other.routes),
            only(&self.rules, &other.rules),
            self.endpoints,
            self.limits,
            only(&other.routes, &self.routes),
            only(&other.rules, &self.rules),
            other.endpoints,
            other.limits,
        )
    }
}

/// Type, start and end of each attribute's value.
fn attributes(route: &[u8]) -> Vec<(u16, usize, usize)> {
    let mut found = Vec::new();
    let mut at = ROUTE_HEADER;
    while let Some(&[low, high, kind, kind_high]) = route.get(at..at + 4) {
        let length = usize::from(u16::from_ne_bytes([low, high])).max(4);
        found.push((u16::from_ne_bytes([kind, kind_high]), at + 4, at + length));
        at += length.next_multiple_of(4);
    }
    found
}

fn is_link_local(route: &[u8]) -> bool {
    attributes(route).iter().any(|(kind, from, to)| {
        *kind == RTA_DST && to - from == 16 && matches!(route[*from..*from + 2], [0xfe, 0x80] | [0xff, 0])
    })
}

/// The route without its remaining lifetime.
fn steady(route: &[u8]) -> Vec<u8> {
    let mut steady = route.to_vec();
    for (kind, from, _) in attributes(route) {
        if kind == RTA_CACHEINFO {
            let expires = &mut steady[from + 8..from + 12];
            let runs_out = expires.iter().any(|byte| *byte != 0);
            expires.copy_from_slice(&u32::from(runs_out).to_ne_bytes());
        }
    }
    steady
}

/// A unicast route with arbitrary attributes.
pub(crate) struct RawRoute {
    header: [u8; ROUTE_HEADER],
    attributes: Vec<u8>,
}

pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(crate) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

impl RawRoute {
    /// To `destination` in `table`, by protocol 44, which no other program uses.
    pub(crate) fn new(destination: IpAddr, prefix: u8, table: u32) -> Self {
        let family = if destination.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
        let mut route =
            Self { header: [family, prefix, 0, 0, 0, 44, 0, 1, 0, 0, 0, 0], attributes: number(15, table) };
        if prefix != 0 {
            route.attributes.extend(attribute(1, &octets(destination)));
        }
        route
    }

    pub(crate) fn set_attribute(mut self, attribute: &[u8]) -> Self {
        self.attributes.extend(attribute);
        self
    }

    /// Byte `at` of the `struct rtmsg`.
    pub(crate) fn header(mut self, at: usize, value: u8) -> Self {
        self.header[at] = value;
        self
    }

    pub(crate) fn add(&self, namespace: &NetNamespace) -> Result<(), Failed> {
        self.request(namespace, RTM_NEWROUTE, CREATE | EXCLUSIVE)
    }

    /// Appends the route to other routes with the same destination and metric.
    pub(crate) fn append(&self, namespace: &NetNamespace) -> Result<(), Failed> {
        self.request(namespace, RTM_NEWROUTE, CREATE | APPEND)
    }

    pub(crate) fn remove(&self, namespace: &NetNamespace) -> Result<(), Failed> {
        self.request(namespace, RTM_DELROUTE, 0)
    }

    fn request(&self, namespace: &NetNamespace, kind: u16, flags: u16) -> Result<(), Failed> {
        let payload = [self.header.as_slice(), &self.attributes].concat();
        namespace.run_in(|| exchange(kind, REQUEST | ACK | flags, &payload).map(drop))?
    }
}

/// Creates a next hop object (`RTM_NEWNEXTHOP`, linux/nexthop.h) with this id.
pub(crate) fn add_next_hop_object(
    namespace: &NetNamespace,
    id: u32,
    interface: u32,
    gateway: IpAddr,
) -> Result<(), Failed> {
    let family = if gateway.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let attributes = [number(1, id), number(5, interface), attribute(6, &octets(gateway))].concat();
    let payload = [[family, 0, 0, 0, 0, 0, 0, 0].as_slice(), &attributes].concat();
    namespace.run_in(|| exchange(RTM_NEWNEXTHOP, REQUEST | ACK | CREATE, &payload).map(drop))?
}

/// Sends one request and returns the payloads of the answer, in the calling thread's namespace.
fn exchange(kind: u16, flags: u16, payload: &[u8]) -> Result<Vec<Vec<u8>>, Failed> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.set_netlink_get_strict_chk(true)?;
    let mut request = ((HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
    request.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    request.extend([0; 8]);
    request.extend(payload);
    socket.send(&request, 0)?;
    let mut answers = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = datagram.as_slice();
        while rest.len() >= HEADER {
            let length = u32::from_ne_bytes(rest[..4].try_into()?) as usize;
            let answer = u16::from_ne_bytes(rest[4..6].try_into()?);
            let payload = rest.get(HEADER..length).ok_or("a message is cut short")?;
            match answer {
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = i32::from_ne_bytes(payload[..4].try_into()?);
                    if code == 0 {
                        return Ok(answers);
                    }
                    return Err(std::io::Error::from_raw_os_error(-code).into());
                }
                _ => answers.push(payload.to_vec()),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}
