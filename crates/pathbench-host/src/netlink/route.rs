//! Unicast routes, complete routing tables, and route lookups.

use super::channel::NetlinkError;
use super::fib_entry::{self, FibEntry, ROUTE_HEADER, RTAX_LOCK, RTAX_MTU};
use super::message::{Attributes, Encoder, u32_at};
use super::socket::{RouteSocket, family, part};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use pathbench_record::network::IpNet;
use rustix::io::Errno;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The table for lookups that no other rule matches (`RT_TABLE_MAIN`).
pub const MAIN_TABLE: u32 = 254;

/// `IP6_RT_PRIO_USER` of `linux/ipv6_route.h`.
pub const IPV6_DEFAULT_METRIC: u32 = 1024;

const RTA_IP_PROTO: u16 = 27;
/// In network byte order, like `RTA_DPORT` (Linux 4.18; older kernels ignore them).
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const RTA_MARK: u16 = 16;
/// Requests the matching entry of the table instead of the route to the destination (Linux 4.13, IPv6 4.18).
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// Requests from IPv4 the number of the matching table instead of the main table; IPv6 always reports it.
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;

/// A unicast route with one next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// [`DEFAULT_V4`](pathbench_record::network::DEFAULT_V4) or `DEFAULT_V6` for a default route.
    pub destination: IpNet,
    /// Next hop; `None` when the destination is on-link.
    pub gateway: Option<IpAddr>,
    /// Index of the outgoing interface; with `None` the kernel derives it from the gateway.
    pub interface: Option<u32>,
    /// Preferred source address of sockets without a bound address.
    pub source: Option<IpAddr>,
    pub table: u32,
    /// Path MTU in bytes.
    pub mtu: Option<u32>,
    /// Path MTU discovery cannot change `mtu` (`mtu lock`).
    pub mtu_locked: bool,
    /// Metric: the lowest one wins among routes to the same destination; `None` is 0 for IPv4, 1024 for IPv6.
    pub metric: Option<u32>,
}

impl Route {
    /// A route to `destination` in the main table without further attributes.
    pub const fn new(destination: IpNet) -> Self {
        Self {
            destination,
            gateway: None,
            interface: None,
            source: None,
            table: MAIN_TABLE,
            mtu: None,
            mtu_locked: false,
            metric: None,
        }
    }

    pub fn encode(&self) -> Encoder {
        let destination = self.destination.trunc();
        let table = u8::try_from(self.table).unwrap_or(libc::RT_TABLE_UNSPEC);
        let on_link = self.gateway.is_none() && destination.addr().is_ipv4();
        let scope = if on_link { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let mut header = [0; ROUTE_HEADER];
        header[..2].copy_from_slice(&[family(destination.addr()), destination.prefix_len()]);
        header[4..8].copy_from_slice(&[table, libc::RTPROT_STATIC, scope, libc::RTN_UNICAST]);
        let to = (destination.prefix_len() > 0).then_some(destination.addr());
        let metrics = self.mtu.map(|mtu| {
            let lock = self.mtu_locked.then_some(1 << RTAX_MTU);
            Encoder::default().add_optional(lock, |to, lock| to.u32(RTAX_LOCK, lock)).u32(RTAX_MTU, mtu)
        });
        Encoder::with_header(&header)
            .add_optional(to, |to, address| to.address(libc::RTA_DST, address))
            .add_optional(self.gateway, |to, gateway| to.address(libc::RTA_GATEWAY, gateway))
            .add_optional(self.interface, |to, index| to.u32(libc::RTA_OIF, index))
            .add_optional(self.source, |to, source| to.address(libc::RTA_PREFSRC, source))
            .add_optional(self.metric, |to, metric| to.u32(libc::RTA_PRIORITY, metric))
            .u32(libc::RTA_TABLE, self.table)
            .add_optional(metrics, |to, metrics| to.nested(libc::RTA_METRICS, metrics))
    }

    /// The route as an entry of its table, to add it by [`crate::change::Operation::AddRoute`]. Without a metric, an IPv6
    /// route gets the kernel's default, so that entry and table agree about its position. `None` for an invalid header.
    pub fn to_entry(&self) -> Option<FibEntry> {
        let default = (!self.destination.addr().is_ipv4()).then_some(IPV6_DEFAULT_METRIC);
        let route = Self { metric: self.metric.or(default), ..*self };
        FibEntry::parse(&route.encode().into_bytes())
    }

    pub fn parse(payload: &[u8]) -> Option<Self> {
        let cloned = u32_at(payload, 8)? & libc::RTM_F_CLONED != 0;
        let entry = FibEntry::parse(payload)?;
        // A multipath route has its interfaces in its next hops.
        let interface = entry.get(libc::RTA_OIF)?;
        if entry.kind() != libc::RTN_UNICAST || cloned {
            return None;
        }
        Some(Self {
            destination: entry.destination(),
            gateway: entry.next_hops().first()?.gateway,
            interface: Some(u32_at(interface, 0)?),
            source: entry.preferred_source(),
            table: entry.table(),
            mtu: entry.mtu_bytes(),
            mtu_locked: entry.is_mtu_locked(),
            metric: entry.get(libc::RTA_PRIORITY).and_then(|metric| u32_at(metric, 0)),
        })
    }
}

impl Route {
    /// A route for each next hop of the one in an `RTM_NEWROUTE` message; none where [`Self::parse`] excludes the message
    /// for another reason.
    pub fn of_next_hops(payload: &[u8]) -> Vec<Self> {
        if let Some(single) = Self::parse(payload) {
            return vec![single];
        }
        let is_cloned = u32_at(payload, 8).is_none_or(|flags| flags & libc::RTM_F_CLONED != 0);
        let Some(entry) =
            FibEntry::parse(payload).filter(|entry| entry.kind() == libc::RTN_UNICAST && !is_cloned)
        else {
            return Vec::new();
        };
        let by = |hop: fib_entry::NextHop| Self {
            destination: entry.destination(),
            gateway: hop.gateway,
            interface: Some(hop.interface),
            source: entry.preferred_source(),
            table: entry.table(),
            mtu: entry.mtu_bytes(),
            mtu_locked: entry.is_mtu_locked(),
            metric: entry.get(libc::RTA_PRIORITY).and_then(|metric| u32_at(metric, 0)),
        };
        entry.next_hops().into_iter().filter(|hop| hop.interface != 0).map(by).collect()
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        part(f, "via", self.gateway)?;
        part(f, "on interface", self.interface)?;
        part(f, "from", self.source)?;
        part(f, if self.mtu_locked { "mtu lock" } else { "mtu" }, self.mtu)?;
        part(f, "metric", self.metric)?;
        write!(f, " in table {}", self.table)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Lookup {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Index of the required outgoing interface.
    pub interface: Option<u32>,
}

/// A path MTU in the kernel's cache, as reported by ICMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedMtu {
    pub mtu_bytes: u32,
    pub expires_in: Duration,
    /// Packets are fragmented instead, because ICMP reported less than `net.ipv4.route.min_pmtu`.
    pub locked: bool,
}

impl CachedMtu {
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, ROUTE_HEADER)?;
        // IPv6 also has expiring routes that are not specific to one destination.
        if u32_at(header, 8)? & libc::RTM_F_CLONED == 0 {
            return None;
        }
        let hundredths = fib_entry::expires_hundredths(attributes)?;
        let metrics = attributes.nested(libc::RTA_METRICS)?;
        Some(Self {
            mtu_bytes: metrics.u32(RTAX_MTU)?,
            expires_in: Duration::from_millis(u64::from(hundredths) * 10),
            locked: metrics.u32(RTAX_LOCK).is_some_and(|locks| locks & (1 << RTAX_MTU) != 0),
        })
    }
}

