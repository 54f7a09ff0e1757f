//! Situations of hosts: each has the paths, the findings of `check` and the plan of `setup`. All commands take their paths
//! from one model, so that `check`, `setup`, `test` and `mtu` name the same ones.

use crate::host::facts::{address, default_route, endpoint, ip, link};
use crate::host::model::{
    BEYOND_V4, BEYOND_V6, ETH0, VPN, WLAN0, add, check_facts, checked, commands, laptop, metric, of_kind,
    planned, rule, setup_host, subnet, via,
};
use pathbench_check::finding::Level;
use pathbench_check::host::findings;
use pathbench_host::mptcp::MptcpEndpoint;
use pathbench_host::netlink::{InterfaceAddress, MAIN_TABLE, NetworkInterface, Route};
use pathbench_host::paths::HostNetwork;
use pathbench_record::network::{AddressFamily, DEFAULT_V4, IpNet};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// A situation, and what the commands have to say about it.
struct Situation {
    name: &'static str,
    network: HostNetwork,
    endpoints: Vec<MptcpEndpoint>,
    paths: &'static [&'static str],
    /// `level id subject` of the check's problems and advice.
    findings: &'static [&'static str],
    /// Addresses whose endpoints need a word from the user.
    withheld: &'static [&'static str],
    /// The commands of the plan with that word.
    plan: &'static [&'static str],
}

const LAPTOP: &[&str] = &["eth0 10.1.0.2", "wlan0 10.2.0.2"];
const BOTH: &[&str] = &["10.1.0.2", "10.2.0.2"];

fn endpoints() -> Vec<MptcpEndpoint> {
    vec![endpoint(1, "10.1.0.2", Some(ETH0)), endpoint(2, "10.2.0.2", Some(WLAN0))]
}

/// The rule and the table of `wlan0`, as `setup` makes them.
fn with_source_rule(mut network: HostNetwork) -> HostNetwork {
    network.routes.extend([
        Route { table: 8300, ..subnet(WLAN0, "10.2.0.0/24") },
        default_route(WLAN0, "10.2.0.1", 8300),
    ]);
    network.rules.push(rule("10.2.0.2/32", 8300, 8300));
    network
}

fn changed(mut network: HostNetwork, change: impl FnOnce(&mut HostNetwork)) -> HostNetwork {
    change(&mut network);
    network
}

/// A host that is set up: `check` and `setup` are silent.
fn silent(name: &'static str, change: impl FnOnce(&mut HostNetwork)) -> Situation {
    let network = changed(with_source_rule(laptop()), change);
    Situation {
        name,
        network,
        endpoints: endpoints(),
        paths: LAPTOP,
        findings: &[],
        withheld: &[],
        plan: &[],
    }
}

fn healthy_hosts() -> Vec<Situation> {
    vec![
        silent("two paths", |_| {}),
        silent("a VPN beside, for one network", |network| {
            add(network, of_kind(VPN, "wg0", "wireguard"), &["10.8.0.2/24"], &[subnet(VPN, "10.8.0.0/24")]);
        }),
        silent("a TUN device beside, for some networks", |network| {
            let routes = [subnet(VPN, "10.8.0.0/24"), via(VPN, "172.16.0.0/12", "10.8.0.1")];
            add(network, of_kind(VPN, "tun0", "tun"), &["10.8.0.2/24"], &routes);
        }),
        silent("containers that run", |network| {
            add(network, of_kind(7, "docker0", "bridge"), &["172.17.0.1/16"], &[subnet(7, "172.17.0.0/16")]);
            network.links.push(NetworkInterface { master: Some(7), ..of_kind(8, "veth1", "veth") });
        }),
        silent("no container runs", |network| {
            let bridge = NetworkInterface { carrier: false, ..of_kind(7, "docker0", "bridge") };
            add(network, bridge, &["172.17.0.1/16"], &[subnet(7, "172.17.0.0/16")]);
        }),
        silent("virtual machines", |network| {
            let bridge = of_kind(7, "virbr0", "bridge");
            add(network, bridge, &["192.168.122.1/24"], &[subnet(7, "192.168.122.0/24")]);
        }),
        silent("the network of a router", |network| {
            add(network, link(7, "lan1"), &["192.168.100.1/24"], &[subnet(7, "192.168.100.0/24")]);
        }),
        silent("a VLAN of other hosts", |network| {
            add(
                network,
                of_kind(7, "eth0.20", "vlan"),
                &["192.168.20.2/24"],
                &[subnet(7, "192.168.20.0/24")],
            );
        }),
        silent("local IPv6 addresses without a router", |network| {
            network.addresses.extend([address(ETH0, "fd00::2/64"), address(WLAN0, "fd00:0:0:1::2/64")]);
        }),
    ]
}

