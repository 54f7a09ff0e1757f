//! Check-in: an agent reports itself and gets servers, tokens and experiments. Test servers report their load.

use crate::Uuid;
use crate::bounds::ITEMS;
use crate::consent::Consent;
use crate::experiment::Experiment;
use crate::name::Name;
use pathbench_record::transport::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/check-in`.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckIn {
    /// Random, made once by the agent.
    pub agent: Uuid,
    /// Name of the agent.
    pub name: Name,
    /// Version of Pathbench.
    pub version: Name,
    pub consent: Consent,
    /// Submissions that wait in the outbox.
    #[serde(default)]
    pub outbox: u32,
    /// Age of the oldest of them.
    #[serde(default)]
    pub oldest_s: u32,
    /// Patterns that the agent can run, at most 64; absent: ping, bulk, throughput-upload, throughput-download and
    /// interactive.
    pub patterns: Option<Vec<Name>>,
}

impl CheckIn {
    /// The first violation of a bound, with its remedy.
    pub fn problem(&self) -> Option<&'static str> {
        let names = self.patterns.as_ref().map_or(0, Vec::len);
        (names > ITEMS).then_some("`patterns` has more than 64 entries")
    }
}

/// The answer to a check-in.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckInAnswer {
    /// Version of the collector.
    pub version: String,
    /// Unix time of the collector, in milliseconds.
    pub now_ms: u64,
    /// Test servers that reported within the last 30 s, the least loaded first; at most 8.
    pub servers: Vec<OfferedServer>,
    /// The experiments of this agent. They replace all earlier ones.
    pub experiments: Vec<Experiment>,
    /// When to check in again, in seconds.
    pub next_s: u32,
    /// Where the use of data is described.
    pub privacy: String,
    /// A new token for the agent in place of the one that it checked in with, when half of that one's time is over.
    pub token: Option<String>,
}

/// A test server with a token for this agent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfferedServer {
    pub name: Name,
    /// `HOST:PORT`, as for `pathbench test`.
    pub address: String,
    /// Further UDP ports for QUIC.
    pub quic_ports: Vec<u16>,
    /// SHA-256 of its certificate; absent if a public CA signed it.
    pub fingerprint: Option<String>,
    /// Valid for a short time on this server only; absent if the server serves all clients.
    pub token: Option<String>,
    /// Running tests ÷ most tests, 0 to 1.
    pub load: f64,
}

/// `PUT /v1/servers/{name}`: a test server reports itself every 10 s. The credential is a token that the server makes
/// with the key that it checks clients' tokens with; the collector has the same key.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerReport {
    /// `HOST:PORT`, of which the collector uses only the port. The host is the one that the operator registered, else the source
    /// address of the report.
    pub address: String,
    #[serde(default)]
    pub quic_ports: Vec<u16>,
    pub fingerprint: Option<String>,
    pub transports: Vec<Transport>,
    /// Running tests.
    pub tests: u32,
    pub max_tests: u32,
    /// Whether it accepts no new tests.
    pub draining: bool,
    pub version: Name,
}

/// Interval of the reports of a server.
pub const HEARTBEAT_S: u32 = 10;

/// A server whose last report is older is not offered.
pub const SERVER_EXPIRY_MS: u64 = 30_000;

/// Servers in an answer: one for each experiment that an agent accepts.
pub const MOST_SERVERS: usize = 16;
