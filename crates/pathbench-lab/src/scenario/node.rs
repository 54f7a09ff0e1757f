//! Hosts and routers: sysctls, MPTCP limits and endpoints, routes by hand.

use super::address::parse_subnet;
use super::keys;
use super::mistake::MistakeKind;
use super::plan::{EndpointPlan, Family, Hop, Link, MptcpPlan, RoutePlan, path_of};
use super::section::Section;
use super::suggestion::choices;
use super::tree::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// `MPTCP_PM_ADDR_MAX` (net/mptcp/protocol.h): endpoints of a namespace, and the largest limit.
const MOST_ENDPOINTS: u64 = 8;

/// The sysctls of a node: values as they are written to `/proc/sys`.
pub(super) fn sysctls(section: &Section<'_>) -> BTreeMap<String, String> {
    let own = section.section("sysctl");
    let mut sysctls = BTreeMap::new();
    for field in own.table.map(|table| table.flattened(&|_| false)).unwrap_or_default() {
        let key = own.key(&field.key);
        let wrong = |kind, problem: String, remedy: &str| {
            section.ledger.add(kind, &field.item.origin, key.as_str(), problem, remedy);
        };
        let value = match &field.item.value {
            Value::Text(text) if text.chars().any(char::is_control) => {
                wrong(
                    MistakeKind::Value,
                    "the value has control characters".to_owned(),
                    "give one line of text",
                );
                continue;
            }
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => {
                let problem = format!("{} is not the value of a sysctl", other.noun());
                wrong(
                    MistakeKind::Type,
                    problem,
                    "give a whole number or a text, as in 1 or \"4096 131072 6291456\"",
                );
                continue;
            }
        };
        if let Some((problem, remedy)) = sysctl_fault(&field.key) {
            section.ledger.add(MistakeKind::Value, &field.origin, key.as_str(), problem, remedy);
        } else if sysctls.insert(field.key.clone(), value).is_some() {
            wrong(MistakeKind::Duplicate, "is given twice".to_owned(), "remove one of the two");
        }
    }
    sysctls
}

/// What is wrong with the name of a sysctl. Only `net.*` belongs to a network namespace.
fn sysctl_fault(name: &str) -> Option<(String, String)> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
    let parts_are_legal = name.split('.').all(|part| {
        !part.is_empty() && part.chars().all(legal) && !part.starts_with('/') && !part.ends_with('/')
    });
    if !parts_are_legal || !name.contains('.') {
        let remedy = "give its dotted name, as in \"net.ipv4.tcp_mtu_probing\"";
        return Some((format!("`{name}` is not the name of a sysctl"), remedy.to_owned()));
    }
    if !name.starts_with("net.") {
        let remedy = "give one that begins with net.; the others belong to the whole machine";
        return Some((format!("`{name}` does not belong to a lab host"), remedy.to_owned()));
    }
    None
}

pub(super) struct Surroundings<'a> {
    pub(super) node: &'a str,
    pub(super) links: &'a [Link],
    pub(super) hops: &'a [Hop],
    pub(super) family: Family,
    pub(super) is_client: bool,
}

impl Surroundings<'_> {
    fn ends(&self) -> impl Iterator<Item = (&Link, &[(IpAddr, u8)])> {
        self.links
            .iter()
            .filter_map(|link| Some((link, link.ends[link.end_of(self.node)?].addresses.as_slice())))
    }
}

pub(super) fn mptcp(section: &Section<'_>, around: &Surroundings<'_>) -> MptcpPlan {
    let own = section.section("mptcp");
    own.only("mptcp", &keys::MPTCP);
    let limit = |key: &str| own.integer(key, 0..=MOST_ENDPOINTS).unwrap_or(MOST_ENDPOINTS) as u32;
    let given = own.has("endpoints");
    let endpoints = match (given, around.is_client) {
        (true, _) => {
            own.sections("endpoints").iter().filter_map(|endpoint_of| endpoint(endpoint_of, around)).collect()
        }
        (false, true) => default_endpoints(around),
        (false, false) => Vec::new(),
    };
    check_endpoints(&own, &endpoints, around.node);
    MptcpPlan { subflows: limit("subflows"), add_addr_accepted: limit("add_addr_accepted"), endpoints }
}

fn check_endpoints(own: &Section<'_>, endpoints: &[EndpointPlan], node: &str) {
    if endpoints.len() > MOST_ENDPOINTS as usize {
        let problem = format!("`{node}` would have {} endpoints", endpoints.len());
        let remedy =
            format!("name at most {MOST_ENDPOINTS} in host.{node}.mptcp.endpoints; the kernel takes no more");
        own.wrong(MistakeKind::Conflict, "endpoints", problem, remedy);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        if endpoints[..index].iter().any(|other| other.address == endpoint.address) {
            let problem = format!("{} is the address of two endpoints", endpoint.address);
            own.wrong(MistakeKind::Duplicate, "endpoints", problem, "put all its flags into one of them");
        }
    }
}

fn default_endpoints(around: &Surroundings<'_>) -> Vec<EndpointPlan> {
    let of_link = |(link, addresses): (&Link, &[(IpAddr, u8)])| {
        let endpoint = |address: &(IpAddr, u8)| EndpointPlan {
            address: address.0,
            link: link.name.clone(),
            signal: false,
            subflow: true,
            backup: link.backup,
            fullmesh: false,
        };
        let own = addresses.iter().filter(|(address, _)| around.family.holds(*address));
        own.map(endpoint).collect::<Vec<_>>()
    };
    around.ends().flat_map(of_link).collect()
}

