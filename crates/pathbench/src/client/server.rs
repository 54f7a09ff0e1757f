//! A server as it is given on the command line, and the addresses behind it.

use clap::Args;
use pathbench_record::document::AddressFamily;
use pathbench_transport::CertificateFingerprint;
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::{fmt, io};

/// A server as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerName {
    /// Name or address.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
    /// As it was written.
    given: String,
}

impl ServerName {
    /// Reads `NAME`, `ADDRESS`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
    pub(crate) fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("`{text}` names no server: {why}"));
        let usual = "give a name or an address, with :PORT where it is not the usual one";
        if text.contains('/') || text.contains(char::is_whitespace) {
            return wrong(usual);
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, rest)) if rest.starts_with(':') => (host, Some(&rest[1..])),
                _ => return wrong("an IPv6 address with a port is written [ADDRESS]:PORT"),
            }
        } else if text.parse::<Ipv6Addr>().is_ok() {
            (text, None)
        } else {
            match text.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return wrong("an IPv6 address with a port is written [ADDRESS]:PORT");
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if text.starts_with('[') && host.parse::<Ipv6Addr>().is_err() {
            return wrong("what stands in brackets is no IPv6 address");
        }
        if host.is_empty() {
            return wrong(usual);
        }
        let port = match port.map(str::parse::<u16>) {
            None => default_port,
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return wrong("a port is a number from 1 to 65535"),
        };
        Ok(Self { host: host.to_owned(), port, given: text.to_owned() })
    }

    /// Its addresses, in the resolver's order of preference.
    pub(crate) fn resolve(&self) -> io::Result<Vec<IpAddr>> {
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            if !addresses.contains(&address.ip()) {
                addresses.push(address.ip());
            }
        }
        Ok(addresses)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

/// The family of an address.
pub(crate) const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Ipv4,
        IpAddr::V6(_) => AddressFamily::Ipv6,
    }
}

/// Where else the server is, what it is known by, and what it knows the client by.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccessArgs {
    /// A further UDP port to try QUIC on (repeatable)
    #[arg(long = "quic-port", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) quic_ports: Vec<u16>,
    /// SHA-256 of the server's certificate, as `pathbench serve` prints it [default: the public's authorities]
    #[arg(long, value_name = "HEX", conflicts_with = "ca")]
    pub(crate) fingerprint: Option<CertificateFingerprint>,
    /// PEM file with the authority that signed the server's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// What the server's operator gave you, where the server asks for it
    #[arg(long, value_name = "T", env = "PATHBENCH_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Encrypt tcp and mptcp as well (quic and mpquic always are)
    #[arg(long)]
    pub(crate) tls: bool,
}

impl AccessArgs {
    /// What is wrong with it.
    pub(crate) fn mistake(&self) -> Option<String> {
        let file = self.ca.as_ref()?;
        let error = std::fs::read(file).err()?;
        Some(format!("--ca {}: {error}", file.display()))
    }

    /// What to give where the server's certificate is to be believed by something else than the public's authorities.
    pub(crate) fn hint(&self) -> Option<String> {
        let given = self.fingerprint.is_some() || self.ca.is_some();
        (!given).then(|| {
            "without --fingerprint or --ca, the server's certificate must be by an authority that the public trusts"
                .to_owned()
        })
    }
}

/// By which family of addresses.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FamilyArgs {
    /// Use IPv4 only
    #[arg(short = '4', long = "ipv4", conflicts_with = "ipv6_only")]
    ipv4_only: bool,
    /// Use IPv6 only
    #[arg(short = '6', long = "ipv6")]
    ipv6_only: bool,
}

impl FamilyArgs {
    /// The one asked for; both when absent.
    pub(crate) const fn only(self) -> Option<AddressFamily> {
        match (self.ipv4_only, self.ipv6_only) {
            (true, _) => Some(AddressFamily::Ipv4),
            (_, true) => Some(AddressFamily::Ipv6),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_in_every_usual_form() {
        for (text, host, port) in [
            ("example.net", "example.net", 4433),
            ("example.net:443", "example.net", 443),
            ("192.0.2.7", "192.0.2.7", 4433),
            ("192.0.2.7:6121", "192.0.2.7", 6121),
            ("2001:db8::7", "2001:db8::7", 4433),
            ("[2001:db8::7]", "2001:db8::7", 4433),
            ("[2001:db8::7]:6121", "2001:db8::7", 6121),
        ] {
            let server = ServerName::parse(text, 4433).unwrap();
            assert_eq!((server.host.as_str(), server.port), (host, port), "{text}");
            assert_eq!(server.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_server_is_refused_with_the_reason() {
        for (text, words) in [
            ("", "give a name"),
            (":4433", "give a name"),
            ("a b", "give a name"),
            ("http://example.net", "give a name"),
            ("example.net:0", "1 to 65535"),
            ("example.net:70000", "1 to 65535"),
            ("example.net:http", "1 to 65535"),
            ("2001:db8::7:65536", "[ADDRESS]:PORT"),
            ("[2001:db8::7", "[ADDRESS]:PORT"),
            ("[2001:db8::7]4433", "[ADDRESS]:PORT"),
            ("[example.net]:4433", "brackets"),
        ] {
            let error = ServerName::parse(text, 4433).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