impl Situation {
    fn with_paths(self, paths: &'static [&'static str]) -> Self {
        Self { paths, ..self }
    }
}

fn vpn_hosts() -> Vec<Situation> {
    let vpn = |name, change: &dyn Fn(&mut HostNetwork)| Situation {
        name,
        network: changed(with_source_rule(laptop()), change),
        endpoints: Vec::new(),
        paths: LAPTOP,
        findings: &["advice mptcp-endpoint eth0", "advice mptcp-endpoint wlan0"],
        withheld: BOTH,
        plan: &["endpoint add 10.1.0.2 dev eth0", "endpoint add 10.2.0.2 dev wlan0"],
    };
    let tunnel = |kind: &'static str| {
        move |network: &mut HostNetwork, routes: &[Route]| {
            add(network, of_kind(VPN, "vpn0", kind), &["10.99.0.2/24"], routes);
        }
    };
    let halves = [via(VPN, "0.0.0.0/1", "10.99.0.1"), via(VPN, "128.0.0.0/1", "10.99.0.1")];
    let quarters = ["0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2"].map(|to| subnet(VPN, to));
    let table = Route { table: 51820, ..subnet(VPN, "0.0.0.0/0") };
    vec![
        vpn("OpenVPN, def1", &|network| tunnel("tun")(network, &halves)),
        vpn("WireGuard, def1", &|network| tunnel("wireguard")(network, &halves)),
        vpn("a VPN with four routes", &|network| tunnel("tun")(network, &quarters)),
        vpn("wg-quick", &|network| {
            tunnel("wireguard")(network, &[table]);
            network.rules.push(rule("0.0.0.0/0", 51820, 32764));
        }),
        vpn("a default route over a tunnel", &|network| {
            tunnel("wireguard")(network, &[metric(subnet(VPN, "0.0.0.0/0"), 50)]);
        }),
        vpn("a default route over a TUN device, and the route of its packets", &|network| {
            let server = via(ETH0, "203.0.113.5/32", "10.1.0.1");
            tunnel("tun")(network, &[metric(via(VPN, "0.0.0.0/0", "10.99.0.1"), 50), server]);
        }),
    ]
}

