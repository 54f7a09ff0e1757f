//! The packets of hop probes: SYNs with MPTCP options, and the ICMP messages and TCP segments that answer them. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const TCP: u8 = 6;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// TCP option 30 (RFC 8684, section 8).
const MPTCP: u8 = 30;
const END_OF_OPTIONS: u8 = 0;
const NOP: u8 = 1;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
const DONT_FRAGMENT: u16 = 0x4000;
const WINDOW: u16 = 64_240;
/// MSS, SACK permitted, timestamps, NOP and window scale, as Linux sends them before an MPTCP option.
const USUAL_OPTIONS: [u8; 20] = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, NOP, 3, 3, 7];

/// The MPTCP option of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SynOption {
    /// No MPTCP option.
    Plain,
    MpCapable,
    MpJoin,
}

impl SynOption {
    /// The option's bytes. Those of `MP_JOIN` contain a token and a nonce that belong to no connection.
    pub fn bytes(self, nonce: u32) -> Vec<u8> {
        match self {
            Self::Plain => Vec::new(),
            // Version 1, HMAC-SHA256, and no key (RFC 8684, section 3.1).
            Self::MpCapable => vec![MPTCP, 4, 0x01, 0x01],
            Self::MpJoin => {
                let token = nonce.rotate_left(16) ^ 0x5aa5_a55a;
                [&[MPTCP, 12, 0x10, 1][..], &token.to_be_bytes(), &nonce.to_be_bytes()].concat()
            }
        }
    }
}

/// One SYN with a limited number of hops. Sequence number and IP id are random, so that a forged answer has to guess them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopProbe {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub hops: u8,
    pub sequence: u32,
    /// Not 0; IPv6 has none.
    pub ip_id: u16,
    pub option: SynOption,
}

impl HopProbe {
    fn option_bytes(&self) -> Vec<u8> {
        self.option.bytes(self.sequence.rotate_left(7))
    }

