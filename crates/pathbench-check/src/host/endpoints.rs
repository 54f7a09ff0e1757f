//! Endpoints and limits of the kernel's path manager.

use crate::facts::{HostFacts, PathFacts};
use crate::finding::{Finding, FindingId};
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::InterfaceAddress;
use pathbench_record::mptcp::command::delete_endpoint;
use pathbench_record::mptcp::remedy::{ANNOUNCE, NeededEndpoint, NoEndpoint, PathManagerState, is_suitable};
use pathbench_record::network::AddressFamily;
use std::collections::BTreeSet;
use std::net::IpAddr;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let endpoints = match &facts.endpoints {
        Ok(endpoints) => endpoints,
        Err(reason) => return vec![Finding::not_examined(FindingId::MptcpEndpoint, reason)],
    };
    let mut remedies = Remedies::new(facts, endpoints);
    // The kernel's own endpoints follow its connections.
    let explicit = || endpoints.iter().filter(|endpoint| !endpoint.flags.implicit);
    let mut findings: Vec<Finding> =
        explicit().filter_map(|endpoint| unusable(facts, endpoint, &mut remedies)).collect();
    findings.extend(explicit().filter_map(|endpoint| misbound(facts, endpoint, &remedies)));
    findings.extend(missing(facts, endpoints, &mut remedies));
    findings.extend(explicit().filter_map(|endpoint| without_effect(facts, endpoint, &remedies)));
    findings.push(match &facts.limits {
        Ok(limits) => examine_limits(facts, endpoints, *limits),
        Err(reason) => Finding::not_examined(FindingId::MptcpLimits, reason),
    });
    findings
}

/// The path manager's configuration after the remedies of [`findings`]; an endpoint that they add has no id.
pub(super) fn remedied(facts: &HostFacts) -> PathManagerState {
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let mut remedies = Remedies::new(facts, endpoints);
    for endpoint in endpoints.iter().filter(|endpoint| !endpoint.flags.implicit) {
        let _finding = unusable(facts, endpoint, &mut remedies);
    }
    let _findings = missing(facts, endpoints, &mut remedies);
    remedies.state
}

/// The remedies of one check: each is computed for the endpoints that the remedies printed before it leave.
struct Remedies {
    state: PathManagerState,
}

impl Remedies {
    fn new(facts: &HostFacts, endpoints: &[MptcpEndpoint]) -> Self {
        let state = facts.path_manager();
        let stays = |endpoint: &MptcpEndpoint| !is_unusable(facts, endpoint);
        Self {
            state: PathManagerState {
                endpoints: endpoints.iter().filter(|endpoint| stays(endpoint)).copied().collect(),
                ..state
            },
        }
    }

    fn endpoint(&mut self, needed: &NeededEndpoint<'_>) -> Vec<String> {
        let remedy = self.state.endpoint_remedy(needed);
        if remedy.is_ok() {
            self.state.assume(needed);
        }
        in_words(remedy)
    }
}

/// The commands, or the reason why there are none.
fn in_words(remedy: Result<Vec<String>, NoEndpoint>) -> Vec<String> {
    remedy.unwrap_or_else(|reason| vec![reason.to_string()])
}

/// Whether no subflow can start from an endpoint, which therefore is of no use.
fn is_unusable(facts: &HostFacts, endpoint: &MptcpEndpoint) -> bool {
    let is_here = facts.assigned(endpoint.address).is_some();
    !is_suitable(endpoint.address) || !is_here && !is_perhaps_of_nat(facts, endpoint)
}

/// An announced address of a NAT that forwards connections to this host.
fn is_perhaps_of_nat(facts: &HostFacts, endpoint: &MptcpEndpoint) -> bool {
    !endpoint.flags.opens_subflows() && neighbour(facts, endpoint.address).is_none()
}

fn name(endpoint: &MptcpEndpoint) -> String {
    endpoint.id.map_or_else(|| endpoint.address.to_string(), |id| id.to_string())
}

