//! What can be wrong with bytes that claim to be the test protocol.

use super::FrameKind;
use thiserror::Error;

/// The peer's bytes are not the test protocol. Nothing after the first such error can be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("the peer does not speak Pathbench's test protocol: frame type {code:#04x} does not exist")]
    UnknownType { code: u8 },
    #[error("the peer does not speak Pathbench's test protocol: reserved bits are set in a {kind} header")]
    Reserved { kind: FrameKind },
    #[error("the peer announced a {kind} body of {length} bytes; allowed here are {least} to {most}")]
    Length { kind: FrameKind, length: u64, least: usize, most: usize },
    #[error("the peer does not speak Pathbench's test protocol: its {kind} has not the magic `PATHBNCH`")]
    Magic { kind: FrameKind },
    #[error("the peer's {kind} frame is malformed: {reason}")]
    Malformed { kind: FrameKind, reason: String },
}
