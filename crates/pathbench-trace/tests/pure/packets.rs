//! Dissection of frames of each link type, truncation, reassembly of fragments, TCP options.

#[path = "packets/fuzz_body.rs"]
mod fuzz_body;

use crate::wire::Capture;
use pathbench_trace::packet::link;
use pathbench_trace::packet::reassembly::{Datagram, Reassembly};
use pathbench_trace::packet::tcp_options::{TcpOption, nop_count, options};
use pathbench_trace::packet::{Dissected, Fragment, PacketHeaders, Reason, Tcp, TransportHeader, dissect};
use proptest::prelude::*;

const PAYLOAD: &[u8] = b"sixteen bytes...";
const LINK_TYPES: [u16; 18] = [
    link::NULL,
    link::ETHERNET,
    link::PPP,
    link::RAW_BSD,
    link::RAW_OPENBSD,
    link::RAW,
    link::IEEE802_11,
    link::LOOP,
    link::LINUX_SLL,
    link::IEEE802_11_RADIOTAP,
    link::IPV4,
    link::IPV6,
    link::LINUX_SLL2,
    link::PPP_HDLC,
    link::CISCO_HDLC,
    link::PPP_PPPD,
    link::PPP_WITH_DIRECTION,
    link::NFLOG,
];

fn tcp_segment() -> Vec<u8> {
    let mut bytes = vec![0x30, 0x39, 0x01, 0xbb, 0, 0, 0, 7, 0, 0, 0, 9, 0x80, 0x18, 0x12, 0x34, 0, 0, 0, 0];
    bytes.extend([1, 1, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4]);
    bytes.extend(PAYLOAD);
    bytes
}

fn udp_datagram(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x30, 0x39, 0x01, 0xbb];
    bytes.extend((payload.len() as u16 + 8).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 3];
    bytes.extend((payload.len() as u16 + 20).to_be_bytes());
    bytes.extend([0, 5]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([61, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    bytes.extend(payload);
    bytes
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0x30, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next_header, 61]);
    for last in [1, 2] {
        bytes.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(payload);
    bytes
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn packet(link_type: u16, frame: &[u8]) -> PacketHeaders<'_> {
    match dissect(link_type, frame, frame.len() as u32) {
        Dissected::Packet(packet) => packet,
        other => panic!("link type {link_type}: {other:?} of {frame:02x?}"),
    }
}

fn tcp(link_type: u16, frame: &[u8]) -> (PacketHeaders<'_>, Tcp<'_>) {
    let packet = packet(link_type, frame);
    let TransportHeader::Tcp(tcp) = packet.transport else { panic!("{packet:?}") };
    (packet, tcp)
}

fn fragment(frame: &[u8]) -> Fragment<'_> {
    match dissect(link::RAW, frame, frame.len() as u32) {
        Dissected::Fragment(fragment) => fragment,
        other => panic!("{other:?}"),
    }
}

