//! The paths to examine: each subnet that an interface with a route to the server has an address in.

use crate::client::paths::HostNetwork;
use crate::client::server::{ServerName, family};
use crate::exit::{Exit, Failure};
use pathbench_analysis::assembly::ClientPath;
use pathbench_host::netlink::InterfaceAddress;
use pathbench_record::document::AddressFamily;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Each path takes a thread.
const MOST_PATHS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    /// Its interface, with the family or the address where the interface has several.
    pub(super) name: String,
    pub(super) interface: String,
    pub(super) local: IpAddr,
    pub(super) server: SocketAddr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) paths: Vec<Path>,
    pub(super) notes: Vec<String>,
}

/// The resolver's first address of each allowed family.
pub(super) fn addresses(
    server: &ServerName,
    wanted: Option<AddressFamily>,
) -> Result<Vec<SocketAddr>, Failure> {
    let resolved = server.addresses(wanted)?;
    let mut seen = BTreeSet::new();
    let first = resolved.into_iter().filter(|at| seen.insert(family(*at)));
    Ok(first.map(|at| SocketAddr::new(at, server.port)).collect())
}

/// The paths over `interfaces`, or over all interfaces with a route to the server where none is named.
pub(super) fn choose(
    network: &HostNetwork,
    interfaces: &[String],
    servers: &[SocketAddr],
) -> Result<Choice, Failure> {
    let mut choice = Choice::default();
    let mut refusals = Vec::new();
    for &server in servers {
        match network.paths_over(interfaces, server) {
            Ok(paths) if paths.is_empty() => {
                refusals
                    .push(format!("no interface that is up has an address and a route to {}", server.ip()));
            }
            Ok(paths) => choice.paths.extend(paths.iter().flat_map(|path| paths_of(network, path, server))),
            Err(why) => refusals.push(why),
        }
    }
    if choice.paths.is_empty() {
        let message = refusals.join("\n");
        return Err(if interfaces.is_empty() {
            Failure { exit: Exit::Unreachable, message }
        } else {
            Failure::bad_input(message)
        });
    }
    choice.notes = refusals;
    if choice.paths.len() > MOST_PATHS {
        choice.notes.push(format!(
            "{} paths lead to the server, and the first {MOST_PATHS} are examined; name others with --path",
            choice.paths.len()
        ));
        choice.paths.truncate(MOST_PATHS);
    }
    name(&mut choice.paths);
    Ok(choice)
}

/// A path for each subnet of an interface: packets from another address of the same subnet take the same path.
fn paths_of(network: &HostNetwork, of: &ClientPath, server: SocketAddr) -> Vec<Path> {
    let facts = |at: &IpAddr| network.addresses.iter().find(|one| one.network.addr() == *at);
    let mut subnets = BTreeSet::new();
    let mut usable: Vec<IpAddr> = Vec::new();
    for at in &of.addresses {
        let known: Option<&InterfaceAddress> = facts(at);
        // The best address comes first; one that is running out is taken where there is no other.
        let is_running_out = known.is_some_and(|known| known.deprecated) && !usable.is_empty();
        let subnet = known.map(|known| known.network.network().to_string());
        if !is_running_out && subnet.is_none_or(|subnet| subnets.insert(subnet)) {
            usable.push(*at);
        }
    }
    let path = |local| Path { name: of.name.clone(), interface: of.interface.clone(), local, server };
    usable.into_iter().map(path).collect()
}

/// Makes the names of paths over the same interface distinct.
fn name(paths: &mut [Path]) {
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
            path.name = format!("{} {}", path.interface, family(path.local).name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::paths::tests::{address, link, route};

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
        }
    }

    fn chosen(addresses: &[(u32, &str, bool)], servers: &[&str]) -> Vec<(String, String)> {
        let servers: Vec<SocketAddr> = servers.iter().map(|server| server.parse().unwrap()).collect();
        let choice = choose(&network(addresses), &[], &servers).unwrap();
        choice.paths.into_iter().map(|path| (path.name, path.local.to_string())).collect()
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
    fn addresses_of_one_subnet_are_one_path_and_those_that_run_out_are_none() {
        let addresses = [
            (2, "2001:db8:1::2/64", false),
            (2, "2001:db8:1::3/64", false),
            (2, "2001:db8:2::2/64", true),
            (3, "2001:db8:3::2/64", true),
        ];
        assert_eq!(chosen(&addresses, &[V6]), pairs(&[("eth", "2001:db8:1::2"), ("wlan", "2001:db8:3::2")]));
    }

    #[test]
    fn interfaces_that_lead_nowhere_are_refused_in_words() {
        let network = network(&[(2, "192.0.2.2/25", false)]);
        let (v4, v6): (SocketAddr, SocketAddr) = (V4.parse().unwrap(), V6.parse().unwrap());
        let only_v6 = choose(&network, &[], &[v6]).unwrap_err();
        assert_eq!(only_v6.exit, Exit::Unreachable);
        let named = choose(&network, &["wlan".to_owned()], &[v4]).unwrap_err();
        assert_eq!(named.exit, Exit::BadInput);
        assert!(named.message.contains("no IPv4 address"), "{}", named.message);
        // One family is enough; the other is told.
        let both = choose(&network, &["eth".to_owned()], &[v4, v6]).unwrap();
        assert_eq!((both.paths.len(), both.notes.len()), (1, 1), "{both:?}");
    }
}
