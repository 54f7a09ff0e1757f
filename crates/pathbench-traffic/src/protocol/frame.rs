//! Frame types, their bodies, and how they are written.

use super::{DecodeError, HEADER_BYTES, MAGIC, MAX_DATA_BYTES, MAX_HELLO_BYTES, MAX_SMALL_BYTES, VERSION};
use pathbench_record::end::MAX_RECORD_BYTES;
use pathbench_record::pattern::{MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES};
use pathbench_record::test_id::TestId;
use pathbench_record::text;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Byte 0 of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    Hello = 1,
    Accept = 2,
    /// Server does not, or ends a test by force.
    Refuse = 3,
    /// Client: every stream of the test is accepted, data may flow.
    Start = 4,
    Data = 5,
    /// The sender of test data has sent all of it.
    End = 6,
    /// The receiver of test data has received up to END.
    Done = 7,
    Record = 8,
    Fetch = 9,
    NotFound = 10,
    Message = 11,
    /// The whole of a request was received.
    Acknowledge = 12,
    Answer = 13,
    /// Who answers asks who asks to make no further request (interactive).
    Stop = 14,
}

/// Of each kind: its name, the bounds of its body in bytes, and the flags it may have.
const KINDS: [(FrameKind, &str, [usize; 2], u8); 14] = [
    (FrameKind::Hello, "HELLO", [MAGIC.len() + 2 + 16 + 4, MAX_HELLO_BYTES], 0),
    (FrameKind::Accept, "ACCEPT", [0, 0], 0),
    (FrameKind::Refuse, "REFUSE", [2, MAX_SMALL_BYTES], 0),
    (FrameKind::Start, "START", [0, 0], 0),
    (FrameKind::Data, "DATA", [1, MAX_DATA_BYTES], 0),
    (FrameKind::End, "END", [16, 16], FLAG_CUT_SHORT),
    (FrameKind::Done, "DONE", [8, 8], 0),
    (FrameKind::Record, "RECORD", [2, MAX_RECORD_BYTES], 0),
    (FrameKind::Fetch, "FETCH", [MAGIC.len() + 2 + 16, MAGIC.len() + 2 + 16], FLAG_END_TEST),
    (FrameKind::NotFound, "NOT_FOUND", [0, 0], 0),
    (FrameKind::Message, "MESSAGE", [MIN_MESSAGE_BYTES, MAX_MESSAGE_BYTES], 0),
    (FrameKind::Acknowledge, "ACKNOWLEDGE", [4, 4], 0),
    (FrameKind::Answer, "ANSWER", [MIN_MESSAGE_BYTES, MAX_MESSAGE_BYTES], 0),
    (FrameKind::Stop, "STOP", [0, 0], 0),
];

impl FrameKind {
    pub fn from_code(code: u8) -> Option<Self> {
        // In the order of their codes, which begin with 1.
        KINDS.get(usize::from(code).checked_sub(1)?).map(|(kind, ..)| *kind)
    }

    const fn properties(self) -> &'static (Self, &'static str, [usize; 2], u8) {
        &KINDS[self as usize - 1]
    }

    pub(super) const fn body_bounds(self) -> (usize, usize) {
        let [least, most] = self.properties().2;
        (least, most)
    }

    pub(super) const fn known_flags(self) -> u8 {
        self.properties().3
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.properties().1)
    }
}

/// END: the sender stopped before the amount that was asked for.
const FLAG_CUT_SHORT: u8 = 1;

/// FETCH: end the test first if it is still running.
const FLAG_END_TEST: u8 = 1;

/// A control frame. DATA is not one: its body never is in memory as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Hello(Hello),
    Accept,
    Refuse(Refusal),
    Start,
    End(End),
    Done { bytes: u64 },
    Record(Vec<u8>),
    Fetch(Fetch),
    NotFound,
    Message(Message),
    Acknowledge { sequence: u32 },
    Answer(Message),
    Stop,
}

/// Body of MESSAGE and ANSWER: sequence number (u32) of the request, content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// From 0 on each stream; the answer to a request carries the request's.
    pub sequence: u32,
    pub content: Vec<u8>,
}

