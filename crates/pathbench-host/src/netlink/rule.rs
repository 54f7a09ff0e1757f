//! Policy rules: which table a lookup leads to.

use super::message::{Attributes, Encoder, u32_at};
use super::route::Lookup;
use super::{NetlinkError, RouteSocket, family};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use pathbench_record::network::IpNetwork;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Source addresses it is for; prefix 0 for all of the family.
    pub from: IpNetwork,
    pub table: u32,
    /// Rules are tried from the lowest priority value up.
    pub priority: u32,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: from {} look up table {}", self.priority, self.from, self.table)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FollowedRule {
    pub(crate) priority: u32,
    /// The table it leads to; `None` where that depends on the interface's virtual routing domain.
    pub(crate) table: Option<u32>,
    suppressed_prefix: Option<u8>,
}

impl FollowedRule {
    pub(crate) fn leads_to(self, table: u32, prefix: u8) -> bool {
        self.table.is_none_or(|own| own == table)
            && self.suppressed_prefix.is_none_or(|longest| prefix > longest)
    }
}

impl RouteSocket {
    /// The rules of both families that [`Rule`] can express in full, in no particular order. Rules with other conditions
    /// (marks, interfaces, ports, destinations, users) or other actions are left out.
    pub fn rules(&mut self) -> Result<Vec<Rule>, NetlinkError> {
        self.dump_both_families("rules", libc::RTM_GETRULE, RULE_HEADER, |payload| {
            RuleEntry::parse(payload)?.by_source_alone()
        })
    }

    /// Adds a rule (`EEXIST` when the very same is there).
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let message = rule.encode().message(libc::RTM_NEWRULE);
        self.channel.execute(&format!("add rule {rule}"), NLM_F_CREATE | NLM_F_EXCL, &message)
    }

    /// Removes a rule (`ENOENT` when there is none like it).
    pub fn remove_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let message = rule.encode().message(libc::RTM_DELRULE);
        self.channel.execute(&format!("remove rule {rule}"), 0, &message)
    }

    /// The rules that `lookup` follows until a table has a route, in their order. The answer to a lookup contains the
    /// table and not the rule, so this follows the kernel's `fib_rule_match` (`net/core/fib_rules.c`), for packets
    /// without a mark. `interface` is the name of the interface that is looked up for.
    pub(crate) fn followed_rules(
        &mut self,
        lookup: &Lookup,
        interface: &str,
    ) -> Result<Vec<FollowedRule>, NetlinkError> {
        let mut header = [0; RULE_HEADER];
        header[0] = family(lookup.destination);
        let message = Encoder::after(&header).message(libc::RTM_GETRULE);
        let mut followed = self.channel.dump("list the rules", &message, |payload| {
            RuleEntry::parse(payload)?.followed(lookup, interface)
        })?;
        followed.sort_by_key(|rule| rule.priority);
        Ok(followed)
    }
}

