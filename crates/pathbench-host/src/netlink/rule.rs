//! Policy rules: which table a packet's source address leads to.

use super::address::family;
use super::attribute::{Attributes, u32_at};
use super::route::is_no_such_family;
use super::{NetlinkError, RouteSocket};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use pathbench_record::network::IpNetwork;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

// linux/fib_rules.h
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PAD: u16 = 18;
const FRA_PROTOCOL: u16 = 21;
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;
/// `struct fib_rule_hdr`
const RULE_HEADER: usize = 12;

/// "Packets from `from` look up `table`."
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Source addresses it is for; prefix 0 for all of the family.
    pub from: IpNetwork,
    /// The table to look up.
    pub table: u32,
    /// Its place: rules are tried from the lowest priority value up.
    pub priority: u32,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: from {} look up table {}", self.priority, self.from, self.table)
    }
}

impl RouteSocket {
    /// The rules of both families that [`Rule`] can express in full, in no particular order. Rules with
    /// other conditions (marks, interfaces, ports, destinations, users) or other actions are left out.
    ///
    /// # Errors
    /// [`NetlinkError`]; reading needs no privilege.
    pub fn rules(&mut self) -> Result<Vec<Rule>, NetlinkError> {
        let mut rules = Vec::new();
        for (family, name) in [(AddressFamily::Inet, "IPv4"), (AddressFamily::Inet6, "IPv6")] {
            let mut message = RuleMessage::default();
            message.header.family = family;
            let request = format!("list the {name} rules");
            match self.channel.dump(&request, &RouteNetlinkMessage::GetRule(message)) {
                Ok(replies) => rules.extend(replies.iter().filter_map(|(_, payload)| parse_rule(payload))),
                Err(error) if family == AddressFamily::Inet6 && is_no_such_family(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rules)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`EEXIST` when the very same is there).
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::NewRule(rule_message(rule));
        self.channel.execute(&format!("add rule {rule}"), NLM_F_CREATE | NLM_F_EXCL, message)
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] (`ENOENT` when there is none like it).
    pub fn remove_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::DelRule(rule_message(rule));
        self.channel.execute(&format!("remove rule {rule}"), 0, message)
    }
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let from = rule.from.network();
    message.header.family = family(from.addr());
    message.header.src_len = from.prefix();
    message.header.table = u8::try_from(rule.table).unwrap_or(libc::RT_TABLE_UNSPEC);
    message.header.action = RuleAction::ToTable;
    if !from.is_default() {
        message.attributes.push(RuleAttribute::Source(from.addr()));
    }
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.push(RuleAttribute::Table(rule.table));
    message
}

/// The rule that an `RTM_NEWRULE` message describes, if it is one that [`Rule`] can express.
fn parse_rule(payload: &[u8]) -> Option<Rule> {
    let (header, attributes) = Attributes::after(payload, RULE_HEADER)?;
    let [family, destination_prefix, prefix, tos, table, _, _, action, ..] = *header else { return None };
    let inverted = u32_at(header, 8)? & FIB_RULE_INVERT != 0;
    if action != FR_ACT_TO_TBL || destination_prefix != 0 || tos != 0 || inverted {
        return None;
    }
    // The kernel sends "suppress nothing" (-1) with every rule.
    let plain = attributes.iter().all(|(kind, value)| match kind {
        FRA_SRC | FRA_PRIORITY | FRA_TABLE | FRA_PAD | FRA_PROTOCOL => true,
        FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP => u32_at(value, 0) == Some(u32::MAX),
        _ => false,
    });
    let anything = match i32::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    plain.then_some(Rule {
        from: IpNetwork::new(attributes.address(FRA_SRC).unwrap_or(anything), prefix).ok()?,
        table: attributes.u32(FRA_TABLE).unwrap_or_else(|| u32::from(table)),
        // The first rule, to the local table, is sent without its priority 0.
        priority: attributes.u32(FRA_PRIORITY).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;
    use proptest::prelude::*;

    fn bytes_of(message: &RuleMessage) -> Vec<u8> {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    #[test]
    fn a_rule_with_a_mark_is_not_a_source_rule() {
        let rule = Rule { from: IpNetwork::DEFAULT_V4, table: 100, priority: 5 };
        let mut message = rule_message(&rule);
        assert_eq!(parse_rule(&bytes_of(&message)), Some(rule));
        message.attributes.push(RuleAttribute::FwMark(1));
        assert_eq!(parse_rule(&bytes_of(&message)), None);
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_would_be_read(
            address: IpAddr, prefix in 0u8..=32, table: u32, priority: u32
        ) {
            let rule = Rule { from: IpNetwork::new(address, prefix).unwrap().network(), table, priority };
            prop_assert_eq!(parse_rule(&bytes_of(&rule_message(&rule))), Some(rule));
        }

        #[test]
        fn any_bytes_are_a_rule_or_not(payload: Vec<u8>) {
            let _ = parse_rule(&payload);
        }
    }
}
