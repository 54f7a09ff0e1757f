//! What a server says when it is ready: where it listens, and how to test against it.

use super::arguments::ServeArgs;
use super::places::host_name;
use crate::exit::Failure;
use crate::output;
use pathbench_host::netlink::RouteSocket;
use pathbench_record::transport::Transport;
use pathbench_transport::CertificateFingerprint;
use serde_json::json;
use std::net::{IpAddr, SocketAddr};

/// What it says.
#[derive(Debug, Clone)]
pub(super) struct Announcement {
    listening: Vec<(Transport, SocketAddr)>,
    fingerprint: CertificateFingerprint,
    self_made: bool,
    /// What a client types.
    command: String,
}

impl Announcement {
    pub(super) fn new(
        args: &ServeArgs,
        listening: &[(Transport, SocketAddr)],
        fingerprint: CertificateFingerprint,
    ) -> Self {
        let self_made = args.cert.is_none();
        let first = listening.first().map(|(_, address)| *address);
        let mut words = vec![format!("pathbench test {}", first.map_or_else(String::new, destination))];
        words.extend(args.quic_ports.iter().map(|port| format!("--quic-port {port}")));
        // A certificate that was given may be one that the public trusts, but pinning it is right as well.
        words.push(format!("--fingerprint {fingerprint}"));
        if args.token_key.is_some() {
            words.push("--token TOKEN".to_owned());
        }
        Self { listening: listening.to_vec(), fingerprint, self_made, command: words.join(" ") }
    }

    /// Prints it on stdout.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        output::print(&if json { self.document() } else { self.sentences() })
    }

    fn document(&self) -> String {
        let listening: Vec<_> = self
            .listening
            .iter()
            .map(|(transport, address)| {
                json!({ "transports": served(*transport), "address": address.to_string() })
            })
            .collect();
        let document = json!({
            "listening": listening,
            "fingerprint": self.fingerprint.to_string(),
            "self_made": self.self_made,
            "command": self.command,
        });
        format!("{document}\n")
    }

    fn sentences(&self) -> String {
        let listening = self.listening.iter().map(|(transport, address)| {
            let port = if matches!(transport, Transport::Tcp | Transport::Mptcp) { "TCP" } else { "UDP" };
            format!("listening on {address} ({port}): {}\n", served(*transport).join(", "))
        });
        let kind = if self.self_made { "self-made certificate" } else { "certificate" };
        format!(
            "{}{kind}, SHA-256: {}\nto test against it:\n  {}\n",
            listening.collect::<String>(),
            self.fingerprint,
            self.command
        )
    }
}

/// What a listener serves.
fn served(transport: Transport) -> &'static [&'static str] {
    match transport {
        Transport::Tcp => &["tcp"],
        Transport::Mptcp => &["tcp", "mptcp"],
        Transport::Quic => &["quic"],
        Transport::Mpquic => &["quic", "mpquic"],
    }
}

/// How a client may call this server; a guess where it listens on all addresses.
fn destination(listening: SocketAddr) -> String {
    let port = listening.port();
    if !listening.ip().is_unspecified() {
        return listening.to_string();
    }
    match own_address(listening.is_ipv6()) {
        Some(address) => SocketAddr::new(address, port).to_string(),
        None => format!("{}:{port}", host_name()),
    }
}

/// An address of this host at which others may reach it, IPv4 first.
fn own_address(ipv6_too: bool) -> Option<IpAddr> {
    let addresses = RouteSocket::open().and_then(|mut socket| socket.addresses()).ok()?;
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => ipv6_too && !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let addresses = addresses.iter().filter(|entry| !entry.tentative).map(|entry| entry.network.addr());
    addresses.filter(usable).min_by_key(IpAddr::is_ipv6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_address_is_where_to_go_when_it_is_one() {
        assert_eq!(destination(SocketAddr::from(([192, 0, 2, 1], 4433))), "192.0.2.1:4433");
        let anywhere = destination(SocketAddr::from(([0, 0, 0, 0], 4433)));
        assert!(anywhere.ends_with(":4433") && !anywhere.starts_with("0.0.0.0"), "{anywhere}");
    }
}
