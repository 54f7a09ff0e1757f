//! Addresses of links: those given, those assigned, and whether they go together.

use super::link::{LinkDraft, Part, SMALLEST_IPV6_MTU_BYTES};
use super::mistake::{Ledger, MistakeKind};
use super::plan::Family;
use super::section::Section;
use super::tree::Origin;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) subnet: Subnet,
    pub(super) origin: Origin,
    pub(super) key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subnet {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

/// Links get subnets numbered from 0; two octets less some room is more than any lab needs.
pub(super) const MOST_LINKS: usize = 250;

impl Subnet {
    const fn width(self) -> u8 {
        match self.address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    fn bits(self) -> u128 {
        match self.address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    fn with_bits(self, bits: u128) -> Self {
        let address = match self.address {
            IpAddr::V4(_) => Ipv4Addr::from_bits(bits as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
        };
        Self { address, ..self }
    }

    /// The bits that all addresses of a subnet of `prefix` have in common.
    fn network_bits(self, prefix: u8) -> u128 {
        let host_bits = u32::from(self.width() - prefix);
        self.bits().checked_shr(host_bits).unwrap_or(0).checked_shl(host_bits).unwrap_or(0)
    }

    fn same_family(self, other: Self) -> bool {
        self.width() == other.width()
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        let prefix = self.prefix.min(other.prefix);
        self.same_family(other) && self.network_bits(prefix) == other.network_bits(prefix)
    }

    /// Whether both addresses are in one and the same subnet.
    fn shares_subnet(self, other: Self) -> bool {
        self.prefix == other.prefix && self.overlaps(other)
    }

    /// The address with all bits behind the prefix zero.
    pub(super) fn network_address(self) -> IpAddr {
        self.with_bits(self.network_bits(self.prefix)).address
    }

    fn network(self) -> String {
        format!("{}/{}", self.network_address(), self.prefix)
    }

    fn fault(self) -> Option<&'static str> {
        let (network, host_bits) = (self.network_bits(self.prefix), u32::from(self.width() - self.prefix));
        let special = match self.address {
            IpAddr::V4(address) => {
                let last = network | ((1_u128 << host_bits) - 1);
                if host_bits > 1 && self.bits() == network {
                    return Some("is the address of the network itself");
                }
                if host_bits > 1 && self.bits() == last {
                    return Some("is the broadcast address of its network");
                }
                address.is_unspecified()
                    || address.is_loopback()
                    || address.is_multicast()
                    || address.is_broadcast()
                    || address.octets()[0] == 0
                    || address.octets()[0] >= 240
            }
            IpAddr::V6(address) => {
                if host_bits > 1 && self.bits() == network {
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

    fn neighbour(self, taken: &[IpAddr]) -> Option<Self> {
        let network = self.network_bits(self.prefix);
        (0..=taken.len() as u128 + 2).map(|offset| self.with_bits(network | offset)).find(|candidate| {
            self.shares_subnet(*candidate)
                && candidate.fault().is_none()
                && !taken.contains(&candidate.address)
        })
    }
}

pub(super) fn parse_subnet(text: &str) -> Result<Subnet, (String, String)> {
    let example = "as in \"192.168.1.2/24\" or \"fd00:1::2/64\"";
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err((
            format!("`{text}` is not an address"),
            format!("give an IPv4 or IPv6 address and its prefix length, {example}"),
        ));
    };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let Some(prefix) = prefix else {
        return Err((format!("`{text}` has no prefix length"), format!("append it, {example}")));
    };
    let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
    match prefix.parse::<u8>().ok().filter(|prefix| digits && *prefix <= longest) {
        Some(prefix) => Ok(Subnet { address, prefix }),
        None => {
            Err((format!("`{prefix}` is not a prefix length"), format!("give 0 to {longest}, {example}")))
        }
    }
}

fn usable(subnet: Subnet) -> Result<Subnet, (String, String)> {
    let prefixes = if subnet.address.is_ipv4() { 8..=31 } else { 16..=127 };
    if !prefixes.contains(&subnet.prefix) {
        let remedy = format!("give /{} to /{}: both ends must fit in", prefixes.start(), prefixes.end());
        return Err((format!("/{} will not do for a link", subnet.prefix), remedy));
    }
    match subnet.fault() {
        None => Ok(subnet),
        Some(fault) => {
            Err((format!("`{}` {fault}", written(subnet)), "give the address of a host".to_owned()))
        }
    }
}

pub(super) fn parse_given(section: &Section<'_>, key: &str) -> Vec<Given> {
    let texts = section.texts(key, "192.168.1.2/24").unwrap_or_default();
    let mut given = Vec::new();
    for (text, origin) in texts {
        let key = section.key(key);
        let subnet = parse_subnet(text).and_then(usable);
        match subnet {
            Ok(subnet) => given.push(Given { subnet, origin, key }),
            Err((problem, remedy)) => section.ledger.add(MistakeKind::Value, &origin, key, problem, remedy),
        }
    }
    given
}

/// The addresses of both ends of each link: those given, else assigned ones of the run's family
/// (`10.83.i.1/24` and `.2`, `fd83:0:0:i::1/64` and `::2` for the link numbered `i` from 0).
pub(super) fn settle(
    links: &[LinkDraft<'_>],
    family: Family,
    family_is_given: bool,
    ledger: &Ledger,
) -> Vec<[Vec<(IpAddr, u8)>; 2]> {
    // Who asks for an IP version and has another link for it may leave a link without.
    let needs_family = |index: usize| index == 0 || !family_is_given;
    let settled: Vec<[Vec<Subnet>; 2]> = links
        .iter()
        .enumerate()
        .map(|(index, link)| settle_link(link, index, (family, needs_family(index)), ledger))
        .collect();
    no_address_twice(links, ledger);
    no_overlap(links, &settled, ledger);
    for (link, ends) in links.iter().zip(&settled) {
        check_mtu(link, ends);
    }
    let plain = |subnets: Vec<Subnet>| subnets.iter().map(|subnet| (subnet.address, subnet.prefix)).collect();
    settled.into_iter().map(|ends| ends.map(plain)).collect()
}

fn assigned(index: usize, family: Family) -> [Subnet; 2] {
    [1_u8, 2].map(|host| match family {
        Family::Ipv4 => Subnet { address: Ipv4Addr::new(10, 83, index as u8, host).into(), prefix: 24 },
        Family::Ipv6 => {
            let address = Ipv6Addr::new(0xfd83, 0, 0, index as u16, 0, 0, 0, host.into());
            Subnet { address: address.into(), prefix: 64 }
        }
    })
}

/// The addresses of a link's ends; `needs_family` says whether it must have some of the family.
fn settle_link(
    link: &LinkDraft<'_>,
    index: usize,
    (family, needs_family): (Family, bool),
    ledger: &Ledger,
) -> [Vec<Subnet>; 2] {
    let given = [0, 1].map(|end| link.ends[end].given.iter().map(|given| given.subnet).collect::<Vec<_>>());
    if given.iter().all(Vec::is_empty) {
        let families = if link.families.is_empty() { &[family][..] } else { &link.families };
        return families.iter().fold(Default::default(), |mut ends: [Vec<Subnet>; 2], family| {
            for (end, subnet) in ends.iter_mut().zip(assigned(index, *family)) {
                end.push(subnet);
            }
            ends
        });
    }
    let anywhere = given.iter().flatten().any(|subnet| family.holds(subnet.address));
    if !anywhere
        && needs_family
        && let Some(first) = link.ends.iter().flat_map(|end| &end.given).next()
    {
        let other = if family == Family::Ipv4 { Family::Ipv6 } else { Family::Ipv4 };
        let problem = format!("`{}` has no {} address, which the run uses", link.named.name, family.title());
        let remedy = format!("give it one, or set run.family = \"{}\"", other.title().to_lowercase());
        ledger.add(MistakeKind::Conflict, &first.origin, &*first.key, problem, remedy);
    }
    let mut settled = given.clone();
    for end in [0, 1] {
        let other = 1 - end;
        if given[end].is_empty() {
            fill_in(link, &mut settled, end, ledger);
        } else {
            for address in &link.ends[end].given {
                let met = given[other].is_empty()
                    || given[other].iter().any(|peer| peer.shares_subnet(address.subnet));
                // The first end's complaint is enough when neither has a counterpart.
                if !met && (end == 0 || !lonely(&given)) {
                    complain_of_lonely(link, address, &given[other], other, ledger);
                }
            }
        }
    }
    settled
}

/// Whether some address of the first end has no counterpart at the second.
fn lonely(ends: &[Vec<Subnet>; 2]) -> bool {
    let [first, second] = ends;
    first.iter().any(|subnet| !second.iter().any(|peer| peer.shares_subnet(*subnet)))
}

fn complain_of_lonely(
    link: &LinkDraft<'_>,
    address: &Given,
    peers: &[Subnet],
    other: usize,
    ledger: &Ledger,
) {
    let peer = &link.ends[other].node;
    let (problem, remedy) = if let Some(near) = peers.iter().find(|subnet| subnet.same_family(address.subnet))
    {
        (
            format!("{} and {} at `{peer}` are not in one subnet", written(address.subnet), written(*near)),
            format!("give both ends addresses of one subnet, {} for example", address.subnet.network()),
        )
    } else {
        let family = if address.subnet.address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
        (
            format!(
                "{} has no counterpart: `{peer}` has no {} address",
                written(address.subnet),
                family.title()
            ),
            "give both ends addresses of the same IP version".to_owned(),
        )
    };
    ledger.add(MistakeKind::Conflict, &address.origin, &*address.key, problem, remedy);
}

fn written(subnet: Subnet) -> String {
    format!("{}/{}", subnet.address, subnet.prefix)
}

fn fill_in(link: &LinkDraft<'_>, settled: &mut [Vec<Subnet>; 2], end: usize, ledger: &Ledger) {
    let mut taken: Vec<IpAddr> = settled.iter().flatten().map(|subnet| subnet.address).collect();
    let mut filled: Vec<Subnet> = Vec::new();
    for given in &link.ends[1 - end].given {
        if filled.iter().any(|subnet| subnet.shares_subnet(given.subnet)) {
            continue;
        }
        if let Some(subnet) = given.subnet.neighbour(&taken) {
            taken.push(subnet.address);
            filled.push(subnet);
        } else {
            let problem = format!("the subnet {} has no room for a second host", given.subnet.network());
            let remedy = "give a shorter prefix, as in /24 or /64";
            ledger.add(MistakeKind::Value, &given.origin, &*given.key, problem, remedy);
        }
    }
    settled[end] = filled;
}

fn no_address_twice(links: &[LinkDraft<'_>], ledger: &Ledger) {
    let mut seen: Vec<(&Given, &str)> = Vec::new();
    for end in links.iter().flat_map(|link| &link.ends) {
        for given in &end.given {
            if let Some((_, node)) =
                seen.iter().find(|(other, _)| other.subnet.address == given.subnet.address)
            {
                let problem = format!("`{node}` already has the address {}", given.subnet.address);
                ledger.add(MistakeKind::Duplicate, &given.origin, &*given.key, problem, "give another");
            }
            seen.push((given, &end.node));
        }
    }
}

/// Two links in one subnet: no route could tell them apart.
fn no_overlap(links: &[LinkDraft<'_>], settled: &[[Vec<Subnet>; 2]], ledger: &Ledger) {
    for (index, link) in links.iter().enumerate() {
        for given in link.ends.iter().flat_map(|end| &end.given) {
            let other = (0..links.len()).filter(|other| *other != index).find_map(|other| {
                // Of two given ones, the later is reported; an assigned one gives way to nothing.
                let is_given = links[other].ends.iter().any(|end| !end.given.is_empty());
                let subnet = settled[other].iter().flatten().find(|subnet| subnet.overlaps(given.subnet))?;
                (!is_given || other < index).then_some((other, *subnet))
            });
            let Some((other, subnet)) = other else { continue };
            if subnet.address == given.subnet.address {
                continue;
            }
            let problem = format!(
                "the subnet {} overlaps with {} of `{}`",
                given.subnet.network(),
                subnet.network(),
                links[other].named.name
            );
            let remedy = "give each link a subnet of its own";
            ledger.add(MistakeKind::Conflict, &given.origin, &*given.key, problem, remedy);
        }
    }
}

fn check_mtu(link: &LinkDraft<'_>, ends: &[Vec<Subnet>; 2]) {
    let key = match link.part {
        Part::Own => "mtu",
        Part::Hop if link.named.section.has("path_mtu") => "path_mtu",
        // It is that of the first link, of which it has been said.
        Part::Hop | Part::Far => return,
    };
    let mtu_bytes = link.forward.mtu_bytes;
    if mtu_bytes < SMALLEST_IPV6_MTU_BYTES
        && let Some(subnet) = ends.iter().flatten().find(|subnet| subnet.address.is_ipv6())
    {
        let problem = format!("an MTU of {mtu_bytes} is too small for the IPv6 address {}", subnet.address);
        let remedy = format!("give at least {SMALLEST_IPV6_MTU_BYTES} (RFC 8200), or IPv4 addresses only");
        link.named.section.wrong(MistakeKind::Conflict, key, problem, remedy);
    }
}