/// An endpoint whose address this host does not have, or which is valid on this host or link only.
fn unusable(facts: &HostFacts, endpoint: &MptcpEndpoint, remedies: &mut Remedies) -> Option<Finding> {
    let (address, id) = (endpoint.address, name(endpoint));
    if !is_suitable(address) {
        let found = format!("endpoint {id} is {address}, an address that is valid on this host or link only");
        let meaning =
            "No peer can be reached from it: the kernel opens no subflow from it, or one that fails.";
        let finding = Finding::problem(FindingId::EndpointAddress, found, meaning);
        return Some(finding.with_subject(address.to_string()).with_step(delete_endpoint(endpoint)));
    }
    if facts.assigned(address).is_some() {
        return None;
    }
    Some(of_link_that_is_down(facts, endpoint, &id).unwrap_or_else(|| absent(facts, endpoint, &id, remedies)))
}

/// An IPv6 endpoint whose interface is down: the kernel removes IPv6 addresses with the link, and their manager
/// adds them when it is up (`keep_addr_on_down`, Documentation/networking/ip-sysctl.rst).
fn of_link_that_is_down(facts: &HostFacts, endpoint: &MptcpEndpoint, id: &str) -> Option<Finding> {
    let link = facts.link(endpoint.interface?).filter(|link| !link.up && endpoint.address.is_ipv6())?;
    let (address, name) = (endpoint.address, &link.name);
    let found = format!("endpoint {id} is {address} dev {name}, and {name} is down");
    let meaning = "The kernel removes the IPv6 addresses of an interface that goes down. The endpoint is of use when the \
                   interface is up and has the address again.";
    let finding =
        Finding::advice(FindingId::EndpointAddress, found, meaning).with_subject(address.to_string());
    Some(
        finding
            .with_step(format!("ip link set {name} up"))
            .with_step(format!("If {name} stays down:"))
            .with_step(delete_endpoint(endpoint)),
    )
}

/// An endpoint that is bound to another interface than the one with its address.
fn misbound(facts: &HostFacts, endpoint: &MptcpEndpoint, remedies: &Remedies) -> Option<Finding> {
    let (address, index) = (endpoint.address, endpoint.interface?);
    let is_of = |own: &&InterfaceAddress| own.network.addr() == address;
    let mut owners = facts.network.addresses.iter().filter(is_of).map(|own| own.index).peekable();
    let owner = *owners.peek()?;
    // An address of the loopback interface is routed by any other.
    let is_routed = facts.link(owner).is_some_and(|link| link.loopback) && facts.link(index).is_some();
    if is_routed || !is_suitable(address) || owners.any(|owner| owner == index) {
        return None;
    }
    let right = facts.name(owner);
    let finding = Finding::problem(
        FindingId::EndpointDevice,
        format!(
            "endpoint {} is {address} dev {}, and {right} has the address",
            name(endpoint),
            facts.name(index)
        ),
        format!(
            "The kernel binds its subflows to the other interface: packets from {address} do not leave by {right}."
        ),
    );
    let steps = in_words(remedies.state.binding_remedy(endpoint, &right));
    Some(finding.with_subject(address.to_string()).with_steps(steps))
}

/// An endpoint that the path manager does not use.
fn without_effect(facts: &HostFacts, endpoint: &MptcpEndpoint, remedies: &Remedies) -> Option<Finding> {
    let (address, flags) = (endpoint.address, endpoint.flags);
    let assigned = facts.assigned(address)?;
    if flags.opens_subflows() || flags.signal || flags.laminar {
        return None;
    }
    let device = facts.name(assigned.index);
    let needed = NeededEndpoint { address, device: &device, flags: EndpointFlags::SUBFLOW };
    let finding = Finding::advice(
        FindingId::EndpointFlags,
        format!("endpoint {} ({address}) has neither `subflow` nor `signal`", name(endpoint)),
        "The path manager neither opens subflows from it nor announces it.",
    );
    // None if the remedy of its path, above, gives it the flag.
    let steps = in_words(remedies.state.endpoint_remedy(&needed));
    Some(finding.with_subject(address.to_string()).with_steps(steps))
}