fn broken_hosts() -> Vec<Situation> {
    let two = |name, network, findings, plan| Situation {
        name,
        network,
        endpoints: endpoints(),
        paths: LAPTOP,
        findings,
        withheld: &[],
        plan,
    };
    let modem = NetworkInterface { carrier: false, ..link(4, "usb0") };
    let dead = changed(with_source_rule(laptop()), |network| {
        let routes = [subnet(4, "10.4.0.0/24"), metric(default_route(4, "10.4.0.1", MAIN_TABLE), 50)];
        add(network, modem.clone(), &["10.4.0.2/24"], &routes);
    });
    let half_dead = changed(with_source_rule(laptop()), |network| {
        network.routes.retain(|route| route.destination != DEFAULT_V4 || route.table != MAIN_TABLE);
        let hops = [default_route(ETH0, "10.1.0.1", MAIN_TABLE), default_route(4, "10.4.0.1", MAIN_TABLE)];
        add(network, modem, &["10.4.0.2/24"], &hops);
    });
    let balanced = changed(laptop(), |network| {
        for route in &mut network.routes {
            route.metric = None;
        }
    });
    let carrierless = &["problem default-route usb0", "advice interface usb0"];
    let repaired = &["net.ipv4.conf.usb0.ignore_routes_with_linkdown=1"];
    let ecmp = &[
        "ip route add 10.1.0.0/24 dev eth0 proto static table 8300",
        "ip route add default via 10.1.0.1 dev eth0 proto static table 8300",
        "ip rule add from 10.1.0.2 lookup 8300 priority 8300",
        "ip route add 10.2.0.0/24 dev wlan0 proto static table 8301",
        "ip route add default via 10.2.0.1 dev wlan0 proto static table 8301",
        "ip rule add from 10.2.0.2 lookup 8301 priority 8301",
    ];
    vec![
        two("the best default route has no carrier", dead, carrierless, repaired),
        Situation {
            plan: &["ip rule add from 10.1.0.2", "net.ipv4.conf.usb0.ignore_routes_with_linkdown=1"],
            ..two("one of two next hops has no carrier", half_dead, carrierless, repaired)
        },
        two("two next hops (ECMP)", balanced, &[], ecmp),
        Situation {
            endpoints: vec![endpoint(1, "10.1.0.2", Some(ETH0)), endpoint(2, "2001:db8:2::2", Some(WLAN0))],
            ..two("one path of each family", mixed(), &[], &[])
        }
        .with_paths(&["eth0 10.1.0.2", "wlan0 2001:db8:2::2"]),
        two(
            "privacy addresses",
            private(),
            &[],
            &["add 2001:db8:1::2 dev eth0", "add 2001:db8:2::2 dev wlan0"],
        )
        .with_paths(&[
            "eth0 10.1.0.2",
            "wlan0 10.2.0.2",
            "eth0 2001:db8:1::2",
            "wlan0 2001:db8:2::2",
        ]),
    ]
}

/// Router advertisements with privacy extensions: a deprecated and a preferred temporary address beside the stable one.
fn private() -> HostNetwork {
    changed(with_source_rule(laptop()), |network| {
        for (index, net) in [(ETH0, 1), (WLAN0, 2)] {
            let at = |host: &str| address(index, &format!("2001:db8:{net}::{host}/64"));
            network.addresses.extend([
                InterfaceAddress { secondary: true, deprecated: true, permanent: false, ..at("bad") },
                InterfaceAddress { secondary: true, permanent: false, ..at("cafe") },
                InterfaceAddress { permanent: false, ..at("2") },
            ]);
            let router = default_route(index, &format!("2001:db8:{net}::1"), MAIN_TABLE);
            network.routes.push(metric(router, 1024 + index));
        }
    })
}

fn mixed() -> HostNetwork {
    changed(laptop(), |network| {
        network.addresses[2] = address(WLAN0, "2001:db8:2::2/64");
        network.routes.retain(|route| route.interface != Some(WLAN0));
        network.routes.push(default_route(WLAN0, "2001:db8:2::1", MAIN_TABLE));
    })
}

fn routers_and_bonds() -> Vec<Situation> {
    let router = {
        let mut network = with_source_rule(laptop());
        for (index, table) in [(ETH0, 101), (WLAN0, 102)] {
            network.routes.push(default_route(index, &format!("10.{}.0.1", index - 1), table));
            network.rules.push(rule(&format!("10.{}.0.2/32", index - 1), table, table));
        }
        let bridge = of_kind(7, "br-lan", "bridge");
        add(&mut network, bridge, &["192.168.100.1/24"], &[subnet(7, "192.168.100.0/24")]);
        network
    };
    let bond = {
        let mut network = with_source_rule(laptop());
        network.links[1].kind = Some("bond".to_owned());
        for (index, name) in [(11, "ens1"), (12, "ens2")] {
            network.links.push(NetworkInterface { master: Some(ETH0), ..link(index, name) });
        }
        network
    };
    let vlan = {
        let mut network = with_source_rule(laptop());
        network.links[1].kind = Some("vlan".to_owned());
        network.links[2].kind = Some("macvlan".to_owned());
        network
    };
    let of = |name, network| Situation {
        name,
        network,
        endpoints: endpoints(),
        paths: LAPTOP,
        findings: &[],
        withheld: &[],
        plan: &[],
    };
    vec![of("a router with two WANs", router), of("a bond", bond), of("VLANs", vlan)]
}