/// Link-layer headers before IPv4 and before IPv6.
fn headers() -> Vec<(u16, Vec<u8>, Vec<u8>)> {
    let macs = [2; 12];
    let ether = |tags: &[u8], v4: &[u8], v6: &[u8]| {
        (link::ETHERNET, join(&[&macs, tags, v4]), join(&[&macs, tags, v6]))
    };
    let (four, six): (&[u8], &[u8]) = (&[8, 0], &[0x86, 0xdd]);
    let snap = [0xaa, 0xaa, 3, 0, 0, 0];
    let both = |link_type, header: &[u8]| (link_type, join(&[header, four]), join(&[header, six]));
    let wifi = |kind: u8, flags: u8, length: usize| {
        let mut header = vec![0; length];
        (header[0], header[1]) = (kind, flags);
        join(&[&header, &snap])
    };
    let radiotap = [0, 0, 17, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20];
    vec![
        ether(&[], four, six),
        ether(&[0x81, 0, 0, 5], four, six),
        ether(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], four, six),
        ether(&[0x91, 0, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7], four, six),
        ether(&[0x88, 0x47, 0, 1, 0, 64, 0, 1, 1, 64], &[], &[]),
        ether(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 54], &[0, 0x21], &[0, 0x57]),
        ether(&join(&[&[0, 100], &snap]), four, six),
        (link::NULL, vec![2, 0, 0, 0], vec![10, 0, 0, 0]),
        (link::NULL, vec![0, 0, 0, 2], vec![0, 0, 0, 30]),
        (link::LOOP, vec![0, 0, 0, 2], vec![0, 0, 0, 24]),
        (link::RAW, vec![], vec![]),
        (link::RAW_BSD, vec![], vec![]),
        (link::RAW_OPENBSD, vec![], vec![]),
        both(link::LINUX_SLL, &[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0]),
        both(link::LINUX_SLL, &[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 0x81, 0, 0, 9]),
        (link::LINUX_SLL2, join(&[four, &[0; 18]]), join(&[six, &[0; 18]])),
        (link::PPP, vec![0xff, 3, 0, 0x21], vec![0xff, 3, 0, 0x57]),
        (link::PPP, vec![0x21], vec![0, 0x57]),
        both(link::IEEE802_11, &wifi(0x08, 1, 24)),
        both(link::IEEE802_11, &wifi(0x88, 2, 26)),
        both(link::IEEE802_11, &wifi(0x88, 0x83, 36)),
        // Padded from 26 to 28 bytes.
        both(link::IEEE802_11_RADIOTAP, &join(&[&radiotap, &wifi(0x88, 2, 28)])),
        both(link::IEEE802_11_RADIOTAP, &join(&[&[0, 0, 8, 0, 0, 0, 0, 0], &wifi(0x88, 2, 26)])),
    ]
}

#[test]
fn each_link_type_is_dissected_and_padding_is_ignored() {
    for (link_type, before_v4, before_v6) in headers() {
        let v4 = (before_v4, ipv4(6, 0x4000, &tcp_segment()));
        let v6 = (before_v6, ipv6(6, &tcp_segment()));
        for (header, ip) in [v4, v6] {
            let frame = join(&[&header, &ip, &[0xee; 7]]);
            let (packet, tcp) = tcp(link_type, &frame);
            assert_eq!((packet.source.port, packet.destination.port), (12345, 443));
            assert_eq!(packet.ip_length as usize, ip.len());
            assert_eq!((packet.hop_limit, packet.congestion_experienced), (61, true));
            assert_eq!((tcp.sequence, tcp.acknowledgment), (7, 9));
            assert_eq!((tcp.flags, tcp.window, tcp.options.len()), (0x18, 0x1234, 12));
            assert_eq!((tcp.payload, tcp.payload_length), (PAYLOAD, 16));
        }
    }
    for (link_type, header) in
        [(link::IPV4, ipv4(6, 0, &tcp_segment())), (link::IPV6, ipv6(6, &tcp_segment()))]
    {
        assert_eq!(tcp(link_type, &header).1.payload, PAYLOAD);
    }
    assert_eq!(dissect(253, &[0; 64], 64), Dissected::Other(Reason::LinkType));
}

#[test]
fn frames_cut_at_each_byte_keep_the_length_on_the_wire() {
    for (link_type, before_v4, before_v6) in headers() {
        let v4 = join(&[&before_v4, &ipv4(6, 0, &tcp_segment())]);
        let v6 = join(&[&before_v6, &ipv6(6, &tcp_segment())]);
        for frame in [v4, v6] {
            let needed = frame.len() - PAYLOAD.len() - 12;
            for length in 0..frame.len() {
                match dissect(link_type, &frame[..length], frame.len() as u32) {
                    Dissected::Packet(PacketHeaders { transport: TransportHeader::Tcp(tcp), .. }) => {
                        assert!(length >= needed);
                        assert_eq!(tcp.payload_length, 16);
                        assert_eq!(tcp.options.len() + tcp.payload.len(), length - needed);
                    }
                    other => {
                        assert_eq!(other, Dissected::Other(Reason::Truncated), "{link_type} {length}");
                        assert!(length < needed, "{link_type} {length}");
                    }
                }
            }
        }
    }
}

