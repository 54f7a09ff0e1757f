//! The datagrams of an examination: the [`Header`] of [`crate::probe`]'s messages without a text, whose own part is the
//! size and the limit (four bytes each, big-endian), and padding.

use crate::probe::{HEADER_BYTES, Header};

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SizeKind {
    /// Client, as long as it wants to know about: does this arrive?
    Size = 16,
    /// Server: it did, as an IP packet of `size` bytes.
    Arrived = 17,
    /// Client: send me an IP packet of `size` bytes.
    Ask = 18,
    /// Server: the packet that was asked for.
    Load = 19,
    /// Server: my interface does not take a packet of `size` bytes, but of `limit` (0 when it does not know).
    TooLong = 20,
    /// Server: you have asked for more than anybody gets in so short a time.
    Busy = 21,
    /// Client: how long a packet to me does your kernel believe to get through?
    Belief = 22,
    /// Server: it is `limit` (0 when it does not know).
    Believed = 23,
}

/// A message of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeMessage {
    /// What it is for.
    pub kind: SizeKind,
    /// The probe's number; of an answer, that of what it answers.
    pub sequence: u32,
    /// Chosen at random by the client.
    pub session: u64,
    /// The server's word that the client receives at its address, and may probe.
    pub cookie: u64,
    /// Of an IP packet, headers included.
    pub size_bytes: u32,
    /// The most that the server's interface takes, or its kernel believes to get through; 0 when that is not known.
    pub limit_bytes: u32,
}

impl SizeKind {
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            16 => Self::Size,
            17 => Self::Arrived,
            18 => Self::Ask,
            19 => Self::Load,
            20 => Self::TooLong,
            21 => Self::Busy,
            22 => Self::Belief,
            23 => Self::Believed,
            _ => return None,
        })
    }
}

impl SizeMessage {
    /// The message, padded to `length` bytes; never shorter than a header.
    pub fn encode(&self, length: usize) -> Vec<u8> {
        let header = Header {
            kind: self.kind as u8,
            text_bytes: 0,
            sequence: self.sequence,
            session: self.session,
            cookie: self.cookie,
            own: u64::from(self.size_bytes) << 32 | u64::from(self.limit_bytes),
        };
        let mut bytes = header.encode();
        bytes.resize(length.max(HEADER_BYTES), 0);
        bytes
    }

    /// `None` for anything that is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, _padding) = Header::decode(bytes)?;
        if header.text_bytes != 0 {
            return None;
        }
        Some(Self {
            kind: SizeKind::from_code(header.kind)?,
            sequence: header.sequence,
            session: header.session,
            cookie: header.cookie,
            size_bytes: (header.own >> 32) as u32,
            limit_bytes: header.own as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{MAGIC, ProbeMessage};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_round_trip_and_are_no_probes(
            code in 16_u8..=23,
            numbers in any::<(u32, u64, u64, u32, u32)>(),
            length in 0_usize..2000,
        ) {
            let message = SizeMessage {
                kind: SizeKind::from_code(code).unwrap(),
                sequence: numbers.0,
                session: numbers.1,
                cookie: numbers.2,
                size_bytes: numbers.3,
                limit_bytes: numbers.4,
            };
            let bytes = message.encode(length);
            prop_assert_eq!(bytes.len(), length.max(HEADER_BYTES));
            prop_assert_eq!(SizeMessage::decode(&bytes), Some(message));
            prop_assert_eq!(ProbeMessage::decode(&bytes), None);
            prop_assert_eq!(SizeMessage::decode(&bytes[..HEADER_BYTES - 1]), None);
        }

        #[test]
        fn arbitrary_bytes_are_read_or_not(magic in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = if magic { [&MAGIC[..], &bytes].concat() } else { bytes };
            if let Some(message) = SizeMessage::decode(&bytes) {
                prop_assert_eq!(message.encode(0), &bytes[..HEADER_BYTES]);
            }
        }
    }
}
