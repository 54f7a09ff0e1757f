//! The flow of an IP packet: digests of its addresses, protocol and ports, for fair queues.

use pathbench_link::packet::PacketFlow;
use pathbench_record::network::{IPV4_HEADER_BYTES, IPV6_HEADER_BYTES};
use std::ops::Range;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// IPv6 extension headers with a length (RFC 8200, section 4.1): hop-by-hop options, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// More are no packet of a host.
const MOST_EXTENSIONS: usize = 8;

/// The digests of `packet`. As in the kernel (`skb_flow_dissect`), a fragment has no ports, so that all fragments of a
/// packet are of one flow. A packet without complete headers belongs to the flow of all such packets.
pub fn packet_flow(packet: &[u8]) -> PacketFlow {
    let parsed = match packet.first().map(|first| first >> 4) {
        Some(4) => ipv4(packet),
        Some(6) => ipv6(packet),
        _ => None,
    };
    parsed.unwrap_or_default()
}

fn ipv4(packet: &[u8]) -> Option<PacketFlow> {
    let header = packet.get(..IPV4_HEADER_BYTES)?;
    // The flag "more fragments" and the fragment offset.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let transport = usize::from(header[0] & 15) * 4;
    let ports = if fragment { &[][..] } else { ports(packet, header[9], transport) };
    digest(packet, [12..16, 16..20], header[9], ports)
}

fn ipv6(packet: &[u8]) -> Option<PacketFlow> {
    let mut protocol = *packet.get(6)?;
    let mut transport = IPV6_HEADER_BYTES;
    for _ in 0..MOST_EXTENSIONS {
        if !EXTENSIONS.contains(&protocol) {
            break;
        }
        let (Some(next), Some(length)) = (packet.get(transport), packet.get(transport + 1)) else { break };
        (protocol, transport) = (*next, transport + 8 + usize::from(*length) * 8);
    }
    digest(packet, [8..24, 24..40], protocol, ports(packet, protocol, transport))
}

fn ports(packet: &[u8], protocol: u8, transport: usize) -> &[u8] {
    let of_protocol = [TCP, UDP].contains(&protocol).then(|| packet.get(transport..transport + 4));
    of_protocol.flatten().unwrap_or_default()
}

fn digest(
    packet: &[u8],
    [source, destination]: [Range<usize>; 2],
    protocol: u8,
    ports: &[u8],
) -> Option<PacketFlow> {
    let (source, destination) = (packet.get(source)?, packet.get(destination)?);
    Some(PacketFlow {
        source: fnv([source]),
        destination: fnv([destination]),
        flow: fnv([source, destination, &[protocol], ports]),
    })
}

/// FNV-1a with 32 bits. Fair queues mix it with their seed.
fn fnv<const N: usize>(parts: [&[u8]; N]) -> u32 {
    let bytes = parts.into_iter().flatten();
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
