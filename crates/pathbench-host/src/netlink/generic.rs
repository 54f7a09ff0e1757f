//! Generic netlink: finding a family by its name.

use super::NetlinkError;
use super::channel::{Channel, Reply};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};

// linux/genetlink.h
/// The number that this kernel gave the family when it started.
pub(crate) const CTRL_ATTR_FAMILY_ID: u16 = 1;
/// `struct genlmsghdr`: command, version, two unused bytes.
pub(crate) const GENERIC_HEADER: usize = 4;

/// What the kernel's controller says of the family of this name; `None` when the kernel does not know it. `request`
/// completes the sentence "cannot …".
pub(crate) fn look_up(
    channel: &mut Channel,
    name: &str,
    request: &str,
) -> Result<Option<Vec<Reply>>, NetlinkError> {
    let message = GenlMessage::from_payload(GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName(name.to_owned())],
    });
    match channel.get(request, 0, message) {
        Ok(replies) => Ok(Some(replies)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}
