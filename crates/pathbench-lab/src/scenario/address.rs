//! Assigns the addresses of links that the scenario does not give, and checks that all addresses are consistent.

use super::mistake::{At, Fault, MistakeLog};
use super::plan::{LinkPlan, RulesChange};
use super::section::ScenarioSection;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use pathbench_record::network::{AddressFamily, SMALLEST_IPV6_MTU_BYTES};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Links get subnets numbered from 0; 250 subnets exceed the needs of any lab.
pub(super) const MOST_LINKS: usize = 250;
/// Smallest IPv4 MTU (RFC 791) to largest IP packet.
pub(super) const MTU_BYTES: std::ops::RangeInclusive<u64> = 68..=65_535;

/// A link without assigned addresses.
#[derive(Debug, Clone)]
pub(super) struct LinkDraft<'a> {
    pub(super) link: LinkPlan,
    pub(super) section: ScenarioSection<'a>,
    pub(super) name_at: At,
    pub(super) ends_at: [At; 2],
    pub(super) given: [Vec<GivenAddress>; 2],
    pub(super) hop: Option<HopDraft>,
    pub(super) part: Part,
    /// Its subnet may be that of other links that allow it, too.
    pub(super) shares_subnet: bool,
    pub(super) families: Vec<AddressFamily>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Own,
    Hop,
    Far,
}

#[derive(Debug, Clone)]
pub(super) struct GivenAddress {
    pub(super) subnet: IpNet,
    pub(super) at: At,
}

#[derive(Debug, Clone)]
pub(super) struct HopDraft {
    pub(super) path_mtu_bytes: u32,
    pub(super) rules: RulesChange,
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(&other.network()) || other.contains(&one.network())
}

fn share_subnet(one: &IpNet, other: &IpNet) -> bool {
    one.trunc() == other.trunc()
}

/// The reason why a host cannot have the address.
fn fault(subnet: &IpNet) -> Option<&'static str> {
    let has_network_address = subnet.max_prefix_len() - subnet.prefix_len() > 1;
    let special = match subnet.addr() {
        IpAddr::V4(address) => {
            if has_network_address && subnet.addr() == subnet.network() {
                return Some("is the address of the network itself");
            }
            if has_network_address && subnet.addr() == subnet.broadcast() {
                return Some("is the broadcast address of its network");
            }
            address.is_loopback() || address.is_multicast() || matches!(address.octets()[0], 0 | 240..)
        }
        IpAddr::V6(address) => {
            if has_network_address && subnet.addr() == subnet.network() {
                return Some("is the anycast address of the routers of its network");
            }
            address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || address.is_unicast_link_local()
                || address.to_ipv4_mapped().is_some()
        }
    };
    special.then_some("is not an address that a host can have")
}

/// The first host address of the subnet that is not `taken`.
fn neighbour(subnet: &IpNet, taken: &[IpAddr]) -> Option<IpNet> {
    // Excludes the network and broadcast addresses, which a subnet of two addresses lacks.
    let free = |address: &IpAddr| !taken.contains(address);
    let address = subnet.hosts().take(taken.len() + 3).filter(free);
    let mut with_prefix = address.filter_map(|address| IpNet::new(address, subnet.prefix_len()).ok());
    with_prefix.find(|candidate| fault(candidate).is_none())
}

pub(super) fn parse_subnet(text: &str) -> Result<IpNet, Fault> {
    let example = "as in \"192.168.1.2/24\" or \"fd00:1::2/64\"";
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let Ok(address) = address.parse::<IpAddr>() else {
        let remedy = format!("give an IPv4 or IPv6 address and its prefix length, {example}");
        return Err((format!("`{text}` is not an address"), remedy));
    };
    let Some(prefix) = prefix else {
        return Err((format!("`{text}` has no prefix length"), format!("append it, {example}")));
    };
    let longest = IpNet::from(address).max_prefix_len();
    text.parse().map_err(|_| {
        (format!("`{prefix}` is not a prefix length"), format!("give 0 to {longest}, {example}"))
    })
}

