//! A server's name or address as the user wrote it, and its addresses.

use crate::exit::{Exit, Failure};
use pathbench_record::document::AddressFamily;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs as _};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerName {
    pub(crate) host: String,
    pub(crate) port: u16,
    given: String,
}

impl ServerName {
    /// Reads `NAME`, `ADDRESS`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
    pub(crate) fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("`{text}` names no server: {why}"));
        let usual = "give a name or an address, with :PORT where it is not the default";
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
            return wrong("only an IPv6 address belongs in brackets");
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

    /// Its addresses of this family, or of both, in the resolver's order of preference (RFC 6724).
    pub(crate) fn addresses(&self, wanted: Option<AddressFamily>) -> Result<Vec<IpAddr>, Failure> {
        let unreachable = |message| Failure { exit: Exit::Unreachable, message };
        let resolved = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| unreachable(format!("the name {} cannot be resolved: {error}", self.host)))?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in resolved.map(|address| address.ip()) {
            if !addresses.contains(&address) && wanted.is_none_or(|wanted| family(address) == wanted) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            let wanted = wanted.map_or("IP", AddressFamily::name);
            return Err(unreachable(format!("{self} has no {wanted} address")));
        }
        Ok(addresses)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

pub(crate) const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Ipv4,
        IpAddr::V6(_) => AddressFamily::Ipv6,
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