fn situations() -> Vec<Situation> {
    let mut all = healthy_hosts();
    all.extend(vpn_hosts());
    all.extend(broken_hosts());
    all.extend(routers_and_bonds());
    all
}

#[test]
fn check_and_setup_say_the_same_about_each_situation() {
    for situation in situations() {
        let name = situation.name;
        let facts = check_facts(&situation.network, &situation.endpoints);
        let found = findings(&facts);
        let notable: Vec<String> = found
            .iter()
            .filter(|one| matches!(one.level, Level::Problem | Level::Advice))
            .map(|one| {
                let level: &str = one.level.into();
                format!("{level} {} {}", one.id.name(), one.subject.as_deref().unwrap_or_default())
            })
            .collect();
        assert_eq!(notable, situation.findings, "{name}: {found:#?}");
        assert_eq!(checked(&facts), situation.paths, "{name}");
        let host = setup_host(&situation.network, &situation.endpoints);
        let careful = planned(&host, false);
        let withheld: Vec<String> = careful.withheld.iter().map(|one| one.address.to_string()).collect();
        assert_eq!(withheld, situation.withheld, "{name}: {careful:#?}");
        assert_eq!(careful.why_withheld().is_some(), !withheld.is_empty(), "{name}");
        if !withheld.is_empty() {
            assert!(
                careful.steps.is_empty() && careful.why_withheld().unwrap().contains("VPN vpn0"),
                "{careful:#?}"
            );
            assert!(careful.notes.iter().any(|note| note.contains("vpn0 is a tunnel")), "{careful:#?}");
        }
        let bold = commands(&planned(&host, true));
        for wanted in situation.plan {
            assert!(
                bold.iter().any(|command| command.contains(wanted)),
                "{name}: {wanted} is not in {bold:#?}"
            );
        }
        assert_eq!(bold.is_empty(), situation.plan.is_empty(), "{name}: {bold:#?}");
    }
}

#[test]
fn all_commands_name_the_same_paths() {
    for situation in situations() {
        let (name, network) = (situation.name, &situation.network);
        let facts = check_facts(network, &situation.endpoints);
        let by_check: BTreeSet<String> = AddressFamily::ALL
            .into_iter()
            .flat_map(|family| facts.paths(family))
            .map(|path| path.address.to_string())
            .collect();
        let plan = planned(&setup_host(network, &situation.endpoints), true);
        let by_setup: BTreeSet<String> =
            plan.paths.iter().flat_map(|path| &path.addresses).map(|at| at.address.to_string()).collect();
        assert_eq!(by_check, by_setup, "{name}");
        let vpn = facts.vpn(None).map(|link| link.name.clone());
        let mut by_test = BTreeSet::new();
        for to in [BEYOND_V4, BEYOND_V6].map(|to| SocketAddr::new(ip(to), 4433)) {
            let Ok((probed, _)) = network.probed_paths(&[], &[to]) else { continue };
            let independent = probed.into_iter().filter(|path| Some(&path.interface) != vpn.as_ref());
            by_test.extend(independent.map(|path| path.local.to_string()));
            let tested = network.paths_to(to.ip(), None);
            let own = facts.paths(AddressFamily::from_address(to.ip())).len();
            let others = tested.iter().filter(|path| Some(&path.interface) != vpn.as_ref()).count();
            assert_eq!(others, own, "{name}: {tested:?}");
        }
        assert_eq!(by_check, by_test, "{name}");
    }
}

