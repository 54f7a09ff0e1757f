//! The interfaces and addresses that are paths.

use super::host::{Medium, SetupHost};
use super::options::SetupOptions;
use crate::facts::LOCAL_TABLE;
use pathbench_host::netlink::{InterfaceAddress, NetworkInterface};
use pathbench_record::network::IpNet;
use serde::Serialize;
use std::net::IpAddr;

/// Kinds of interfaces whose packets leave through another interface, or not at all.
const VIRTUAL: [&str; 12] =
    ["wireguard", "xfrm", "vti", "vti6", "ipip", "sit", "gre", "ip6gre", "ip6tnl", "dummy", "ifb", "vrf"];

/// An interface whose addresses are a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetupPath {
    #[serde(skip)]
    pub index: u32,
    pub interface: String,
    /// Unknown for interfaces that are no hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<Medium>,
    /// Its subflows carry data only when no other subflow works.
    pub backup: bool,
    pub addresses: Vec<PathAddress>,
}

/// An address of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PathAddress {
    pub address: IpAddr,
    pub subnet: IpNet,
}

/// The paths of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathSelection {
    pub paths: Vec<SetupPath>,
    /// Notes about omitted interfaces.
    pub notes: Vec<String>,
}

/// The paths that `options` select, in the order of the interfaces.
/// Errors: one sentence for each named interface that is no path.
pub(super) fn select(host: &SetupHost, options: &SetupOptions) -> Result<PathSelection, Vec<String>> {
    let mistakes = if options.may_be_absent { Vec::new() } else { mistakes(host, options) };
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut selection = PathSelection::default();
    let named = |link: &NetworkInterface| link.up && options.interfaces.contains(&link.name);
    let is_chosen =
        |link: &NetworkInterface| if options.interfaces.is_empty() { is_suitable(link) } else { named(link) };
    let mut links: Vec<&NetworkInterface> =
        host.links.iter().filter(|link| !link.loopback && is_chosen(link)).collect();
    if options.interfaces.is_empty() {
        let vpn = host.links.iter().filter(|link| link.up && is_tunnel(host, link));
        let words = "is a tunnel with a default route, such as a VPN. Subflows from endpoints on other interfaces bypass it.";
        selection.notes.extend(vpn.map(|link| format!("{} {words}", link.name)));
        links.retain(|link| !is_tunnel(host, link));
    }
    let mut found: Vec<(&NetworkInterface, Vec<PathAddress>)> = Vec::new();
    for link in links {
        let addresses = addresses(host, link);
        if addresses.is_empty() {
            continue;
        }
        if link.carrier {
            found.push((link, addresses));
        } else {
            selection.notes.push(format!("{} has no carrier and is no path.", link.name));
        }
    }
    if options.interfaces.is_empty() {
        leave_out_without_router(host, &mut found, &mut selection.notes);
    }
    let path = |(link, addresses): (&NetworkInterface, Vec<PathAddress>)| SetupPath {
        index: link.index,
        interface: link.name.clone(),
        medium: host.media.get(&link.index).copied(),
        backup: is_backup(host, options, link),
        addresses,
    };
    selection.paths = found.into_iter().map(path).collect();
    if !selection.paths.is_empty() && selection.paths.iter().all(|path| path.backup) {
        // A backup path is idle only while there is a path to prefer.
        selection.paths.iter_mut().for_each(|path| path.backup = options.backup.contains(&path.interface));
    }
    Ok(selection)
}

fn mistakes(host: &SetupHost, options: &SetupOptions) -> Vec<String> {
    let mut mistakes = Vec::new();
    for (option, name) in options
        .interfaces
        .iter()
        .map(|name| ("--path", name))
        .chain(options.backup.iter().map(|name| ("--backup", name)))
    {
        let Some(link) = host.links.iter().find(|link| link.name == *name) else {
            let known: Vec<&str> = host.links.iter().map(|link| link.name.as_str()).collect();
            mistakes.push(format!("{option}: no interface `{name}` here; there are {}", known.join(", ")));
            continue;
        };
        if option == "--path" && !link.up {
            mistakes.push(format!("{option}: interface {name} is down; as root: ip link set {name} up"));
        } else if option == "--path" && addresses(host, link).is_empty() {
            mistakes
                .push(format!("{option}: interface {name} has no address that can be used on another link"));
        }
    }
    mistakes
}

