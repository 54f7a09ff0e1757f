//! Requests whose bytes are made here: what the kernel said goes back as it came.

use super::attribute::emitted;
use netlink_packet_core::{DefaultNla, NetlinkSerializable};

/// A message of any type.
#[derive(Debug, Clone)]
pub(crate) struct RawRequest {
    kind: u16,
    payload: Vec<u8>,
}

impl RawRequest {
    /// The message type `kind` with its fixed header and its attributes.
    pub(crate) fn new(kind: u16, header: &[u8], attributes: &[DefaultNla]) -> Self {
        Self { kind, payload: [header, &emitted(attributes)].concat() }
    }
}

impl NetlinkSerializable for RawRequest {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.payload.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.payload);
    }
}
