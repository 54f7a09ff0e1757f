//! The kernel's MPTCP path manager (generic netlink family `mptcp_pm`): endpoints, limits, events.

mod event;

pub use event::EventStream;

use crate::namespace::NetNamespace;
use crate::netlink::generic::{GENERIC_HEADER, GenericSocket};
use crate::netlink::message::{Attributes, Encoder};
use crate::netlink::{NetlinkError, family};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

const VERSION: u8 = 1;
// linux/mptcp_pm.h (linux/mptcp.h before 6.7): commands, …
const CMD_ADD_ADDR: u8 = 1;
const CMD_DEL_ADDR: u8 = 2;
const CMD_GET_ADDR: u8 = 3;
const CMD_FLUSH_ADDRS: u8 = 4;
const CMD_SET_LIMITS: u8 = 5;
const CMD_GET_LIMITS: u8 = 6;
const CMD_SET_FLAGS: u8 = 7;
// … attributes of commands, …
const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
// … and of an endpoint.
const ADDR_ATTR_FAMILY: u16 = 1;
const ADDR_ATTR_ID: u16 = 2;
const ADDR_ATTR_ADDR4: u16 = 3;
const ADDR_ATTR_ADDR6: u16 = 4;
const ADDR_ATTR_PORT: u16 = 5;
const ADDR_ATTR_FLAGS: u16 = 6;
const ADDR_ATTR_IF_IDX: u16 = 7;

/// The MPTCP path manager could not be asked, or refused.
#[derive(Debug, thiserror::Error)]
pub enum MptcpError {
    #[error(
        "this kernel has no MPTCP path manager: it is older than 5.6 or was built without MPTCP (CONFIG_MPTCP)"
    )]
    NoPathManager,
    #[error("this kernel's MPTCP path manager sends no events: that came with Linux 5.13")]
    NoEvents,
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl MptcpError {
    /// Whether this host lacks the privilege or a kernel feature.
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::NoPathManager | Self::NoEvents => true,
            Self::Netlink(error) => {
                matches!(error.errno(), Some(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP))
            }
        }
    }
}

/// A local address that the path manager may use for subflows or announce to peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    pub address: IpAddr,
    /// Port to listen on and announce, where it is not the connection's own; only with `signal`.
    pub port: Option<u16>,
    /// 1 to 255; `None` lets the kernel choose.
    pub id: Option<u8>,
    /// Index of the interface that its subflows are bound to.
    pub interface: Option<u32>,
    pub flags: EndpointFlags,
}

/// `MPTCP_PM_ADDR_FLAG_*` of linux/mptcp.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct EndpointFlags {
    /// Announced to peers by `ADD_ADDR`.
    pub signal: bool,
    pub subflow: bool,
    /// Its subflows carry data only when no other works.
    pub backup: bool,
    /// A subflow from it to every address of the peer, not just one; only with `subflow`.
    pub fullmesh: bool,
    /// Made by the kernel itself for a subflow's local address; not to be set.
    pub implicit: bool,
    /// Subflows to announced addresses leave from it (Linux 6.18).
    pub laminar: bool,
}

impl EndpointFlags {
    fn named(self) -> [(&'static str, bool); 6] {
        [
            ("signal", self.signal),
            ("subflow", self.subflow),
            ("backup", self.backup),
            ("fullmesh", self.fullmesh),
            ("implicit", self.implicit),
            ("laminar", self.laminar),
        ]
    }

    fn bits(self) -> u32 {
        self.named().iter().enumerate().map(|(bit, (_, set))| u32::from(*set) << bit).sum()
    }

    const fn from_bits(bits: u32) -> Self {
        Self {
            signal: bits & 1 != 0,
            subflow: bits & 2 != 0,
            backup: bits & 4 != 0,
            fullmesh: bits & 8 != 0,
            implicit: bits & 16 != 0,
            laminar: bits & 32 != 0,
        }
    }
}

impl fmt::Display for EndpointFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.named().into_iter().filter_map(|(name, set)| set.then_some(name));
        f.write_str(&set.collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(port) = self.port {
            write!(f, " port {port}")?;
        }
        if let Some(id) = self.id {
            write!(f, " id {id}")?;
        }
        if let Some(interface) = self.interface {
            write!(f, " on interface {interface}")?;
        }
        write!(f, " ({})", self.flags)
    }
}

/// What each connection may have beyond its first subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Further subflows, 0 to 8.
    pub subflows: u32,
    /// Addresses announced by the peer to which subflows are opened, 0 to 8.
    pub add_addr_accepted: u32,
}

impl Endpoint {
    fn encode(&self) -> Encoder {
        selection(self.address)
            .with(self.id, |to, id| to.u8(ADDR_ATTR_ID, id))
            // Alone among ports in netlink, this one is in host byte order.
            .with(self.port, |to, port| to.u16(ADDR_ATTR_PORT, port))
            .u32(ADDR_ATTR_FLAGS, self.flags.bits())
            .with(self.interface, |to, index| to.u32(ADDR_ATTR_IF_IDX, index))
    }

    fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
        let attributes = attributes.nested(ATTR_ADDR)?;
        Some(Self {
            address: attributes.address(ADDR_ATTR_ADDR4).or_else(|| attributes.address(ADDR_ATTR_ADDR6))?,
            port: attributes.u16(ADDR_ATTR_PORT).filter(|port| *port != 0),
            id: attributes.u8(ADDR_ATTR_ID),
            interface: attributes.u32(ADDR_ATTR_IF_IDX).filter(|index| *index != 0),
            flags: EndpointFlags::from_bits(attributes.u32(ADDR_ATTR_FLAGS).unwrap_or(0)),
        })
    }
}

fn selection(address: IpAddr) -> Encoder {
    let kind = if address.is_ipv4() { ADDR_ATTR_ADDR4 } else { ADDR_ATTR_ADDR6 };
    Encoder::default().u16(ADDR_ATTR_FAMILY, family(address).into()).address(kind, address)
}

impl Limits {
    fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
        Some(Self {
            subflows: attributes.u32(ATTR_SUBFLOWS)?,
            add_addr_accepted: attributes.u32(ATTR_RCV_ADD_ADDRS)?,
        })
    }
}

/// A connection to the path manager of one network namespace.
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

    pub fn open_in(namespace: &NetNamespace) -> Result<Self, MptcpError> {
        namespace.run_in(Self::open).map_err(NetlinkError::from)?
    }

    pub fn endpoints(&mut self) -> Result<Vec<Endpoint>, MptcpError> {
        let message = self.socket.message(CMD_GET_ADDR, Encoder::default());
        Ok(self.socket.channel.dump("list the MPTCP endpoints", &message, Endpoint::parse)?)
    }

    /// Adds an endpoint. Its address must be on this host for the kernel to use it, but the kernel does not check that.
    /// Errors: `EBUSY` or `EEXIST` when the address or the id is in use, `EINVAL` for flags that exclude each other
    /// or a port on an endpoint that is not signalled.
    pub fn add_endpoint(&mut self, endpoint: &Endpoint) -> Result<(), MptcpError> {
        let address = Encoder::default().nested(ATTR_ADDR, endpoint.encode());
        self.execute(&format!("add MPTCP endpoint {endpoint}"), CMD_ADD_ADDR, address)
    }

    /// Removes the endpoint with this id (`EINVAL` when there is none). For id 0, which stands for the first address of
    /// connections that was no endpoint, `address` selects the connections.
    pub fn remove_endpoint(&mut self, id: u8, address: IpAddr) -> Result<(), MptcpError> {
        let selected = Encoder::default().nested(ATTR_ADDR, selection(address).u8(ADDR_ATTR_ID, id));
        self.execute(&format!("remove MPTCP endpoint {id} ({address})"), CMD_DEL_ADDR, selected)
    }

    pub fn flush_endpoints(&mut self) -> Result<(), MptcpError> {
        self.execute("remove all MPTCP endpoints", CMD_FLUSH_ADDRS, Encoder::default())
    }

    /// Changes the flags `backup` and `fullmesh` of the endpoint with this id, or with this address when it has none
    /// (`EINVAL` when there is none); the kernel cannot change other flags, and notifies peers at once.
    pub fn set_flags(&mut self, endpoint: &Endpoint) -> Result<(), MptcpError> {
        let address = Encoder::default().nested(ATTR_ADDR, endpoint.encode());
        self.execute(&format!("set the flags of MPTCP endpoint {endpoint}"), CMD_SET_FLAGS, address)
    }

    pub fn limits(&mut self) -> Result<Limits, MptcpError> {
        let message = self.socket.message(CMD_GET_LIMITS, Encoder::default());
        Ok(self.socket.channel.expect("read the MPTCP limits", 0, &message, Limits::parse)?)
    }

    /// Sets the limits (`EINVAL` above 8).
    pub fn set_limits(&mut self, limits: &Limits) -> Result<(), MptcpError> {
        let Limits { subflows, add_addr_accepted } = *limits;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_would_be_read(
            address: IpAddr, id in 1u8.., port in 1u16.., interface in 1u32.., bits in 0u32..64
        ) {
            let flags = EndpointFlags::from_bits(bits);
            prop_assert_eq!(flags.bits(), bits);
            let endpoint =
                Endpoint { address, port: Some(port), id: Some(id), interface: Some(interface), flags };
            let payload = Encoder::after(&[0; GENERIC_HEADER]).nested(ATTR_ADDR, endpoint.encode());
            prop_assert_eq!(Endpoint::parse(&payload.into_bytes()), Some(endpoint));
        }

        #[test]
        fn any_bytes(payload: Vec<u8>) {
            let _ = (Endpoint::parse(&payload), Limits::parse(&payload));
        }
    }
}
