//! The datagrams of probes, path MTU searches and calibrations: one format for all.
//!
//! ```text
//!  0..8  0x0b "pbprobe"   8 kind   9 version   10..12 length of the text   12..16 sequence
//! 16..24 session   24..32 cookie   32..40 value, by kind   40.. text, padding
//! ```
//! All big-endian.

use pathbench_record::network::{AddressFamily, SMALLEST_IPV6_MTU_BYTES};

pub const HEADER_BYTES: usize = 40;

/// No QUIC packet begins with these bytes: after a first byte with a greased QUIC bit (RFC 9287) follows a connection
/// ID that the server has chosen.
pub const MAGIC: [u8; 8] = *b"\x0bpbprobe";

const VERSION: u8 = 1;

pub const MAX_TEXT_BYTES: usize = 512;

/// Length of a [`DatagramKind::Hello`], so that the reason of a refusal fits into an answer of the same length.
pub(crate) const HELLO_BYTES: usize = HEADER_BYTES + 280;

/// Largest IP packet: the limit of the length field of an IPv4 header (RFC 791).
pub(crate) const MOST_PACKET_BYTES: u32 = 65_535;

/// `Size…` and `KernelMtu…` messages carry two sizes of IP packets in their value ([`DatagramMessage::with_sizes`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum DatagramKind {
    /// Client: requests a cookie; the text is its token. Value: time of sending, which answers return.
    Hello = 1,
    Welcome = 2,
    /// Server: no cookie; the reason is the text.
    Refused = 3,
    /// Client: requests an answer. Value: time of sending.
    Probe = 4,
    Answer = 5,
    /// Client: adds its address as a path to an admitted test, whose id is the text. Value: index of the path.
    FlowJoin = 6,
    /// Server: the path belongs to the test.
    FlowJoined = 7,
    /// A datagram of a test. Value: time of sending on the sender's clock, in nanoseconds.
    Flow = 8,
    SizeProbe = 16,
    SizeReceived = 17,
    SizeRequest = 18,
    SizeResponse = 19,
    /// Server: this size exceeds the interface's MTU, `limit_bytes` (0: unknown).
    ExceedsInterface = 20,
    Busy = 21,
    /// Client: requests the path MTU in the server's kernel.
    KernelMtuRequest = 22,
    /// Server: the path MTU in its kernel is `limit_bytes` (0: unknown).
    KernelMtu = 23,
    /// Calibration: empties the token bucket of a link's shaper before a train.
    Fill = 32,
    /// Calibration: part of a train. Value: time of sending.
    Train = 33,
    TrainEnd = 34,
}

impl DatagramKind {
    const fn may_have_text(self) -> bool {
        (self as u8) < Self::SizeProbe as u8
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatagramMessage {
    pub kind: DatagramKind,
    /// In an answer: the sequence number of the request.
    pub sequence: u32,
    pub session: u64,
    pub cookie: u64,
    pub value: u64,
    /// A token or a reason; at most [`MAX_TEXT_BYTES`].
    pub text: String,
}

impl DatagramMessage {
    pub const fn new(kind: DatagramKind, session: u64, sequence: u32) -> Self {
        Self { kind, sequence, session, cookie: 0, value: 0, text: String::new() }
    }

    /// The size of a packet, and the MTU of an interface or the path MTU in a kernel (0: unknown).
    pub fn with_sizes(self, size_bytes: u32, limit_bytes: u32) -> Self {
        Self { value: u64::from(size_bytes) << 32 | u64::from(limit_bytes), ..self }
    }

    pub const fn size_bytes(&self) -> u32 {
        (self.value >> 32) as u32
    }

    pub const fn limit_bytes(&self) -> u32 {
        self.value as u32
    }

    /// The message, padded to at least `length` bytes. A text that is too long is truncated.
    pub fn encode(&self, length: usize) -> Vec<u8> {
        let text = cut(&self.text, MAX_TEXT_BYTES).as_bytes();
        let mut bytes = Vec::with_capacity(length.max(HEADER_BYTES + text.len()));
        bytes.extend(MAGIC);
        bytes.extend([self.kind as u8, VERSION]);
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        for field in [self.session, self.cookie, self.value] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(text);
        bytes.resize(bytes.len().max(length), 0);
        bytes
    }

    pub(crate) fn stamp(encoded: &mut [u8], sequence: u32, value: u64) {
        encoded[12..16].copy_from_slice(&sequence.to_be_bytes());
        encoded[32..40].copy_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn set_session(encoded: &mut [u8], session: u64) {
        encoded[16..24].copy_from_slice(&session.to_be_bytes());
    }

    pub(crate) fn set_cookie(encoded: &mut [u8], cookie: u64) {
        encoded[24..32].copy_from_slice(&cookie.to_be_bytes());
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if header[..8] != MAGIC || header[9] != VERSION {
            return None;
        }
        let number = |from: usize, to: usize| {
            header[from..to].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let kind = DatagramKind::from_repr(header[8])?;
        let text_bytes = number(10, 12) as usize;
        if text_bytes > MAX_TEXT_BYTES || text_bytes > 0 && !kind.may_have_text() {
            return None;
        }
        Some(Self {
            kind,
            sequence: number(12, 16) as u32,
            session: number(16, 24),
            cookie: number(24, 32),
            value: number(32, 40),
            text: std::str::from_utf8(rest.get(..text_bytes)?).ok()?.to_owned(),
        })
    }
}

pub(super) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// Smallest path MTU searched for: every host accepts it (RFC 791), every IPv6 link carries it (RFC 8200).
pub(crate) const fn floor_bytes(family: AddressFamily) -> u32 {
    match family {
        AddressFamily::Ipv4 => 576,
        AddressFamily::Ipv6 => SMALLEST_IPV6_MTU_BYTES,
    }
}

/// Size of an IP packet with a message without text or padding.
pub(crate) const fn tiny_bytes(family: AddressFamily) -> u32 {
    family.udp_packet_bytes(HEADER_BYTES)
}
