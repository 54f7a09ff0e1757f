//! What `pathbench mtu` found: the MTU of each path, what the kernel believes, and what was done about it.

use serde::{Deserialize, Serialize};

/// One examination of all paths to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MtuRecord {
    pub server: String,
    /// Each path: a local address and its interface.
    pub paths: Vec<PathMtu>,
    /// What would put the kernel right, or did; empty when nothing is to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<MtuStep>,
    /// Changes that were seen while watching, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<MtuChange>,
    /// Anything a person should know, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct PathMtu {
    /// The path's name: its interface, with the address where an interface has several.
    pub name: String,
    pub interface: String,
    /// The client's address.
    pub local: String,
    /// The server's address and port that was probed.
    pub remote: String,
    /// Client → server.
    pub upload: DirectionMtu,
    /// Server → client.
    pub download: DirectionMtu,
    /// What the client's kernel believed before it was probed; absent where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelBelief>,
    /// Where the kernel and the probes disagree, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// The largest IP packet that passes one way (RFC 8899), and how that is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct DirectionMtu {
    /// The largest size of which a probe was answered; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// How it is known that nothing larger passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<MtuEvidence>,
    /// The router that said so, where one did (ICMP), validated by probes of the size it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_bytes: Option<u32>,
    /// The smallest size that did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_lost_bytes: Option<u32>,
    /// Probability that the smallest lost size is really too large, and not lost by chance, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Part of the probes of sizes that pass which were lost, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Median round-trip time of small probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    pub probes: u32,
    /// Bytes of IP packets sent this way.
    pub probed_bytes: u64,
    pub duration_ms: f64,
    /// Why nothing was found, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How it is known that nothing larger passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtuEvidence {
    /// A router said so, and larger probes vanished.
    Icmp,
    /// Larger probes vanished without a word: a black hole for whoever waits for ICMP.
    Vanished,
    /// The sending host's own interface takes nothing larger.
    Interface,
    /// The search was ended by its bounds: larger packets may pass.
    Bounded,
}

/// What a kernel believes of the way to the server from one of its addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct KernelBelief {
    pub interface_mtu_bytes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_priority: Option<u32>,
    pub table: u32,
    /// The route's destination: `default`, `10.0.0.0/8`.
    pub destination: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_mtu_bytes: Option<u32>,
    /// Whether the route's MTU is locked: no ICMP changes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub route_mtu_locked: bool,
    /// Cached path MTU (RFC 1191), where ICMP told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_mtu_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_expires_s: Option<f64>,
    /// Live TCP connections and MPTCP subflows to the server from this address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionMtu>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ConnectionMtu {
    pub transport: String,
    pub local: String,
    pub remote: String,
    /// Path MTU in force (`tcpi_pmtu`).
    pub pmtu_bytes: u32,
    /// Sending MSS in force (`tcpi_snd_mss`).
    pub mss_bytes: u32,
    /// Steps of the retransmission timer (`tcpi_backoff`).
    pub backoff: u32,
    /// Whether it has data to send that nobody acknowledges, in packets that are too large.
    pub stuck: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MtuStep {
    pub path: String,
    pub command: String,
    /// The command that takes it back.
    pub undo: String,
    /// Whether it was done, or only printed.
    pub done: bool,
}

/// A path MTU that changed while it was watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MtuChange {
    /// Since the beginning of the watch.
    pub t_ms: f64,
    pub path: String,
    pub direction: String,
    /// Before; absent when nothing passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_bytes: Option<u32>,
    /// After; absent when nothing passes any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_bytes: Option<u32>,
}
