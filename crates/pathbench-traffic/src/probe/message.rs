//! The datagrams of probes: a [`Header`], whose own part is the time of sending, a text, and padding. The time is the
//! prober's own and comes back as it was sent.

use super::header::Header;

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
    pub fn encode(&self, length: usize) -> Vec<u8> {
        let text = cut(&self.text, MAX_TEXT_BYTES).as_bytes();
        let header = Header {
            kind: self.kind as u8,
            text_bytes: text.len() as u16,
            sequence: self.sequence,
            session: self.session,
            cookie: self.cookie,
            own: self.sent_ns,
        };
        let mut bytes = header.encode();
        bytes.extend(text);
        bytes.resize(bytes.len().max(length), 0);
        bytes
    }

    /// `None` for anything that is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = Header::decode(bytes)?;
        let length = usize::from(header.text_bytes);
        if length > MAX_TEXT_BYTES {
            return None;
        }
        Some(Self {
            kind: ProbeKind::from_code(header.kind)?,
            sequence: header.sequence,
            session: header.session,
            cookie: header.cookie,
            sent_ns: header.own,
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
    use super::super::MAGIC;
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
