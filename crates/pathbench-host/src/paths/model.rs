//! The one model of this host's paths, from which `check`, `setup`, `run`, `test` and `mtu` take them.
//!
//! Pure: the kernel's answers and the endpoints are facts that the caller injects.

use super::kernel_routes::{Departure, RouteAnswer, leaves_by};
use super::network::{HostNetwork, PathAddress, beyond, can_carry, is_of_kind};
use crate::mptcp::MptcpEndpoint;
use crate::netlink::NetworkInterface;
use pathbench_record::network::AddressFamily;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Kinds of interfaces without a network of their own.
const WITHOUT_NETWORK: [&str; 4] = ["dummy", "ifb", "vrf", "nlmon"];
/// Kinds of interfaces that connect containers and virtual machines of this host; a route can make them paths.
const LOCAL: [&str; 1] = ["bridge"];

/// Facts beside the links, addresses and routes.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathEvidence<'a> {
    pub endpoints: &'a [MptcpEndpoint],
    /// The kernel's answers for new connections; without them, the main table's best route is used.
    pub primaries: &'a [(IpAddr, RouteAnswer)],
    pub departures: &'a [Departure],
    /// Routers from DHCP leases, by index of the interface.
    pub leased_routers: Option<&'a BTreeMap<u32, Vec<IpAddr>>>,
}

/// An interface that is a path, with one address per subnet, in the families in which it leads somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPath<'a> {
    pub link: &'a NetworkInterface,
    /// The preferred address of each family is the first.
    pub addresses: Vec<PathAddress>,
}

impl NetworkPath<'_> {
    pub fn of_family(&self, family: AddressFamily) -> impl Iterator<Item = &PathAddress> {
        self.addresses.iter().filter(move |at| AddressFamily::from_address(at.address) == family)
    }
}

/// The paths of a host, in the order of its interfaces.
#[derive(Debug, Clone)]
pub struct HostPaths<'a> {
    network: &'a HostNetwork,
    evidence: PathEvidence<'a>,
    /// Excludes tunnels, unless there is nothing else.
    pub paths: Vec<NetworkPath<'a>>,
    /// Tunnels that lead beyond the routers beside the paths, over which their packets leave.
    pub tunnels: Vec<NetworkPath<'a>>,
    /// Interfaces with a carrier and an address that lead nowhere: networks of containers, of a laboratory.
    pub local: Vec<&'a NetworkInterface>,
}

impl<'a> HostPaths<'a> {
    pub fn new(network: &'a HostNetwork, evidence: PathEvidence<'a>) -> Self {
        let mut model = Self { network, evidence, paths: Vec::new(), tunnels: Vec::new(), local: Vec::new() };
        for link in network.links.iter().filter(|link| can_carry(link)) {
            let families = AddressFamily::ALL.into_iter();
            let of_family = |family| {
                let found = network.path_addresses(link.index, family);
                if model.leads(link, family, &found) { found } else { Vec::new() }
            };
            let addresses: Vec<PathAddress> = families.flat_map(of_family).collect();
            let path = NetworkPath { link, addresses };
            if path.addresses.is_empty() {
                let has_address = AddressFamily::ALL
                    .into_iter()
                    .any(|family| !network.path_addresses(link.index, family).is_empty());
                if has_address && !network.is_tunnel(link) && !is_of_kind(link, &WITHOUT_NETWORK) {
                    model.local.push(link);
                }
            } else if network.is_tunnel(link) {
                model.tunnels.push(path);
            } else {
                model.paths.push(path);
            }
        }
        if model.paths.is_empty() {
            model.paths = std::mem::take(&mut model.tunnels);
        }
        model
    }

