//! Models of hosts, and the kernel's answers to route lookups in them.

use crate::host::facts::{address, default_route, healthy, ip, link, set};
use pathbench_check::facts::{Departure, HostFacts, RouteAnswer};
use pathbench_check::setup::{SetupHost, SetupOptions, SetupPlan, plan};
use pathbench_host::mptcp::{MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::{InterfaceAddress, MAIN_TABLE, NetworkInterface, NextHop, Route, RoutingRule};
use pathbench_host::paths::HostNetwork;
use pathbench_record::network::{AddressFamily, DEFAULT_V4, DEFAULT_V6};
use std::cmp::Reverse;
use std::net::IpAddr;

pub(crate) const ETH0: u32 = 2;
pub(crate) const WLAN0: u32 = 3;
pub(crate) const VPN: u32 = 9;
pub(crate) const BEYOND_V4: &str = "192.0.2.1";
pub(crate) const BEYOND_V6: &str = "2001:db8::1";

/// A host without rules and endpoints: `eth0` 10.1.0.2/24 (metric 100) and `wlan0` 10.2.0.2/24 (metric 200).
pub(crate) fn laptop() -> HostNetwork {
    HostNetwork {
        links: vec![
            NetworkInterface { loopback: true, ..link(1, "lo") },
            link(ETH0, "eth0"),
            link(WLAN0, "wlan0"),
        ],
        addresses: vec![
            InterfaceAddress { link_scope: true, ..address(1, "127.0.0.1/8") },
            address(ETH0, "10.1.0.2/24"),
            address(WLAN0, "10.2.0.2/24"),
        ],
        routes: vec![
            subnet(ETH0, "10.1.0.0/24"),
            subnet(WLAN0, "10.2.0.0/24"),
            metric(default_route(ETH0, "10.1.0.1", MAIN_TABLE), 100),
            metric(default_route(WLAN0, "10.2.0.1", MAIN_TABLE), 200),
        ],
        ..HostNetwork::default()
    }
}

pub(crate) fn subnet(index: u32, to: &str) -> Route {
    Route { interface: Some(index), ..Route::new(to.parse().unwrap()) }
}

pub(crate) fn metric(route: Route, metric: u32) -> Route {
    Route { metric: Some(metric), ..route }
}

pub(crate) fn via(index: u32, to: &str, router: &str) -> Route {
    Route { gateway: Some(ip(router)), ..subnet(index, to) }
}

pub(crate) fn of_kind(index: u32, name: &str, kind: &str) -> NetworkInterface {
    NetworkInterface { kind: Some(kind.to_owned()), ..link(index, name) }
}

pub(crate) fn add(network: &mut HostNetwork, link: NetworkInterface, addresses: &[&str], routes: &[Route]) {
    network.addresses.extend(addresses.iter().map(|text| address(link.index, text)));
    network.links.push(link);
    network.routes.extend(routes);
}

pub(crate) fn rule(from: &str, table: u32, priority: u32) -> RoutingRule {
    RoutingRule { from: from.parse().unwrap(), table, priority }
}

/// The kernel's lookup: the rules in order, in each table the longest prefix and the lowest metric.
pub(crate) fn lookup(
    network: &HostNetwork,
    source: Option<IpAddr>,
    to: IpAddr,
    by: Option<u32>,
) -> RouteAnswer {
    let mut rules: Vec<RoutingRule> = network.rules.clone();
    let everywhere = if to.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 };
    rules.push(RoutingRule { from: everywhere, table: MAIN_TABLE, priority: 32766 });
    rules.sort_by_key(|rule| rule.priority);
    let unspecified = everywhere.addr();
    for rule in rules.iter().filter(|rule| rule.from.contains(&source.unwrap_or(unspecified))) {
        let matching = || {
            network.routes.iter().filter(|route| {
                route.table == rule.table
                    && route.destination.contains(&to)
                    && by.is_none_or(|by| route.interface == Some(by))
            })
        };
        let rank = |route: &Route| (Reverse(route.destination.prefix_len()), route.metric.unwrap_or(0));
        let best = matching().map(rank).min();
        let hop = |route: &Route| NextHop {
            interface: route.interface.unwrap(),
            gateway: route.gateway,
            weight: 1,
            on_link: false,
        };
        let hops: Vec<NextHop> = matching().filter(|route| Some(rank(route)) == best).map(hop).collect();
        if !hops.is_empty() {
            return Ok(hops);
        }
    }
    Err("ENETUNREACH".to_owned())
}

pub(crate) fn primaries(network: &HostNetwork) -> Vec<(IpAddr, RouteAnswer)> {
    let leads = |family| network.links.iter().any(|link| network.leads_beyond(link.index, family));
    let families = AddressFamily::ALL.into_iter().filter(|family| leads(*family));
    let to = families.map(|family| ip(if family == AddressFamily::Ipv4 { BEYOND_V4 } else { BEYOND_V6 }));
    to.map(|to| (to, lookup(network, None, to, None))).collect()
}

pub(crate) fn check_facts(network: &HostNetwork, endpoints: &[MptcpEndpoint]) -> HostFacts {
    let primaries = primaries(network);
    let departures = primaries.iter().flat_map(|(to, _)| {
        let sources = network.addresses.iter().filter(|one| !one.link_scope);
        let sources = sources.filter(|one| one.network.addr().is_ipv4() == to.is_ipv4());
        sources.map(|one| {
            let (source, interface) = (one.network.addr(), one.index);
            let any = lookup(network, Some(source), *to, None);
            let bound = lookup(network, Some(source), *to, Some(interface));
            Departure { source, interface, destination: *to, any, bound }
        })
    });
    let mut facts = healthy();
    facts.departures = departures.collect();
    facts.primaries = primaries;
    facts.endpoints = Ok(endpoints.to_vec());
    facts.limits = Ok(MptcpLimits { subflows: 8, add_addr_accepted: 8 });
    for link in &network.links {
        set(&mut facts, &format!("net.ipv4.conf.{}.rp_filter", link.name), "2");
    }
    facts.network = network.clone();
    facts
}

pub(crate) fn setup_host(network: &HostNetwork, endpoints: &[MptcpEndpoint]) -> SetupHost {
    let HostNetwork { links, addresses, routes, rules } = network.clone();
    let mut host = SetupHost {
        primaries: primaries(network),
        links,
        addresses,
        routes,
        rules,
        endpoints: endpoints.to_vec(),
        limits: Some(MptcpLimits { subflows: 8, add_addr_accepted: 8 }),
        ..SetupHost::default()
    };
    let names: Vec<String> = host.links.iter().map(|link| link.name.clone()).collect();
    for key in SetupHost::setting_keys(names.iter().map(String::as_str)) {
        let value = match key.as_str() {
            "net/mptcp/enabled" => "1",
            "net/mptcp/path_manager" => "kernel",
            _ => "0",
        };
        host.settings.insert(key, value.to_owned());
    }
    host
}

pub(crate) fn planned(host: &SetupHost, bypass_vpn: bool) -> SetupPlan {
    plan(host, &SetupOptions { bypass_vpn, ..SetupOptions::default() }).unwrap()
}

pub(crate) fn commands(plan: &SetupPlan) -> Vec<String> {
    plan.steps.iter().flat_map(|step| step.change.commands.clone()).collect()
}

/// `eth0 10.1.0.2` for each path and family of the check.
pub(crate) fn checked(facts: &HostFacts) -> Vec<String> {
    let paths = AddressFamily::ALL.into_iter().flat_map(|family| facts.paths(family));
    paths.map(|path| format!("{} {}", path.link.name, path.address)).collect()
}
