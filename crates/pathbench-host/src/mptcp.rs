//! The kernel's MPTCP path manager (generic netlink family `mptcp_pm`): endpoints, limits, and events of connections
//! and subflows.

use crate::namespace::NetNamespace;
use crate::netlink::channel::{MulticastListener, MulticastMessage, NetlinkProtocol};
use crate::netlink::message::{Attributes, Encoder};
use crate::netlink::{GENERIC_HEADER, GenericSocket};
use crate::netlink::{NetlinkError, family};
use pathbench_record::event::EventKind;
use pathbench_record::kernel_event::MptcpEvent;
pub use pathbench_record::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

const VERSION: u8 = 1;
// Commands of linux/mptcp_pm.h (linux/mptcp.h before 6.7).
const CMD_ADD_ADDR: u8 = 1;
const CMD_DEL_ADDR: u8 = 2;
const CMD_GET_ADDR: u8 = 3;
const CMD_SET_LIMITS: u8 = 5;
const CMD_GET_LIMITS: u8 = 6;
const CMD_SET_FLAGS: u8 = 7;
// Attributes of commands.
const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
// Attributes of an endpoint.
const ADDR_ATTR_FAMILY: u16 = 1;
const ADDR_ATTR_ID: u16 = 2;
const ADDR_ATTR_ADDR4: u16 = 3;
const ADDR_ATTR_ADDR6: u16 = 4;
const ADDR_ATTR_PORT: u16 = 5;
const ADDR_ATTR_FLAGS: u16 = 6;
const ADDR_ATTR_IF_IDX: u16 = 7;
// Attributes of events.
const EVENT_ATTR_TOKEN: u16 = 1;
const EVENT_ATTR_LOC_ID: u16 = 3;
const EVENT_ATTR_REM_ID: u16 = 4;
const EVENT_ATTR_SADDR4: u16 = 5;
const EVENT_ATTR_SADDR6: u16 = 6;
const EVENT_ATTR_DADDR4: u16 = 7;
const EVENT_ATTR_DADDR6: u16 = 8;
const EVENT_ATTR_SPORT: u16 = 9;
const EVENT_ATTR_DPORT: u16 = 10;
const EVENT_ATTR_BACKUP: u16 = 11;
const EVENT_ATTR_ERROR: u16 = 12;
const EVENT_ATTR_FLAGS: u16 = 13;
const EVENT_ATTR_IF_IDX: u16 = 15;
const EVENT_ATTR_RESET_REASON: u16 = 16;
const EVENT_ATTR_RESET_FLAGS: u16 = 17;
const EVENT_ATTR_SERVER_SIDE: u16 = 18;
/// `MPTCP_PM_EV_FLAG_SERVER_SIDE`, which replaces the attribute from Linux 6.18 on.
const FLAG_SERVER_SIDE: u16 = 1 << 1;

/// A request to the MPTCP path manager failed.
#[derive(Debug, thiserror::Error)]
pub enum MptcpError {
    #[error(
        "this kernel has no MPTCP path manager: it is older than 5.6 or was built without MPTCP (CONFIG_MPTCP)"
    )]
    NoPathManager,
    #[error("this kernel's MPTCP path manager sends no events: they require Linux 5.13 or newer")]
    NoEvents,
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl MptcpError {
    /// Whether this host lacks the privilege or a kernel feature.
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::NoPathManager | Self::NoEvents => true,
            Self::Netlink(error) => error.is_host_unable(),
        }
    }
}

/// The attributes of an endpoint.
pub fn encode_endpoint(endpoint: &MptcpEndpoint) -> Encoder {
    selection(endpoint.address)
        .add_optional(endpoint.id, |to, id| to.u8(ADDR_ATTR_ID, id))
        // Unlike other ports in netlink, this one is in host byte order.
        .add_optional(endpoint.port, |to, port| to.u16(ADDR_ATTR_PORT, port))
        .u32(ADDR_ATTR_FLAGS, endpoint.flags.bits())
        .add_optional(endpoint.interface, |to, index| to.u32(ADDR_ATTR_IF_IDX, index))
}