    /// Whether packets from these addresses of `link` lead to a destination, or have to: where no interface leads beyond
    /// the routers (direct links), and where the owner has made an address an endpoint.
    fn leads(&self, link: &NetworkInterface, family: AddressFamily, addresses: &[PathAddress]) -> bool {
        let is_here = |at: IpAddr| addresses.iter().any(|own| own.address == at);
        let mut departures = self.evidence.departures.iter().filter(|one| is_here(one.source));
        if self.has_router(link.index, family) || departures.any(|one| leaves_by(&one.bound, link.index)) {
            return !addresses.is_empty();
        }
        if is_of_kind(link, &LOCAL) || is_of_kind(link, &WITHOUT_NETWORK) || self.network.is_tunnel(link) {
            return false;
        }
        let leads_beyond = |link: &NetworkInterface| self.network.leads_beyond(link.index, family);
        let families = AddressFamily::ALL;
        let has_router =
            |link: &NetworkInterface| families.iter().any(|one| self.has_router(link.index, *one));
        let direct = !self.network.links.iter().any(has_router);
        // A VPN has replaced the default route: what is left is the route of its own packets.
        let mut tunnels = self.network.links.iter().filter(|other| self.network.is_tunnel(other));
        let mut is_underlay = || tunnels.any(leads_beyond) && self.network.has_gateway(link.index, family);
        let mut endpoints = self.evidence.endpoints.iter().filter(|endpoint| !endpoint.flags.implicit);
        !addresses.is_empty() && (direct || endpoints.any(|one| is_here(one.address)) || is_underlay())
    }

    /// Whether packets of this family can leave the subnets of the interface: a table leads beyond the routers by it, or
    /// a DHCP lease has a router.
    pub fn has_router(&self, index: u32, family: AddressFamily) -> bool {
        let leased = self.evidence.leased_routers.and_then(|leased| leased.get(&index)).into_iter().flatten();
        self.network.leads_beyond(index, family)
            || leased.into_iter().any(|router| AddressFamily::from_address(*router) == family)
    }

    /// The paths of a family, each with its preferred address.
    pub fn of_family(&self, family: AddressFamily) -> Vec<(&'a NetworkInterface, PathAddress)> {
        let preferred = |path: &NetworkPath<'a>| Some((path.link, *path.of_family(family).next()?));
        self.paths.iter().filter_map(preferred).collect()
    }

    /// The kernel's answer for a new connection of this family; `None` if it was not asked.
    pub fn answer(&self, family: AddressFamily) -> Option<&'a RouteAnswer> {
        let mut answers = self.evidence.primaries.iter();
        answers.find(|(to, _)| AddressFamily::from_address(*to) == family).map(|(_, answer)| answer)
    }

    /// The interfaces by which new connections of this family leave, without a bound address: several with ECMP.
    pub fn primaries(&self, family: AddressFamily) -> Vec<u32> {
        match self.answer(family) {
            Some(answer) => answer.iter().flatten().map(|hop| hop.interface).collect(),
            None => self.network.best_interfaces(beyond(family)[0]),
        }
    }

    /// The VPN of this family: the tunnel by which new connections leave, beside a path that it hides.
    pub fn vpn(&self, family: AddressFamily) -> Option<&'a NetworkInterface> {
        let hides = self
            .paths
            .iter()
            .any(|path| !self.network.is_tunnel(path.link) && path.of_family(family).next().is_some());
        self.primary_tunnel(family).filter(|_| hides)
    }

    /// The tunnel by which new connections of this family leave.
    pub fn primary_tunnel(&self, family: AddressFamily) -> Option<&'a NetworkInterface> {
        let primary = *self.primaries(family).first()?;
        self.network.link(primary).filter(|link| self.network.is_tunnel(link))
    }

    /// The interfaces by which the kernel sends new connections of this family, and that have no carrier.
    pub fn without_carrier(&self, family: AddressFamily) -> Vec<&'a NetworkInterface> {
        let links = self.primaries(family).into_iter().filter_map(|index| self.network.link(index));
        links.filter(|link| !link.carrier || !link.up).collect()
    }

    /// Whether the kernel may ignore routes over an interface while it has no carrier. Past the routes of a VPN, packets
    /// would leave in clear text.
    pub fn may_ignore_routes(&self, link: &NetworkInterface) -> bool {
        link.kind.as_deref() != Some("tun") && !self.network.is_tunnel(link)
    }
}
