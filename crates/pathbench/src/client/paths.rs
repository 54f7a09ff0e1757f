//! The paths from this host to a server: interfaces that are up, have a routable address and a route there.

use pathbench_analysis::assembly::ClientPath;
use pathbench_host::netlink::{InterfaceAddress, Link, NetlinkError, Route, RouteSocket};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Table of the host's own addresses (`RT_TABLE_LOCAL` of linux/rtnetlink.h).
const LOCAL_TABLE: u32 = 255;

#[derive(Debug, Clone, Default)]
pub(crate) struct HostNetwork {
    pub(crate) links: Vec<Link>,
    pub(crate) addresses: Vec<InterfaceAddress>,
    pub(crate) routes: Vec<Route>,
}

impl HostNetwork {
    pub(crate) fn read() -> Result<Self, NetlinkError> {
        let mut socket = RouteSocket::open()?;
        Ok(Self { links: socket.links()?, addresses: socket.addresses()?, routes: socket.routes()? })
    }

    /// The paths to `server`, the path of the local address `preferred` (the kernel's own choice) first. A server on this host
    /// is reached by the loopback interface alone.
    pub(crate) fn paths_to(&self, server: IpAddr, preferred: Option<IpAddr>) -> Vec<ClientPath> {
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
            // The kernel's choice among several addresses (privacy addresses, say) is the user's.
            for path in &mut paths {
                path.addresses.sort_by_key(|at| *at != preferred);
            }
        }
        paths
    }

    /// The paths over these interfaces, in this order, or all paths where none is named; an error names the reason why an
    /// interface has no path.
    pub(crate) fn paths_over(
        &self,
        interfaces: &[String],
        server: SocketAddr,
    ) -> Result<Vec<ClientPath>, String> {
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
        let family = if server.is_ipv4() { "IPv4" } else { "IPv6" };
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

    /// Whether any table has a route to `server` that leaves by `link`.
    fn leads_to(&self, link: &Link, server: IpAddr) -> bool {
        self.routes.iter().any(|route| {
            route.interface == Some(link.index)
                && route.table != LOCAL_TABLE
                && route.destination.addr().is_ipv4() == server.is_ipv4()
                && route.destination.contains(server)
        })
    }

    /// The path over `link`, with its addresses of the server's family, the best to start from first.
    fn path(&self, link: &Link, server: IpAddr) -> Option<ClientPath> {
        let mut usable: Vec<&InterfaceAddress> = self
            .addresses
            .iter()
            .filter(|address| address.index == link.index)
            .filter(|address| address.network.addr().is_ipv4() == server.is_ipv4())
            .filter(|address| !address.tentative && !address.link_scope)
            .collect();
        usable.sort_by_key(|address| (address.deprecated, address.secondary && server.is_ipv4()));
        (!usable.is_empty()).then(|| ClientPath {
            name: link.name.clone(),
            interface: link.name.clone(),
            addresses: usable.iter().map(|address| address.network.addr()).collect(),
            backup: None,
            mtu_bytes: Some(link.mtu),
        })
    }

    /// Interfaces without any of these paths, for the names of their addresses in results.
    pub(crate) fn other_interfaces(&self, paths: &[ClientPath]) -> Vec<ClientPath> {
        let addresses = self.routable_addresses();
        let others = self.links.iter().filter(|link| !paths.iter().any(|path| path.interface == link.name));
        others
            .map(|link| ClientPath {
                name: link.name.clone(),
                interface: link.name.clone(),
                addresses: addresses.get(&link.index).cloned().unwrap_or_default(),
                backup: None,
                mtu_bytes: Some(link.mtu),
            })
            .collect()
    }

    /// Every interface's routable addresses by its index.
    pub(crate) fn routable_addresses(&self) -> BTreeMap<u32, Vec<IpAddr>> {
        let mut addresses: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
        for address in self.addresses.iter().filter(|address| !address.link_scope) {
            addresses.entry(address.index).or_default().push(address.network.addr());
        }
        addresses
    }
}

