//! The paths from this host to a server: interfaces that are up, with a routable address and a route to the server; and
//! the changes of links and addresses that affect them.

use crate::netlink::{InterfaceAddress, NetlinkError, NetworkInterface, Route, RouteSocket};
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use pathbench_record::network::{AddressFamily, ClientPath};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Table of the host's own addresses (`RT_TABLE_LOCAL` of linux/rtnetlink.h).
pub(crate) const LOCAL_TABLE: u32 = 255;

/// Limited because each path needs a thread.
const MOST_PROBED_PATHS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedPath {
    /// Its interface, with the family or the address if the interface has several.
    pub name: String,
    pub interface: String,
    pub local: IpAddr,
    pub server: SocketAddr,
}

/// A snapshot of the links, addresses and routes of the calling thread's network namespace.
#[derive(Debug, Clone, Default)]
pub struct HostNetwork {
    pub links: Vec<NetworkInterface>,
    pub addresses: Vec<InterfaceAddress>,
    pub routes: Vec<Route>,
}

impl HostNetwork {
    pub fn read() -> Result<Self, NetlinkError> {
        let mut socket = RouteSocket::open()?;
        Ok(Self { links: socket.links()?, addresses: socket.addresses()?, routes: socket.routes()? })
    }

    /// The paths to `server`; the path from the local address `preferred` (the kernel's choice) is the first. A server
    /// on this host is reached over the loopback interface only.
    pub fn paths_to(&self, server: IpAddr, preferred: Option<IpAddr>) -> Vec<ClientPath> {
        let is_own = self.addresses.iter().any(|address| address.network.addr() == server);
        let own = is_own || server.is_loopback();
        let mut paths: Vec<ClientPath> = self
            .links
            .iter()
            .filter(|link| link.up && link.loopback == own && (own || self.leads_to(link, server)))
            .filter_map(|link| self.path(link, server))
            .collect();
        if let Some(preferred) = preferred {
            paths.sort_by_key(|path| !path.addresses.contains(&preferred));
            // Among several addresses (such as privacy addresses), users expect the kernel's choice.
            for path in &mut paths {
                path.addresses.sort_by_key(|at| *at != preferred);
            }
        }
        paths
    }

    /// The paths over `interfaces`, in this order, or all paths if none is named; an error states why an interface has
    /// no path.
    pub fn paths_over(&self, interfaces: &[String], server: SocketAddr) -> Result<Vec<ClientPath>, String> {
        if interfaces.is_empty() {
            return Ok(self.paths_to(server.ip(), kernels_choice(server)));
        }
        let server = server.ip();
        let found = self.paths_to(server, None);
        let path = |name: &String| {
            let path = found.iter().find(|path| path.interface == *name).cloned();
            path.ok_or_else(|| self.why_not(name, server))
        };
        interfaces.iter().map(path).collect()
    }

    fn why_not(&self, interface: &str, server: IpAddr) -> String {
        let family = AddressFamily::from_address(server).name();
        let Some(link) = self.links.iter().find(|link| link.name == interface) else {
            let known: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
            return format!("no interface `{interface}` here; there are {}", known.join(", "));
        };
        if !link.up {
            return format!("interface {interface} is down; as root: ip link set {interface} up");
        }
        if self.path(link, server).is_none() {
            return format!(
                "interface {interface} has no {family} address with which {server} can be reached"
            );
        }
        format!(
            "no route to {server} leaves by {interface}; give it one, e.g. as root: ip route add default via ROUTER \
             dev {interface} metric 200"
        )
    }

    fn leads_to(&self, link: &NetworkInterface, server: IpAddr) -> bool {
        self.routes.iter().any(|route| {
            route.interface == Some(link.index)
                && route.table != LOCAL_TABLE
                && route.destination.addr().is_ipv4() == server.is_ipv4()
                && route.destination.contains(&server)
        })
    }

    /// The path over `link`, with its addresses of the server's family, the preferred one first.
    fn path(&self, link: &NetworkInterface, server: IpAddr) -> Option<ClientPath> {
        let mut usable: Vec<&InterfaceAddress> = self
            .addresses
            .iter()
            .filter(|address| address.index == link.index)
            .filter(|address| address.network.addr().is_ipv4() == server.is_ipv4())
            .filter(|address| !address.tentative && !address.link_scope)
            .collect();
        usable.sort_by_key(|address| (address.deprecated, address.secondary && server.is_ipv4()));
        let addresses = usable.iter().map(|address| address.network.addr()).collect();
        (!usable.is_empty()).then(|| client_path(link, addresses))
    }

    /// Interfaces without a path in `paths`, to label their addresses in results.
    pub fn other_interfaces(&self, paths: &[ClientPath]) -> Vec<ClientPath> {
        let addresses = self.routable_addresses();
        let others = self.links.iter().filter(|link| !paths.iter().any(|path| path.interface == link.name));
        others
            .map(|link| client_path(link, addresses.get(&link.index).cloned().unwrap_or_default()))
            .collect()
    }

    pub fn routable_addresses(&self) -> BTreeMap<u32, Vec<IpAddr>> {
        let mut addresses: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
        for address in self.addresses.iter().filter(|address| !address.link_scope) {
            addresses.entry(address.index).or_default().push(address.network.addr());
        }
        addresses
    }

