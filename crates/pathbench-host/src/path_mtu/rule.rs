//! Which rule leads to a table.

use super::fib_table::{Lookup, family};
use crate::netlink::attribute::{Attributes, u32_at};
use crate::netlink::raw::RawRequest;
use crate::netlink::{NetlinkError, RouteSocket};
use pathbench_record::network::IpNetwork;
use std::net::IpAddr;

const RTM_GETRULE: u16 = 34;
// linux/fib_rules.h
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TUN_ID: u16 = 12;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;
/// `struct fib_rule_hdr`
const RULE_HEADER: usize = 12;

/// A rule that a lookup follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FollowedRule {
    pub(super) priority: u32,
    /// The table it leads to; `None` where that depends on the interface's virtual routing domain.
    table: Option<u32>,
    /// Routes whose destination has no more bits than that do not count.
    suppressed_prefix: Option<u8>,
}

impl FollowedRule {
    /// Whether it leads to a route of `table` whose destination has `prefix` bits.
    pub(super) fn leads_to(self, table: u32, prefix: u8) -> bool {
        self.table.is_none_or(|own| own == table)
            && self.suppressed_prefix.is_none_or(|longest| prefix > longest)
    }

    /// The table it leads to, where that is known.
    pub(super) const fn table(self) -> Option<u32> {
        self.table
    }
}

/// The rules that `lookup` follows until a table has a route, in their order. The kernel tells of a lookup the table
/// and not the rule, so that this follows its `fib_rule_match` (`net/core/fib_rules.c`), for packets without a mark.
/// `interface` is the name of the interface that is looked up for.
pub(super) fn followed_rules(
    socket: &mut RouteSocket,
    lookup: &Lookup,
    interface: &str,
) -> Result<Vec<FollowedRule>, NetlinkError> {
    let mut header = [0; RULE_HEADER];
    header[0] = family(lookup.destination);
    let replies = socket.channel.dump("list the rules", &RawRequest::new(RTM_GETRULE, &header, &[]))?;
    let rules = replies.iter().filter_map(|(_, payload)| Rule::parse(payload));
    let mut followed: Vec<_> = rules.filter_map(|rule| rule.followed(lookup, interface)).collect();
    followed.sort_by_key(|rule| rule.priority);
    Ok(followed)
}

#[derive(Debug, Clone, Copy)]
struct Rule<'a> {
    header: &'a [u8],
    attributes: Attributes<'a>,
    priority: u32,
}

