//! The constants of the format, the kinds of frames, and the errors of decoding.

use pathbench_record::end::MAX_RECORD_BYTES;
use pathbench_record::pattern::{MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES};
use std::fmt;
use std::ops::RangeInclusive;
use thiserror::Error;

/// First bytes of the body of HELLO and FETCH.
pub const MAGIC: [u8; 8] = *b"PATHBNCH";

pub const VERSION: u16 = 2;

pub const HEADER_BYTES: usize = 8;

pub const MAX_HELLO_BYTES: usize = 64 * 1024;

/// Largest body of the other small frames (ACCEPT, REFUSE).
pub const MAX_SMALL_BYTES: usize = 4 * 1024;

/// Largest body of DATA. No receiver holds it in memory as a whole.
pub const MAX_DATA_BYTES: usize = 16 * 1024 * 1024;

/// Declares each kind of frame once: its code, its name, the bounds of its body in bytes, and its permitted flags.
macro_rules! frame_kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal, $name:literal, $body:expr, $flags:expr;)*) => {
        /// Byte 0 of a header.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, strum::FromRepr)]
        #[repr(u8)]
        pub enum FrameKind {
            $($(#[$doc])* $kind = $code,)*
        }

        impl FrameKind {
            pub(crate) const fn name(self) -> &'static str {
                self.properties().0
            }

            pub(super) const fn properties(self) -> (&'static str, RangeInclusive<usize>, u8) {
                match self {
                    $(Self::$kind => ($name, $body, $flags),)*
                }
            }
        }
    };
}

frame_kinds! {
    Hello = 1, "HELLO", FETCH_BYTES + 4..=MAX_HELLO_BYTES, 0;
    Accept = 2, "ACCEPT", 0..=0, 0;
    /// Server: rejects the request, or ends a running test.
    Refuse = 3, "REFUSE", 2..=MAX_SMALL_BYTES, 0;
    /// Client: every stream of the test is accepted. Server, in answer: data may follow.
    Start = 4, "START", 0..=0, 0;
    Data = 5, "DATA", 1..=MAX_DATA_BYTES, 0;
    /// The sender of test data has sent all of it.
    End = 6, "END", 16..=16, FLAG_CUT_SHORT;
    /// The receiver has received all test data up to END.
    Done = 7, "DONE", 8..=8, 0;
    Record = 8, "RECORD", 2..=MAX_RECORD_BYTES, 0;
    Fetch = 9, "FETCH", FETCH_BYTES..=FETCH_BYTES, FLAG_END_TEST;
    NotFound = 10, "NOT_FOUND", 0..=0, 0;
    Message = 11, "MESSAGE", MIN_MESSAGE_BYTES..=MAX_MESSAGE_BYTES, 0;
    /// A request was received completely.
    Acknowledge = 12, "ACKNOWLEDGE", 4..=4, 0;
    Answer = 13, "ANSWER", MIN_MESSAGE_BYTES..=MAX_MESSAGE_BYTES, 0;
    /// The receiver of requests asks for no further requests (interactive).
    Stop = 14, "STOP", 0..=0, 0;
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Magic, version and test id.
const FETCH_BYTES: usize = MAGIC.len() + 2 + 16;

/// END: the sender stopped before the requested amount.
pub(super) const FLAG_CUT_SHORT: u8 = 1;

/// FETCH: the server ends the test first if it is still running.
pub(super) const FLAG_END_TEST: u8 = 1;

/// The peer's bytes violate the test protocol. Nothing after the first such error can be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("the peer does not speak Pathbench's test protocol: frame type {code:#04x} does not exist")]
    UnknownType { code: u8 },
    #[error("the peer does not speak Pathbench's test protocol: reserved bits are set in a {kind} header")]
    Reserved { kind: FrameKind },
    #[error("the peer announced a {kind} body of {length} bytes; allowed here are {least} to {most}")]
    Length { kind: FrameKind, length: u64, least: usize, most: usize },
    #[error("the peer does not speak Pathbench's test protocol: its {kind} lacks the magic `PATHBNCH`")]
    Magic { kind: FrameKind },
    #[error("the peer's {kind} frame is malformed: {reason}")]
    Malformed { kind: FrameKind, reason: String },
}

impl DecodeError {
    pub(super) const fn length(kind: FrameKind, length: usize, bounds: &RangeInclusive<usize>) -> Self {
        Self::Length { kind, length: length as u64, least: *bounds.start(), most: *bounds.end() }
    }
}
