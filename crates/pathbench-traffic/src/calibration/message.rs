//! The datagrams of a calibration.
//!
//! ```text
//!  0..4 "PBCL"   4 kind   5 version   6..8 zero   8..16 session   16..24 cookie   24..64 five u64 values
//! ```
//! All big-endian; a datagram may be longer (padding).

/// Bytes of every message without padding.
pub(super) const MESSAGE_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"PBCL";
const VERSION: u8 = 1;

/// What a message is for. Values are named in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Initiator asks for a cookie.
    CookieRequest = 1,
    /// Responder gives it (in the cookie field).
    Cookie = 2,
    /// `[number]` To be returned.
    Echo = 3,
    /// `[number]` Returned.
    EchoReply = 4,
    /// [IP packet size] This datagram is as long as it says.
    SizeProbe = 5,
    /// [IP packet size] The probe of this size arrived.
    SizeSeen = 6,
    /// [IP packet size] Send me a probe of this size.
    SizeRequest = 7,
    /// [IP packet size] The local kernel would not send it.
    SizeRefused = 8,
    /// Empties the token bucket.
    Fill = 9,
    /// [train, wire rate asked, –, –, bucket bytes] Part of the train.
    Train = 10,
    /// `[train, wire rate asked, duration in ns, payload bytes, bucket bytes]` Send me a train.
    TrainRequest = 11,
    /// `[train]` The train is over.
    TrainEnd = 12,
    /// `[train]` What did you measure?
    ResultRequest = 13,
    /// [train, wire rate or 0, arrivals] The answer.
    Result = 14,
    /// `[series, number, time of sending in ns]` How long was I under way?
    Probe = 15,
    /// `[series, number of probes, spacing in ns]` Send me probes.
    ProbesRequest = 16,
    /// `[]` What became of my probes?
    ProbesResultRequest = 17,
    /// `[number received, smallest delay in ns, median, 95th percentile, largest]` The answer.
    ProbesResult = 18,
    /// `[train, wire rate asked, number, time of sending in ns]` Part of a train whose packets are numbered.
    NumberedTrain = 19,
    /// As `TrainRequest`, for a train whose packets are numbered.
    NumberedTrainRequest = 20,
}

impl Kind {
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::CookieRequest,
            2 => Self::Cookie,
            3 => Self::Echo,
            4 => Self::EchoReply,
            5 => Self::SizeProbe,
            6 => Self::SizeSeen,
            7 => Self::SizeRequest,
            8 => Self::SizeRefused,
            9 => Self::Fill,
            10 => Self::Train,
            11 => Self::TrainRequest,
            12 => Self::TrainEnd,
            13 => Self::ResultRequest,
            14 => Self::Result,
            15 => Self::Probe,
            16 => Self::ProbesRequest,
            17 => Self::ProbesResultRequest,
            18 => Self::ProbesResult,
            19 => Self::NumberedTrain,
            20 => Self::NumberedTrainRequest,
            _ => return None,
        })
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Chosen at random by the initiator.
    pub(super) session: u64,
    /// Proof that the initiator receives at its address.
    pub(super) cookie: u64,
    pub(super) values: [u64; 5],
}

impl Message {
    /// The message without padding.
    pub(super) fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = VERSION;
        let fields = [self.session, self.cookie].into_iter().chain(self.values);
        for (field, place) in fields.zip(bytes[8..].chunks_exact_mut(8)) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    /// Place of a value within the datagram.
    pub(super) const fn place_of_value(index: usize) -> std::ops::Range<usize> {
        let from = 24 + index * 8;
        from..from + 8
    }

    /// The message padded to `length` bytes.
    pub(super) fn encode_padded(&self, length: usize) -> Vec<u8> {
        let mut bytes = self.encode().to_vec();
        // Not zeros, and not shorter than a message.
        bytes.resize(length.max(MESSAGE_BYTES), 0xa5);
        bytes
    }

    /// `None` for anything that is not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<MESSAGE_BYTES>()?;
        if header[..4] != MAGIC || header[5] != VERSION || header[6..8] != [0, 0] {
            return None;
        }
        let mut fields = header[8..]
            .chunks_exact(8)
            .map(|field| field.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)));
        Some(Self {
            kind: Kind::from_code(header[4])?,
            session: fields.next()?,
            cookie: fields.next()?,
            values: [fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_round_trip(code in 1_u8..=20, fields in any::<[u64; 7]>(), padding in 0_usize..2000) {
            let message = Message {
                kind: Kind::from_code(code).unwrap(),
                session: fields[0],
                cookie: fields[1],
                values: [fields[2], fields[3], fields[4], fields[5], fields[6]],
            };
            prop_assert_eq!(Message::decode(&message.encode_padded(padding)), Some(message));
        }

        #[test]
        fn garbage_is_no_message(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(Message::decode(&bytes), None);
        }
    }
}
