//! The parameters of `throughput`, which `bulk` data also has.

use super::error::{MAX_PROCESSOR, ParameterError, SHORTEST, block_error};
use crate::direction::DataDirection;
use crate::transport::Transport;
use crate::units::milliseconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Lowest rate limit per stream: below it, blocks would be seconds apart.
pub const MIN_STREAM_RATE_BPS: u64 = 8_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// Time from each stream's first byte, after the warm-up.
    #[serde(rename = "duration_ms", with = "milliseconds")]
    Duration(Duration),
    /// Payload bytes of all streams of a direction together, warm-up included.
    Bytes(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputParameters {
    pub direction: DataDirection,
    /// Parallel connections, 1 to `MAX_STREAMS`.
    pub streams: u32,
    pub amount: Amount,
    /// Limit of the payload rate of each direction, for all its streams together; each stream gets an equal share.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Warm-up before the measured time: recorded, but not counted in goodput.
    #[serde(rename = "omit_ms", with = "milliseconds", default)]
    pub omit: Duration,
    /// Largest write to a socket, frame header included; smaller when the rate is low.
    pub block_bytes: u32,
    /// The senders pass the pages of their block to the kernel, which does not copy them (`sendfile`); tcp in clear text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zero_copy: bool,
    /// The receivers discard the payload in the kernel (`MSG_TRUNC`); tcp and mptcp in clear text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_receive_copy: bool,
    /// The processor on which the client's threads send and receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_processor: Option<u32>,
    /// The processor on which the server's threads send and receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_processor: Option<u32>,
}

impl ThroughputParameters {
    /// Larger blocks were not measurably faster on an unshaped veth; smaller ones cost more per byte.
    pub const DEFAULT_BLOCK_BYTES: u32 = 128 * 1024;
}

impl Default for ThroughputParameters {
    fn default() -> Self {
        Self {
            direction: DataDirection::Upload,
            streams: 1,
            amount: Amount::Duration(Duration::from_secs(10)),
            rate_bps: None,
            omit: Duration::ZERO,
            block_bytes: Self::DEFAULT_BLOCK_BYTES,
            zero_copy: false,
            skip_receive_copy: false,
            client_processor: None,
            server_processor: None,
        }
    }
}

/// An option of throughput that a transport cannot fulfil.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CopyOptionError {
    #[error("zero_copy over {transport}: data that are encrypted are copied; use tcp in clear text")]
    ZeroCopyEncrypted { transport: Transport },
    #[error("zero_copy over mptcp: Linux copies all data that MPTCP sends, also of sendfile(2); use tcp")]
    ZeroCopyMptcp,
    #[error(
        "skip_receive_copy over {transport}: data that are encrypted are copied; use tcp or mptcp in clear text"
    )]
    SkipEncrypted { transport: Transport },
}

impl ThroughputParameters {
    /// The share of stream `stream` in the amount of one direction. The shares add up exactly.
    pub fn stream_amount(&self, stream: u32) -> Amount {
        match self.amount {
            Amount::Duration(duration) => Amount::Duration(duration),
            Amount::Bytes(bytes) => {
                let streams = u64::from(self.streams.max(1));
                let extra = u64::from(u64::from(stream) < bytes % streams);
                Amount::Bytes(bytes / streams + extra)
            }
        }
    }

    /// Whether a connection of `transport` can send and receive as the options ask.
    pub const fn check_copying(
        &self,
        transport: Transport,
        is_encrypted: bool,
    ) -> Result<(), CopyOptionError> {
        let is_encrypted = is_encrypted || transport.is_quic();
        match (is_encrypted, transport) {
            (true, _) if self.zero_copy => Err(CopyOptionError::ZeroCopyEncrypted { transport }),
            (true, _) if self.skip_receive_copy => Err(CopyOptionError::SkipEncrypted { transport }),
            (false, Transport::Mptcp) if self.zero_copy => Err(CopyOptionError::ZeroCopyMptcp),
            _ => Ok(()),
        }
    }

    pub fn stream_rate_bps(&self) -> Option<u64> {
        self.rate_bps.map(|rate| rate / u64::from(self.streams.max(1)))
    }

    pub(super) fn measures_nothing(&self) -> bool {
        match self.amount {
            Amount::Duration(duration) => duration < SHORTEST,
            Amount::Bytes(bytes) => bytes < u64::from(self.streams) || bytes == 0,
        }
    }

    pub(super) fn errors(&self) -> Vec<ParameterError> {
        let mut wrong = Vec::new();
        if let (Some(given), Some(each)) = (self.rate_bps, self.stream_rate_bps())
            && each < MIN_STREAM_RATE_BPS
        {
            wrong.push(ParameterError::Rate { given, streams: self.streams });
        }
        wrong.extend(block_error(self.block_bytes));
        let processors = [self.client_processor, self.server_processor];
        let beyond = processors.into_iter().flatten().filter(|given| *given > MAX_PROCESSOR);
        wrong.extend(beyond.map(|given| ParameterError::Processor { given }));
        wrong
    }
}
