//! From any of the client's addresses to any of the server's, and back by the same nodes.

use pathbench_host::netlink::MAIN_TABLE;
use pathbench_lab::addressing::{InterfacePlan, interfaces};
use pathbench_lab::scenario::{self, Overrides, ScenarioSource, TopologyPlan};
use pathbench_record::network::IpNet;
use std::net::IpAddr;

fn topology(text: &str) -> TopologyPlan {
    let run = "[run]\ntransports = [\"tcp\"]\npattern = \"throughput\"\nduration = \"1s\"\n";
    let source =
        ScenarioSource::from_text("t.toml", format!("name = \"t\"\ndescription = \"t\"\n{text}\n{run}"));
    scenario::plan(&source, &Overrides::default())
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
        .variants
        .remove(0)
        .topology
}

fn two_paths() -> TopologyPlan {
    topology("[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\n")
}

/// The interface and next hop that a packet takes: rules first, then the main table's subnets and routes.
fn route(plans: &[InterfacePlan], from: IpAddr, to: IpAddr) -> Option<(String, Option<IpAddr>)> {
    let table = plans
        .iter()
        .flat_map(|plan| &plan.rules)
        .find(|rule| rule.from.addr() == from)
        .map_or(MAIN_TABLE, |rule| rule.table);
    let mut candidates: Vec<(u8, String, Option<IpAddr>)> = Vec::new();
    for plan in plans {
        for route in
            plan.routes.iter().filter(|route| route.table == table && route.destination.contains(&to))
        {
            candidates.push((route.destination.prefix_len(), plan.interface.clone(), route.gateway));
        }
        if table == MAIN_TABLE {
            for subnet in plan.addresses.iter().filter(|subnet| subnet.contains(&to)) {
                candidates.push((subnet.prefix_len(), plan.interface.clone(), None));
            }
        }
    }
    candidates.sort_by_key(|&(length, ..)| std::cmp::Reverse(length));
    candidates.into_iter().next().map(|(_, interface, gateway)| (interface, gateway))
}

fn addresses(topology: &TopologyPlan, link: &str, end: usize) -> Vec<IpAddr> {
    topology.link(link).unwrap().ends[end].addresses.iter().map(IpNet::addr).collect()
}

#[test]
fn the_clients_address_decides_the_link_in_both_directions() {
    let topology = two_paths();
    let client = interfaces(&topology, "client", "server");
    let server = interfaces(&topology, "server", "server");
    for near in ["eth", "wlan"] {
        for far in ["eth", "wlan"] {
            for (from, to) in addresses(&topology, near, 0).into_iter().zip(addresses(&topology, far, 1)) {
                assert_eq!(route(&client, from, to).unwrap().0, near, "{from} to {to}");
                assert_eq!(route(&server, to, from).unwrap().0, near, "back from {to} to {from}");
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
    let next_hop = |node: &str, from, to| route(&interfaces(&topology, node, "server"), from, to).unwrap();
    assert_eq!(next_hop("client", client_address, server_address).1, Some(addresses(&topology, "a", 1)[0]));
    assert_eq!(next_hop("r1", client_address, server_address).1, Some(addresses(&topology, "b", 1)[0]));
    assert_eq!(next_hop("r2", client_address, server_address), ("c".to_owned(), None));
    assert_eq!(next_hop("server", server_address, client_address).1, Some(addresses(&topology, "c", 0)[0]));
    assert_eq!(next_hop("r2", server_address, client_address).1, Some(addresses(&topology, "b", 0)[0]));
}

#[test]
fn routers_in_a_path_lead_to_the_addresses_that_the_hosts_have_elsewhere() {
    // One path is a wire, the other has routers: either host's address on the one is reached over the other.
    let topology = topology("[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\npath_mtu = 1400\n");
    let next_hop = |node: &str, from, to| route(&interfaces(&topology, node, "server"), from, to).unwrap();
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

/// The nodes that a packet passes from `node` on; `None` when it is dropped or loops.
fn nodes_on_the_path(topology: &TopologyPlan, node: &str, from: IpAddr, to: IpAddr) -> Option<Vec<String>> {
    let mut passed = vec![node.to_owned()];
    while passed.len() < 10 {
        let here = &passed.last()?.clone();
        let (interface, gateway) = route(&interfaces(topology, here, "server"), from, to)?;
        let (link, end) =
            topology.links_of(here).find(|(link, end)| link.ends[*end].interface == interface)?;
        let there = &link.ends[1 - end];
        let hop = gateway.unwrap_or(to);
        there.addresses.iter().find(|own| own.addr() == hop)?;
        passed.push(there.node.clone());
        let owns = |node: &str| {
            let mut own = topology.links_of(node).flat_map(|(link, end)| &link.ends[end].addresses);
            own.any(|own| own.addr() == to)
        };
        if owns(&there.node) {
            return Some(passed);
        }
    }
    None
}

proptest::proptest! {
    /// With any mix of wires and paths with routers, in either IP version: from any address of the
    /// client any address of the server is reached over the client's path, and back by the same nodes.
    #[test]
    fn the_clients_address_decides_the_path_with_and_without_routers(hops: Vec<bool>, ipv6: bool) {
        let hops = hops.into_iter().take(5).chain([true]);
        let path = |(index, hop)| format!("[[path]]\nname = \"p{index}\"\n{}", if hop { "path_mtu = 1400\n" } else { "" });
        let paths: String = hops.enumerate().map(path).collect();
        let run = format!("[run]\nfamily = \"{}\"\n", if ipv6 { "ipv6" } else { "ipv4" });
        let source = ScenarioSource::from_text("t.toml", format!("name = \"t\"\n{paths}{run}"));
        let topology = scenario::plan(&source, &Overrides::default()).unwrap().variants.remove(0).topology;
        let of = |host: &str| {
            let ends = topology.links_of(host).map(|(link, end)| (link.name.clone(), link.ends[end].addresses[0].addr()));
            ends.collect::<Vec<_>>()
        };
        for (link, client) in of("client") {
            for (_, server) in of("server") {
                let there = nodes_on_the_path(&topology, "client", client, server);
                let mut back = nodes_on_the_path(&topology, "server", server, client).unwrap();
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
    let addresses = "client_address = [\"10.1.2.3/20\", \"fd00::1:2/112\"]";
    let topology = topology(&format!("[[path]]\nname = \"eth\"\n{addresses}\n"));
    let plan = &interfaces(&topology, "client", "server")[0];
    let destinations: Vec<_> = plan.routes.iter().map(|route| route.destination.to_string()).collect();
    assert_eq!(destinations, ["10.1.0.0/20", "0.0.0.0/0", "fd00::1:0/112", "::/0"]);
}
