//! The server of an execution: chosen among those that the collector offers and the owner permits, by the connection
//! time. Everything that a collector says about a server is checked before a packet goes there.

use crate::limits::OwnerLimits;
use crate::networks::HostNetworks;
use pathbench_api::check_in::{MOST_SERVERS, OfferedServer};
use pathbench_api::experiment::Family;
use pathbench_api::name::Name;
use pathbench_record::network::ServerName;
use pathbench_record::time::Clock;
use pathbench_transport::CertificateFingerprint;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The port of `pathbench serve`, where an address has none.
const PORT: u16 = 4433;
const RESOLUTION: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(2);
const MOST_QUIC_PORTS: usize = 8;
const TOKEN_BYTES: usize = 512;
const MOST_ADDRESSES: usize = 16;

/// A server that may be tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestTarget {
    pub(crate) name: Name,
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
    pub(crate) quic_ports: Vec<u16>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) token: Option<String>,
}

impl TestTarget {
    /// Checks an offered server; the reason if it must not be tested.
    pub(crate) fn new(
        offered: &OfferedServer,
        limits: &OwnerLimits,
        networks: &dyn HostNetworks,
    ) -> Result<Self, String> {
        let target = Self::without_limits(offered)?;
        limits.permit_server(&target.host, &target.addresses, &networks.own_networks()?)?;
        Ok(target)
    }

    /// As [`Self::new`] for a server that the owner of this host names.
    pub(crate) fn without_limits(offered: &OfferedServer) -> Result<Self, String> {
        Self::parse(offered, resolve)
    }

    /// Parses an offered server; `resolve` gets its host and port and returns the addresses.
    pub fn parse(
        offered: &OfferedServer,
        resolve: impl Fn(&str, u16) -> Result<Vec<IpAddr>, String>,
    ) -> Result<Self, String> {
        let ServerName { host, port, .. } = ServerName::parse(&offered.address, PORT)?;
        // It is on the command line of the test, and in messages.
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_name =
            (1..=253).contains(&host.len()) && !host.starts_with('-') && host.bytes().all(is_letter);
        if !is_name && host.parse::<IpAddr>().is_err() {
            return Err("its address is not a valid host name".to_owned());
        }
        if offered.quic_ports.len() > MOST_QUIC_PORTS || offered.quic_ports.contains(&0) {
            return Err(format!("`quic_ports` has more than {MOST_QUIC_PORTS} ports, or port 0"));
        }
        let is_token =
            |token: &String| token.len() <= TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !offered.token.iter().all(is_token) {
            return Err(format!(
                "its token is longer than {TOKEN_BYTES} bytes or has characters that are not printable ASCII"
            ));
        }
        if let Some(text) = &offered.fingerprint
            && text.parse::<CertificateFingerprint>().is_err()
        {
            return Err("its fingerprint is not SHA-256 in hexadecimal digits".to_owned());
        }
        let addresses = resolve(&host, port)?;
        Ok(Self {
            name: offered.name.clone(),
            host,
            port,
            addresses,
            quic_ports: offered.quic_ports.clone(),
            fingerprint: offered.fingerprint.clone(),
            token: offered.token.clone(),
        })
    }

    /// The first address of the IP version, the resolver's choice without one.
    pub(crate) fn address(&self, family: Option<Family>) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| match family {
            None => true,
            Some(Family::Ipv4) => address.is_ipv4(),
            Some(Family::Ipv6) => address.is_ipv6(),
        })
    }

    /// `SERVER` for the command line, and how the server proves its identity: the address is the one that was checked,
    /// because a name can mean another one meanwhile.
    pub(crate) fn arguments(&self, address: IpAddr) -> [String; 3] {
        let server = SocketAddr::new(address, self.port).to_string();
        match &self.fingerprint {
            Some(fingerprint) => [server, "--fingerprint".to_owned(), fingerprint.clone()],
            None => [server, "--certificate-name".to_owned(), self.host.clone()],
        }
    }
}

