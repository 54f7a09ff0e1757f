//! The traffic patterns and their parameters.

use crate::datagram::{
    DATAGRAM_HEADER_BYTES, DatagramsParameters, MAX_DATAGRAM_PATHS, MAX_DATAGRAMS, MAX_FRAME_BYTES,
    MAX_FRAMES_PER_SECOND, MAX_PACKET_BYTES,
};
use crate::direction::{DataDirection, Direction};
use crate::response::{LAST_ANSWERS, LoadPhase, ResponsivenessParameters};
use crate::text::duration;
use crate::transport::Transport;
use crate::units::milliseconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

pub const MAX_STREAMS: u32 = 128;

/// Smallest body of a message: its sequence number.
pub const MIN_MESSAGE_BYTES: usize = 4;

/// Largest body of a message; a receiver holds one of them in memory.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Lowest rate limit per stream: below it, blocks would be seconds apart.
pub const MIN_STREAM_RATE_BPS: u64 = 8_000;

/// Limit of the messages of one side in one test: their records must fit into a RECORD frame.
pub const MAX_MESSAGES: u32 = 36_000;

/// Longest wait for the last datagrams.
const LONGEST_LINGER: Duration = Duration::from_secs(60);

const SHORTEST: Duration = Duration::from_millis(1);

/// Shortest interval of the probes of `responsiveness`: the server's limit of datagrams.
pub const SHORTEST_PROBE_INTERVAL: Duration = Duration::from_millis(20);

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
}

impl From<ThroughputParameters> for PatternParameters {
    fn from(throughput: ThroughputParameters) -> Self {
        Self::Throughput(throughput)
    }
}

impl PingParameters {
    /// Number of requests, those of the warm-up included.
    pub const fn requests(&self) -> u32 {
        self.count.saturating_add(self.warm_up)
    }
}

impl BulkParameters {
    pub const fn direction(&self) -> DataDirection {
        match (self.bytes, self.upload_bytes) {
            (_, 0) => DataDirection::Download,
            (0, _) => DataDirection::Upload,
            _ => DataDirection::Both,
        }
    }

    fn least_bytes(&self) -> u64 {
        [self.bytes, self.upload_bytes].into_iter().filter(|bytes| *bytes > 0).min().unwrap_or(0)
    }
}

impl InteractiveParameters {
    /// Number of requests of each side: one at the start, and one per interval until the end of the duration.
    pub fn messages(&self) -> u32 {
        let interval = self.interval.as_nanos().max(1);
        u32::try_from(self.duration.as_nanos().div_ceil(interval)).unwrap_or(u32::MAX)
    }
}

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
    /// Parallel connections, 1 to [`MAX_STREAMS`].
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

/// Largest number of a processor: that of the kernel's `cpu_set_t`.
pub const MAX_PROCESSOR: u32 = 1023;

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

/// Parameters of `ping`. Defaults: `MultipathTester`'s five GETs of 10 bytes, 100 ms apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PingParameters {
    pub count: u32,
    /// Additional first requests that do not count, because of the path's state and the server's caches.
    pub warm_up: u32,
    /// Interval of requests; longer if an answer takes longer.
    #[serde(rename = "interval_ms", with = "milliseconds")]
    pub interval: Duration,
    /// Size of a request: its frame's body, of which the sequence number takes four bytes.
    pub request_bytes: u32,
    pub response_bytes: u32,
    /// A request whose answer takes longer counts as lost.
    #[serde(rename = "timeout_ms", with = "milliseconds")]
    pub timeout: Duration,
}

