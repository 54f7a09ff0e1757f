//! GSO packets are cut into correct wire packets.

use pathbench_emulator::segmentation::{GsoPacket, Headers, Run};
use pathbench_host::tun::{PacketHeader, Segmentation};
use pathbench_link::packet::Ecn;
use proptest::prelude::*;

// Where the checksum stands in a TCP and in a UDP header.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

/// The sum of `bytes` in 16-bit words on top of `sum` (RFC 1071).
fn add(sum: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
    sum + words.sum::<u64>()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

const fn protocol_of(kind: Segmentation) -> u8 {
    if matches!(kind, Segmentation::Udp) { 17 } else { 6 }
}

/// A GSO packet of a host: addresses, ports, options and payload are counted up.
#[derive(Debug)]
struct Sample {
    version: Version,
    kind: Segmentation,
    options_bytes: usize,
    payload_bytes: usize,
    segment_bytes: u16,
    flags: u8,
}

impl Sample {
    fn make(&self) -> (PacketHeader, Vec<u8>) {
        let udp = self.kind == Segmentation::Udp;
        let transport_bytes = if udp { 8 } else { 20 + self.options_bytes };
        let ip_bytes = if self.version == Version::V4 { 20 } else { 40 };
        let payload = ip_bytes + transport_bytes;
        let length = payload + self.payload_bytes;
        let mut packet: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let protocol = protocol_of(self.kind);
        let inner = (length - ip_bytes) as u16;
        if self.version == Version::V4 {
            packet[0] = 0x45;
            packet[1] = 0x02;
            put(&mut packet, 2, length as u16);
            put(&mut packet, 4, 0xfffe);
            packet[9] = protocol;
            put(&mut packet, 10, 0);
            let sum = !fold(add(0, &packet[..20]));
            put(&mut packet, 10, sum);
        } else {
            packet[..4].copy_from_slice(&[0x60, 0x10, 0, 0]);
            put(&mut packet, 4, inner);
            packet[6] = protocol;
        }
        let checksum_at = if udp { UDP_CHECKSUM } else { TCP_CHECKSUM };
        if udp {
            put(&mut packet, ip_bytes + 4, inner);
        } else {
            packet[ip_bytes + 4..ip_bytes + 8].copy_from_slice(&[0xff, 0xff, 0xff, 0x00]);
            packet[ip_bytes + 12] = (transport_bytes as u8 / 4) << 4;
            packet[ip_bytes + 13] = self.flags;
        }
        let sum = pseudo_header(self.version, &packet, protocol) + u64::from(inner);
        put(&mut packet, ip_bytes + usize::from(checksum_at), fold(sum));
        let header = PacketHeader {
            checksum: Some((ip_bytes as u16, checksum_at)),
            segmentation: Some(self.kind),
            ecn: self.flags & CWR != 0,
            header_bytes: 7, // only a hint, so it may be wrong
            segment_bytes: self.segment_bytes,
        };
        (header, packet)
    }
}

fn pseudo_header(version: Version, packet: &[u8], protocol: u8) -> u64 {
    let addresses = if version == Version::V4 { 12..20 } else { 8..40 };
    add(u64::from(protocol), &packet[addresses])
}

fn samples() -> impl Strategy<Value = Sample> {
    let kinds = prop_oneof![
        Just((Version::V4, Segmentation::TcpV4)),
        Just((Version::V6, Segmentation::TcpV6)),
        Just((Version::V4, Segmentation::Udp)),
        Just((Version::V6, Segmentation::Udp)),
    ];
    (kinds, 0..=10_usize, 1..6_000_usize, 1..3_000_u16, any::<u8>()).prop_map(
        |((version, kind), options, payload_bytes, segment_bytes, flags)| Sample {
            version,
            kind,
            options_bytes: options * 4,
            payload_bytes,
            segment_bytes,
            flags,
        },
    )
}

/// The payload of a wire packet, after checks of its checksums and lengths.
fn received(version: Version, kind: Segmentation, wire: &[u8]) -> Vec<u8> {
    let ip_bytes = if version == Version::V4 { 20 } else { 40 };
    if version == Version::V4 {
        assert_eq!(fold(add(0, &wire[..20])), 0xffff, "IPv4 header checksum");
        assert_eq!(usize::from(word(wire, 2)), wire.len());
    } else {
        assert_eq!(usize::from(word(wire, 4)) + 40, wire.len());
    }
    let transport = &wire[ip_bytes..];
    let sum = pseudo_header(version, wire, protocol_of(kind)) + transport.len() as u64;
    assert_eq!(fold(add(sum, transport)), 0xffff, "transport checksum");
    let header_bytes = if kind == Segmentation::Udp {
        assert_eq!(usize::from(word(transport, 4)), transport.len());
        8
    } else {
        usize::from(transport[12] >> 4) * 4
    };
    transport[header_bytes..].to_vec()
}

fn put_checksum(ipv4: &mut [u8]) {
    put(ipv4, 10, 0);
    let sum = !fold(add(0, &ipv4[..20]));
    put(ipv4, 10, sum);
}

/// The wire packet with its mark.
fn marked(packet: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    let gso = GsoPacket::parse(PacketHeader::default(), packet).unwrap();
    gso.wire_packet(packet, 0, true, &mut wire).unwrap();
    wire
}

/// The checksum that covers `bytes` behind an IPv4 header, with its field at `offset`.
fn completed(bytes: &[u8], offset: u16) -> u16 {
    let packet = [&[0x45; 20][..], bytes].concat();
    let header = PacketHeader { checksum: Some((20, offset)), ..PacketHeader::default() };
    let mut wire = Vec::new();
    GsoPacket::parse(header, &packet).unwrap().wire_packet(&packet, 0, false, &mut wire).unwrap();
    word(&wire, 20 + usize::from(offset))
}

#[test]
fn examples_of_the_rfcs() {
    // RFC 1071, section 3; the field itself is zero.
    assert_eq!(completed(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0], 8), !0xddf2);
    // RFC 1624, section 4: the updated checksum is 0x0000, not its other form 0xffff.
    let mut packet = [0; 20];
    packet[..2].copy_from_slice(&[0x45, 0x02]);
    put(&mut packet, 10, 0x0001);
    assert_eq!(word(&marked(&packet), 10), 0x0000);
}

