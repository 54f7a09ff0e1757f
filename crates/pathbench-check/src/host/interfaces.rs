//! Interfaces and addresses: which are fit to be paths, and why others are not.

use crate::facts::{HostFacts, PathFacts};
use crate::finding::{Finding, FindingId};
use pathbench_host::change::setting;
use pathbench_host::mptcp::EndpointFlags;
use pathbench_host::netlink::NetworkInterface;
use pathbench_record::mptcp::command::{change_endpoint, delete_endpoint};
use pathbench_record::network::{AddressFamily, IpNet};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of interfaces that programs create; without an address or a route they are no paths that someone misses.
const VIRTUAL: [&str; 14] = [
    "bridge",
    "bond",
    "dummy",
    "ifb",
    "ip6tnl",
    "sit",
    "ipip",
    "gre",
    "veth",
    "vrf",
    "vxlan",
    "tun",
    "wireguard",
    "nlmon",
];
pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let paths = all_paths(facts);
    let mut findings = vec![paths_found(facts, &paths)];
    findings.extend(unfit(facts, &paths));
    findings.extend(metered(facts, &paths));
    findings.extend(same_subnet(facts, &paths));
    findings.extend(vpn_bypass(facts));
    findings
}

/// The paths of both families, one per interface, with the addresses.
fn all_paths(facts: &HostFacts) -> BTreeMap<u32, Vec<PathFacts<'_>>> {
    let mut paths: BTreeMap<u32, Vec<PathFacts<'_>>> = BTreeMap::new();
    for path in AddressFamily::ALL.into_iter().flat_map(|family| facts.paths(family)) {
        paths.entry(path.link.index).or_default().push(path);
    }
    paths
}

fn paths_found(facts: &HostFacts, paths: &BTreeMap<u32, Vec<PathFacts<'_>>>) -> Finding {
    let id = FindingId::Paths;
    let described: Vec<String> = paths
        .values()
        .map(|of| {
            let addresses: Vec<String> = of.iter().map(|path| path.address.to_string()).collect();
            format!("{} ({})", of[0].link.name, addresses.join(", "))
        })
        .collect();
    let has_unfit = !unfit(facts, paths).is_empty();
    let further = if has_unfit {
        "Correct the interfaces below, or connect a second network: Wi-Fi, cellular, a second cable."
    } else {
        "Connect a second network: Wi-Fi, cellular, a second cable."
    };
    match paths.len() {
        0 => Finding::problem(
            id,
            "no interface is up with an address and a route",
            "This host reaches no server, over one path or several.",
        )
        .with_step("ip link set INTERFACE up, then an address and a route by DHCP or by hand"),
        1 => Finding::advice(
            id,
            format!("one path only: {}", described.join("; ")),
            "Multipath requires a second interface with an address and a route.",
        )
        .with_step(further),
        _ => {
            let vpn = facts.vpn(None).map(|vpn| format!("; new connections leave by the VPN {}", vpn.name));
            Finding::ok(id, described.join("; ") + vpn.as_deref().unwrap_or_default())
        }
    }
}

/// Interfaces that could be paths, and are not. Where two paths exist, an interface without an address is no finding.
fn unfit(facts: &HostFacts, paths: &BTreeMap<u32, Vec<PathFacts<'_>>>) -> Vec<Finding> {
    let links = facts.network.links.iter();
    // Beside two paths, an interface without a router is the network of other hosts: of a router, of a laboratory.
    let local: Vec<u32> = facts.host_paths().local.iter().map(|link| link.index).collect();
    let is_local = |link: &NetworkInterface| local.contains(&link.index);
    let candidates = links
        .filter(|link| !paths.contains_key(&link.index) && !link.loopback && link.master.is_none())
        .filter(|link| !facts.network.is_tunnel(link))
        .filter(|link| paths.len() < 2 || has_address(facts, link) && !is_local(link));
    let mut findings: Vec<Finding> = Vec::new();
    // One finding per reason: a host can have many unused ports.
    for finding in candidates.filter_map(|link| why_unfit(facts, link)) {
        match findings.iter_mut().find(|other| other.meaning == finding.meaning) {
            Some(other) => {
                other.found = format!("{}; {}", other.found, finding.found);
                other.subject =
                    other.subject.take().zip(finding.subject).map(|(first, next)| format!("{first}, {next}"));
                other.remedy.extend(finding.remedy);
            }
            None => findings.push(finding),
        }
    }
    for finding in &mut findings {
        finding.remedy.dedup();
    }
    findings
}