/// Parameters of `bulk`: at least one of its amounts is not 0. Default: `MultipathTester`'s GET of 10 MB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BulkParameters {
    /// Bytes to download on all streams together; 0: none.
    pub bytes: u64,
    /// Bytes to upload at the same time, on the same streams; 0: none.
    pub upload_bytes: u64,
    pub streams: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InteractiveParameters {
    #[serde(rename = "duration_ms", with = "milliseconds")]
    pub duration: Duration,
    #[serde(rename = "interval_ms", with = "milliseconds")]
    pub interval: Duration,
    /// Size of a request: its frame's body, of which the sequence number takes four bytes.
    pub request_bytes: u32,
    pub response_bytes: u32,
    /// Limit of the wait for the last acknowledgements after the last request.
    #[serde(rename = "linger_ms", with = "milliseconds")]
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

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    #[error("{given} parallel streams: a test has 1 to {MAX_STREAMS}")]
    Streams { given: u32 },
    #[error("a test of no duration or no bytes measures nothing; ask for at least 1 ms or 1 byte per stream")]
    Nothing,
    #[error("a rate of {given} bit/s over {streams} streams: each stream needs at least 8 kbit/s")]
    Rate { given: u64, streams: u32 },
    #[error("a ping of no requests measures nothing; ask for at least 1")]
    NoRequest,
    #[error("{given} messages in one test: at most {most} are possible")]
    Messages { given: u32, most: u32 },
    #[error("messages of {given} bytes: {least} to {most} bytes are possible")]
    Message { given: u32, least: u32, most: u32 },
    #[error("an interval of {} between messages: 1 ms is the shortest", duration(*.given))]
    Interval { given: Duration },
    #[error("a timeout of {} for an answer: 1 ms is the shortest", duration(*.given))]
    Timeout { given: Duration },
    #[error("an interval of {} between probes: 20 ms is the shortest", duration(*.given))]
    ProbeInterval { given: Duration },
    #[error("phases in which nothing is measured: `settle` has to be shorter than `load`")]
    Settle,
    #[error("the phase {given} is named twice")]
    PhaseTwice { given: &'static str },
    #[error("blocks of {given} bytes: 64 bytes to 4 MiB are possible")]
    Block { given: u32 },
    #[error("{given} frames per second: 1 to {MAX_FRAMES_PER_SECOND} are possible")]
    FrameRate { given: u32 },
    #[error("frames of {given} bytes: {DATAGRAM_HEADER_BYTES} to {MAX_FRAME_BYTES} bytes are possible")]
    Frame { given: u32 },
    #[error(
        "packets of at most {given} bytes: {DATAGRAM_HEADER_BYTES} to {MAX_PACKET_BYTES} are possible, and no packet of a \
         frame may be smaller than {DATAGRAM_HEADER_BYTES}"
    )]
    Packet { given: u32 },
    #[error("datagrams on {given} paths: 1 to {MAX_DATAGRAM_PATHS} are possible")]
    DatagramPaths { given: u32 },
    #[error("a wait of {} for the last datagrams: at most {} is possible", duration(*.given), duration(LONGEST_LINGER))]
    Linger { given: Duration },
    #[error(
        "{given} datagrams in one test, both directions and all paths together: at most {MAX_DATAGRAMS} can be logged; \
         shorten the duration, or lower the rate"
    )]
    Datagrams { given: u64 },
    #[error("processor {given}: 0 to {MAX_PROCESSOR} are possible")]
    Processor { given: u32 },
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
}