/// The offered servers that an experiment names, all if it names none.
pub(crate) fn filter_servers<'a>(offered: &'a [OfferedServer], names: &[Name]) -> Vec<&'a OfferedServer> {
    let fits = |server: &&OfferedServer| names.is_empty() || names.contains(&server.name);
    offered.iter().take(MOST_SERVERS).filter(fits).collect()
}

/// The target with the shortest connection time; the first one if none accepts a connection.
pub(crate) fn select_nearest(mut targets: Vec<TestTarget>, clock: &dyn Clock) -> Option<TestTarget> {
    if targets.len() > 1 {
        let timed = |target: &TestTarget| {
            let address = SocketAddr::new(target.address(None)?, target.port);
            let begun = clock.now();
            TcpStream::connect_timeout(&address, CONNECTION).ok()?;
            Some(clock.now().duration_since(begun))
        };
        targets.sort_by_cached_key(|target| timed(target).unwrap_or(Duration::MAX));
    }
    targets.into_iter().next()
}

/// getaddrinfo(3) has no deadline, so another thread waits for it.
pub(crate) fn resolve(host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![address]);
    }
    let (sender, receiver) = channel();
    let name = (host.to_owned(), port);
    thread::spawn(move || {
        let found = name.to_socket_addrs().map(|found| found.map(|one| one.ip()).collect::<Vec<_>>());
        // The receiver may have given up.
        let _late = sender.send(found);
    });
    let found = receiver
        .recv_timeout(RESOLUTION)
        .map_err(|_| format!("the name {host} was not resolved within {} s", RESOLUTION.as_secs()))?;
    let mut addresses = found.map_err(|error| format!("the name {host} cannot be resolved: {error}"))?;
    addresses.dedup();
    addresses.truncate(MOST_ADDRESSES);
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::KernelNetworks;
    use serde_json::{Value, json};

    fn offered(changes: &Value) -> OfferedServer {
        let mut document = json!({ "name": "s", "address": "127.0.0.1:4433", "quic_ports": [], "load": 0.0 });
        document.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn offers_that_could_do_harm_are_refused() {
        let refused = |changes: Value| {
            TestTarget::new(&offered(&changes), &OwnerLimits::default(), &KernelNetworks).unwrap_err()
        };
        assert!(refused(json!({})).contains("not a public address"));
        for changes in [
            json!({ "address": "--path" }),
            json!({ "address": "169.254.169.254:80" }),
            json!({ "address": "[::1]:22" }),
            json!({ "address": "192.168.1.1/admin" }),
            json!({ "address": "a\u{4}b" }),
            json!({ "address": "b\u{fc}ro.example" }),
            json!({ "address": "198.51.100.7", "quic_ports": [1, 2, 3, 4, 5, 6, 7, 8, 9] }),
            json!({ "address": "198.51.100.7", "token": "a\nb" }),
            json!({ "address": "198.51.100.7", "token": "a".repeat(513) }),
            json!({ "address": "198.51.100.7", "fingerprint": "--tls" }),
        ] {
            refused(changes);
        }
    }

    #[test]
    fn the_checked_address_is_the_tested_one() {
        let limits = OwnerLimits { servers: vec!["127.0.0.0/8".parse().unwrap()], ..OwnerLimits::default() };
        let fingerprint = "ab".repeat(32);
        let target =
            TestTarget::new(&offered(&json!({ "fingerprint": fingerprint })), &limits, &KernelNetworks)
                .unwrap();
        let address = target.address(None).unwrap();
        assert_eq!(target.arguments(address), ["127.0.0.1:4433", "--fingerprint", &fingerprint]);
        assert_eq!(target.address(Some(Family::Ipv6)), None);
    }

    #[test]
    fn an_experiment_names_its_servers() {
        let servers = [offered(&json!({})), offered(&json!({ "name": "t" }))];
        assert_eq!(filter_servers(&servers, &[]).len(), 2);
        assert_eq!(filter_servers(&servers, &[Name::new("t").unwrap()])[0].name.as_str(), "t");
    }
}
