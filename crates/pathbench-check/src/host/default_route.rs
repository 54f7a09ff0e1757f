//! The route of new connections without a bound address: the first path of every program.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use pathbench_host::netlink::NetworkInterface;
use pathbench_host::paths::HostPaths;
use pathbench_record::network::AddressFamily;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let paths = facts.host_paths();
    AddressFamily::ALL.into_iter().filter_map(|family| examine(facts, &paths, family)).collect()
}

fn examine(facts: &HostFacts, paths: &HostPaths<'_>, family: AddressFamily) -> Option<Finding> {
    let answer = paths.answer(family)?;
    let dead = paths.without_carrier(family);
    if let Some(first) = dead.first() {
        return Some(without_carrier(facts, paths, family, first));
    }
    let reason = answer.as_ref().err()?;
    let (to, _) = facts.primaries.iter().find(|(to, _)| AddressFamily::from_address(*to) == family)?;
    if to.is_loopback() || facts.assigned(*to).is_some() {
        return None;
    }
    let beyond = |index: u32| facts.has_default_route(family, Some(index));
    let unused =
        paths.paths.iter().find(|path| beyond(path.link.index) && path.of_family(family).next().is_some())?;
    let name = &unused.link.name;
    let ip = if family == AddressFamily::Ipv4 { "ip" } else { "ip -6" };
    Some(
        Finding::advice(
            FindingId::DefaultRoute,
            format!("the kernel has no route for new {} connections ({reason}), although {name} leads to a router", family.name()),
            "Programs connect only if they bind an address with a rule. A firewall of a VPN can be the reason, or a missing \
             default route in the main table.",
        )
        .with_subject(family.name())
        .with_step(format!("{ip} rule; {ip} route show table all (an unreachable, prohibit or blackhole route)")),
    )
}

fn without_carrier(
    facts: &HostFacts,
    paths: &HostPaths<'_>,
    family: AddressFamily,
    dead: &NetworkInterface,
) -> Finding {
    let name = &dead.name;
    let hops = paths.answer(family).into_iter().flatten().flatten();
    let by = |gateway: Option<std::net::IpAddr>| gateway.map(|at| format!(" via {at}")).unwrap_or_default();
    let described: Vec<String> =
        hops.map(|hop| format!("{}{}", facts.name(hop.interface), by(hop.gateway))).collect();
    let part = if described.len() > 1 { "A part of them" } else { "They" };
    let finding = Finding::problem(
        FindingId::DefaultRoute,
        format!("new {} connections leave by {}, and {name} has no carrier", family.name(), described.join(" or ")),
        format!(
            "{part} cannot be opened: the kernel uses the best route although its interface has no carrier. With MPTCP, no \
             further path helps before the first one has answered."
        ),
    )
    .with_subject(name.clone());
    let has_other = paths
        .paths
        .iter()
        .any(|path| path.link.index != dead.index && path.of_family(family).next().is_some());
    if !paths.may_ignore_routes(dead) {
        return finding.with_step(format!(
            "start the VPN of {name} again, or remove its routes: ip route show dev {name}"
        ));
    }
    if !has_other {
        return finding.with_step("Connect the cable or the modem.");
    }
    let key = pathbench_host::change::setting::linkdown_key(name, family);
    // With slashes, a dot in the name of an interface is part of the name.
    let key = if name.contains('.') { key } else { key.replace('/', ".") };
    finding
        .with_step(format!("sysctl -w {key}=1"))
        .with_step(format!("or connect the cable or the modem of {name}"))
}