/// The change of the paths to a server between two reads; `None` where they are the same.
pub(crate) fn rerouted(before: &[ClientPath], now: &[ClientPath]) -> Option<String> {
    let names = |paths: &[ClientPath]| {
        let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (before, now) = (names(before), names(now));
    (before != now).then(|| format!("the paths to the server were {before}, and are {now}"))
}

/// The source address that the kernel selects for `server`; sends nothing.
fn kernels_choice(server: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pathbench_host::netlink::MAIN_TABLE;
    use pathbench_record::network::IpNetwork;

    pub(crate) fn link(index: u32, name: &str, up: bool) -> Link {
        Link {
            index,
            name: name.to_owned(),
            mtu: 1500,
            up,
            carrier: up,
            running: up,
            loopback: name == "lo",
            kind: None,
            mac: None,
            master: None,
            gso_max_size: None,
            gso_max_segs: None,
        }
    }

    pub(crate) fn address(index: u32, text: &str) -> InterfaceAddress {
        let network: IpNetwork = text.parse().unwrap();
        let link_scope = matches!(network.addr(), IpAddr::V6(v6) if v6.is_unicast_link_local());
        InterfaceAddress {
            index,
            network,
            tentative: false,
            permanent: true,
            deprecated: false,
            secondary: false,
            link_scope,
        }
    }

    pub(crate) fn route(interface: u32, destination: &str) -> Route {
        Route {
            destination: destination.parse().unwrap(),
            gateway: None,
            interface: Some(interface),
            source: None,
            table: MAIN_TABLE,
            mtu: None,
            mtu_locked: false,
            metric: None,
        }
    }

    /// A laptop: Ethernet, Wi-Fi, a bridge of containers, a modem that is down.
    fn laptop() -> HostNetwork {
        HostNetwork {
            links: vec![
                link(1, "lo", true),
                link(2, "eth0", true),
                link(3, "wlan0", true),
                link(4, "docker0", true),
                link(5, "wwan0", false),
            ],
            addresses: vec![
                address(1, "127.0.0.1/8"),
                address(1, "::1/128"),
                address(2, "192.168.1.2/24"),
                address(2, "2001:db8:1::2/64"),
                address(2, "fe80::2/64"),
                address(3, "192.168.2.2/24"),
                address(3, "fe80::3/64"),
                address(4, "172.17.0.1/16"),
                address(5, "10.0.0.2/8"),
            ],
            routes: vec![
                route(2, "0.0.0.0/0"),
                route(3, "0.0.0.0/0"),
                route(2, "::/0"),
                route(3, "::/0"),
                route(4, "172.17.0.0/16"),
                route(5, "0.0.0.0/0"),
            ],
        }
    }

    fn names(paths: &[ClientPath]) -> Vec<&str> {
        paths.iter().map(|path| path.name.as_str()).collect()
    }

    #[test]
    fn paths_are_interfaces_that_are_up_with_an_address_and_a_route() {
        let laptop = laptop();
        let server: IpAddr = "198.51.100.7".parse().unwrap();
        assert_eq!(names(&laptop.paths_to(server, None)), ["eth0", "wlan0"]);
        let by_wlan = laptop.paths_to(server, Some("192.168.2.2".parse().unwrap()));
        assert_eq!(names(&by_wlan), ["wlan0", "eth0"]);
        // wlan0 has a route for IPv6, but an address for its own link only.
        assert_eq!(names(&laptop.paths_to("2001:db8:9::9".parse().unwrap(), None)), ["eth0"]);
        let container: IpAddr = "172.17.0.5".parse().unwrap();
        assert_eq!(names(&laptop.paths_to(container, None)), ["eth0", "wlan0", "docker0"]);
    }

    #[test]
    fn a_route_that_is_gone_is_noticed() {
        let server: IpAddr = "198.51.100.7".parse().unwrap();
        let before = laptop().paths_to(server, None);
        assert_eq!(rerouted(&before, &laptop().paths_to(server, None)), None);
        let mut less = laptop();
        less.routes.retain(|route| route.interface != Some(3));
        let words = rerouted(&before, &less.paths_to(server, None)).unwrap();
        assert_eq!(words, "the paths to the server were eth0, wlan0, and are eth0");
        less.routes.clear();
        assert!(rerouted(&before, &less.paths_to(server, None)).unwrap().ends_with("and are none"));
    }

    #[test]
    fn a_server_on_this_host_is_reached_by_loopback_alone() {
        for server in ["127.0.0.1", "127.0.0.53", "::1", "192.168.1.2"] {
            assert_eq!(names(&laptop().paths_to(server.parse().unwrap(), None)), ["lo"], "{server}");
        }
    }

    #[test]
    fn what_is_asked_for_and_cannot_be_had_is_said_with_the_remedy() {
        let laptop = laptop();
        let server: IpAddr = "198.51.100.7".parse().unwrap();
        let at = SocketAddr::new(server, 4433);
        let asked = |name: &str| laptop.paths_over(&[name.to_owned()], at);
        let both = ["wlan0".to_owned(), "eth0".to_owned()];
        assert_eq!(names(&laptop.paths_over(&both, at).unwrap()), ["wlan0", "eth0"]);
        for (name, words) in [
            ("eth9", "no interface `eth9`"),
            ("wwan0", "ip link set wwan0 up"),
            ("docker0", "no route to 198.51.100.7 leaves by docker0"),
        ] {
            let error = asked(name).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let v6 =
            laptop.paths_over(&["wlan0".to_owned()], "[2001:db8:9::9]:4433".parse().unwrap()).unwrap_err();
        assert!(v6.contains("no IPv6 address"), "{v6}");
    }
}
