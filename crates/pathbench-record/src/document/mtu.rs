//! Results of `pathbench mtu`: the MTU of each path, the kernel's path-MTU state, and changes to it.

use serde::{Deserialize, Serialize};

/// One examination of all paths to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MtuRecord {
    pub server: String,
    /// One entry per path, which is a local address and its interface.
    pub paths: Vec<PathMtu>,
    /// Commands that correct the kernel's state, executed or only printed; empty if no correction is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<MtuStep>,
    /// Changes observed while watching, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<MtuChange>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct PathMtu {
    /// The path's name: its interface, and the address if an interface has several.
    pub name: String,
    pub interface: String,
    pub local: String,
    /// The probed address and port of the server.
    pub remote: String,
    pub upload: DirectionMtu,
    pub download: DirectionMtu,
    /// The client kernel's path-MTU state before the probes; absent if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelPathState>,
    /// Differences between the kernel's state and the probes, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// The largest IP packet that passes in one direction (RFC 8899), and the evidence for it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct DirectionMtu {
    /// The largest size with an answered probe; absent without an answer.
    pub mtu_bytes: Option<u32>,
    /// How it is known that nothing larger passes.
    pub evidence: Option<MtuEvidence>,
    /// The router that reported the size by ICMP, validated by probes of that size; absent without ICMP.
    pub reported_by: Option<String>,
    pub reported_bytes: Option<u32>,
    pub smallest_lost_bytes: Option<u32>,
    /// Probability that the smallest lost size is too large and was not lost by chance, 0 to 1.
    pub confidence: Option<f64>,
    /// Loss rate of the probes of passing sizes, 0 to 1.
    pub loss: Option<f64>,
    pub rtt_ms: Option<f64>,
    pub probes: u32,
    /// Bytes of IP packets sent in this direction.
    pub probed_bytes: u64,
    pub duration_ms: f64,
    pub error: Option<String>,
}

/// How it is known that nothing larger passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtuEvidence {
    /// A router reported the size (ICMP), and larger probes were lost.
    Icmp,
    /// Larger probes were dropped silently (no ICMP): a black hole.
    DroppedSilently,
    /// Larger packets exceed the MTU of the sending host's interface.
    Interface,
    /// The search reached its bounds: larger packets may pass.
    Bounded,
}

/// The kernel's path-MTU state of the path from one of its addresses to the server.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct KernelPathState {
    pub interface_mtu_bytes: u32,
    pub rule_priority: Option<u32>,
    pub table: u32,
    /// The route's destination: `default`, `10.0.0.0/8`.
    pub destination: String,
    pub gateway: Option<String>,
    pub route_mtu_bytes: Option<u32>,
    /// Whether the route's MTU is locked: ICMP does not change it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub route_mtu_locked: bool,
    /// Cached path MTU (RFC 1191), if ICMP reported one.
    pub cached_mtu_bytes: Option<u32>,
    pub cached_expires_s: Option<f64>,
    /// Open TCP connections and MPTCP subflows to the server from this address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionMtu>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ConnectionMtu {
    pub transport: String,
    pub local: String,
    pub remote: String,
    /// Current path MTU (`tcpi_pmtu`).
    pub pmtu_bytes: u32,
    pub mss_bytes: u32,
    /// Back-off steps of the retransmission timer (`tcpi_backoff`).
    pub backoff: u32,
    /// Whether the connection's data stays unacknowledged because its packets are too large.
    pub stuck: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MtuStep {
    pub path: String,
    pub command: String,
    pub undo: String,
    /// Whether the command was executed, or only printed.
    pub done: bool,
}

/// A change of a path MTU during the watch.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct MtuChange {
    /// Time since the start of the watch.
    pub t_ms: f64,
    pub path: String,
    pub direction: String,
    /// MTU before the change; absent if nothing passed.
    pub from_bytes: Option<u32>,
    /// MTU after the change; absent if nothing passes.
    pub to_bytes: Option<u32>,
}
