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

/// Selects frames by their numbers in the file, which count from 1; numbers are in ascending order.
pub(crate) fn frames_filter(frames: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &frame in frames {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == frame => run.1 = frame,
            _ => runs.push((frame, frame)),
        }
    }
    let run = |(first, last): (u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}..{last}") }
    };
    let runs: Vec<String> = runs.into_iter().map(run).collect();
    format!("frame.number in {{{}}}", runs.join(", "))
}
