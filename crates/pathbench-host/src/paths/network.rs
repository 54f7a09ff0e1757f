//! A snapshot of this host's network, and the properties of its interfaces, addresses and routes.

use crate::netlink::{
    InterfaceAddress, MAIN_TABLE, NetlinkError, NetworkInterface, Route, RouteSocket, RoutingRule,
};
use pathbench_record::network::{AddressFamily, IpNet};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Kinds of interfaces that encapsulate the packets of others: their packets leave by another interface.
const ENCAPSULATING: [&str; 13] = [
    "wireguard",
    "amneziawg",
    "ovpn",
    "ovpn-dco-v2",
    "xfrm",
    "vti",
    "vti6",
    "ipip",
    "sit",
    "gre",
    "ip6gre",
    "ip6tnl",
    "gretap",
];
/// An address of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PathAddress {
    pub address: IpAddr,
    pub subnet: IpNet,
}

/// Table of the host's own addresses (`RT_TABLE_LOCAL` of linux/rtnetlink.h).
pub const LOCAL_TABLE: u32 = 255;

/// A snapshot of the links, addresses, routes and rules of the calling thread's network namespace.
#[derive(Debug, Clone, Default)]
pub struct HostNetwork {
    pub links: Vec<NetworkInterface>,
    pub addresses: Vec<InterfaceAddress>,
    /// Unicast routes of all tables and both families; a route with several next hops (ECMP) is here once per next hop.
    pub routes: Vec<Route>,
    /// Rules whose only condition is the source.
    pub rules: Vec<RoutingRule>,
}

impl HostNetwork {
    pub fn read() -> Result<Self, NetlinkError> {
        let mut socket = RouteSocket::open()?;
        Ok(Self {
            links: socket.links()?,
            addresses: socket.addresses()?,
            routes: socket.next_hop_routes()?,
            rules: socket.rules()?,
        })
    }

    pub fn link(&self, index: u32) -> Option<&NetworkInterface> {
        self.links.iter().find(|link| link.index == index)
    }

    pub fn routable_addresses(&self) -> BTreeMap<u32, Vec<IpAddr>> {
        let mut addresses: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
        for address in self.addresses.iter().filter(|address| !address.link_scope) {
            addresses.entry(address.index).or_default().push(address.network.addr());
        }
        addresses
    }

    /// The addresses of an interface that new connections can use, the preferred ones first: an address that lasts before
    /// a deprecated one and before a privacy address (RFC 8981), a global one before a local one (RFC 4193).
    pub fn usable_addresses(&self, index: u32, family: AddressFamily) -> Vec<&InterfaceAddress> {
        let mut usable: Vec<&InterfaceAddress> = self
            .addresses
            .iter()
            .filter(|one| one.index == index && AddressFamily::from_address(one.network.addr()) == family)
            .filter(|one| !one.tentative && !one.link_scope)
            .collect();
        usable.sort_by_key(|one| (one.deprecated, is_unique_local(one.network.addr()), one.secondary));
        usable
    }

    /// The addresses that make an interface a path, one per subnet: packets from other addresses of the subnet take the
    /// same path. A deprecated or privacy address counts only if there is no other, and so does a local one (RFC 4193).
    pub fn path_addresses(&self, index: u32, family: AddressFamily) -> Vec<PathAddress> {
        let usable = self.usable_addresses(index, family);
        let class = |one: &InterfaceAddress| {
            (
                one.deprecated,
                one.secondary && !one.network.addr().is_ipv4(),
                is_unique_local(one.network.addr()),
            )
        };
        let mut found: Vec<PathAddress> = Vec::new();
        let best = usable.iter().map(|one| class(one)).min();
        for one in
            usable.into_iter().filter(|one| Some(class(one)) == best && !one.network.addr().is_loopback())
        {
            let subnet = one.network.trunc();
            if !found.iter().any(|other| other.subnet == subnet) {
                found.push(PathAddress { address: one.network.addr(), subnet });
            }
        }
        found
    }

    /// Whether the routes of one table lead beyond every router by this interface.
    pub fn leads_beyond(&self, index: u32, family: AddressFamily) -> bool {
        leads_beyond(&self.routes, index, family)
    }

    /// Whether a route of this family leads to a router by this interface.
    pub(super) fn has_gateway(&self, index: u32, family: AddressFamily) -> bool {
        self.routes.iter().any(|route| {
            route.interface == Some(index)
                && route.gateway.is_some()
                && AddressFamily::from_address(route.destination.addr()) == family
        })
    }

