//! Headers of a captured packet, from the link layer to the transport.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address as 128 bits; IPv4 as IPv4-mapped IPv6 (RFC 4291, section 2.5.5.2), which no packet on a wire carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Address(pub u128);

impl Address {
    #[inline]
    pub fn v4(bytes: [u8; 4]) -> Self {
        Self(0xffff_0000_0000 | u128::from(u32::from_be_bytes(bytes)))
    }

    #[inline]
    pub fn v6(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        Ipv6Addr::from(address.0).to_canonical()
    }
}

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Self {
        Self::v4(address.octets())
    }
}

/// Address and port of one end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Endpoint {
    pub address: Address,
    pub port: u16,
}

/// The headers of one packet, or of a packet that was put together from its fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    pub source: Endpoint,
    pub destination: Endpoint,
    /// Bytes of the IP packet on the wire: total length of IPv4, 40 + payload length of IPv6. A GSO or GRO packet whose
    /// header has length 0 (BIG TCP) has the length that the capture gives.
    pub ip_length: u32,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Congestion experienced (RFC 3168).
    pub congestion_experienced: bool,
    pub transport: Transport<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport<'a> {
    Tcp(Tcp<'a>),
    Udp(Udp<'a>),
    /// ICMP "fragmentation needed" or ICMPv6 "packet too big".
    TooBig(PacketTooBig),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp<'a> {
    pub sequence: u32,
    pub acknowledgment: u32,
    /// The low eight flags of RFC 9293, section 3.1: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    pub window: u16,
    /// Captured bytes of the options; shorter than `options_length` in a truncated packet.
    pub options: &'a [u8],
    /// Captured bytes of the payload; shorter than `payload_length` in a truncated packet.
    pub payload: &'a [u8],
    /// Payload on the wire.
    pub payload_length: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    pub payload: &'a [u8],
    pub payload_length: u32,
}

/// A router's report (RFC 1191, RFC 8201): the packet that it quotes was too big for the next link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTooBig {
    /// Of the next hop; 0 from routers older than RFC 1191.
    pub mtu: u32,
    /// Of the quoted packet.
    pub source: Endpoint,
    pub destination: Endpoint,
    /// 6 or 17.
    pub protocol: u8,
    /// Of the quoted TCP header, if the quotation has it.
    pub sequence: Option<u32>,
    /// IP length of the quoted packet.
    pub ip_length: u32,
}
