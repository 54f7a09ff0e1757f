//! Segments GSO packets into wire packets as network cards do for TCP and UDP, but changes only headers.
//!
//! The payload is never copied and, with one exception, never read: a wire packet consists of its own headers and a
//! range of the GSO packet. Partial checksums stay partial, because the receiving kernel accepts them; they are
//! completed in captures, and in packets with a flipped bit, so that the receiver detects the error.
//!
//! Headers change as in the kernel's `tcp_gso_segment` and `__udp_gso_segment`: lengths, IPv4 identification, sequence
//! number; FIN and PSH in the last segment only, CWR in the first only.

use pathbench_host::tun::{LARGEST_PACKET_BYTES, PacketHeader, Segmentation};
use pathbench_link::packet::Ecn;
use pathbench_record::network::{AddressFamily, IPV4_HEADER_BYTES, IPV6_HEADER_BYTES, UDP_HEADER_BYTES};
use std::ops::Range;

/// Offsets of the checksum in a TCP header and in a UDP header.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const TCP_FLAGS: usize = 13;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Maximum length of the IP and transport headers of a GSO packet.
pub const LARGEST_HEADERS_BYTES: usize = 256;

/// The layout of an IP packet from a host: a wire packet, or a GSO packet with several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GsoPacket {
    header: PacketHeader,
    version: AddressFamily,
    length: usize,
    ecn: Ecn,
    cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    kind: Segmentation,
    transport: usize,
    payload: usize,
    segment_bytes: usize,
    segments: u32,
    /// Sum of the pseudo header without its length field.
    pseudo_header: u64,
}

/// Consecutive wire packets of a [`GsoPacket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub first: u32,
    pub count: u32,
}

/// The headers of a [`Run`] for a write to the device.
#[derive(Debug, Clone)]
pub struct Headers {
    bytes: [u8; PacketHeader::BYTES + LARGEST_HEADERS_BYTES],
    length: usize,
}

impl Default for Headers {
    fn default() -> Self {
        Self { bytes: [0; PacketHeader::BYTES + LARGEST_HEADERS_BYTES], length: 0 }
    }
}

impl Headers {
    /// The device's header and the headers of the packet.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The headers of the packet alone.
    pub fn of_packet(&self) -> &[u8] {
        self.bytes.get(PacketHeader::BYTES..self.length).unwrap_or_default()
    }

    /// `None` when the headers do not fit.
    fn set(&mut self, header: PacketHeader, packet: &[u8]) -> Option<&mut [u8]> {
        self.length = PacketHeader::BYTES + packet.len();
        let (first, rest) = self.bytes.get_mut(..self.length)?.split_at_mut(PacketHeader::BYTES);
        first.copy_from_slice(&header.to_bytes());
        rest.copy_from_slice(packet);
        Some(rest)
    }
}

impl GsoPacket {
    /// The layout of `packet` according to `header` and its own headers. `None` if it is no IP packet or contradicts
    /// its header.
    pub fn parse(header: PacketHeader, packet: &[u8]) -> Option<Self> {
        let (version, ecn) = match packet.first()? >> 4 {
            4 if packet.len() >= IPV4_HEADER_BYTES => (AddressFamily::Ipv4, packet.get(1)? & 3),
            6 if packet.len() >= IPV6_HEADER_BYTES => (AddressFamily::Ipv6, (packet.get(1)? >> 4) & 3),
            _ => return None,
        };
        let ecn = match ecn {
            0 => Ecn::NotEct,
            3 => Ecn::Ce,
            _ => Ecn::Ect,
        };
        if let Some((start, offset)) = header.checksum
            && usize::from(start) + usize::from(offset) + 2 > packet.len()
        {
            return None;
        }
        let cut = match header.segmentation {
            None => None,
            Some(kind) => Some(Cut::parse(kind, header, version, packet)?),
        };
        Some(Self { header, version, length: packet.len(), ecn, cut })
    }

    /// The ECN field, which all wire packets share.
    pub const fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Number of wire packets.
    pub fn segments(&self) -> u32 {
        self.cut.map_or(1, |cut| cut.segments)
    }

    pub fn whole(&self) -> Run {
        Run { first: 0, count: self.segments() }
    }

