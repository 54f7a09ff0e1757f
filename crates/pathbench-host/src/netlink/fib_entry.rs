//! A route as the kernel dumps it, with all attributes, known and unknown.

use super::message::{Attributes, Encoder, address, u32_at};
use data_encoding::HEXLOWER;
use netlink_packet_core::NLA_F_NESTED;
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

// Constants of linux/rtnetlink.h that libc lacks.
const RTA_VIA: u16 = 18;
pub(crate) const RTA_PREF: u16 = 20;
const RTA_ENCAP_TYPE: u16 = 21;
pub(crate) const RTA_ENCAP: u16 = 22;
const RTA_EXPIRES: u16 = 23;
pub(crate) const RTA_NH_ID: u16 = 30;
pub(crate) const RTAX_LOCK: u16 = 1;
pub(crate) const RTAX_MTU: u16 = 2;
/// `struct rtmsg`: family, lengths of destination and source, TOS, table, protocol, scope, type, flags (4).
pub(super) const ROUTE_HEADER: usize = 12;
const ONLINK: u8 = 4;
/// The configured flags of a next hop (`RTNH_F_PERVASIVE`, `RTNH_F_ONLINK`); the other flags are its state.
const CONFIGURED_FLAGS: u8 = 2 | ONLINK;
/// The largest MTU that the kernel stores in a route (`ip_metrics_convert`, net/ipv4/metrics.c).
const LARGEST_ROUTE_MTU: u32 = 65_535 - 15;
/// Attributes that the kernel derives from `RTA_NH_ID` in dumps, and rejects together with it in requests.
const INSTEAD_OF_NEXT_HOP_OBJECT: [u16; 7] = [
    libc::RTA_OIF,
    libc::RTA_GATEWAY,
    RTA_VIA,
    libc::RTA_MULTIPATH,
    RTA_ENCAP,
    RTA_ENCAP_TYPE,
    libc::RTA_FLOW,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Index of the interface; 0 if the kernel reports none.
    pub interface: u32,
    /// Next router; `None` when the destination is on-link.
    pub gateway: Option<IpAddr>,
    pub weight: u32,
    /// The gateway is considered reachable without a route to it.
    pub on_link: bool,
}

/// A route of any type, byte for byte as the kernel dumps it (`RTM_NEWROUTE`), so that it can be restored exactly.
///
/// Excludes state that the kernel computes: the state of next hops and usage counters. The remaining lifetime is stored
/// separately and excluded from comparisons.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct FibEntry {
    pub(crate) header: [u8; ROUTE_HEADER],
    attributes: Vec<(u16, Vec<u8>)>,
    expires_s: Option<u32>,
}

impl PartialEq for FibEntry {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
            && self.attributes == other.attributes
            && self.expires_s.is_some() == other.expires_s.is_some()
    }
}

impl Eq for FibEntry {}