/// An endpoint whose address this host does not have.
fn absent(facts: &HostFacts, endpoint: &MptcpEndpoint, id: &str, remedies: &mut Remedies) -> Finding {
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
    if is_perhaps_of_nat(facts, endpoint) {
        let meaning = "This host announces the address to peers. That is correct only if it is the address of a NAT that \
                       forwards connections to this host.";
        return Finding::advice(FindingId::EndpointAddress, found, meaning)
            .with_subject(address.to_string())
            .with_step("If it is not:")
            .with_step(delete_endpoint(endpoint));
    }
    let meaning = format!(
        "An endpoint names an address of this host, never one of the peer. The kernel opens no subflow from it \
         (MPJoinSynTxBindErr), and with `signal` it announces an address that leads elsewhere.{owner}"
    );
    let finding = Finding::problem(FindingId::EndpointAddress, found, meaning)
        .with_subject(address.to_string())
        .with_step(delete_endpoint(endpoint));
    let Some(own) = replacement(facts, endpoint) else { return finding };
    let device = facts.name(own.index);
    let flags = EndpointFlags { laminar: false, ..endpoint.flags };
    let flags = if flags == EndpointFlags::default() { EndpointFlags::SUBFLOW } else { flags };
    finding.with_steps(remedies.endpoint(&NeededEndpoint {
        address: own.network.addr(),
        device: &device,
        flags,
    }))
}

/// The own address that was meant by an endpoint with an address of another host: of the endpoint's interface, or in the
/// same subnet.
fn replacement<'a>(facts: &'a HostFacts, endpoint: &MptcpEndpoint) -> Option<&'a InterfaceAddress> {
    if !is_suitable(endpoint.address) || facts.assigned(endpoint.address).is_some() {
        return None;
    }
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let family = AddressFamily::from_address(endpoint.address);
    let interface = endpoint.interface.or_else(|| neighbour(facts, endpoint.address).map(|own| own.index))?;
    let own = facts.address_of(interface, family).filter(|own| is_suitable(own.network.addr()))?;
    (!endpoints.iter().any(|other| other.address == own.network.addr())).then_some(own)
}

/// Subflows beside the initial one, and announced addresses, that two paths require.
const LEAST_SUBFLOWS: usize = 2;

/// The own address in whose subnet `address` lies.
fn neighbour(facts: &HostFacts, address: IpAddr) -> Option<&InterfaceAddress> {
    facts.network.addresses.iter().find(|own| !own.link_scope && own.network.contains(&address))
}

