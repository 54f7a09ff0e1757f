//! What happens to MPTCP connections and their subflows, as the kernel tells it.

use super::MptcpError;
use super::family::{Family, GENERIC_HEADER};
use crate::namespace::NetNamespace;
use crate::netlink::attribute::Attributes;
use crate::netlink::channel::{Channel, Protocol};
use crate::netlink::notification::{Listener, Notice};
use std::fmt;
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

/// What happened (`enum mptcp_event_type` of `linux/mptcp_pm.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MptcpEventKind {
    /// A connection is being set up.
    Created,
    /// A connection is set up; further subflows can follow.
    Established,
    /// A connection has ended.
    Closed,
    /// The peer announced an address.
    Announced,
    /// The peer withdrew an address.
    Removed,
    /// A further subflow is set up.
    SubEstablished,
    /// A subflow has ended.
    SubClosed,
    /// A subflow became a backup or stopped being one.
    SubPriority,
    /// The kernel listens on an endpoint's own port.
    ListenerCreated,
    /// The kernel stopped doing so.
    ListenerClosed,
    /// Something that kernels began to tell later.
    Other(u8),
    /// Not from the kernel: events were lost because they came faster than they were read.
    Overrun,
}

impl MptcpEventKind {
    const fn from_command(command: u8) -> Self {
        match command {
            1 => Self::Created,
            2 => Self::Established,
            3 => Self::Closed,
            6 => Self::Announced,
            7 => Self::Removed,
            10 => Self::SubEstablished,
            11 => Self::SubClosed,
            13 => Self::SubPriority,
            15 => Self::ListenerCreated,
            16 => Self::ListenerClosed,
            other => Self::Other(other),
        }
    }
}

/// The kernel's name of it, as `ip mptcp monitor` prints it: `SUB_ESTABLISHED`.
impl fmt::Display for MptcpEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "CREATED",
            Self::Established => "ESTABLISHED",
            Self::Closed => "CLOSED",
            Self::Announced => "ANNOUNCED",
            Self::Removed => "REMOVED",
            Self::SubEstablished => "SUB_ESTABLISHED",
            Self::SubClosed => "SUB_CLOSED",
            Self::SubPriority => "SUB_PRIORITY",
            Self::ListenerCreated => "LISTENER_CREATED",
            Self::ListenerClosed => "LISTENER_CLOSED",
            Self::Other(number) => return write!(f, "EVENT_{number}"),
            Self::Overrun => "OVERRUN",
        })
    }
}

/// Something that happened to an MPTCP connection. Which fields are there depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MptcpEvent {
    /// What happened.
    pub kind: MptcpEventKind,
    /// This host's number of the connection (`mptcpi_token`).
    pub token: Option<u32>,
    /// Local address and port (0 where the event has none) of the subflow; of a connection: of its first.
    pub local: Option<SocketAddr>,
    /// Remote address and port (0 where the event has none).
    pub remote: Option<SocketAddr>,
    /// Address id on this side; 0 is the first subflow's.
    pub local_id: Option<u8>,
    /// Address id on the peer's side.
    pub remote_id: Option<u8>,
    /// Whether the subflow is a backup.
    pub backup: Option<bool>,
    /// Error number with which the subflow ended; `None` or 0 when it ended in order.
    pub error: Option<u8>,
    /// Reason in the `MP_TCPRST` option that was sent or received (RFC 8684, 3.6).
    pub reset_reason: Option<u32>,
    /// Flags of that option.
    pub reset_flags: Option<u32>,
    /// Index of the interface that the subflow is bound to; `None` when to none.
    pub interface_index: Option<u32>,
    /// Whether this side accepted the connection.
    pub server_side: Option<bool>,
}

impl MptcpEvent {
    const fn of_kind(kind: MptcpEventKind) -> Self {
        Self {
            kind,
            token: None,
            local: None,
            remote: None,
            local_id: None,
            remote_id: None,
            backup: None,
            error: None,
            reset_reason: None,
            reset_flags: None,
            interface_index: None,
            server_side: None,
        }
    }

    /// Reads one event: what follows the netlink header of a message of the family `mptcp_pm`. `None` when
    /// there is not even a generic netlink header; attributes that are garbled read as absent.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
        let kind = MptcpEventKind::from_command(*header.first()?);
        let socket = |v4, v6, port| {
            let address: IpAddr = attributes.address(v4).or_else(|| attributes.address(v6))?;
            Some(SocketAddr::new(address, attributes.u16_network_order(port).unwrap_or(0)))
        };
        let flagged = attributes.u16(ATTR_FLAGS).is_some_and(|flags| flags & FLAG_SERVER_SIDE != 0);
        let told = attributes.u8(ATTR_SERVER_SIDE).map(|side| side != 0);
        let says_side = matches!(kind, MptcpEventKind::Created | MptcpEventKind::Established);
        Some(Self {
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
            Notice::Message(kind, payload) if kind == family => events.extend(MptcpEvent::parse(payload)),
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
        let event = MptcpEvent::parse(&payload).unwrap();
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
        let side = |attributes: &[DefaultNla]| MptcpEvent::parse(&event(1, attributes)).unwrap().server_side;
        let flag = DefaultNla::new(ATTR_FLAGS, FLAG_SERVER_SIDE.to_ne_bytes().to_vec());
        assert_eq!(side(&[DefaultNla::new(ATTR_SERVER_SIDE, vec![1])]), Some(true));
        assert_eq!(side(&[DefaultNla::new(ATTR_SERVER_SIDE, vec![0])]), Some(false));
        assert_eq!(side(&[flag]), Some(true));
        assert_eq!(side(&[]), Some(false));
    }

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            prop_assert_eq!(MptcpEvent::parse(&payload).is_some(), payload.len() >= GENERIC_HEADER);
        }

        #[test]
        fn any_attributes(command: u8, attributes: Vec<(u16, Vec<u8>)>) {
            let attributes: Vec<_> =
                attributes.into_iter().map(|(kind, value)| DefaultNla::new(kind % 20, value)).collect();
            let parsed = MptcpEvent::parse(&event(command, &attributes)).unwrap();
            prop_assert_eq!(parsed.kind, MptcpEventKind::from_command(command));
        }
    }
}
