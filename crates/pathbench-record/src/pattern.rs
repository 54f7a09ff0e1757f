//! The traffic patterns and what each is asked to do.

mod iperf;
mod validation;

pub use iperf::{Amount, IperfParameters, MAX_STREAMS, MIN_STREAM_RATE_BPS, ParameterError};
pub use validation::MAX_MESSAGES;

use crate::direction::{DataDirection, Direction};
use crate::transport::Transport;
use crate::units::nanoseconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Smallest body of a message: its sequence number.
pub const MIN_MESSAGE_BYTES: usize = 4;

/// Largest body of a message; a receiver holds one of them in memory.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Fewest streams that carry bulk data over quic and mpquic. A stream's receive window must stay small (the
/// reassembly of a stream gives up when it has too many gaps, which a path's death makes), so that one stream
/// alone cannot fill a fast or long path.
pub const QUIC_STREAMS: u32 = 4;

/// A pattern with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "pattern")]
pub enum PatternParameters {
    /// Small requests, one after the other.
    Ping(PingParameters),
    /// A download, an upload or both at once, of given sizes, verified.
    Bulk(BulkParameters),
    /// Data for a given time or amount, up, down or both ways.
    Iperf(IperfParameters),
    /// Requests both ways at a fixed pace, like a voice assistant or a game.
    Interactive(InteractiveParameters),
}

impl PatternParameters {
    /// `ping`, `bulk`, `iperf` or `interactive`.
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
    pub const fn streams(&self) -> u32 {
        match self {
            Self::Ping(_) => 1,
            Self::Bulk(bulk) => bulk.streams,
            Self::Iperf(iperf) => iperf.streams,
            Self::Interactive(_) => 2,
        }
    }

    /// The parameters as they are run over `transport`: bulk data over quic and mpquic goes over at least
    /// [`QUIC_STREAMS`] streams of the one connection, as far as there is a byte and a rate for each.
    pub fn for_transport(mut self, transport: Transport) -> Self {
        if !matches!(transport, Transport::Quic | Transport::Mpquic) {
            return self;
        }
        match &mut self {
            Self::Bulk(bulk) if bulk.streams > 0 => {
                bulk.streams = bulk.streams.max(u64::from(QUIC_STREAMS).min(bulk.least_bytes()) as u32);
            }
            Self::Iperf(iperf) if iperf.streams > 0 => {
                let mut streams = u64::from(QUIC_STREAMS);
                if let Amount::Bytes(bytes) = iperf.amount {
                    streams = streams.min(bytes);
                }
                if let Some(rate_bps) = iperf.rate_bps {
                    streams = streams.min(rate_bps / MIN_STREAM_RATE_BPS);
                }
                iperf.streams = iperf.streams.max(streams as u32);
            }
            _ => {}
        }
        self
    }

    /// What a pattern of bulk data comes down to; `None` for patterns of messages. A `bulk` may have another amount for
    /// each direction, of which this is the larger: [`PatternParameters::transfer_of`] tells them apart.
    pub fn transfer(&self) -> Option<IperfParameters> {
        match self {
            Self::Iperf(iperf) => Some(iperf.clone()),
            Self::Bulk(bulk) => Some(IperfParameters {
                direction: bulk.direction(),
                streams: bulk.streams,
                amount: Amount::Bytes(bulk.bytes.max(bulk.upload_bytes)),
                ..IperfParameters::default()
            }),
            Self::Ping(_) | Self::Interactive(_) => None,
        }
    }

    /// What of a pattern of bulk data goes one way; `None` when nothing does.
    pub fn transfer_of(&self, direction: Direction) -> Option<IperfParameters> {
        let transfer = self.transfer()?;
        let (goes, bulk_bytes): (bool, fn(&BulkParameters) -> u64) = match direction {
            Direction::Upload => (transfer.direction.has_upload(), |bulk| bulk.upload_bytes),
            Direction::Download => (transfer.direction.has_download(), |bulk| bulk.bytes),
        };
        let amount = match self {
            Self::Bulk(bulk) => Amount::Bytes(bulk_bytes(bulk)),
            _ => transfer.amount,
        };
        goes.then_some(IperfParameters { amount, ..transfer })
    }

    /// Whether what is written has to go out at once. Nagle's algorithm (RFC 896) would hold the end of a message
    /// back until the peer's delayed acknowledgement of its beginning, and the test would measure that.
    pub const fn sends_at_once(&self) -> bool {
        matches!(self, Self::Ping(_) | Self::Interactive(_))
    }

