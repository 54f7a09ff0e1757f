//! What happens to MPTCP connections and their subflows, as the kernel tells it.

use super::MptcpError;
use super::family::{Family, GENERIC_HEADER};
use crate::namespace::NetNamespace;
use crate::netlink::attribute::Attributes;
use crate::netlink::channel::{Channel, Protocol};
use crate::netlink::notification::{Listener, Notice};
use pathbench_record::kernel_event::{MptcpEvent, MptcpEventKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

// linux/mptcp_pm.h: attributes of events
const ATTR_TOKEN: u16 = 1;
const ATTR_LOC_ID: u16 = 3;
const ATTR_REM_ID: u16 = 4;
const ATTR_SADDR4: u16 = 5;
const ATTR_SADDR6: u16 = 6;
const ATTR_DADDR4: u16 = 7;
const ATTR_DADDR6: u16 = 8;
const ATTR_SPORT: u16 = 9;
const ATTR_DPORT: u16 = 10;
const ATTR_BACKUP: u16 = 11;
const ATTR_ERROR: u16 = 12;
const ATTR_FLAGS: u16 = 13;
const ATTR_IF_IDX: u16 = 15;
const ATTR_RESET_REASON: u16 = 16;
const ATTR_RESET_FLAGS: u16 = 17;
const ATTR_SERVER_SIDE: u16 = 18;
/// `MPTCP_PM_EV_FLAG_SERVER_SIDE`, which takes the place of the attribute from 6.18 on.
const FLAG_SERVER_SIDE: u16 = 1 << 1;

const REQUEST: &str = "receive MPTCP events";

const fn kind_of(command: u8) -> MptcpEventKind {
    match command {
        1 => MptcpEventKind::Created,
        2 => MptcpEventKind::Established,
        3 => MptcpEventKind::Closed,
        6 => MptcpEventKind::Announced,
        7 => MptcpEventKind::Removed,
        10 => MptcpEventKind::SubEstablished,
        11 => MptcpEventKind::SubClosed,
        13 => MptcpEventKind::SubPriority,
        15 => MptcpEventKind::ListenerCreated,
        16 => MptcpEventKind::ListenerClosed,
        other => MptcpEventKind::Other(other),
    }
}

/// Reads one event: what follows the netlink header of a message of the family `mptcp_pm`. `None` when
/// there is not even a generic netlink header; attributes that are garbled read as absent.
fn parse_event(payload: &[u8]) -> Option<MptcpEvent> {
    let (header, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
    let kind = kind_of(*header.first()?);
    let socket = |v4, v6, port| {
        let address: IpAddr = attributes.address(v4).or_else(|| attributes.address(v6))?;
        Some(SocketAddr::new(address, attributes.u16_network_order(port).unwrap_or(0)))
    };
    let flagged = attributes.u16(ATTR_FLAGS).is_some_and(|flags| flags & FLAG_SERVER_SIDE != 0);
    let told = attributes.u8(ATTR_SERVER_SIDE).map(|side| side != 0);
    let says_side = matches!(kind, MptcpEventKind::Created | MptcpEventKind::Established);
    Some(MptcpEvent {
        token: attributes.u32(ATTR_TOKEN),
        local: socket(ATTR_SADDR4, ATTR_SADDR6, ATTR_SPORT),
        remote: socket(ATTR_DADDR4, ATTR_DADDR6, ATTR_DPORT),
        local_id: attributes.u8(ATTR_LOC_ID),
        remote_id: attributes.u8(ATTR_REM_ID),
        backup: attributes.u8(ATTR_BACKUP).map(|backup| backup != 0),
        error: attributes.u8(ATTR_ERROR),
        reset_reason: attributes.u32(ATTR_RESET_REASON),
        reset_flags: attributes.u32(ATTR_RESET_FLAGS),
        interface_index: attributes.u32(ATTR_IF_IDX).filter(|index| *index != 0),
        server_side: told.map(|told| told || flagged).or(says_side.then_some(flagged)),
        kind,
    })
}

/// The MPTCP events of one network namespace, from the moment of subscription on.
#[derive(Debug)]
pub struct EventStream {
    listener: Listener,
    family: u16,
}

impl EventStream {
    /// Subscribes to the events of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`MptcpError::NoPathManager`], [`MptcpError::NoEvents`]; [`MptcpError::Netlink`] with `EPERM` without
    /// `CAP_NET_ADMIN` in the namespace.
    pub fn subscribe() -> Result<Self, MptcpError> {
        let family =
            Family::look_up(&mut Channel::open(Protocol::Generic)?)?.ok_or(MptcpError::NoPathManager)?;
        let group = family.event_group.ok_or(MptcpError::NoEvents)?;
        let listener = Listener::subscribe(Protocol::Generic, &[group], "subscribe to MPTCP events")?;
        Ok(Self { listener, family: family.id })
    }

    /// Subscribes to the events of `namespace`.
    ///
    /// # Errors
    /// As [`Self::subscribe`].
    pub fn subscribe_in(namespace: &NetNamespace) -> Result<Self, MptcpError> {
        namespace.run_in(Self::subscribe).map_err(crate::netlink::NetlinkError::from)?
    }

    /// What to poll for readability.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Everything that has happened since the last call, without waiting.
    ///
    /// # Errors
    /// [`MptcpError::Netlink`] when the socket fails; lost events are no error but
    /// [`MptcpEventKind::Overrun`].
    pub fn receive(&mut self) -> Result<Vec<MptcpEvent>, MptcpError> {
        let (mut events, family) = (Vec::new(), self.family);
        self.listener.drain(REQUEST, |notice| match notice {
            Notice::Message(kind, payload) if kind == family => events.extend(parse_event(payload)),
            Notice::Message(..) => {}
            Notice::Overrun => events.push(MptcpEvent::of_kind(MptcpEventKind::Overrun)),
        })?;
        Ok(events)
    }
}

impl AsFd for EventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::{emitted, octets, u32_attribute};
    use netlink_packet_core::DefaultNla;
    use proptest::prelude::*;

    fn event(command: u8, attributes: &[DefaultNla]) -> Vec<u8> {
        let mut payload = vec![command, 1, 0, 0];
        payload.extend(emitted(attributes));
        payload
    }

    #[test]
    fn a_subflow_that_was_reset() {
        let payload = event(
            11,
            &[
                u32_attribute(ATTR_TOKEN, 0xdead_beef),
                DefaultNla::new(ATTR_LOC_ID, vec![2]),
                DefaultNla::new(ATTR_REM_ID, vec![0]),
                DefaultNla::new(ATTR_SADDR4, octets("10.0.2.1".parse().unwrap())),
                DefaultNla::new(ATTR_DADDR4, octets("10.0.2.2".parse().unwrap())),
                DefaultNla::new(ATTR_SPORT, 40000u16.to_be_bytes().to_vec()),
                DefaultNla::new(ATTR_DPORT, 5201u16.to_be_bytes().to_vec()),
                DefaultNla::new(ATTR_BACKUP, vec![1]),
                DefaultNla::new(ATTR_ERROR, vec![110]),
                u32_attribute(ATTR_RESET_REASON, 6),
            ],
        );
        let event = parse_event(&payload).unwrap();
        assert_eq!(event.kind, MptcpEventKind::SubClosed);
        assert_eq!(event.token, Some(0xdead_beef));
        assert_eq!(event.local, Some("10.0.2.1:40000".parse().unwrap()));
        assert_eq!(event.remote, Some("10.0.2.2:5201".parse().unwrap()));
        assert_eq!((event.local_id, event.remote_id), (Some(2), Some(0)));
        assert_eq!((event.error, event.reset_reason, event.backup), (Some(110), Some(6), Some(true)));
        assert_eq!((event.reset_flags, event.server_side), (None, None));
    }

    #[test]
    fn the_side_is_told_by_attribute_or_by_flag() {
        let side = |attributes: &[DefaultNla]| parse_event(&event(1, attributes)).unwrap().server_side;
        let flag = DefaultNla::new(ATTR_FLAGS, FLAG_SERVER_SIDE.to_ne_bytes().to_vec());
        assert_eq!(side(&[DefaultNla::new(ATTR_SERVER_SIDE, vec![1])]), Some(true));
        assert_eq!(side(&[DefaultNla::new(ATTR_SERVER_SIDE, vec![0])]), Some(false));
        assert_eq!(side(&[flag]), Some(true));
        assert_eq!(side(&[]), Some(false));
    }

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            prop_assert_eq!(parse_event(&payload).is_some(), payload.len() >= GENERIC_HEADER);
        }

        #[test]
        fn any_attributes(command: u8, attributes: Vec<(u16, Vec<u8>)>) {
            let attributes: Vec<_> =
                attributes.into_iter().map(|(kind, value)| DefaultNla::new(kind % 20, value)).collect();
            let parsed = parse_event(&event(command, &attributes)).unwrap();
            prop_assert_eq!(parsed.kind, kind_of(command));
        }
    }
}
