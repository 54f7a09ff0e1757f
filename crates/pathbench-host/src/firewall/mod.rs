//! What a router of a lab does beside forwarding, by `nf_tables` (nft(8)) in its own network namespace: whether it says
//! that a packet is too big for the next link, and whether it lowers the MSS that TCP connections agree on.
//!
//! ```text
//! table inet pathbench
//!   output:  ICMP fragmentation needed (RFC 792, 3/4), ICMPv6 packet too big (RFC 4443, 2) of its own: sent, limited, dropped
//!   forward: SYN and SYN/ACK, both ways: maximum segment size at most what the routes' MTUs leave (RFC 9293, 3.7.1)
//! ```
//!
//! The kernel itself does not limit these messages: `icmpv4_mask_allow` (net/ipv4/icmp.c) leaves "fragmentation needed"
//! out, and the default of `net.ipv6.icmp.ratemask` "packet too big".

mod message;
mod ruleset;

pub use ruleset::FirewallError;

use crate::namespace::NetNamespace;
use crate::netlink::channel::{Change, Channel, NETFILTER_HEADER, Protocol};
use crate::netlink::message::Attributes;
use message::{
    NFTA_COUNTER_PACKETS, NFTA_OBJ_DATA, NFTA_OBJ_NAME, NFTA_OBJ_TABLE, SUBSYSTEM, TABLE, change,
    list_counters, table,
};

/// What becomes of the router's own messages that a packet is too big for the next link: ICMP "fragmentation needed"
/// and `ICMPv6` "packet too big". Those that it only forwards always pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TooBig {
    #[default]
    Sent,
    /// This many a second are sent, IPv4 and IPv6 taken together, evenly: a message leaves when the last one did so
    /// 1 s / `per_second` ago or longer. 0 drops all.
    Limited { per_second: u32 },
    /// None is sent: packets that are too big vanish in a black hole.
    Dropped,
}

/// What a router does. The default is what Linux does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RouterRules {
    /// What becomes of its messages that a packet is too big.
    pub too_big: TooBig,
    /// Whether it lowers the MSS option of SYNs that it forwards to what fits the MTUs of its routes to either end.
    pub clamp_mss: bool,
}

/// What the rules of a namespace have met since they were first applied there. Changing them does not reset it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RouterCounters {
    pub too_big_sent: u64,
    /// "Too big" messages that were dropped before they left the router.
    pub too_big_suppressed: u64,
    /// SYN and SYN/ACK segments that went through the clamp, whether their MSS had to be lowered or not.
    pub clamped_syns: u64,
}

/// The table `inet pathbench` of one network namespace. It stays when this handle goes, until the namespace does.
#[derive(Debug)]
pub struct Firewall {
    channel: Channel,
}

impl Firewall {
    /// The firewall of `namespace`. Nothing is changed yet.
    /// Errors: a kernel without `nf_tables` may be noticed only by [`Self::apply`].
    pub fn open_in(namespace: &NetNamespace) -> Result<Self, FirewallError> {
        Ok(Self { channel: Channel::open_in(Protocol::NETFILTER, namespace).map_err(FirewallError::open)? })
    }

    /// Has the router follow `rules` from now on, in the place of those it had. They change at one moment: no packet
    /// meets none of them, or both. A limit begins anew.
    /// Errors: The rules are as they were before then.
    pub fn apply(&mut self, rules: &RouterRules) -> Result<(), FirewallError> {
        let steps = ruleset::steps(rules);
        let changes: Vec<Change> = steps.iter().map(|step| step.change.clone()).collect();
        self.channel.transact("apply the firewall's rules", SUBSYSTEM, &changes).map_err(|refusal| {
            FirewallError::refused(refusal.error, refusal.place.and_then(|place| steps.get(place)))
        })
    }

    /// What the rules have met so far; nothing when none were applied yet.
    pub fn counters(&mut self) -> Result<RouterCounters, FirewallError> {
        let found = match self.channel.dump("read the firewall's counters", &list_counters(), parse_counter) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(RouterCounters::default()),
            Err(error) => return Err(FirewallError::refused(error, None)),
        };
        let packets = |name| found.iter().find(|(found, _)| found == name).map_or(0, |(_, packets)| *packets);
        Ok(RouterCounters {
            too_big_sent: packets(ruleset::SENT),
            too_big_suppressed: packets(ruleset::SUPPRESSED),
            clamped_syns: packets(ruleset::CLAMPED),
        })
    }

    /// Takes the rules and their counters away; it is no error when there are none.
    pub fn remove(&mut self) -> Result<(), FirewallError> {
        let request = "remove the firewall's table";
        let deletion = change(request, libc::NFT_MSG_DELTABLE, 0, table());
        match self.channel.transact(request, SUBSYSTEM, &[deletion]) {
            Err(refusal) if refusal.place.is_none() || !refusal.error.is_absent() => {
                Err(FirewallError::refused(refusal.error, None))
            }
            _ => Ok(()),
        }
    }
}

fn parse_counter(payload: &[u8]) -> Option<(String, u64)> {
    let (_, attributes) = Attributes::after(payload, NETFILTER_HEADER)?;
    if attributes.text(NFTA_OBJ_TABLE)? != TABLE {
        return None;
    }
    let packets = attributes.nested(NFTA_OBJ_DATA)?.get(NFTA_COUNTER_PACKETS)?.first_chunk()?;
    Some((attributes.text(NFTA_OBJ_NAME)?, u64::from_be_bytes(*packets)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::channel::netfilter_header;
    use crate::netlink::message::Encoder;
    use proptest::prelude::*;

    fn counter(table: &str, name: &str, packets: u64) -> Vec<u8> {
        Encoder::after(&netfilter_header(1, 7))
            .text(NFTA_OBJ_TABLE, table)
            .text(NFTA_OBJ_NAME, name)
            .nested(NFTA_OBJ_DATA, Encoder::default().be64(NFTA_COUNTER_PACKETS, packets))
            .into_bytes()
    }

    #[test]
    fn only_counters_of_our_table_are_read() {
        assert_eq!(parse_counter(&counter(TABLE, "some", 300)), Some(("some".to_owned(), 300)));
        assert_eq!(parse_counter(&counter("filter", "some", 300)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_counter_or_not(payload: Vec<u8>) {
            let _ = parse_counter(&payload);
        }
    }
}
