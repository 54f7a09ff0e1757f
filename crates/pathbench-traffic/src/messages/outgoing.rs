//! A request on its way into the socket.

use super::{MessageFault, Template};
use crate::protocol::{Frame, HEADER_BYTES};

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) sequence: u32,
    frame: Vec<u8>,
    taken: usize,
}

impl Outgoing {
    pub(super) fn new(template: Template, sequence: u32) -> Result<Self, MessageFault> {
        Ok(Self { sequence, frame: Frame::Message(template.message(sequence)).encode()?, taken: 0 })
    }

    pub(super) fn rest(&self) -> Vec<u8> {
        self.frame.get(self.taken..).unwrap_or_default().to_vec()
    }

    /// The socket took `count` more bytes; returns how many of them belong to the body.
    pub(super) fn take(&mut self, count: usize) -> u64 {
        let reached = (self.taken + count).min(self.frame.len());
        let body = reached.saturating_sub(HEADER_BYTES) - self.taken.saturating_sub(HEADER_BYTES);
        self.taken = reached;
        body as u64
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken == self.frame.len()
    }
}
