//! The limits that the owner of a host sets. They hold for every experiment of a collector.

use ipnet::IpNet;
use pathbench_record::units::{Size, Span};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::Duration;

/// Experiments that an agent runs; of a longer list it takes the first ones.
pub(crate) const MOST_EXPERIMENTS: usize = 16;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OwnerLimits {
    /// Bytes of one interface in both directions.
    #[serde(deserialize_with = "text")]
    pub(crate) month: Size,
    #[serde(deserialize_with = "text")]
    pub(crate) execution: Size,
    #[serde(deserialize_with = "text")]
    pub(crate) day: Size,
    pub(crate) executions_per_day: u32,
    #[serde(deserialize_with = "text")]
    pub(crate) shortest_interval: Span,
    #[serde(deserialize_with = "text")]
    pub(crate) longest: Span,
    pub(crate) metered: bool,
    pub(crate) roaming: bool,
    /// Patterns of the only test servers.
    #[serde(deserialize_with = "texts")]
    pub(crate) servers: Vec<ServerPattern>,
    #[serde(deserialize_with = "text")]
    pub(crate) outbox: Size,
    /// Instead of `month`, by interface.
    #[serde(deserialize_with = "sizes")]
    pub(crate) interfaces: BTreeMap<String, Size>,
    pub(crate) networks: Networks,
}

/// The owner's knowledge of the networks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Networks {
    pub(crate) metered: BTreeSet<String>,
    pub(crate) unmetered: BTreeSet<String>,
}

impl Default for OwnerLimits {
    fn default() -> Self {
        Self {
            month: Size(5_000_000_000),
            execution: Size(1_000_000_000),
            day: Size(2_000_000_000),
            executions_per_day: 48,
            shortest_interval: Span(Duration::from_secs(600)),
            longest: Span(Duration::from_secs(1800)),
            metered: false,
            roaming: false,
            servers: Vec::new(),
            outbox: Size(256_000_000),
            interfaces: BTreeMap::new(),
            networks: Networks::default(),
        }
    }
}

impl OwnerLimits {
    pub(crate) fn month_of(&self, interface: &str) -> u64 {
        self.interfaces.get(interface).unwrap_or(&self.month).0
    }

    /// Whether the agent may test a server with this host name and these addresses, of which all must fit; the reason
    /// if not. `own` are the prefixes of this host's interfaces.
    pub(crate) fn permit_server(
        &self,
        host: &str,
        addresses: &[IpAddr],
        own: &[IpNet],
    ) -> Result<(), String> {
        for &address in addresses {
            let fits = |pattern: &ServerPattern| pattern.matches(host, address);
            if self.servers.iter().any(fits) {
                continue;
            }
            if !self.servers.is_empty() {
                return Err(format!(
                    "no pattern of --allow-servers or `limits.servers` matches {host} ({address})"
                ));
            }
            if !is_public(address, own) {
                return Err(format!(
                    "{host} is at {address}, which is not a public address outside this host's networks; allow it with \
                     --allow-servers {host}"
                ));
            }
        }
        if addresses.is_empty() { Err(format!("{host} has no address")) } else { Ok(()) }
    }
}

/// A pattern of host names (`*.example.net`, `server.example.net`) or of addresses (`192.0.2.0/24`, `2001:db8::7`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerPattern {
    Network(IpNet),
    Name(String),
}

impl ServerPattern {
    fn matches(&self, host: &str, address: IpAddr) -> bool {
        match self {
            Self::Network(network) => network.contains(&address),
            Self::Name(pattern) => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                // A pattern of names says nothing about a literal address.
                let is_name = host.parse::<IpAddr>().is_err();
                match pattern.strip_prefix('*') {
                    Some(suffix) => is_name && host.len() > suffix.len() && host.ends_with(suffix),
                    None => is_name && host == *pattern,
                }
            }
        }
    }
}

impl FromStr for ServerPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(network) = bare.parse::<IpNet>() {
            return Ok(Self::Network(network.trunc()));
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Network(address.into()));
        }
        let rest = text.strip_prefix("*").unwrap_or(text);
        let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let fits = !text.is_empty()
            && rest.chars().all(is_label)
            && (rest == text || rest.is_empty() || rest.starts_with('.'));
        if !fits {
            return Err(format!(
                "`{text}` is no pattern of servers: write *.example.net, a host name, an address or 192.0.2.0/24"
            ));
        }
        Ok(Self::Name(text.to_ascii_lowercase()))
    }
}