#[test]
fn encrypted_and_aggregated_frames_are_not_dissected() {
    let mut frame = join(&[&[0x88, 0x42], &[0; 24], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]]);
    assert_eq!(dissect(link::IEEE802_11, &frame, 34), Dissected::Other(Reason::Encrypted));
    (frame[1], frame[24]) = (2, 0x80);
    assert_eq!(dissect(link::IEEE802_11, &frame, 34), Dissected::Other(Reason::Aggregate));
    frame[22] = 1;
    assert_eq!(dissect(link::IEEE802_11, &frame, 34), Dissected::Other(Reason::LinkFragment));
}

#[test]
fn ipv4_options_and_total_length_0() {
    let mut ip = ipv4(6, 0, &join(&[&[1, 1, 1, 0], &tcp_segment()]));
    ip[0] = 0x46;
    assert_eq!(tcp(link::RAW, &ip).1.payload, PAYLOAD);
    (ip[2], ip[3]) = (0, 0);
    let Dissected::Packet(packet) = dissect(link::RAW, &ip, 100_000) else { panic!() };
    assert_eq!(packet.ip_length, 100_000);
    let TransportHeader::Tcp(tcp) = packet.transport else { panic!() };
    assert_eq!((tcp.payload, tcp.payload_length), (PAYLOAD, 100_000 - 24 - 32));
}

#[test]
fn extension_headers_of_ipv6() {
    for kind in [0, 43, 60, 135, 139, 140] {
        let ip = ipv6(kind, &join(&[&[51, 1], &[1; 14], &[6, 4], &[0; 22], &tcp_segment()]));
        assert_eq!(tcp(link::RAW, &ip).1.payload, PAYLOAD, "{kind}");
    }
    // An atomic fragment.
    let ip = ipv6(44, &join(&[&[6, 0, 0, 0, 0, 0, 0, 1], &tcp_segment()]));
    assert_eq!(tcp(link::RAW, &ip).1.payload, PAYLOAD);
    let ip = ipv6(60, &join(&[&[60, 0, 1, 4, 0, 0, 0, 0].repeat(40), &tcp_segment()]));
    assert_eq!(dissect(link::RAW, &ip, 400), Dissected::Other(Reason::ExtensionHeaders));
}

#[test]
fn jumbograms_have_the_length_of_their_option() {
    let mut ip = ipv6(0, &join(&[&[6, 0, 0xc2, 4, 0, 2, 0, 0], &tcp_segment()]));
    (ip[4], ip[5]) = (0, 0);
    let Dissected::Packet(packet) = dissect(link::RAW, &ip, 131_072 + 40) else { panic!() };
    let TransportHeader::Tcp(tcp) = packet.transport else { panic!() };
    assert_eq!((packet.ip_length, tcp.payload_length), (131_072 + 40, 131_072 - 8 - 32));
    let mut ip = ipv6(6, &tcp_segment());
    (ip[4], ip[5]) = (0, 0);
    let Dissected::Packet(packet) = dissect(link::RAW, &ip, 90_000) else { panic!() };
    assert_eq!(packet.ip_length, 90_000);
}

#[test]
fn ip_in_ip_up_to_two_levels() {
    let inner = ipv4(6, 0, &tcp_segment());
    let twice = ipv6(41, &ipv6(4, &inner));
    let (packet, tcp) = tcp(link::RAW, &twice);
    assert_eq!((packet.ip_length as usize, tcp.payload), (inner.len(), PAYLOAD));
    let thrice = ipv4(41, 0, &twice);
    assert_eq!(dissect(link::RAW, &thrice, 500), Dissected::Other(Reason::Tunnels));
}

