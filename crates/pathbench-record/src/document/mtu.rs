//! Results of `pathbench mtu`: the MTU of each path, the kernel's path-MTU state, and changes to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One examination of all paths to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct MtuRecord {
    /// The server, as given on the command line.
    pub server: String,
    /// Each path.
    pub paths: Vec<PathMtu>,
    /// The changes that correct the kernel's state, planned or made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<MtuStep>,
    /// The changes of MTUs during the watch, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<MtuChange>,
    /// Remarks for the reader, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct PathMtu {
    /// Its interface, with the address where an interface has several.
    pub name: String,
    /// The interface.
    pub interface: String,
    /// The client's address.
    pub local: String,
    /// The probed address and port of the server.
    pub remote: String,
    /// Client → server.
    pub upload: DirectionMtu,
    /// Server → client.
    pub download: DirectionMtu,
    /// The client kernel's path-MTU state before the probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelPathState>,
    /// Where the kernel and the probes disagree, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
    /// The remedy, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// The largest IP packet that passes in one direction (RFC 8899), and the evidence for it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct DirectionMtu {
    /// The size of the largest answered probe; absent if none was answered.
    pub mtu_bytes: Option<u32>,
    /// The evidence that no larger packet passes.
    pub evidence: Option<MtuEvidence>,
    /// The router that sent the ICMP message.
    pub reported_by: Option<String>,
    /// The MTU in that message.
    pub reported_bytes: Option<u32>,
    /// The smallest size that did not pass.
    pub smallest_lost_bytes: Option<u32>,
    /// Probability that this size is too large, and was not lost by chance.
    pub confidence: Option<f64>,
    /// Lost part of the probes of sizes that pass.
    pub loss: Option<f64>,
    /// Median round-trip time of small probes.
    pub rtt_ms: Option<f64>,
    /// Probes sent in this direction.
    pub probes: u32,
    /// Bytes of IP packets sent in this direction.
    pub probed_bytes: u64,
    /// Duration of the search.
    pub duration_ms: f64,
    /// Why no MTU was found, in words.
    pub error: Option<String>,
}

/// How it is known that nothing larger passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct KernelPathState {
    /// MTU of the interface.
    pub interface_mtu_bytes: u32,
    /// Priority of the rule that selects the table.
    pub rule_priority: Option<u32>,
    /// The routing table.
    pub table: u32,
    /// The route's destination: `default`, `10.0.0.0/8`.
    pub destination: String,
    /// Next hop.
    pub gateway: Option<String>,
    /// MTU of the route.
    pub route_mtu_bytes: Option<u32>,
    /// Whether the route's MTU is locked against ICMP; absent means no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub route_mtu_locked: bool,
    /// Cached path MTU (RFC 1191), if ICMP reported one.
    pub cached_mtu_bytes: Option<u32>,
    /// Seconds until the cached path MTU expires.
    pub cached_expires_s: Option<f64>,
    /// Live TCP connections and MPTCP subflows to the server from this address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionMtu>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct ConnectionMtu {
    /// `tcp` or `mptcp`.
    pub transport: String,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub remote: String,
    /// Path MTU in force.
    pub pmtu_bytes: u32,
    /// Sending MSS in force.
    pub mss_bytes: u32,
    /// Back-off steps of its retransmission timer.
    pub backoff: u32,
    /// Whether the connection has unacknowledged data in packets that are too large.
    pub stuck: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct MtuStep {
    /// The path.
    pub path: String,
    /// The equivalent command.
    pub command: String,
    /// The command that undoes the change.
    pub undo: String,
    /// Whether the change was made, or only printed.
    pub done: bool,
}

/// A change of a path MTU during the watch.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct MtuChange {
    /// Time since the start of the watch.
    pub t_ms: f64,
    /// The path.
    pub path: String,
    /// `upload` or `download`.
    pub direction: String,
    /// MTU before; absent if no packet passed.
    pub from_bytes: Option<u32>,
    /// MTU after; absent if no packet passes.
    pub to_bytes: Option<u32>,
}