impl FibEntry {
    /// Parses the route in an `RTM_NEWROUTE` message; `None` when it is too short or not IPv4 or IPv6.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, ROUTE_HEADER)?;
        let mut header: [u8; ROUTE_HEADER] = header.try_into().ok()?;
        if !matches!(i32::from(header[0]), libc::AF_INET | libc::AF_INET6) {
            return None;
        }
        let configured = u32_at(&header, 8)? & u32::from(CONFIGURED_FLAGS);
        header[8..].copy_from_slice(&configured.to_ne_bytes());
        let expires_s = expires_hundredths(attributes).map(|hundredths| hundredths.div_ceil(100));
        let mut kept: Vec<_> = attributes
            .iter()
            .map(|(kind, value)| (kind & !NLA_F_NESTED, value))
            .filter(|(kind, _)| *kind != libc::RTA_CACHEINFO)
            .map(|(kind, value)| {
                (kind, if kind == libc::RTA_MULTIPATH { steady_hops(value) } else { value.to_vec() })
            })
            .collect();
        kept.sort_by_key(|(kind, _)| *kind);
        Some(Self { header, attributes: kept, expires_s })
    }

    pub fn encode(&self) -> Encoder {
        let by_object = self.uses_next_hop_object();
        let kept = self.attributes.iter();
        kept.filter(|(kind, _)| !(by_object && INSTEAD_OF_NEXT_HOP_OBJECT.contains(kind)))
            .fold(Encoder::with_header(&self.header), |to, (kind, value)| {
                let nested = matches!(*kind, libc::RTA_METRICS | RTA_ENCAP);
                to.bytes(if nested { *kind | NLA_F_NESTED } else { *kind }, value)
            })
            .add_optional(self.expires_s, |to, seconds| to.u32(RTA_EXPIRES, seconds))
    }

    pub(crate) fn get(&self, kind: u16) -> Option<&[u8]> {
        self.attributes.iter().find(|(found, _)| *found == kind).map(|(_, value)| value.as_slice())
    }

    fn number(&self, kind: u16) -> Option<u32> {
        self.get(kind).and_then(|value| u32_at(value, 0))
    }

    fn address(&self, kind: u16) -> Option<IpAddr> {
        self.get(kind).and_then(address)
    }

    /// Whether it is an IPv4 route; otherwise IPv6.
    pub fn is_ipv4(&self) -> bool {
        i32::from(self.header[0]) == libc::AF_INET
    }

    fn network(&self, kind: u16, prefix: u8) -> IpNet {
        let anywhere = if self.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 };
        let address = self.address(kind).unwrap_or(anywhere.addr());
        IpNet::new(address, prefix).unwrap_or(IpNet::from(address))
    }

    pub fn destination(&self) -> IpNet {
        self.network(libc::RTA_DST, self.header[1])
    }

    /// The source prefix (IPv6 only).
    pub fn source_prefix(&self) -> Option<IpNet> {
        (self.header[2] != 0).then(|| self.network(libc::RTA_SRC, self.header[2]))
    }

    pub fn table(&self) -> u32 {
        self.number(libc::RTA_TABLE).unwrap_or_else(|| u32::from(self.header[4]))
    }

    /// `RTN_*` of linux/rtnetlink.h; 1 is unicast.
    pub const fn kind(&self) -> u8 {
        self.header[7]
    }

    /// `RTPROT_*` of linux/rtnetlink.h: its origin; 2 is the kernel, 9 a router advertisement.
    pub const fn protocol(&self) -> u8 {
        self.header[5]
    }

    /// Its metric: the lowest one wins among routes to the same destination.
    pub fn metric(&self) -> u32 {
        self.number(libc::RTA_PRIORITY).unwrap_or(0)
    }

    /// The preferred source address of sockets without a bound address.
    pub fn preferred_source(&self) -> Option<IpAddr> {
        self.address(libc::RTA_PREFSRC)
    }

    /// Seconds until the route expires, at the time of reading; `None` for a permanent route.
    pub const fn expires_s(&self) -> Option<u32> {
        self.expires_s
    }

    pub fn mtu_bytes(&self) -> Option<u32> {
        self.metrics().u32(RTAX_MTU)
    }

    /// Whether ICMP cannot change its MTU (`mtu lock`).
    pub fn is_mtu_locked(&self) -> bool {
        self.metrics().u32(RTAX_LOCK).is_some_and(|locks| locks & (1 << RTAX_MTU) != 0)
    }

    pub(crate) fn metrics(&self) -> Attributes<'_> {
        Attributes::new(self.get(libc::RTA_METRICS).unwrap_or_default())
    }

    /// All next hops; empty for a blackhole route and similar types.
    pub fn next_hops(&self) -> Vec<NextHop> {
        if let Some(hops) = self.get(libc::RTA_MULTIPATH) {
            return hops_of(hops)
                .map(|hop| NextHop {
                    interface: u32_at(hop, 4).unwrap_or(0),
                    gateway: gateway(|kind| Attributes::new(hop.get(8..).unwrap_or_default()).get(kind)),
                    weight: u32::from(hop.get(3).copied().unwrap_or(0)) + 1,
                    on_link: hop.get(2).is_some_and(|flags| flags & ONLINK != 0),
                })
                .collect();
        }
        let gateway = gateway(|kind| self.get(kind));
        let Some(interface) = self.number(libc::RTA_OIF).or(gateway.map(|_| 0)) else { return Vec::new() };
        let on_link = u32_at(&self.header, 8).is_some_and(|flags| flags & u32::from(ONLINK) != 0);
        vec![NextHop { interface, gateway, weight: 1, on_link }]
    }

    /// Whether it refers to a next hop object (`ip nexthop`).
    pub fn uses_next_hop_object(&self) -> bool {
        self.get(RTA_NH_ID).is_some()
    }

    /// Whether the kernel may keep this route when `other` replaces it: with a next hop object, IPv4 treats a route
    /// without metrics as equal to an existing one with metrics (`fib_find_info_nh` of `net/ipv4/fib_semantics.c`).
    pub(crate) fn hides(&self, other: &Self) -> bool {
        let metrics = |entry: &Self| entry.get(libc::RTA_METRICS).is_some();
        self.is_ipv4() && other.uses_next_hop_object() && metrics(self) && !metrics(other)
    }

    /// Whether all packets on this route leave by `interface`.
    pub fn leaves_only_by(&self, interface: u32) -> bool {
        let hops = self.next_hops();
        !hops.is_empty() && hops.iter().all(|hop| hop.interface == interface)
    }

    /// Whether both routes occupy the same entry of a table, so that a replacement of one affects the other
    /// (`fib_table_insert` of `net/ipv4/fib_trie.c`, `fib6_add_rt2node` of `net/ipv6/ip6_fib.c`).
    pub fn shares_entry_with(&self, other: &Self) -> bool {
        let tos_counts = self.is_ipv4();
        self.header[0] == other.header[0]
            && self.destination() == other.destination()
            && self.source_prefix() == other.source_prefix()
            && self.table() == other.table()
            && (!tos_counts || self.header[3] == other.header[3])
            && self.metric() == other.metric()
    }

    /// A copy with another MTU, or with none. A lock stays.
    pub fn with_mtu(&self, mtu_bytes: Option<u32>) -> Self {
        let lock = 1u32 << RTAX_MTU;
        let mut metrics: Vec<(u16, Vec<u8>)> = Vec::new();
        for (kind, value) in self.metrics().iter() {
            match kind {
                RTAX_MTU => {}
                // Without an MTU there is no metric to lock.
                RTAX_LOCK if mtu_bytes.is_none() => {
                    let locks = u32_at(value, 0).unwrap_or(0) & !lock;
                    if locks != 0 {
                        metrics.push((kind, locks.to_ne_bytes().to_vec()));
                    }
                }
                _ => metrics.push((kind, value.to_vec())),
            }
        }
        metrics.extend(mtu_bytes.map(|mtu| (RTAX_MTU, mtu.min(LARGEST_ROUTE_MTU).to_ne_bytes().to_vec())));
        metrics.sort_by_key(|(kind, _)| *kind);
        let metrics =
            metrics.iter().fold(Encoder::default(), |to, (kind, value)| to.bytes(*kind, value)).into_bytes();
        self.with_attribute(libc::RTA_METRICS, (!metrics.is_empty()).then_some(metrics))
    }

    /// A permanent static route to `host` alone with the same next hop.
    pub fn for_host(&self, host: IpAddr) -> Self {
        let octets = match host {
            IpAddr::V4(host) => host.octets().to_vec(),
            IpAddr::V6(host) => host.octets().to_vec(),
        };
        let mut copy = self.with_attribute(libc::RTA_DST, Some(octets));
        copy.header[1] = IpNet::from(host).prefix_len();
        copy.header[5] = libc::RTPROT_STATIC;
        copy.expires_s = None;
        copy
    }

    /// A copy with the remaining lifetime of `other`.
    pub fn expiring_like(&self, other: &Self) -> Self {
        Self { expires_s: self.expires_s.and(other.expires_s), ..self.clone() }
    }

    fn with_attribute(&self, kind: u16, value: Option<Vec<u8>>) -> Self {
        let mut copy = self.clone();
        copy.attributes.retain(|(found, _)| *found != kind);
        copy.attributes.extend(value.map(|value| (kind, value)));
        copy.attributes.sort_by_key(|(kind, _)| *kind);
        copy
    }
}

