//! The control frames, their bodies, and the JSON in HELLO.

use super::format::{DecodeError, FLAG_CUT_SHORT, FLAG_END_TEST, FrameKind, HEADER_BYTES, MAGIC, VERSION};
use pathbench_record::end::TestId;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::text;
use pathbench_record::transport::Transport;
use pathbench_record::units::milliseconds;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// A control frame. DATA is not included: its body is never in memory as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlFrame {
    Hello(HelloFrame),
    Accept,
    Refuse(TestRefusal),
    Start,
    End(EndFrame),
    Done { bytes: u64 },
    Record(Vec<u8>),
    Fetch(Fetch),
    NotFound,
    Message(MessageFrame),
    Acknowledge { sequence: u32 },
    Answer(MessageFrame),
    Stop,
}

/// Body of MESSAGE and ANSWER: sequence number (u32) of the request, content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageFrame {
    /// From 0 on each stream; an answer has the sequence number of its request.
    pub sequence: u32,
    pub content: Vec<u8>,
}

/// Body of HELLO: magic, version (u16), test id (16 bytes), stream (u32), request (JSON).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloFrame {
    pub version: u16,
    pub test: TestId,
    /// Index of the stream in the test, from 0.
    pub stream: u32,
    pub request: Vec<u8>,
}

/// Body of END: payload bytes sent (u64), nanoseconds from the first to the last of them (u64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndFrame {
    /// DATA payload sent on this connection, in bytes. Below 2^63.
    pub bytes: u64,
    /// From the first to the last byte passed to the sender's socket.
    pub elapsed_ns: u64,
    /// The sender stopped at its own limit, before the requested amount.
    pub cut_short: bool,
}

/// Body of FETCH: magic, version (u16), test id (16 bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    pub version: u16,
    pub test: TestId,
    /// The client has abandoned the test: the server ends it if it still runs, and then answers.
    pub end_test: bool,
}

