//! The captures of a run in the lab, compared with the transport's own counters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of a run's captures. Every capture is taken where the link receives packets from their sender.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct CaptureCheck {
    /// Each captured path.
    pub paths: Vec<CapturedPath>,
    /// Data that were sent again under another (subflow, subflow sequence number); absent without MPTCP.
    pub reinjected_bytes: Option<u64>,
    /// The part of `reinjected_bytes` that the peer acknowledged before the earlier copy.
    pub reinjected_needed_bytes: Option<u64>,
    /// Whether the counters of every path agree with its capture; absent for transports whose payload is encrypted.
    pub agrees: Option<bool>,
    /// Captures that could not be read to their end, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}

/// Payload on the wire until the last sample of the path, and the counters of that sample.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct CapturedPath {
    /// The path.
    pub name: String,
    /// TCP payload on the wire in the directions of the test's data; quic and mpquic: IP bytes
    /// of the whole run.
    pub wire_bytes: u64,
    /// The path's `bytes_sent`; absent on quic and mpquic.
    pub counted_bytes: Option<u64>,
    /// Payload on the wire whose subflow sequence numbers were on the wire before; absent on quic and mpquic.
    pub wire_retransmitted_bytes: Option<u64>,
    /// The path's `retransmitted_bytes`; absent on quic and mpquic.
    pub counted_retransmitted_bytes: Option<u64>,
}