impl PatternParameters {
    pub fn validate(&self) -> Result<(), Vec<ParameterError>> {
        let mut wrong = Vec::new();
        let streams = self.streams();
        if streams == 0 || streams > MAX_STREAMS {
            wrong.push(ParameterError::Streams { given: streams });
        }
        let nothing = match self {
            Self::Throughput(throughput) => match throughput.amount {
                Amount::Duration(duration) => duration < SHORTEST,
                Amount::Bytes(bytes) => bytes < u64::from(streams) || bytes == 0,
            },
            Self::Bulk(bulk) => bulk.least_bytes() == 0 || bulk.least_bytes() < u64::from(streams),
            Self::Interactive(interactive) => interactive.duration < SHORTEST,
            Self::Responsiveness(response) => {
                response.idle < SHORTEST || response.load < SHORTEST || response.phases.is_empty()
            }
            Self::Ping(_) => false,
            Self::Datagrams(datagrams) => datagrams.duration < SHORTEST,
        };
        if nothing {
            wrong.push(ParameterError::Nothing);
        }
        match self {
            Self::Throughput(throughput) => {
                if let Some(given) = throughput.rate_bps
                    && given / u64::from(streams.max(1)) < MIN_STREAM_RATE_BPS
                {
                    wrong.push(ParameterError::Rate { given, streams });
                }
                wrong.extend(block(throughput.block_bytes));
                let processors = [throughput.client_processor, throughput.server_processor];
                let beyond = processors.into_iter().flatten().filter(|given| *given > MAX_PROCESSOR);
                wrong.extend(beyond.map(|given| ParameterError::Processor { given }));
            }
            Self::Bulk(_) => {}
            Self::Ping(ping) => {
                if ping.count == 0 {
                    wrong.push(ParameterError::NoRequest);
                }
                wrong.extend(number(ping.requests()));
                wrong.extend(sizes([ping.request_bytes, ping.response_bytes]));
                if ping.timeout < SHORTEST {
                    wrong.push(ParameterError::Timeout { given: ping.timeout });
                }
            }
            Self::Interactive(interactive) => {
                if interactive.interval < SHORTEST {
                    wrong.push(ParameterError::Interval { given: interactive.interval });
                } else {
                    wrong.extend(number(interactive.messages()));
                }
                wrong.extend(sizes([interactive.request_bytes, interactive.response_bytes]));
            }
            Self::Responsiveness(responsiveness) => wrong.extend(of_responsiveness(responsiveness)),
            Self::Datagrams(datagrams) => wrong.extend(datagram_errors(datagrams)),
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

fn of_responsiveness(parameters: &ResponsivenessParameters) -> Vec<ParameterError> {
    let mut wrong = Vec::new();
    if parameters.settle >= parameters.load {
        wrong.push(ParameterError::Settle);
    }
    for (index, phase) in parameters.phases.iter().enumerate() {
        if parameters.phases.iter().take(index).any(|other| other == phase) {
            wrong.push(ParameterError::PhaseTwice { given: LoadPhase::from(*phase).name() });
        }
    }
    if parameters.interval < SHORTEST_PROBE_INTERVAL {
        wrong.push(ParameterError::ProbeInterval { given: parameters.interval });
    } else {
        wrong.extend(number(parameters.probes()));
    }
    wrong.extend(sizes([parameters.probe_bytes, parameters.probe_bytes]));
    wrong.extend(block(parameters.block_bytes));
    wrong
}

fn block(given: u32) -> Option<ParameterError> {
    (!(64..=4 * 1024 * 1024).contains(&given)).then_some(ParameterError::Block { given })
}

fn datagram_errors(datagrams: &DatagramsParameters) -> Vec<ParameterError> {
    let mut wrong = Vec::new();
    let &DatagramsParameters { frames_per_second, frame_bytes, packet_bytes, paths, .. } = datagrams;
    if !(1..=MAX_FRAMES_PER_SECOND).contains(&frames_per_second) {
        wrong.push(ParameterError::FrameRate { given: frames_per_second });
    }
    let packets = DATAGRAM_HEADER_BYTES..=MAX_PACKET_BYTES;
    if !packets.contains(&packet_bytes) {
        wrong.push(ParameterError::Packet { given: packet_bytes });
    }
    if !(DATAGRAM_HEADER_BYTES..=MAX_FRAME_BYTES).contains(&frame_bytes) {
        wrong.push(ParameterError::Frame { given: frame_bytes });
    } else if packets.contains(&packet_bytes)
        && frame_bytes / datagrams.packets_per_frame().max(1) < DATAGRAM_HEADER_BYTES
    {
        wrong.push(ParameterError::Packet { given: packet_bytes });
    }
    if !(1..=MAX_DATAGRAM_PATHS).contains(&paths) {
        wrong.push(ParameterError::DatagramPaths { given: paths });
    }
    if datagrams.linger > LONGEST_LINGER {
        wrong.push(ParameterError::Linger { given: datagrams.linger });
    }
    let given = datagrams.datagrams_in_all();
    if wrong.is_empty() && given > MAX_DATAGRAMS {
        wrong.push(ParameterError::Datagrams { given });
    }
    wrong
}

fn number(given: u32) -> Option<ParameterError> {
    (given > MAX_MESSAGES).then_some(ParameterError::Messages { given, most: MAX_MESSAGES })
}

fn sizes(given: [u32; 2]) -> impl Iterator<Item = ParameterError> {
    let (least, most) = (MIN_MESSAGE_BYTES as u32, MAX_MESSAGE_BYTES as u32);
    given
        .into_iter()
        .filter(move |bytes| !(least..=most).contains(bytes))
        .map(move |given| ParameterError::Message { given, least, most })
}