    /// Bytes of the IP packets of a run on the wire.
    pub fn ip_bytes(&self, run: Run) -> u32 {
        let payload = self.payload(run);
        match self.cut {
            None => self.length as u32,
            Some(cut) => payload.len() as u32 + run.count * cut.payload as u32,
        }
    }

    fn payload(&self, run: Run) -> Range<usize> {
        let Some(cut) = self.cut else { return 0..self.length };
        let at = |segment: u32| (cut.payload + segment as usize * cut.segment_bytes).min(self.length);
        at(run.first)..at(run.first.saturating_add(run.count))
    }

    /// Writes the headers of a run and returns the range of its payload in `packet`, which must be the parsed packet. A
    /// run of several wire packets stays a GSO packet. With `mark`, its ECN field becomes CE. `None` if `packet` is
    /// another packet or lacks these segments.
    pub fn headers(
        &self,
        packet: &[u8],
        run: Run,
        mark: bool,
        headers: &mut Headers,
    ) -> Option<Range<usize>> {
        let payload = if run == self.whole() {
            let bytes = match self.version {
                _ if !mark => 0,
                AddressFamily::Ipv4 => IPV4_HEADER_BYTES,
                AddressFamily::Ipv6 => IPV6_HEADER_BYTES,
            };
            headers.set(self.header, packet.get(..bytes)?)?;
            bytes..self.length
        } else {
            self.cut_headers(packet, run, headers)?
        };
        if mark {
            mark_ce(self.version, headers.bytes.get_mut(PacketHeader::BYTES..)?)?;
        }
        let within = run.first.checked_add(run.count).is_some_and(|end| end <= self.segments());
        (within && packet.len() == self.length).then_some(payload)
    }

    fn cut_headers(&self, packet: &[u8], run: Run, headers: &mut Headers) -> Option<Range<usize>> {
        let cut = self.cut?;
        let payload = self.payload(run);
        let several = run.count > 1;
        let header = PacketHeader {
            segmentation: several.then_some(cut.kind),
            ecn: several && run.first == 0 && self.header.ecn,
            header_bytes: cut.payload as u16,
            segment_bytes: if several { self.header.segment_bytes } else { 0 },
            ..self.header
        };
        let bytes = headers.set(header, packet.get(..cut.payload)?)?;
        let length = cut.payload + payload.len();
        let (ip, transport) = bytes.split_at_mut_checked(cut.transport)?;
        match self.version {
            AddressFamily::Ipv4 => {
                put(ip, 2, length as u16)?;
                let identification = word(ip, 4)?.wrapping_add(run.first as u16);
                put(ip, 4, identification)?;
                put(ip, 10, 0)?;
                let sum = !fold(sum_words(0, ip));
                put(ip, 10, sum)?;
            }
            AddressFamily::Ipv6 => put(ip, 4, (length - IPV6_HEADER_BYTES) as u16)?,
        }
        let transport_bytes = length - cut.transport;
        let sum = fold(cut.pseudo_header + transport_bytes as u64);
        if cut.kind == Segmentation::Udp {
            put(transport, 4, transport_bytes as u16)?;
            put(transport, usize::from(UDP_CHECKSUM), sum)?;
        } else {
            let sequence = transport.get_mut(4..8)?.first_chunk_mut::<4>()?;
            let offset = run.first.wrapping_mul(cut.segment_bytes as u32);
            *sequence = u32::from_be_bytes(*sequence).wrapping_add(offset).to_be_bytes();
            let flags = transport.get_mut(TCP_FLAGS)?;
            if run.first > 0 {
                *flags &= !CWR;
            }
            if run.first + run.count < cut.segments {
                *flags &= !FIN_AND_PSH;
            }
            put(transport, usize::from(TCP_CHECKSUM), sum)?;
        }
        Some(payload)
    }

