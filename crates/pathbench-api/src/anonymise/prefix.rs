//! The replacement of an address: its network.

use pathbench_record::network::network;
use std::net::IpAddr;

/// Replaces removed text.
pub const REMOVED: &str = "(removed)";

const IPV4_PREFIX: u8 = 24;
const IPV6_PREFIX: u8 = 48;

/// The /24 or /48 of an address, and less of an IPv6 address whose /48 holds an IPv4 address.
pub(super) fn prefix(address: IpAddr) -> String {
    let ipv6_prefix = match address {
        // 6to4: the /24 of the IPv4 address in bits 16 to 47 (RFC 3056, section 2).
        IpAddr::V6(address) if address.segments()[0] == 0x2002 => 16 + IPV4_PREFIX,
        // Teredo: 32 bits of a server's IPv4 address follow (RFC 4380, section 4).
        IpAddr::V6(address) if address.segments()[..2] == [0x2001, 0] => 32,
        // In the last 32 bits the /48 holds none of it (RFC 4291, section 2.5.5; RFC 6052; RFC 8215).
        _ => IPV6_PREFIX,
    };
    network(address, IPV4_PREFIX, ipv6_prefix).to_string()
}
