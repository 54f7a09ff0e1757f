//! Policy rules, which select the table of a lookup.

use super::channel::NetlinkError;
use super::message::{Attributes, Encoder, u32_at};
use super::route::Lookup;
use super::socket::{RouteSocket, family};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

// linux/fib_rules.h
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TUN_ID: u16 = 12;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_PAD: u16 = 18;
const FRA_L3MDEV: u16 = 19;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;
/// `struct fib_rule_hdr`: family, lengths of destination and source, TOS, table, two unused, action, flags (4).
const RULE_HEADER: usize = 12;

/// "Packets from `from` look up `table`."
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoutingRule {
    /// Source prefix; length 0 matches the whole family.
    pub from: IpNet,
    pub table: u32,
    /// Lower priority values come first.
    pub priority: u32,
}

impl fmt::Display for RoutingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: from {} look up table {}", self.priority, self.from, self.table)
    }
}

/// A rule that matches a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedRule {
    pub priority: u32,
    /// Its table; `None` if it depends on the interface's VRF.
    pub table: Option<u32>,
    suppressed_prefix: Option<u8>,
}

impl FollowedRule {
    /// Parses the rule in an `RTM_NEWRULE` message; `None` if it does not match `lookup` by an interface with this
    /// name.
    pub fn parse(payload: &[u8], lookup: &Lookup, interface: &str) -> Option<Self> {
        let entry = RuleEntry::parse(payload)?;
        if entry.selects(lookup, interface) == entry.inverted {
            return None;
        }
        let by_domain = entry.attributes.u8(FRA_L3MDEV).is_some_and(|domains| domains != 0);
        // "Suppress nothing" is -1.
        let suppressed = entry.attributes.u32(FRA_SUPPRESS_PREFIXLEN);
        Some(Self {
            priority: entry.priority,
            table: (!by_domain).then_some(entry.table),
            suppressed_prefix: suppressed.and_then(|longest| u8::try_from(longest).ok()),
        })
    }

    /// Whether the rule accepts a route of `table` with this prefix length.
    pub fn leads_to(self, table: u32, prefix: u8) -> bool {
        self.table.is_none_or(|own| own == table)
            && self.suppressed_prefix.is_none_or(|longest| prefix > longest)
    }
}

impl RouteSocket {
    /// The rules of both families that [`RoutingRule`] represents completely, unordered. Excludes rules with other conditions
    /// (marks, interfaces, ports, destinations, users) or other actions.
    pub fn rules(&mut self) -> Result<Vec<RoutingRule>, NetlinkError> {
        self.dump_both_families("rules", libc::RTM_GETRULE, RULE_HEADER, RoutingRule::parse)
    }

    /// Adds a rule (`EEXIST` if the same rule exists).
    pub fn add_rule(&mut self, rule: &RoutingRule) -> Result<(), NetlinkError> {
        let message = rule.encode().message(libc::RTM_NEWRULE);
        self.channel.execute(&format!("add rule {rule}"), NLM_F_CREATE | NLM_F_EXCL, &message)
    }

    /// Removes a rule (`ENOENT` if it does not exist).
    pub fn remove_rule(&mut self, rule: &RoutingRule) -> Result<(), NetlinkError> {
        let message = rule.encode().message(libc::RTM_DELRULE);
        self.channel.execute(&format!("remove rule {rule}"), 0, &message)
    }

    /// The rules that `lookup` evaluates until a table has a route, in order. The kernel's answer to a lookup contains
    /// the table but not the rule, so this function implements the kernel's `fib_rule_match` (`net/core/fib_rules.c`)
    /// for packets without a mark. `interface` is the name of the interface of the lookup.
    pub(crate) fn followed_rules(
        &mut self,
        lookup: &Lookup,
        interface: &str,
    ) -> Result<Vec<FollowedRule>, NetlinkError> {
        let mut header = [0; RULE_HEADER];
        header[0] = family(lookup.destination);
        let message = Encoder::with_header(&header).message(libc::RTM_GETRULE);
        let mut followed = self
            .channel
            .dump("list the rules", &message, |payload| FollowedRule::parse(payload, lookup, interface))?;
        followed.sort_by_key(|rule| rule.priority);
        Ok(followed)
    }
}

