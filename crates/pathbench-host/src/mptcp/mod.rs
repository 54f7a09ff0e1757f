//! The kernel's MPTCP path manager (generic netlink family `mptcp_pm`): endpoints, limits, events.

mod endpoint;
mod event;
mod family;

pub use endpoint::{Endpoint, EndpointFlags, Limits};
pub use event::EventStream;

use crate::namespace::NetNamespace;
use crate::netlink::NetlinkError;
use crate::netlink::attribute::{nested_attribute, u32_attribute};
use crate::netlink::channel::{Channel, Protocol, Reply};
use endpoint::{endpoint_attributes, parse_endpoint, parse_limits, selecting_attributes};
use family::{Command, Family};
use netlink_packet_core::DefaultNla;
use std::net::IpAddr;

// linux/mptcp_pm.h: commands
const CMD_ADD_ADDR: u8 = 1;
const CMD_DEL_ADDR: u8 = 2;
const CMD_GET_ADDR: u8 = 3;
const CMD_FLUSH_ADDRS: u8 = 4;
const CMD_SET_LIMITS: u8 = 5;
const CMD_GET_LIMITS: u8 = 6;
const CMD_SET_FLAGS: u8 = 7;
// … and attributes of commands
const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;

/// The MPTCP path manager could not be asked, or refused.
#[derive(Debug, thiserror::Error)]
pub enum MptcpError {
    /// The kernel has no `mptcp_pm` family.
    #[error(
        "this kernel has no MPTCP path manager: it is older than 5.6 or was built without MPTCP (CONFIG_MPTCP)"
    )]
    NoPathManager,
    /// The kernel's path manager sends no events.
    #[error("this kernel's MPTCP path manager sends no events: that came with Linux 5.13")]
    NoEvents,
    /// The request failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// A connection to the path manager of one network namespace.
#[derive(Debug)]
pub struct PathManager {
    channel: Channel,
    family: Family,
}

impl PathManager {
    /// The path manager of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`MptcpError::NoPathManager`], or [`MptcpError::Netlink`] when no socket can be had.
    pub fn open() -> Result<Self, MptcpError> {
        Self::over(Channel::open(Protocol::Generic)?)
    }

    /// The path manager of `namespace`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_in(namespace: &NetNamespace) -> Result<Self, MptcpError> {
        Self::over(Channel::open_in(Protocol::Generic, namespace)?)
    }

    fn over(mut channel: Channel) -> Result<Self, MptcpError> {
        let family = Family::look_up(&mut channel)?.ok_or(MptcpError::NoPathManager)?;
        Ok(Self { channel, family })
    }

    /// All endpoints.
    pub fn endpoints(&mut self) -> Result<Vec<Endpoint>, MptcpError> {
        let command = Command { command: CMD_GET_ADDR, attributes: Vec::new() }.to(self.family);
        let replies = self.channel.dump("list the MPTCP endpoints", &command)?;
        Ok(replies.iter().filter_map(|(_, payload)| parse_endpoint(payload)).collect())
    }

    /// Adds an endpoint. Its address must be on this host for the kernel to use it, but the kernel does not
    /// check that.
    ///
    /// # Errors
    /// [`MptcpError::Netlink`] (`EBUSY` or `EEXIST` when the address or the id is in use, `EINVAL` for flags that
    /// exclude each other or a port on an endpoint that is not signalled).
    pub fn add_endpoint(&mut self, endpoint: &Endpoint) -> Result<(), MptcpError> {
        let attributes = endpoint_attributes(endpoint);
        self.with_address(&format!("add MPTCP endpoint {endpoint}"), CMD_ADD_ADDR, &attributes)
    }

    /// Removes the endpoint with this id. For id 0, which stands for the first address of connections that
    /// was no endpoint, `address` says which.
    ///
    /// # Errors
    /// [`MptcpError::Netlink`] (`EINVAL` when there is none).
    pub fn remove_endpoint(&mut self, id: u8, address: IpAddr) -> Result<(), MptcpError> {
        let attributes = selecting_attributes(id, address);
        let request = format!("remove MPTCP endpoint {id} ({address})");
        self.with_address(&request, CMD_DEL_ADDR, &attributes)
    }

    /// Removes all endpoints.
    pub fn flush_endpoints(&mut self) -> Result<(), MptcpError> {
        self.execute("remove all MPTCP endpoints", CMD_FLUSH_ADDRS, Vec::new()).map(drop)
    }

    /// Changes the flags `backup` and `fullmesh` of the endpoint with this id, or with this address when it
    /// has none, to those given; the kernel cannot change other flags, and tells connections at once.
    ///
    /// # Errors
    /// [`MptcpError::Netlink`] (`EINVAL` when there is none).
    pub fn set_flags(&mut self, endpoint: &Endpoint) -> Result<(), MptcpError> {
        let attributes = endpoint_attributes(endpoint);
        self.with_address(&format!("set the flags of MPTCP endpoint {endpoint}"), CMD_SET_FLAGS, &attributes)
    }

    /// How many further subflows and announced addresses each connection may have.
    pub fn limits(&mut self) -> Result<Limits, MptcpError> {
        const REQUEST: &str = "read the MPTCP limits";
        let replies = self.execute(REQUEST, CMD_GET_LIMITS, Vec::new())?;
        let limits = replies.iter().find_map(|(_, payload)| parse_limits(payload));
        limits.ok_or_else(|| {
            NetlinkError::Malformed { request: REQUEST.to_owned(), detail: "it has no limits" }.into()
        })
    }

    /// Sets the limits.
    ///
    /// # Errors
    /// [`MptcpError::Netlink`] (`EINVAL` above 8).
    pub fn set_limits(&mut self, limits: &Limits) -> Result<(), MptcpError> {
        let attributes = vec![
            u32_attribute(ATTR_SUBFLOWS, limits.subflows),
            u32_attribute(ATTR_RCV_ADD_ADDRS, limits.add_addr_accepted),
        ];
        let Limits { subflows, add_addr_accepted } = limits;
        let request =
            format!("set the MPTCP limits to subflows {subflows}, add_addr_accepted {add_addr_accepted}");
        self.execute(&request, CMD_SET_LIMITS, attributes).map(drop)
    }

    fn with_address(&mut self, request: &str, command: u8, address: &[DefaultNla]) -> Result<(), MptcpError> {
        self.execute(request, command, vec![nested_attribute(ATTR_ADDR, address)]).map(drop)
    }

    fn execute(
        &mut self,
        request: &str,
        command: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Vec<Reply>, MptcpError> {
        Ok(self.channel.get(request, 0, Command { command, attributes }.to(self.family))?)
    }
}
