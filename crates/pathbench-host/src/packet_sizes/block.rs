//! Wire packets of the packets in a block of a packet socket's ring.

use crate::packet_ring::{RingPacket, packets};
use crate::tun::{PacketHeader, Segmentation};
use pathbench_record::network::{IPV4_HEADER_BYTES, IPV6_HEADER_BYTES, UDP_HEADER_BYTES};
use std::collections::BTreeMap;

/// IPv4 and IPv6 packets by length in bytes, IP header included. Every segment counts, with its headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SizeCounts {
    /// Received on the interface: length in bytes → packets.
    pub received: BTreeMap<u32, u64>,
    /// Sent on the interface: length in bytes → packets.
    pub sent: BTreeMap<u32, u64>,
    /// Packets that were not counted, because the machine was too busy or the packet could not be parsed, for example
    /// UDP GSO packets before Linux 6.2. A GSO packet counts once.
    pub missed_packets: u64,
}

impl SizeCounts {
    pub fn count_block(&mut self, block: &[u8]) {
        let unread = packets(block, |packet| self.count_packet(packet));
        self.missed_packets += u64::from(unread);
    }

    fn count_packet(&mut self, packet: &RingPacket<'_>) {
        let counted = PacketHeader::parse(packet.offload).and_then(|header| {
            let start = packet.bytes.get(packet.link_header_bytes..)?;
            let handed_bytes = (packet.original_length as usize).checked_sub(packet.link_header_bytes)?;
            wire_packets(&header, start, handed_bytes)
        });
        let Some(counted) = counted else {
            self.missed_packets += 1;
            return;
        };
        let is_sent = packet.direction == libc::PACKET_OUTGOING;
        let counts = if is_sent { &mut self.sent } else { &mut self.received };
        for alike in counted.iter().filter(|alike| alike.packets > 0) {
            *counts.entry(alike.length_bytes).or_default() += alike.packets;
        }
    }
}

// Extension headers of IPv6 (RFC 8200, section 4), as values of the next-header field.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// The hop-by-hop option of packets larger than 64 KiB (RFC 2675).
const JUMBO_PAYLOAD: u8 = 0xc2;

/// Packets of one length, IP header included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    pub length_bytes: u32,
    pub packets: u64,
}

/// The wire packets of a GSO packet: full segments, and one with the remainder. `handed_bytes` is the length of the GSO
/// packet; `start` is its beginning, from the IP header on. `None` if it is not an IP packet, or if `start` does not
/// determine the segmentation.
pub fn wire_packets(header: &PacketHeader, start: &[u8], handed_bytes: usize) -> Option<[Alike; 2]> {
    const NONE: Alike = Alike { length_bytes: 0, packets: 0 };
    let Some(segmentation) = header.segmentation else {
        let one = Alike { length_bytes: u32::try_from(own_length(start, handed_bytes)?).ok()?, packets: 1 };
        return Some([one, NONE]);
    };
    let (network, transport) = ip_header(start)?;
    let header_bytes = network.kept_bytes
        + match segmentation {
            Segmentation::TcpV4 | Segmentation::TcpV6 => usize::from(*transport.get(12)? >> 4) * 4,
            Segmentation::Udp => UDP_HEADER_BYTES,
        };
    let payload = handed_bytes.checked_sub(header_bytes + network.dropped_bytes)?;
    let segment = usize::from(header.segment_bytes);
    if segment == 0 {
        return None;
    }
    let of = |payload: usize| u32::try_from(header_bytes + payload).ok();
    let full = Alike { length_bytes: of(segment)?, packets: (payload / segment) as u64 };
    let rest = payload % segment;
    // A packet without payload is one packet, too.
    let last = u64::from(rest > 0 || payload == 0);
    Some([full, Alike { length_bytes: of(rest)?, packets: last }])
}

/// The length in the IP header, because Ethernet may have padded the packet; `handed_bytes` if the header has none.
fn own_length(start: &[u8], handed_bytes: usize) -> Option<usize> {
    let field = |offset| start.get(offset..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    let stated_bytes = match start.first()? >> 4 {
        4 => usize::from(field(2)?),
        6 => match usize::from(field(4)?) {
            0 => 0,
            payload => payload + IPV6_HEADER_BYTES,
        },
        _ => return None,
    };
    Some(if (IPV4_HEADER_BYTES..=handed_bytes).contains(&stated_bytes) { stated_bytes } else { handed_bytes })
}

struct NetworkHeader {
    kept_bytes: usize,
    dropped_bytes: usize,
}

fn ip_header(start: &[u8]) -> Option<(NetworkHeader, &[u8])> {
    let first = *start.first()?;
    if first >> 4 == 4 {
        let kept_bytes = usize::from(first & 0x0f) * 4;
        return Some((NetworkHeader { kept_bytes, dropped_bytes: 0 }, start.get(kept_bytes..)?));
    }
    if first >> 4 != 6 {
        return None;
    }
    let (mut next, mut bytes, mut dropped_bytes) = (*start.get(6)?, IPV6_HEADER_BYTES, 0);
    while matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
        let &[following, units, option, ..] = start.get(bytes..)? else { return None };
        let length = if next == FRAGMENT { 8 } else { (usize::from(units) + 1) * 8 };
        if next == HOP_BY_HOP && option == JUMBO_PAYLOAD {
            dropped_bytes = length;
        }
        (next, bytes) = (following, bytes + length);
    }
    let kept_bytes = bytes.checked_sub(dropped_bytes)?;
    Some((NetworkHeader { kept_bytes, dropped_bytes }, start.get(bytes..)?))
}
