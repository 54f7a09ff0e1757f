//! The content of the messages of a stream, and the faults that a peer can make in them.

use crate::content::Content;
use crate::protocol::{ControlFrame, DecodeError, FrameKind, MessageFrame, TestRefusal};
use pathbench_record::pattern::MIN_MESSAGE_BYTES;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageFault {
    #[error(transparent)]
    Encode(#[from] DecodeError),
    #[error("the peer sent {kind} among the messages of the test")]
    Unexpected { kind: FrameKind },
    #[error("the peer ended the test: {0}")]
    Refused(TestRefusal),
    #[error("the peer sent {kind} number {sequence}; number {expected} was expected")]
    OutOfTurn { kind: FrameKind, sequence: u32, expected: u32 },
    #[error("the peer sent more than the {most} messages of the test")]
    Excess { most: u32 },
    #[error("the peer's {kind} number {sequence} has {given} bytes instead of {asked}")]
    Size { kind: FrameKind, sequence: u32, given: usize, asked: usize },
    #[error("the peer's {kind} number {sequence} has wrong content: byte {offset} differs")]
    Content { kind: FrameKind, sequence: u32, offset: u64 },
}

impl MessageFault {
    pub(super) fn from_unexpected(frame: ControlFrame) -> Self {
        match frame {
            ControlFrame::Refuse(refusal) => Self::Refused(refusal),
            frame => Self::Unexpected { kind: frame.kind() },
        }
    }
}

pub(crate) fn in_turn(kind: FrameKind, sequence: u32, expected: u32) -> Result<(), MessageFault> {
    if sequence == expected { Ok(()) } else { Err(MessageFault::OutOfTurn { kind, sequence, expected }) }
}

/// Messages of one kind on one stream: their size and content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    content: Content,
    pub(super) body_bytes: usize,
}

impl Template {
    pub(crate) fn new(content: Content, body_bytes: u32) -> Self {
        Self { content, body_bytes: body_bytes as usize }
    }

    pub(super) const fn content_bytes(self) -> usize {
        self.body_bytes.saturating_sub(MIN_MESSAGE_BYTES)
    }

    pub(super) fn offset(self, sequence: u32) -> u64 {
        u64::from(sequence) * self.content_bytes() as u64
    }

    pub(crate) fn message(self, sequence: u32) -> MessageFrame {
        let mut content = vec![0; self.content_bytes()];
        self.content.fill(self.offset(sequence), &mut content);
        MessageFrame { sequence, content }
    }

    pub(crate) fn check(self, kind: FrameKind, message: &MessageFrame) -> Result<(), MessageFault> {
        let sequence = message.sequence;
        if message.content.len() != self.content_bytes() {
            let given = message.content.len() + MIN_MESSAGE_BYTES;
            return Err(MessageFault::Size { kind, sequence, given, asked: self.body_bytes });
        }
        let from = self.offset(sequence);
        match self.content.first_difference(from, &message.content) {
            None => Ok(()),
            Some(at) => Err(MessageFault::Content { kind, sequence, offset: at - from }),
        }
    }
}
