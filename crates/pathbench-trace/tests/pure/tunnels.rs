//! Connections inside tunnels and link types, and the names of those that are not decoded.

use crate::wire::{ACK, CLIENT, Capture, SERVER, SYN, Segment};
use pathbench_record::trace::{TraceDocument, UndecodedPackets};
use pathbench_trace::packet::link;

/// A file of link type `link_type` with a handshake and data, each packet inside `header`.
fn capture(link_type: u16, wrap: impl Fn(&[u8]) -> Vec<u8>) -> TraceDocument {
    let mut capture = Capture::with_link_type(link_type);
    let segments = [
        Segment::new(CLIENT, SERVER, SYN, 100, 0),
        Segment::new(SERVER, CLIENT, SYN | ACK, 900, 101),
        Segment::new(CLIENT, SERVER, ACK, 101, 901),
        Segment::new(CLIENT, SERVER, ACK, 101, 901).payload(333),
    ];
    for segment in segments {
        capture.packet(&wrap(&segment.packet()));
    }
    capture.document()
}

fn outer(protocol: u8, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = (20 + header.len() + payload.len()) as u16;
    let [high, low] = length.to_be_bytes();
    let ip = [0x45, 0, high, low, 0, 7, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&ip, header, payload].concat()
}

fn datagram(port: u16, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = (8 + header.len() + payload.len()) as u16;
    let udp = [50_000_u16.to_be_bytes(), port.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
    outer(17, &[&udp, header].concat(), payload)
}

const MACS: [u8; 12] = [2; 12];

fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&MACS, &[8, 0][..], packet].concat()
}

fn assert_one_connection(name: &str, document: &TraceDocument) {
    let [connection] = document.connections.as_slice() else { panic!("{name}: {document:#?}") };
    assert_eq!(connection.client.unwrap().to_string(), "192.0.2.1:40000", "{name}");
    assert_eq!(connection.upload.payload_bytes, 333, "{name}");
    assert_eq!((document.captures[0].other_packets, document.totals.other_udp_flows), (0, 0), "{name}");
    assert_eq!(document.captures[0].undecoded, [], "{name}");
}

type Wrap = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// Name, link type, header before the packet.
fn decoded() -> Vec<(&'static str, u16, Wrap)> {
    fn in_front(header: &'static [u8]) -> Wrap {
        Box::new(move |packet| [header, packet].concat())
    }
    fn gre(header: &'static [u8]) -> Wrap {
        Box::new(move |packet| outer(47, header, packet))
    }
    vec![
        ("Cisco HDLC", link::CISCO_HDLC, in_front(&[0x0f, 0, 8, 0])),
        ("Cisco HDLC in PPP_HDLC", link::PPP_HDLC, in_front(&[0x0f, 0, 8, 0])),
        ("PPP in PPP_HDLC", link::PPP_HDLC, in_front(&[0xff, 3, 0, 0x21])),
        ("pppd", link::PPP_PPPD, in_front(&[1, 3, 0, 0x21])),
        ("PPP with direction", link::PPP_WITH_DIRECTION, in_front(&[0, 0xff, 3, 0x21])),
        ("MPLS over PPP", link::PPP, in_front(&[0xff, 3, 0x02, 0x81, 0, 1, 0, 64, 0, 1, 1, 64])),
        ("MPLS over Cisco HDLC", link::CISCO_HDLC, in_front(&[0x0f, 0, 0x88, 0x47, 0, 1, 1, 64])),
        ("NFLOG", link::NFLOG, in_front(&[2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 3, 0, 0x80, 2, 9, 0])),
        ("NFLOG, big endian", link::NFLOG, in_front(&[2, 0, 0, 1, 0, 8, 0, 1, 8, 0, 3, 0, 2, 0x80, 0, 9])),
        ("GRE", link::RAW, gre(&[0, 0, 8, 0])),
        (
            "GRE with key, checksum and sequence",
            link::RAW,
            gre(&[0xb0, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1]),
        ),
        (
            "Ethernet in GRE",
            link::RAW,
            Box::new(|packet| outer(47, &[0x20, 0, 0x65, 0x58, 0, 0, 1, 0], &ethernet(packet))),
        ),
        ("MPLS in GRE", link::RAW, gre(&[0, 0, 0x88, 0x47, 0, 1, 1, 64])),
        ("PPTP", link::RAW, gre(&[0x30, 1, 0x88, 0x0b, 0, 44, 0, 7, 0, 0, 0, 1, 0xff, 3, 0, 0x21])),
        (
            "ERSPAN",
            link::RAW,
            Box::new(|packet| {
                outer(47, &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 1, 0, 1, 0, 0, 0, 2], &ethernet(packet))
            }),
        ),
        ("EtherIP", link::RAW, Box::new(|packet| outer(97, &[0x30, 0], &ethernet(packet)))),
        ("MPLS in IP", link::RAW, Box::new(|packet| outer(137, &[0, 1, 1, 64], packet))),
        (
            "AH",
            link::RAW,
            Box::new(|packet| {
                outer(51, &[4, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], packet)
            }),
        ),
    ]
}

