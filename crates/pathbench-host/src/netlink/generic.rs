//! Generic netlink: families that are found by their name.

use super::NetlinkError;
use super::channel::{Channel, Protocol};
use super::message::{Attributes, Encoder, Message};

/// `CTRL_CMD_GETFAMILY` of linux/genetlink.h, whose family number is fixed.
const GET_FAMILY: u8 = 3;
const CONTROLLER: u16 = libc::GENL_ID_CTRL as u16;
/// `struct genlmsghdr`: command, version, two unused bytes.
pub(crate) const GENERIC_HEADER: usize = 4;

#[derive(Debug)]
pub(crate) struct GenericSocket {
    pub(crate) channel: Channel,
    pub(crate) family: Family,
    version: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) id: u16,
    pub(crate) groups: Vec<(String, u32)>,
}

impl GenericSocket {
    /// A socket in the calling thread's network namespace; `None` when the kernel does not know the family. `request`
    /// completes the sentence "cannot …".
    pub(crate) fn open(family: &str, version: u8, request: &str) -> Result<Option<Self>, NetlinkError> {
        let mut channel = Channel::open(Protocol::GENERIC)?;
        let message = Encoder::after(&[GET_FAMILY, 1, 0, 0])
            .text(libc::CTRL_ATTR_FAMILY_NAME as u16, family)
            .message(CONTROLLER);
        match channel.expect(request, 0, &message, Family::parse) {
            Ok(family) => Ok(Some(Self { channel, family, version })),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn message(&self, command: u8, attributes: Encoder) -> Message {
        let header = Encoder::after(&[command, self.version, 0, 0]).into_bytes();
        Message { kind: self.family.id, payload: [header, attributes.into_bytes()].concat() }
    }
}

impl Family {
    fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
        let groups = attributes.nested(libc::CTRL_ATTR_MCAST_GROUPS as u16).unwrap_or(Attributes::new(&[]));
        let groups = groups.iter().map(|(_, group)| Attributes::new(group)).filter_map(|group| {
            let name = group.text(libc::CTRL_ATTR_MCAST_GRP_NAME as u16)?;
            Some((name, group.u32(libc::CTRL_ATTR_MCAST_GRP_ID as u16)?))
        });
        Some(Self { id: attributes.u16(libc::CTRL_ATTR_FAMILY_ID as u16)?, groups: groups.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_family_has_a_number_and_groups() {
        let group = |name: &str, id| {
            Encoder::default()
                .text(libc::CTRL_ATTR_MCAST_GRP_NAME as u16, name)
                .u32(libc::CTRL_ATTR_MCAST_GRP_ID as u16, id)
        };
        let groups =
            Encoder::default().nested(1, group("mptcp_pm_cmds", 8)).nested(2, group("mptcp_pm_events", 9));
        let payload = Encoder::after(&[1, 2, 0, 0])
            .u16(libc::CTRL_ATTR_FAMILY_ID as u16, 33)
            .nested(libc::CTRL_ATTR_MCAST_GROUPS as u16, groups)
            .into_bytes();
        let groups = vec![("mptcp_pm_cmds".to_owned(), 8), ("mptcp_pm_events".to_owned(), 9)];
        assert_eq!(Family::parse(&payload), Some(Family { id: 33, groups }));
    }

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            let _ = Family::parse(&payload);
        }
    }
}