/// An endpoint of a dump; `None` if it is malformed.
pub fn parse_endpoint(payload: &[u8]) -> Option<MptcpEndpoint> {
    let (_, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
    let attributes = attributes.nested(ATTR_ADDR)?;
    Some(MptcpEndpoint {
        address: attributes.address(ADDR_ATTR_ADDR4).or_else(|| attributes.address(ADDR_ATTR_ADDR6))?,
        port: attributes.u16(ADDR_ATTR_PORT).filter(|port| *port != 0),
        id: attributes.u8(ADDR_ATTR_ID),
        interface: attributes.u32(ADDR_ATTR_IF_IDX).filter(|index| *index != 0),
        flags: EndpointFlags::from_bits(attributes.u32(ADDR_ATTR_FLAGS).unwrap_or(0)),
    })
}

fn selection(address: IpAddr) -> Encoder {
    let kind = if address.is_ipv4() { ADDR_ATTR_ADDR4 } else { ADDR_ATTR_ADDR6 };
    Encoder::default().u16(ADDR_ATTR_FAMILY, family(address).into()).address(kind, address)
}

/// The limits of an answer; `None` if it is malformed.
pub fn parse_limits(payload: &[u8]) -> Option<MptcpLimits> {
    let (_, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
    Some(MptcpLimits {
        subflows: attributes.u32(ATTR_SUBFLOWS)?,
        add_addr_accepted: attributes.u32(ATTR_RCV_ADD_ADDRS)?,
    })
}

/// A handle for the path manager of one network namespace.
#[derive(Debug)]
pub struct PathManager {
    socket: GenericSocket,
}

fn socket() -> Result<GenericSocket, MptcpError> {
    let socket = GenericSocket::open("mptcp_pm", VERSION, "find the kernel's MPTCP path manager")?;
    socket.ok_or(MptcpError::NoPathManager)
}

impl PathManager {
    /// The path manager of the calling thread's network namespace.
    pub fn open() -> Result<Self, MptcpError> {
        Ok(Self { socket: socket()? })
    }

    /// Like [`Self::open`]; `None` if this kernel has no path manager.
    pub fn open_if_known() -> Result<Option<Self>, MptcpError> {
        match Self::open() {
            Err(MptcpError::NoPathManager) => Ok(None),
            opened => opened.map(Some),
        }
    }

    pub fn open_in(namespace: &NetNamespace) -> Result<Self, MptcpError> {
        namespace.run_in(Self::open).map_err(NetlinkError::from)?
    }

    pub fn endpoints(&mut self) -> Result<Vec<MptcpEndpoint>, MptcpError> {
        let message = self.socket.message(CMD_GET_ADDR, Encoder::default());
        Ok(self.socket.channel.dump("list the MPTCP endpoints", &message, parse_endpoint)?)
    }

    /// Adds an endpoint. The kernel uses it only while its address is assigned to this host, but does not check that
    /// here.
    /// Errors: `EBUSY` or `EEXIST` when the address or the id is in use, `EINVAL` for flags that exclude each other
    /// or a port on an endpoint that is not signalled.
    pub fn add_endpoint(&mut self, endpoint: &MptcpEndpoint) -> Result<(), MptcpError> {
        let address = Encoder::default().nested(ATTR_ADDR, encode_endpoint(endpoint));
        self.execute(&format!("add MPTCP endpoint {endpoint}"), CMD_ADD_ADDR, address)
    }

    /// Removes the endpoint with this id (`EINVAL` if it does not exist). Id 0 is the address of a connection's first
    /// subflow if that address is not an endpoint; `address` then selects the connections.
    pub fn remove_endpoint(&mut self, id: u8, address: IpAddr) -> Result<(), MptcpError> {
        let selected = Encoder::default().nested(ATTR_ADDR, selection(address).u8(ADDR_ATTR_ID, id));
        self.execute(&format!("remove MPTCP endpoint {id} ({address})"), CMD_DEL_ADDR, selected)
    }

    /// Changes the flags `backup` and `fullmesh` of the endpoint with this id, or with this address if it has no id
    /// (`EINVAL` if it does not exist). The kernel cannot change other flags, and notifies peers immediately.
    pub fn set_flags(&mut self, endpoint: &MptcpEndpoint) -> Result<(), MptcpError> {
        let address = Encoder::default().nested(ATTR_ADDR, encode_endpoint(endpoint));
        self.execute(&format!("set the flags of MPTCP endpoint {endpoint}"), CMD_SET_FLAGS, address)
    }

    pub fn limits(&mut self) -> Result<MptcpLimits, MptcpError> {
        let message = self.socket.message(CMD_GET_LIMITS, Encoder::default());
        Ok(self.socket.channel.expect("read the MPTCP limits", 0, &message, parse_limits)?)
    }

    /// Sets the limits (`EINVAL` above 8).
    pub fn set_limits(&mut self, limits: &MptcpLimits) -> Result<(), MptcpError> {
        let MptcpLimits { subflows, add_addr_accepted } = *limits;
        let request =
            format!("set the MPTCP limits to subflows {subflows}, add_addr_accepted {add_addr_accepted}");
        let attributes =
            Encoder::default().u32(ATTR_SUBFLOWS, subflows).u32(ATTR_RCV_ADD_ADDRS, add_addr_accepted);
        self.execute(&request, CMD_SET_LIMITS, attributes)
    }

    fn execute(&mut self, request: &str, command: u8, attributes: Encoder) -> Result<(), MptcpError> {
        let message = self.socket.message(command, attributes);
        Ok(self.socket.channel.execute(request, 0, &message)?)
    }
}

pub fn event_kind(command: u8) -> EventKind {
    match command {
        1 => EventKind::Created,
        2 => EventKind::Established,
        3 => EventKind::Closed,
        6 => EventKind::Announced,
        7 => EventKind::Removed,
        10 => EventKind::SubEstablished,
        11 => EventKind::SubClosed,
        13 => EventKind::SubPriority,
        15 => EventKind::ListenerCreated,
        16 => EventKind::ListenerClosed,
        other => EventKind::Other(format!("EVENT_{other}")),
    }
}

/// Parses one event: the payload of a netlink message of the family `mptcp_pm`. `None` without a generic netlink
/// header; malformed attributes are absent.
pub fn parse_event(payload: &[u8]) -> Option<MptcpEvent> {
    let (header, attributes) = Attributes::parse_after_header(payload, GENERIC_HEADER)?;
    let kind = event_kind(*header.first()?);
    let socket = |v4, v6, port| {
        let address: IpAddr = attributes.address(v4).or_else(|| attributes.address(v6))?;
        Some(SocketAddr::new(address, attributes.u16(port).map_or(0, u16::from_be)))
    };
    let flagged = attributes.u16(EVENT_ATTR_FLAGS).is_some_and(|flags| flags & FLAG_SERVER_SIDE != 0);
    let server_side = attributes.u8(EVENT_ATTR_SERVER_SIDE).map(|side| side != 0);
    let says_side = matches!(kind, EventKind::Created | EventKind::Established);
    Some(MptcpEvent {
        token: attributes.u32(EVENT_ATTR_TOKEN),
        local: socket(EVENT_ATTR_SADDR4, EVENT_ATTR_SADDR6, EVENT_ATTR_SPORT),
        remote: socket(EVENT_ATTR_DADDR4, EVENT_ATTR_DADDR6, EVENT_ATTR_DPORT),
        local_id: attributes.u8(EVENT_ATTR_LOC_ID),
        remote_id: attributes.u8(EVENT_ATTR_REM_ID),
        backup: attributes.u8(EVENT_ATTR_BACKUP).map(|backup| backup != 0),
        error: attributes.u8(EVENT_ATTR_ERROR),
        reset_reason: attributes.u32(EVENT_ATTR_RESET_REASON),
        reset_flags: attributes.u32(EVENT_ATTR_RESET_FLAGS),
        interface_index: attributes.u32(EVENT_ATTR_IF_IDX).filter(|index| *index != 0),
        server_side: server_side.map(|side| side || flagged).or(says_side.then_some(flagged)),
        kind,
    })
}

/// The MPTCP events of one network namespace since the subscription.
#[derive(Debug)]
pub struct EventStream {
    listener: MulticastListener,
    family: u16,
}

impl EventStream {
    /// Subscribes to the events of the calling thread's network namespace (`EPERM` without `CAP_NET_ADMIN` in it).
    pub fn subscribe() -> Result<Self, MptcpError> {
        let family = socket()?.family;
        let group =
            family.groups.iter().find(|(name, _)| name == "mptcp_pm_events").ok_or(MptcpError::NoEvents)?;
        let listener =
            MulticastListener::subscribe(NetlinkProtocol::GENERIC, &[group.1], "subscribe to MPTCP events")?;
        Ok(Self { listener, family: family.id })
    }

    pub fn subscribe_in(namespace: &NetNamespace) -> Result<Self, MptcpError> {
        namespace.run_in(Self::subscribe).map_err(NetlinkError::from)?
    }

    /// All events since the last call, without waiting. Lost events are reported as [`EventKind::Overrun`], not as an
    /// error.
    pub fn receive(&mut self) -> Result<Vec<MptcpEvent>, MptcpError> {
        let (mut events, family) = (Vec::new(), self.family);
        self.listener.drain("receive MPTCP events", |notice| match notice {
            MulticastMessage::Message(kind, payload) if kind == family => events.extend(parse_event(payload)),
            MulticastMessage::Message(..) => {}
            MulticastMessage::Overrun => {
                events.push(MptcpEvent { kind: EventKind::Overrun, ..MptcpEvent::default() });
            }
        })?;
        for event in &events {
            tracing::info!(?event, "MPTCP event");
        }
        Ok(events)
    }
}

impl AsFd for EventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
