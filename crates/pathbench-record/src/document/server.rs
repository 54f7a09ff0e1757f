//! What `pathbench test` finds out about servers before it measures.

use crate::transport::Transport;
use serde::{Deserialize, Serialize};

/// A server that was asked before the test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ServerRecord {
    pub address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Median round-trip time of the pings that were answered; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_ms: Option<f64>,
    #[serde(default)]
    pub lost: u32,
    pub chosen: bool,
    /// Why it cannot be used, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether a transport reached a server at one address and port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reachability {
    pub server: String,
    pub transport: Transport,
    /// IPv4 or IPv6.
    pub family: AddressFamily,
    pub port: u16,
    /// Whether a connection was opened and the server answered on it.
    pub reachable: bool,
    /// Opening the connection → the server's answer on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Why it was not reachable, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<UnreachableBecause>,
}

/// Version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressFamily {
    /// IP version 4.
    Ipv4,
    /// IP version 6.
    Ipv6,
}

impl AddressFamily {
    /// `IPv4` or `IPv6`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }
}

/// Why a server was not reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnreachableBecause {
    /// No answer in time: the server is off, or something on the way drops the packets.
    Timeout,
    /// This host has no way to the address (`ENETUNREACH`, `EHOSTUNREACH`, no address of the family).
    NoRoute,
    /// The host answered that nobody listens there.
    Refused,
    /// Anything else; the words say what.
    Other,
}
