//! IPv4 (RFC 791), IPv6 (RFC 8200) and IP in IP (RFC 2003, RFC 2473).

use super::address::Address;
use super::extension_headers::skip_extension_headers;
use super::headers::{Dissected, Fragment, PacketHeaders, Reason, TransportHeader, Udp};
use super::link::{self, Found, Version};
use super::transport::{self, IpPacket};
use super::tunnel::{self, BRIDGED, Inner};

const MAXIMUM_TUNNELS: u8 = 2;
const IPV4_MORE_FRAGMENTS: u16 = 0x2000;

#[inline]
pub(super) fn dissect(version: Version, bytes: &[u8], wire_length: u32, tunnels: u8) -> Dissected<'_> {
    let result = match version {
        Version::V4 => ipv4(bytes, wire_length, tunnels),
        Version::V6 => ipv6(bytes, wire_length, tunnels),
    };
    result.unwrap_or_else(Dissected::Other)
}

#[inline]
pub(super) fn dissect_payload<'a>(ip: &IpPacket<'a>, tunnels: u8) -> Dissected<'a> {
    if ip.protocol != 6 {
        return dissect_other_payload(ip, tunnels);
    }
    match transport::tcp(ip) {
        Ok(packet) => Dissected::Packet(packet),
        Err(reason) => Dissected::Other(reason),
    }
}

/// Recursive with tunnels; not inlined, so that the functions on the path to TCP are.
#[inline(never)]
fn dissect_other_payload<'a>(ip: &IpPacket<'a>, tunnels: u8) -> Dissected<'a> {
    match ip.protocol {
        4 => tunnelled(Version::V4, ip, tunnels),
        41 => tunnelled(Version::V6, ip, tunnels),
        17 => match transport::dissect(ip) {
            Ok(packet) => in_udp(&packet, tunnels).unwrap_or(Dissected::Packet(packet)),
            Err(reason) => Dissected::Other(reason),
        },
        1 | 58 => transport::dissect(ip).map_or_else(Dissected::Other, Dissected::Packet),
        // RFC 4302: an extension header of IPv6, a protocol of IPv4.
        51 => authenticated(ip, tunnels),
        _ => match tunnel::in_ip(ip) {
            Ok((name, inner)) => {
                let wire_length = ip.payload_length - (ip.payload.len() - inner.length()) as u32;
                dissect_inner(inner, wire_length, name, tunnels)
            }
            Err(reason) => Dissected::Other(reason),
        },
    }
}

fn tunnelled<'a>(version: Version, ip: &IpPacket<'a>, tunnels: u8) -> Dissected<'a> {
    if tunnels == MAXIMUM_TUNNELS {
        return Dissected::Other(Reason::Tunnels);
    }
    dissect(version, ip.payload, ip.payload_length, tunnels + 1)
}

#[inline]
fn ipv4(bytes: &[u8], wire_length: u32, tunnels: u8) -> Result<Dissected<'_>, Reason> {
    let header = bytes.first_chunk::<20>().ok_or(Reason::Truncated)?;
    let [first, traffic_class, l0, l1, id0, id1, f0, f1, hop_limit, protocol, _, _, addresses @ ..] = *header;
    let [s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
    let header_length = u32::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header_length < 20 {
        return Err(Reason::Malformed);
    }
    // 0: a GSO or GRO packet above 65,535 bytes (BIG TCP), or the TSO of some drivers.
    let ip_length = match u16::from_be_bytes([l0, l1]) {
        0 => wire_length,
        // Bytes that the frame did not have are no part of the packet.
        length => u32::from(length).min(wire_length),
    };
    let payload_length = ip_length.checked_sub(header_length).ok_or(Reason::Malformed)?;
    let (source, destination) = (Address::v4([s0, s1, s2, s3]), Address::v4([d0, d1, d2, d3]));
    let payload = captured_payload(bytes, header_length as usize, ip_length)?;
    let congestion_experienced = traffic_class & 3 == 3;
    let fragment = u16::from_be_bytes([f0, f1]);
    if fragment & (IPV4_MORE_FRAGMENTS | 0x1fff) != 0 {
        return Ok(Dissected::Fragment(Fragment {
            source,
            destination,
            identification: u16::from_be_bytes([id0, id1]).into(),
            protocol,
            ipv6: false,
            offset: u32::from(fragment & 0x1fff) * 8,
            more_fragments: fragment & IPV4_MORE_FRAGMENTS != 0,
            header_length,
            hop_limit,
            congestion_experienced,
            payload,
            payload_length,
        }));
    }
    let ip = IpPacket {
        source,
        destination,
        ip_length,
        identification: u16::from_be_bytes([id0, id1]),
        hop_limit,
        congestion_experienced,
        protocol,
        payload,
        payload_length,
    };
    Ok(dissect_payload(&ip, tunnels))
}

