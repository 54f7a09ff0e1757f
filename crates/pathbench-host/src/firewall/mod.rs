//! Rules of a lab's router by `nf_tables` (nft(8)) in its network namespace: "too big" messages (ICMP), MSS clamping,
//! and the treatment of forwarded packets by middleboxes.
//!
//! ```text
//! table inet pathbench
//!   output:  sends, limits or drops ICMP fragmentation needed (RFC 792, 3/4), ICMPv6 packet too big (RFC 4443, 2)
//!   forward: SYN and SYN/ACK, both directions: MSS limited by the MTUs of the routes (RFC 9293, 3.7.1)
//!   forward: strips MPTCP options, rewrites payload, drops packets
//! ```
//!
//! The kernel itself does not limit these messages: `icmpv4_mask_allow` (net/ipv4/icmp.c) excludes "fragmentation
//! needed", and the default of `net.ipv6.icmp.ratemask` excludes "packet too big".

mod expression;
mod middlebox;
pub mod rules;
mod ruleset;

pub use expression::{jump, rate_above};
pub use middlebox::{Middlebox, MptcpSubtype, Segments, Treatment};
pub use ruleset::{FirewallError, RouterRules, TooBigTreatment, changes, number};

use crate::namespace::NetNamespace;
use crate::netlink::channel::{NetlinkChannel, NetlinkProtocol};
use crate::netlink::message::{Attributes, NETFILTER_HEADER};
use ruleset::{NFTA_COUNTER_PACKETS, NFTA_OBJ_DATA, NFTA_OBJ_NAME, NFTA_OBJ_TABLE, SUBSYSTEM, TABLE};

/// Counters of a namespace's rules since they were first applied. Changing the rules does not reset them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RouterCounters {
    pub too_big_sent: u64,
    /// "Too big" messages dropped before they left the router.
    pub too_big_suppressed: u64,
    /// SYN and SYN/ACK segments that passed the clamp, with or without a change of their MSS.
    pub clamped_syns: u64,
    /// Packets that each middlebox has treated, in the order of [`Middlebox::ALL`]; a GSO packet counts once. Contains each
    /// middlebox that has been applied.
    pub middlebox: Vec<(Middlebox, u64)>,
}

/// The table `inet pathbench` of a network namespace. It outlives this handle and ends with the namespace.
#[derive(Debug)]
pub struct Firewall {
    channel: NetlinkChannel,
}

impl Firewall {
    /// Opens the firewall of `namespace` without changing it.
    /// Errors: a kernel without `nf_tables` may be detected only by [`Self::apply`].
    pub fn open_in(namespace: &NetNamespace) -> Result<Self, FirewallError> {
        Ok(Self {
            channel: NetlinkChannel::open_in(NetlinkProtocol::NETFILTER, namespace)
                .map_err(FirewallError::open)?,
        })
    }

    /// Replaces the router's rules by `rules` atomically: every packet is processed by exactly one set of rules. A rate
    /// limit restarts.
    /// Errors: the previous rules stay in force.
    pub fn apply(&mut self, rules: &RouterRules) -> Result<(), FirewallError> {
        let changes = changes(rules);
        self.channel.transact("apply the firewall's rules", SUBSYSTEM, &changes).map_err(|refusal| {
            FirewallError::classify(refusal.error, refusal.index.and_then(|index| changes.get(index)))
        })
    }

    /// The counters of the rules; all 0 before the first application.
    pub fn counters(&mut self) -> Result<RouterCounters, FirewallError> {
        let request = "read the firewall's counters";
        let found = match self.channel.dump(request, &ruleset::list_counters(), parse_counter) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(RouterCounters::default()),
            Err(error) => return Err(FirewallError::classify(error, None)),
        };
        let counter = |name| found.iter().find(|(found, _)| found == name).map(|(_, packets)| *packets);
        let packets = |name| counter(name).unwrap_or_default();
        let of_middlebox = Middlebox::ALL.into_iter();
        Ok(RouterCounters {
            too_big_sent: packets(ruleset::SENT),
            too_big_suppressed: packets(ruleset::SUPPRESSED),
            clamped_syns: packets(ruleset::CLAMPED),
            middlebox: of_middlebox
                .filter_map(|(name, middlebox)| Some((middlebox, counter(name)?)))
                .collect(),
        })
    }

    /// Removes the rules and their counters; succeeds if none exist.
    pub fn remove(&mut self) -> Result<(), FirewallError> {
        let request = "remove the firewall's table";
        match self.channel.transact(request, SUBSYSTEM, &[ruleset::removal(request)]) {
            Err(refusal) if refusal.index.is_none() || !refusal.error.is_absent() => {
                Err(FirewallError::classify(refusal.error, None))
            }
            _ => Ok(()),
        }
    }
}

/// Name and packets of a counter of the table, from an `NFT_MSG_NEWOBJ` message.
pub fn parse_counter(payload: &[u8]) -> Option<(String, u64)> {
    let (_, attributes) = Attributes::parse_after_header(payload, NETFILTER_HEADER)?;
    if attributes.text(NFTA_OBJ_TABLE)? != TABLE {
        return None;
    }
    let packets = attributes.nested(NFTA_OBJ_DATA)?.get(NFTA_COUNTER_PACKETS)?.first_chunk()?;
    Some((attributes.text(NFTA_OBJ_NAME)?, u64::from_be_bytes(*packets)))
}
