//! Sizes of the packets that a link was really given, as counted on the wire.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// IP packets of one run by their length, IP header included: what entered the link, not what a kernel says it sends.
/// What the link's own queue dropped is among them. Where hosts hand over super-packets (segmentation offload), the
/// segments count, each with its headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct PacketSizes {
    /// First end → second end: length in bytes → packets.
    pub forward: BTreeMap<u32, u64>,
    /// Second end → first end: length in bytes → packets.
    pub reverse: BTreeMap<u32, u64>,
    /// Packets that entered it and could not be counted, since the machine was too busy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_packets: u64,
}

/// What a router of the lab did about packets that were too large for their next hop, during one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RouterRecord {
    pub name: String,
    /// `on`, `off`, or the messages per second that pass: `10/s`.
    pub icmp: String,
    /// Whether it clamps the MSS of SYNs to the next hop's MTU.
    pub clamp_mss: bool,
    /// "Fragmentation needed" and "packet too big" messages that it sent.
    pub too_big_sent: u64,
    /// Such messages that were dropped before they left it.
    pub too_big_suppressed: u64,
    /// SYNs whose MSS option it looked at.
    pub clamped_syns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}