fn usable(subnet: IpNet) -> Result<IpNet, Fault> {
    let prefixes = if subnet.addr().is_ipv4() { 8..=31 } else { 16..=127 };
    if !prefixes.contains(&subnet.prefix_len()) {
        let remedy = format!("give /{} to /{}: both ends must fit in", prefixes.start(), prefixes.end());
        return Err((format!("/{} is not a prefix length of a link", subnet.prefix_len()), remedy));
    }
    match fault(&subnet) {
        None => Ok(subnet),
        Some(fault) => Err((format!("`{subnet}` {fault}"), "give the address of a host".to_owned())),
    }
}

pub(super) fn parse_given(section: &ScenarioSection<'_>, key: &str) -> Vec<GivenAddress> {
    let texts = section.texts(key, "192.168.1.2/24").unwrap_or_default();
    let given = texts.into_iter().filter_map(|(text, at)| {
        let subnet = section.ledger.value(&at, parse_subnet(text).and_then(usable))?;
        Some(GivenAddress { subnet, at })
    });
    given.collect()
}

/// Sets the addresses of both ends of each link: the given addresses, else assigned addresses of the run's family
/// (`10.83.i.1/24` and `.2`, `fd83:0:0:i::1/64` and `::2` for the link numbered `i` from 0).
pub(super) fn settle(
    links: &mut [LinkDraft<'_>],
    family: AddressFamily,
    family_is_given: bool,
    ledger: &MistakeLog,
) {
    for (index, link) in links.iter_mut().enumerate() {
        // If run.family is given, only the first link needs an address of that family.
        let needs_family = index == 0 || !family_is_given;
        let settled = settle_link(link, index, (family, needs_family), ledger);
        for (end, addresses) in link.link.ends.iter_mut().zip(settled) {
            end.addresses = addresses;
        }
    }
    no_address_twice(links, ledger);
    no_overlap(links, ledger);
    for link in links.iter() {
        check_mtu(link);
    }
}

fn assign_networks(index: usize, family: AddressFamily) -> [IpNet; 2] {
    [1_u8, 2].map(|host| match family {
        AddressFamily::Ipv4 => Ipv4Net::new_assert(Ipv4Addr::new(10, 83, index as u8, host), 24).into(),
        AddressFamily::Ipv6 => {
            Ipv6Net::new_assert(Ipv6Addr::new(0xfd83, 0, 0, index as u16, 0, 0, 0, host.into()), 64).into()
        }
    })
}

/// The addresses of a link's ends; with `needs_family`, the link must have addresses of the family.
fn settle_link(
    link: &LinkDraft<'_>,
    index: usize,
    (family, needs_family): (AddressFamily, bool),
    ledger: &MistakeLog,
) -> [Vec<IpNet>; 2] {
    let Some(first) = link.given.iter().flatten().next() else {
        let families = if link.families.is_empty() { &[family][..] } else { &link.families };
        return [0, 1]
            .map(|end| families.iter().map(|family| assign_networks(index, *family)[end]).collect());
    };
    if needs_family
        && !link
            .given
            .iter()
            .flatten()
            .any(|given| AddressFamily::from_address(given.subnet.addr()) == family)
    {
        let other = if family == AddressFamily::Ipv4 { AddressFamily::Ipv6 } else { AddressFamily::Ipv4 };
        let problem = format!("`{}` has no {} address, which the run uses", link.link.name, family.name());
        let remedy = format!("give it one, or set run.family = \"{}\"", other.name().to_lowercase());
        ledger.wrong(&first.at, problem, remedy);
    }
    let given = link.given.each_ref().map(|end| end.iter().map(|given| given.subnet).collect::<Vec<_>>());
    let is_unmatched = |end: usize, subnet: &IpNet| {
        let peers = &given[1 - end];
        !peers.is_empty() && !peers.iter().any(|peer| share_subnet(peer, subnet))
    };
    for end in [0, 1] {
        // One message is enough when neither end has a counterpart.
        if end == 0 || !given[0].iter().any(|subnet| is_unmatched(0, subnet)) {
            for address in link.given[end].iter().filter(|address| is_unmatched(end, &address.subnet)) {
                report_unmatched(address, &given[1 - end], &link.link.ends[1 - end].node, ledger);
            }
        }
    }
    [0, 1].map(
        |end| {
            if given[end].is_empty() { fill_in(&link.given[1 - end], ledger) } else { given[end].clone() }
        },
    )
}

fn report_unmatched(address: &GivenAddress, peers: &[IpNet], peer: &str, ledger: &MistakeLog) {
    let family = AddressFamily::from_address(address.subnet.addr());
    let (problem, remedy) =
        match peers.iter().find(|subnet| AddressFamily::from_address(subnet.addr()) == family) {
            Some(near) => (
                format!("{} and {near} at `{peer}` are not in one subnet", address.subnet),
                format!("give both ends addresses of one subnet, {} for example", address.subnet.trunc()),
            ),
            None => (
                format!("{} has no counterpart: `{peer}` has no {} address", address.subnet, family.name()),
                "give both ends addresses of the same IP version".to_owned(),
            ),
        };
    ledger.wrong(&address.at, problem, remedy);
}

/// Assigns addresses in the subnets of the other end's given addresses.
fn fill_in(others: &[GivenAddress], ledger: &MistakeLog) -> Vec<IpNet> {
    let mut taken: Vec<IpAddr> = others.iter().map(|given| given.subnet.addr()).collect();
    let mut filled: Vec<IpNet> = Vec::new();
    for given in others {
        if filled.iter().any(|subnet| share_subnet(subnet, &given.subnet)) {
            continue;
        }
        if let Some(subnet) = neighbour(&given.subnet, &taken) {
            taken.push(subnet.addr());
            filled.push(subnet);
        } else {
            let problem = format!("the subnet {} has no address for a second host", given.subnet.trunc());
            ledger.wrong(&given.at, problem, "give a shorter prefix, as in /24 or /64");
        }
    }
    filled
}

fn no_address_twice(links: &[LinkDraft<'_>], ledger: &MistakeLog) {
    let mut seen: Vec<(IpAddr, &str)> = Vec::new();
    for (end, all) in links.iter().flat_map(|link| link.link.ends.iter().zip(&link.given)) {
        for given in all {
            let address = given.subnet.addr();
            if let Some((_, node)) = seen.iter().find(|(other, _)| *other == address) {
                let problem = format!("`{node}` already has the address {address}");
                ledger.wrong(&given.at, problem, "give another");
            }
            seen.push((address, &end.node));
        }
    }
}

/// Reports two links in one subnet, because no route could distinguish them, unless both are to be in one.
fn no_overlap(links: &[LinkDraft<'_>], ledger: &MistakeLog) {
    for (index, link) in links.iter().enumerate() {
        for given in link.given.iter().flatten() {
            let other =
                links.iter().enumerate().filter(|(other, _)| *other != index).find_map(|(at, other)| {
                    if link.shares_subnet && other.shares_subnet {
                        return None;
                    }
                    // Reports the later of two given subnets; an assigned subnet never changes.
                    let is_given = !other.given.iter().all(Vec::is_empty);
                    let mut addresses = other.link.ends.iter().flat_map(|end| &end.addresses);
                    let subnet = addresses.find(|subnet| overlap(subnet, &given.subnet))?;
                    (!is_given || at < index).then_some((&other.link.name, subnet))
                });
            if let Some((name, subnet)) = other.filter(|(_, subnet)| subnet.addr() != given.subnet.addr()) {
                let (own, other) = (given.subnet.trunc(), subnet.trunc());
                let problem = format!("the subnet {own} overlaps with {other} of `{name}`");
                ledger.wrong(&given.at, problem, "give each link a subnet of its own");
            }
        }
    }
}

fn check_mtu(draft: &LinkDraft<'_>) {
    let key = match draft.part {
        Part::Own => "mtu",
        Part::Hop if draft.section.has("path_mtu") => "path_mtu",
        // It has the MTU of the first link, which is checked there.
        Part::Hop | Part::Far => return,
    };
    let mtu_bytes = draft.link.mtu_bytes();
    let mut addresses = draft.link.ends.iter().flat_map(|end| &end.addresses);
    if mtu_bytes < SMALLEST_IPV6_MTU_BYTES
        && let Some(subnet) = addresses.find(|subnet| subnet.addr().is_ipv6())
    {
        let problem = format!("an MTU of {mtu_bytes} is too small for the IPv6 address {}", subnet.addr());
        let remedy = format!("give at least {SMALLEST_IPV6_MTU_BYTES} (RFC 8200), or IPv4 addresses only");
        draft.section.wrong(key, problem, remedy);
    }
}
