//! Unicast routes.

use super::address::family;
use super::attribute::{Attributes, u32_at};
use super::{NetlinkError, RouteSocket};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use pathbench_record::network::IpNetwork;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The table that is looked up when no rule names another (`RT_TABLE_MAIN`).
pub const MAIN_TABLE: u32 = 254;

// linux/rtnetlink.h
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
/// `struct rtmsg`
const ROUTE_HEADER: usize = 12;

/// A unicast route with one next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// Where it leads; [`IpNetwork::DEFAULT_V4`] or [`IpNetwork::DEFAULT_V6`] for everywhere.
    pub destination: IpNetwork,
    /// Next hop; `None` when the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Index of the interface it leaves by; `None` lets the kernel find it from the gateway.
    pub interface: Option<u32>,
    /// Source address that sockets without one get.
    pub source: Option<IpAddr>,
    /// Table it stands in, [`MAIN_TABLE`] by default.
    pub table: u32,
    /// Path MTU in bytes.
    pub mtu: Option<u32>,
    /// Whether `mtu` holds whatever path MTU discovery says (`mtu lock`).
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

impl RouteSocket {
    /// All unicast routes with one next hop, of all tables and both families. The kernel's own `local` and
    /// `broadcast` entries, unreachable routes and multipath routes are left out.
    ///
    /// # Errors
    /// [`NetlinkError`]; reading needs no privilege.
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = Vec::new();
        for (family, name) in [(AddressFamily::Inet, "IPv4"), (AddressFamily::Inet6, "IPv6")] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let request = format!("list the {name} routes");
            match self.channel.dump(&request, &RouteNetlinkMessage::GetRoute(message)) {
                Ok(replies) => routes.extend(replies.iter().filter_map(|(_, payload)| parse_route(payload))),
                // A kernel without IPv6 has no IPv6 routes.
                Err(error) if family == AddressFamily::Inet6 && is_no_such_family(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(routes)
    }

    /// Adds a route.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`EEXIST` when there is one to the same destination with the same metric,
    /// `ENETUNREACH` when the gateway cannot be reached).
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::NewRoute(route_message(route));
        self.channel.execute(&format!("add route {route}"), NLM_F_CREATE | NLM_F_EXCL, message)
    }

    /// Adds a route, or puts it in the place of the one to the same destination with the same metric.
    pub fn replace_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::NewRoute(route_message(route));
        self.channel.execute(&format!("set route {route}"), NLM_F_CREATE | NLM_F_REPLACE, message)
    }

    /// Removes the route with this destination, table, gateway, interface, source and metric.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`ESRCH` when there is none).
    pub fn remove_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        // Protocol and scope 0 and 255 match any, and the MTU does not tell routes apart.
        let mut message = route_message(&Route { mtu: None, mtu_locked: false, ..*route });
        message.header.protocol = RouteProtocol::Unspec;
        message.header.scope = RouteScope::NoWhere;
        self.channel.execute(&format!("remove route {route}"), 0, RouteNetlinkMessage::DelRoute(message))
    }
}

pub(super) fn is_no_such_family(error: &NetlinkError) -> bool {
    use rustix::io::Errno;
    matches!(error.errno(), Some(Errno::AFNOSUPPORT | Errno::PFNOSUPPORT | Errno::OPNOTSUPP))
}

fn route_message(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    let destination = route.destination.network();
    message.header.address_family = family(destination.addr());
    message.header.destination_prefix_length = destination.prefix();
    message.header.table = u8::try_from(route.table).unwrap_or(libc::RT_TABLE_UNSPEC);
    message.header.protocol = RouteProtocol::Static;
    message.header.kind = RouteType::Unicast;
    let on_link = route.gateway.is_none() && destination.addr().is_ipv4();
    message.header.scope = if on_link { RouteScope::Link } else { RouteScope::Universe };
    let attributes = &mut message.attributes;
    if !destination.is_default() {
        attributes.push(RouteAttribute::Destination(RouteAddress::from(destination.addr())));
    }
    attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
    attributes.extend(route.interface.map(RouteAttribute::Oif));
    attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    attributes.extend(route.metric.map(RouteAttribute::Priority));
    attributes.push(RouteAttribute::Table(route.table));
    if let Some(mtu) = route.mtu {
        let mut metrics = vec![RouteMetric::Mtu(mtu)];
        if route.mtu_locked {
            metrics.push(RouteMetric::Lock(1 << RTAX_MTU));
        }
        attributes.push(RouteAttribute::Metrics(metrics));
    }
    message
}

/// The route that an `RTM_NEWROUTE` message describes, if it is one that [`Route`] can express.
fn parse_route(payload: &[u8]) -> Option<Route> {
    let (header, attributes) = Attributes::after(payload, ROUTE_HEADER)?;
    let [family, prefix, _source_prefix, _tos, table, _protocol, _scope, kind, ..] = *header else {
        return None;
    };
    let cloned = u32_at(header, 8)? & libc::RTM_F_CLONED != 0;
    if kind != libc::RTN_UNICAST || cloned {
        return None;
    }
    let anywhere = match i32::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let metrics = attributes.nested(RTA_METRICS);
    // RTA_VIA is a gateway of the other family: family (2 bytes), address.
    let via = || attributes.get(RTA_VIA).and_then(|value| gateway_of_other_family(value.get(2..)?));
    Some(Route {
        destination: IpNetwork::new(attributes.address(RTA_DST).unwrap_or(anywhere), prefix).ok()?,
        gateway: attributes.address(RTA_GATEWAY).or_else(via),
        // A multipath route has its interfaces in its next hops.
        interface: Some(attributes.u32(RTA_OIF)?),
        source: attributes.address(RTA_PREFSRC),
        table: attributes.u32(RTA_TABLE).unwrap_or_else(|| u32::from(table)),
        mtu: metrics.and_then(|metrics| metrics.u32(RTAX_MTU)),
        mtu_locked: metrics
            .and_then(|metrics| metrics.u32(RTAX_LOCK))
            .is_some_and(|locks| locks & (1 << RTAX_MTU) != 0),
        metric: attributes.u32(RTA_PRIORITY),
    })
}

fn gateway_of_other_family(bytes: &[u8]) -> Option<IpAddr> {
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from);
    <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from).or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;
    use proptest::prelude::*;

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
            let message = route_message(&route);
            let mut bytes = vec![0; message.buffer_len()];
            message.emit(&mut bytes);
            prop_assert_eq!(parse_route(&bytes), Some(route));
        }

        #[test]
        fn any_bytes_are_a_route_or_not(payload: Vec<u8>) {
            let _ = parse_route(&payload);
        }
    }
}
