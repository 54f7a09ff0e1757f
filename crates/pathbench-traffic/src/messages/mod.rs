//! The patterns of messages: `ping`, small requests one after the other, and `interactive`, requests on a fixed
//! grid of time that the other end acknowledges and answers.
//!
//! Pure: [`PingCore`] and [`InteractiveCore`] say which bytes to write now or until when to wait, and keep what
//! became of every request; a [`Responder`] turns requests into replies. The shells that own sockets and threads
//! are in [`crate::client`] and [`crate::server`].

mod interactive;
mod ping;
mod responder;

pub use interactive::{InteractiveCore, InteractiveStep};
pub use ping::{PingCore, PingStep};
pub use responder::{Arrival, Reply, Responder, ResponderPlan};

use crate::content::Content;
use crate::protocol::{DecodeError, End, Frame, FrameKind, HEADER_BYTES, Message, Refusal};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::pattern::MIN_MESSAGE_BYTES;
use pathbench_record::time::Timestamp;
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageFault {
    #[error(transparent)]
    Encode(#[from] DecodeError),
    #[error("the peer sent {kind} among the messages of the test")]
    Unexpected { kind: FrameKind },
    #[error("the peer ended the test: {0}")]
    Refused(Refusal),
    #[error("the peer sent {kind} number {sequence} where number {expected} belongs")]
    OutOfTurn { kind: FrameKind, sequence: u32, expected: u32 },
    #[error("the peer sent more than the {most} messages of the test")]
    Excess { most: u32 },
    #[error("the peer's {kind} number {sequence} has {given} bytes instead of {asked}")]
    Size { kind: FrameKind, sequence: u32, given: usize, asked: usize },
    #[error("the peer's {kind} number {sequence} is not the one of this test: byte {offset} of it is wrong")]
    Content { kind: FrameKind, sequence: u32, offset: u64 },
}

impl MessageFault {
    fn unexpected(frame: Frame) -> Self {
        match frame {
            Frame::Refuse(refusal) => Self::Refused(refusal),
            frame => Self::Unexpected { kind: frame.kind() },
        }
    }
}

/// Messages of one kind on one stream: how large, and what is in them.
#[derive(Debug, Clone, Copy)]
struct Template {
    content: Content,
    body_bytes: usize,
}

impl Template {
    fn new(content: Content, body_bytes: u32) -> Self {
        Self { content, body_bytes: body_bytes as usize }
    }

    const fn content_bytes(self) -> usize {
        self.body_bytes.saturating_sub(MIN_MESSAGE_BYTES)
    }

    fn offset(self, sequence: u32) -> u64 {
        u64::from(sequence) * self.content_bytes() as u64
    }

    fn message(self, sequence: u32) -> Message {
        let mut content = vec![0; self.content_bytes()];
        self.content.fill(self.offset(sequence), &mut content);
        Message { sequence, content }
    }

    fn check(self, kind: FrameKind, message: &Message) -> Result<(), MessageFault> {
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

#[derive(Debug)]
struct Outgoing {
    sequence: u32,
    frame: Vec<u8>,
    taken: usize,
}

impl Outgoing {
    fn new(template: Template, sequence: u32) -> Result<Self, MessageFault> {
        Ok(Self { sequence, frame: Frame::Message(template.message(sequence)).encode()?, taken: 0 })
    }

    fn rest(&self) -> Vec<u8> {
        self.frame.get(self.taken..).unwrap_or_default().to_vec()
    }

    /// The socket took `count` more bytes; returns how many of them belong to the body.
    fn take(&mut self, count: usize) -> u64 {
        let reached = (self.taken + count).min(self.frame.len());
        let body = reached.saturating_sub(HEADER_BYTES) - self.taken.saturating_sub(HEADER_BYTES);
        self.taken = reached;
        body as u64
    }

    fn is_taken(&self) -> bool {
        self.taken == self.frame.len()
    }
}

#[derive(Debug, Clone)]
pub struct Series {
    /// Those that the socket accepted, and when.
    pub offered: DeliverySeries,
    pub deliveries: DeliverySeries,
}

impl Series {
    fn starting_at(origin: Timestamp) -> Self {
        Self { offered: DeliverySeries::starting_at(origin), deliveries: DeliverySeries::starting_at(origin) }
    }

    pub fn total_bytes(&self) -> (u64, u64) {
        (self.offered.total_bytes(), self.deliveries.total_bytes())
    }

    /// Body of the END frame: what it says of the requests that the socket took.
    pub fn end(&self) -> End {
        let elapsed = match (self.offered.first, self.offered.last) {
            (Some(first), Some(last)) => last.since(first),
            _ => Duration::ZERO,
        };
        End {
            bytes: self.offered.total_bytes(),
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            cut_short: false,
        }
    }
}