/// The routes of a plan are of one interface each, and what two next hops reached stays reachable.
#[test]
fn ecmp_keeps_both_routers_after_a_plan() {
    let balanced = broken_hosts().into_iter().find(|one| one.name.contains("ECMP")).unwrap();
    let host = setup_host(&balanced.network, &[]);
    let steps = commands(&planned(&host, false)).join("\n");
    for (router, name) in [("10.1.0.1", "eth0"), ("10.2.0.1", "wlan0")] {
        assert!(steps.contains(&format!("default via {router} dev {name}")), "{steps}");
    }
    // Links to each other's subnets are for direct links without a router.
    assert!(!steps.contains("10.2.0.0/24 dev eth0") && !steps.contains("10.1.0.0/24 dev wlan0"), "{steps}");
}

#[test]
fn a_userspace_path_manager_without_mptcpd_is_a_step_of_the_plan() {
    let network = with_source_rule(laptop());
    let mut host = setup_host(&network, &endpoints());
    assert_eq!(commands(&planned(&host, false)), [""; 0]);
    for (key, value, command) in [
        ("net/mptcp/path_manager", "userspace", "sysctl -w net.mptcp.path_manager=kernel"),
        ("net/mptcp/pm_type", "1", "sysctl -w net.mptcp.pm_type=0"),
    ] {
        if key == "net/mptcp/pm_type" {
            // A kernel before 6.15.
            host.settings.remove("net/mptcp/path_manager");
        }
        host.settings.insert(key.to_owned(), value.to_owned());
        assert_eq!(commands(&planned(&host, false)), [command]);
        host.has_mptcpd = true;
        assert_eq!(commands(&planned(&host, false)), [""; 0], "the choice of mptcpd");
        host.has_mptcpd = false;
    }
}

/// An endpoint that is there is the user's word.
#[test]
fn an_endpoint_beside_a_vpn_that_is_there_needs_no_further_word() {
    let vpn = vpn_hosts().swap_remove(0);
    let plan = planned(&setup_host(&vpn.network, &endpoints()), false);
    assert!(plan.withheld.is_empty() && plan.why_single_path().is_none(), "{plan:#?}");
    let found = findings(&check_facts(&vpn.network, &endpoints()));
    let bypass = found.iter().find(|one| one.id.name() == "vpn-bypass").unwrap();
    assert_eq!(bypass.subject.as_deref(), Some("vpn0"), "{found:#?}");
}

/// The VPN has removed the default route of its underlay: the route of its own packets is left.
#[test]
fn a_vpn_that_replaced_the_default_route_is_named() {
    let network = changed(laptop(), |network| {
        network.routes.retain(|route| route.destination != DEFAULT_V4);
        let routes = [via(VPN, "0.0.0.0/0", "10.99.0.1"), via(ETH0, "203.0.113.5/32", "10.1.0.1")];
        add(network, of_kind(VPN, "tun0", "tun"), &["10.99.0.2/24"], &routes);
    });
    let facts = check_facts(&network, &[]);
    assert_eq!(facts.vpn(None).map(|link| link.name.as_str()), Some("tun0"));
    assert_eq!(checked(&facts), ["eth0 10.1.0.2"]);
    let plan = planned(&setup_host(&network, &[]), false);
    assert_eq!(plan.withheld.len(), 1, "{plan:#?}");
}

