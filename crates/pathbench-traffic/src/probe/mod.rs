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

const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePath {
    pub name: String,
    /// The interface that the socket is bound to (`SO_BINDTODEVICE`). It need not exist yet, and may come and go.
    pub interface: String,
    /// The local address; `None`: the kernel's choice, which follows a change of the interface's address.
    pub local: Option<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlan {
    pub server: SocketAddr,
    /// What allows this client to ask, where the server wants a token.
    pub token: Option<String>,
    pub paths: Vec<ProbePath>,
    /// From one probe of a path to its next; at least 20 ms.
    pub interval: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSample {
    pub path: usize,
    /// From 0 in each path; every number is reported once, not necessarily in order (after hours of the host's sleep,
    /// some are left out).
    pub sequence: u32,
    pub sent_at: Timestamp,
    pub outcome: ProbeOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    Answered {
        rtt: Duration,
    },
    /// No answer within 3 s, or until the end.
    Lost,
    /// The kernel did not send it, or the network or the server refused it.
    Refused {
        error: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeCounts {
    pub late: u64,
    pub duplicates: u64,
}
