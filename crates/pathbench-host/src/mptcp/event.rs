//! Events of MPTCP connections and their subflows.

use super::MptcpError;
use crate::namespace::NetNamespace;
use crate::netlink::channel::{Listener, Notice, Protocol};
use crate::netlink::generic::GENERIC_HEADER;
use crate::netlink::message::Attributes;
use pathbench_record::kernel_event::{MptcpEvent, MptcpEventKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

const EVENT_GROUP: &str = "mptcp_pm_events";
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
        Some(SocketAddr::new(address, attributes.u16(port).map_or(0, u16::from_be)))
    };
    let flagged = attributes.u16(ATTR_FLAGS).is_some_and(|flags| flags & FLAG_SERVER_SIDE != 0);
    let server_side = attributes.u8(ATTR_SERVER_SIDE).map(|side| side != 0);
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
        server_side: server_side.map(|side| side || flagged).or(says_side.then_some(flagged)),
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
    /// Subscribes to the events of the calling thread's network namespace (`EPERM` without `CAP_NET_ADMIN` in it).
    pub fn subscribe() -> Result<Self, MptcpError> {
        let family = super::socket()?.family;
        let group = family.groups.iter().find(|(name, _)| name == EVENT_GROUP).ok_or(MptcpError::NoEvents)?;
        let listener = Listener::subscribe(Protocol::GENERIC, &[group.1], "subscribe to MPTCP events")?;
        Ok(Self { listener, family: family.id })
    }

    pub fn subscribe_in(namespace: &NetNamespace) -> Result<Self, MptcpError> {
        namespace.run_in(Self::subscribe).map_err(crate::netlink::NetlinkError::from)?
    }

    /// All events since the last call, without waiting. Lost events are no error but [`MptcpEventKind::Overrun`].
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
    use crate::netlink::message::Encoder;
    use proptest::prelude::*;

    fn event(command: u8) -> Encoder {
        Encoder::after(&[command, 1, 0, 0])
    }

    #[test]
    fn a_subflow_that_was_reset() {
        let payload = event(11)
            .u32(ATTR_TOKEN, 0xdead_beef)
            .u8(ATTR_LOC_ID, 2)
            .u8(ATTR_REM_ID, 0)
            .address(ATTR_SADDR4, "10.0.2.1".parse().unwrap())
            .address(ATTR_DADDR4, "10.0.2.2".parse().unwrap())
            .u16(ATTR_SPORT, 40000u16.to_be())
            .u16(ATTR_DPORT, 5201u16.to_be())
            .u8(ATTR_BACKUP, 1)
            .u8(ATTR_ERROR, 110)
            .u32(ATTR_RESET_REASON, 6);
        let event = parse_event(&payload.into_bytes()).unwrap();
        assert_eq!(event.kind, MptcpEventKind::SubClosed);
        assert_eq!(event.token, Some(0xdead_beef));
        assert_eq!(event.local, Some("10.0.2.1:40000".parse().unwrap()));
        assert_eq!(event.remote, Some("10.0.2.2:5201".parse().unwrap()));
        assert_eq!((event.local_id, event.remote_id), (Some(2), Some(0)));
        assert_eq!((event.error, event.reset_reason, event.backup), (Some(110), Some(6), Some(true)));
        assert_eq!((event.reset_flags, event.server_side), (None, None));
    }

    #[test]
    fn the_side_is_in_an_attribute_or_in_a_flag() {
        let side = |payload: Encoder| parse_event(&payload.into_bytes()).unwrap().server_side;
        assert_eq!(side(event(1).u8(ATTR_SERVER_SIDE, 1)), Some(true));
        assert_eq!(side(event(1).u8(ATTR_SERVER_SIDE, 0)), Some(false));
        assert_eq!(side(event(1).u16(ATTR_FLAGS, FLAG_SERVER_SIDE)), Some(true));
        assert_eq!(side(event(1)), Some(false));
    }

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            prop_assert_eq!(parse_event(&payload).is_some(), payload.len() >= GENERIC_HEADER);
        }

        #[test]
        fn any_attributes(command: u8, attributes: Vec<(u16, Vec<u8>)>) {
            let payload = attributes
                .iter()
                .fold(event(command), |payload, (kind, value)| payload.bytes(kind % 20, value));
            let parsed = parse_event(&payload.into_bytes()).unwrap();
            prop_assert_eq!(parsed.kind, kind_of(command));
        }
    }
}