/// A VPN's program has ended: packets past its routes would leave in clear text.
#[test]
fn the_routes_of_a_vpn_without_a_carrier_are_not_ignored() {
    let network = changed(with_source_rule(laptop()), |network| {
        let routes = [via(VPN, "0.0.0.0/1", "10.99.0.1"), via(VPN, "128.0.0.0/1", "10.99.0.1")];
        let tunnel = NetworkInterface { carrier: false, ..of_kind(VPN, "tun0", "tun") };
        add(network, tunnel, &["10.99.0.2/24"], &routes);
    });
    let found = findings(&check_facts(&network, &[]));
    let route = found.iter().find(|one| one.id.name() == "default-route").unwrap();
    assert!(
        route.level == Level::Problem && route.remedy[0].starts_with("start the VPN of tun0"),
        "{route:#?}"
    );
    let plan = planned(&setup_host(&network, &[]), false);
    assert!(plan.steps.is_empty() && plan.withheld.len() == 2, "{plan:#?}");
}

/// A lease names the router of an interface without a default route: `check` and `setup` take it for a path.
#[test]
fn a_leased_router_makes_an_interface_a_path() {
    let network = changed(laptop(), |network| {
        network.routes.retain(|route| route.interface != Some(WLAN0) || route.destination != DEFAULT_V4);
    });
    let mut facts = check_facts(&network, &[]);
    assert_eq!(checked(&facts), ["eth0 10.1.0.2"]);
    facts.leased_routers.insert(WLAN0, vec![ip("10.2.0.1")]);
    assert_eq!(checked(&facts), LAPTOP);
    let mut host = setup_host(&network, &[]);
    host.leased_routers = facts.leased_routers;
    let plan = planned(&host, false);
    let interfaces: Vec<&str> = plan.paths.iter().map(|path| path.interface.as_str()).collect();
    assert_eq!(interfaces, ["eth0", "wlan0"]);
}

/// Links of a lab can be TUN devices: a plain default route by one is no VPN.
#[test]
fn a_tun_device_with_a_plain_default_route_is_a_path() {
    let network =
        changed(with_source_rule(laptop()), |network| network.links[1].kind = Some("tun".to_owned()));
    let facts = check_facts(&network, &endpoints());
    assert_eq!(
        (facts.vpn(None), checked(&facts)),
        (None, LAPTOP.iter().map(|one| (*one).to_owned()).collect())
    );
}

/// A privacy or deprecated address makes an interface a path only where it has no other.
#[test]
fn an_address_that_lasts_is_preferred() {
    let lasting = "2001:db8:1::2/64";
    let at =
        |text: &str, secondary, deprecated| InterfaceAddress { secondary, deprecated, ..address(ETH0, text) };
    for (addresses, expected) in [
        (vec![at("2001:db8:1::aa/64", true, false), at(lasting, false, false)], vec!["2001:db8:1::2"]),
        (vec![at("2001:db8:9::aa/64", false, true), at(lasting, false, false)], vec!["2001:db8:1::2"]),
        (vec![at("fd00::2/64", false, false), at(lasting, false, false)], vec!["2001:db8:1::2"]),
        (vec![at("2001:db8:1::aa/64", true, false)], vec!["2001:db8:1::aa"]),
        (
            vec![at("2001:db8:1::aa/64", true, true), at("2001:db8:1::bb/64", true, false)],
            vec!["2001:db8:1::bb"],
        ),
        (
            vec![at("2001:db8:7::2/64", false, false), at(lasting, false, false)],
            vec!["2001:db8:7::2", "2001:db8:1::2"],
        ),
    ] {
        let network = HostNetwork { addresses, ..HostNetwork::default() };
        let found = network.path_addresses(ETH0, AddressFamily::Ipv6);
        let found: Vec<String> = found.iter().map(|at| at.address.to_string()).collect();
        assert_eq!(found, expected);
    }
}

/// The subnet of a path is a network, and its address lies in it.
#[test]
fn path_addresses_lie_in_their_subnets() {
    for situation in situations() {
        for link in &situation.network.links {
            for at in situation.network.path_addresses(link.index, AddressFamily::Ipv4) {
                let subnet: IpNet = at.subnet;
                assert!(subnet.contains(&at.address) && subnet == subnet.trunc(), "{at:?}");
            }
        }
    }
}