/// Captured bytes of the IP packet from `offset`, without the padding of the link layer.
#[inline]
fn captured_payload(bytes: &[u8], offset: usize, ip_length: u32) -> Result<&[u8], Reason> {
    let end = bytes.len().min(ip_length as usize);
    bytes.get(offset..end).ok_or(Reason::Truncated)
}

#[inline]
fn ipv6(bytes: &[u8], wire_length: u32, tunnels: u8) -> Result<Dissected<'_>, Reason> {
    let (header, rest) = bytes.split_first_chunk::<40>().ok_or(Reason::Truncated)?;
    let [v0, v1, _, _, l0, l1, next_header, hop_limit, addresses @ ..] = header;
    if v0 >> 4 != 6 {
        return Err(Reason::Malformed);
    }
    // 0: a jumbogram (RFC 2675), or a GSO or GRO packet of BIG TCP.
    let length = match u16::from_be_bytes([*l0, *l1]) {
        0 => (*next_header == 0).then(|| jumbo_length(rest)).flatten().unwrap_or(u32::MAX),
        length => u32::from(length),
    };
    // Bytes that the frame did not have are no part of the packet.
    let length = length.min(wire_length.saturating_sub(40));
    let ip_length = 40 + length;
    let ([source, destination], _) = addresses.as_chunks() else { return Err(Reason::Malformed) };
    let (source, destination) = (Address::v6(*source), Address::v6(*destination));
    let payload = captured_payload(bytes, 40, ip_length)?;
    let congestion_experienced = v1 & 0x30 == 0x30;
    let chain = skip_extension_headers(*next_header, payload)?;
    let payload_length = length.checked_sub(chain.length as u32).ok_or(Reason::Malformed)?;
    let payload = payload.get(chain.length..).ok_or(Reason::Truncated)?;
    if let Some((offset, more_fragments, identification)) = chain.fragment {
        return Ok(Dissected::Fragment(Fragment {
            source,
            destination,
            identification,
            protocol: chain.next_header,
            ipv6: true,
            offset,
            more_fragments,
            // Without the fragment header: the header of the original packet (RFC 8200, section 4.5).
            header_length: 40 + chain.length as u32 - 8,
            hop_limit: *hop_limit,
            congestion_experienced,
            payload,
            payload_length,
        }));
    }
    let ip = IpPacket {
        source,
        destination,
        ip_length,
        identification: 0,
        hop_limit: *hop_limit,
        congestion_experienced,
        protocol: chain.next_header,
        payload,
        payload_length,
    };
    Ok(dissect_payload(&ip, tunnels))
}

/// The jumbo payload option, type 0xc2, of a hop-by-hop header (RFC 2675, section 2).
fn jumbo_length(header: &[u8]) -> Option<u32> {
    let length = (usize::from(*header.get(1)?) + 1) * 8;
    let mut options = header.get(2..length)?;
    loop {
        options = match options {
            [0xc2, 4, a, b, c, d, ..] => return Some(u32::from_be_bytes([*a, *b, *c, *d])),
            // Pad1 has no length.
            [0, rest @ ..] => rest,
            [_, length, rest @ ..] => rest.get(usize::from(*length)..)?,
            _ => return None,
        };
    }
}

