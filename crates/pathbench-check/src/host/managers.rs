//! Other programs that manage endpoints, limits and rules, and the remedies in their language.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use crate::manager::{Connection, has_endpoints, mptcpd_steps};
use pathbench_host::leases;
use pathbench_host::managers::MptcpdFlags;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint};
use pathbench_host::paths::leaves_by;
use pathbench_record::network::{AddressFamily, DEFAULT_V4, DEFAULT_V6};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let managers = &facts.managers;
    let endpoints = facts.endpoints.as_deref().unwrap_or_default();
    let mut findings = Vec::new();
    if !managers.network_manager.is_empty() {
        let version = managers.network_manager_version.map(|(major, minor)| format!(" {major}.{minor}"));
        let names = managers.network_manager.join(", ");
        let found = format!("NetworkManager{} manages {names}", version.unwrap_or_default());
        if has_endpoints(managers.network_manager_version) {
            findings.push(network_manager(facts, found, endpoints.is_empty()));
        } else {
            findings.push(Finding::ok(
                FindingId::NetworkManager,
                format!("{found}; endpoints exist from 1.40 on"),
            ));
        }
    }
    if managers.mptcpd {
        findings.push(mptcpd(facts));
    }
    if !managers.networkd.is_empty() {
        let found = format!("systemd-networkd manages {}", managers.networkd.join(", "));
        findings.push(networkd(facts, found));
    }
    findings
}

fn network_manager(facts: &HostFacts, found: String, without_endpoints: bool) -> Finding {
    let id = FindingId::NetworkManager;
    let paths: Vec<_> = AddressFamily::ALL.into_iter().flat_map(|family| facts.paths(family)).collect();
    let managed: Vec<_> = paths
        .iter()
        .filter_map(|path| Some((connection(facts, &path.link.name, path.address)?, path)))
        .collect();
    let first = paths.first().map(|path| path.link.index);
    // A host with one path needs no endpoint.
    if !without_endpoints || managed.is_empty() || paths.iter().all(|path| Some(path.link.index) == first) {
        return Finding::ok(id, found);
    }
    let subflow = EndpointFlags { subflow: true, ..EndpointFlags::default() };
    Finding::advice(
        id,
        found,
        "NetworkManager 1.40 and later adds endpoints (`subflow`) for connections with a default route, replaces endpoints on \
         its interfaces that have other flags, sets rp_filter from 1 to 2, and sets no limits. Endpoints added by hand on its \
         interfaces disappear when a connection is reapplied: configure them in the connection.",
    )
    .with_steps(managed.iter().map(|(connection, _)| connection.endpoint_step(subflow)))
}

fn mptcpd(facts: &HostFacts) -> Finding {
    let id = FindingId::Mptcpd;
    if facts.managers.network_manager.is_empty() {
        let has = |flags: &[String], flag: &str| flags.iter().any(|one| one == flag);
        let added = match &facts.managers.mptcpd_flags {
            Some(flags) if !has(&flags.endpoint, "subflow") && !has(&flags.endpoint, "signal") => {
                "its endpoints open no subflows, because it has no addr-flags"
            }
            Some(flags) if !has(&flags.notification, "existing") => {
                "it adds endpoints for addresses that appear later (notify-flags without `existing`)"
            }
            _ => "it adds endpoints, and raises the limits",
        };
        return Finding::ok(id, format!("mptcpd runs: {added}"));
    }
    Finding::advice(
        id,
        "mptcpd runs beside NetworkManager",
        "Both add and remove endpoints. mptcpd also leaves the endpoints of removed interfaces.",
    )
    .with_step("systemctl disable --now mptcp.service")
}

fn networkd(facts: &HostFacts, found: String) -> Finding {
    let id = FindingId::SystemdNetworkd;
    if facts.managers.networkd_keeps_rules {
        return Finding::ok(id, format!("{found}, with ManageForeignRoutingPolicyRules=no"));
    }
    if !has_source_rule(facts) {
        return Finding::ok(id, found);
    }
    Finding::advice(
        id,
        found,
        "systemd-networkd removes policy rules of other programs when it starts or reconfigures an interface: source rules \
         made by `ip rule` disappear, and with the address also the routes of their tables.",
    )
    .with_step("Put the rules and the routes of their tables into .network files ([RoutingPolicyRule], [Route]); pathbench setup --persist does this.")
    .with_step("To keep the rules only:")
    .with_step("mkdir -p /etc/systemd/networkd.conf.d")
    .with_step("printf '[Network]\\nManageForeignRoutingPolicyRules=no\\n' > /etc/systemd/networkd.conf.d/90-foreign-rules.conf")
    .with_step("systemctl restart systemd-networkd")
}

