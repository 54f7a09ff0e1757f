//! Counters of queueing disciplines (`linux/gen_stats.h`).

use crate::netlink::attribute::{Attributes, u32_at, u64_at};

const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
/// `struct tcmsg`
const TC_HEADER: usize = 20;

/// Counters of a queueing discipline since it was installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QdiscStatistics {
    /// Bytes sent: Ethernet frames; what was handed over for segmentation counts as the frames it became.
    pub bytes: u64,
    /// Packets sent, as frames like `bytes`.
    pub packets: u64,
    /// Packets dropped for want of room; one that was to be segmented counts once.
    pub drops: u32,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// How often something waited only because of the rate.
    pub overlimits: u32,
}

/// The counters in an `RTM_NEWQDISC` message.
pub(super) fn parse_statistics(payload: &[u8]) -> Option<QdiscStatistics> {
    let (_, attributes) = Attributes::after(payload, TC_HEADER)?;
    let attributes = attributes.nested(TCA_STATS2)?;
    // struct gnet_stats_basic: bytes (8), packets (4); struct gnet_stats_queue: five words.
    let (basic, queue) = (attributes.get(TCA_STATS_BASIC)?, attributes.get(TCA_STATS_QUEUE)?);
    let packets = attributes.get(TCA_STATS_PKT64).and_then(|value| u64_at(value, 0));
    Some(QdiscStatistics {
        bytes: u64_at(basic, 0)?,
        packets: packets.or_else(|| u32_at(basic, 8).map(u64::from))?,
        backlog_packets: u32_at(queue, 0)?,
        backlog_bytes: u32_at(queue, 4)?,
        drops: u32_at(queue, 8)?,
        overlimits: u32_at(queue, 16)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            let _ = parse_statistics(&payload);
        }
    }
}