/// Paths without an endpoint from which a subflow could start.
fn missing(facts: &HostFacts, endpoints: &[MptcpEndpoint], remedies: &mut Remedies) -> Vec<Finding> {
    let interfaces_with = |has: fn(EndpointFlags) -> bool| -> BTreeSet<u32> {
        let having = endpoints.iter().filter(|endpoint| has(endpoint.flags));
        having.filter_map(|endpoint| facts.assigned(endpoint.address)).map(|of| of.index).collect()
    };
    let opening = interfaces_with(EndpointFlags::opens_subflows);
    let announced = interfaces_with(|flags| flags.signal);
    // The remedy of an endpoint with another host's address adds the right one.
    let mut examined: BTreeSet<u32> =
        endpoints.iter().filter_map(|endpoint| replacement(facts, endpoint)).map(|own| own.index).collect();
    let is_complete = examined.is_empty();
    let mut findings = Vec::new();
    for family in AddressFamily::ALL {
        let new = without_endpoint(facts, family, &opening);
        let new = new.into_iter().filter(|path| examined.insert(path.link.index));
        findings.extend(new.map(|path| add(facts, &path, announced.contains(&path.link.index), remedies)));
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

fn add(facts: &HostFacts, path: &PathFacts<'_>, is_announced: bool, remedies: &mut Remedies) -> Finding {
    let (id, name, address) = (FindingId::MptcpEndpoint, &path.link.name, path.address);
    let device = facts.device(path.link.index);
    let backup = device.cellular || device.metered == Some(true);
    let needed =
        NeededEndpoint { address, device: name, flags: EndpointFlags { backup, ..EndpointFlags::SUBFLOW } };
    let found = format!("no MPTCP endpoint with `subflow` has an address of {name}");
    if is_announced {
        let meaning = format!(
            "Peers open subflows to {name}, because its address is announced. Connections that this host opens do not use it."
        );
        return Finding::advice(id, found, meaning)
            .with_subject(name.clone())
            .with_step("If this host opens connections itself:")
            .with_steps(in_words(remedies.state.endpoint_remedy(&needed)));
    }
    if let Some(vpn) = facts.vpn(Some(AddressFamily::from_address(address))) {
        let meaning = format!(
            "Connections use {} only, which has the default route. Subflows from an endpoint of {name} would bypass the VPN.",
            vpn.name
        );
        return Finding::advice(id, found, meaning)
            .with_subject(name.clone())
            .with_step("If this is intended:")
            .with_steps(in_words(remedies.state.endpoint_remedy(&needed)));
    }
    let meaning = format!(
        "The path manager opens no subflow over {name}: MPTCP connections of this host negotiate multipath and use the path \
         of their initial subflow only."
    );
    let steps = remedies.endpoint(&needed);
    let finding = Finding::problem(id, found, meaning).with_subject(name.clone()).with_steps(steps);
    if facts.has_default_route(AddressFamily::from_address(address), None) {
        return finding;
    }
    let subnet = path.network.trunc();
    finding.with_step(format!(
        "On the server, because no default route leads from {subnet} to its other addresses: {ANNOUNCE} (ADDRESS: the one \
         in {subnet})"
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
    let opening = endpoints.iter().filter(|endpoint| endpoint.flags.opens_subflows()).count();
    let most = AddressFamily::ALL.map(|family| facts.paths(family).len()).into_iter().max().unwrap_or(0);
    let further = most.saturating_sub(1);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let needed = MptcpLimits {
        subflows: count(opening.max(further).max(LEAST_SUBFLOWS)),
        add_addr_accepted: count(most.clamp(1, LEAST_SUBFLOWS)),
    };
    let raised = limits.raised_to(needed);
    let remedy = |finding: Finding, needed: MptcpLimits| finding.with_steps(limits.remedy(needed));
    if subflows == 0 {
        let meaning = "A connection may have no subflow beside its initial one. Endpoints have no effect.";
        let finding =
            if most < 2 { Finding::advice(id, found, meaning) } else { Finding::problem(id, found, meaning) };
        return remedy(finding, needed);
    }
    if (subflows as usize) < further && raised.subflows > subflows {
        let meaning = format!(
            "A connection has at most {} subflows, and {most} interfaces are fit to be paths.",
            subflows + 1
        );
        return remedy(Finding::advice(id, found, meaning), needed);
    }
    let announced = announced_addresses(facts);
    // A single path has no use for announced addresses, unless there are some.
    if add_addr_accepted > 0 || most < 2 && announced == 0 {
        return Finding::ok(id, found);
    }
    let meaning = ignored_addresses(facts, most, announced);
    remedy(Finding::advice(id, found, meaning), MptcpLimits { subflows, ..needed })
}

/// The addresses that peers have announced since the start of the network namespace.
fn announced_addresses(facts: &HostFacts) -> i64 {
    let counters = facts.counters.as_ref().ok();
    counters.and_then(|counters| counters.get("MPTcpExt.AddAddr")).unwrap_or(0)
}

/// The meaning of `add_addr_accepted` 0 on a host with `paths` paths.
fn ignored_addresses(facts: &HostFacts, paths: usize, announced: i64) -> String {
    let ignores = match announced {
        0 => "The path manager ignores the addresses that a server announces (ADD_ADDR).".to_owned(),
        count => format!(
            "Servers have announced {count} addresses (AddAddr), and the path manager ignores announced addresses (ADD_ADDR)."
        ),
    };
    let is_direct = AddressFamily::ALL.iter().all(|family| !facts.has_default_route(*family, None));
    let consequence = if is_direct && paths >= 2 {
        "No interface has a default route, so the second path requires an announced address of its subnet."
    } else {
        "A server that is reached at several addresses requires a value above 0 here."
    };
    format!("{ignores} {consequence}")
}
