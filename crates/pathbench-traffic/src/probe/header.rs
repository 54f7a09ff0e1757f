//! What every datagram that a server answers beside QUIC begins with.
//!
//! ```text
//!  0..8  0x0b "pbprobe"   8 kind   9 version   10..12 length of the text   12..16 sequence
//! 16..24 session   24..32 cookie   32..40 the kind's own
//! ```
//! All big-endian.

/// Bytes of every message without text and padding.
pub const HEADER_BYTES: usize = 40;

/// No QUIC packet begins so: the first byte alone could be that of one whose QUIC bit is greased (RFC 9287), but then
/// a connection id chosen by the server follows.
pub const MAGIC: [u8; 8] = *b"\x0bpbprobe";

const VERSION: u8 = 1;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) text_bytes: u16,
    pub(crate) sequence: u32,
    pub(crate) session: u64,
    pub(crate) cookie: u64,
    pub(crate) own: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend([self.kind, VERSION]);
        bytes.extend(self.text_bytes.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        for field in [self.session, self.cookie, self.own] {
            bytes.extend(field.to_be_bytes());
        }
        bytes
    }

    /// The header and what follows it; `None` for anything that does not begin with one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if header[..8] != MAGIC || header[9] != VERSION {
            return None;
        }
        let number = |from: usize, to: usize| {
            header[from..to].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let header = Self {
            kind: header[8],
            text_bytes: number(10, 12) as u16,
            sequence: number(12, 16) as u32,
            session: number(16, 24),
            cookie: number(24, 32),
            own: number(32, 40),
        };
        Some((header, rest))
    }
}

#[cfg(test)]
mod tests {
    use crate::path_mtu::{SizeKind, SizeMessage};
    use crate::probe::{ProbeKind, ProbeMessage};

    #[test]
    fn messages_are_these_bytes() {
        let probe = ProbeMessage {
            kind: ProbeKind::Probe,
            sequence: 0x0102_0304,
            session: 0x1112_1314_1516_1718,
            cookie: 0x2122_2324_2526_2728,
            sent_ns: 0x3132_3334_3536_3738,
            text: "hi".to_owned(),
        };
        let common = b"\x01\x02\x03\x04\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x25\x26\x27\x28";
        let ending = b"\x31\x32\x33\x34\x35\x36\x37\x38";
        let expected = [&b"\x0bpbprobe\x04\x01\x00\x02"[..], common, ending, b"hi\0"].concat();
        assert_eq!(probe.encode(43), expected);
        let size = SizeMessage {
            kind: SizeKind::TooLong,
            sequence: probe.sequence,
            session: probe.session,
            cookie: probe.cookie,
            size_bytes: 0x3132_3334,
            limit_bytes: 0x3536_3738,
        };
        let expected = [&b"\x0bpbprobe\x14\x01\x00\x00"[..], common, ending, b"\0"].concat();
        assert_eq!(size.encode(41), expected);
    }
}