/// Whether an interface can be a path without being named.
fn is_suitable(link: &NetworkInterface) -> bool {
    let kind = link.kind.as_deref().unwrap_or_default();
    link.up && link.master.is_none() && !VIRTUAL.contains(&kind)
}

/// Whether an interface carries the packets of a VPN: its default route, or a half of one, has no router.
fn is_tunnel(host: &SetupHost, link: &NetworkInterface) -> bool {
    let kind = link.kind.as_deref().unwrap_or_default();
    let is_half = |destination: IpNet| destination.prefix_len() <= 1;
    let catches_all = host.routes.iter().any(|route| {
        route.interface == Some(link.index) && route.gateway.is_none() && is_half(route.destination)
    });
    (VIRTUAL.contains(&kind) && kind != "dummy" || kind == "tun") && catches_all
}

/// The usable addresses of an interface, one per subnet. Excludes addresses that are valid on their link only, that a
/// peer cannot rely on (tentative, deprecated, privacy addresses), and local IPv6 addresses (RFC 4193) beside global
/// ones.
fn addresses(host: &SetupHost, link: &NetworkInterface) -> Vec<PathAddress> {
    let of_link = || host.addresses.iter().filter(|address| address.index == link.index);
    let is_usable = |address: &&InterfaceAddress| {
        let of_link_only = address.link_scope || address.network.addr().is_loopback();
        !(address.tentative || address.deprecated || address.secondary || of_link_only)
    };
    let is_global_v6 = |address: IpAddr| address.is_ipv6() && !is_unique_local(address);
    let has_global_v6 = of_link().filter(is_usable).any(|address| is_global_v6(address.network.addr()));
    let mut found: Vec<PathAddress> = Vec::new();
    for known in of_link().filter(is_usable) {
        let one = PathAddress { address: known.network.addr(), subnet: known.network.trunc() };
        let is_shadowed = has_global_v6 && is_unique_local(one.address);
        if !is_shadowed && !found.iter().any(|other| other.subnet == one.subnet) {
            found.push(one);
        }
    }
    found
}

fn is_unique_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unique_local())
}

fn is_backup(host: &SetupHost, options: &SetupOptions, link: &NetworkInterface) -> bool {
    options.backup.contains(&link.name)
        || host.metered.contains(&link.index)
        || host.media.get(&link.index) == Some(&Medium::Cellular)
}

/// The IPv4 subnet of `path` in which another path also is.
pub(super) fn shared_subnet(path: &SetupPath, paths: &[SetupPath]) -> Option<IpNet> {
    let others = || paths.iter().filter(|other| other.index != path.index).flat_map(|other| &other.addresses);
    let subnets = path.addresses.iter().map(|at| at.subnet).filter(|subnet| subnet.addr().is_ipv4());
    subnets.into_iter().find(|subnet| others().any(|other| other.subnet == *subnet))
}

/// Whether packets of this family can leave the subnets of the interface: some table has a default route over it, or a
/// DHCP lease has a router.
pub(super) fn has_router(host: &SetupHost, index: u32, ipv4: bool) -> bool {
    let leased = host.leased_routers.get(&index).is_some_and(|of| of.iter().any(|at| at.is_ipv4() == ipv4));
    leased
        || host.routes.iter().any(|route| {
            route.interface == Some(index)
                && route.table != LOCAL_TABLE
                && route.destination.prefix_len() == 0
                && route.destination.addr().is_ipv4() == ipv4
        })
}

/// If some interfaces lead to a router, the others are local networks (of containers, of a laboratory), not paths.
fn leave_out_without_router(
    host: &SetupHost,
    found: &mut Vec<(&NetworkInterface, Vec<PathAddress>)>,
    notes: &mut Vec<String>,
) {
    for ipv4 in [true, false] {
        let leads_out = |link: &NetworkInterface| has_router(host, link.index, ipv4);
        if !found.iter().any(|(link, _)| leads_out(link)) {
            continue;
        }
        for (link, addresses) in found.iter_mut().filter(|(link, _)| !leads_out(link)) {
            let before = addresses.len();
            addresses.retain(|one| one.address.is_ipv4() != ipv4);
            if addresses.is_empty() && before > 0 {
                let name = &link.name;
                notes
                    .push(format!("{name} has no default route and is no path; --path {name} makes it one."));
            }
        }
    }
    found.retain(|(_, addresses)| !addresses.is_empty());
}
