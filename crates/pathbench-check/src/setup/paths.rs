//! The interfaces and addresses that are paths.

use super::host::{Medium, SetupHost};
use super::options::SetupOptions;
use pathbench_host::netlink::NetworkInterface;
use pathbench_host::paths::{HostNetwork, HostPaths, PathAddress, leads_beyond};
use pathbench_record::network::{AddressFamily, IpNet};
use serde::Serialize;
use std::net::IpAddr;

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

/// The paths of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathSelection {
    pub paths: Vec<SetupPath>,
    /// Notes about omitted interfaces.
    pub notes: Vec<String>,
    /// Addresses without an endpoint that would bypass a VPN, which the user has not permitted.
    pub withheld: Vec<Withheld>,
}

/// An interface whose new endpoints would bypass a VPN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    pub interface: String,
    pub address: IpAddr,
    pub vpn: String,
}

/// The paths that `options` select, in the order of the interfaces.
/// Errors: one sentence for each named interface that is no path.
pub(super) fn select(host: &SetupHost, options: &SetupOptions) -> Result<PathSelection, Vec<String>> {
    let mistakes = if options.may_be_absent { Vec::new() } else { mistakes(host, options) };
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let network = host.network();
    let model = host.paths(&network);
    let mut selection = PathSelection::default();
    let mut found = chosen(&network, &model, options, &mut selection.notes);
    if !options.bypass_vpn {
        withhold(host, &model, &network, &mut found, &mut selection.withheld);
    }
    let path = |(link, addresses): (&NetworkInterface, Vec<PathAddress>)| SetupPath {
        index: link.index,
        interface: link.name.clone(),
        medium: host.media.get(&link.index).copied(),
        backup: is_backup(host, options, link),
        addresses,
    };
    selection.paths = found.into_iter().filter(|(_, addresses)| !addresses.is_empty()).map(path).collect();
    if !selection.paths.is_empty() && selection.paths.iter().all(|path| path.backup) {
        // A backup path is idle only while there is a path to prefer.
        selection.paths.iter_mut().for_each(|path| path.backup = options.backup.contains(&path.interface));
    }
    Ok(selection)
}

type Found<'a> = Vec<(&'a NetworkInterface, Vec<PathAddress>)>;

/// The interfaces that the user named, or the paths of the model; notes state why others are none.
fn chosen<'a>(
    network: &'a HostNetwork,
    model: &HostPaths<'a>,
    options: &SetupOptions,
    notes: &mut Vec<String>,
) -> Found<'a> {
    let is_named = |link: &&NetworkInterface| options.interfaces.contains(&link.name);
    let candidates = network.links.iter().filter(|link| link.up && !link.loopback);
    let candidates: Vec<&NetworkInterface> = if options.interfaces.is_empty() {
        candidates.filter(|link| link.master.is_none() && link.kind.as_deref() != Some("bridge")).collect()
    } else {
        candidates.filter(is_named).collect()
    };
    let has_addresses = |link: &&&NetworkInterface| !addresses(network, link).is_empty();
    let idle = candidates.iter().filter(|link| !link.carrier).filter(has_addresses);
    notes.extend(idle.map(|link| format!("{} has no carrier and is no path.", link.name)));
    if !options.interfaces.is_empty() {
        let named = candidates.into_iter().filter(|link| link.carrier);
        return named.map(|link| (link, addresses(network, link))).collect();
    }
    notes.extend(model.tunnels.iter().map(|tunnel| {
        let name = &tunnel.link.name;
        let is_vpn = AddressFamily::ALL.into_iter().any(|family| model.vpn(family) == Some(tunnel.link));
        let takes = if is_vpn { "takes new connections" } else { "has a default route" };
        format!("{name} is a tunnel that {takes}, such as a VPN. Subflows from endpoints on other interfaces bypass it.")
    }));
    notes.extend(model.local.iter().map(|link| {
        let name = &link.name;
        format!("{name} has no default route and is no path; --path {name} makes it one.")
    }));
    model.paths.iter().map(|path| (path.link, path.addresses.clone())).collect()
}

/// Takes out the addresses whose new endpoints would bypass a VPN. An endpoint that is there is the user's.
fn withhold(
    host: &SetupHost,
    model: &HostPaths<'_>,
    network: &HostNetwork,
    found: &mut Found<'_>,
    withheld: &mut Vec<Withheld>,
) {
    let has_endpoint = |at: IpAddr| host.endpoints.iter().any(|one| one.address == at && !one.flags.implicit);
    for family in AddressFamily::ALL {
        // Not `vpn`: an interface that the user named may be no path of the model before it has an endpoint.
        let Some(vpn) = model.primary_tunnel(family) else { continue };
        for (link, addresses) in found.iter_mut().filter(|(link, _)| !network.is_tunnel(link)) {
            addresses.retain(|at| {
                let is_permitted =
                    AddressFamily::from_address(at.address) != family || has_endpoint(at.address);
                if !is_permitted {
                    withheld.push(Withheld {
                        interface: link.name.clone(),
                        address: at.address,
                        vpn: vpn.name.clone(),
                    });
                }
                is_permitted
            });
        }
    }
}

fn mistakes(host: &SetupHost, options: &SetupOptions) -> Vec<String> {
    let mut mistakes = Vec::new();
    let network = host.network();
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
        } else if option == "--path" && addresses(&network, link).is_empty() {
            mistakes
                .push(format!("{option}: interface {name} has no address that can be used on another link"));
        }
    }
    mistakes
}

/// The addresses of an interface in both families.
fn addresses(network: &HostNetwork, link: &NetworkInterface) -> Vec<PathAddress> {
    let families = AddressFamily::ALL.into_iter();
    families.flat_map(|family| network.path_addresses(link.index, family)).collect()
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

/// Whether packets of this family can leave the subnets of the interface: a table leads beyond the routers by it, or a DHCP
/// lease has a router.
pub(super) fn has_router(host: &SetupHost, index: u32, ipv4: bool) -> bool {
    let family = if ipv4 { AddressFamily::Ipv4 } else { AddressFamily::Ipv6 };
    let leased = host.leased_routers.get(&index).is_some_and(|of| of.iter().any(|at| at.is_ipv4() == ipv4));
    leased || leads_beyond(&host.routes, index, family)
}
