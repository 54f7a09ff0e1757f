//! What can be wrong with bytes that claim to be the test protocol.

use super::FrameKind;
use thiserror::Error;

/// The peer's bytes are not the test protocol. Nothing after the first such error can be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The first header byte names no frame type.
    #[error("the peer does not speak Pathbench's test protocol: frame type {code:#04x} does not exist")]
    UnknownType {
        /// The byte.
        code: u8,
    },
    /// Reserved header bytes or flags are set.
    #[error("the peer does not speak Pathbench's test protocol: reserved bits are set in a {kind} header")]
    Reserved {
        /// The frame type of that header.
        kind: FrameKind,
    },
    /// A body longer (or shorter) than its type allows, or longer than the receiver takes at this point.
    #[error("the peer announced a {kind} body of {length} bytes; allowed here are {least} to {most}")]
    Length {
        /// The frame type.
        kind: FrameKind,
        /// The announced length.
        length: u64,
        /// Smallest allowed.
        least: usize,
        /// Largest allowed.
        most: usize,
    },
    /// HELLO or FETCH without the magic.
    #[error("the peer does not speak Pathbench's test protocol: its {kind} has not the magic `PATHBNCH`")]
    Magic {
        /// The frame type.
        kind: FrameKind,
    },
    /// The body contradicts its type's layout.
    #[error("the peer's {kind} frame is malformed: {reason}")]
    Malformed {
        /// The frame type.
        kind: FrameKind,
        /// What is wrong.
        reason: String,
    },
}
