//! Addresses, names of servers, and header sizes.

pub use ipnet::IpNet;
use ipnet::{Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The destination of a default route.
pub const DEFAULT_V4: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0));
/// The destination of a default route.
pub const DEFAULT_V6: IpNet = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0));

/// Bytes that the kernel's qdiscs count in addition to the IP packet: without preamble and FCS.
pub const ETHERNET_HEADER_BYTES: u32 = 14;
/// Without options.
pub const IPV4_HEADER_BYTES: usize = 20;
/// Without extension headers.
pub const IPV6_HEADER_BYTES: usize = 40;
pub const UDP_HEADER_BYTES: usize = 8;
/// Without options.
pub const TCP_HEADER_BYTES: u32 = 20;
/// The smallest MTU of a link (RFC 791).
pub const SMALLEST_IPV4_MTU_BYTES: u32 = 68;
/// The smallest MTU of a link (RFC 8200, section 5).
pub const SMALLEST_IPV6_MTU_BYTES: u32 = 1_280;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AddressFamily {
    Ipv4,
    Ipv6,
}

impl AddressFamily {
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// An IPv4-mapped IPv6 address is IPv4.
    pub const fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// Size of the IP header without options or extension headers.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::Ipv4 => IPV4_HEADER_BYTES as u32,
            Self::Ipv6 => IPV6_HEADER_BYTES as u32,
        }
    }

    /// Size of the IP packet with a UDP payload of `payload_bytes`.
    pub const fn udp_packet_bytes(self, payload_bytes: usize) -> u32 {
        self.header_bytes() + (UDP_HEADER_BYTES + payload_bytes) as u32
    }

    /// Size of the UDP payload of an IP packet of `packet_bytes`.
    pub const fn udp_payload_bytes(self, packet_bytes: u32) -> usize {
        packet_bytes.saturating_sub(self.udp_packet_bytes(0)) as usize
    }
}

/// Paths that `pathbench test` measures alone and uses together.
pub const MOST_TEST_PATHS: usize = 4;

/// A path of the client. The addresses determine the path of a subflow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientPath {
    pub name: String,
    pub interface: String,
    pub addresses: Vec<IpAddr>,
    /// Whether the path is configured as a backup path; `None` if unknown.
    pub backup: Option<bool>,
    pub mtu_bytes: Option<u32>,
}

/// An IPv4-mapped IPv6 address as IPv4: a socket bound to `::` reports IPv4 peers in the mapped form.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// The network of `address` with the prefix length of its family; an IPv4-mapped IPv6 address is IPv4.
pub fn network(address: IpAddr, ipv4_prefix: u8, ipv6_prefix: u8) -> IpNet {
    let address = address.to_canonical();
    let prefix = if address.is_ipv4() { ipv4_prefix } else { ipv6_prefix };
    IpNet::new(address, prefix).unwrap_or(address.into()).trunc()
}

/// A client: an IPv4 address, or an IPv6 /64, within which a host can choose any address (RFC 7421). Hosts behind one
/// NAT are one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client(IpNet);

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        Self(network(address, 32, 64))
    }
}

impl Client {
    /// The network of this client.
    pub fn network(self) -> ClientNetwork {
        ClientNetwork::from(self.0.addr())
    }
}

/// A network of clients: an IPv4 /24 or an IPv6 /48, the prefix of one site (RFC 6177), from which one host can often
/// use or forge any address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientNetwork(IpNet);

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> Self {
        Self(network(address, 24, 48))
    }
}

/// A server's name or address as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName {
    pub host: String,
    pub port: u16,
    given: String,
}

impl ServerName {
    /// Parses `NAME`, `ADDRESS`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, String> {
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
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}
