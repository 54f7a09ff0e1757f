//! TCP (RFC 9293), UDP (RFC 768) and the two ICMP messages of path MTU discovery.

use super::address::{Address, FlowEndpoint};
use super::extension_headers::skip_extension_headers;
use super::headers::{PacketHeaders, PacketTooBig, Reason, Tcp, TransportHeader, Udp};

/// An IP packet without its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IpPacket<'a> {
    pub(super) source: Address,
    pub(super) destination: Address,
    pub(super) ip_length: u32,
    /// Of IPv4, otherwise 0.
    pub(super) identification: u16,
    pub(super) hop_limit: u8,
    pub(super) congestion_experienced: bool,
    pub(super) protocol: u8,
    pub(super) payload: &'a [u8],
    pub(super) payload_length: u32,
}

#[inline]
fn packet<'a>(ip: &IpPacket<'a>, ports: [u16; 2], transport: TransportHeader<'a>) -> PacketHeaders<'a> {
    let [source, destination] = ports;
    PacketHeaders {
        source: FlowEndpoint { address: ip.source, port: source },
        destination: FlowEndpoint { address: ip.destination, port: destination },
        ip_length: ip.ip_length,
        identification: ip.identification,
        hop_limit: ip.hop_limit,
        congestion_experienced: ip.congestion_experienced,
        transport,
    }
}

/// RFC 9293, section 3.1.
#[inline]
pub(super) fn tcp<'a>(ip: &IpPacket<'a>) -> Result<PacketHeaders<'a>, Reason> {
    let (header, rest) = ip.payload.split_first_chunk::<20>().ok_or_else(|| missing_header(ip, 20))?;
    let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, data_offset, flags, w0, w1, ..] = *header;
    let options_length = (usize::from(data_offset >> 4) * 4).checked_sub(20).ok_or(Reason::Malformed)?;
    let payload_length =
        ip.payload_length.checked_sub(20 + options_length as u32).ok_or(Reason::Malformed)?;
    let (options, payload) = rest.split_at_checked(options_length).unwrap_or((rest, &[]));
    let tcp = Tcp {
        sequence: u32::from_be_bytes([q0, q1, q2, q3]),
        acknowledgment: u32::from_be_bytes([a0, a1, a2, a3]),
        flags,
        window: u16::from_be_bytes([w0, w1]),
        options,
        payload,
        payload_length,
    };
    Ok(packet(ip, [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])], TransportHeader::Tcp(tcp)))
}

/// Why a header of `length` bytes is absent: the capture truncated it, or the packet is shorter on the wire.
#[cold]
fn missing_header(ip: &IpPacket<'_>, length: u32) -> Reason {
    if ip.payload_length < length { Reason::Malformed } else { Reason::Truncated }
}

pub(super) fn dissect<'a>(ip: &IpPacket<'a>) -> Result<PacketHeaders<'a>, Reason> {
    match ip.protocol {
        17 => udp(ip),
        1 => icmpv4(ip),
        58 => icmpv6(ip),
        protocol => Err(Reason::Protocol(protocol)),
    }
}

fn udp<'a>(ip: &IpPacket<'a>) -> Result<PacketHeaders<'a>, Reason> {
    let (header, payload) = ip.payload.split_first_chunk::<8>().ok_or_else(|| missing_header(ip, 8))?;
    let [s0, s1, d0, d1, l0, l1, _, _] = *header;
    let length = match u16::from_be_bytes([l0, l1]) {
        // A jumbogram (RFC 2675, section 4).
        0 => ip.payload_length,
        length => u32::from(length),
    };
    if length < 8 || length > ip.payload_length {
        return Err(Reason::Malformed);
    }
    // Bytes of the IP packet behind the UDP length are UDP options (RFC 9868), no payload.
    let payload_length = length - 8;
    let payload = payload.get(..payload_length as usize).unwrap_or(payload);
    let udp = Udp { payload, payload_length };
    Ok(packet(ip, [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])], TransportHeader::Udp(udp)))
}

/// RFC 792 and RFC 1191, section 4: "fragmentation needed and DF set".
fn icmpv4<'a>(ip: &IpPacket<'a>) -> Result<PacketHeaders<'a>, Reason> {
    let (header, quote) = ip.payload.split_first_chunk::<8>().ok_or_else(|| missing_header(ip, 8))?;
    let [3, 4, _, _, _, _, m0, m1] = *header else { return Err(Reason::Icmp) };
    let mtu = u16::from_be_bytes([m0, m1]).into();
    let quoted = quote.first_chunk::<20>().ok_or(Reason::Truncated)?;
    let [first, _, l0, l1, _, _, f0, f1, _, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *quoted;
    let header_length = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header_length < 20 {
        return Err(Reason::Malformed);
    }
    // A later fragment has no ports.
    if u16::from_be_bytes([f0, f1]) & 0x1fff != 0 {
        return Err(Reason::Icmp);
    }
    let transport = quote.get(header_length..).ok_or(Reason::Truncated)?;
    let addresses = [Address::v4([s0, s1, s2, s3]), Address::v4([d0, d1, d2, d3])];
    let ip_length = u16::from_be_bytes([l0, l1]).into();
    too_big(mtu, addresses, protocol, ip_length, transport).map(|too_big| packet(ip, [0, 0], too_big))
}

/// RFC 4443, section 3.2.
fn icmpv6<'a>(ip: &IpPacket<'a>) -> Result<PacketHeaders<'a>, Reason> {
    let (header, quote) = ip.payload.split_first_chunk::<8>().ok_or_else(|| missing_header(ip, 8))?;
    let [2, _, _, _, mtu @ ..] = *header else { return Err(Reason::Icmp) };
    let (quoted, rest) = quote.split_first_chunk::<40>().ok_or(Reason::Truncated)?;
    let [first, _, _, _, l0, l1, next_header, _, addresses @ ..] = quoted;
    if first >> 4 != 6 {
        return Err(Reason::Malformed);
    }
    let ([source, destination], _) = addresses.as_chunks() else { return Err(Reason::Malformed) };
    let chain = skip_extension_headers(*next_header, rest)?;
    if chain.fragment.is_some_and(|(offset, ..)| offset != 0) {
        return Err(Reason::Icmp);
    }
    let transport = rest.get(chain.length..).ok_or(Reason::Truncated)?;
    let addresses = [Address::v6(*source), Address::v6(*destination)];
    let ip_length = 40 + u32::from(u16::from_be_bytes([*l0, *l1]));
    too_big(u32::from_be_bytes(mtu), addresses, chain.next_header, ip_length, transport)
        .map(|too_big| packet(ip, [0, 0], too_big))
}

fn too_big(
    mtu: u32,
    addresses: [Address; 2],
    protocol: u8,
    ip_length: u32,
    transport: &[u8],
) -> Result<TransportHeader<'static>, Reason> {
    if protocol != 6 && protocol != 17 {
        return Err(Reason::Protocol(protocol));
    }
    let ([s0, s1, d0, d1], rest) = transport.split_first_chunk::<4>().ok_or(Reason::Truncated)?;
    let [source, destination] = addresses;
    Ok(TransportHeader::TooBig(PacketTooBig {
        mtu,
        source: FlowEndpoint { address: source, port: u16::from_be_bytes([*s0, *s1]) },
        destination: FlowEndpoint { address: destination, port: u16::from_be_bytes([*d0, *d1]) },
        protocol,
        sequence: rest.first_chunk().filter(|_| protocol == 6).map(|bytes| u32::from_be_bytes(*bytes)),
        ip_length,
    }))
}