/// Longest message of a refusal, in characters; it is shown on a terminal.
const MOST_CHARACTERS: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRefusal {
    pub code: RefusalCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl fmt::Display for TestRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.retry_after_ms {
            None => Ok(()),
            Some(ms) => write!(f, " (try again in {})", text::duration(Duration::from_millis(ms))),
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
    /// The server requires a token; the request has none or an invalid one.
    Access,
    ShuttingDown,
}

pub const fn data_header(length: u32) -> [u8; HEADER_BYTES] {
    header(FrameKind::Data, 0, length)
}

pub(crate) const fn header(kind: FrameKind, flags: u8, length: u32) -> [u8; HEADER_BYTES] {
    let length = length.to_be_bytes();
    [kind as u8, flags, 0, 0, length[0], length[1], length[2], length[3]]
}

impl ControlFrame {
    pub fn kind(&self) -> FrameKind {
        self.parts().0
    }

    pub fn encode(&self) -> Result<Vec<u8>, DecodeError> {
        let (kind, flags, body) = self.parts();
        let (_, bounds, _) = kind.properties();
        if !bounds.contains(&body.len()) {
            return Err(DecodeError::length(kind, body.len(), &bounds));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&header(kind, flags, body.len() as u32));
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    fn parts(&self) -> (FrameKind, u8, Vec<u8>) {
        let plain = |kind| (kind, 0, Vec::new());
        let message =
            |message: &MessageFrame| [&message.sequence.to_be_bytes()[..], &message.content].concat();
        match self {
            Self::Accept => plain(FrameKind::Accept),
            Self::Start => plain(FrameKind::Start),
            Self::NotFound => plain(FrameKind::NotFound),
            Self::Stop => plain(FrameKind::Stop),
            Self::Hello(HelloFrame { version, test, stream, request }) => {
                let fields = [&MAGIC[..], &version.to_be_bytes(), &test.0, &stream.to_be_bytes(), request];
                (FrameKind::Hello, 0, fields.concat())
            }
            // A struct of strings and numbers always serialises; `encode` would reject an empty body.
            Self::Refuse(refusal) => (FrameKind::Refuse, 0, serde_json::to_vec(refusal).unwrap_or_default()),
            Self::End(EndFrame { bytes, elapsed_ns, cut_short }) => {
                let flags = if *cut_short { FLAG_CUT_SHORT } else { 0 };
                (FrameKind::End, flags, [bytes.to_be_bytes(), elapsed_ns.to_be_bytes()].concat())
            }
            Self::Done { bytes } => (FrameKind::Done, 0, bytes.to_be_bytes().to_vec()),
            Self::Record(json) => (FrameKind::Record, 0, json.clone()),
            Self::Acknowledge { sequence } => (FrameKind::Acknowledge, 0, sequence.to_be_bytes().to_vec()),
            Self::Message(request) => (FrameKind::Message, 0, message(request)),
            Self::Answer(answer) => (FrameKind::Answer, 0, message(answer)),
            Self::Fetch(Fetch { version, test, end_test }) => {
                let flags = if *end_test { FLAG_END_TEST } else { 0 };
                (FrameKind::Fetch, flags, [&MAGIC[..], &version.to_be_bytes(), &test.0].concat())
            }
        }
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
            FrameKind::End => Self::End(EndFrame {
                bytes: fields.byte_count()?,
                elapsed_ns: u64::from_be_bytes(fields.take()?),
                cut_short: flags & FLAG_CUT_SHORT != 0,
            }),
            FrameKind::Hello => {
                fields.magic()?;
                Self::Hello(HelloFrame {
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
                let TestRefusal { code, message, retry_after_ms } = serde_json::from_slice(&body)
                    .map_err(|error| DecodeError::Malformed { kind, reason: error.to_string() })?;
                Self::Refuse(TestRefusal::new(code, message, retry_after_ms))
            }
            FrameKind::Data => {
                let reason = "test data is not a control frame".to_owned();
                return Err(DecodeError::Malformed { kind, reason });
            }
        })
    }
}

impl EndFrame {
    /// Whether the sender sent everything requested, and exactly `received` bytes.
    pub const fn is_complete(&self, received: u64) -> bool {
        !self.cut_short && self.bytes == received
    }
}

impl HelloFrame {
    pub const fn new(test: TestId, stream: u32, request: Vec<u8>) -> Self {
        Self { version: VERSION, test, stream, request }
    }
}

impl TestRefusal {
    /// A refusal. The message is limited to one line of 500 characters, which fits into a frame.
    pub fn new(code: RefusalCode, message: impl AsRef<str>, retry_after_ms: Option<u64>) -> Self {
        Self { code, message: text::printable(message.as_ref(), MOST_CHARACTERS), retry_after_ms }
    }
}

struct Fields<'a> {
    kind: FrameKind,
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((field, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.malformed_error("it ends within a field"));
        };
        self.rest = rest;
        Ok(*field)
    }

    fn magic(&mut self) -> Result<(), DecodeError> {
        if self.take::<8>()? == MAGIC { Ok(()) } else { Err(DecodeError::Magic { kind: self.kind }) }
    }

    fn message(&mut self) -> Result<MessageFrame, DecodeError> {
        Ok(MessageFrame { sequence: u32::from_be_bytes(self.take()?), content: self.rest.to_vec() })
    }

    fn byte_count(&mut self) -> Result<u64, DecodeError> {
        let count = u64::from_be_bytes(self.take()?);
        if count >> 63 == 0 {
            Ok(count)
        } else {
            Err(self.malformed_error("a count of 2^63 bytes or more is impossible"))
        }
    }

    fn malformed_error(&self, reason: &str) -> DecodeError {
        DecodeError::Malformed { kind: self.kind, reason: reason.to_owned() }
    }
}

const PATTERNS: [&str; 6] = ["ping", "bulk", "throughput", "interactive", "responsiveness", "datagrams"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRequest {
    pub transport: Transport,
    #[serde(rename = "patience_ms", with = "milliseconds")]
    pub patience: Duration,
    #[serde(flatten)]
    pub parameters: PatternParameters,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(rename = "sample_interval_ms", with = "milliseconds", default)]
    pub sample_interval: Duration,
}

#[derive(Debug, Error)]
pub enum RequestError {
    #[error("this server does not know the pattern `{pattern}`; it knows {}", PATTERNS.join(", "))]
    UnknownPattern { pattern: String },
    #[error("the request is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the request is invalid: {0}")]
    Parameters(String),
}

impl TestRequest {
    pub fn to_json(&self) -> Vec<u8> {
        // A struct of numbers and strings always serialises.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn from_json(json: &[u8]) -> Result<Self, RequestError> {
        #[derive(Deserialize)]
        struct Named {
            pattern: String,
        }
        let Named { pattern } = serde_json::from_slice(json)?;
        if !PATTERNS.contains(&pattern.as_str()) {
            let pattern = pattern.chars().take(40).collect();
            return Err(RequestError::UnknownPattern { pattern });
        }
        let request: Self = serde_json::from_slice(json)?;
        request.parameters.validate().map_err(|wrong| {
            let words: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            RequestError::Parameters(words.join("; "))
        })?;
        Ok(request)
    }
}
