//! Endpoints and limits as the path manager writes them.

use super::family::GENERIC_HEADER;
use super::{ATTR_ADDR, ATTR_RCV_ADD_ADDRS, ATTR_SUBFLOWS};
use crate::netlink::attribute::{Attributes, octets, u32_attribute};
use netlink_packet_core::DefaultNla;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

// linux/mptcp_pm.h: attributes of an endpoint
const ADDR_ATTR_FAMILY: u16 = 1;
const ADDR_ATTR_ID: u16 = 2;
const ADDR_ATTR_ADDR4: u16 = 3;
const ADDR_ATTR_ADDR6: u16 = 4;
const ADDR_ATTR_PORT: u16 = 5;
const ADDR_ATTR_FLAGS: u16 = 6;
const ADDR_ATTR_IF_IDX: u16 = 7;

/// A local address that the path manager may use for subflows or announce to peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// Port to listen on and announce, where it is not the connection's own; only with `signal`.
    pub port: Option<u16>,
    /// Its number, 1 to 255; `None` lets the kernel choose.
    pub id: Option<u8>,
    /// Index of the interface that its subflows are bound to.
    pub interface: Option<u32>,
    /// What it is for.
    pub flags: EndpointFlags,
}

/// What an endpoint is for (`MPTCP_PM_ADDR_FLAG_*` of linux/mptcp.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags of the kernel's interface")]
pub struct EndpointFlags {
    /// Announced to peers by `ADD_ADDR`.
    pub signal: bool,
    /// Subflows are opened from it.
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

/// The attributes that describe an endpoint in full.
pub(super) fn endpoint_attributes(endpoint: &Endpoint) -> Vec<DefaultNla> {
    let mut attributes = address_attributes(endpoint.address);
    attributes.extend(endpoint.id.map(|id| DefaultNla::new(ADDR_ATTR_ID, vec![id])));
    // Alone among ports in netlink, this one is in host byte order.
    attributes.extend(endpoint.port.map(|port| DefaultNla::new(ADDR_ATTR_PORT, port.to_ne_bytes().to_vec())));
    attributes.push(u32_attribute(ADDR_ATTR_FLAGS, endpoint.flags.bits()));
    attributes.extend(endpoint.interface.map(|index| u32_attribute(ADDR_ATTR_IF_IDX, index)));
    attributes
}

/// The attributes that are enough to find an endpoint.
pub(super) fn selecting_attributes(id: u8, address: IpAddr) -> Vec<DefaultNla> {
    let mut attributes = address_attributes(address);
    attributes.push(DefaultNla::new(ADDR_ATTR_ID, vec![id]));
    attributes
}

fn address_attributes(address: IpAddr) -> Vec<DefaultNla> {
    let (family, kind) =
        if address.is_ipv4() { (libc::AF_INET, ADDR_ATTR_ADDR4) } else { (libc::AF_INET6, ADDR_ATTR_ADDR6) };
    vec![
        DefaultNla::new(ADDR_ATTR_FAMILY, (family as u16).to_ne_bytes().to_vec()),
        DefaultNla::new(kind, octets(address)),
    ]
}

/// The endpoint in an answer to `MPTCP_PM_CMD_GET_ADDR`.
pub(super) fn parse_endpoint(payload: &[u8]) -> Option<Endpoint> {
    let (_, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
    let attributes = attributes.nested(ATTR_ADDR)?;
    Some(Endpoint {
        address: attributes.address(ADDR_ATTR_ADDR4).or_else(|| attributes.address(ADDR_ATTR_ADDR6))?,
        port: attributes.u16(ADDR_ATTR_PORT).filter(|port| *port != 0),
        id: attributes.u8(ADDR_ATTR_ID),
        interface: attributes.u32(ADDR_ATTR_IF_IDX).filter(|index| *index != 0),
        flags: EndpointFlags::from_bits(attributes.u32(ADDR_ATTR_FLAGS).unwrap_or(0)),
    })
}

/// The limits in an answer to `MPTCP_PM_CMD_GET_LIMITS`.
pub(super) fn parse_limits(payload: &[u8]) -> Option<Limits> {
    let (_, attributes) = Attributes::after(payload, GENERIC_HEADER)?;
    Some(Limits {
        subflows: attributes.u32(ATTR_SUBFLOWS)?,
        add_addr_accepted: attributes.u32(ATTR_RCV_ADD_ADDRS)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::{emitted, nested_attribute};
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
            let mut payload = vec![0; GENERIC_HEADER];
            payload.extend(emitted(&[nested_attribute(ATTR_ADDR, &endpoint_attributes(&endpoint))]));
            prop_assert_eq!(parse_endpoint(&payload), Some(endpoint));
        }

        #[test]
        fn any_bytes(payload: Vec<u8>) {
            let _ = parse_endpoint(&payload);
            let _ = parse_limits(&payload);
        }
    }
}