fn has_address(facts: &HostFacts, link: &NetworkInterface) -> bool {
    facts.network.addresses.iter().any(|one| one.index == link.index && !one.link_scope)
}

fn why_unfit(facts: &HostFacts, link: &NetworkInterface) -> Option<Finding> {
    let name = &link.name;
    let is_virtual = link.kind.as_deref().is_some_and(|kind| VIRTUAL.contains(&kind));
    let has_address = has_address(facts, link);
    let advice = |found: String, meaning: &str| {
        Finding::advice(FindingId::Interface, found, meaning).with_subject(name.clone())
    };
    if is_virtual && !has_address {
        return None;
    }
    if !link.up {
        return Some(
            advice(format!("{name} is down"), "It carries no path until it is up.")
                .with_step(format!("ip link set {name} up")),
        );
    }
    // The bridge of containers or virtual machines, of which none runs.
    if link.kind.as_deref() == Some("bridge") {
        return None;
    }
    if !link.carrier {
        let step = if facts.device(link.index).wifi {
            "Join a Wi-Fi network."
        } else {
            "Connect the cable or the modem."
        };
        return Some(
            advice(format!("{name} has no carrier"), "It carries no path until it is connected.")
                .with_step(step),
        );
    }
    if !has_address {
        let step = format!("Assign one by DHCP, or: ip address add ADDRESS/PREFIX dev {name}");
        return Some(
            advice(format!("{name} has no address"), "It carries no path until it has one.").with_step(step),
        );
    }
    let mut addresses =
        facts.network.addresses.iter().filter(|one| one.index == link.index && !one.link_scope);
    if addresses.all(|one| one.tentative) {
        return Some(advice(
            format!("the address of {name} is tentative (duplicate address detection)"),
            "The kernel uses it only after the detection, 1 s to 2 s after it was assigned.",
        ));
    }
    (!is_virtual).then(|| {
        let found = format!("{name} has an address and no default route in any table");
        let step = format!(
            "ip route add default via ROUTER dev {name} metric 200 (ROUTER: the router of its subnet)"
        );
        advice(found, "Only hosts in its subnet are reachable over it.").with_step(step)
    })
}

fn metered(facts: &HostFacts, paths: &BTreeMap<u32, Vec<PathFacts<'_>>>) -> Vec<Finding> {
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let mut findings = Vec::new();
    for (index, of) in paths {
        let device = facts.device(*index);
        if !device.cellular && device.metered != Some(true) {
            continue;
        }
        let name = &of[0].link.name;
        let why = if device.cellular {
            "is a cellular interface"
        } else {
            "is metered, according to NetworkManager"
        };
        let main: Vec<_> = endpoints
            .iter()
            .filter(|endpoint| of.iter().any(|path| path.address == endpoint.address))
            .filter(|endpoint| !endpoint.flags.backup)
            .collect();
        if main.is_empty() {
            findings
                .push(Finding::ok(FindingId::Metered, format!("{name} {why}")).with_subject(name.clone()));
            continue;
        }
        let backup = |flags: EndpointFlags| EndpointFlags { backup: true, ..flags };
        let changes =
            main.iter().map(|endpoint| change_endpoint(endpoint, endpoint.flags, backup(endpoint.flags)));
        findings.push(
            Finding::advice(
                FindingId::Metered,
                format!("{name} {why}, and its endpoint has no flag `backup`"),
                "MPTCP sends data over it even while another path works.",
            )
            .with_subject(name.clone())
            .with_steps(changes),
        );
    }
    findings
}

