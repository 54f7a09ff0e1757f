//! Endpoints and limits of the kernel's path manager.

use crate::facts::{HostFacts, PathFacts};
use crate::finding::{Finding, FindingId};
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::InterfaceAddress;
use pathbench_record::network::AddressFamily;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The largest limits that the kernel accepts (`MPTCP_PM_ADDR_MAX`, net/mptcp/protocol.h).
const LARGEST_LIMIT: u32 = 8;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let endpoints = match &facts.endpoints {
        Ok(endpoints) => endpoints,
        Err(reason) => return vec![Finding::not_examined(FindingId::MptcpEndpoint, reason)],
    };
    let mut findings: Vec<Finding> =
        endpoints.iter().filter_map(|endpoint| examine(facts, endpoint)).collect();
    findings.extend(missing(facts, endpoints));
    findings.push(match &facts.limits {
        Ok(limits) => examine_limits(facts, endpoints, *limits),
        Err(reason) => Finding::not_examined(FindingId::MptcpLimits, reason),
    });
    findings
}

/// The mistakes in one endpoint.
fn examine(facts: &HostFacts, endpoint: &MptcpEndpoint) -> Option<Finding> {
    let address = endpoint.address;
    let id = endpoint.id.map_or_else(|| address.to_string(), |id| id.to_string());
    let delete = match endpoint.id {
        Some(id) => format!("ip mptcp endpoint delete id {id}"),
        None => format!("ip mptcp endpoint delete {address}"),
    };
    let Some(assigned) = facts.assigned(address) else {
        return Some(absent(facts, endpoint, &id, delete));
    };
    let flags = endpoint.flags;
    if let Some(index) = endpoint.interface.filter(|index| *index != assigned.index) {
        let right = facts.name(assigned.index);
        let finding = Finding::problem(
            FindingId::EndpointDevice,
            format!("endpoint {id} is {address} dev {}, and {right} has the address", facts.name(index)),
            format!(
                "The kernel binds its subflows to the other interface: packets from {address} do not leave by {right}."
            ),
        );
        let add = format!("ip mptcp endpoint add {address} dev {right} {flags}");
        return Some(finding.with_subject(address.to_string()).with_step(delete).with_step(add));
    }
    (!flags.subflow && !flags.signal && !flags.implicit && !flags.laminar).then(|| {
        Finding::advice(
            FindingId::EndpointFlags,
            format!("endpoint {id} ({address}) has neither `subflow` nor `signal`"),
            "The path manager neither opens subflows from it nor announces it.",
        )
        .with_subject(address.to_string())
        .with_step(delete)
        .with_step(format!("ip mptcp endpoint add {address} dev {} subflow", facts.name(assigned.index)))
    })
}

/// An endpoint whose address this host does not have.
fn absent(facts: &HostFacts, endpoint: &MptcpEndpoint, id: &str, delete: String) -> Finding {
    let address = endpoint.address;
    let owner = match neighbour(facts, address) {
        Some(own) => format!(
            " It lies in {}, the subnet of {} ({}): it is the address of another host there, perhaps of the peer.",
            own.network.trunc(),
            facts.name(own.index),
            own.network.addr()
        ),
        None => " No interface of this host has a subnet with it; an interface that is down or removed may have had it."
            .to_owned(),
    };
    let found = format!("endpoint {id} is {address}, and no interface of this host has this address");
    if !endpoint.flags.subflow && !endpoint.flags.fullmesh && neighbour(facts, address).is_none() {
        let meaning = "This host announces the address to peers. That is correct only if it is the address of a NAT that \
                       forwards connections to this host.";
        return Finding::advice(FindingId::EndpointAddress, found, meaning)
            .with_subject(address.to_string())
            .with_step("If it is not:")
            .with_step(delete);
    }
    let meaning = format!(
        "An endpoint names an address of this host, never one of the peer. The kernel opens no subflow from it \
         (MPJoinSynTxBindErr), and with `signal` it announces an address that leads elsewhere.{owner}"
    );
    let finding = Finding::problem(FindingId::EndpointAddress, found, meaning)
        .with_subject(address.to_string())
        .with_step(delete);
    match replacement(facts, endpoint) {
        Some(own) => finding.with_step(format!(
            "ip mptcp endpoint add {} dev {} {}",
            own.network.addr(),
            facts.name(own.index),
            if endpoint.flags.bits() == 0 { "subflow".to_owned() } else { endpoint.flags.to_string() }
        )),
        None => finding,
    }
}