pub(super) fn expires_hundredths(attributes: Attributes<'_>) -> Option<u32> {
    // `rta_expires` in `struct rta_cacheinfo`
    let hundredths = u32_at(attributes.get(libc::RTA_CACHEINFO)?, 8)? as i32;
    u32::try_from(hundredths).ok().filter(|hundredths| *hundredths > 0)
}

fn gateway<'a>(get: impl Fn(u16) -> Option<&'a [u8]>) -> Option<IpAddr> {
    // RTA_VIA is a gateway of the other family: family (2 bytes), address.
    get(libc::RTA_GATEWAY).and_then(address).or_else(|| address(get(RTA_VIA)?.get(2..)?))
}

/// Each `struct rtnexthop` with its attributes: length (2 bytes), flags, weight less one, interface (4 bytes).
fn hops_of(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let hop = bytes.get(..length).filter(|hop| hop.len() >= 8)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(hop)
    })
}

fn steady_hops(bytes: &[u8]) -> Vec<u8> {
    let mut steady = bytes.to_vec();
    let mut offset = 0;
    for hop in hops_of(bytes) {
        if let Some(flags) = steady.get_mut(offset + 2) {
            *flags &= CONFIGURED_FLAGS;
        }
        offset += hop.len().next_multiple_of(4);
    }
    steady
}

/// The form in a journal: the bytes in hexadecimal.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    bytes: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_s: Option<u32>,
}

impl From<FibEntry> for Stored {
    fn from(entry: FibEntry) -> Self {
        let kept = entry.attributes.iter();
        let bytes = kept
            .fold(Encoder::with_header(&entry.header), |to, (kind, value)| to.bytes(*kind, value))
            .into_bytes();
        Self { bytes: HEXLOWER.encode(&bytes), expires_s: entry.expires_s }
    }
}

impl TryFrom<Stored> for FibEntry {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let bytes = HEXLOWER.decode(stored.bytes.as_bytes()).ok();
        let entry = bytes.as_deref().and_then(Self::parse);
        entry
            .map(|entry| Self { expires_s: stored.expires_s, ..entry })
            .ok_or_else(|| format!("{:?} is no route", stored.bytes))
    }
}
