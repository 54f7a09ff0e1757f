//! Unicast routes, the routing tables as they are, and lookups in them.

use super::fib_entry::{self, FibEntry, ROUTE_HEADER, RTAX_LOCK, RTAX_MTU};
use super::message::{Attributes, Encoder, u32_at};
use super::{NetlinkError, RouteSocket, family};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use pathbench_record::network::IpNetwork;
use rustix::io::Errno;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// The table that is looked up when no rule names another (`RT_TABLE_MAIN`).
pub const MAIN_TABLE: u32 = 254;

const RTA_IP_PROTO: u16 = 27;
/// Asks for the entry of the table that decides, and not for the route to this one destination (Linux 4.13, IPv6 4.18).
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// Asks IPv4 for the table that decides instead of the main one; IPv6 names it anyway.
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;

/// A unicast route with one next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// [`IpNetwork::DEFAULT_V4`] or [`IpNetwork::DEFAULT_V6`] for a default route.
    pub destination: IpNetwork,
    /// Next hop; `None` when the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Index of the interface it leaves by; `None` lets the kernel find it from the gateway.
    pub interface: Option<u32>,
    /// Source address that sockets without one get.
    pub source: Option<IpAddr>,
    pub table: u32,
    /// Path MTU in bytes.
    pub mtu: Option<u32>,
    /// Path MTU discovery cannot change `mtu` (`mtu lock`).
    pub mtu_locked: bool,
    /// Among routes to the same destination the lowest wins; `None` is 0 for IPv4, 1024 for IPv6.
    pub metric: Option<u32>,
}

impl Route {
    /// A route to `destination` in the main table, everything else unset.
    pub const fn to(destination: IpNetwork) -> Self {
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

    fn encode(&self) -> Encoder {
        let destination = self.destination.network();
        let table = u8::try_from(self.table).unwrap_or(libc::RT_TABLE_UNSPEC);
        let on_link = self.gateway.is_none() && destination.addr().is_ipv4();
        let scope = if on_link { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let mut header = [0; ROUTE_HEADER];
        header[..2].copy_from_slice(&[family(destination.addr()), destination.prefix()]);
        header[4..8].copy_from_slice(&[table, libc::RTPROT_STATIC, scope, libc::RTN_UNICAST]);
        let to = (!destination.is_default()).then_some(destination.addr());
        let metrics = self.mtu.map(|mtu| {
            let lock = self.mtu_locked.then_some(1 << RTAX_MTU);
            Encoder::default().with(lock, |to, lock| to.u32(RTAX_LOCK, lock)).u32(RTAX_MTU, mtu)
        });
        Encoder::after(&header)
            .with(to, |to, address| to.address(libc::RTA_DST, address))
            .with(self.gateway, |to, gateway| to.address(libc::RTA_GATEWAY, gateway))
            .with(self.interface, |to, index| to.u32(libc::RTA_OIF, index))
            .with(self.source, |to, source| to.address(libc::RTA_PREFSRC, source))
            .with(self.metric, |to, metric| to.u32(libc::RTA_PRIORITY, metric))
            .u32(libc::RTA_TABLE, self.table)
            .with(metrics, |to, metrics| to.nested(libc::RTA_METRICS, metrics))
    }

    fn parse(payload: &[u8]) -> Option<Self> {
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

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(interface) = self.interface {
            write!(f, " on interface {interface}")?;
        }
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        if let Some(mtu) = self.mtu {
            write!(f, " mtu {}{mtu}", if self.mtu_locked { "lock " } else { "" })?;
        }
        if let Some(metric) = self.metric {
            write!(f, " metric {metric}")?;
        }
        write!(f, " in table {}", self.table)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) interface: Option<u32>,
}

/// A path MTU in the kernel's cache, which it learnt by ICMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedMtu {
    pub mtu_bytes: u32,
    pub expires_in: Duration,
    /// Packets are fragmented instead, because ICMP reported less than `net.ipv4.route.min_pmtu`.
    pub locked: bool,
}

impl CachedMtu {
    fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::after(payload, ROUTE_HEADER)?;
        // IPv6 has routes that expire, too; those are not made for one destination.
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
    /// All unicast routes with one next hop, of all tables and both families. The kernel's own `local` and
    /// `broadcast` entries, unreachable routes and multipath routes are left out.
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        self.dump_both_families("routes", libc::RTM_GETROUTE, ROUTE_HEADER, Route::parse)
    }