/// The own address that was meant by an endpoint with an address of another host: of the endpoint's interface, or in the
/// same subnet.
fn replacement<'a>(facts: &'a HostFacts, endpoint: &MptcpEndpoint) -> Option<&'a InterfaceAddress> {
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let family = AddressFamily::from_address(endpoint.address);
    let interface = endpoint.interface.or_else(|| neighbour(facts, endpoint.address).map(|own| own.index))?;
    let own = facts.address_of(interface, family)?;
    (!endpoints.iter().any(|other| other.address == own.network.addr())).then_some(own)
}

/// The own address in whose subnet `address` lies.
fn neighbour(facts: &HostFacts, address: IpAddr) -> Option<&InterfaceAddress> {
    facts.network.addresses.iter().find(|own| !own.link_scope && own.network.contains(&address))
}

/// Paths without an endpoint from which a subflow could start.
fn missing(facts: &HostFacts, endpoints: &[MptcpEndpoint]) -> Vec<Finding> {
    let interfaces_with = |has: fn(&EndpointFlags) -> bool| -> BTreeSet<u32> {
        let having = endpoints.iter().filter(|endpoint| has(&endpoint.flags));
        having.filter_map(|endpoint| facts.assigned(endpoint.address)).map(|of| of.index).collect()
    };
    let opening = interfaces_with(|flags| flags.subflow || flags.fullmesh);
    let announced = interfaces_with(|flags| flags.signal);
    // The remedy of an endpoint with another host's address adds the right one.
    let foreign = endpoints.iter().filter(|endpoint| facts.assigned(endpoint.address).is_none());
    let mut examined: BTreeSet<u32> =
        foreign.filter_map(|endpoint| replacement(facts, endpoint)).map(|own| own.index).collect();
    let is_complete = examined.is_empty();
    let mut findings = Vec::new();
    for family in AddressFamily::ALL {
        let new = without_endpoint(facts, family, &opening);
        let new = new.into_iter().filter(|path| examined.insert(path.link.index));
        findings.extend(new.map(|path| add(facts, &path, announced.contains(&path.link.index))));
    }
    if findings.is_empty() && is_complete {
        findings.push(in_order(facts, endpoints));
    }
    findings
}

/// The paths of a family that require an endpoint and have none. `opening`: the interfaces with an endpoint from which
/// subflows are opened.
fn without_endpoint<'a>(
    facts: &'a HostFacts,
    family: AddressFamily,
    opening: &BTreeSet<u32>,
) -> Vec<PathFacts<'a>> {
    let paths = facts.paths(family);
    let count = paths.len();
    let mut without: Vec<PathFacts<'_>> =
        paths.into_iter().filter(|path| !opening.contains(&path.link.index)).collect();
    if count < 2 {
        return Vec::new();
    }
    // A connection starts on one path, which needs no endpoint: the first one, as far as it is known.
    let first = match facts.primary(family) {
        Some(primary) => without.iter().position(|path| path.link.index == primary),
        None => (without.len() < count && !without.is_empty()).then_some(0),
    };
    if let Some(index) = first {
        without.remove(index);
    }
    without
}

