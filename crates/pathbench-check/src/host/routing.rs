//! Whether packets from the address of each path leave by its interface, and whether reverse path filtering accepts the
//! answers.

use super::endpoints;
use crate::facts::{Departure, HostFacts, PathFacts, RouteAnswer};
use crate::finding::{Finding, FindingId};
use pathbench_host::change::setting;
use pathbench_host::mptcp::MptcpEndpoint;
use pathbench_host::paths::leaves_by;
use pathbench_record::mptcp::remedy::{ANNOUNCE, PathManagerState};
use pathbench_record::network::AddressFamily;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let endpoints = endpoints::remedied(facts);
    for family in AddressFamily::ALL {
        let paths = facts.paths(family);
        // A single path needs neither a rule nor a table.
        if paths.len() < 2 {
            continue;
        }
        let routes =
            (0..).zip(&paths).filter_map(|(number, path)| source_route(facts, &endpoints, path, number));
        findings.extend(routes);
        if family == AddressFamily::Ipv4 {
            findings.extend((0..).zip(&paths).filter_map(|(number, path)| reverse_path(facts, path, number)));
        }
    }
    findings
}

fn departure<'a>(facts: &'a HostFacts, path: &PathFacts<'_>) -> Option<&'a Departure> {
    facts.departures.iter().find(|departure| departure.source == path.address)
}

/// `wlan0 via 192.0.2.1`, or the error.
fn describe(facts: &HostFacts, answer: &RouteAnswer) -> String {
    match answer {
        Ok(hops) => {
            let hop = |hop: &pathbench_host::netlink::NextHop| {
                let gateway = hop.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
                format!("{}{gateway}", facts.name(hop.interface))
            };
            hops.iter().map(hop).collect::<Vec<_>>().join(" or ")
        }
        Err(errno) => errno.clone(),
    }
}

/// A subflow with `dev` requires a route by the interface, one without requires a rule for the address.
/// `endpoints`: with those that the remedies of other findings add.
fn source_route(
    facts: &HostFacts,
    endpoints: &PathManagerState,
    path: &PathFacts<'_>,
    number: u32,
) -> Option<Finding> {
    let id = FindingId::SourceRoute;
    let (name, address, index) = (&path.link.name, path.address, path.link.index);
    let family = AddressFamily::from_address(address);
    let departure = departure(facts, path)?;
    let endpoint = endpoint_of(facts, path);
    let is_bound = endpoint.is_none_or(|endpoint| endpoint.interface.is_some());
    let answer = if is_bound { &departure.bound } else { &departure.any };
    let ok = || {
        let found = format!(
            "packets from {address} to {} leave by {}",
            departure.destination,
            describe(facts, answer)
        );
        Finding::ok(id, found).with_subject(address.to_string())
    };
    if leaves_by(answer, index) {
        return Some(ok());
    }
    // The initial subflow is not bound, and connections from another address do not start here.
    if endpoint.is_none() && endpoints.find(address).is_none() {
        return None;
    }
    let to = departure.destination;
    let found = match answer {
        Ok(_) => format!("packets from {address} ({name}) to {to} leave by {}", describe(facts, answer)),
        Err(errno) => format!("no route to {to} for packets from {address} by {name} ({errno})"),
    };
    if !facts.has_default_route(family, None) && is_bound {
        let meaning = format!(
            "No interface has a default route. Subflows from {address} reach hosts in {} only: the server has to announce \
             its address there (`signal`).",
            path.network.trunc()
        );
        let step = format!("On the server: {ANNOUNCE} (ADDRESS: the one in {})", path.network.trunc());
        return Some(Finding::advice(id, found, meaning).with_subject(address.to_string()).with_step(step));
    }
    let meaning = match answer {
        Ok(_) => format!(
            "The subflow from {address} does not use {name}: it shares the other path, or routers drop it because of its source address."
        ),
        Err(_) => format!(
            "The kernel cannot send the SYN of the subflow from {address}: the endpoint stays unused."
        ),
    };
    Some(
        Finding::problem(id, found, meaning)
            .with_subject(address.to_string())
            .with_steps(rule_and_table(facts, path, number)),
    )
}

fn endpoint_of<'a>(facts: &'a HostFacts, path: &PathFacts<'_>) -> Option<&'a MptcpEndpoint> {
    facts.endpoints.as_deref().unwrap_or_default().iter().find(|endpoint| endpoint.address == path.address)
}

/// The commands that make packets from the address of `path` leave by its interface.
fn rule_and_table(facts: &HostFacts, path: &PathFacts<'_>, number: u32) -> Vec<String> {
    facts.network.source_route(path.link.index, path.network.trunc(), path.address, number)
}

/// Strict reverse path filtering: the kernel looks up the route of an answer without a required interface
/// (`__fib_validate_source`, `net/ipv4/fib_frontend.c`).
fn reverse_path(facts: &HostFacts, path: &PathFacts<'_>, number: u32) -> Option<Finding> {
    let id = FindingId::RpFilter;
    let name = &path.link.name;
    let key = format!("net.ipv4.conf.{name}.rp_filter");
    if let Some(reason) = facts.unread(&key).or_else(|| facts.unread("net.ipv4.conf.all.rp_filter")) {
        return Some(Finding::not_examined(id, reason).with_subject(name.clone()));
    }
    let all = facts.number("net.ipv4.conf.all.rp_filter")?;
    let own = facts.number(&key)?;
    let found = format!("{key} is {own}, net.ipv4.conf.all.rp_filter is {all}");
    let departure = departure(facts, path)?;
    if all.max(own) != 1 {
        return Some(Finding::ok(id, found).with_subject(name.clone()));
    }
    if leaves_by(&departure.any, path.link.index) {
        let found = format!("{found}: strict, and packets from {} leave by {name}", path.address);
        return Some(Finding::ok(id, found).with_subject(name.clone()));
    }
    let meaning = format!(
        "Strict mode is in effect (the larger value), and packets from {} to {} would leave by {}: the kernel drops the \
         answers that arrive on {name}, without a message (TcpExt.IPReversePathFilter).",
        path.address,
        departure.destination,
        describe(facts, &departure.any)
    );
    let or = rule_and_table(facts, path, number);
    Some(
        Finding::problem(id, found, meaning)
            .with_subject(name.clone())
            .with_step(setting::command(&setting::interface_key(name, "rp_filter"), "2"))
            .with_step("or keep strict mode, and add a rule for the address:")
            .with_steps(or),
    )
}
