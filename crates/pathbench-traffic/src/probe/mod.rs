//! Small UDP datagrams over each interface at a steady pace, answered by the server: which network is alive, and how
//! far away the server is by it, whatever the tests do meanwhile.
//!
//! A [`Prober`] per path is sans-IO; [`run_probes`] gives the probers sockets.

mod prober;
mod shell;

pub use prober::{Prober, Settled};
pub use shell::run_probes;

use pathbench_record::time::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Shorter intervals would be a burden.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);

/// An interface to probe by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePath {
    /// The path's name, for messages.
    pub name: String,
    /// The interface that the socket is bound to (`SO_BINDTODEVICE`). It need not exist yet, and may come and go.
    pub interface: String,
    /// The local address; `None`: the kernel's choice, which follows a change of the interface's address.
    pub local: Option<IpAddr>,
}

/// What to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlan {
    /// The server's UDP address: the one it serves QUIC at.
    pub server: SocketAddr,
    /// What allows this client to ask, where the server wants a token.
    pub token: Option<String>,
    /// The interfaces.
    pub paths: Vec<ProbePath>,
    /// From one probe of a path to its next; at least 20 ms.
    pub interval: Duration,
}

/// A probe whose fate is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSample {
    /// Index of the path in the plan.
    pub path: usize,
    /// From 0 in each path; every number is reported once, not necessarily in order (after hours of the host's sleep,
    /// some are left out).
    pub sequence: u32,
    /// When it was sent, or was to be sent.
    pub sent_at: Timestamp,
    /// What became of it.
    pub outcome: ProbeOutcome,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The server answered.
    Answered {
        /// From sending it to the answer.
        rtt: Duration,
    },
    /// No answer within 3 s, or until the end.
    Lost,
    /// The kernel did not send it, or the network or the server refused it.
    Refused {
        /// Why, in words.
        error: String,
    },
}

/// Answers that do not count as answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeCounts {
    /// Came after the probe was given up.
    pub late: u64,
    /// Came once more.
    pub duplicates: u64,
}