#[test]
fn udp_payload_ends_at_the_udp_length() {
    let ip = ipv4(17, 0, &join(&[&udp_datagram(PAYLOAD), &[1, 2, 3]]));
    let TransportHeader::Udp(udp) = packet(link::RAW, &ip).transport else { panic!() };
    assert_eq!((udp.payload, udp.payload_length), (PAYLOAD, 16));
    let ip = ipv4(17, 0, &udp_datagram(PAYLOAD)[..20]);
    assert_eq!(dissect(link::RAW, &ip, 40), Dissected::Other(Reason::Malformed));
}

#[test]
fn icmp_too_big_with_quotations_of_28_to_556_bytes() {
    let segment = join(&[&tcp_segment(), &[0; 1400]]);
    for length in 28..=556 {
        let quoted = ipv4(6, 0x4000, &segment);
        let ip = ipv4(1, 0, &join(&[&[3, 4, 0, 0, 0, 0, 5, 0x14], &quoted[..length]]));
        let TransportHeader::TooBig(too_big) = packet(link::RAW, &ip).transport else { panic!() };
        assert_eq!((too_big.mtu, too_big.protocol, too_big.sequence), (1300, 6, Some(7)));
        assert_eq!((too_big.source.port, too_big.ip_length as usize), (12345, quoted.len()));
        if length >= 48 {
            let quoted = ipv6(6, &segment);
            let ip = ipv6(58, &join(&[&[2, 0, 0, 0, 0, 0, 5, 0x14], &quoted[..length]]));
            let TransportHeader::TooBig(too_big) = packet(link::RAW, &ip).transport else { panic!() };
            assert_eq!((too_big.mtu, too_big.sequence), (1300, Some(7)));
            assert_eq!((too_big.destination.port, too_big.ip_length as usize), (443, quoted.len()));
        }
    }
    let ip = ipv4(1, 0, &join(&[&[8, 0, 0, 0, 0, 0, 0, 1], &[0; 48]]));
    assert_eq!(dissect(link::RAW, &ip, 76), Dissected::Other(Reason::Icmp));
}

/// Fragments with `size` bytes of a UDP datagram.
fn fragments(v6: bool, datagram: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = datagram.chunks(size).count();
    let one = |(index, chunk): (usize, &[u8])| {
        let (offset, more) = (index * size, index + 1 < count);
        if v6 {
            let field = (offset as u16 | u16::from(more)).to_be_bytes();
            ipv6(44, &join(&[&[17, 0], &field, &[0, 0, 0, 9], chunk]))
        } else {
            ipv4(17, (offset as u16 / 8) | if more { 0x2000 } else { 0 }, chunk)
        }
    };
    datagram.chunks(size).enumerate().map(one).collect()
}

fn push(reassembly: &mut Reassembly, frame: &[u8]) -> Option<Datagram> {
    reassembly.push(0, &fragment(frame))
}

