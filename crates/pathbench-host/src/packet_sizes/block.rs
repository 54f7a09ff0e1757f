//! Blocks of packets as the kernel lays them out for a packet socket's ring (`TPACKET_V3`, `linux/if_packet.h`;
//! `Documentation/networking/packet_mmap.rst`).

use super::PacketSizes;
use super::wire_packets::wire_packets;
use crate::netlink::message::{u16_at, u32_at};
use crate::tun::PacketHeader;

/// Where `block_status` lies in a `struct tpacket_block_desc`; `num_pkts` and `offset_to_first_pkt` follow.
pub(super) const STATUS_OFFSET: usize = 8;
pub(super) const PACKETS_OFFSET: usize = 12;
const FIRST_OFFSET: usize = 16;

/// Length of `struct tpacket3_hdr`, behind which a `struct sockaddr_ll` lies.
const PACKET_HEADER: usize = 48;
/// Where the packet's way lies in a `struct sockaddr_ll`.
const WAY_OFFSET: usize = PACKET_HEADER + 10;

/// Counts the packets of a block that the kernel has handed over.
pub(super) fn count(block: &[u8], sizes: &mut PacketSizes) {
    let packets = u32_at(block, PACKETS_OFFSET).unwrap_or(0);
    let mut place = u32_at(block, FIRST_OFFSET).unwrap_or(0) as usize;
    for counted in 0..packets {
        let Some(next) = block.get(place..).and_then(|packet| count_packet(packet, sizes)) else {
            // Cannot be with a kernel that keeps to its layout.
            sizes.missed_packets += u64::from(packets - counted);
            return;
        };
        place += next;
    }
}

/// Counts the packet at the beginning of `packet`; says how far it is to the next one.
fn count_packet(packet: &[u8], sizes: &mut PacketSizes) -> Option<usize> {
    // struct tpacket3_hdr: next offset, two of time, captured length, length, status, link header, IP header.
    let next = u32_at(packet, 0)?;
    let (captured, length) = (u32_at(packet, 12)? as usize, u32_at(packet, 16)? as usize);
    let (link, network) = (usize::from(u16_at(packet, 24)?), usize::from(u16_at(packet, 26)?));
    let way = *packet.get(WAY_OFFSET)?;
    let link_bytes = network.checked_sub(link)?;
    let data = packet.get(link..link.checked_add(captured)?)?;
    let offload = packet.get(link.checked_sub(PacketHeader::BYTES)?..link)?;
    let counted = PacketHeader::parse(offload)
        .and_then(|header| wire_packets(&header, data.get(link_bytes..)?, length.checked_sub(link_bytes)?));
    let Some(counted) = counted else {
        sizes.missed_packets += 1;
        return Some(next as usize);
    };
    let counts = if way == libc::PACKET_OUTGOING { &mut sizes.sent } else { &mut sizes.received };
    for alike in counted.iter().filter(|alike| alike.packets > 0) {
        *counts.entry(alike.length_bytes).or_default() += alike.packets;
    }
    Some(next as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A packet with Ethernet header as the kernel lays it out, 176 bytes in all.
    fn packet(next: u32, way: u8, segment_bytes: u16, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; 176];
        bytes[0..4].copy_from_slice(&next.to_ne_bytes());
        bytes[12..16].copy_from_slice(&54_u32.to_ne_bytes());
        bytes[16..20].copy_from_slice(&length.to_ne_bytes());
        bytes[24..26].copy_from_slice(&92_u16.to_ne_bytes());
        bytes[26..28].copy_from_slice(&106_u16.to_ne_bytes());
        bytes[WAY_OFFSET] = way;
        bytes[83] = u8::from(segment_bytes > 0);
        bytes[86..88].copy_from_slice(&segment_bytes.to_ne_bytes());
        bytes[106] = 0x45;
        bytes[106 + 32] = 5 << 4;
        bytes
    }

    fn block(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        bytes[PACKETS_OFFSET..PACKETS_OFFSET + 4].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
        bytes[FIRST_OFFSET..FIRST_OFFSET + 4].copy_from_slice(&48_u32.to_ne_bytes());
        bytes.extend(packets.concat());
        bytes
    }

    #[test]
    fn both_ways_and_segments() {
        let bytes = block(&[
            packet(176, libc::PACKET_HOST, 0, 54),
            packet(176, libc::PACKET_OUTGOING, 1000, 14 + 40 + 2500),
            packet(0, libc::PACKET_OTHERHOST, 0, 1514),
        ]);
        let mut sizes = PacketSizes::default();
        count(&bytes, &mut sizes);
        assert_eq!(sizes.received, BTreeMap::from([(40, 1), (1500, 1)]));
        assert_eq!(sizes.sent, BTreeMap::from([(1040, 2), (540, 1)]));
        assert_eq!(sizes.missed_packets, 0);
    }

    #[test]
    fn what_cannot_be_read_is_missed() {
        let mut bytes = block(&[packet(176, libc::PACKET_HOST, 0, 54), packet(0, libc::PACKET_HOST, 0, 54)]);
        bytes.truncate(48 + 200);
        let mut sizes = PacketSizes::default();
        count(&bytes, &mut sizes);
        assert_eq!((sizes.received, sizes.missed_packets), (BTreeMap::from([(40, 1)]), 1));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600), packets in 0u32..8) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(PACKETS_OFFSET..PACKETS_OFFSET + 4) {
                place.copy_from_slice(&packets.to_ne_bytes());
            }
            count(&bytes, &mut PacketSizes::default());
        }
    }
}
