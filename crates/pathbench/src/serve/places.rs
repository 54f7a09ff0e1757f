//! Where a server listens.

use super::arguments::ServeArgs;
use crate::exit::Failure;
use pathbench_record::transport::Transport;
use pathbench_transport::{MptcpUnavailable, mptcp_available};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Transports and addresses to listen on.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) listeners: Vec<(Transport, SocketAddr)>,
    /// Why there is no mptcp.
    pub(super) lack: Option<MptcpUnavailable>,
}

impl Places {
    pub(super) fn chosen(args: &ServeArgs) -> Result<Self, Failure> {
        let addresses = addresses(&args.listen);
        let port = match (args.port, addresses.first()) {
            (0, Some(&address)) => free_port(address)?,
            (port, _) => port,
        };
        let lack = mptcp_available().err();
        // An mptcp listener serves tcp, too.
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
            // An mpquic listener serves quic, too.
            let quic = quic_ports.iter().map(|&port| (Transport::Mpquic, SocketAddr::new(address, port)));
            listeners.extend(quic);
        }
        Ok(Self { listeners, lack })
    }

    /// What the server can be called in a certificate.
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

/// The host's name, where it can stand in a certificate.
pub(super) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    if fits { name } else { "pathbench".to_owned() }
}

/// Those that were given, each once; the IPv6 wildcard takes IPv4 clients as well.
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

/// Whether IPv6 is not switched off on this host.
fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// A port that nothing listens on, by TCP or UDP; somebody else may take it before this server does.
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
}
