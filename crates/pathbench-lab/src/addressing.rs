//! Derives the configuration of each node (addresses, routes, source rules) from a topology. Pure.
//!
//! In a lab only the client's address determines the link of a packet, in both directions. The hosts route by *source*:
//! each link has its own table, and traffic from an address of the link leaves by that link, for every destination,
//! unless the scenario leaves the source rules out.
//! The server routes by *destination*: a packet to the client's address on a link leaves by that link, from any of the
//! server's addresses. For example, a subflow from the client's `wlan` address to the server's `eth` address uses
//! `wlan` in both directions. The main table has routes to other subnets over the path with the fewest hops. Routers
//! have routes through a host to its addresses on other links: a host accepts packets to any of its addresses on any of
//! its links (the weak host model of RFC 1122, section 3.3.4.2), and the destination of a subflow on one path may be
//! the server's address on another path.

use crate::scenario::{LinkPlan, TopologyPlan};
use pathbench_host::netlink::{Route, RoutingRule};
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

/// Table and rule priority of a node's first link; they increase by 1 for each further link.
const FIRST_SOURCE_TABLE: u32 = 1000;

/// The configuration of one end of a link on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfacePlan {
    pub link: usize,
    pub interface: String,
    pub addresses: Vec<IpNet>,
    pub routes: Vec<Route>,
    pub rules: Vec<RoutingRule>,
}

/// The interfaces of `node`, in the order of the topology's links. `server` is the host that accepts connections.
pub fn interfaces(topology: &TopologyPlan, node: &str, server: &str) -> Vec<InterfacePlan> {
    let routes_by_source = node != server && topology.node(node).is_some_and(|node| node.source_rules);
    let mut plans: Vec<InterfacePlan> = Vec::new();
    for (index, link) in topology.links.iter().enumerate() {
        let Some(end) = link.end_of(node) else { continue };
        let table = FIRST_SOURCE_TABLE + plans.len() as u32;
        plans.push(InterfacePlan {
            link: index,
            interface: link.ends[end].interface.clone(),
            addresses: link.ends[end].addresses.clone(),
            routes: if routes_by_source { source_routes(link, end, table) } else { Vec::new() },
            rules: if routes_by_source { source_rules(link, end, table) } else { Vec::new() },
        });
    }
    for (link, via, destination) in remote_subnets(topology, node) {
        if let Some(plan) = plans.iter_mut().find(|plan| plan.link == link) {
            plan.routes.push(Route { gateway: Some(via), ..Route::new(destination) });
        }
    }
    plans
}

fn source_rules(link: &LinkPlan, end: usize, table: u32) -> Vec<RoutingRule> {
    let rule = |own: &IpNet| RoutingRule { from: own.addr().into(), table, priority: table };
    link.ends[end].addresses.iter().map(rule).collect()
}

/// The link's own subnets and a default route over its other end, for each address family of the link.
fn source_routes(link: &LinkPlan, end: usize, table: u32) -> Vec<Route> {
    let mut routes = Vec::new();
    for own in &link.ends[end].addresses {
        routes.push(Route { table, ..Route::new(own.trunc()) });
        if let Some(peer) = same_family(&link.ends[1 - end].addresses, own) {
            let everything = if peer.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 };
            routes.push(Route { gateway: Some(peer), table, ..Route::new(everything) });
        }
    }
    routes
}

/// Every subnet to which `node` is not attached, with the link and next hop of the shortest path to it. For a router,
/// also the addresses of hosts in subnets that no router reaches.
fn remote_subnets(topology: &TopologyPlan, node: &str) -> Vec<(usize, IpAddr, IpNet)> {
    // The nodes that are found, each with the first link to it and that link's end at `node`.
    let mut found: Vec<(&str, usize, usize)> = Vec::new();
    for (index, link) in topology.links.iter().enumerate() {
        if let Some(end) = link.end_of(node) {
            found.push((&link.ends[1 - end].node, index, end));
        }
    }
    let mut reached: BTreeSet<usize> = found.iter().map(|&(_, link, _)| link).collect();
    let mut visited: BTreeSet<&str> = BTreeSet::from([node]);
    let next = found.iter().copied().filter(|&(next, ..)| topology.is_router(next) && visited.insert(next));
    let mut queue: VecDeque<_> = next.collect();
    let mut routes = Vec::new();
    while let Some((router, first_link, first_end)) = queue.pop_front() {
        for (index, link) in topology.links.iter().enumerate() {
            let Some(end) = link.end_of(router) else { continue };
            if reached.insert(index) {
                let first_hop = &topology.links[first_link].ends[1 - first_end].addresses;
                for subnet in &link.ends[end].addresses {
                    if let Some(via) = same_family(first_hop, subnet) {
                        routes.push((first_link, via, subnet.trunc()));
                    }
                }
            }
            let next = &link.ends[1 - end].node;
            found.push((next, first_link, first_end));
            if topology.is_router(next) && visited.insert(next) {
                queue.push_back((next, first_link, first_end));
            }
        }
    }
    if topology.is_router(node) {
        found.retain(|(host, ..)| !topology.is_router(host));
        routes.extend(through_hosts(topology, &reached, &found));
    }
    routes
}

/// The addresses of `hosts` (nearest first) on links that are not `reached`.
fn through_hosts(
    topology: &TopologyPlan,
    reached: &BTreeSet<usize>,
    hosts: &[(&str, usize, usize)],
) -> Vec<(usize, IpAddr, IpNet)> {
    let mut routes = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for &(host, first_link, first_end) in hosts {
        if !known.insert(host) {
            continue;
        }
        let first_hop = &topology.links[first_link].ends[1 - first_end].addresses;
        for (index, link) in topology.links.iter().enumerate() {
            let Some(end) = link.end_of(host) else { continue };
            if !reached.contains(&index) {
                for subnet in &link.ends[end].addresses {
                    if let Some(via) = same_family(first_hop, subnet) {
                        routes.push((first_link, via, subnet.addr().into()));
                    }
                }
            }
        }
    }
    routes
}

fn same_family(addresses: &[IpNet], like: &IpNet) -> Option<IpAddr> {
    addresses.iter().map(IpNet::addr).find(|address| address.is_ipv4() == like.addr().is_ipv4())
}