    /// Adds a route (`EEXIST` when there is one to the same destination with the same metric, `ENETUNREACH` when the
    /// gateway cannot be reached).
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = route.encode().message(libc::RTM_NEWROUTE);
        self.channel.execute(&format!("add route {route}"), NLM_F_CREATE | NLM_F_EXCL, &message)
    }

    /// Adds a route, or puts it in the place of the one to the same destination with the same metric.
    pub fn replace_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = route.encode().message(libc::RTM_NEWROUTE);
        self.channel.execute(&format!("set route {route}"), NLM_F_CREATE | NLM_F_REPLACE, &message)
    }

    /// Removes the route with this destination, table, gateway, interface, source and metric (`ESRCH` when there is none).
    pub fn remove_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        // The MTU does not distinguish routes; protocol and scope 0 and 255 match any.
        let mut message =
            Route { mtu: None, mtu_locked: false, ..*route }.encode().message(libc::RTM_DELROUTE);
        message.payload[5..7].copy_from_slice(&[libc::RTPROT_UNSPEC, libc::RT_SCOPE_NOWHERE]);
        self.channel.execute(&format!("remove route {route}"), 0, &message)
    }

    /// The routes of a table, of the family of `like`, in the kernel's order.
    pub(crate) fn fib_entries(&mut self, like: IpAddr, table: u32) -> Result<Vec<FibEntry>, NetlinkError> {
        let mut header = [0; ROUTE_HEADER];
        header[0] = family(like);
        let message = Encoder::after(&header).u32(libc::RTA_TABLE, table).message(libc::RTM_GETROUTE);
        let request = format!("list the routes of table {table}");
        match self.channel.dump(&request, &message, FibEntry::parse) {
            // "FIB table does not exist"
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(Vec::new()),
            other => other,
        }
    }

    pub(crate) fn matched_entry(&mut self, lookup: &Lookup) -> Result<Option<FibEntry>, NetlinkError> {
        let table = if lookup.destination.is_ipv4() { RTM_F_LOOKUP_TABLE } else { 0 };
        self.look_up(lookup, RTM_F_FIB_MATCH | table, FibEntry::parse)
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
        let prefix = |address| IpNetwork::host(address).prefix();
        let mut header = [0; ROUTE_HEADER];
        header[..3].copy_from_slice(&[family(destination), prefix(destination), prefix(source)]);
        header[8..].copy_from_slice(&flags.to_ne_bytes());
        let message = Encoder::after(&header)
            .address(libc::RTA_DST, destination)
            .address(libc::RTA_SRC, source)
            .u8(RTA_IP_PROTO, libc::IPPROTO_TCP as u8)
            .with(interface, |to, index| to.u32(libc::RTA_OIF, index))
            .message(libc::RTM_GETROUTE);
        self.channel.get(&format!("look up the route from {source} to {destination}"), 0, &message, parse)
    }

    pub(crate) fn add_entry(&mut self, entry: &FibEntry) -> Result<(), NetlinkError> {
        self.write("add the route", libc::RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, entry)
    }

    /// Puts `entry` in the place of the first that has it (`ENOENT` where there is none).
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn address_like(like: IpAddr) -> impl Strategy<Value = IpAddr> {
        (any::<Ipv4Addr>(), any::<Ipv6Addr>())
            .prop_map(move |(v4, v6)| if like.is_ipv4() { v4.into() } else { v6.into() })
    }

    fn route() -> impl Strategy<Value = Route> {
        any::<IpAddr>().prop_flat_map(|address| {
            let prefix = 0..=if address.is_ipv4() { 32u8 } else { 128 };
            (prefix, proptest::option::of(address_like(address)), proptest::option::of(address_like(address)))
                .prop_flat_map(move |(prefix, gateway, source)| {
                    (any::<u32>(), any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>(), any::<bool>())
                        .prop_map(move |(interface, table, mtu, metric, locked)| Route {
                            destination: IpNetwork::new(address, prefix).unwrap().network(),
                            gateway,
                            interface: Some(interface),
                            source,
                            table,
                            mtu,
                            mtu_locked: locked && mtu.is_some(),
                            metric,
                        })
                })
        })
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_would_be_read(route in route()) {
            prop_assert_eq!(Route::parse(&route.encode().into_bytes()), Some(route));
        }

        #[test]
        fn any_bytes_are_a_route_or_not(payload: Vec<u8>) {
            let _ = (Route::parse(&payload), CachedMtu::parse(&payload));
        }
    }
}
