//! The traffic patterns and their parameters.

mod bulk;
mod datagrams;
mod error;
mod messages;
mod responsiveness;
mod throughput;

pub use bulk::BulkParameters;
pub use error::{
    MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_PROCESSOR, MAX_STREAMS, MIN_MESSAGE_BYTES, ParameterError,
};
pub use messages::{InteractiveParameters, PingParameters};
pub use responsiveness::SHORTEST_PROBE_INTERVAL;
pub use throughput::{Amount, CopyOptionError, MIN_STREAM_RATE_BPS, ThroughputParameters};

use crate::datagram::DatagramsParameters;
use crate::direction::Direction;
use crate::response::{LAST_ANSWERS, ResponsivenessParameters};
use crate::transport::Transport;
use error::SHORTEST;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Smallest number of streams for bulk data over quic and mpquic. A stream's receive window must stay small (the
/// reassembly of a stream fails with too many gaps, which the loss of a path causes), so that one stream alone cannot
/// fill a fast or long path.
pub const QUIC_STREAMS: u32 = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "pattern", content = "parameters")]
pub enum PatternParameters {
    Ping(PingParameters),
    Bulk(BulkParameters),
    Throughput(ThroughputParameters),
    /// Requests in both directions at a fixed interval, like a voice assistant or a game.
    Interactive(InteractiveParameters),
    /// Probes while the connection is idle and under load.
    Responsiveness(ResponsivenessParameters),
    /// Packets at a constant rate, without retransmission, like voice and video.
    Datagrams(DatagramsParameters),
}

