//! Hosts and routers: sysctls, MPTCP limits and endpoints, explicit routes.

use super::address::parse_subnet;
use super::mistake::{At, Fault, choices};
use super::plan::{EndpointPlan, Hop, LinkPlan, MptcpPlan, RoutePlan, path_of};
use super::section::ScenarioSection;
use super::tree::TomlValue;
use pathbench_host::mptcp::{EndpointFlags, MptcpLimits};
use pathbench_record::network::{AddressFamily, IpNet};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// `MPTCP_PM_ADDR_MAX` (net/mptcp/protocol.h): endpoints of a namespace, and the largest limit.
const MOST_ENDPOINTS: u64 = 8;

/// The sysctls of a node, with values in the format of `/proc/sys`.
pub(super) fn sysctls(section: &ScenarioSection<'_>) -> BTreeMap<String, String> {
    let own = section.section("sysctl");
    let mut sysctls = BTreeMap::new();
    for field in own.table.map(|table| table.flatten(&|_| false)).unwrap_or_default() {
        let at = At::new(field.item.location, own.locate(&field.key).key);
        let value = match &field.item.value {
            TomlValue::Text(text) if text.chars().any(char::is_control) => {
                section.ledger.wrong(&at, "the value has control characters", "give one line of text");
                continue;
            }
            TomlValue::Text(_) | TomlValue::Integer(_) => field.item.written(),
            other => {
                let remedy = "give a whole number or a text, as in 1 or \"4096 131072 6291456\"";
                section.ledger.wrong(&at, format!("{} is not the value of a sysctl", other.noun()), remedy);
                continue;
            }
        };
        if let Some((problem, remedy)) = sysctl_fault(&field.key) {
            section.ledger.wrong(&at, problem, remedy);
        } else if sysctls.insert(field.key, value).is_some() {
            section.ledger.wrong(&at, "is given twice", "remove one of the two");
        }
    }
    sysctls
}

/// Checks the name of a sysctl. Only `net.*` settings belong to a network namespace.
fn sysctl_fault(name: &str) -> Option<Fault> {
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

pub(super) struct NodeContext<'a> {
    pub(super) node: &'a str,
    pub(super) links: &'a [LinkPlan],
    pub(super) hops: &'a [Hop],
    pub(super) family: AddressFamily,
    pub(super) is_client: bool,
}

impl NodeContext<'_> {
    fn ends(&self) -> impl Iterator<Item = (&LinkPlan, &[IpNet])> {
        self.links
            .iter()
            .filter_map(|link| Some((link, link.ends[link.end_of(self.node)?].addresses.as_slice())))
    }

    fn device(&self, link: &str) -> Option<String> {
        let link = self.links.iter().find(|known| known.name == link)?;
        Some(link.ends[link.end_of(self.node)?].interface.clone())
    }

    fn is_of_another(&self, address: IpAddr) -> bool {
        let ends = self.links.iter().flat_map(|link| &link.ends).filter(|end| end.node != self.node);
        ends.flat_map(|end| &end.addresses).any(|known| known.addr() == address)
    }
}

pub(super) fn mptcp(section: &ScenarioSection<'_>, around: &NodeContext<'_>) -> MptcpPlan {
    let own = section.section("mptcp");
    let limit = |key: &str| own.count(key, 0..=MOST_ENDPOINTS).unwrap_or(MOST_ENDPOINTS as u32);
    let given = own.has("endpoints");
    let endpoints = match (given, around.is_client) {
        (true, _) => {
            own.sections("endpoints").iter().filter_map(|endpoint_of| endpoint(endpoint_of, around)).collect()
        }
        (false, true) => default_endpoints(around),
        (false, false) => Vec::new(),
    };
    check_endpoints(&own, &endpoints, around.node);
    let (subflows, add_addr_accepted) = (limit("subflows"), limit("add_addr_accepted"));
    MptcpPlan { limits: MptcpLimits { subflows, add_addr_accepted }, endpoints }
}

fn check_endpoints(own: &ScenarioSection<'_>, endpoints: &[EndpointPlan], node: &str) {
    if endpoints.len() > MOST_ENDPOINTS as usize {
        let problem = format!("`{node}` would have {} endpoints", endpoints.len());
        let remedy =
            format!("name at most {MOST_ENDPOINTS} in host.{node}.mptcp.endpoints; the kernel takes no more");
        own.wrong("endpoints", problem, remedy);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        if endpoints[..index].iter().any(|other| other.address == endpoint.address) {
            let problem = format!("{} is the address of two endpoints", endpoint.address);
            own.wrong("endpoints", problem, "put all its flags into one of them");
        }
    }
}

fn default_endpoints(around: &NodeContext<'_>) -> Vec<EndpointPlan> {
    let mut endpoints = Vec::new();
    for (link, addresses) in around.ends() {
        let own = addresses
            .iter()
            .map(IpNet::addr)
            .filter(|address| AddressFamily::from_address(*address) == around.family);
        endpoints.extend(own.map(|address| EndpointPlan {
            address,
            link: link.name.clone(),
            device: around.device(&link.name),
            flags: EndpointFlags { subflow: true, backup: link.backup, ..EndpointFlags::default() },
        }));
    }
    endpoints
}

fn endpoint(section: &ScenarioSection<'_>, around: &NodeContext<'_>) -> Option<EndpointPlan> {
    let flags = flags(section);
    let (link, address) = location(section, around)?;
    if flags.signal && flags.fullmesh {
        let remedy = "choose one: the kernel refuses both on one endpoint";
        section.wrong("flags", "`signal` and `fullmesh` do not go together", remedy);
    }
    let device = around.device(&link).filter(|_| section.flag("dev").unwrap_or(true));
    Some(EndpointPlan { address, link, device, flags })
}

