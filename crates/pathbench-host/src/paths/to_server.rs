//! The paths to a server.

use super::network::{HostNetwork, LOCAL_TABLE, can_carry};
use crate::netlink::NetworkInterface;
use pathbench_record::network::{AddressFamily, ClientPath};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

impl HostNetwork {
    /// The paths to `server`; the path from the local address `preferred` (the kernel's choice) is the first. A server
    /// on this host is reached over the loopback interface only. Tunnels beside other paths are omitted, except the one
    /// that new connections use (a VPN).
    pub fn paths_to(&self, server: IpAddr, preferred: Option<IpAddr>) -> Vec<ClientPath> {
        let is_own = self.addresses.iter().any(|address| address.network.addr() == server);
        let own = is_own || server.is_loopback();
        let leads = |link: &&NetworkInterface| {
            if own { link.up && link.loopback } else { can_carry(link) && self.leads_to(link, server) }
        };
        let links: Vec<&NetworkInterface> = self.links.iter().filter(leads).collect();
        let has_other = links.iter().any(|link| !self.is_tunnel(link));
        let is_chosen = |link: &NetworkInterface| match preferred {
            Some(preferred) => {
                self.addresses.iter().any(|one| one.index == link.index && one.network.addr() == preferred)
            }
            None => self.best_interfaces(server).contains(&link.index),
        };
        let mut paths: Vec<ClientPath> = links
            .into_iter()
            .filter(|link| !has_other || !self.is_tunnel(link) || is_chosen(link))
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
        let own = server.is_loopback() || self.addresses.iter().any(|one| one.network.addr() == server);
        let path = |name: &String| {
            let link = self.links.iter().find(|link| link.name == *name);
            let link = link.filter(|link| link.up && link.loopback == own);
            let leads = link.filter(|link| own || link.carrier && self.leads_to(link, server));
            leads.and_then(|link| self.path(link, server)).ok_or_else(|| self.why_not(name, server))
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
        if !link.carrier {
            return format!("interface {interface} has no carrier; connect its cable, modem or Wi-Fi");
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
        let family = AddressFamily::from_address(server);
        let usable = self.usable_addresses(link.index, family);
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

/// The source address that the kernel selects for `server`; sends no packet.
fn kernels_choice(server: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}