/// The same, over UDP.
fn decoded_over_udp() -> Vec<(&'static str, u16, Wrap)> {
    vec![
        ("VXLAN", link::RAW, Box::new(|packet| datagram(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(packet)))),
        // Generic protocol extension: next protocols Ethernet and IPv4.
        (
            "VXLAN-GPE",
            link::RAW,
            Box::new(|packet| datagram(4789, &[12, 0, 0, 3, 0, 0, 7, 0], &ethernet(packet))),
        ),
        ("IP in VXLAN-GPE", link::RAW, Box::new(|packet| datagram(4789, &[12, 0, 0, 1, 0, 0, 7, 0], packet))),
        (
            "VXLAN of Linux",
            link::ETHERNET,
            Box::new(|packet| ethernet(&datagram(8472, &[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(packet)))),
        ),
        (
            "GENEVE",
            link::RAW,
            Box::new(|packet| datagram(6081, &[1, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 1, 2, 0], &ethernet(packet))),
        ),
        ("IP in GENEVE", link::RAW, Box::new(|packet| datagram(6081, &[0, 0, 8, 0, 0, 0, 7, 0], packet))),
        ("GTP-U", link::RAW, Box::new(|packet| datagram(2152, &[0x30, 255, 0, 100, 0, 0, 0, 1], packet))),
        (
            "GTP-U with an extension",
            link::RAW,
            Box::new(|packet| {
                datagram(2152, &[0x34, 255, 0, 100, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 1, 0], packet)
            }),
        ),
        (
            "VXLAN in GRE",
            link::RAW,
            Box::new(|packet| {
                outer(47, &[0, 0, 8, 0], &datagram(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(packet)))
            }),
        ),
    ]
}

#[test]
fn connections_inside_tunnels_are_found() {
    for (name, link_type, wrap) in decoded().into_iter().chain(decoded_over_udp()) {
        assert_one_connection(name, &capture(link_type, wrap));
    }
}

#[test]
fn truncated_tunnels_are_read_without_a_panic() {
    for (_, link_type, wrap) in decoded().into_iter().chain(decoded_over_udp()) {
        let mut capture = Capture::with_link_type(link_type);
        let frame = wrap(&Segment::new(CLIENT, SERVER, ACK, 101, 901).payload(10).packet());
        for length in 0..frame.len() {
            capture.packet(&frame[..length]);
        }
        assert_eq!(capture.document().captures[0].packets, frame.len() as u64);
    }
}

#[test]
fn packets_that_are_not_decoded_are_named() {
    let undecoded = |link_type: u16, wrap: Wrap| {
        let document = capture(link_type, wrap);
        assert_eq!((document.connections.len(), document.totals.other_udp_flows), (0, 0));
        document.captures[0].undecoded.clone()
    };
    let cases: Vec<(&str, u16, Wrap)> = vec![
        ("inside ESP", link::RAW, Box::new(|packet| outer(50, &[0, 0, 0, 1, 0, 0, 0, 1], packet))),
        ("inside L2TP", link::RAW, Box::new(|packet| outer(115, &[0, 0, 0, 1], packet))),
        ("inside GRE", link::RAW, Box::new(|packet| outer(47, &[0, 0, 0x12, 0x34], packet))),
        (
            "inside GENEVE",
            link::RAW,
            Box::new(|packet| datagram(6081, &[0, 0, 0x12, 0x34, 0, 0, 7, 0], packet)),
        ),
        (
            "inside MPLS",
            link::ETHERNET,
            Box::new(|packet| {
                [&MACS, &[0x88, 0x47, 0, 1, 1, 64, 0, 0, 0, 0][..], &ethernet(packet)].concat()
            }),
        ),
        ("inside MACsec", link::ETHERNET, Box::new(|packet| [&MACS, &[0x88, 0xe5][..], packet].concat())),
        ("inside multilink PPP", link::PPP, Box::new(|packet| [&[0xff, 3, 0, 0x3d][..], packet].concat())),
        ("of SCTP", link::RAW, Box::new(|packet| outer(132, &[], packet))),
        ("of link type frelay", 107, Box::new(<[u8]>::to_vec)),
        ("of link type user0", 147, Box::new(<[u8]>::to_vec)),
        (
            "inside more than two tunnels",
            link::RAW,
            Box::new(|packet| outer(4, &[], &outer(47, &[0, 0, 8, 0], &outer(4, &[], packet)))),
        ),
    ];
    for (reason, link_type, wrap) in cases {
        assert_eq!(
            undecoded(link_type, wrap),
            [UndecodedPackets { reason: reason.to_owned(), packets: 4 }],
            "{reason}"
        );
    }
    // ARP hides no connection.
    let arp = capture(link::ETHERNET, |_| [&MACS, &[8, 6][..], &[0; 28]].concat());
    assert_eq!((arp.captures[0].other_packets, arp.captures[0].undecoded.len()), (4, 0));
}

#[test]
fn datagrams_to_the_ports_of_tunnels_without_their_headers_are_udp() {
    for port in [4789, 8472, 2152, 6081] {
        let document = capture(link::RAW, |packet| datagram(port, &[0xff; 8], packet));
        assert_eq!((document.totals.other_udp_flows, document.captures[0].other_packets), (1, 0), "{port}");
    }
}
