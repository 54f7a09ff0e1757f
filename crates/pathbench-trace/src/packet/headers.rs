//! The result of dissecting a frame: a packet, a fragment, or the reason for neither.

use super::address::{Address, FlowEndpoint};
use crate::capture::link_type_name;
use std::borrow::Cow;

/// The headers of one packet, or of a packet that was put together from its fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeaders<'a> {
    pub source: FlowEndpoint,
    pub destination: FlowEndpoint,
    /// Bytes of the IP packet on the wire: total length of IPv4, 40 + payload length of IPv6. A GSO or GRO packet whose
    /// header has length 0 (BIG TCP) has the length that the capture gives.
    pub ip_length: u32,
    /// Identification of IPv4; 0 for IPv6, and where a host leaves it out (RFC 6864).
    pub identification: u16,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Congestion experienced (RFC 3168).
    pub congestion_experienced: bool,
    pub transport: TransportHeader<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportHeader<'a> {
    Tcp(Tcp<'a>),
    Udp(Udp<'a>),
    /// ICMP "fragmentation needed" or `ICMPv6` "packet too big".
    TooBig(PacketTooBig),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp<'a> {
    pub sequence: u32,
    pub acknowledgment: u32,
    /// The low eight flags of RFC 9293, section 3.1: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    pub window: u16,
    /// Captured bytes of the options; shorter than the data offset states in a truncated packet.
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
    pub source: FlowEndpoint,
    pub destination: FlowEndpoint,
    /// 6 or 17.
    pub protocol: u8,
    /// Of the quoted TCP header, if the quotation has it.
    pub sequence: Option<u32>,
    /// IP length of the quoted packet.
    pub ip_length: u32,
}

/// One of several parts of an IP packet (RFC 791, section 3.2; RFC 8200, section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    pub source: Address,
    pub destination: Address,
    pub identification: u32,
    /// Of IPv6, the next header that the fragment header has.
    pub protocol: u8,
    pub ipv6: bool,
    /// In bytes.
    pub offset: u32,
    pub more_fragments: bool,
    /// Bytes of the IP header with its options or extension headers, without the fragment header of IPv6.
    pub header_length: u32,
    pub hop_limit: u8,
    pub congestion_experienced: bool,
    /// Captured bytes of the payload; shorter than `payload_length` in a truncated packet.
    pub payload: &'a [u8],
    /// Payload on the wire.
    pub payload_length: u32,
}

/// Result of [`dissect`](super::dissect).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dissected<'a> {
    Packet(PacketHeaders<'a>),
    /// For [`Reassembly`](super::reassembly::Reassembly).
    Fragment(Fragment<'a>),
    Other(Reason),
}

/// Why a frame is not dissected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Link type that is unknown here, or carries no IP.
    LinkType,
    NotIp,
    /// The frame was captured up to a point within a header.
    Truncated,
    /// A header contradicts itself or the length of the packet.
    Malformed,
    /// IEEE 802.11 frame with link-layer encryption.
    Encrypted,
    /// Fragment of an IEEE 802.11 frame.
    LinkFragment,
    /// A-MSDU of IEEE 802.11.
    Aggregate,
    /// More than 16 IPv6 extension headers.
    ExtensionHeaders,
    /// More than two levels of IP in IP and of other tunnels.
    Tunnels,
    /// The payload of a tunnel or link layer that is not decoded, with its name.
    Encapsulated(&'static str),
    /// Transport protocol other than TCP, UDP, ICMP and `ICMPv6`; also that of a packet which ICMP quotes.
    Protocol(u8),
    /// ICMP message other than "fragmentation needed" and "packet too big", or one that quotes a later fragment.
    Icmp,
}

impl Reason {
    /// Words that complete "12 packets … were not decoded"; `None` for packets in which no connection can be, such as ARP
    /// and ICMP. `link_type` is that of the frame.
    pub fn undecoded(self, link_type: u16) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Self::LinkType => {
                return Some(Cow::Owned(format!("of link type {}", link_type_name(link_type))));
            }
            Self::Encapsulated(name) => return Some(Cow::Owned(format!("inside {name}"))),
            Self::Truncated => "truncated within their headers",
            Self::Malformed => "with damaged headers",
            Self::Encrypted => "encrypted by IEEE 802.11",
            Self::LinkFragment => "in fragments of IEEE 802.11",
            Self::Aggregate => "in an A-MSDU of IEEE 802.11",
            Self::ExtensionHeaders => "with more than 16 IPv6 extension headers",
            Self::Tunnels => "inside more than two tunnels",
            Self::Protocol(33) => "of DCCP",
            Self::Protocol(50) => "inside ESP",
            Self::Protocol(115) => "inside L2TP",
            Self::Protocol(132) => "of SCTP",
            Self::Protocol(136) => "of UDP-Lite",
            Self::NotIp | Self::Icmp | Self::Protocol(_) => return None,
        }))
    }
}