    /// Writes wire packet `segment` with complete checksums into `wire`. `None` in the same cases as
    /// [`GsoPacket::headers`].
    pub fn wire_packet(&self, packet: &[u8], segment: u32, mark: bool, wire: &mut Vec<u8>) -> Option<()> {
        let mut headers = Headers::default();
        let payload = self.headers(packet, Run { first: segment, count: 1 }, mark, &mut headers)?;
        wire.clear();
        wire.extend_from_slice(headers.of_packet());
        wire.extend_from_slice(packet.get(payload)?);
        if let Some((start, offset)) = self.header.checksum {
            let covered = wire.get_mut(usize::from(start)..)?;
            let sum = !fold(sum_words(0, covered));
            // A UDP checksum field of zero means "no checksum" (RFC 768).
            let sum = if sum == 0 && offset == UDP_CHECKSUM { 0xffff } else { sum };
            put(covered, usize::from(offset), sum)?;
        }
        Some(())
    }
}

impl Cut {
    fn parse(
        kind: Segmentation,
        header: PacketHeader,
        version: AddressFamily,
        packet: &[u8],
    ) -> Option<Self> {
        // The checksum covers the transport header and the payload; the kernel never completes it in a GSO packet.
        let (start, offset) = header.checksum?;
        let transport = usize::from(start);
        let (addresses, protocol) = match version {
            AddressFamily::Ipv4
                if transport == usize::from(packet.first()? & 15) * 4 && transport >= IPV4_HEADER_BYTES =>
            {
                (12..20, *packet.get(9)?)
            }
            // There may be extension headers; the Next Header field of the last one is not needed.
            AddressFamily::Ipv6 if transport >= IPV6_HEADER_BYTES => (8..40, protocol_of(kind)),
            _ => return None,
        };
        let fits = match kind {
            Segmentation::TcpV4 => version == AddressFamily::Ipv4 && offset == TCP_CHECKSUM,
            Segmentation::TcpV6 => version == AddressFamily::Ipv6 && offset == TCP_CHECKSUM,
            Segmentation::Udp => offset == UDP_CHECKSUM,
        };
        if !fits || protocol != protocol_of(kind) {
            return None;
        }
        let transport_bytes = match kind {
            Segmentation::Udp => UDP_HEADER_BYTES,
            // The device's header has a length of all headers, too, but only as a hint.
            _ => usize::from(packet.get(transport + 12)? >> 4) * 4,
        };
        let payload = transport + transport_bytes;
        let segment_bytes = usize::from(header.segment_bytes);
        let valid = (kind == Segmentation::Udp || transport_bytes >= 20)
            && payload <= LARGEST_HEADERS_BYTES
            && payload < packet.len()
            && segment_bytes > 0
            && packet.len() <= LARGEST_PACKET_BYTES;
        let pseudo_header = sum_words(u64::from(protocol), packet.get(addresses)?);
        valid.then(|| Self {
            kind,
            transport,
            payload,
            segment_bytes,
            segments: (packet.len() - payload).div_ceil(segment_bytes) as u32,
            pseudo_header,
        })
    }
}

const fn protocol_of(kind: Segmentation) -> u8 {
    match kind {
        Segmentation::TcpV4 | Segmentation::TcpV6 => 6,
        Segmentation::Udp => 17,
    }
}

fn mark_ce(version: AddressFamily, ip: &mut [u8]) -> Option<()> {
    match version {
        AddressFamily::Ipv4 => {
            let old = word(ip, 0)?;
            let new = old | 3;
            let sum = updated_checksum(word(ip, 10)?, old, new);
            put(ip, 0, new)?;
            put(ip, 10, sum)
        }
        AddressFamily::Ipv6 => {
            let new = word(ip, 0)? | 0x30;
            put(ip, 0, new)
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

fn put(bytes: &mut [u8], at: usize, word: u16) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = word.to_be_bytes();
    Some(())
}

/// The Internet checksum (RFC 1071) before folding: `sum` plus the 16-bit words of `bytes`. An odd last byte counts as
/// the upper half of a word.
fn sum_words(sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let whole: u64 =
        words.by_ref().map(|word| word.try_into().map_or(0, u32::from_be_bytes)).map(u64::from).sum();
    let rest = words.remainder();
    let mut last = [0; 4];
    for (padded, byte) in last.iter_mut().zip(rest) {
        *padded = *byte;
    }
    sum + whole + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum into 16 bits.
const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A checksum after a word that it covers has changed (RFC 1624, equation 3).
const fn updated_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    !fold((!checksum) as u64 + (!old) as u64 + new as u64)
}
