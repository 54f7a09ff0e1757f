//! Requests to `nl80211`.

use netlink_packet_core::{DefaultNla, Emitable};
use netlink_packet_generic::{GenlFamily, GenlMessage};

/// A command with its attributes.
#[derive(Debug, Clone)]
pub(super) struct Command {
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl Command {
    pub(super) const fn new(command: u8, attributes: Vec<DefaultNla>) -> Self {
        Self { command, attributes }
    }

    /// The command as a message to the family of this number.
    pub(super) fn to(self, family: u16) -> GenlMessage<Self> {
        let mut message = GenlMessage::from_payload(self);
        message.set_resolved_family_id(family);
        message
    }
}

impl GenlFamily for Command {
    fn family_name() -> &'static str {
        super::FAMILY
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        // The kernel's own tools send 0, and it looks at no version.
        0
    }
}

impl Emitable for Command {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}
