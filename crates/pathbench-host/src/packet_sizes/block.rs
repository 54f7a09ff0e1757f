//! Blocks of packets as the kernel lays them out for a packet socket's ring (`TPACKET_V3`, `linux/if_packet.h`;
//! `Documentation/networking/packet_mmap.rst`).

use super::PacketSizes;
use crate::netlink::message::{u16_at, u32_at};
use crate::tun::{PacketHeader, Segmentation};

pub(super) const STATUS_OFFSET: usize = 8;
pub(super) const PACKETS_OFFSET: usize = 12;
const FIRST_OFFSET: usize = 16;

/// Length of `struct tpacket3_hdr`, behind which a `struct sockaddr_ll` lies.
const PACKET_HEADER: usize = 48;
/// Where the packet's way lies in a `struct sockaddr_ll`.
const WAY_OFFSET: usize = PACKET_HEADER + 10;

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

/// Length of an IPv6 header without extensions, and the shortest of an IPv4 one.
const IPV6_HEADER: usize = 40;
const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

// Extension headers of IPv6 (RFC 8200, section 4), as the header before names them.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// The hop-by-hop option of packets beyond 64 KiB (RFC 2675).
const JUMBO_PAYLOAD: u8 = 0xc2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alike {
    pub(super) length_bytes: u32,
    pub(super) packets: u64,
}