impl RoutingRule {
    pub fn encode(&self) -> Encoder {
        let from = self.from.trunc();
        let table = u8::try_from(self.table).unwrap_or(libc::RT_TABLE_UNSPEC);
        let header = [family(from.addr()), 0, from.prefix_len(), 0, table, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
        let source = (from.prefix_len() > 0).then_some(from.addr());
        Encoder::with_header(&header)
            .add_optional(source, |to, source| to.address(FRA_SRC, source))
            .u32(FRA_PRIORITY, self.priority)
            .u32(FRA_TABLE, self.table)
    }

    /// Parses the rule in an `RTM_NEWRULE` message if its source is the only condition and a table lookup the only
    /// action.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let entry = RuleEntry::parse(payload)?;
        // The kernel sends "suppress nothing" (-1) with every rule.
        let plain = entry.attributes.iter().all(|(kind, value)| match kind {
            FRA_SRC | FRA_PRIORITY | FRA_TABLE | FRA_PAD | FRA_PROTOCOL => true,
            FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP => u32_at(value, 0) == Some(u32::MAX),
            _ => false,
        });
        if !plain || entry.inverted || entry.destination_prefix != 0 || entry.tos != 0 {
            return None;
        }
        let anything = if entry.v4 { DEFAULT_V4 } else { DEFAULT_V6 };
        let from = entry.attributes.address(FRA_SRC).unwrap_or(anything.addr());
        let from = IpNet::new(from, entry.source_prefix).ok()?;
        Some(Self { from, table: entry.table, priority: entry.priority })
    }
}

#[derive(Debug, Clone, Copy)]
struct RuleEntry<'a> {
    v4: bool,
    destination_prefix: u8,
    source_prefix: u8,
    tos: u8,
    table: u32,
    priority: u32,
    inverted: bool,
    attributes: Attributes<'a>,
}

impl<'a> RuleEntry<'a> {
    /// An IPv4 or IPv6 rule with a table lookup as its action.
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, RULE_HEADER)?;
        let [family, destination_prefix, source_prefix, tos, table, _, _, FR_ACT_TO_TBL, ..] = *header else {
            return None;
        };
        let v4 = i32::from(family) == libc::AF_INET;
        (v4 || i32::from(family) == libc::AF_INET6).then_some(Self {
            v4,
            destination_prefix,
            source_prefix,
            tos,
            table: attributes.u32(FRA_TABLE).unwrap_or_else(|| u32::from(table)),
            // The first rule, for the local table, is sent without its priority 0.
            priority: attributes.u32(FRA_PRIORITY).unwrap_or(0),
            inverted: u32_at(header, 8)? & FIB_RULE_INVERT != 0,
            attributes,
        })
    }

    fn selects(self, lookup: &Lookup, interface: &str) -> bool {
        let attributes = self.attributes;
        let within = |kind, prefix, address: IpAddr| {
            prefix == 0
                || attributes.address(kind).is_some_and(|network| {
                    IpNet::new(network, prefix).is_ok_and(|network| network.contains(&address))
                })
        };
        // For rules, the input interface of locally generated packets is `lo`.
        let comes_in = attributes.text(FRA_IIFNAME).is_none_or(|name| name == "lo");
        let goes_out = attributes.text(FRA_OIFNAME).is_none_or(|name| name == interface);
        let mark = attributes.u32(FRA_FWMARK).unwrap_or(0);
        let bits_of_mark = attributes.u32(FRA_FWMASK).unwrap_or(if mark == 0 { 0 } else { u32::MAX });
        let protocol = attributes.u8(FRA_IP_PROTO).is_none_or(|protocol| protocol == libc::IPPROTO_TCP as u8);
        let ports = [FRA_SPORT_RANGE, FRA_DPORT_RANGE, FRA_TUN_ID];
        within(FRA_DST, self.destination_prefix, lookup.destination)
            && within(FRA_SRC, self.source_prefix, lookup.source)
            && comes_in
            && goes_out
            && mark & bits_of_mark == 0
            && protocol
            && ports.iter().all(|kind| attributes.get(*kind).is_none())
    }
}