/// Body of HELLO: magic, version (u16), test id (16 bytes), stream (u32), request (JSON).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    pub test: TestId,
    /// Which of its streams this connection is, from 0.
    pub stream: u32,
    pub request: Vec<u8>,
}

/// Body of END: payload bytes sent (u64), nanoseconds from the first to the last of them (u64).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// DATA payload sent on this connection, in bytes. Below 2^63.
    pub bytes: u64,
    /// From the first to the last byte handed to the sender's socket.
    pub elapsed_ns: u64,
    /// The sender stopped before the amount that was asked for (a limit of its own).
    pub cut_short: bool,
}

/// Body of FETCH: magic, version (u16), test id (16 bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    pub version: u16,
    pub test: TestId,
    /// The client has given the test up: end it now if it still runs, then answer.
    pub end_test: bool,
}

/// Characters of a refusal's message: it is shown on a terminal.
const MOST_CHARACTERS: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: RefusalCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.retry_after_ms {
            None => Ok(()),
            Some(ms) => write!(f, " (try again in {} s)", ms.div_ceil(1000)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCode {
    Busy,
    Limit,
    BadRequest,
    Unsupported,
    /// It takes a token, and there is none, or not a valid one.
    Access,
    ShuttingDown,
}

pub const fn data_header(length: u32) -> [u8; HEADER_BYTES] {
    header(FrameKind::Data, 0, length)
}

pub(crate) const fn record_header(length: u32) -> [u8; HEADER_BYTES] {
    header(FrameKind::Record, 0, length)
}

const fn header(kind: FrameKind, flags: u8, length: u32) -> [u8; HEADER_BYTES] {
    let length = length.to_be_bytes();
    [kind as u8, flags, 0, 0, length[0], length[1], length[2], length[3]]
}

impl Frame {
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Hello(_) => FrameKind::Hello,
            Self::Accept => FrameKind::Accept,
            Self::Refuse(_) => FrameKind::Refuse,
            Self::Start => FrameKind::Start,
            Self::End(_) => FrameKind::End,
            Self::Done { .. } => FrameKind::Done,
            Self::Record(_) => FrameKind::Record,
            Self::Fetch(_) => FrameKind::Fetch,
            Self::NotFound => FrameKind::NotFound,
            Self::Message(_) => FrameKind::Message,
            Self::Acknowledge { .. } => FrameKind::Acknowledge,
            Self::Answer(_) => FrameKind::Answer,
            Self::Stop => FrameKind::Stop,
        }
    }

    pub fn encode(&self) -> Result<Vec<u8>, DecodeError> {
        let (flags, body) = self.body();
        let kind = self.kind();
        let (least, most) = kind.body_bounds();
        if !(least..=most).contains(&body.len()) {
            return Err(DecodeError::Length { kind, length: body.len() as u64, least, most });
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&header(kind, flags, body.len() as u32));
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    fn body(&self) -> (u8, Vec<u8>) {
        let mut body = Vec::new();
        let mut flags = 0;
        match self {
            Self::Accept | Self::Start | Self::NotFound | Self::Stop => {}
            Self::Hello(hello) => {
                body.extend_from_slice(&MAGIC);
                body.extend_from_slice(&hello.version.to_be_bytes());
                body.extend_from_slice(&hello.test.0);
                body.extend_from_slice(&hello.stream.to_be_bytes());
                body.extend_from_slice(&hello.request);
            }
            Self::Refuse(refusal) => body = refusal.to_json(),
            Self::End(end) => {
                flags = if end.cut_short { FLAG_CUT_SHORT } else { 0 };
                body.extend_from_slice(&end.bytes.to_be_bytes());
                body.extend_from_slice(&end.elapsed_ns.to_be_bytes());
            }
            Self::Done { bytes } => body.extend_from_slice(&bytes.to_be_bytes()),
            Self::Record(json) => body.extend_from_slice(json),
            Self::Acknowledge { sequence } => body.extend_from_slice(&sequence.to_be_bytes()),
            Self::Message(message) | Self::Answer(message) => {
                body.extend_from_slice(&message.sequence.to_be_bytes());
                body.extend_from_slice(&message.content);
            }
            Self::Fetch(fetch) => {
                flags = if fetch.end_test { FLAG_END_TEST } else { 0 };
                body.extend_from_slice(&MAGIC);
                body.extend_from_slice(&fetch.version.to_be_bytes());
                body.extend_from_slice(&fetch.test.0);
            }
        }
        (flags, body)
    }

    pub(super) fn parse(kind: FrameKind, flags: u8, body: Vec<u8>) -> Result<Self, DecodeError> {
        let mut fields = Fields { kind, rest: &body };
        Ok(match kind {
            FrameKind::Accept => Self::Accept,
            FrameKind::Start => Self::Start,
            FrameKind::NotFound => Self::NotFound,
            FrameKind::Stop => Self::Stop,
            FrameKind::Record => Self::Record(body),
            FrameKind::Done => Self::Done { bytes: fields.byte_count()? },
            FrameKind::Acknowledge => Self::Acknowledge { sequence: u32::from_be_bytes(fields.take()?) },
            FrameKind::Message => Self::Message(fields.message()?),
            FrameKind::Answer => Self::Answer(fields.message()?),
            FrameKind::End => Self::End(End {
                bytes: fields.byte_count()?,
                elapsed_ns: u64::from_be_bytes(fields.take()?),
                cut_short: flags & FLAG_CUT_SHORT != 0,
            }),
            FrameKind::Hello => {
                fields.magic()?;
                Self::Hello(Hello {
                    version: u16::from_be_bytes(fields.take()?),
                    test: TestId(fields.take()?),
                    stream: u32::from_be_bytes(fields.take()?),
                    request: fields.rest.to_vec(),
                })
            }
            FrameKind::Fetch => {
                fields.magic()?;
                Self::Fetch(Fetch {
                    version: u16::from_be_bytes(fields.take()?),
                    test: TestId(fields.take()?),
                    end_test: flags & FLAG_END_TEST != 0,
                })
            }
            FrameKind::Refuse => {
                let Refusal { code, message, retry_after_ms } = serde_json::from_slice(&body)
                    .map_err(|error| DecodeError::Malformed { kind, reason: error.to_string() })?;
                Self::Refuse(Refusal::new(code, message, retry_after_ms))
            }
            FrameKind::Data => {
                let reason = "test data is not a control frame".to_owned();
                return Err(DecodeError::Malformed { kind, reason });
            }
        })
    }
}

impl Hello {
    pub const fn new(test: TestId, stream: u32, request: Vec<u8>) -> Self {
        Self { version: VERSION, test, stream, request }
    }
}

impl Refusal {
    /// A refusal; the message becomes one line of at most 500 characters, which a frame can carry.
    pub fn new(code: RefusalCode, message: impl AsRef<str>, retry_after_ms: Option<u64>) -> Self {
        Self { code, message: text::plain(message.as_ref(), MOST_CHARACTERS), retry_after_ms }
    }

    fn to_json(&self) -> Vec<u8> {
        // A struct of strings and numbers always serialises; an empty body would be refused by `encode`.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

struct Fields<'a> {
    kind: FrameKind,
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((field, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.malformed("it ends within a field"));
        };
        self.rest = rest;
        Ok(*field)
    }

    fn magic(&mut self) -> Result<(), DecodeError> {
        if self.take::<8>()? == MAGIC { Ok(()) } else { Err(DecodeError::Magic { kind: self.kind }) }
    }

    fn message(&mut self) -> Result<Message, DecodeError> {
        Ok(Message { sequence: u32::from_be_bytes(self.take()?), content: self.rest.to_vec() })
    }

    fn byte_count(&mut self) -> Result<u64, DecodeError> {
        let count = u64::from_be_bytes(self.take()?);
        if count >> 63 == 0 {
            Ok(count)
        } else {
            Err(self.malformed("a count of 2^63 bytes or more cannot be true"))
        }
    }

    fn malformed(&self, reason: &str) -> DecodeError {
        DecodeError::Malformed { kind: self.kind, reason: reason.to_owned() }
    }
}
