//! Generic netlink: finding the `mptcp_pm` family and speaking it.

use crate::netlink::NetlinkError;
use crate::netlink::attribute::{Attributes, emitted};
use crate::netlink::channel::{Channel, Reply};
use crate::netlink::generic::{self, CTRL_ATTR_FAMILY_ID};
use netlink_packet_core::{DefaultNla, Emitable};
use netlink_packet_generic::{GenlFamily, GenlMessage};

pub(super) use crate::netlink::generic::GENERIC_HEADER;

// linux/mptcp_pm.h (linux/mptcp.h before 6.7)
pub(super) const FAMILY: &str = "mptcp_pm";
const EVENT_GROUP: &str = "mptcp_pm_events";
const VERSION: u8 = 1;
// linux/genetlink.h
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;

/// The numbers that this kernel gave the family when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) id: u16,
    pub(super) event_group: Option<u32>,
}

/// A command of the path manager with its attributes.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) command: u8,
    pub(super) attributes: Vec<DefaultNla>,
}

impl GenlFamily for Command {
    fn family_name() -> &'static str {
        FAMILY
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        VERSION
    }
}

impl Emitable for Command {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&emitted(&self.attributes));
    }
}

impl Command {
    /// The command as a message to `family`.
    pub(super) fn to(self, family: Family) -> GenlMessage<Self> {
        let mut message = GenlMessage::from_payload(self);
        message.set_resolved_family_id(family.id);
        message
    }
}

impl Family {
    /// Asks the kernel; `None` when it has no MPTCP path manager.
    pub(super) fn look_up(channel: &mut Channel) -> Result<Option<Self>, NetlinkError> {
        const REQUEST: &str = "find the kernel's MPTCP path manager";
        let Some(replies) = generic::look_up(channel, FAMILY, REQUEST)? else { return Ok(None) };
        replies.iter().find_map(Self::parse).map(Some).ok_or(NetlinkError::Malformed {
            request: REQUEST.to_owned(),
            detail: "it does not number the family",
        })
    }

    fn parse((_, payload): &Reply) -> Option<Self> {
        let (_, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
        let groups = attributes.nested(CTRL_ATTR_MCAST_GROUPS);
        let event_group = groups.and_then(|groups| {
            groups.iter().map(|(_, group)| Attributes::new(group)).find_map(|group| {
                let name = group.text(CTRL_ATTR_MCAST_GRP_NAME)?;
                if name == EVENT_GROUP { group.u32(CTRL_ATTR_MCAST_GRP_ID) } else { None }
            })
        });
        Some(Self { id: attributes.u16(CTRL_ATTR_FAMILY_ID)?, event_group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::{nested_attribute, u32_attribute};
    use proptest::prelude::*;

    #[test]
    fn finds_the_event_group_among_others() {
        let group = |name: &str, id| {
            let name = DefaultNla::new(CTRL_ATTR_MCAST_GRP_NAME, format!("{name}\0").into_bytes());
            emitted(&[name, u32_attribute(CTRL_ATTR_MCAST_GRP_ID, id)])
        };
        let groups =
            [DefaultNla::new(1, group("mptcp_pm_cmds", 8)), DefaultNla::new(2, group("mptcp_pm_events", 9))];
        let mut payload = vec![1, 2, 0, 0];
        payload.extend(emitted(&[
            DefaultNla::new(CTRL_ATTR_FAMILY_ID, 33u16.to_ne_bytes().to_vec()),
            nested_attribute(CTRL_ATTR_MCAST_GROUPS, &groups),
        ]));
        assert_eq!(Family::parse(&(16, payload)), Some(Family { id: 33, event_group: Some(9) }));
    }

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            let _ = Family::parse(&(16, payload));
        }
    }
}