    /// The TCP segment with its checksum.
    pub fn segment(&self) -> Vec<u8> {
        let options = [&USUAL_OPTIONS[..], &self.option_bytes()].concat();
        let words = (TCP_HEADER + options.len()).div_ceil(4) as u8;
        let mut segment = Vec::with_capacity(usize::from(words) * 4);
        segment.extend(self.source.port().to_be_bytes());
        segment.extend(self.destination.port().to_be_bytes());
        segment.extend(self.sequence.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend([words << 4, SYN]);
        segment.extend(WINDOW.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(options);
        segment.resize(usize::from(words) * 4, END_OF_OPTIONS);
        let pseudo = [octets(self.source.ip()), octets(self.destination.ip())].concat();
        let length = (segment.len() as u32).to_be_bytes();
        let sum = checksum(&[&pseudo, &length, &[0, 0, 0, TCP], &segment]);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        segment
    }

    /// The IPv4 packet; `None` for IPv6, whose header the kernel writes.
    pub fn ipv4_packet(&self) -> Option<Vec<u8>> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (self.source.ip(), self.destination.ip()) else {
            return None;
        };
        let segment = self.segment();
        let length = (IPV4_HEADER + segment.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend(self.ip_id.to_be_bytes());
        packet.extend(DONT_FRAGMENT.to_be_bytes());
        packet.extend([self.hops, TCP, 0, 0]);
        packet.extend(source.octets());
        packet.extend(destination.octets());
        let sum = checksum(&[&packet]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(segment);
        Some(packet)
    }
}

/// The state of the probe's MPTCP option in a packet that an ICMP message quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotedOption {
    Intact,
    /// Present with other bytes.
    Changed,
    Removed,
    /// The quote ends before the option: RFC 792 requires 8 bytes of the segment only.
    NotQuoted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopReplyKind {
    /// A router received the probe with its last hop.
    TimeExceeded(QuotedOption),
    /// A router rejects the probe.
    Unreachable(QuotedOption),
    /// A segment with the server's address; a middlebox can send it as well.
    SynAck {
        has_mptcp: bool,
    },
    Reset,
}

/// The answer to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopReply {
    pub hops: u8,
    pub from: IpAddr,
    pub kind: HopReplyKind,
}

/// Finds the probe that an ICMP message (with its IPv4 header) quotes. Addresses, ports, sequence number and IP id of the
/// quote must be those of the probe.
pub fn icmpv4_reply(packet: &[u8], probes: &[HopProbe]) -> Option<HopReply> {
    let from = IpAddr::V4(Ipv4Addr::from(*packet.get(12..16)?.first_chunk::<4>()?));
    let message = packet.get(ipv4_header_bytes(packet)?..)?;
    let kind = match message.get(..2)? {
        [11, 0] => HopReplyKind::TimeExceeded as fn(QuotedOption) -> HopReplyKind,
        [3, _] => HopReplyKind::Unreachable,
        _ => return None,
    };
    // RFC 4884: the length of the quote in words of 4 bytes; extensions follow it.
    let words = usize::from(*message.get(5)?);
    let quote = message.get(ICMP_HEADER..)?;
    let quote = if words == 0 { quote } else { quote.get(..words * 4).unwrap_or(quote) };
    if *quote.get(9)? != TCP {
        return None;
    }
    let id = u16::from_be_bytes(*quote.get(4..)?.first_chunk()?);
    let destination = IpAddr::V4(Ipv4Addr::from(*quote.get(16..20)?.first_chunk::<4>()?));
    let total = usize::from(u16::from_be_bytes(*quote.get(2..)?.first_chunk()?));
    let quote = quote.get(..total).unwrap_or(quote);
    let segment = quote.get(ipv4_header_bytes(quote)?..)?;
    let probe = find(segment, destination, probes, |probe| probe.ip_id == id)?;
    Some(HopReply { hops: probe.hops, from, kind: kind(quoted(segment, probe)) })
}

/// The same for `ICMPv6`, of which the kernel passes no IPv6 header on.
pub fn icmpv6_reply(message: &[u8], from: Ipv6Addr, probes: &[HopProbe]) -> Option<HopReply> {
    let kind = match message.get(..2)? {
        [3, 0] => HopReplyKind::TimeExceeded as fn(QuotedOption) -> HopReplyKind,
        [1, _] => HopReplyKind::Unreachable,
        _ => return None,
    };
    // RFC 4884: words of 8 bytes.
    let words = usize::from(*message.get(4)?);
    let quote = message.get(ICMP_HEADER..)?;
    let quote = if words == 0 { quote } else { quote.get(..words * 8).unwrap_or(quote) };
    if *quote.get(6)? != TCP {
        return None;
    }
    let destination = IpAddr::V6(Ipv6Addr::from(*quote.get(24..40)?.first_chunk::<16>()?));
    let length = usize::from(u16::from_be_bytes(*quote.get(4..)?.first_chunk()?));
    let segment = quote.get(IPV6_HEADER..)?;
    let segment = segment.get(..length).unwrap_or(segment);
    let probe = find(segment, destination, probes, |_| true)?;
    Some(HopReply { hops: probe.hops, from: IpAddr::V6(from), kind: kind(quoted(segment, probe)) })
}

/// The answer of the server, or of a middlebox in its name: an acknowledgement of the probe's SYN.
pub fn tcp_reply(segment: &[u8], from: IpAddr, probes: &[HopProbe]) -> Option<HopReply> {
    let [source, destination] = [be16(segment, 0)?, be16(segment, 2)?];
    let (acknowledged, flags) = (be32(segment, 8)?, *segment.get(13)?);
    let is_of = |probe: &&HopProbe| {
        (probe.destination, probe.source.port()) == (SocketAddr::new(from, source), destination)
            && acknowledged == probe.sequence.wrapping_add(1)
            && flags & ACK != 0
    };
    let probe = probes.iter().find(is_of)?;
    let kind = if flags & RST != 0 {
        HopReplyKind::Reset
    } else if flags & SYN != 0 {
        let options = segment.get(TCP_HEADER..data_offset(segment)?).unwrap_or_default();
        HopReplyKind::SynAck { has_mptcp: mptcp_option(options).is_some() }
    } else {
        return None;
    };
    Some(HopReply { hops: probe.hops, from, kind })
}

/// The segment after the IPv4 header of a packet from `from`.
pub fn ipv4_payload(packet: &[u8]) -> Option<(IpAddr, &[u8])> {
    let from = Ipv4Addr::from(*packet.get(12..16)?.first_chunk::<4>()?);
    Some((from.into(), packet.get(ipv4_header_bytes(packet)?..)?))
}

fn find<'a>(
    segment: &[u8],
    destination: IpAddr,
    probes: &'a [HopProbe],
    has_id: impl Fn(&HopProbe) -> bool,
) -> Option<&'a HopProbe> {
    let (ports, sequence) = ([be16(segment, 0)?, be16(segment, 2)?], be32(segment, 4)?);
    probes.iter().find(|probe| {
        [probe.source.port(), probe.destination.port()] == ports
            && probe.sequence == sequence
            && probe.destination.ip() == destination
            && has_id(probe)
    })
}

fn quoted(segment: &[u8], probe: &HopProbe) -> QuotedOption {
    let sent = probe.option_bytes();
    let Some(end) = data_offset(segment) else { return QuotedOption::NotQuoted };
    let options = segment.get(TCP_HEADER..end.min(segment.len())).unwrap_or_default();
    match mptcp_option(options) {
        Some(option) if option == sent => QuotedOption::Intact,
        // A SYN without the option remains one.
        None if segment.len() >= end && sent.is_empty() => QuotedOption::Intact,
        None if segment.len() >= end => QuotedOption::Removed,
        Some(option) if option.get(1).is_some_and(|length| usize::from(*length) == option.len()) => {
            QuotedOption::Changed
        }
        _ => QuotedOption::NotQuoted,
    }
}

/// The first MPTCP option among TCP options, cut off where they end.
fn mptcp_option(mut options: &[u8]) -> Option<&[u8]> {
    loop {
        match *options.first()? {
            END_OF_OPTIONS => return None,
            NOP => options = &options[1..],
            kind => {
                let length = usize::from(*options.get(1)?);
                if length < 2 {
                    return None;
                }
                let (option, rest) = options.split_at(length.min(options.len()));
                if kind == MPTCP {
                    return Some(option);
                }
                options = rest;
            }
        }
    }
}

fn ipv4_header_bytes(packet: &[u8]) -> Option<usize> {
    let first = *packet.first()?;
    (first >> 4 == 4 && first & 15 >= 5).then(|| usize::from(first & 15) * 4)
}

/// Of a TCP header: where its options end.
fn data_offset(segment: &[u8]) -> Option<usize> {
    let words = usize::from(*segment.get(12)? >> 4);
    (words >= 5).then_some(words * 4)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// RFC 1071; each part has an even number of bytes.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 =
        words.map(|word| u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))).sum();
    let mut folded = sum;
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    !(folded as u16)
}
