//! The listening addresses of a server, and their announcement.

use super::arguments::ServeArgs;
use pathbench_host::netlink::RouteSocket;
use pathbench_program::exit::Failure;
use pathbench_record::transport::Transport;
use pathbench_transport::{CertificateFingerprint, MptcpUnavailable, mptcp_available};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

#[derive(Debug, Clone)]
pub(super) struct ListenAddresses {
    pub(super) listeners: Vec<(Transport, SocketAddr)>,
    pub(super) lack: Option<MptcpUnavailable>,
}

impl ListenAddresses {
    pub(super) fn select(args: &ServeArgs) -> Result<Self, Failure> {
        let addresses = addresses(&args.listen);
        let port = match (args.port, addresses.first()) {
            (0, Some(&address)) => free_port(address)?,
            (port, _) => port,
        };
        let lack = mptcp_available().err();
        // An mptcp listener also accepts tcp.
        let streams = if lack.is_none() { Transport::Mptcp } else { Transport::Tcp };
        let mut quic_ports = vec![port];
        for &further in &args.quic_ports {
            if !quic_ports.contains(&further) {
                quic_ports.push(further);
            }
        }
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push((streams, SocketAddr::new(address, port)));
            // An mpquic listener also accepts quic.
            let quic = quic_ports.iter().map(|&port| (Transport::Mpquic, SocketAddr::new(address, port)));
            listeners.extend(quic);
        }
        Ok(Self { listeners, lack })
    }

    /// The names in the server's certificate.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = vec![host_name(), "localhost".to_owned()];
        for (_, address) in &self.listeners {
            let name = address.ip().to_string();
            if !address.ip().is_unspecified() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// The host's name, if it is valid in a certificate.
pub(super) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    if fits { name } else { "pathbench".to_owned() }
}

/// The given addresses without duplicates; the IPv6 wildcard serves IPv4 clients as well.
fn addresses(given: &[IpAddr]) -> Vec<IpAddr> {
    const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    if given.is_empty() {
        return vec![if has_ipv6() { ANY_V6 } else { ANY_V4 }];
    }
    let mut addresses = Vec::new();
    for &address in given {
        let covered = address == ANY_V4 && given.contains(&ANY_V6);
        if !covered && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// A free port for TCP and UDP. Another program may bind it before this server does.
fn free_port(address: IpAddr) -> Result<u16, Failure> {
    let failed = |error| Failure::failed(format!("looking for a free port on {address}: {error}"));
    loop {
        let listener = TcpListener::bind((address, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        if std::net::UdpSocket::bind((address, port)).is_ok() {
            return Ok(port);
        }
    }
}

/// The announcement of a listening server: sentences, or one document with --json.
pub(super) fn announcement(
    args: &ServeArgs,
    listening: &[(Transport, SocketAddr)],
    fingerprint: CertificateFingerprint,
) -> String {
    let first = listening.first().map(|(_, address)| *address);
    let mut words = vec![format!("pathbench test {}", first.map_or_else(String::new, destination))];
    words.extend(args.quic_ports.iter().map(|port| format!("--quic-port {port}")));
    // A public CA may have signed a given certificate, but pinning its fingerprint is valid as well.
    words.push(format!("--fingerprint {fingerprint}"));
    if args.token_key.is_some() {
        words.push("--token TOKEN".to_owned());
    }
    let (command, generated) = (words.join(" "), args.cert.is_none());
    if args.json {
        let listener = |(transport, address): &(Transport, SocketAddr)| json!({ "transports": transport_names(*transport), "address": address.to_string() });
        let document = json!({
            "listening": listening.iter().map(listener).collect::<Vec<_>>(),
            "fingerprint": fingerprint.to_string(),
            "certificate_generated": generated,
            "command": command,
        });
        return format!("{document}\n");
    }
    let listening = listening.iter().map(|(transport, address)| {
        let port = if transport.is_quic() { "UDP" } else { "TCP" };
        format!("listening on {address} ({port}): {}\n", transport_names(*transport).join(", "))
    });
    let listening: String = listening.collect();
    let kind = if generated { "self-signed certificate" } else { "certificate" };
    format!("{listening}{kind}, SHA-256: {fingerprint}\nto test against it:\n  {command}\n")
}

fn transport_names(transport: Transport) -> &'static [&'static str] {
    match transport {
        Transport::Tcp => &["tcp"],
        Transport::Mptcp => &["tcp", "mptcp"],
        Transport::Quic => &["quic"],
        Transport::Mpquic => &["quic", "mpquic"],
        Transport::Udp => &["udp"],
    }
}

/// The server's address for clients; a guess if the server listens on all addresses.
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

/// An address of this host that is valid beyond the link, IPv4 first.
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
    fn the_ipv6_wildcard_covers_ipv4() {
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(addresses(&[parse("0.0.0.0"), parse("::")]), [parse("::")]);
        assert_eq!(addresses(&[parse("0.0.0.0"), parse("::1")]), [parse("0.0.0.0"), parse("::1")]);
        assert_eq!(addresses(&[parse("::1"), parse("::1")]), [parse("::1")]);
        assert_eq!(addresses(&[]).len(), 1);
    }

    #[test]
    fn a_specific_listening_address_is_the_destination() {
        assert_eq!(destination(SocketAddr::from(([192, 0, 2, 1], 4433))), "192.0.2.1:4433");
        let anywhere = destination(SocketAddr::from(([0, 0, 0, 0], 4433)));
        assert!(anywhere.ends_with(":4433") && !anywhere.starts_with("0.0.0.0"), "{anywhere}");
    }
}