fn flags(section: &ScenarioSection<'_>) -> EndpointFlags {
    let known = ["subflow", "signal", "backup", "fullmesh"];
    section.require("flags", "[\"subflow\"]");
    let given = section.texts("flags", "subflow").unwrap_or_default();
    for (flag, at) in given.iter().filter(|(flag, _)| !known.contains(flag)) {
        section.ledger.wrong(at, format!("`{flag}` is not a flag of an endpoint"), choices(flag, &known));
    }
    let has = |name: &str| given.iter().any(|(flag, _)| *flag == name);
    EndpointFlags {
        signal: has("signal"),
        subflow: has("subflow"),
        backup: has("backup"),
        fullmesh: has("fullmesh"),
        ..EndpointFlags::default()
    }
}

/// Link and address of an endpoint. At least one of them is given; the address has priority.
fn location(section: &ScenarioSection<'_>, around: &NodeContext<'_>) -> Option<(String, IpAddr)> {
    let title = |link: &'_ LinkPlan| path_of(around.hops, &link.name).to_owned();
    let titles: Vec<_> = around.ends().map(|(link, _)| title(link)).collect();
    let names: Vec<_> = titles.iter().map(String::as_str).collect();
    let noun = format!("path or link at `{}`", around.node);
    let (by_path, by_link) = (section.has("path"), section.has("link"));
    let key = if by_link && !by_path { "link" } else { "path" };
    let link = section.reference(key, &noun, &names);
    if section.flag("foreign").unwrap_or(false) {
        let address = foreign_address(section, around)?;
        section.require(key, &format!("\"{}\"", names.first().unwrap_or(&"wlan")));
        let (link, _) = around.ends().find(|(own, _)| Some(title(own).as_str()) == link)?;
        return Some((link.name.clone(), address));
    }
    if section.has("address") {
        let text = section.text("address", "10.83.0.1")?;
        let own =
            around.ends().flat_map(|(link, addresses)| addresses.iter().map(move |own| (link, own.addr())));
        let mut own = own.filter(|(own, _)| link.is_none_or(|name| title(own) == name));
        let address = text.parse::<IpAddr>().ok();
        let Some((link, address)) = own.find(|(_, own)| Some(*own) == address) else {
            let all = around.ends().flat_map(|(_, addresses)| addresses).map(|own| own.addr().to_string());
            let problem = format!("`{text}` is not an address of `{}`", around.node);
            let remedy = format!("its addresses are {}", all.collect::<Vec<_>>().join(", "));
            section.wrong("address", problem, remedy);
            return None;
        };
        return Some((link.name.clone(), address));
    }
    section.require(key, &format!("\"{}\"", names.first().unwrap_or(&"wlan")));
    let (link, addresses) = around.ends().find(|(candidate, _)| Some(title(candidate).as_str()) == link)?;
    let address =
        addresses.iter().map(IpNet::addr).find(|own| AddressFamily::from_address(*own) == around.family)?;
    Some((link.name.clone(), address))
}

/// The address of an endpoint that by mistake names another node's; the kernel accepts it.
fn foreign_address(section: &ScenarioSection<'_>, around: &NodeContext<'_>) -> Option<IpAddr> {
    let text = section.required_text("address", "10.83.0.2")?;
    let address = text.parse::<IpAddr>().ok().filter(|address| around.is_of_another(*address));
    let fault = || {
        let remedy = "give an address of another one, or leave `foreign` out";
        (format!("`{text}` is not an address of a host beside `{}`", around.node), remedy.to_owned())
    };
    section.read("address", address.ok_or_else(fault))
}

pub(super) fn routes(section: &ScenarioSection<'_>, around: &NodeContext<'_>) -> Vec<RoutePlan> {
    section.sections("routes").iter().filter_map(|route_of| route(route_of, around)).collect()
}

fn route(section: &ScenarioSection<'_>, around: &NodeContext<'_>) -> Option<RoutePlan> {
    let via = section.required_text("via", "10.83.0.2");
    let metric = section.count("metric", 0..=u32::MAX.into());
    let to = section.required_text("to", "default");
    let subnet =
        |to| parse_subnet(to).map_err(|(problem, remedy)| (problem, format!("{remedy}; or \"default\"")));
    let destination = match to? {
        "default" => None,
        text => Some(section.read("to", subnet(text))?.trunc()),
    };
    let text = via?;
    let fault = |_| {
        let remedy = "give the address of the next hop, as in \"10.83.0.2\"";
        (format!("`{text}` is not an address"), remedy.to_owned())
    };
    let via = section.read("via", text.parse::<IpAddr>().map_err(fault))?;
    if destination.is_some_and(|network| network.addr().is_ipv4() != via.is_ipv4()) {
        let remedy = "give both as IPv4, or both as IPv6";
        section.wrong("via", "destination and next hop differ in IP version", remedy);
        return None;
    }
    let far_ends = around.links.iter().filter_map(|link| Some(&link.ends[1 - link.end_of(around.node)?]));
    let neighbours: Vec<_> = far_ends.flat_map(|end| &end.addresses).map(IpNet::addr).collect();
    if !neighbours.contains(&via) {
        let all: Vec<_> = neighbours.iter().map(ToString::to_string).collect();
        let problem = format!("`{text}` is no neighbour of `{}`", around.node);
        section.wrong("via", problem, format!("its neighbours are {}", all.join(", ")));
        return None;
    }
    Some(RoutePlan { destination, via, metric })
}
