//! Addresses and ports of packets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An IP address as 128 bits; IPv4 as IPv4-mapped IPv6 (RFC 4291, section 2.5.5.2), which no packet on a wire carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Address(pub u128);

impl Address {
    #[inline]
    pub fn v4(bytes: [u8; 4]) -> Self {
        Self(0xffff_0000_0000 | u128::from(u32::from_be_bytes(bytes)))
    }

    #[inline]
    pub fn v6(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        Ipv6Addr::from(address.0).to_canonical()
    }
}

/// Address and port of one end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FlowEndpoint {
    pub address: Address,
    pub port: u16,
}

impl From<FlowEndpoint> for SocketAddr {
    fn from(endpoint: FlowEndpoint) -> Self {
        Self::new(endpoint.address.into(), endpoint.port)
    }
}
