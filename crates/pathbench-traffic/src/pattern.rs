//! The traffic patterns and what each is asked to do.

use crate::iperf::{IperfParameters, nanoseconds};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A pattern with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "pattern")]
pub enum PatternParameters {
    /// Small requests, one after the other.
    Ping(PingParameters),
    /// A download of a given size, verified.
    Bulk(BulkParameters),
    /// Data for a given time or amount, up, down or both ways.
    Iperf(IperfParameters),
    /// Requests both ways at a fixed pace, like a voice assistant or a game.
    Interactive(InteractiveParameters),
}

impl PatternParameters {
    /// `ping`, `bulk`, `iperf` or `interactive`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ping(_) => "ping",
            Self::Bulk(_) => "bulk",
            Self::Iperf(_) => "iperf",
            Self::Interactive(_) => "interactive",
        }
    }

    /// Byte streams that the test takes: connections over tcp and mptcp, streams of one connection over quic
    /// and mpquic.
    #[must_use]
    pub const fn streams(&self) -> u32 {
        match self {
            Self::Ping(_) => 1,
            Self::Bulk(bulk) => bulk.streams,
            Self::Iperf(iperf) => iperf.streams,
            Self::Interactive(_) => 2,
        }
    }
}

/// Parameters of `ping`. Defaults: MultipathTester's five GETs of 10 bytes, 100 ms apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PingParameters {
    /// Requests that count.
    pub count: u32,
    /// Requests before them that do not (the path's state, the server's caches).
    pub warm_up: u32,
    /// From one request to the next, or to the answer when that takes longer.
    #[serde(rename = "interval_ns", with = "nanoseconds")]
    pub interval: Duration,
    /// Size of a request.
    pub request_bytes: u32,
    /// Size of an answer.
    pub response_bytes: u32,
    /// A request whose answer takes longer counts as lost.
    #[serde(rename = "timeout_ns", with = "nanoseconds")]
    pub timeout: Duration,
}

/// Parameters of `bulk`. Default: MultipathTester's GET of 10 MB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BulkParameters {
    /// Bytes to download, all streams together.
    pub bytes: u64,
    /// Parallel streams that share them.
    pub streams: u32,
}

/// Parameters of `interactive`. Defaults: MultipathTester's stream test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InteractiveParameters {
    /// How long each side goes on sending requests.
    #[serde(rename = "duration_ns", with = "nanoseconds")]
    pub duration: Duration,
    /// From one request to the next.
    #[serde(rename = "interval_ns", with = "nanoseconds")]
    pub interval: Duration,
    /// Size of a request.
    pub request_bytes: u32,
    /// Size of the answer to it.
    pub response_bytes: u32,
    /// How long to wait for the last acknowledgements after the last request.
    #[serde(rename = "linger_ns", with = "nanoseconds")]
    pub linger: Duration,
}

impl Default for PingParameters {
    fn default() -> Self {
        Self {
            count: 5,
            warm_up: 1,
            interval: Duration::from_millis(100),
            request_bytes: 10,
            response_bytes: 10,
            timeout: Duration::from_secs(3),
        }
    }
}

impl Default for BulkParameters {
    fn default() -> Self {
        Self { bytes: 10_000_000, streams: 1 }
    }
}

impl Default for InteractiveParameters {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            interval: Duration::from_millis(100),
            request_bytes: 2_000,
            response_bytes: 750,
            linger: Duration::from_secs(5),
        }
    }
}
