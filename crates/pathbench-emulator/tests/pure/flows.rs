//! Packets have equal digests exactly if they are of one flow or one host.

use pathbench_emulator::flow::packet_flow;
use pathbench_link::packet::PacketFlow;
use proptest::prelude::*;
use std::collections::BTreeSet;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// Hosts by their last byte, and a payload after the ports.
fn ipv4(source: u8, destination: u8, protocol: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, protocol, 0, 0];
    packet.extend([10, 0, 0, source, 10, 0, 0, destination]);
    packet.extend(ports.map(u16::to_be_bytes).as_flattened());
    packet.extend([7; 12]);
    packet
}

fn ipv6(source: u8, destination: u8, headers: &[(u8, &[u8])], protocol: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 40];
    packet.push(headers.first().map_or(protocol, |(header, _)| *header));
    packet.push(64);
    for host in [source, destination] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    for (index, (_, body)) in headers.iter().enumerate() {
        packet.push(headers.get(index + 1).map_or(protocol, |(header, _)| *header));
        packet.extend(*body);
    }
    packet.extend(ports.map(u16::to_be_bytes).as_flattened());
    packet.extend([7; 12]);
    packet
}

#[test]
fn addresses_protocol_and_ports_make_a_flow() {
    let packets = [
        ipv4(1, 2, TCP, [1_000, 80]),
        ipv4(1, 2, TCP, [1_001, 80]),
        ipv4(1, 2, TCP, [1_000, 81]),
        ipv4(1, 2, UDP, [1_000, 80]),
        ipv4(1, 3, TCP, [1_000, 80]),
        ipv4(3, 2, TCP, [1_000, 80]),
        ipv4(2, 1, TCP, [80, 1_000]),
        ipv4(1, 2, ICMP, [0x800, 0]),
        ipv6(1, 2, &[], TCP, [1_000, 80]),
        ipv6(1, 2, &[], TCP, [1_000, 81]),
        ipv6(2, 1, &[], TCP, [80, 1_000]),
    ];
    let flows: BTreeSet<u32> = packets.iter().map(|packet| packet_flow(packet).flow).collect();
    assert_eq!(flows.len(), packets.len());
    let [first, other, .., down] = [0, 1, 6].map(|index| packet_flow(&packets[index]));
    assert_eq!((first.source, first.destination), (other.source, other.destination));
    assert_eq!((first.source, first.destination), (down.destination, down.source));
    // Neither payload, length, identification nor TTL separates packets; an echo request is known by its addresses.
    let mut later = packets[0].clone();
    (later[3], later[5], later[8]) = (39, 9, 3);
    later.pop();
    assert_eq!(packet_flow(&later), first);
    assert_eq!(packet_flow(&ipv4(1, 2, ICMP, [0x800, 7])), packet_flow(&packets[7]));
}

#[test]
fn fragments_of_a_packet_are_of_one_flow() {
    let whole = ipv4(1, 2, UDP, [1_000, 80]);
    let mut first = whole.clone();
    first[6] = 0x20;
    let mut second = ipv4(1, 2, UDP, [0x1234, 0x5678]);
    second[7] = 185;
    assert_eq!(packet_flow(&first), packet_flow(&second));
    assert_ne!(packet_flow(&first).flow, packet_flow(&whole).flow);
    // The flag "do not fragment" is none.
    let mut may_be_cut = whole.clone();
    may_be_cut[6] = 0;
    assert_eq!(packet_flow(&may_be_cut), packet_flow(&whole));
}

#[test]
fn ports_are_found_behind_ipv6_extension_headers() {
    let plain = packet_flow(&ipv6(1, 2, &[], TCP, [1_000, 80]));
    let options: (u8, &[u8]) = (0, &[0, 0, 0, 0, 0, 0, 0]);
    let routing: (u8, &[u8]) = (43, &[1; 15]);
    assert_eq!(packet_flow(&ipv6(1, 2, &[options, routing], TCP, [1_000, 80])), plain);
    let fragment: (u8, &[u8]) = (44, &[0, 0, 1, 0, 0, 0, 9]);
    let fragments = [[1_000, 80], [3, 4]].map(|ports| packet_flow(&ipv6(1, 2, &[fragment], UDP, ports)));
    assert_eq!(fragments[0], fragments[1]);
}

#[test]
fn packets_without_complete_headers_are_one_flow() {
    for packet in [&[][..], &[0x45], &[0x60; 39], &[0x15; 60]] {
        assert_eq!(packet_flow(packet), PacketFlow::default());
    }
    // Without ports, by addresses.
    let short = ipv4(1, 2, TCP, [1_000, 80]);
    assert_eq!(packet_flow(&short[..22]), packet_flow(&short[..20]));
}

proptest! {
    #[test]
    fn arbitrary_bytes_have_a_flow(mut packet in prop::collection::vec(any::<u8>(), 0..200), version in 4..=6_u8) {
        if let Some(first) = packet.first_mut() {
            *first = version << 4 | *first & 15;
        }
        prop_assert_eq!(packet_flow(&packet), packet_flow(&packet));
    }
}
