//! The paths of a host to a server, and the changes that affect them.

use pathbench_host::netlink::{InterfaceAddress, MAIN_TABLE, NetworkInterface, Route};
use pathbench_host::paths::{ChangeFilter, HostNetwork, describe_reroute};
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use pathbench_record::network::{ClientPath, IpNet};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

fn link(index: u32, name: &str, up: bool) -> NetworkInterface {
    NetworkInterface {
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

fn address(index: u32, text: &str) -> InterfaceAddress {
    let network: IpNet = text.parse().unwrap();
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

fn route(interface: u32, destination: &str) -> Route {
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

/// A laptop: Ethernet, Wi-Fi, a container bridge, a modem that is down.
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
        ..HostNetwork::default()
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
    // wlan0 has an IPv6 route, but only a link-local address.
    assert_eq!(names(&laptop.paths_to("2001:db8:9::9".parse().unwrap(), None)), ["eth0"]);
    let container: IpAddr = "172.17.0.5".parse().unwrap();
    assert_eq!(names(&laptop.paths_to(container, None)), ["eth0", "wlan0", "docker0"]);
}

#[test]
fn a_removed_route_is_reported() {
    let server: IpAddr = "198.51.100.7".parse().unwrap();
    let before = laptop().paths_to(server, None);
    assert_eq!(describe_reroute(&before, &laptop().paths_to(server, None)), None);
    let mut less = laptop();
    less.routes.retain(|route| route.interface != Some(3));
    let words = describe_reroute(&before, &less.paths_to(server, None)).unwrap();
    assert_eq!(words, "the paths to the server were eth0, wlan0, and are eth0");
    less.routes.clear();
    assert!(describe_reroute(&before, &less.paths_to(server, None)).unwrap().ends_with("and are none"));
}

#[test]
fn a_server_on_this_host_is_reached_by_loopback_alone() {
    for server in ["127.0.0.1", "127.0.0.53", "::1", "192.168.1.2"] {
        assert_eq!(names(&laptop().paths_to(server.parse().unwrap(), None)), ["lo"], "{server}");
    }
}

#[test]
fn an_interface_without_a_path_is_named_with_the_remedy() {
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
    let v6 = laptop.paths_over(&["wlan0".to_owned()], "[2001:db8:9::9]:4433".parse().unwrap()).unwrap_err();
    assert!(v6.contains("no IPv6 address"), "{v6}");
}

#[test]
fn an_interface_without_a_carrier_is_no_path() {
    let mut laptop = laptop();
    laptop.links[1].carrier = false;
    let server: IpAddr = "198.51.100.7".parse().unwrap();
    assert_eq!(names(&laptop.paths_to(server, None)), ["wlan0"]);
    let error = laptop.paths_over(&["eth0".to_owned()], SocketAddr::new(server, 4433)).unwrap_err();
    assert!(error.contains("eth0 has no carrier"), "{error}");
}

/// A tunnel that takes no new connections runs over the other paths.
#[test]
fn only_the_tunnel_of_new_connections_is_tested_beside_paths() {
    let mut laptop = laptop();
    let wireguard = NetworkInterface { kind: Some("wireguard".to_owned()), ..link(9, "wg0", true) };
    laptop.links.push(wireguard);
    laptop.addresses.push(address(9, "10.8.0.2/24"));
    laptop.routes.push(Route { table: 51820, ..route(9, "0.0.0.0/0") });
    let server: IpAddr = "198.51.100.7".parse().unwrap();
    assert_eq!(names(&laptop.paths_to(server, None)), ["eth0", "wlan0"]);
    let by_vpn = laptop.paths_to(server, Some("10.8.0.2".parse().unwrap()));
    assert_eq!(names(&by_vpn), ["wg0", "eth0", "wlan0"]);
}

fn event(index: u32, name: &str, change: LinkChange) -> LinkEvent {
    LinkEvent { index, name: Some(name.to_owned()), change }
}

fn added(text: &str) -> LinkChange {
    LinkChange::AddressAdded(text.parse().unwrap())
}

fn removed(text: &str) -> LinkChange {
    LinkChange::AddressRemoved(text.parse().unwrap())
}

#[test]
fn only_changes_that_affect_a_test_count() {
    let network = HostNetwork { addresses: vec![address(2, "192.0.2.2/24")], ..HostNetwork::default() };
    let mut filter = ChangeFilter::new(&network);
    filter.interfaces = BTreeSet::from(["eth0".to_owned()]);
    let mut words = |event: &LinkEvent| filter.change(event);
    let change = |words: &str| Some(words.to_owned());
    assert_eq!(words(&event(2, "eth0", LinkChange::Down)), change("eth0 down"));
    assert_eq!(words(&event(2, "eth0", LinkChange::Mtu(1400))), change("eth0 mtu 1400"));
    // An interface of another program appears and disappears.
    assert_eq!(words(&event(9, "veth7", LinkChange::Appeared)), None);
    assert_eq!(words(&event(9, "veth7", LinkChange::Up)), None);
    assert_eq!(words(&event(9, "veth7", added("fe80::9/64"))), None);
    // A lease is renewed; an address is removed and added again.
    assert_eq!(words(&event(2, "eth0", added("192.0.2.2/24"))), None);
    assert_eq!(
        words(&event(2, "eth0", removed("192.0.2.2/24"))),
        change("eth0 address 192.0.2.2/24 removed")
    );
    assert_eq!(words(&event(2, "eth0", removed("192.0.2.2/24"))), None);
    assert_eq!(words(&event(2, "eth0", added("192.0.2.2/24"))), change("eth0 address 192.0.2.2/24 added"));
    // An address of a further interface counts, too.
    assert_eq!(
        words(&event(3, "wlan0", added("198.51.100.2/24"))),
        change("wlan0 address 198.51.100.2/24 added")
    );
}

fn network(addresses: &[(u32, &str, bool)]) -> HostNetwork {
    let address = |&(index, text, deprecated): &(u32, &str, bool)| InterfaceAddress {
        deprecated,
        ..address(index, text)
    };
    let routes = |index| ["0.0.0.0/0", "::/0"].map(|to| route(index, to));
    HostNetwork {
        links: vec![link(2, "eth", true), link(3, "wlan", true)],
        addresses: addresses.iter().map(address).collect(),
        routes: [2, 3].into_iter().flat_map(routes).collect(),
        ..HostNetwork::default()
    }
}

fn chosen(addresses: &[(u32, &str, bool)], servers: &[&str]) -> Vec<(String, String)> {
    let servers: Vec<SocketAddr> = servers.iter().map(|server| server.parse().unwrap()).collect();
    let (paths, _) = network(addresses).probed_paths(&[], &servers).unwrap();
    paths.into_iter().map(|path| (path.name, path.local.to_string())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, local)| ((*name).to_owned(), (*local).to_owned())).collect()
}

const V4: &str = "198.51.100.7:4433";
const V6: &str = "[2001:db8:9::9]:4433";

#[test]
fn a_path_is_an_interface_and_its_address() {
    let addresses = [(2, "192.0.2.2/25", false), (3, "192.0.2.130/25", false)];
    assert_eq!(chosen(&addresses, &[V4]), pairs(&[("eth", "192.0.2.2"), ("wlan", "192.0.2.130")]));
}

#[test]
fn several_paths_of_one_interface_have_names_of_their_own() {
    let addresses = [(2, "192.0.2.2/25", false), (2, "2001:db8:1::2/64", false)];
    assert_eq!(
        chosen(&addresses, &[V4, V6]),
        pairs(&[("eth IPv4", "192.0.2.2"), ("eth IPv6", "2001:db8:1::2")])
    );
    let two_subnets = [(2, "192.0.2.2/25", false), (2, "192.0.2.130/25", false)];
    assert_eq!(
        chosen(&two_subnets, &[V4]),
        pairs(&[("eth 192.0.2.2", "192.0.2.2"), ("eth 192.0.2.130", "192.0.2.130")])
    );
}

#[test]
fn addresses_of_one_subnet_are_one_path_and_deprecated_ones_none() {
    let addresses = [
        (2, "2001:db8:1::2/64", false),
        (2, "2001:db8:1::3/64", false),
        (2, "2001:db8:2::2/64", true),
        (3, "2001:db8:3::2/64", true),
    ];
    assert_eq!(chosen(&addresses, &[V6]), pairs(&[("eth", "2001:db8:1::2"), ("wlan", "2001:db8:3::2")]));
}

#[test]
fn interfaces_without_a_path_are_named_with_the_reason() {
    let network = network(&[(2, "192.0.2.2/25", false)]);
    let (v4, v6): (SocketAddr, SocketAddr) = (V4.parse().unwrap(), V6.parse().unwrap());
    let only_v6 = network.probed_paths(&[], &[v6]).unwrap_err();
    assert!(only_v6.contains("has an address and a route to 2001:db8:9::9"), "{only_v6}");
    let named = network.probed_paths(&["wlan".to_owned()], &[v4]).unwrap_err();
    assert!(named.contains("no IPv4 address"), "{named}");
    // One family is sufficient; the other is in the notes.
    let (paths, notes) = network.probed_paths(&["eth".to_owned()], &[v4, v6]).unwrap();
    assert_eq!((paths.len(), notes.len()), (1, 1), "{paths:?} {notes:?}");
}
