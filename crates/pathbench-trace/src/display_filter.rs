//! Display filters of Wireshark.

use std::net::{IpAddr, SocketAddr};

/// Selects the packets between two endpoints. `protocol` is `tcp` or `udp`.
pub(crate) fn display_filter(protocol: &str, ends: [impl Into<SocketAddr>; 2]) -> String {
    let [client, server] = ends.map(Into::into);
    let field = match client.ip() {
        IpAddr::V4(_) => "ip.addr",
        IpAddr::V6(_) => "ipv6.addr",
    };
    format!(
        "{field} == {} && {field} == {} && {protocol}.port == {} && {protocol}.port == {}",
        client.ip(),
        server.ip(),
        client.port(),
        server.port()
    )
}