proptest! {
    /// Every wire packet is a right one, and together they carry the payload.
    #[test]
    fn wire_packets_are_right_and_carry_everything(sample in samples()) {
        let (header, packet) = sample.make();
        let gso = GsoPacket::parse(header, &packet).unwrap();
        let headers_bytes = packet.len() - sample.payload_bytes;
        let mut payload = Vec::new();
        let mut wire = Vec::new();
        let mut wire_bytes = 0;
        for segment in 0..gso.segments() {
            gso.wire_packet(&packet, segment, false, &mut wire).unwrap();
            prop_assert_eq!(wire.len() as u32, gso.ip_bytes(Run { first: segment, count: 1 }));
            prop_assert!(wire.len() - headers_bytes <= usize::from(sample.segment_bytes));
            wire_bytes += wire.len() as u32;
            let offset = payload.len() as u32;
            if sample.version == Version::V4 {
                prop_assert_eq!(word(&wire, 4), 0xfffe_u16.wrapping_add(segment as u16));
            }
            if sample.kind != Segmentation::Udp {
                let tcp = &wire[usize::from(header.checksum.unwrap().0)..];
                let sequence = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
                prop_assert_eq!(sequence, 0xffff_ff00_u32.wrapping_add(offset));
                let mut flags = sample.flags;
                if segment > 0 { flags &= !CWR; }
                if segment + 1 < gso.segments() { flags &= !FIN_AND_PSH; }
                prop_assert_eq!(tcp[13], flags);
            }
            payload.extend(received(sample.version, sample.kind, &wire));
        }
        prop_assert_eq!(&payload, &packet[headers_bytes..]);
        prop_assert_eq!(wire_bytes, gso.ip_bytes(gso.whole()));
    }

    /// The far host cuts a run that is written as a GSO packet into the same wire packets.
    #[test]
    fn a_run_is_cut_into_the_same_packets(sample in samples(), from in any::<u32>(), count in any::<u32>()) {
        let (header, packet) = sample.make();
        let gso = GsoPacket::parse(header, &packet).unwrap();
        let first = from % gso.segments();
        let run = Run { first, count: 1 + count % (gso.segments() - first) };
        let mut headers = Headers::default();
        let payload = gso.headers(&packet, run, false, &mut headers).unwrap();
        let bytes = [headers.of_packet(), &packet[payload]].concat();
        let again = GsoPacket::parse(PacketHeader::parse(headers.as_bytes()).unwrap(), &bytes).unwrap();
        prop_assert_eq!(again.segments(), run.count);
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for segment in 0..run.count {
            gso.wire_packet(&packet, run.first + segment, true, &mut expected).unwrap();
            again.wire_packet(&bytes, segment, true, &mut found).unwrap();
            prop_assert_eq!(&found, &expected);
        }
    }

    /// A mark changes the ECN field and the IPv4 checksum, and nothing else.
    #[test]
    fn a_mark_is_ce_and_nothing_else(sample in samples()) {
        let (header, packet) = sample.make();
        let gso = GsoPacket::parse(header, &packet).unwrap();
        prop_assert_eq!(gso.ecn(), Ecn::Ect);
        let (mut plain, mut marked) = (Vec::new(), Vec::new());
        gso.wire_packet(&packet, 0, false, &mut plain).unwrap();
        gso.wire_packet(&packet, 0, true, &mut marked).unwrap();
        received(sample.version, sample.kind, &marked);
        plain[1] |= if sample.version == Version::V4 { 0x03 } else { 0x30 };
        if sample.version == Version::V4 {
            plain[10..12].copy_from_slice(&marked[10..12]);
        }
        prop_assert_eq!(plain, marked);
    }

    #[test]
    fn a_checksum_is_that_of_its_words(bytes in proptest::collection::vec(any::<u8>(), 2..200)) {
        // Ones' complement has two zeros, 0x0000 and 0xffff; a sum is 0x0000 only if all words are zero.
        prop_assert_eq!(completed(&bytes, 0), !fold(add(0, &bytes)));
    }

    #[test]
    fn an_updated_checksum_equals_a_new_one(mut packet in proptest::collection::vec(any::<u8>(), 20..60)) {
        packet[0] = 0x40 | packet[0] & 15;
        put_checksum(&mut packet);
        let marked = marked(&packet);
        packet[1] |= 3;
        put_checksum(&mut packet);
        prop_assert_eq!(marked, packet);
    }

    /// Parsing arbitrary bytes never panics, and every accepted packet yields its wire packets.
    #[test]
    fn arbitrary_bytes_are_parsed_or_rejected(head: [u8; PacketHeader::BYTES], mut packet in proptest::collection::vec(any::<u8>(), 0..400), version in 4..=6_u8) {
        if let Some(first) = packet.first_mut() {
            *first = version << 4 | *first & 15;
        }
        let Some(gso) = PacketHeader::parse(&head).and_then(|header| GsoPacket::parse(header, &packet)) else {
            return Ok(());
        };
        let mut wire = Vec::new();
        for segment in 0..gso.segments().min(500) {
            prop_assert!(gso.wire_packet(&packet, segment, true, &mut wire).is_some());
        }
    }
}