fn same_subnet(facts: &HostFacts, paths: &BTreeMap<u32, Vec<PathFacts<'_>>>) -> Vec<Finding> {
    let mut by_subnet: BTreeMap<IpNet, BTreeSet<u32>> = BTreeMap::new();
    for address in facts.network.addresses.iter().filter(|one| !one.link_scope) {
        let host_prefix = address.network.prefix_len() == IpNet::from(address.network.addr()).prefix_len();
        if paths.contains_key(&address.index) && !host_prefix {
            by_subnet.entry(address.network.trunc()).or_default().insert(address.index);
        }
    }
    let shared = by_subnet.into_iter().filter(|(_, interfaces)| interfaces.len() > 1);
    shared
        .map(|(subnet, interfaces)| {
            let names: Vec<String> = interfaces.iter().map(|index| facts.name(*index)).collect();
            let found = format!("{} have addresses in the same subnet, {subnet}", names.join(" and "));
            let missing = |name: &String| arp_commands(facts, name);
            let arp: Vec<String> = names.iter().filter(|_| subnet.addr().is_ipv4()).flat_map(missing).collect();
            if arp.is_empty() && subnet.addr().is_ipv4() {
                let found = format!("{found}; each answers ARP requests for its own address only");
                return Finding::ok(FindingId::SameSubnet, found).with_subject(subnet.to_string());
            }
            Finding::advice(
                FindingId::SameSubnet,
                found,
                "The main table's route to the subnet selects one interface for all packets, and the kernel answers ARP \
                 requests for either address on both interfaces: packets for one path take the other. Both interfaces \
                 probably lead to the same network.",
            )
            .with_subject(subnet.to_string())
            .with_steps(arp)
            .with_step("Better: give each path a subnet of its own, on both hosts.")
        })
        .collect()
}

/// The commands for the ARP settings of an interface that are not in force; the larger value of `all` and the interface is.
fn arp_commands(facts: &HostFacts, name: &str) -> Vec<String> {
    let in_force =
        |setting: &str, of: &str| facts.number(&format!("net.ipv4.conf.{of}.{setting}")).unwrap_or(0);
    let lacks =
        |(setting, least): &(&str, u64)| in_force(setting, name).max(in_force(setting, "all")) < *least;
    let command = |(setting, least): (&str, u64)| {
        setting::command(&setting::interface_key(name, setting), &least.to_string())
    };
    [("arp_ignore", 1), ("arp_announce", 2)].into_iter().filter(lacks).map(command).collect()
}

/// Endpoints that are bound to another interface while a VPN has the default route.
fn vpn_bypass(facts: &HostFacts) -> Vec<Finding> {
    let Some(tunnel) = facts.vpn(None) else { return Vec::new() };
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let bypassing: Vec<_> = endpoints
        .iter()
        .filter(|endpoint| endpoint.flags.subflow || endpoint.flags.fullmesh)
        .filter(|endpoint| facts.vpn(Some(AddressFamily::from_address(endpoint.address))).is_some())
        .filter_map(|endpoint| Some((endpoint, endpoint.interface.filter(|index| !facts.is_tunnel(*index))?)))
        .collect();
    if bypassing.is_empty() {
        return Vec::new();
    }
    let named: Vec<String> = bypassing
        .iter()
        .map(|(endpoint, index)| format!("{} dev {}", endpoint.address, facts.name(*index)))
        .collect();
    let tunnel = tunnel.name.clone();
    vec![
        Finding::advice(
            FindingId::VpnBypass,
            format!("{tunnel} has the default route, and endpoints are bound to other interfaces: {}", named.join(", ")),
            format!("Subflows from these endpoints bypass {tunnel}: their packets and addresses are visible outside of the VPN."),
        )
        .with_subject(tunnel)
        .with_step("If all traffic has to use the VPN:")
        .with_steps(bypassing.iter().map(|(endpoint, _)| delete_endpoint(endpoint))),
    ]
}
