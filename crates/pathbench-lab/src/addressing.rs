//! From a topology to what each node must have configured: addresses, routes, source rules. Pure.
//!
//! In a lab the client's address alone decides which link a packet takes, both ways. The hosts route by
//! *source*: each link has a table of its own, and traffic from an address of the link leaves by that link,
//! whatever its destination. The server routes by *destination*: what goes to the client's address on a link
//! goes over that link, whichever of the server's addresses it comes from. So a subflow from the client's
//! `wlan` to the server's `eth` address runs over `wlan` in both directions. The main table reaches every
//! other subnet by the path with the fewest hops. Routers reach the addresses that a host has elsewhere through that
//! host: a host takes packets to any of its addresses on any of its links (the weak host model of RFC 1122, section
//! 3.3.4.2), and a subflow on one path may go to the server's address on another.

use crate::scenario::{Link, Role, Topology};
use pathbench_record::network::IpNetwork;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

/// Table and rule priority of a node's first link; the next links count up from it.
const FIRST_SOURCE_TABLE: u32 = 1000;

pub(crate) type Prefix = (IpAddr, u8);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedRoute {
    pub(crate) destination: Prefix,
    /// Next hop; absent for the link's own subnet.
    pub(crate) gateway: Option<IpAddr>,
    /// Routing table; `None` is the main one.
    pub(crate) table: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceRule {
    pub(crate) from: IpAddr,
    pub(crate) table: u32,
}

/// What one end of a link must have configured on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfacePlan {
    pub(crate) link: usize,
    /// 0 or 1: which of the link's ends this is.
    pub(crate) end: usize,
    pub(crate) interface: String,
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) routes: Vec<PlannedRoute>,
    pub(crate) rules: Vec<SourceRule>,
}

/// The interfaces of `node`, in the order of the topology's links. `server` is the host that accepts connections.
pub(crate) fn interfaces(topology: &Topology, node: &str, server: &str) -> Vec<InterfacePlan> {
    let routes_by_source = node != server && !forwards(topology, node);
    let mut plans: Vec<InterfacePlan> = Vec::new();
    for (index, link) in topology.links.iter().enumerate() {
        for end in 0..2 {
            if link.ends[end].node == node {
                let table = FIRST_SOURCE_TABLE + plans.len() as u32;
                plans.push(InterfacePlan {
                    link: index,
                    end,
                    interface: link.ends[end].interface.clone(),
                    addresses: link.ends[end].addresses.clone(),
                    routes: if routes_by_source { source_routes(link, end, table) } else { Vec::new() },
                    rules: if routes_by_source { source_rules(link, end, table) } else { Vec::new() },
                });
            }
        }
    }
    for (link, via, destination) in remote_subnets(topology, node) {
        if let Some(plan) = plans.iter_mut().find(|plan| plan.link == link) {
            plan.routes.push(PlannedRoute { destination, gateway: Some(via), table: None });
        }
    }
    plans
}

fn source_rules(link: &Link, end: usize, table: u32) -> Vec<SourceRule> {
    link.ends[end].addresses.iter().map(|&(from, _)| SourceRule { from, table }).collect()
}

/// The link's own subnets and a default route over its other end, for each address family of the link.
fn source_routes(link: &Link, end: usize, table: u32) -> Vec<PlannedRoute> {
    let mut routes = Vec::new();
    for &(address, length) in &link.ends[end].addresses {
        routes.push(PlannedRoute {
            destination: (network(address, length), length),
            gateway: None,
            table: Some(table),
        });
        if let Some(peer) = same_family(&link.ends[1 - end].addresses, address) {
            routes.push(PlannedRoute {
                destination: (IpNetwork::default_for(address).addr(), 0),
                gateway: Some(peer),
                table: Some(table),
            });
        }
    }
    routes
}