fn add(facts: &HostFacts, path: &PathFacts<'_>, is_announced: bool) -> Finding {
    let (id, name, address) = (FindingId::MptcpEndpoint, &path.link.name, path.address);
    let device = facts.device(path.link.index);
    let backup = if device.cellular || device.metered == Some(true) { " backup" } else { "" };
    let found = format!("no MPTCP endpoint with `subflow` has an address of {name}");
    if is_announced {
        let meaning = format!(
            "Peers open subflows to {name}, because its address is announced. Connections that this host opens do not use it."
        );
        return Finding::advice(id, found, meaning).with_subject(name.clone());
    }
    let add = format!("ip mptcp endpoint add {address} dev {name} subflow{backup}");
    if let Some(vpn) = facts.vpn(Some(AddressFamily::from_address(address))) {
        let meaning = format!(
            "Connections use {} only, which has the default route. Subflows from an endpoint of {name} would bypass the VPN.",
            vpn.name
        );
        return Finding::advice(id, found, meaning)
            .with_subject(name.clone())
            .with_step("If this is intended:")
            .with_step(add);
    }
    let meaning = format!(
        "The path manager opens no subflow over {name}: MPTCP connections of this host negotiate multipath and use the path \
         of their initial subflow only."
    );
    let finding = Finding::problem(id, found, meaning).with_subject(name.clone()).with_step(add);
    if facts.has_default_route(AddressFamily::from_address(address), None) {
        return finding;
    }
    let subnet = path.network.trunc();
    finding.with_step(format!(
        "On the server, because no default route leads from {subnet} to its other addresses: ip mptcp endpoint add ADDRESS \
         dev INTERFACE signal (ADDRESS: the one in {subnet})"
    ))
}

fn in_order(facts: &HostFacts, endpoints: &[MptcpEndpoint]) -> Finding {
    let described: Vec<String> = endpoints
        .iter()
        .map(|endpoint| {
            let device =
                endpoint.interface.map(|index| format!(" dev {}", facts.name(index))).unwrap_or_default();
            format!("{}{device} {}", endpoint.address, endpoint.flags)
        })
        .collect();
    let found =
        if described.is_empty() { "no endpoint, and one path".to_owned() } else { described.join("; ") };
    Finding::ok(FindingId::MptcpEndpoint, found)
}

fn examine_limits(facts: &HostFacts, endpoints: &[MptcpEndpoint], limits: MptcpLimits) -> Finding {
    let id = FindingId::MptcpLimits;
    let MptcpLimits { subflows, add_addr_accepted } = limits;
    let found = format!("subflows {subflows}, add_addr_accepted {add_addr_accepted}");
    let opening = endpoints.iter().filter(|endpoint| endpoint.flags.subflow || endpoint.flags.fullmesh);
    let needed = u32::try_from(opening.count()).unwrap_or(LARGEST_LIMIT).clamp(2, LARGEST_LIMIT);
    let set = |add_addr: u32| format!("ip mptcp limits set subflows {needed} add_addr_accepted {add_addr}");
    let paths = AddressFamily::ALL.map(|family| facts.paths(family).len());
    let most = paths.into_iter().max().unwrap_or(0);
    if subflows == 0 {
        let meaning = "A connection may have no subflow beside its initial one. Endpoints have no effect.";
        let finding =
            if most < 2 { Finding::advice(id, found, meaning) } else { Finding::problem(id, found, meaning) };
        return finding.with_step(set(add_addr_accepted.max(needed)));
    }
    if (subflows as usize) + 1 < most {
        let meaning = format!(
            "A connection has at most {} subflows, and {most} interfaces are fit to be paths.",
            subflows + 1
        );
        return Finding::advice(id, found, meaning).with_step(set(add_addr_accepted));
    }
    if add_addr_accepted == 0 && most >= 2 {
        let direct = AddressFamily::ALL.iter().all(|family| !facts.has_default_route(*family, None));
        let meaning = if direct {
            "The path manager ignores the addresses that a server announces (ADD_ADDR). No interface has a default route, \
             so the second path requires an announced address of its subnet."
        } else {
            "The path manager ignores the addresses that a server announces (ADD_ADDR). A server that is reached at several \
             addresses requires a value above 0 here."
        };
        return Finding::advice(id, found, meaning).with_step(set(needed.max(subflows)));
    }
    Finding::ok(id, found)
}