/// Whether packets from some address leave by its interface although the main table prefers another one.
fn has_source_rule(facts: &HostFacts) -> bool {
    facts.departures.iter().any(|departure| {
        let primary = facts.primary(AddressFamily::from_address(departure.source));
        primary.is_some_and(|primary| primary != departure.interface)
            && leaves_by(&departure.any, departure.interface)
    })
}

/// The connection of an interface whose endpoints `NetworkManager` manages.
fn connection<'a>(facts: &'a HostFacts, interface: &'a str, address: IpAddr) -> Option<Connection<'a>> {
    let managers = &facts.managers;
    let version = managers.network_manager_version;
    let is_managed = managers.network_manager.iter().any(|name| name == interface) && has_endpoints(version);
    let link = facts.network.links.iter().find(|link| link.name == interface)?;
    let family = AddressFamily::from_address(address);
    is_managed.then(|| Connection {
        interface,
        uuid: managers.connections.get(interface).map(String::as_str),
        version,
        has_default_route: facts.has_default_route(family, Some(link.index)),
    })
}

/// A command of ip(8) in a remedy, as far as a manager undoes its effect.
#[derive(Debug, Clone, Copy)]
enum Command {
    /// Adds an endpoint, or changes its flags.
    Endpoint {
        address: IpAddr,
        flags: EndpointFlags,
    },
    DeleteEndpoint {
        address: IpAddr,
    },
}

/// Puts the remedies of all findings into the language of the programs that manage their objects, which else undo them, and
/// names the routers of DHCP leases.
pub(super) fn translate(facts: &HostFacts, findings: &mut [Finding]) {
    let routers = leases::routers(&facts.managers.leases, &facts.network.addresses);
    for finding in findings.iter_mut().filter(|finding| !finding.remedy.is_empty()) {
        let steps = std::mem::take(&mut finding.remedy);
        for (index, step) in steps.iter().enumerate() {
            let next = steps.get(index + 1);
            for step in translated(facts, step, next.map(String::as_str)) {
                finding.remedy.push(step);
            }
        }
        for step in &mut finding.remedy {
            if let Some(changed) = default_route(facts, &routers, step) {
                *step = changed;
            }
        }
    }
}

/// `ip route add default via ROUTER dev NAME metric METRIC (ROUTER: …)` with the router of the interface's lease, and as a
/// route of its connection, because `NetworkManager` removes those of other programs from the main table.
fn default_route(facts: &HostFacts, routers: &BTreeMap<u32, Vec<IpAddr>>, step: &str) -> Option<String> {
    let words: Vec<&str> = step.split_whitespace().collect();
    let (ipv4, rest) = match words.as_slice() {
        ["ip", "route", "add", "default", rest @ ..] => (true, rest),
        ["ip", "-6", "route", "add", "default", rest @ ..] => (false, rest),
        _ => return None,
    };
    let (name, metric) = (word_after(rest, "dev")?, word_after(rest, "metric"));
    let link = facts.network.links.iter().find(|link| link.name == name)?;
    let mut leased = routers.get(&link.index).into_iter().flatten().filter(|router| router.is_ipv4() == ipv4);
    let given = word_after(rest, "via")?;
    let leased = leased.next().filter(|_| given == "ROUTER").map(ToString::to_string);
    let comment = match (&leased, step.split_once(" (")) {
        (Some(_), _) => " (the router of its DHCP lease)".to_owned(),
        (None, Some((_, comment))) => format!(" ({comment}"),
        (None, None) => String::new(),
    };
    let router = leased.as_deref().unwrap_or(given);
    let (everywhere, property) = if ipv4 { (DEFAULT_V4, "ipv4") } else { (DEFAULT_V6, "ipv6") };
    let command = match connection(facts, name, everywhere.addr()) {
        Some(connection) if word_after(rest, "table").is_none() => {
            let metric = metric.map(|metric| format!(" {metric}")).unwrap_or_default();
            connection.step(&format!("+{property}.routes \"{everywhere} {router}{metric}\""))
        }
        _ => step.split(" (").next().unwrap_or_default().replace("ROUTER", router),
    };
    Some(command + &comment)
}

