//! A short ping: does this transport reach this server, and how far is it.

use super::{Client, Target};
use pathbench_record::document::UnreachableBecause;
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientError;
use pathbench_traffic::pattern::{PatternParameters, PingParameters};
use std::time::Duration;

/// How long an answer may take before the server counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Between the requests that measure how near a server is.
const INTERVAL: Duration = Duration::from_millis(50);

/// Round-trip times of a short ping.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// Those answered, in order.
    pub(crate) rtts: Vec<Duration>,
    /// Requests without an answer.
    pub(crate) lost: u32,
    /// Before the connection is opened → open.
    pub(crate) handshake: Option<Duration>,
}

impl Answer {
    /// Median round-trip time in milliseconds.
    pub(crate) fn median_ms(&self) -> Option<f64> {
        let rtts_ms: Vec<f64> = self.rtts.iter().map(|rtt| rtt.as_secs_f64() * 1e3).collect();
        median(&rtts_ms)
    }

    /// From opening the connection to the first answer on it, in milliseconds.
    pub(crate) fn first_ms(&self) -> Option<f64> {
        let time = self.handshake.unwrap_or_default() + *self.rtts.first()?;
        Some(time.as_secs_f64() * 1e3)
    }
}

/// Sends `count` requests, after `warm_up` that do not count.
pub(crate) fn ping(
    client: &Client,
    transport: Transport,
    target: &Target,
    count: u32,
    warm_up: u32,
) -> Result<Answer, ClientError> {
    let ping =
        PingParameters { count, warm_up, interval: INTERVAL, timeout: TIMEOUT, ..PingParameters::default() };
    let outcome = client.run_unwatched(transport, target, PatternParameters::Ping(ping), TIMEOUT);
    let answered: Vec<Option<Duration>> =
        outcome.client.messages.iter().map(pathbench_traffic::record::MessageRecord::round_trip).collect();
    let rtts: Vec<Duration> = answered.iter().flatten().copied().collect();
    match outcome.error {
        Some(error) if rtts.is_empty() => Err(error),
        _ if rtts.is_empty() => Err(ClientError::Unreachable {
            because: UnreachableBecause::Timeout,
            message: format!("{} opened the connection but answered nothing", target.address),
        }),
        _ => Ok(Answer {
            lost: (answered.len() - rtts.len()) as u32,
            rtts,
            handshake: outcome.client.handshake,
        }),
    }
}

/// The class of a failure, for programs.
pub(crate) const fn class_of(error: &ClientError) -> UnreachableBecause {
    match error {
        ClientError::Unreachable { because, .. } => *because,
        _ => UnreachableBecause::Other,
    }
}