    /// How long a test takes when the network is not what holds it up; `None` when only the network does.
    pub fn nominal_duration(&self) -> Option<Duration> {
        match self {
            Self::Ping(ping) => Some(ping.interval.saturating_mul(ping.requests())),
            Self::Interactive(interactive) => Some(interactive.duration.saturating_add(interactive.linger)),
            Self::Iperf(iperf) => match iperf.amount {
                Amount::Duration(duration) => Some(duration.saturating_add(iperf.omit)),
                Amount::Bytes(_) => None,
            },
            Self::Bulk(_) => None,
        }
    }

    /// How long a test may take at a client that is in no hurry. One by bytes: the time that they take at 1 Mbit/s, an hour
    /// at least.
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

    /// Payload of the busier direction; `None` when only time and network bound it.
    pub fn nominal_bytes(&self) -> Option<u64> {
        match self {
            Self::Ping(ping) => {
                Some(u64::from(ping.requests()) * u64::from(ping.request_bytes.max(ping.response_bytes)))
            }
            Self::Interactive(interactive) => {
                let each = u64::from(interactive.request_bytes) + u64::from(interactive.response_bytes);
                // An acknowledgement is a bare sequence number.
                Some(u64::from(interactive.messages()) * (each + 4))
            }
            Self::Bulk(bulk) => Some(bulk.bytes.max(bulk.upload_bytes)),
            Self::Iperf(iperf) => match iperf.amount {
                Amount::Bytes(bytes) => Some(bytes),
                Amount::Duration(_) => None,
            },
        }
    }
}

impl From<IperfParameters> for PatternParameters {
    fn from(iperf: IperfParameters) -> Self {
        Self::Iperf(iperf)
    }
}

impl PingParameters {
    /// All requests, those of the warm-up included.
    pub const fn requests(&self) -> u32 {
        self.count.saturating_add(self.warm_up)
    }
}

impl BulkParameters {
    /// Which way data goes.
    pub const fn direction(&self) -> DataDirection {
        match (self.bytes, self.upload_bytes) {
            (_, 0) => DataDirection::Download,
            (0, _) => DataDirection::Upload,
            _ => DataDirection::Both,
        }
    }

    /// The smaller amount, of those directions that have one.
    fn least_bytes(&self) -> u64 {
        [self.bytes, self.upload_bytes].into_iter().filter(|bytes| *bytes > 0).min().unwrap_or(0)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl InteractiveParameters {
    /// Requests of each side: one at the start, and one more per interval before the duration is over.
    pub fn messages(&self) -> u32 {
        let interval = self.interval.as_nanos().max(1);
        u32::try_from(self.duration.as_nanos().div_ceil(interval)).unwrap_or(u32::MAX)
    }
}

/// Parameters of `ping`. Defaults: `MultipathTester`'s five GETs of 10 bytes, 100 ms apart.
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
    /// Size of a request: its frame's body, of which the sequence number takes four bytes.
    pub request_bytes: u32,
    /// Size of an answer, likewise.
    pub response_bytes: u32,
    /// A request whose answer takes longer counts as lost.
    #[serde(rename = "timeout_ns", with = "nanoseconds")]
    pub timeout: Duration,
}

/// Parameters of `bulk`: at least one of its amounts is not 0. Default: `MultipathTester`'s GET of 10 MB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BulkParameters {
    /// Bytes to download, all streams together; 0: none.
    pub bytes: u64,
    /// Bytes to upload at the same time, on the same streams; 0: none. Left out of the request then, so that a server
    /// that does not know it is not asked for it.
    #[serde(skip_serializing_if = "is_zero")]
    pub upload_bytes: u64,
    /// Parallel streams that share them.
    pub streams: u32,
}

/// Parameters of `interactive`. Defaults: `MultipathTester`'s stream test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InteractiveParameters {
    /// How long each side goes on sending requests.
    #[serde(rename = "duration_ns", with = "nanoseconds")]
    pub duration: Duration,
    /// From one request to the next.
    #[serde(rename = "interval_ns", with = "nanoseconds")]
    pub interval: Duration,
    /// Size of a request: its frame's body, of which the sequence number takes four bytes.
    pub request_bytes: u32,
    /// Size of the answer to it, likewise.
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
        Self { bytes: 10_000_000, upload_bytes: 0, streams: 1 }
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
