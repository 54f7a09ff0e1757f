//! GSO packets and their wire packets: TCP and UDP segmentation as network cards do it, over headers alone.
//!
//! The payload is never copied and, with one exception, never read: a wire packet is a few bytes of headers of its own
//! and a range of the GSO packet. Checksums that a host left to be completed stay so, for the host at the other
//! end takes its own machine's word for them; they are completed where a bit is to be flipped, so that the receiver
//! finds out, and in captures.
//!
//! Headers change as in the kernel's `tcp_gso_segment` and `__udp_gso_segment`: lengths, IPv4 identification, sequence
//! number; FIN and PSH in the last segment only, CWR in the first only.

mod checksum;

use crate::packet::Ecn;
use pathbench_host::tun::{PacketHeader, Segmentation};
use std::ops::Range;

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;
/// Where the checksum stands in a TCP and in a UDP header.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const TCP_FLAGS: usize = 13;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Longest IP and transport headers of a packet that is to be cut.
pub const LARGEST_HEADERS_BYTES: usize = 256;

/// The layout of an IP packet from a host: a wire packet, or a GSO packet with several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GsoPacket {
    header: PacketHeader,
    version: Version,
    length: usize,
    ecn: Ecn,
    cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    kind: Segmentation,
    transport: usize,
    payload: usize,
    segment_bytes: usize,
    segments: u32,
    /// Sum of the pseudo header but for its length.
    pseudo_header: u64,
}

/// Wire packets that follow one another in a [`GsoPacket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub first: u32,
    pub count: u32,
}

/// The headers of a [`Run`] as they are to be written: the device's and those of the packet.
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
    /// The device's header and those of the packet.
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
    /// The layout of `packet`, as `header` and its own headers tell it. `None` for what is no IP packet, or
    /// contradicts its header.
    pub fn parse(header: PacketHeader, packet: &[u8]) -> Option<Self> {
        let (version, ecn) = match packet.first()? >> 4 {
            4 if packet.len() >= IPV4_HEADER_BYTES => (Version::V4, packet.get(1)? & 3),
            6 if packet.len() >= IPV6_HEADER_BYTES => (Version::V6, (packet.get(1)? >> 4) & 3),
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

    /// Wire packets that it stands for.
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

    /// Writes the headers of a run and returns the place of its payload in `packet`, which must be the one that was parsed.
    /// A run of several stays a GSO packet. With `mark`, its ECN field becomes CE.
    /// `None` when `packet` is another one, or there are no such segments.
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
                Version::V4 => IPV4_HEADER_BYTES,
                Version::V6 => IPV6_HEADER_BYTES,
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
            Version::V4 => {
                put(ip, 2, length as u16)?;
                let identification = word(ip, 4)?.wrapping_add(run.first as u16);
                put(ip, 4, identification)?;
                put(ip, 10, 0)?;
                let sum = !checksum::fold(checksum::add(0, ip));
                put(ip, 10, sum)?;
            }
            Version::V6 => put(ip, 4, (length - IPV6_HEADER_BYTES) as u16)?,
        }
        let transport_bytes = length - cut.transport;
        let sum = checksum::fold(cut.pseudo_header + transport_bytes as u64);
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

    /// Writes wire packet `segment` as it is on a wire, with its checksums, into `wire`. `None` as for
    /// [`GsoPacket::headers`].
    pub fn wire_packet(&self, packet: &[u8], segment: u32, mark: bool, wire: &mut Vec<u8>) -> Option<()> {
        let mut headers = Headers::default();
        let payload = self.headers(packet, Run { first: segment, count: 1 }, mark, &mut headers)?;
        wire.clear();
        wire.extend_from_slice(headers.of_packet());
        wire.extend_from_slice(packet.get(payload)?);
        if let Some((start, offset)) = self.header.checksum {
            let covered = wire.get_mut(usize::from(start)..)?;
            let sum = !checksum::fold(checksum::add(0, covered));
            // A UDP checksum of zero would mean that there is none (RFC 768).
            let sum = if sum == 0 && offset == UDP_CHECKSUM { 0xffff } else { sum };
            put(covered, usize::from(offset), sum)?;
        }
        Some(())
    }
}

impl Cut {
    fn parse(kind: Segmentation, header: PacketHeader, version: Version, packet: &[u8]) -> Option<Self> {
        // The checksum begins where the transport header does; the kernel always leaves it to be completed here.
        let (start, offset) = header.checksum?;
        let transport = usize::from(start);
        let (addresses, protocol) = match version {
            Version::V4
                if transport == usize::from(packet.first()? & 15) * 4 && transport >= IPV4_HEADER_BYTES =>
            {
                (12..20, *packet.get(9)?)
            }
            // There may be extension headers; the last one's word about what follows is not needed.
            Version::V6 if transport >= IPV6_HEADER_BYTES => (8..40, protocol_of(kind)),
            _ => return None,
        };
        let fits = match kind {
            Segmentation::TcpV4 => version == Version::V4 && offset == TCP_CHECKSUM,
            Segmentation::TcpV6 => version == Version::V6 && offset == TCP_CHECKSUM,
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
            && packet.len() <= LARGEST_CUT_BYTES;
        let pseudo_header = checksum::add(u64::from(protocol), packet.get(addresses)?);
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

/// What the lengths in the headers of a packet that is still to be cut can say.
const LARGEST_CUT_BYTES: usize = 65_535 + IPV6_HEADER_BYTES;

const fn protocol_of(kind: Segmentation) -> u8 {
    match kind {
        Segmentation::TcpV4 | Segmentation::TcpV6 => 6,
        Segmentation::Udp => 17,
    }
}

fn mark_ce(version: Version, ip: &mut [u8]) -> Option<()> {
    match version {
        Version::V4 => {
            let old = word(ip, 0)?;
            let new = old | 3;
            let sum = checksum::updated(word(ip, 10)?, old, new);
            put(ip, 0, new)?;
            put(ip, 10, sum)
        }
        Version::V6 => {
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