fn payload(datagram: &Datagram) -> (u32, Vec<u8>, u32) {
    match datagram.dissect() {
        Dissected::Packet(PacketHeaders { ip_length, transport: TransportHeader::Udp(udp), .. }) => {
            (ip_length, udp.payload.to_vec(), udp.payload_length)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn fragments_in_all_orders() {
    let content: Vec<u8> = (0..60).collect();
    for v6 in [false, true] {
        let parts = fragments(v6, &udp_datagram(&content), 24);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut reassembly = Reassembly::default();
            assert_eq!(push(&mut reassembly, &parts[order[0]]), None);
            // An exact duplicate.
            assert_eq!(push(&mut reassembly, &parts[order[0]]), None);
            assert_eq!(push(&mut reassembly, &parts[order[1]]), None);
            let datagram = push(&mut reassembly, &parts[order[2]]).unwrap();
            assert_eq!(payload(&datagram), (if v6 { 108 } else { 88 }, content.clone(), 60));
            assert_eq!((reassembly.pending(), reassembly.discarded().overlapping), (0, 0));
        }
    }
}

#[test]
fn extension_headers_behind_the_fragment_header_are_reassembled() {
    let original = join(&[&[6, 0, 1, 4, 0, 0, 0, 0], &tcp_segment()]);
    let first = ipv6(44, &join(&[&[60, 0, 0, 1, 0, 0, 0, 9], &original[..24]]));
    let last = ipv6(44, &join(&[&[60, 0, 0, 24, 0, 0, 0, 9], &original[24..]]));
    let mut reassembly = Reassembly::default();
    assert_eq!(push(&mut reassembly, &last), None);
    let datagram = push(&mut reassembly, &first).unwrap();
    let Dissected::Packet(packet) = datagram.dissect() else { panic!() };
    assert_eq!(packet.ip_length as usize, 40 + original.len());
    let TransportHeader::Tcp(tcp) = packet.transport else { panic!() };
    assert_eq!((tcp.sequence, tcp.payload, tcp.payload_length), (7, PAYLOAD, 16));
}

#[test]
fn overlapping_fragments_discard_the_datagram_and_its_later_fragments() {
    for v6 in [false, true] {
        let parts = fragments(v6, &udp_datagram(&[1; 60]), 24);
        let other = fragments(v6, &udp_datagram(&[1; 60]), 32);
        let mut reassembly = Reassembly::default();
        for part in [&parts[0], &other[0], &parts[1], &parts[2]] {
            assert_eq!(push(&mut reassembly, part), None);
        }
        assert_eq!(reassembly.discarded().overlapping, 1);
        let other = fragments(v6, &udp_datagram(&[2; 60]), 24);
        let mut reassembly = Reassembly::default();
        for part in [&parts[1], &other[1], &parts[0], &parts[2]] {
            assert_eq!(push(&mut reassembly, part), None);
        }
        assert_eq!(reassembly.discarded().overlapping, 1);
    }
}

#[test]
fn a_snapped_fragment_ends_the_captured_bytes() {
    let content: Vec<u8> = (0..60).collect();
    let parts = fragments(false, &udp_datagram(&content), 24);
    let mut reassembly = Reassembly::default();
    push(&mut reassembly, &parts[0]);
    let Dissected::Fragment(snapped) = dissect(link::RAW, &parts[1][..30], parts[1].len() as u32) else {
        panic!()
    };
    reassembly.push(0, &snapped);
    let datagram = push(&mut reassembly, &parts[2]).unwrap();
    assert_eq!(payload(&datagram), (88, content[..26].to_vec(), 60));
}

#[test]
fn the_oldest_datagram_is_evicted_and_incomplete_ones_time_out() {
    let mut reassembly = Reassembly::default();
    let parts = fragments(false, &udp_datagram(&[1; 60]), 64);
    for identification in 0..257 {
        let part = Fragment { identification, ..fragment(&parts[0]) };
        assert_eq!(reassembly.push(u64::from(identification), &part), None);
    }
    assert_eq!((reassembly.pending(), reassembly.discarded().evicted), (256, 1));
    let last = |identification| Fragment { identification, ..fragment(&parts[1]) };
    assert!(reassembly.push(300, &last(1)).is_some());
    assert!(reassembly.push(300, &last(0)).is_none());
    assert!(reassembly.push(31_000_000_000, &last(5)).is_none());
    assert_eq!((reassembly.pending(), reassembly.discarded().timed_out), (1, 256));
}

#[test]
fn fragments_have_at_most_8_mib() {
    let mut reassembly = Reassembly::default();
    let bytes = vec![0; 65_528];
    let frame = ipv4(17, 0x2000, &[0; 8]);
    let part = Fragment { payload: &bytes, payload_length: 65_528, ..fragment(&frame) };
    for identification in 0..200 {
        assert_eq!(reassembly.push(0, &Fragment { identification, ..part }), None);
    }
    assert_eq!((reassembly.pending(), reassembly.discarded().evicted), (127, 73));
    let part = Fragment { offset: 65_528, payload_length: 8, ..fragment(&frame) };
    assert_eq!(reassembly.push(0, &part), None);
    assert_eq!(reassembly.discarded().malformed_fragments, 1);
}

#[test]
fn tcp_options_of_each_kind() {
    let bytes = [
        2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4, 30, 3,
        0x50, 2, 3, 9, 1, 0, 1, 1,
    ];
    let found: Vec<_> = options(&bytes).collect();
    assert_eq!(found[..3], [TcpOption::Mss(1460), TcpOption::WindowScale(7), TcpOption::SackPermitted]);
    let TcpOption::Sack(blocks) = found[3] else { panic!() };
    assert_eq!(blocks.edges().collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!(found[4], TcpOption::Timestamps { value: 3, echo: 4 });
    assert_eq!(found[5], TcpOption::Mptcp(&[30, 3, 0x50]));
    assert_eq!(found[6..], [TcpOption::Other { kind: 2, bytes: &[2, 3, 9] }]);
    assert_eq!(nop_count(&bytes), 2);
    assert_eq!(nop_count(&[1, 1, 1, 1]), 4);
    for malformed in [&[8, 1, 1, 1][..], &[8, 10, 1], &[8], &[8, 0], &[]] {
        assert_eq!(options(malformed).count(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_frames(bytes in prop::collection::vec(any::<u8>(), 0..200), omitted in 0..2000_u32) {
        for link_type in LINK_TYPES {
            fuzz_body::check(&dissect(link_type, &bytes, bytes.len() as u32 + omitted));
        }
    }

    #[test]
    fn frames_with_changed_bytes(
        header in any::<prop::sample::Index>(),
        v6 in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let headers = headers();
        let (link_type, before_v4, before_v6) = header.get(&headers);
        let mut frame = if v6 {
            join(&[before_v6, &ipv6(6, &tcp_segment())])
        } else {
            join(&[before_v4, &ipv4(6, 0, &tcp_segment())])
        };
        for (index, byte) in changes {
            *index.get_mut(&mut frame) = byte;
        }
        fuzz_body::check(&dissect(*link_type, &frame, frame.len() as u32));
    }

    #[test]
    fn arbitrary_inputs_of_the_fuzz_target(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_body::run(&bytes);
    }

    #[test]
    fn arbitrary_fragments(parts in prop::collection::vec((0..6_u16, 1..4_usize, any::<bool>()), 0..40)) {
        let mut reassembly = Reassembly::default();
        for (offset, units, more) in parts {
            let frame = ipv4(17, offset | if more { 0x2000 } else { 0 }, &vec![0; units * 8]);
            if let Dissected::Fragment(fragment) = dissect(link::RAW, &frame, frame.len() as u32)
                && let Some(datagram) = reassembly.push(0, &fragment)
            {
                fuzz_body::check(&datagram.dissect());
            }
        }
    }
}

#[test]
fn a_document_counts_every_datagram_whose_fragments_were_discarded() {
    let first = |identification: u16, size| {
        let mut fragment = fragments(false, &udp_datagram(&[1; 60]), size).swap_remove(0);
        fragment[4..6].copy_from_slice(&identification.to_be_bytes());
        fragment
    };
    let mut capture = Capture::new();
    // One that overlaps, and two that time out.
    capture.packet(&first(0, 24)).packet(&first(0, 32)).packet(&first(1, 24)).packet(&first(2, 24));
    capture.wait(31_000.0);
    // One more than are kept.
    for identification in 10..=266 {
        capture.packet(&first(identification, 24));
    }
    let totals = capture.document().totals;
    assert_eq!((totals.discarded, totals.incomplete_datagrams), (1, 1 + 2));
}