    /// The paths to probe, one per subnet of `interfaces` (if empty: of all interfaces with a route to a server), and
    /// notes about omitted paths. An error states the reason for each server.
    pub fn probed_paths(
        &self,
        interfaces: &[String],
        servers: &[SocketAddr],
    ) -> Result<(Vec<ProbedPath>, Vec<String>), String> {
        let (mut paths, mut notes) = (Vec::new(), Vec::new());
        for &server in servers {
            match self.paths_over(interfaces, server) {
                Ok(found) if found.is_empty() => {
                    let server = server.ip();
                    notes.push(format!("no interface that is up has an address and a route to {server}"));
                }
                Ok(found) => paths.extend(found.iter().flat_map(|path| self.probed_over(path, server))),
                Err(why) => notes.push(why),
            }
        }
        if paths.is_empty() {
            return Err(notes.join("\n"));
        }
        if paths.len() > MOST_PROBED_PATHS {
            notes.push(format!(
                "{} paths lead to the server, and the first {MOST_PROBED_PATHS} are examined; name others with --path",
                paths.len()
            ));
            paths.truncate(MOST_PROBED_PATHS);
        }
        name(&mut paths);
        Ok((paths, notes))
    }

    /// A path for each subnet of an interface: packets from other addresses of the subnet take the same path.
    fn probed_over(&self, of: &ClientPath, server: SocketAddr) -> Vec<ProbedPath> {
        let facts = |at: &IpAddr| self.addresses.iter().find(|one| one.network.addr() == *at);
        let mut subnets = BTreeSet::new();
        let mut usable: Vec<IpAddr> = Vec::new();
        for at in &of.addresses {
            let known: Option<&InterfaceAddress> = facts(at);
            // Preferred addresses come first; a deprecated address is used only if there is no other.
            let is_running_out = known.is_some_and(|known| known.deprecated) && !usable.is_empty();
            let subnet = known.map(|known| known.network.trunc().to_string());
            if !is_running_out && subnet.is_none_or(|subnet| subnets.insert(subnet)) {
                usable.push(*at);
            }
        }
        let path =
            |local| ProbedPath { name: of.name.clone(), interface: of.interface.clone(), local, server };
        usable.into_iter().map(path).collect()
    }
}

fn client_path(link: &NetworkInterface, addresses: Vec<IpAddr>) -> ClientPath {
    ClientPath {
        name: link.name.clone(),
        interface: link.name.clone(),
        addresses,
        mtu_bytes: Some(link.mtu),
        ..ClientPath::default()
    }
}

/// Makes the names of paths over the same interface unique.
fn name(paths: &mut [ProbedPath]) {
    let all: Vec<(String, IpAddr)> = paths.iter().map(|path| (path.interface.clone(), path.local)).collect();
    for path in paths {
        let mut others =
            all.iter().filter(|(interface, local)| *interface == path.interface && *local != path.local);
        let (mut any, mut same_family) = (false, false);
        others.by_ref().for_each(|(_, local)| {
            any = true;
            same_family |= local.is_ipv4() == path.local.is_ipv4();
        });
        if same_family {
            path.name = format!("{} {}", path.interface, path.local);
        } else if any {
            path.name = format!("{} {}", path.interface, AddressFamily::from_address(path.local).name());
        }
    }
}

/// The change of the paths to a server between two reads; `None` if there is none.
pub fn describe_reroute(before: &[ClientPath], now: &[ClientPath]) -> Option<String> {
    let names = |paths: &[ClientPath]| {
        let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (before, now) = (names(before), names(now));
    (before != now).then(|| format!("the paths to the server were {before}, and are {now}"))
}

/// The source address that the kernel selects for `server`; sends no packet.
fn kernels_choice(server: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// Separates changes that affect tests from other events, such as renewed leases and interfaces of other programs.
#[derive(Debug, Default)]
pub struct ChangeFilter {
    addresses: BTreeMap<u32, BTreeSet<IpAddr>>,
    /// Interfaces that have had a path to the server. An interface that is down may come up again.
    pub interfaces: BTreeSet<String>,
}

impl ChangeFilter {
    pub fn new(network: &HostNetwork) -> Self {
        let addresses = network.routable_addresses().into_iter();
        Self {
            addresses: addresses.map(|(index, of)| (index, of.into_iter().collect())).collect(),
            interfaces: BTreeSet::new(),
        }
    }

    /// Describes the change: `eth0 down`, `wlan0 address 192.0.2.2/24 added`; `None` if it does not affect tests.
    pub fn change(&mut self, event: &LinkEvent) -> Option<String> {
        let name = event.name.clone().unwrap_or_else(|| format!("interface {}", event.index));
        let is_change = match event.change {
            LinkChange::AddressAdded(network) => {
                // The kernel reports a renewed lease in the same form as a new address.
                let is_new = self.addresses.entry(event.index).or_default().insert(network.addr());
                is_new && is_routable(network.addr())
            }
            LinkChange::AddressRemoved(network) => {
                let was_known =
                    self.addresses.get_mut(&event.index).is_some_and(|of| of.remove(&network.addr()));
                was_known && is_routable(network.addr())
            }
            LinkChange::Overrun => return Some("more changes than could be read".to_owned()),
            _ => self.interfaces.contains(&name),
        };
        is_change.then(|| format!("{name} {}", event.change))
    }
}

/// Whether packets with this address can leave their link.
const fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    }
}
