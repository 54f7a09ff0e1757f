//! QUIC packet headers (RFC 8999; RFC 9000, section 17; RFC 9369).

use super::Reader;
use std::fmt;

/// QUIC version 1 (RFC 9000).
pub const VERSION_1: u32 = 1;
/// QUIC version 2 (RFC 9369).
pub const VERSION_2: u32 = 0x6b33_43cf;

/// The version of mvfst that is draft 27 of RFC 9000.
pub const MVFST_2: u32 = 0xface_b002;
/// The experimental version of mvfst, also draft 27.
pub const MVFST_EXPERIMENTAL: u32 = 0xface_b00e;

/// The draft of RFC 9000 that a version is, of those whose packets are decrypted.
pub fn draft(version: u32) -> Option<u8> {
    match version {
        0xff00_0017..=0xff00_0022 => Some(version as u8),
        MVFST_2 | MVFST_EXPERIMENTAL => Some(27),
        _ => None,
    }
}

/// Longest connection id of versions 1 and 2 (RFC 9000, section 17.2).
pub const MAX_CONNECTION_ID: usize = 20;

/// A connection id of at most 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ConnectionId {
    length: u8,
    bytes: [u8; MAX_CONNECTION_ID],
}

impl ConnectionId {
    /// `None` above 20 bytes.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_CONNECTION_ID];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { length: id.len() as u8, bytes })
    }

    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Type of a packet with a long header, a packet number and a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongType {
    Initial,
    ZeroRtt,
    Handshake,
}

/// A packet of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header<'a> {
    Long(Long<'a>),
    /// RFC 9000, section 17.2.5.
    Retry {
        version: u32,
        destination: ConnectionId,
        source: ConnectionId,
        token: &'a [u8],
        /// Retry Integrity Tag (RFC 9001, section 5.8).
        tag: &'a [u8],
    },
    /// RFC 8999, section 6.
    VersionNegotiation {
        destination: ConnectionId,
        source: ConnectionId,
        versions: &'a [u8],
    },
    /// Of a version other than 1, 2 and the drafts of RFC 9000: only its connection ids are known.
    UnknownVersion {
        version: u32,
        destination: ConnectionId,
        source: ConnectionId,
    },
    /// The destination connection id begins at the second byte; the fixed bit may be 0 (RFC 9287).
    Short {
        packet: &'a [u8],
    },
}

/// A packet with a long header, a packet number and a length (RFC 9000, section 17.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long<'a> {
    pub version: u32,
    pub long_type: LongType,
    pub destination: ConnectionId,
    pub source: ConnectionId,
    pub token: &'a [u8],
    /// Captured bytes of the packet from its first byte; shorter than `length` if the capture truncated the datagram.
    pub packet: &'a [u8],
    /// Of the whole packet.
    pub length: usize,
    /// Offset of the protected packet number.
    pub number_offset: usize,
}

impl Long<'_> {
    pub fn is_truncated(&self) -> bool {
        self.packet.len() < self.length
    }
}

/// Reads the first packet of a datagram, and returns the rest: coalesced packets (RFC 9000, section 12.2).
///
/// ```rust
/// use pathbench_trace::quic::header::{Header, LongType, VERSION_1, parse};
///
/// // Initial packet: version 1, connection ids of two bytes and one byte, no token, 4 bytes of packet number and payload.
/// let datagram = [0xc0, 0, 0, 0, 1, 2, 0xab, 0xcd, 1, 0xef, 0, 4, 1, 2, 3, 4];
/// let Some((Header::Long(packet), rest)) = parse(&datagram) else { panic!("a long header") };
/// assert_eq!((packet.version, packet.long_type), (VERSION_1, LongType::Initial));
/// assert_eq!((packet.destination.to_string(), packet.source.to_string()), ("abcd".to_owned(), "ef".to_owned()));
/// assert_eq!((packet.length, packet.number_offset, rest.len()), (16, 12, 0));
/// ```
pub fn parse(datagram: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let mut reader = Reader(datagram);
    let first = reader.u8()?;
    if first & 0x80 == 0 {
        return Some((Header::Short { packet: datagram }, &[]));
    }
    let version = reader.u32()?;
    let destination = ConnectionId::new(reader.u8_bytes()?)?;
    let source = ConnectionId::new(reader.u8_bytes()?)?;
    if version == 0 {
        let versions = reader.0;
        let complete = !versions.is_empty() && versions.len() % 4 == 0;
        return complete.then_some((Header::VersionNegotiation { destination, source, versions }, &[]));
    }
    if !matches!(version, VERSION_1 | VERSION_2) && draft(version).is_none() {
        return Some((Header::UnknownVersion { version, destination, source }, &[]));
    }
    let Some(long_type) = long_type(version, first) else {
        let (token, tag) = reader.0.split_at_checked(reader.0.len().checked_sub(16)?)?;
        return Some((Header::Retry { version, destination, source, token, tag }, &[]));
    };
    let token = if long_type == LongType::Initial { reader.varint_bytes()? } else { &[] };
    let remaining = usize::try_from(reader.varint()?).ok()?;
    let number_offset = datagram.len() - reader.0.len();
    let length = number_offset.checked_add(remaining)?;
    let (packet, rest) = datagram.split_at_checked(length).unwrap_or((datagram, &[]));
    Some((
        Header::Long(Long { version, long_type, destination, source, token, packet, length, number_offset }),
        rest,
    ))
}

/// `None`: a Retry packet. RFC 9000, section 17.2; RFC 9369, section 3.2.
fn long_type(version: u32, first: u8) -> Option<LongType> {
    let code = first >> 4 & 3;
    match if version == VERSION_2 { code.wrapping_sub(1) & 3 } else { code } {
        0 => Some(LongType::Initial),
        1 => Some(LongType::ZeroRtt),
        2 => Some(LongType::Handshake),
        _ => None,
    }
}

/// A version that a client offers: 1, 2, a draft of RFC 9000, one of mvfst, picoquic or Google QUIC with long headers of
/// RFC 8999, or a reserved one (RFC 9000, section 15).
pub fn is_plausible_version(version: u32) -> bool {
    matches!(version, VERSION_1 | VERSION_2)
        || (0xff00_0016..=0xff00_0022).contains(&version)
        || version & 0x0f0f_0f0f == 0x0a0a_0a0a
        // mvfst, picoquic ("PCQ0", "PCQ1").
        || version & 0xffff_fff0 == 0xface_b000
        || version & 0xffff_fffe == 0x5043_5130
        // "Q050", "T050", "T051".
        || matches!(version, 0x5130_3530 | 0x5430_3530 | 0x5430_3531)
}