impl Rule {
    fn encode(&self) -> Encoder {
        let from = self.from.network();
        let table = u8::try_from(self.table).unwrap_or(libc::RT_TABLE_UNSPEC);
        let header = [family(from.addr()), 0, from.prefix(), 0, table, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
        let source = (!from.is_default()).then_some(from.addr());
        Encoder::after(&header)
            .with(source, |to, source| to.address(FRA_SRC, source))
            .u32(FRA_PRIORITY, self.priority)
            .u32(FRA_TABLE, self.table)
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
    action: u8,
    inverted: bool,
    attributes: Attributes<'a>,
}

impl<'a> RuleEntry<'a> {
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let (header, attributes) = Attributes::after(payload, RULE_HEADER)?;
        let [family, destination_prefix, source_prefix, tos, table, _, _, action, ..] = *header else {
            return None;
        };
        if !matches!(i32::from(family), libc::AF_INET | libc::AF_INET6) {
            return None;
        }
        Some(Self {
            v4: i32::from(family) == libc::AF_INET,
            destination_prefix,
            source_prefix,
            tos,
            table: attributes.u32(FRA_TABLE).unwrap_or_else(|| u32::from(table)),
            // The first rule, to the local table, is sent without its priority 0.
            priority: attributes.u32(FRA_PRIORITY).unwrap_or(0),
            action,
            inverted: u32_at(header, 8)? & FIB_RULE_INVERT != 0,
            attributes,
        })
    }

    fn by_source_alone(self) -> Option<Rule> {
        // The kernel sends "suppress nothing" (-1) with every rule.
        let plain = self.attributes.iter().all(|(kind, value)| match kind {
            FRA_SRC | FRA_PRIORITY | FRA_TABLE | FRA_PAD | FRA_PROTOCOL => true,
            FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP => u32_at(value, 0) == Some(u32::MAX),
            _ => false,
        });
        if self.action != FR_ACT_TO_TBL
            || self.destination_prefix != 0
            || self.tos != 0
            || self.inverted
            || !plain
        {
            return None;
        }
        let anything = if self.v4 { IpNetwork::DEFAULT_V4 } else { IpNetwork::DEFAULT_V6 };
        let from = self.attributes.address(FRA_SRC).unwrap_or(anything.addr());
        Some(Rule {
            from: IpNetwork::new(from, self.source_prefix).ok()?,
            table: self.table,
            priority: self.priority,
        })
    }

    fn followed(self, lookup: &Lookup, interface: &str) -> Option<FollowedRule> {
        if self.action != FR_ACT_TO_TBL || self.selects(lookup, interface) == self.inverted {
            return None;
        }
        let by_domain = self.attributes.u8(FRA_L3MDEV).is_some_and(|domains| domains != 0);
        // "Suppress nothing" is -1.
        let suppressed = self.attributes.u32(FRA_SUPPRESS_PREFIXLEN);
        Some(FollowedRule {
            priority: self.priority,
            table: (!by_domain).then_some(self.table),
            suppressed_prefix: suppressed.and_then(|longest| u8::try_from(longest).ok()),
        })
    }

    fn selects(self, lookup: &Lookup, interface: &str) -> bool {
        let attributes = self.attributes;
        let within = |kind, prefix, address: IpAddr| {
            prefix == 0
                || attributes.address(kind).is_some_and(|network| {
                    IpNetwork::new(network, prefix).is_ok_and(|network| network.contains(address))
                })
        };
        // Rules see `lo` as the input interface of what this host sends.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Option<Rule> {
        RuleEntry::parse(bytes)?.by_source_alone()
    }

    #[test]
    fn a_rule_with_a_mark_is_not_a_source_rule() {
        let rule = Rule { from: IpNetwork::DEFAULT_V4, table: 100, priority: 5 };
        assert_eq!(parsed(&rule.encode().into_bytes()), Some(rule));
        assert_eq!(parsed(&rule.encode().u32(FRA_FWMARK, 1).into_bytes()), None);
    }

    fn header(to: u8, from: u8, table: u8, flags: u8) -> Encoder {
        Encoder::after(&[2, to, from, 0, table, 0, 0, FR_ACT_TO_TBL, flags, 0, 0, 0])
    }

    #[test]
    fn rules_are_followed_where_their_conditions_hold() {
        let source: IpAddr = "10.0.1.1".parse().unwrap();
        let other: IpAddr = "10.0.2.1".parse().unwrap();
        let lookup = Lookup { source, destination: "10.9.9.9".parse().unwrap(), interface: Some(3) };
        let invert = u8::try_from(FIB_RULE_INVERT).unwrap();
        let plain = || header(0, 0, 100, 0);
        for (name, leads, rule) in [
            ("from all", true, plain()),
            ("another table", false, header(0, 0, 101, 0)),
            ("table beyond a byte", true, header(0, 0, 0, 0).u32(FRA_TABLE, 100)),
            ("from the address", true, header(0, 32, 100, 0).address(FRA_SRC, source)),
            ("from another", false, header(0, 32, 100, 0).address(FRA_SRC, other)),
            ("from the network", true, header(0, 8, 100, 0).address(FRA_SRC, other)),
            ("not from the address", false, header(0, 32, 100, invert).address(FRA_SRC, source)),
            ("not from another", true, header(0, 32, 100, invert).address(FRA_SRC, other)),
            ("to another", false, header(32, 0, 100, 0).address(FRA_DST, other)),
            ("by the interface", true, plain().text(FRA_OIFNAME, "wlan")),
            ("by another", false, plain().text(FRA_OIFNAME, "eth")),
            ("forwarded", false, plain().text(FRA_IIFNAME, "eth")),
            ("from here", true, plain().text(FRA_IIFNAME, "lo")),
            ("marked", false, plain().u32(FRA_FWMARK, 7)),
            ("not marked", true, header(0, 0, 100, invert).u32(FRA_FWMARK, 7)),
            ("no default", false, plain().u32(FRA_SUPPRESS_PREFIXLEN, 24)),
            ("no short", true, plain().u32(FRA_SUPPRESS_PREFIXLEN, 8)),
            ("for TCP", true, plain().u8(FRA_IP_PROTO, 6)),
            ("for UDP", false, plain().u8(FRA_IP_PROTO, 17)),
        ] {
            let bytes = rule.into_bytes();
            let followed = RuleEntry::parse(&bytes).unwrap().followed(&lookup, "wlan");
            assert_eq!(followed.is_some_and(|rule| rule.leads_to(100, 24)), leads, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_would_be_read(
            address: IpAddr, prefix in 0u8..=32, table: u32, priority: u32
        ) {
            let rule = Rule { from: IpNetwork::new(address, prefix).unwrap().network(), table, priority };
            prop_assert_eq!(parsed(&rule.encode().into_bytes()), Some(rule));
        }

        #[test]
        fn any_bytes_are_a_rule_or_not(payload: Vec<u8>) {
            let _ = parsed(&payload);
        }
    }
}