fn by_mptcpd(in_force: &MptcpdFlags, flags: EndpointFlags, step: &str) -> Vec<String> {
    let lacks = |flag: &str| !in_force.endpoint.iter().any(|one| one == flag);
    if flags.backup && lacks("backup") || flags.fullmesh && lacks("fullmesh") {
        let other = "mptcpd gives the same flags to the endpoints of all interfaces. Without it (systemctl disable --now \
                     mptcp.service):";
        return vec![other.to_owned(), step.to_owned()];
    }
    let steps = mptcpd_steps(in_force, flags);
    if steps.is_empty() { vec!["systemctl restart mptcp.service".to_owned()] } else { steps }
}

fn translated(facts: &HostFacts, step: &str, next: Option<&str>) -> Vec<String> {
    let unchanged = || vec![step.to_owned()];
    let Some(command) = Command::parse(facts, step) else { return unchanged() };
    let (Command::Endpoint { address, .. } | Command::DeleteEndpoint { address }) = command;
    let Some(own) = facts.assigned(address) else { return unchanged() };
    let name = facts.name(own.index);
    let manager = connection(facts, &name, address);
    match command {
        Command::DeleteEndpoint { .. } => {
            // The connection's flags replace the endpoint.
            let is_replaced = next.and_then(|next| Command::parse(facts, next)).is_some_and(
                |next| matches!(next, Command::Endpoint { address: added, .. } if added == address),
            );
            if is_replaced && manager.is_some() { Vec::new() } else { unchanged() }
        }
        Command::Endpoint { flags, .. } => match (manager, &facts.managers.mptcpd_flags) {
            (Some(connection), _) => vec![connection.endpoint_step(flags)],
            (None, Some(in_force)) => by_mptcpd(in_force, flags, step),
            (None, None) => unchanged(),
        },
    }
}

impl Command {
    /// `ip mptcp endpoint add ADDRESS …`, `change id ID …`, `delete id ID`. An endpoint with a port belongs to no manager.
    fn parse(facts: &HostFacts, step: &str) -> Option<Self> {
        let words: Vec<&str> = step.split_whitespace().collect();
        let ["ip", "mptcp", "endpoint", verb, rest @ ..] = words.as_slice() else { return None };
        let endpoints = facts.endpoints.as_deref().unwrap_or_default();
        let by_id = || {
            let id = word_after(rest, "id")?.parse().ok();
            endpoints.iter().find(|endpoint| endpoint.id == id && endpoint.port.is_none())
        };
        let by_address = |address: IpAddr| {
            endpoints.iter().find(|one| one.address == address && one.port.is_none() && !one.flags.implicit)
        };
        let address: Option<IpAddr> = rest.first().and_then(|word| word.parse().ok());
        if rest.contains(&"port") {
            return None;
        }
        match (*verb, address) {
            ("delete", Some(address)) => Some(Self::DeleteEndpoint { address }),
            ("delete", None) => by_id().map(|there| Self::DeleteEndpoint { address: there.address }),
            ("add" | "change", address) => {
                let there: Option<&MptcpEndpoint> = address.map_or_else(by_id, by_address);
                let address = address.or_else(|| there.map(|there| there.address))?;
                let before = there.map(|there| there.flags).unwrap_or_default();
                let has = |flag: &str| rest.contains(&flag);
                let flags = EndpointFlags {
                    signal: before.signal || has("signal"),
                    subflow: before.subflow || has("subflow"),
                    backup: (before.backup || has("backup")) && !has("nobackup"),
                    fullmesh: (before.fullmesh || has("fullmesh")) && !has("nofullmesh"),
                    laminar: before.laminar || has("laminar"),
                    implicit: false,
                };
                Some(Self::Endpoint { address, flags })
            }
            _ => None,
        }
    }
}

fn word_after<'a>(words: &[&'a str], keyword: &str) -> Option<&'a str> {
    let index = words.iter().position(|word| *word == keyword)?;
    words.get(index + 1).copied()
}