impl RouteSocket {
    /// All unicast routes with one next hop, of all tables and both families. Excludes the kernel's `local` and
    /// `broadcast` entries, unreachable routes and multipath routes.
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        self.dump_both_families("routes", libc::RTM_GETROUTE, ROUTE_HEADER, Route::parse)
    }

    /// Like [`Self::routes`], with a route for each next hop of a multipath route (ECMP).
    pub fn next_hop_routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let parse = |payload: &[u8]| Some(Route::of_next_hops(payload));
        let routes = self.dump_both_families("routes", libc::RTM_GETROUTE, ROUTE_HEADER, parse)?;
        Ok(routes.into_iter().flatten().collect())
    }

    /// Adds a route (`EEXIST` if a route to the same destination with the same metric exists, `ENETUNREACH` if the
    /// gateway is not reachable).
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = route.encode().message(libc::RTM_NEWROUTE);
        self.channel.execute(&format!("add route {route}"), NLM_F_CREATE | NLM_F_EXCL, &message)
    }

    /// Adds a route, or replaces the one to the same destination with the same metric.
    pub fn replace_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = route.encode().message(libc::RTM_NEWROUTE);
        self.channel.execute(&format!("set route {route}"), NLM_F_CREATE | NLM_F_REPLACE, &message)
    }

    /// Removes the route with this destination, table, gateway, interface, source and metric (`ESRCH` if none exists).
    pub fn remove_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        // The MTU does not identify a route; protocol and scope 0 and 255 match any.
        let mut message =
            Route { mtu: None, mtu_locked: false, ..*route }.encode().message(libc::RTM_DELROUTE);
        message.payload[5..7].copy_from_slice(&[libc::RTPROT_UNSPEC, libc::RT_SCOPE_NOWHERE]);
        self.channel.execute(&format!("remove route {route}"), 0, &message)
    }

    /// The routes of a table in the family of `like`, in the kernel's order.
    pub fn fib_entries(&mut self, like: IpAddr, table: u32) -> Result<Vec<FibEntry>, NetlinkError> {
        let mut header = [0; ROUTE_HEADER];
        header[0] = family(like);
        let message = Encoder::with_header(&header).u32(libc::RTA_TABLE, table).message(libc::RTM_GETROUTE);
        let request = format!("list the routes of table {table}");
        match self.channel.dump(&request, &message, FibEntry::parse) {
            // "FIB table does not exist"
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(Vec::new()),
            other => other,
        }
    }

    /// The entry of the routing tables that the kernel selects (Linux 4.13, IPv6 4.18), not the route that it derives from
    /// it: with a required interface and no route there, IPv4 derives an on-link route and reports success.
    /// Errors: `ENETUNREACH`, or `EHOSTUNREACH`, `EACCES`, `EINVAL` for `unreachable`, `prohibit`, `blackhole`.
    pub fn matched_entry(&mut self, lookup: &Lookup) -> Result<Option<FibEntry>, NetlinkError> {
        let table = if lookup.destination.is_ipv4() { RTM_F_LOOKUP_TABLE } else { 0 };
        self.look_up(lookup, RTM_F_FIB_MATCH | table, FibEntry::parse)
    }

    /// Like [`Self::matched_entry`], for a socket that is bound to the interface of `lookup`. For IPv6, a request with a
    /// source address prefers other interfaces by their metric; a request without one does not, and neither does such a
    /// socket (`ip6_route_output_flags_noref`, `net/ipv6/route.c`).
    pub fn bound_entry(&mut self, lookup: &Lookup) -> Result<Option<FibEntry>, NetlinkError> {
        let found = self.matched_entry(lookup);
        let leaves =
            |entry: &FibEntry| entry.next_hops().iter().any(|hop| Some(hop.interface) == lookup.interface);
        match found {
            Ok(Some(entry)) if leaves(&entry) => Ok(Some(entry)),
            found if lookup.destination.is_ipv4() => found,
            _ => self.matched_entry(&Lookup { source: Ipv6Addr::UNSPECIFIED.into(), ..*lookup }),
        }
    }

    /// The index of the interface by which the packets of an unbound TCP socket leave, by the rules and routes for its
    /// addresses, ports and mark; of several next hops the one of its flow. Errors: see [`Self::matched_entry`].
    pub(crate) fn egress(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        mark: Option<u32>,
    ) -> Result<Option<u32>, NetlinkError> {
        let prefix = |address| IpNet::from(address).prefix_len();
        let mut header = [0; ROUTE_HEADER];
        header[..3].copy_from_slice(&[family(remote.ip()), prefix(remote.ip()), prefix(local.ip())]);
        let message = Encoder::with_header(&header)
            .address(libc::RTA_DST, remote.ip())
            .address(libc::RTA_SRC, local.ip())
            .u8(RTA_IP_PROTO, libc::IPPROTO_TCP as u8)
            .bytes(RTA_SPORT, &local.port().to_be_bytes())
            .bytes(RTA_DPORT, &remote.port().to_be_bytes())
            .add_optional(mark, |to, mark| to.u32(RTA_MARK, mark))
            .message(libc::RTM_GETROUTE);
        let interface = |payload: &[u8]| {
            let (_, attributes) = Attributes::parse_after_header(payload, ROUTE_HEADER)?;
            attributes.u32(libc::RTA_OIF)
        };
        self.channel.get(&format!("look up the route from {local} to {remote}"), 0, &message, interface)
    }

    pub(crate) fn cached_mtu(&mut self, lookup: &Lookup) -> Result<Option<CachedMtu>, NetlinkError> {
        self.look_up(lookup, 0, CachedMtu::parse)
    }

    fn look_up<T>(
        &mut self,
        lookup: &Lookup,
        flags: u32,
        parse: fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        let Lookup { source, destination, interface } = *lookup;
        let prefix = |address| IpNet::from(address).prefix_len();
        let mut header = [0; ROUTE_HEADER];
        header[..3].copy_from_slice(&[family(destination), prefix(destination), prefix(source)]);
        header[8..].copy_from_slice(&flags.to_ne_bytes());
        let message = Encoder::with_header(&header)
            .address(libc::RTA_DST, destination)
            .address(libc::RTA_SRC, source)
            .u8(RTA_IP_PROTO, libc::IPPROTO_TCP as u8)
            .add_optional(interface, |to, index| to.u32(libc::RTA_OIF, index))
            .message(libc::RTM_GETROUTE);
        self.channel.get(&format!("look up the route from {source} to {destination}"), 0, &message, parse)
    }

    pub(crate) fn add_entry(&mut self, entry: &FibEntry) -> Result<(), NetlinkError> {
        self.write("add the route", libc::RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, entry)
    }

    /// Replaces the first route in the same entry as `entry` (`ENOENT` if none exists).
    pub(crate) fn replace_entry(&mut self, entry: &FibEntry) -> Result<(), NetlinkError> {
        self.write("replace the route", libc::RTM_NEWROUTE, NLM_F_REPLACE, entry)
    }

    pub(crate) fn remove_entry(&mut self, entry: &FibEntry) -> Result<(), NetlinkError> {
        self.write("remove the route", libc::RTM_DELROUTE, 0, entry)
    }

    fn write(&mut self, action: &str, kind: u16, flags: u16, entry: &FibEntry) -> Result<(), NetlinkError> {
        let request = format!("{action} to {} in table {}", entry.destination(), entry.table());
        self.channel.execute(&request, flags, &entry.encode().message(kind))
    }
}