    /// Whether the packets of an interface leave by another one. A TUN device is a tunnel if it catches all destinations as
    /// VPNs do: without a router, by several routes, or with an exception for the VPN's server; a TUN device with a plain
    /// default route is a link, such as one of a lab.
    pub fn is_tunnel(&self, link: &NetworkInterface) -> bool {
        if link.kind.as_deref() != Some("tun") {
            return is_of_kind(link, &ENCAPSULATING);
        }
        AddressFamily::ALL.into_iter().any(|family| {
            let of_family = |route: &&Route| AddressFamily::from_address(route.destination.addr()) == family;
            let own =
                || self.routes.iter().filter(of_family).filter(|route| route.interface == Some(link.index));
            let is_default = |route: &Route| route.destination.prefix_len() == 0;
            let is_plain = own().any(|route| is_default(route) && route.gateway.is_some());
            let is_exception = |route: &Route| {
                let other = route.interface.filter(|index| *index != link.index);
                let is_link =
                    |index| self.link(index).is_some_and(|link| link.kind.as_deref() != Some("tun"));
                route.gateway.is_some()
                    && route.destination.prefix_len() == route.destination.max_prefix_len()
                    && other.is_some_and(is_link)
            };
            self.leads_beyond(link.index, family)
                && (!is_plain || self.routes.iter().filter(of_family).any(is_exception))
        })
    }

    /// The interfaces of the main table's best route to `destination`; several with ECMP.
    pub fn best_interfaces(&self, destination: IpAddr) -> Vec<u32> {
        best_interfaces(&self.routes, destination)
    }
}

/// Whether the interface is up and has a carrier, and is neither loopback nor part of a bridge or bond.
pub(super) fn can_carry(link: &NetworkInterface) -> bool {
    link.up && link.carrier && !link.loopback && link.master.is_none()
}

pub(super) fn is_of_kind(link: &NetworkInterface, kinds: &[&str]) -> bool {
    link.kind.as_deref().is_some_and(|kind| kinds.contains(&kind))
}

fn is_unique_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unique_local())
}

/// Whether the routes of one table lead beyond every router by this interface: a default route, or several routes that
/// together are one.
pub fn leads_beyond(routes: &[Route], index: u32, family: AddressFamily) -> bool {
    let of_interface = |route: &&Route| route.interface == Some(index) && route.table != LOCAL_TABLE;
    let routes: Vec<&Route> = routes.iter().filter(of_interface).collect();
    routes.iter().any(|one| {
        let covers = |to: &IpAddr| {
            routes.iter().any(|route| route.table == one.table && route.destination.contains(to))
        };
        beyond(family).iter().all(covers)
    })
}

/// The interfaces of the main table's best route to `destination`, by the longest prefix and the lowest metric; several with
/// ECMP.
fn best_interfaces(routes: &[Route], destination: IpAddr) -> Vec<u32> {
    let rank = |route: &Route| (Reverse(route.destination.prefix_len()), route.metric.unwrap_or(0));
    let matching = || {
        let main = routes.iter().filter(|route| route.table == MAIN_TABLE);
        main.filter(|route| route.destination.contains(&destination))
    };
    let best = matching().map(rank).min();
    matching().filter(|route| Some(rank(route)) == best).filter_map(|route| route.interface).collect()
}

/// Whether all packets of this family to addresses beyond the routers leave by this interface, by the main table.
pub fn is_only_exit(routes: &[Route], index: u32, family: AddressFamily) -> bool {
    beyond(family).into_iter().all(|to| {
        let interfaces = best_interfaces(routes, to);
        !interfaces.is_empty() && interfaces.iter().all(|one| *one == index)
    })
}

/// Addresses that only default routes cover, and routes that together are one (`0.0.0.0/1` and `128.0.0.0/1`, the lists of
/// VPNs): one in each half of the addresses of hosts. The first is for documentation (RFC 5737, RFC 3849).
pub(super) const fn beyond(family: AddressFamily) -> [IpAddr; 2] {
    match family {
        AddressFamily::Ipv4 => {
            [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8))]
        }
        // RFC 9637: 3fff::/20.
        AddressFamily::Ipv6 => [
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            IpAddr::V6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1)),
        ],
    }
}
