//! Endpoints and limits of the kernel's path manager.

use crate::facts::{HostFacts, PathFacts};
use crate::finding::{Finding, FindingId};
use pathbench_host::mptcp::{Endpoint, Limits};
use pathbench_record::network::AddressFamily;
use std::collections::BTreeSet;

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
fn examine(facts: &HostFacts, endpoint: &Endpoint) -> Option<Finding> {
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
        return Some(finding.about(address.to_string()).with(delete).with(add));
    }
    (!flags.subflow && !flags.signal && !flags.implicit && !flags.laminar).then(|| {
        Finding::advice(
            FindingId::EndpointFlags,
            format!("endpoint {id} ({address}) has neither `subflow` nor `signal`"),
            "The path manager neither opens subflows from it nor announces it.",
        )
        .about(address.to_string())
        .with(delete)
        .with(format!("ip mptcp endpoint add {address} dev {} subflow", facts.name(assigned.index)))
    })
}

/// An endpoint whose address this host does not have.
fn absent(facts: &HostFacts, endpoint: &Endpoint, id: &str, delete: String) -> Finding {
    let address = endpoint.address;
    // The subnet says to which network the address belongs, and which own address was meant.
    let in_subnet = |of: &&pathbench_host::netlink::InterfaceAddress| of.network.contains(&address);
    let neighbour = facts.network.addresses.iter().find(in_subnet).filter(|of| !of.link_scope);
    let owner = match neighbour {
        Some(own) => format!(
            " It lies in {}, the subnet of {} ({}): it is the address of another host there, perhaps of the peer.",
            own.network.trunc(),
            facts.name(own.index),
            own.network.addr()
        ),
        None => " No interface of this host has a subnet with it; an interface that is down or removed may have had it."
            .to_owned(),
    };
    let meaning = format!(
        "An endpoint names an address of this host, never one of the peer. The kernel opens no subflow from it \
         (MPJoinSynTxBindErr), and with `signal` it announces an address that leads elsewhere.{owner}"
    );
    let finding = Finding::problem(
        FindingId::EndpointAddress,
        format!("endpoint {id} is {address}, and no interface of this host has this address"),
        meaning,
    )
    .about(address.to_string())
    .with(delete);
    let family = AddressFamily::of(address);
    let interface = endpoint.interface.or(neighbour.map(|own| own.index));
    let own = interface.and_then(|index| facts.address_of(index, family));
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let own = own.filter(|own| !endpoints.iter().any(|other| other.address == own.network.addr()));
    match own {
        Some(own) => {
            let flags =
                if endpoint.flags.bits() == 0 { "subflow".to_owned() } else { endpoint.flags.to_string() };
            finding.with(format!(
                "ip mptcp endpoint add {} dev {} {flags}",
                own.network.addr(),
                facts.name(own.index)
            ))
        }
        None => finding,
    }
}

/// Paths without an endpoint from which a subflow could start.
fn missing(facts: &HostFacts, endpoints: &[Endpoint]) -> Vec<Finding> {
    let usable = |endpoint: &&Endpoint| {
        (endpoint.flags.subflow || endpoint.flags.fullmesh) && facts.assigned(endpoint.address).is_some()
    };
    let opening: BTreeSet<u32> = endpoints
        .iter()
        .filter(usable)
        .filter_map(|endpoint| facts.assigned(endpoint.address).map(|of| of.index))
        .collect();
    let mut findings = Vec::new();
    let mut examined = BTreeSet::new();
    for family in [AddressFamily::Ipv4, AddressFamily::Ipv6] {
        let paths = facts.paths(family);
        if paths.len() < 2 {
            continue;
        }
        let mut without: Vec<&PathFacts<'_>> =
            paths.iter().filter(|path| !opening.contains(&path.link.index)).collect();
        // A connection starts on one path without an endpoint: on the first one, as far as it is known.
        let first = match facts.primary(family) {
            Some(primary) => without.iter().position(|path| path.link.index == primary),
            None => (without.len() < paths.len() && !without.is_empty()).then_some(0),
        };
        if let Some(place) = first {
            without.remove(place);
        }
        let new = without.into_iter().filter(|path| examined.insert(path.link.index));
        findings.extend(new.map(|path| add(facts, path)));
    }
    if findings.is_empty() {
        findings.push(in_order(facts, endpoints));
    }
    findings
}

fn add(facts: &HostFacts, path: &PathFacts<'_>) -> Finding {
    let (name, address) = (&path.link.name, path.address);
    let device = facts.device(path.link.index);
    let backup = if device.cellular || device.metered == Some(true) { " backup" } else { "" };
    Finding::problem(
        FindingId::MptcpEndpoint,
        format!("no MPTCP endpoint with `subflow` has an address of {name}"),
        format!(
            "The path manager opens no subflow over {name}: MPTCP connections negotiate multipath and use the path of \
             their initial subflow only."
        ),
    )
    .about(name.clone())
    .with(format!("ip mptcp endpoint add {address} dev {name} subflow{backup}"))
}

fn in_order(facts: &HostFacts, endpoints: &[Endpoint]) -> Finding {
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

fn examine_limits(facts: &HostFacts, endpoints: &[Endpoint], limits: Limits) -> Finding {
    let id = FindingId::MptcpLimits;
    let Limits { subflows, add_addr_accepted } = limits;
    let found = format!("subflows {subflows}, add_addr_accepted {add_addr_accepted}");
    let opening = endpoints.iter().filter(|endpoint| endpoint.flags.subflow || endpoint.flags.fullmesh);
    let needed = u32::try_from(opening.count()).unwrap_or(LARGEST_LIMIT).clamp(2, LARGEST_LIMIT);
    let set = |add_addr: u32| format!("ip mptcp limits set subflows {needed} add_addr_accepted {add_addr}");
    let paths = [AddressFamily::Ipv4, AddressFamily::Ipv6].map(|family| facts.paths(family).len());
    let most = paths.into_iter().max().unwrap_or(0);
    if subflows == 0 {
        let meaning = "A connection may have no subflow beside its initial one, whatever the endpoints are.";
        let finding =
            if most < 2 { Finding::advice(id, found, meaning) } else { Finding::problem(id, found, meaning) };
        return finding.with(set(add_addr_accepted.max(needed)));
    }
    if (subflows as usize) + 1 < most {
        let meaning = format!(
            "A connection has at most {} subflows, and {most} interfaces are fit to be paths.",
            subflows + 1
        );
        return Finding::advice(id, found, meaning).with(set(add_addr_accepted));
    }
    if add_addr_accepted == 0 && most >= 2 {
        let meaning = "The path manager ignores the addresses that a server announces (ADD_ADDR). A server that is reached \
                       at several addresses requires a value above 0 here.";
        return Finding::advice(id, found, meaning).with(set(needed.max(subflows)));
    }
    Finding::ok(id, found)
}