/// Every subnet that `node` is not attached to, with the link and next hop of the shortest way there; for a router also
/// the addresses of hosts in subnets to which no routers lead.
fn remote_subnets(topology: &Topology, node: &str) -> Vec<(usize, IpAddr, Prefix)> {
    let attached: BTreeSet<usize> = (0..topology.links.len())
        .filter(|&link| topology.links[link].ends.iter().any(|end| end.node == node))
        .collect();
    let mut reached: BTreeSet<usize> = attached.clone();
    let mut visited: BTreeSet<&str> = BTreeSet::from([node]);
    let mut queue: VecDeque<(&str, usize, usize)> = VecDeque::new(); // node, first link, its end at `node`
    for &link in &attached {
        for end in 0..2 {
            let here = &topology.links[link].ends[end];
            let there = &topology.links[link].ends[1 - end];
            if here.node == node && forwards(topology, &there.node) && visited.insert(&there.node) {
                queue.push_back((&there.node, link, end));
            }
        }
    }
    let mut routes = Vec::new();
    // Neighbours that do not forward, with the way to them.
    let mut hosts: Vec<(&str, usize, usize)> = Vec::new();
    if forwards(topology, node) {
        for &link in &attached {
            let here = usize::from(topology.links[link].ends[1].node == node);
            hosts.push((&topology.links[link].ends[1 - here].node, link, here));
        }
    }
    while let Some((router, first_link, first_end)) = queue.pop_front() {
        for (index, link) in topology.links.iter().enumerate() {
            let Some(end) = link.ends.iter().position(|end| end.node == router) else { continue };
            if reached.insert(index) {
                let first_hop = &topology.links[first_link].ends[1 - first_end].addresses;
                for &(address, length) in &link.ends[end].addresses {
                    if let Some(via) = same_family(first_hop, address) {
                        routes.push((first_link, via, (network(address, length), length)));
                    }
                }
            }
            let next = &link.ends[1 - end].node;
            hosts.push((next, first_link, first_end));
            if forwards(topology, next) && visited.insert(next) {
                queue.push_back((next, first_link, first_end));
            }
        }
    }
    if forwards(topology, node) {
        hosts.retain(|(host, ..)| !forwards(topology, host));
        routes.extend(through_hosts(topology, &reached, &hosts));
    }
    routes
}

/// The addresses that `hosts`, the nearest first, have on links that are not `reached`.
fn through_hosts(
    topology: &Topology,
    reached: &BTreeSet<usize>,
    hosts: &[(&str, usize, usize)],
) -> Vec<(usize, IpAddr, Prefix)> {
    let mut routes = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for &(host, first_link, first_end) in hosts {
        if !known.insert(host) {
            continue;
        }
        let first_hop = &topology.links[first_link].ends[1 - first_end].addresses;
        for (index, link) in topology.links.iter().enumerate() {
            let Some(end) = link.ends.iter().position(|end| end.node == host) else { continue };
            if !reached.contains(&index) {
                for &(address, _) in &link.ends[end].addresses {
                    if let Some(via) = same_family(first_hop, address) {
                        let width = if address.is_ipv4() { 32 } else { 128 };
                        routes.push((first_link, via, (address, width)));
                    }
                }
            }
        }
    }
    routes
}

fn forwards(topology: &Topology, node: &str) -> bool {
    topology.nodes.iter().any(|candidate| candidate.name == node && candidate.role == Role::Router)
}

fn same_family(addresses: &[Prefix], like: IpAddr) -> Option<IpAddr> {
    addresses.iter().map(|&(address, _)| address).find(|address| address.is_ipv4() == like.is_ipv4())
}

