//! The datagrams of probes.
//!
//! ```text
//!  0..8  0x0b "pbprobe"   8 kind   9 version   10..12 length of the text   12..16 sequence
//! 16..24 session   24..32 cookie   32..40 time of sending   40.. text, padding
//! ```
//! All big-endian. The time is the prober's own and comes back as it was sent.

/// Bytes of every message without text and padding.
pub const HEADER_BYTES: usize = 40;

/// No QUIC packet begins so: the first byte alone could be that of one whose QUIC bit is greased (RFC 9287), but then
/// a connection id chosen by the server follows.
pub const MAGIC: [u8; 8] = *b"\x0bpbprobe";

const VERSION: u8 = 1;

/// Longest text.
pub const MAX_TEXT_BYTES: usize = 512;

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ProbeKind {
    /// Prober, with its token as text: may I probe?
    Hello = 1,
    /// Responder, with a cookie: yes.
    Welcome = 2,
    /// Responder, with the reason as text: no.
    Refused = 3,
    /// Prober, with the cookie: are you there?
    Probe = 4,
    /// Responder: yes.
    Answer = 5,
}

/// A message of a prober or a responder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeMessage {
    /// What it is for.
    pub kind: ProbeKind,
    /// The probe's number; of an answer, that of what it answers.
    pub sequence: u32,
    /// Chosen at random by the prober.
    pub session: u64,
    /// The responder's word that the prober receives at its address, and may probe.
    pub cookie: u64,
    /// When it was sent, on the prober's clock; an answer returns it.
    pub sent_ns: u64,
    /// A token or a reason; at most [`MAX_TEXT_BYTES`].
    pub text: String,
}

impl ProbeKind {
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Refused,
            4 => Self::Probe,
            5 => Self::Answer,
            _ => return None,
        })
    }
}

impl ProbeMessage {
    /// The message, padded to at least `length` bytes. A text that is too long is cut.
    #[must_use]
    pub fn encode(&self, length: usize) -> Vec<u8> {
        let text = cut(&self.text, MAX_TEXT_BYTES).as_bytes();
        let mut bytes = Vec::with_capacity(length.max(HEADER_BYTES + text.len()));
        bytes.extend(MAGIC);
        bytes.extend([self.kind as u8, VERSION]);
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        for field in [self.session, self.cookie, self.sent_ns] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(text);
        bytes.resize(bytes.len().max(length), 0);
        bytes
    }

    /// `None` for anything that is not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if header[..8] != MAGIC || header[9] != VERSION {
            return None;
        }
        let number = |from: usize, to: usize| {
            header[from..to].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let length = number(10, 12) as usize;
        if length > MAX_TEXT_BYTES {
            return None;
        }
        Some(Self {
            kind: ProbeKind::from_code(header[8])?,
            sequence: number(12, 16) as u32,
            session: number(16, 24),
            cookie: number(24, 32),
            sent_ns: number(32, 40),
            text: std::str::from_utf8(rest.get(..length)?).ok()?.to_owned(),
        })
    }
}

/// The longest beginning of `text` of at most `most` bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_round_trip(
            code in 1_u8..=5,
            numbers in any::<(u32, u64, u64, u64)>(),
            text in "\\PC{0,200}",
            padding in 0_usize..900,
        ) {
            let message = ProbeMessage {
                kind: ProbeKind::from_code(code).unwrap(),
                sequence: numbers.0,
                session: numbers.1,
                cookie: numbers.2,
                sent_ns: numbers.3,
                text: cut(&text, MAX_TEXT_BYTES).to_owned(),
            };
            let bytes = message.encode(padding);
            prop_assert!(bytes.len() >= padding);
            prop_assert_eq!(ProbeMessage::decode(&bytes), Some(message));
        }

        #[test]
        fn arbitrary_bytes_are_read_or_not(
            magic in any::<bool>(),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes = if magic { [&MAGIC[..], &bytes].concat() } else { bytes };
            if let Some(message) = ProbeMessage::decode(&bytes) {
                prop_assert!(message.text.len() <= MAX_TEXT_BYTES);
                prop_assert_eq!(ProbeMessage::decode(&message.encode(0)), Some(message));
            }
        }
    }

    #[test]
    fn a_message_cut_short_or_of_another_version_is_none() {
        let message = ProbeMessage {
            kind: ProbeKind::Hello,
            sequence: 1,
            session: 2,
            cookie: 3,
            sent_ns: 4,
            text: "token".to_owned(),
        };
        let bytes = message.encode(0);
        for length in 0..bytes.len() {
            assert_eq!(ProbeMessage::decode(&bytes[..length]), None, "{length}");
        }
        for (place, value) in [(0, 0x40), (8, 0), (8, 6), (9, 2), (10, 0xff), (40, 0xff)] {
            let mut other = bytes.clone();
            other[place] = value;
            assert_eq!(ProbeMessage::decode(&other), None, "{place}");
        }
        let long = ProbeMessage { text: "ü".repeat(400), ..message }.encode(0);
        assert_eq!(ProbeMessage::decode(&long).unwrap().text, "ü".repeat(256));
    }
}