/// The packets that become of one that a host hands over: full ones, and one with what is left. `handed_bytes` is its
/// length, `start` its beginning from the IP header on. `None` when it is no IP packet, or cut in a way that its start
/// does not tell.
pub(super) fn wire_packets(header: &PacketHeader, start: &[u8], handed_bytes: usize) -> Option<[Alike; 2]> {
    const NONE: Alike = Alike { length_bytes: 0, packets: 0 };
    let Some(segmentation) = header.segmentation else {
        let one = Alike { length_bytes: u32::try_from(own_length(start, handed_bytes)?).ok()?, packets: 1 };
        return Some([one, NONE]);
    };
    let (network, transport) = ip_header(start)?;
    let header_bytes = network.kept_bytes
        + match segmentation {
            Segmentation::TcpV4 | Segmentation::TcpV6 => usize::from(*transport.get(12)? >> 4) * 4,
            Segmentation::Udp => UDP_HEADER,
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

/// What the packet says of its length; Ethernet may have padded it. What it cannot say is as long as it was handed over.
fn own_length(start: &[u8], handed_bytes: usize) -> Option<usize> {
    let field = |offset| start.get(offset..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    let said = match start.first()? >> 4 {
        4 => usize::from(field(2)?),
        6 => match usize::from(field(4)?) {
            0 => 0,
            payload => payload + IPV6_HEADER,
        },
        _ => return None,
    };
    Some(if (IPV4_HEADER..=handed_bytes).contains(&said) { said } else { handed_bytes })
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
    let (mut next, mut bytes, mut dropped_bytes) = (*start.get(6)?, IPV6_HEADER, 0);
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

    /// An IPv4 packet of this length with a header of this many words, then a TCP header of this many words.
    fn tcp_v4(total: u16, ip_words: u8, tcp_words: u8) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(ip_words) * 4 + 20];
        bytes[0] = 0x40 | ip_words;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[usize::from(ip_words) * 4 + 12] = tcp_words << 4;
        bytes
    }

    fn v6(payload: u16, next: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        (bytes[0], bytes[6]) = (0x60, next);
        bytes[4..6].copy_from_slice(&payload.to_be_bytes());
        [&bytes, rest].concat()
    }

    fn tcp_header() -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes[12] = 8 << 4;
        bytes
    }

    fn cut(segmentation: Segmentation, segment_bytes: u16) -> PacketHeader {
        PacketHeader { segmentation: Some(segmentation), segment_bytes, ..PacketHeader::default() }
    }

    #[track_caller]
    fn check(header: &PacketHeader, start: &[u8], handed: usize, expected: &[(u32, u64)]) {
        let packets = wire_packets(header, start, handed).unwrap();
        let seen: Vec<_> = packets
            .iter()
            .filter(|alike| alike.packets > 0)
            .map(|alike| (alike.length_bytes, alike.packets))
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_packet_of_the_wire_is_as_long_as_it_says() {
        let plain = PacketHeader::default();
        check(&plain, &tcp_v4(40, 5, 5), 46, &[(40, 1)]);
        check(&plain, &tcp_v4(0, 5, 5), 1500, &[(1500, 1)]);
        check(&plain, &tcp_v4(1500, 5, 5), 900, &[(900, 1)]);
        check(&plain, &v6(1240, 6, &tcp_header()), 1280, &[(1280, 1)]);
    }

    #[test]
    fn segments_carry_the_headers_each() {
        // 10 × 1448 bytes and 100 more behind 20 + 32 bytes of headers.
        let tcp = cut(Segmentation::TcpV4, 1448);
        check(&tcp, &tcp_v4(14_632, 5, 8), 52 + 14_580, &[(1500, 10), (152, 1)]);
        check(&tcp, &tcp_v4(2948, 5, 8), 52 + 2896, &[(1500, 2)]);
        check(&tcp, &tcp_v4(52, 5, 8), 52, &[(52, 1)]);
        // Options in the IP header.
        check(&tcp, &tcp_v4(0, 15, 8), 92 + 1448 + 1, &[(1540, 1), (93, 1)]);
        let tcp = cut(Segmentation::TcpV6, 8928);
        check(&tcp, &v6(40_000, 6, &tcp_header()), 72 + 3 * 8928, &[(9000, 3)]);
        let udp = cut(Segmentation::Udp, 1200);
        check(&udp, &v6(5000, 17, &[0; 8]), 48 + 3700, &[(1248, 3), (148, 1)]);
    }

    #[test]
    fn extension_headers_are_headers_but_the_jumbo_option_goes() {
        let mut rest = vec![6, 0, 5, 2, 0, 0, 1, 0];
        rest.extend(tcp_header());
        let tcp = cut(Segmentation::TcpV6, 1000);
        check(&tcp, &v6(0, DESTINATION, &rest), 80 + 2000, &[(1080, 2)]);
        check(&tcp, &v6(0, HOP_BY_HOP, &rest), 80 + 2000, &[(1080, 2)]);
        rest[2] = JUMBO_PAYLOAD;
        check(&tcp, &v6(0, HOP_BY_HOP, &rest), 80 + 100_000, &[(1072, 100)]);
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        let tcp = cut(Segmentation::TcpV4, 1448);
        assert_eq!(wire_packets(&tcp, &tcp_v4(3000, 5, 8)[..30], 3000), None, "the TCP header is not there");
        assert_eq!(wire_packets(&cut(Segmentation::TcpV4, 0), &tcp_v4(3000, 5, 8), 3000), None);
        assert_eq!(wire_packets(&PacketHeader::default(), &[0x10; 40], 40), None, "neither IPv4 nor IPv6");
    }

    proptest! {
        #[test]
        fn any_packet_is_counted_or_not(header: [u8; PacketHeader::BYTES], start: Vec<u8>, handed in 0usize..200_000) {
            if let Some(header) = PacketHeader::parse(&header) {
                let _ = wire_packets(&header, &start, handed);
            }
        }

        #[test]
        fn no_payload_is_lost(payload in 0usize..65_000, segment in 1u16..9000, words in 5u8..=15) {
            let handed = 20 + usize::from(words) * 4 + payload;
            let start = tcp_v4(0, 5, words);
            let packets = wire_packets(&cut(Segmentation::TcpV4, segment), &start, handed).unwrap();
            let headers = 20 + u64::from(words) * 4;
            let carried: u64 = packets
                .iter()
                .map(|alike| alike.packets * (u64::from(alike.length_bytes) - headers))
                .sum();
            prop_assert_eq!(carried, payload as u64);
        }
    }
}