fn network(address: IpAddr, length: u8) -> IpAddr {
    // A plan has been validated: its prefixes fit their addresses.
    IpNetwork::new(address, length).map_or(address, |network| network.network().addr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, Source};

    fn topology(text: &str) -> Topology {
        let run = "[run]\ntransports = [\"tcp\"]\npattern = \"iperf\"\nduration = \"1s\"\n";
        let source = Source::from_text("t.toml", format!("name = \"t\"\ndescription = \"t\"\n{text}\n{run}"));
        scenario::plan(&source, &Overrides::default())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"))
            .variants
            .remove(0)
            .topology
    }

    fn two_paths() -> Topology {
        topology("[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\n")
    }

    /// The interface and next hop that a packet takes: rules first, then the main table's subnets and routes.
    fn way(plans: &[InterfacePlan], from: IpAddr, to: IpAddr) -> Option<(String, Option<IpAddr>)> {
        let inside = |(net, length): Prefix| {
            net.is_ipv4() == to.is_ipv4() && network(to, length) == network(net, length)
        };
        let table =
            plans.iter().flat_map(|plan| &plan.rules).find(|rule| rule.from == from).map(|rule| rule.table);
        let mut candidates: Vec<(u8, String, Option<IpAddr>)> = Vec::new();
        for plan in plans {
            for route in plan.routes.iter().filter(|route| route.table == table && inside(route.destination))
            {
                candidates.push((route.destination.1, plan.interface.clone(), route.gateway));
            }
            if table.is_none() {
                for &(address, length) in plan.addresses.iter().filter(|&&prefix| inside(prefix)) {
                    let _ = address;
                    candidates.push((length, plan.interface.clone(), None));
                }
            }
        }
        candidates.sort_by_key(|&(length, ..)| std::cmp::Reverse(length));
        candidates.into_iter().next().map(|(_, interface, gateway)| (interface, gateway))
    }

    fn addresses(topology: &Topology, link: &str, end: usize) -> Vec<IpAddr> {
        topology.link(link).unwrap().ends[end].addresses.iter().map(|&(address, _)| address).collect()
    }

    #[test]
    fn the_clients_address_decides_the_link_both_ways() {
        let topology = two_paths();
        let client = interfaces(&topology, "client", "server");
        let server = interfaces(&topology, "server", "server");
        for near in ["eth", "wlan"] {
            for far in ["eth", "wlan"] {
                for (from, to) in addresses(&topology, near, 0).into_iter().zip(addresses(&topology, far, 1))
                {
                    assert_eq!(way(&client, from, to).unwrap().0, near, "{from} to {to}");
                    assert_eq!(way(&server, to, from).unwrap().0, near, "back from {to} to {from}");
                }
            }
        }
    }

    #[test]
    fn remote_subnets_are_reached_over_routers_by_the_fewest_hops() {
        let topology = topology(
            "[[host]]\nname = \"client\"\n[[host]]\nname = \"server\"\n[[router]]\nname = \"r1\"\n[[router]]\nname = \"r2\"\n\
             [[link]]\nname = \"a\"\nends = [\"client:eth\", \"r1:a\"]\n[[link]]\nname = \"b\"\nends = [\"r1:b\", \"r2:b\"]\n\
             [[link]]\nname = \"c\"\nends = [\"r2:c\", \"server:eth\"]\n",
        );
        let server_address = addresses(&topology, "c", 1)[0];
        let client_address = addresses(&topology, "a", 0)[0];
        let next_hop = |node: &str, from, to| way(&interfaces(&topology, node, "server"), from, to).unwrap();
        assert_eq!(
            next_hop("client", client_address, server_address).1,
            Some(addresses(&topology, "a", 1)[0])
        );
        assert_eq!(next_hop("r1", client_address, server_address).1, Some(addresses(&topology, "b", 1)[0]));
        assert_eq!(next_hop("r2", client_address, server_address), ("c".to_owned(), None));
        assert_eq!(
            next_hop("server", server_address, client_address).1,
            Some(addresses(&topology, "c", 0)[0])
        );
        assert_eq!(next_hop("r2", server_address, client_address).1, Some(addresses(&topology, "b", 0)[0]));
    }

    #[test]
    fn routers_in_a_path_lead_to_the_addresses_that_the_hosts_have_elsewhere() {
        // One path is a wire, the other has routers: either host's address on the one is reached over the other.
        let topology = topology("[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\npath_mtu = 1400\n");
        let next_hop = |node: &str, from, to| way(&interfaces(&topology, node, "server"), from, to).unwrap();
        let (client, server) = (addresses(&topology, "wlan", 0)[0], addresses(&topology, "eth", 1)[0]);
        let beyond = addresses(&topology, "wlan.hop", 1)[0];
        assert_eq!(
            next_hop("client", client, server),
            ("wlan".to_owned(), Some(addresses(&topology, "wlan", 1)[0]))
        );
        assert_eq!(next_hop("wlan.near", client, server), ("hop".to_owned(), Some(beyond)));
        let last = Some(addresses(&topology, "wlan.far", 1)[0]);
        assert_eq!(next_hop("wlan.beyond", client, server), ("far".to_owned(), last));
        assert_eq!(
            next_hop("server", server, client),
            ("wlan".to_owned(), Some(addresses(&topology, "wlan.far", 0)[0]))
        );
        let other = addresses(&topology, "eth", 0)[0];
        assert_eq!(next_hop("wlan.near", server, other), ("near".to_owned(), Some(client)));
    }

    /// The nodes that a packet passes from `node` on; `None` when it is lost or goes in circles.
    fn nodes_on_the_way(topology: &Topology, node: &str, from: IpAddr, to: IpAddr) -> Option<Vec<String>> {
        let mut passed = vec![node.to_owned()];
        while passed.len() < 10 {
            let here = &passed.last()?.clone();
            let (interface, gateway) = way(&interfaces(topology, here, "server"), from, to)?;
            let (link, end) =
                topology.links_of(here).find(|(link, end)| link.ends[*end].interface == interface)?;
            let there = &link.ends[1 - end];
            let hop = gateway.unwrap_or(to);
            there.addresses.iter().find(|(address, _)| *address == hop)?;
            passed.push(there.node.clone());
            let owns = |node: &str| {
                let mut own = topology.links_of(node).flat_map(|(link, end)| &link.ends[end].addresses);
                own.any(|(address, _)| *address == to)
            };
            if owns(&there.node) {
                return Some(passed);
            }
        }
        None
    }

    proptest::proptest! {
        /// Whichever paths are wires and whichever have routers, and in either IP version: from any address of the
        /// client any address of the server is reached over the client's path, and back by the same nodes.
        #[test]
        fn the_clients_address_decides_the_path_whatever_is_in_it(hops: Vec<bool>, ipv6: bool) {
            let hops = hops.into_iter().take(5).chain([true]);
            let path = |(index, hop)| format!("[[path]]\nname = \"p{index}\"\n{}", if hop { "path_mtu = 1400\n" } else { "" });
            let paths: String = hops.enumerate().map(path).collect();
            let run = format!("[run]\nfamily = \"{}\"\n", if ipv6 { "ipv6" } else { "ipv4" });
            let source = Source::from_text("t.toml", format!("name = \"t\"\n{paths}{run}"));
            let topology = scenario::plan(&source, &Overrides::default()).unwrap().variants.remove(0).topology;
            let of = |host: &str| {
                let ends = topology.links_of(host).map(|(link, end)| (link.name.clone(), link.ends[end].addresses[0].0));
                ends.collect::<Vec<_>>()
            };
            for (link, client) in of("client") {
                for (_, server) in of("server") {
                    let there = nodes_on_the_way(&topology, "client", client, server);
                    let mut back = nodes_on_the_way(&topology, "server", server, client).unwrap();
                    back.reverse();
                    proptest::prop_assert_eq!(there.as_ref(), Some(&back), "{} to {}", client, server);
                    let inner = topology.hop(&link).map_or(Vec::new(), |hop| hop.routers.to_vec());
                    proptest::prop_assert_eq!(&back[1..back.len() - 1], &inner, "{} to {}", client, server);
                }
            }
        }
    }

    #[test]
    fn host_bits_are_cleared() {
        assert_eq!(network("10.1.2.3".parse().unwrap(), 20), "10.1.0.0".parse::<IpAddr>().unwrap());
        assert_eq!(network("10.1.2.3".parse().unwrap(), 0), "0.0.0.0".parse::<IpAddr>().unwrap());
        assert_eq!(network("fd00::1:2".parse().unwrap(), 112), "fd00::1:0".parse::<IpAddr>().unwrap());
    }
}