#[test]
fn contradictions_are_refused() {
    let sample = Sample {
        version: Version::V4,
        kind: Segmentation::TcpV4,
        options_bytes: 12,
        payload_bytes: 3_000,
        segment_bytes: 1_448,
        flags: 0x18,
    };
    let (header, packet) = sample.make();
    assert_eq!(GsoPacket::parse(header, &packet).unwrap().segments(), 3);
    let wrong: [(&str, PacketHeader, &[u8]); 8] = [
        ("nothing", header, &[]),
        ("no IP", header, &[0; 60]),
        ("too short", header, &packet[..40]),
        ("no payload", header, &packet[..52]),
        ("no segment", PacketHeader { segment_bytes: 0, ..header }, &packet),
        ("no checksum", PacketHeader { checksum: None, ..header }, &packet),
        ("the other version", PacketHeader { segmentation: Some(Segmentation::TcpV6), ..header }, &packet),
        ("the other protocol", PacketHeader { segmentation: Some(Segmentation::Udp), ..header }, &packet),
    ];
    for (what, header, packet) in wrong {
        assert_eq!(GsoPacket::parse(header, packet), None, "{what}");
    }
}

/// UDP sums that happen to be zero are sent as 0xffff, which means the same and is not "none".
#[test]
fn a_udp_checksum_is_never_zero() {
    let (mut header, mut packet) = Sample {
        version: Version::V4,
        kind: Segmentation::Udp,
        options_bytes: 0,
        payload_bytes: 2,
        segment_bytes: 2,
        flags: 0,
    }
    .make();
    header.segmentation = None;
    let gso = GsoPacket::parse(header, &packet).unwrap();
    let mut wire = Vec::new();
    gso.wire_packet(&packet, 0, false, &mut wire).unwrap();
    let sum = word(&wire, 26);
    // The payload takes over what makes the sum zero.
    let payload = word(&packet, 28);
    put(&mut packet, 28, fold(u64::from(payload) + u64::from(sum)));
    gso.wire_packet(&packet, 0, false, &mut wire).unwrap();
    assert_eq!(word(&wire, 26), 0xffff);
}