fn endpoint(section: &Section<'_>, around: &Surroundings<'_>) -> Option<EndpointPlan> {
    section.only("an endpoint", &keys::ENDPOINT);
    let flags = flags(section);
    let (link, address) = place(section, around)?;
    let has = |flag: &str| flags.contains(&flag);
    let plan = EndpointPlan {
        address,
        link,
        signal: has("signal"),
        subflow: has("subflow"),
        backup: has("backup"),
        fullmesh: has("fullmesh"),
    };
    if plan.signal && plan.fullmesh {
        let remedy = "choose one: the kernel refuses both on one endpoint";
        section.wrong(MistakeKind::Conflict, "flags", "`signal` and `fullmesh` do not go together", remedy);
    }
    Some(plan)
}

fn flags<'a>(section: &Section<'a>) -> Vec<&'a str> {
    let known = ["subflow", "signal", "backup", "fullmesh"];
    if !section.has("flags") {
        section.missing("flags", "[\"subflow\"]");
    }
    let mut flags = Vec::new();
    for (flag, origin) in section.texts("flags", "subflow").unwrap_or_default() {
        if known.contains(&flag) {
            flags.push(flag);
        } else {
            let problem = format!("`{flag}` is not a flag of an endpoint");
            section.ledger.add(
                MistakeKind::Value,
                &origin,
                section.key("flags"),
                problem,
                choices(flag, &known),
            );
        }
    }
    flags
}

/// Link and address of an endpoint: either given, the address wins.
fn place(section: &Section<'_>, around: &Surroundings<'_>) -> Option<(String, IpAddr)> {
    let title = |link: &'_ Link| path_of(around.hops, &link.name).to_owned();
    let titles: Vec<_> = around.ends().map(|(link, _)| title(link)).collect();
    let names: Vec<_> = titles.iter().map(String::as_str).collect();
    let noun = format!("path or link at `{}`", around.node);
    let key = if section.has("link") { "link" } else { "path" };
    let link = section.reference(key, &noun, &names);
    if section.has("address") {
        let text = section.text("address", "10.83.0.1")?;
        let own =
            around.ends().flat_map(|(link, addresses)| addresses.iter().map(move |(own, _)| (link, *own)));
        let mut own = own.filter(|(own, _)| link.is_none_or(|name| title(own) == name));
        let address = text.parse::<IpAddr>().ok();
        let Some((link, address)) = own.find(|(_, own)| Some(*own) == address) else {
            let all = around.ends().flat_map(|(_, addresses)| addresses).map(|(own, _)| own.to_string());
            let problem = format!("`{text}` is not an address of `{}`", around.node);
            let remedy = format!("its addresses are {}", all.collect::<Vec<_>>().join(", "));
            section.wrong(MistakeKind::Reference, "address", problem, remedy);
            return None;
        };
        return Some((link.name.clone(), address));
    }
    if !section.has(key) {
        section.missing(key, &format!("\"{}\"", names.first().unwrap_or(&"wlan")));
    }
    let (link, addresses) = around.ends().find(|(candidate, _)| Some(title(candidate).as_str()) == link)?;
    let address = addresses.iter().map(|(address, _)| *address).find(|own| around.family.holds(*own))?;
    Some((link.name.clone(), address))
}

pub(super) fn routes(section: &Section<'_>, around: &Surroundings<'_>) -> Vec<RoutePlan> {
    section.sections("routes").iter().filter_map(|route_of| route(route_of, around)).collect()
}

fn route(section: &Section<'_>, around: &Surroundings<'_>) -> Option<RoutePlan> {
    section.only("a route", &keys::ROUTE);
    let via = section.required_text("via", "10.83.0.2");
    let to = section.required_text("to", "default");
    let destination = match to? {
        "default" => None,
        text => match parse_subnet(text) {
            Ok(subnet) => Some((subnet.network_address(), subnet.prefix)),
            Err((problem, remedy)) => {
                section.wrong(MistakeKind::Value, "to", problem, format!("{remedy}; or \"default\""));
                return None;
            }
        },
    };
    let text = via?;
    let Ok(via) = text.parse::<IpAddr>() else {
        let remedy = "give the address of the next hop, as in \"10.83.0.2\"";
        section.wrong(MistakeKind::Value, "via", format!("`{text}` is not an address"), remedy);
        return None;
    };
    if destination.is_some_and(|(network, _)| network.is_ipv4() != via.is_ipv4()) {
        let remedy = "give both as IPv4, or both as IPv6";
        section.wrong(MistakeKind::Conflict, "via", "destination and next hop differ in IP version", remedy);
        return None;
    }
    let neighbours: Vec<_> = around
        .links
        .iter()
        .filter_map(|link| Some(&link.ends[1 - link.end_of(around.node)?].addresses))
        .flatten()
        .map(|(address, _)| *address)
        .collect();
    if !neighbours.contains(&via) {
        let all: Vec<_> = neighbours.iter().map(ToString::to_string).collect();
        let problem = format!("`{text}` is no neighbour of `{}`", around.node);
        section.wrong(
            MistakeKind::Reference,
            "via",
            problem,
            format!("its neighbours are {}", all.join(", ")),
        );
        return None;
    }
    Some(RoutePlan { destination, via })
}