/// Dissects the payload of a packet that was put together from its fragments. The first fragment's extension headers
/// behind its fragment header are in the payload.
pub(super) fn dissect_reassembled(mut ip: IpPacket<'_>, ipv6: bool) -> Dissected<'_> {
    if ipv6 {
        let chain = match skip_extension_headers(ip.protocol, ip.payload) {
            Ok(chain) => chain,
            Err(reason) => return Dissected::Other(reason),
        };
        // No host sends a fragment header in a fragmented packet (RFC 8200, section 4.5).
        let (None, Some(payload), Some(payload_length)) = (
            chain.fragment,
            ip.payload.get(chain.length..),
            ip.payload_length.checked_sub(chain.length as u32),
        ) else {
            return Dissected::Other(Reason::Malformed);
        };
        (ip.protocol, ip.payload, ip.payload_length) = (chain.next_header, payload, payload_length);
    }
    dissect_payload(&ip, 0)
}

/// A frame at a depth of so many tunnels.
#[inline]
pub(super) fn dissect_frame(
    link_type: u16,
    frame_bytes: &[u8],
    original_length: u32,
    tunnels: u8,
) -> Dissected<'_> {
    dissect_found(link::find_ip(link_type, frame_bytes), frame_bytes, original_length, tunnels)
}

/// The IP packet that was found in a frame.
#[inline]
fn dissect_found(found: Found, frame_bytes: &[u8], original_length: u32, tunnels: u8) -> Dissected<'_> {
    let found = found.and_then(|(version, offset)| {
        Ok((version, offset, frame_bytes.get(offset..).ok_or(Reason::Truncated)?))
    });
    match found {
        Ok((version, offset, bytes)) => {
            // Some writers set no original length.
            let wire_length = original_length.saturating_sub(offset as u32).max(bytes.len() as u32);
            dissect(version, bytes, wire_length, tunnels)
        }
        Err(reason) => Dissected::Other(reason),
    }
}

/// The packet in a datagram of a tunnel.
fn in_udp<'a>(packet: &PacketHeaders<'a>, tunnels: u8) -> Option<Dissected<'a>> {
    let TransportHeader::Udp(Udp { payload, payload_length }) = packet.transport else { return None };
    let (name, inner) = tunnel::in_udp(packet.destination.port, payload)?;
    let wire_length = payload_length - (payload.len() - inner.length()) as u32;
    Some(dissect_inner(inner, wire_length, name, tunnels))
}

/// The payload of a tunnel.
fn dissect_inner<'a>(inner: Inner<'a>, wire_length: u32, name: &'static str, tunnels: u8) -> Dissected<'a> {
    if tunnels == MAXIMUM_TUNNELS {
        return Dissected::Other(Reason::Tunnels);
    }
    let found = |found: Found, bytes: &'a [u8]| dissect_found(found, bytes, wire_length, tunnels + 1);
    match inner {
        Inner::Frame(bytes) | Inner::Typed(BRIDGED, bytes) => {
            dissect_frame(link::ETHERNET, bytes, wire_length, tunnels + 1)
        }
        Inner::Ip(bytes) => dissect_frame(link::RAW, bytes, wire_length, tunnels + 1),
        Inner::Ppp(bytes) => dissect_frame(link::PPP, bytes, wire_length, tunnels + 1),
        Inner::Typed(kind, bytes) => match link::after_ether_type(bytes, kind, 0) {
            // Keepalives and the like.
            Err(Reason::NotIp) => Dissected::Other(Reason::Encapsulated(name)),
            other => found(other, bytes),
        },
        Inner::Unknown(name) => Dissected::Other(Reason::Encapsulated(name)),
    }
}

/// The payload of an authentication header of IPv4 (RFC 4302, section 2).
fn authenticated<'a>(ip: &IpPacket<'a>, tunnels: u8) -> Dissected<'a> {
    let [next, units, ..] = *ip.payload else { return Dissected::Other(Reason::Truncated) };
    let length = (usize::from(units) + 2) * 4;
    let (Some(payload), Some(payload_length)) =
        (ip.payload.get(length..), ip.payload_length.checked_sub(length as u32))
    else {
        return Dissected::Other(Reason::Truncated);
    };
    if next == 51 || tunnels == MAXIMUM_TUNNELS {
        return Dissected::Other(Reason::Tunnels);
    }
    dissect_payload(&IpPacket { protocol: next, payload, payload_length, ..*ip }, tunnels + 1)
}
