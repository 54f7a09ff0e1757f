//! Networks of addresses.

use std::net::IpAddr;

/// Whether other networks cannot reach the address: RFC 1918, RFC 4193, shared addresses of carriers (RFC 6598), and
/// link-local and loopback addresses.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            v4.is_private() || v4.is_link_local() || v4.is_loopback() || is_shared
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_loopback(),
    }
}
