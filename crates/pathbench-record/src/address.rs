//! IP addresses: one form for each, and which of them are one client.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4};

/// The address with a v4-mapped IPv6 address turned into IPv4: a wildcard IPv6 listener takes IPv4 peers so.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => {
            v6.ip().to_ipv4_mapped().map_or(address, |v4| SocketAddrV4::new(v4, v6.port()).into())
        }
    }
}

/// Bits of an IPv6 address that are one client's: a host has a whole /64 to choose from (RFC 7421).
const IPV6_PREFIX: u32 = 64;

/// A client, by its address. Hosts behind one NAT are one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client(IpAddr);

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - IPV6_PREFIX))).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_come_out_as_ipv4() {
        let mapped: SocketAddr = "[::ffff:192.0.2.7]:80".parse().expect("an address");
        assert_eq!(canonical(mapped), "192.0.2.7:80".parse().expect("an address"));
        let v6: SocketAddr = "[2001:db8::1]:80".parse().expect("an address");
        assert_eq!(canonical(v6), v6);
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_network() {
        let client = |text: &str| Client::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    }
}
