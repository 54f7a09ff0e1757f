//! The kernel's answers about the routes of new connections (`RTM_GETROUTE`); a lookup sends no packet.

use super::network::{HostNetwork, beyond};
use crate::netlink::{FibEntry, Lookup, NetlinkError, NextHop, RouteSocket};
use pathbench_record::network::AddressFamily;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Next hops of the kernel's answer to a route lookup, or its error: `ENETUNREACH`.
pub type RouteAnswer = Result<Vec<NextHop>, String>;

/// How packets from a local address to a destination leave this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    pub source: IpAddr,
    /// Index of the interface that has the address.
    pub interface: u32,
    pub destination: IpAddr,
    /// The kernel's answer without a required interface: for an endpoint without `dev`.
    pub any: RouteAnswer,
    /// The kernel's answer if the interface of the address is required: for an endpoint with `dev`.
    pub bound: RouteAnswer,
}

/// Whether a next hop of the answer is by this interface.
pub fn leaves_by(answer: &RouteAnswer, interface: u32) -> bool {
    answer.as_ref().is_ok_and(|hops| hops.iter().any(|hop| hop.interface == interface))
}

/// The kernel's answers for the addresses of this host.
#[derive(Debug, Clone, Default)]
pub struct KernelRoutes {
    /// The route of a new connection without a bound address, per destination.
    pub primaries: Vec<(IpAddr, RouteAnswer)>,
    pub departures: Vec<Departure>,
}

impl KernelRoutes {
    /// The answers for `destinations`; if there are none, for an address beyond the routers, in each family in which an
    /// interface leads there.
    pub fn read(network: &HostNetwork, destinations: &[IpAddr]) -> Result<Self, NetlinkError> {
        let leads = |family: &AddressFamily| {
            network.links.iter().any(|link| network.leads_beyond(link.index, *family))
        };
        let beyond = AddressFamily::ALL.into_iter().filter(leads).map(|family| beyond(family)[0]);
        let to = if destinations.is_empty() { beyond.collect() } else { destinations.to_vec() };
        let mut socket = RouteSocket::open()?;
        let usable =
            network.addresses.iter().filter(|one| !one.link_scope && !one.network.addr().is_loopback());
        let usable: Vec<(u32, IpAddr)> = usable.map(|one| (one.index, one.network.addr())).collect();
        let mut routes = Self::default();
        for destination in to {
            let any: IpAddr = match destination {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let primary =
                answer(socket.matched_entry(&Lookup { source: any, destination, interface: None }))?;
            routes.primaries.push((destination, primary));
            let same_family = usable.iter().filter(|(_, source)| source.is_ipv4() == destination.is_ipv4());
            for &(interface, source) in same_family {
                let lookup = Lookup { source, destination, interface: None };
                let any = answer(socket.matched_entry(&lookup))?;
                let bound = answer(socket.bound_entry(&Lookup { interface: Some(interface), ..lookup }))?;
                routes.departures.push(Departure { source, interface, destination, any, bound });
            }
        }
        Ok(routes)
    }
}

fn answer(found: Result<Option<FibEntry>, NetlinkError>) -> Result<RouteAnswer, NetlinkError> {
    match found {
        Ok(Some(entry)) if entry.kind() == libc::RTN_UNICAST => Ok(Ok(entry.next_hops())),
        Ok(_) => Ok(Err("no unicast route".to_owned())),
        Err(error) => match error.errno() {
            Some(errno) => {
                let text = errno.to_string();
                Ok(Err(text.split(" (os error").next().unwrap_or_default().to_owned()))
            }
            None => Err(error),
        },
    }
}
