//! What the pattern is asked to do.

use crate::direction::DataDirection;
use crate::units::nanoseconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Most parallel streams of one test.
pub const MAX_STREAMS: u32 = 128;

/// Lowest rate limit per stream: below it, single blocks would be seconds apart.
pub const MIN_STREAM_RATE_BPS: u64 = 8_000;

/// How much each direction sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// For this long from each stream's first byte, after the warm-up.
    #[serde(rename = "duration_ns", with = "nanoseconds")]
    Duration(Duration),
    /// This many payload bytes, all streams of a direction together, warm-up included.
    Bytes(u64),
}

/// Parameters of the pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IperfParameters {
    /// Which way data goes.
    pub direction: DataDirection,
    /// Parallel connections, 1 to [`MAX_STREAMS`].
    pub streams: u32,
    /// How much is sent in each direction.
    pub amount: Amount,
    /// Limit of the payload rate of each direction, all its streams together; each gets an equal part.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Warm-up before the measured time: recorded, but not counted in goodput.
    #[serde(rename = "omit_ns", with = "nanoseconds", default)]
    pub omit: Duration,
    /// Largest write to a socket, frame header included; smaller when the rate is low.
    pub block_bytes: u32,
}

impl IperfParameters {
    /// Larger ones were not measurably better on an unshaped veth, smaller ones cost more per byte.
    pub const DEFAULT_BLOCK_BYTES: u32 = 128 * 1024;
}

impl Default for IperfParameters {
    fn default() -> Self {
        Self {
            direction: DataDirection::Upload,
            streams: 1,
            amount: Amount::Duration(Duration::from_secs(10)),
            rate_bps: None,
            omit: Duration::ZERO,
            block_bytes: Self::DEFAULT_BLOCK_BYTES,
        }
    }
}

/// A parameter that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// Too few or too many streams.
    #[error("{given} parallel streams: a test has 1 to {MAX_STREAMS}")]
    Streams {
        /// What was given.
        given: u32,
    },
    /// Zero seconds or zero bytes.
    #[error("a test of no duration or no bytes measures nothing; ask for at least 1 ms or 1 byte per stream")]
    Nothing,
    /// A rate that is too low to be kept.
    #[error("a rate of {given} bit/s over {streams} streams: each stream needs at least 8 kbit/s")]
    Rate {
        /// What was given.
        given: u64,
        /// Number of streams.
        streams: u32,
    },
    /// No request at all.
    #[error("a ping of no requests measures nothing; ask for at least 1")]
    NoRequest,
    /// More messages than a record can hold.
    #[error("{given} messages in one test: at most {most} are possible")]
    Messages {
        /// What was given.
        given: u32,
        /// The bound.
        most: u32,
    },
    /// A message size out of range.
    #[error("messages of {given} bytes: {least} to {most} bytes are possible")]
    Message {
        /// What was given.
        given: u32,
        /// Smallest.
        least: u32,
        /// Largest.
        most: u32,
    },
    /// Messages too close to each other.
    #[error("an interval of {} ms between messages: 1 ms is the shortest", .given.as_secs_f64() * 1e3)]
    Interval {
        /// What was given.
        given: Duration,
    },
    /// Answers that cannot be waited for.
    #[error("a timeout of {} ms for an answer: 1 ms is the shortest", .given.as_secs_f64() * 1e3)]
    Timeout {
        /// What was given.
        given: Duration,
    },
    /// A block size out of range.
    #[error("blocks of {given} bytes: 64 bytes to 4 MiB are possible")]
    Block {
        /// What was given.
        given: u32,
    },
}

impl IperfParameters {
    /// Checks every parameter.
    ///
    /// # Errors
    /// All that is wrong, not only the first.
    pub fn validate(&self) -> Result<(), Vec<ParameterError>> {
        let mut wrong = Vec::new();
        if self.streams == 0 || self.streams > MAX_STREAMS {
            wrong.push(ParameterError::Streams { given: self.streams });
        }
        let nothing = match self.amount {
            Amount::Duration(duration) => duration < Duration::from_millis(1),
            Amount::Bytes(bytes) => bytes < u64::from(self.streams) || bytes == 0,
        };
        if nothing {
            wrong.push(ParameterError::Nothing);
        }
        if let Some(given) = self.rate_bps
            && given / u64::from(self.streams.max(1)) < MIN_STREAM_RATE_BPS
        {
            wrong.push(ParameterError::Rate { given, streams: self.streams });
        }
        if !(64..=4 * 1024 * 1024).contains(&self.block_bytes) {
            wrong.push(ParameterError::Block { given: self.block_bytes });
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// The part of stream `stream` in the amount of one direction. The parts add up exactly.
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

    /// The rate limit of each stream.
    pub fn stream_rate_bps(&self) -> Option<u64> {
        self.rate_bps.map(|rate| rate / u64::from(self.streams.max(1)))
    }
}