impl<'a> Rule<'a> {
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let (header, attributes) = Attributes::after(payload, RULE_HEADER)?;
        // The first rule, to the local table, is sent without its priority 0.
        Some(Self { header, attributes, priority: attributes.u32(FRA_PRIORITY).unwrap_or(0) })
    }

    fn followed(self, lookup: &Lookup, interface: &str) -> Option<FollowedRule> {
        let byte = |at: usize| self.header.get(at).copied().unwrap_or(0);
        let attributes = self.attributes;
        let inverted = u32_at(self.header, 8)? & FIB_RULE_INVERT != 0;
        let selected = self.selects(lookup, interface, byte(1), byte(2)) != inverted;
        if byte(7) != FR_ACT_TO_TBL || !selected {
            return None;
        }
        let by_domain = attributes.u8(FRA_L3MDEV).is_some_and(|domains| domains != 0);
        let table = attributes.u32(FRA_TABLE).unwrap_or_else(|| u32::from(byte(4)));
        // "Suppress nothing" is -1.
        let suppressed = attributes.u32(FRA_SUPPRESS_PREFIXLEN);
        Some(FollowedRule {
            priority: self.priority,
            table: (!by_domain).then_some(table),
            suppressed_prefix: suppressed.and_then(|longest| u8::try_from(longest).ok()),
        })
    }

    fn selects(self, lookup: &Lookup, interface: &str, to: u8, from: u8) -> bool {
        let attributes = self.attributes;
        let within = |kind, prefix, address: IpAddr| {
            prefix == 0
                || attributes.address(kind).is_some_and(|network| {
                    IpNetwork::new(network, prefix).is_ok_and(|network| network.contains(address))
                })
        };
        // What this host sends comes in by its loopback interface, as rules see it.
        let comes_in = attributes.text(FRA_IIFNAME).is_none_or(|name| name == "lo");
        let goes_out = attributes.text(FRA_OIFNAME).is_none_or(|name| name == interface);
        let mark = attributes.u32(FRA_FWMARK).unwrap_or(0);
        let bits_of_mark = attributes.u32(FRA_FWMASK).unwrap_or(if mark == 0 { 0 } else { u32::MAX });
        let protocol = attributes.u8(FRA_IP_PROTO).is_none_or(|protocol| protocol == libc::IPPROTO_TCP as u8);
        let ports = [FRA_SPORT_RANGE, FRA_DPORT_RANGE, FRA_TUN_ID];
        within(FRA_DST, to, lookup.destination)
            && within(FRA_SRC, from, lookup.source)
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
    use crate::netlink::attribute::{emitted, octets, u32_attribute};
    use netlink_packet_core::DefaultNla;

    fn rule(header: [u8; RULE_HEADER], attributes: &[DefaultNla]) -> Vec<u8> {
        [header.as_slice(), &emitted(attributes)].concat()
    }

    /// Family, lengths of destination and source, tos, table, two unused, action, flags.
    const fn header(to: u8, from: u8, table: u8, flags: u8) -> [u8; RULE_HEADER] {
        [2, to, from, 0, table, 0, 0, FR_ACT_TO_TBL, flags, 0, 0, 0]
    }

    fn text(kind: u16, text: &str) -> DefaultNla {
        DefaultNla::new(kind, format!("{text}\0").into_bytes())
    }

    #[test]
    fn what_a_rule_asks_for() {
        let source: IpAddr = "10.0.1.1".parse().unwrap();
        let other: IpAddr = "10.0.2.1".parse().unwrap();
        let lookup = Lookup { source, destination: "10.9.9.9".parse().unwrap(), interface: Some(3) };
        let invert = u8::try_from(FIB_RULE_INVERT).unwrap();
        let from = |address| DefaultNla::new(FRA_SRC, octets(address));
        for (name, leads, header, attributes) in [
            ("from all", true, header(0, 0, 100, 0), vec![]),
            ("another table", false, header(0, 0, 101, 0), vec![]),
            ("table beyond a byte", true, header(0, 0, 0, 0), vec![u32_attribute(FRA_TABLE, 100)]),
            ("from the address", true, header(0, 32, 100, 0), vec![from(source)]),
            ("from another", false, header(0, 32, 100, 0), vec![from(other)]),
            ("from the network", true, header(0, 8, 100, 0), vec![from(other)]),
            ("not from the address", false, header(0, 32, 100, invert), vec![from(source)]),
            ("not from another", true, header(0, 32, 100, invert), vec![from(other)]),
            ("to another", false, header(32, 0, 100, 0), vec![DefaultNla::new(FRA_DST, octets(other))]),
            ("by the interface", true, header(0, 0, 100, 0), vec![text(FRA_OIFNAME, "wlan")]),
            ("by another", false, header(0, 0, 100, 0), vec![text(FRA_OIFNAME, "eth")]),
            ("forwarded", false, header(0, 0, 100, 0), vec![text(FRA_IIFNAME, "eth")]),
            ("from here", true, header(0, 0, 100, 0), vec![text(FRA_IIFNAME, "lo")]),
            ("marked", false, header(0, 0, 100, 0), vec![u32_attribute(FRA_FWMARK, 7)]),
            ("not marked", true, header(0, 0, 100, invert), vec![u32_attribute(FRA_FWMARK, 7)]),
            ("no default", false, header(0, 0, 100, 0), vec![u32_attribute(FRA_SUPPRESS_PREFIXLEN, 24)]),
            ("no short", true, header(0, 0, 100, 0), vec![u32_attribute(FRA_SUPPRESS_PREFIXLEN, 8)]),
            ("for TCP", true, header(0, 0, 100, 0), vec![DefaultNla::new(FRA_IP_PROTO, vec![6])]),
            ("for UDP", false, header(0, 0, 100, 0), vec![DefaultNla::new(FRA_IP_PROTO, vec![17])]),
        ] {
            let bytes = rule(header, &attributes);
            let followed = Rule::parse(&bytes).unwrap().followed(&lookup, "wlan");
            let found = followed.is_some_and(|rule| rule.leads_to(100, 24));
            assert_eq!(found, leads, "{name}");
        }
    }
}