/// Whether the address belongs to the public Internet, as far as its range tells (RFC 6890), and to none of this host's
/// networks: their hosts can have public addresses.
fn is_public(address: IpAddr, own: &[IpNet]) -> bool {
    let address = address.to_canonical();
    if own.iter().any(|prefix| prefix.contains(&address)) {
        return false;
    }
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
                || is_shared
                || matches!(first, 0 | 240..=255)
                || (first == 198 && matches!(second, 18 | 19)))
        }
        IpAddr::V6(address) => {
            // 64:ff9b::/96 (RFC 6052) leads to an IPv4 address.
            let segments = address.segments();
            if segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
                let [.., a, b, c, d] = address.octets();
                return is_public(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), own);
            }
            // 6to4 (RFC 3056) and Teredo (RFC 4380) lead to IPv4 addresses, too.
            let is_tunnel = segments[0] == 0x2002 || segments[..2] == [0x2001, 0];
            segments[0] & 0xe000 == 0x2000 && !is_tunnel
        }
    }
}

fn text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Size>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
    let parsed = |(name, text): (String, String)| Ok((name, text.parse().map_err(serde::de::Error::custom)?));
    texts.into_iter().map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(servers: &[&str], host: &str, address: &str) -> bool {
        let servers = servers.iter().map(|pattern| pattern.parse().unwrap()).collect();
        OwnerLimits { servers, ..OwnerLimits::default() }
            .permit_server(host, &[address.parse().unwrap()], &[])
            .is_ok()
    }

    #[test]
    fn without_patterns_servers_are_on_public_addresses() {
        for address in ["198.51.100.7", "2001:db8::7", "64:ff9b::c633:6407"] {
            assert!(permits(&[], "server.test", address), "{address}");
        }
        for address in [
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:0:a00:1::1",
        ] {
            assert!(!permits(&[], "server.test", address), "{address}");
        }
        assert!(OwnerLimits::default().permit_server("server.test", &[], &[]).is_err());
    }

    #[test]
    fn hosts_of_the_own_networks_need_a_pattern() {
        let own = ["198.51.100.9/24".parse().unwrap(), "2001:db8:1::9/64".parse().unwrap()];
        let permits = |limits: &OwnerLimits, address: &str| {
            limits.permit_server("server.test", &[address.parse().unwrap()], &own).is_ok()
        };
        for address in ["198.51.100.7", "2001:db8:1::7", "64:ff9b::c633:6407", "::ffff:198.51.100.7"] {
            assert!(!permits(&OwnerLimits::default(), address), "{address}");
        }
        assert!(
            permits(&OwnerLimits::default(), "203.0.113.7")
                && permits(&OwnerLimits::default(), "2001:db8:2::7")
        );
        let named = OwnerLimits { servers: vec!["server.test".parse().unwrap()], ..OwnerLimits::default() };
        assert!(permits(&named, "198.51.100.7"));
    }

    #[test]
    fn patterns_name_the_only_servers() {
        assert!(permits(&["*.example.net"], "a.example.net", "10.0.0.1"));
        assert!(permits(&["*.example.net"], "A.Example.Net.", "198.51.100.7"));
        assert!(!permits(&["*.example.net"], "example.net", "198.51.100.7"));
        assert!(!permits(&["*.example.net"], "a.example.net.evil.test", "198.51.100.7"));
        assert!(permits(&["10.0.0.0/8"], "10.1.2.3", "10.1.2.3"));
        assert!(!permits(&["10.0.0.0/8"], "server.test", "198.51.100.7"));
        assert!(permits(&["::1"], "::1", "::1"));
        assert!(!permits(&["*"], "10.1.2.3", "10.1.2.3"), "`*` is a pattern of names");
        for wrong in ["", "a b", "*x", "a*", "http://x", "10.0.0.0/33"] {
            assert!(wrong.parse::<ServerPattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_address_of_a_server_must_be_permitted() {
        let addresses = ["198.51.100.7", "10.0.0.1"].map(|address| address.parse().unwrap());
        assert!(OwnerLimits::default().permit_server("server.test", &addresses, &[]).is_err());
    }
}
