//! Wire packets counted from the blocks of packet sockets.

use pathbench_host::packet_sizes::{SizeCounts, wire_packets};
use pathbench_host::tun::{PacketHeader, Segmentation};
use proptest::prelude::*;
use std::collections::BTreeMap;

// linux/if_packet.h: offsets in a block's header, and of a packet's direction.
const PACKETS_OFFSET: usize = 12;
const FIRST_OFFSET: usize = 16;
const DIRECTION_OFFSET: usize = 58;
// Extension headers of IPv6 (RFC 8200, section 4), and the jumbo payload option (RFC 2675).
const HOP_BY_HOP: u8 = 0;
const DESTINATION: u8 = 60;
const JUMBO_PAYLOAD: u8 = 0xc2;

/// A packet with an Ethernet header in the kernel's layout, 176 bytes in total.
fn packet(next: u32, direction: u8, segment_bytes: u16, length: u32) -> Vec<u8> {
    let mut bytes = vec![0; 176];
    bytes[0..4].copy_from_slice(&next.to_ne_bytes());
    bytes[12..16].copy_from_slice(&54_u32.to_ne_bytes());
    bytes[16..20].copy_from_slice(&length.to_ne_bytes());
    bytes[24..26].copy_from_slice(&92_u16.to_ne_bytes());
    bytes[26..28].copy_from_slice(&106_u16.to_ne_bytes());
    bytes[DIRECTION_OFFSET] = direction;
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
fn both_directions_and_segments_are_counted() {
    let bytes = block(&[
        packet(176, libc::PACKET_HOST, 0, 54),
        packet(176, libc::PACKET_OUTGOING, 1000, 14 + 40 + 2500),
        packet(0, libc::PACKET_OTHERHOST, 0, 1514),
    ]);
    let mut sizes = SizeCounts::default();
    sizes.count_block(&bytes);
    assert_eq!(sizes.received, BTreeMap::from([(40, 1), (1500, 1)]));
    assert_eq!(sizes.sent, BTreeMap::from([(1040, 2), (540, 1)]));
    assert_eq!(sizes.missed_packets, 0);
}

#[test]
fn malformed_packets_count_as_missed() {
    let mut bytes = block(&[packet(176, libc::PACKET_HOST, 0, 54), packet(0, libc::PACKET_HOST, 0, 54)]);
    bytes.truncate(48 + 200);
    let mut sizes = SizeCounts::default();
    sizes.count_block(&bytes);
    assert_eq!((sizes.received, sizes.missed_packets), (BTreeMap::from([(40, 1)]), 1));
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600), packets in 0u32..8) {
        let mut bytes = bytes;
        if let Some(field) = bytes.get_mut(PACKETS_OFFSET..PACKETS_OFFSET + 4) {
            field.copy_from_slice(&packets.to_ne_bytes());
        }
        SizeCounts::default().count_block(&bytes);
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
fn a_wire_packet_has_the_length_in_its_header() {
    let plain = PacketHeader::default();
    check(&plain, &tcp_v4(40, 5, 5), 46, &[(40, 1)]);
    check(&plain, &tcp_v4(0, 5, 5), 1500, &[(1500, 1)]);
    check(&plain, &tcp_v4(1500, 5, 5), 900, &[(900, 1)]);
    check(&plain, &v6(1240, 6, &tcp_header()), 1280, &[(1280, 1)]);
}

#[test]
fn every_segment_has_headers() {
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
fn an_undetermined_segmentation_is_not_counted() {
    let tcp = cut(Segmentation::TcpV4, 1448);
    assert_eq!(wire_packets(&tcp, &tcp_v4(3000, 5, 8)[..30], 3000), None, "the TCP header is not there");
    assert_eq!(wire_packets(&cut(Segmentation::TcpV4, 0), &tcp_v4(3000, 5, 8), 3000), None);
    assert_eq!(wire_packets(&PacketHeader::default(), &[0x10; 40], 40), None, "neither IPv4 nor IPv6");
}

proptest! {
    #[test]
    fn arbitrary_packets_do_not_panic(header: [u8; PacketHeader::BYTES], start: Vec<u8>, handed in 0usize..200_000) {
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