impl PatternParameters {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ping(_) => "ping",
            Self::Bulk(_) => "bulk",
            Self::Throughput(_) => "throughput",
            Self::Interactive(_) => "interactive",
            Self::Responsiveness(_) => "responsiveness",
            Self::Datagrams(_) => "datagrams",
        }
    }

    /// Number of byte streams: connections over tcp and mptcp, streams of one connection over quic and mpquic.
    pub const fn streams(&self) -> u32 {
        match self {
            // Of `datagrams` the stream of control; the datagrams themselves use none.
            Self::Ping(_) | Self::Datagrams(_) => 1,
            Self::Bulk(bulk) => bulk.streams,
            Self::Throughput(throughput) => throughput.streams,
            Self::Interactive(_) => 2,
            Self::Responsiveness(responsiveness) => responsiveness.streams,
        }
    }

    /// The parameters in use over `transport`: bulk data over quic and mpquic uses at least [`QUIC_STREAMS`] streams of
    /// the one connection, if there is a byte and a rate for each.
    pub fn for_transport(mut self, transport: Transport) -> Self {
        if !matches!(transport, Transport::Quic | Transport::Mpquic) {
            return self;
        }
        match &mut self {
            Self::Bulk(bulk) if bulk.streams > 0 => {
                bulk.streams = bulk.streams.max(u64::from(QUIC_STREAMS).min(bulk.least_bytes()) as u32);
            }
            Self::Throughput(throughput) if throughput.streams > 0 => {
                let mut streams = u64::from(QUIC_STREAMS);
                if let Amount::Bytes(bytes) = throughput.amount {
                    streams = streams.min(bytes);
                }
                if let Some(rate_bps) = throughput.rate_bps {
                    streams = streams.min(rate_bps / MIN_STREAM_RATE_BPS);
                }
                throughput.streams = throughput.streams.max(streams as u32);
            }
            Self::Responsiveness(responsiveness) if responsiveness.streams > 0 => {
                responsiveness.streams = responsiveness.streams.max(QUIC_STREAMS);
            }
            _ => {}
        }
        self
    }

    /// The throughput parameters of a pattern of bulk data; `None` for patterns of messages. For a `bulk` with
    /// different amounts per direction, the amount is the larger one; see [`PatternParameters::transfer_of`].
    pub fn transfer(&self) -> Option<ThroughputParameters> {
        match self {
            Self::Throughput(throughput) => Some(throughput.clone()),
            Self::Bulk(bulk) => Some(ThroughputParameters {
                direction: bulk.direction(),
                streams: bulk.streams,
                amount: Amount::Bytes(bulk.bytes.max(bulk.upload_bytes)),
                ..ThroughputParameters::default()
            }),
            Self::Ping(_) | Self::Interactive(_) | Self::Responsiveness(_) | Self::Datagrams(_) => None,
        }
    }

    /// Whether the pattern sends bulk data, whose bytes both ends count.
    pub const fn sends_bulk_data(&self) -> bool {
        matches!(self, Self::Bulk(_) | Self::Throughput(_) | Self::Responsiveness(_))
    }

    /// The throughput parameters of one direction; `None` when it carries no bulk data.
    pub fn transfer_of(&self, direction: Direction) -> Option<ThroughputParameters> {
        let transfer = self.transfer()?;
        let (goes, bulk_bytes): (bool, fn(&BulkParameters) -> u64) = match direction {
            Direction::Upload => (transfer.direction.has_upload(), |bulk| bulk.upload_bytes),
            Direction::Download => (transfer.direction.has_download(), |bulk| bulk.bytes),
        };
        let amount = match self {
            Self::Bulk(bulk) => Amount::Bytes(bulk_bytes(bulk)),
            _ => transfer.amount,
        };
        goes.then_some(ThroughputParameters { amount, ..transfer })
    }

    /// Whether data must be sent without delay. Nagle's algorithm (RFC 896) would delay the end of a message until the
    /// peer's delayed acknowledgement of its beginning, and the test would measure that.
    pub const fn sends_at_once(&self) -> bool {
        matches!(self, Self::Ping(_) | Self::Interactive(_) | Self::Responsiveness(_) | Self::Datagrams(_))
    }

    /// The duration of a test over an unlimited network; `None` if only the network limits it.
    pub fn nominal_duration(&self) -> Option<Duration> {
        match self {
            Self::Ping(ping) => Some(ping.interval.saturating_mul(ping.requests())),
            Self::Interactive(interactive) => Some(interactive.duration.saturating_add(interactive.linger)),
            Self::Throughput(throughput) => match throughput.amount {
                Amount::Duration(duration) => Some(duration.saturating_add(throughput.omit)),
                Amount::Bytes(_) => None,
            },
            Self::Bulk(_) => None,
            Self::Responsiveness(responsiveness) => {
                Some(responsiveness.duration().saturating_add(LAST_ANSWERS))
            }
            Self::Datagrams(datagrams) => Some(datagrams.nominal_duration()),
        }
    }

    /// The default time limit of a test. For a test by bytes: their time at 1 Mbit/s, at least one hour.
    pub fn longest_duration(&self) -> Duration {
        const LEAST_BYTES_PER_SECOND: u64 = 125_000;
        match self {
            Self::Ping(ping) => ping.interval.max(ping.timeout).saturating_mul(ping.requests()),
            _ => self.nominal_duration().unwrap_or_else(|| {
                let bytes = self.nominal_bytes().unwrap_or(u64::MAX);
                Duration::from_secs((bytes / LEAST_BYTES_PER_SECOND).max(3600))
            }),
        }
    }

    /// Payload of the direction with more data; `None` if only time and network limit it.
    pub fn nominal_bytes(&self) -> Option<u64> {
        match self {
            Self::Ping(ping) => {
                Some(u64::from(ping.requests()) * u64::from(ping.request_bytes.max(ping.response_bytes)))
            }
            Self::Interactive(interactive) => {
                let each = u64::from(interactive.request_bytes) + u64::from(interactive.response_bytes);
                // An acknowledgement is only a sequence number.
                Some(u64::from(interactive.messages()) * (each + 4))
            }
            Self::Bulk(bulk) => Some(bulk.bytes.max(bulk.upload_bytes)),
            Self::Throughput(throughput) => match throughput.amount {
                Amount::Bytes(bytes) => Some(bytes),
                Amount::Duration(_) => None,
            },
            Self::Responsiveness(_) => None,
            Self::Datagrams(datagrams) => Some(datagrams.bytes()),
        }
    }

    /// Why the pattern cannot run over `transport`, if it cannot.
    pub const fn misfit(&self, transport: Transport) -> Option<&'static str> {
        match (self, transport) {
            (Self::Datagrams(_), Transport::Tcp | Transport::Mptcp) => Some(
                "the pattern `datagrams` needs a transport without retransmission: udp, quic or mpquic, not tcp or mptcp",
            ),
            (Self::Datagrams(_), _) => None,
            (_, Transport::Udp) => Some("the transport udp carries only the pattern `datagrams`"),
            _ => None,
        }
    }

    pub fn validate(&self) -> Result<(), Vec<ParameterError>> {
        let mut wrong = Vec::new();
        let streams = self.streams();
        if streams == 0 || streams > MAX_STREAMS {
            wrong.push(ParameterError::Streams { given: streams });
        }
        let nothing = match self {
            Self::Throughput(throughput) => throughput.measures_nothing(),
            Self::Bulk(bulk) => bulk.least_bytes() == 0 || bulk.least_bytes() < u64::from(streams),
            Self::Interactive(interactive) => interactive.duration < SHORTEST,
            Self::Responsiveness(response) => responsiveness::measures_nothing(response),
            Self::Ping(_) => false,
            Self::Datagrams(datagrams) => datagrams.duration < SHORTEST,
        };
        if nothing {
            wrong.push(ParameterError::Nothing);
        }
        wrong.extend(match self {
            Self::Throughput(throughput) => throughput.errors(),
            Self::Bulk(_) => Vec::new(),
            Self::Ping(ping) => ping.errors(),
            Self::Interactive(interactive) => interactive.errors(),
            Self::Responsiveness(response) => responsiveness::errors(response),
            Self::Datagrams(datagrams) => datagrams::errors(datagrams),
        });
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

impl From<ThroughputParameters> for PatternParameters {
    fn from(throughput: ThroughputParameters) -> Self {
        Self::Throughput(throughput)
    }
}
