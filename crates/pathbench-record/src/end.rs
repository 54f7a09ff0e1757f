//! The record of one end at the end of a test.

use crate::connection::{InForce, MptcpFigures, Negotiation, PathEvent};
use crate::datagram::DatagramLog;
use crate::delivery::DeliverySeries;
use crate::direction::Direction;
use crate::pattern::PatternParameters;
use crate::resource::{BufferLimits, CpuUse};
use crate::response::{LoadPhase, ProbeKind, ResponseRecord};
use crate::sample::{PathFigures, Side};
use crate::time::Timestamp;
use crate::transport::Transport;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Largest body of a RECORD frame.
pub const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// The counters of `MPTcpExt` (net/mptcp/mib.h) that a server reports: the SYN, join, address and fallback events.
pub const MPTCP_COUNTERS: [&str; 36] = [
    "MPCapableSYNRX",
    "MPCapableACKRX",
    "MPCapableFallbackACK",
    "MPFallbackTokenInit",
    "MPTCPRetrans",
    "MPJoinNoTokenFound",
    "MPJoinSynRx",
    "MPJoinSynAckHMacFailure",
    "MPJoinAckRx",
    "MPJoinAckHMacFailure",
    "MPJoinRejected",
    "DSSNotMatching",
    "DSSCorruptionFallback",
    "DSSCorruptionReset",
    "DSSNoMatchTCP",
    "NoDSSInWindow",
    "DataCsumErr",
    "InfiniteMapTx",
    "InfiniteMapRx",
    "AddAddr",
    "AddAddrDrop",
    "AddAddrTx",
    "AddAddrTxDrop",
    "EchoAdd",
    "EchoAddTx",
    "RmAddr",
    "RmSubflow",
    "MPFailTx",
    "MPFailRx",
    "MPFastcloseTx",
    "MPFastcloseRx",
    "MPRstTx",
    "MPRstRx",
    "MPCapableDataFallback",
    "DssFallback",
    "SubflowStale",
];

/// One end's record of a test: of all its streams, or of one stream in a RECORD frame.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    pub side: Side,
    pub test: TestId,
    pub transport: Transport,
    /// The parameters in use: the requested ones, adapted to the transport ([`PatternParameters::for_transport`]).
    pub parameters: PatternParameters,
    /// Start of the test at this end (before the first byte of data); origin of both series.
    pub started: Timestamp,
    /// Time at which this end's record was completed.
    pub ended: Timestamp,
    /// Bytes that this end's application received; empty if it receives nothing.
    pub deliveries: DeliverySeries,
    /// Bytes that this end's sockets accepted from its application; empty if it sends nothing.
    pub offered: DeliverySeries,
    /// All requests of this end (ping, interactive), in order within each flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageRecord>,
    /// At the client of a `responsiveness` test: its probes.
    #[serde(default)]
    pub response: Option<ResponseRecord>,
    /// The datagrams of the pattern `datagrams`.
    pub datagrams: Option<DatagramLog>,
    /// Path events of a quic or mpquic connection at this end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_events: Vec<PathEvent>,
    /// At the client: time to open the first connection, its encryption included.
    pub handshake: Option<Duration>,
    /// At the client of a completed bulk test: from just before the first connection is opened to the later of the last
    /// byte received and verified and the server's confirmation that it has received and verified the upload.
    pub fct: Option<Duration>,
    /// At a server: its rate limit for each client and direction.
    pub rate_limit_bps: Option<u64>,
    /// At a server that reports them: how much each of [`MPTCP_COUNTERS`] rose in its network namespace from the test's
    /// first stream to the end of its last one; the connections of other programs and clients count, too. Counters that
    /// the kernel lacks are absent.
    pub mptcp_counters: Option<BTreeMap<String, u64>>,
    /// One entry per opened stream, in order.
    pub streams: Vec<StreamRecord>,
    /// The kernel's figures over time, in order of stream and time.
    pub samples: Vec<PathSample>,
    /// Only every n-th sample is kept (1: all), because the size of a record is limited.
    pub samples_thinned_by: u32,
    /// Whether every stream completed and both ends agree on every byte.
    pub completed: bool,
    pub errors: Vec<String>,
    /// CPU time of the threads of the test's data phase; absent where the kernel does not report it.
    pub cpu: Option<CpuUse>,
    /// Limits of TCP's buffers in this end's network namespace; absent for quic and mpquic.
    pub tcp_buffers: Option<BufferLimits>,
}

/// One connection of a test, at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// From 0.
    pub stream: u32,
    /// This end's address (of the first subflow).
    pub local: SocketAddr,
    /// The other end's address (of the first subflow).
    pub peer: SocketAddr,
    /// Socket options as read back from the kernel.
    pub in_force: InForce,
    /// Whether multipath was negotiated and still in use at the end.
    pub multipath: Negotiation,
    /// The MPTCP connection as a whole at the end. Absent for tcp and after a fallback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<MptcpFigures>,
    /// Every path of the connection at the end, closed ones with their last figures.
    pub paths: Vec<PathFigures>,
    pub received_bytes: u64,
    /// Payload bytes that the socket accepted.
    pub sent_bytes: u64,
    /// Whether the stream completed and both ends agree on every byte.
    pub completed: bool,
    pub error: Option<String>,
    /// For a stream that did not complete: time from the last progress to its end.
    pub hung_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathSample {
    pub at: Timestamp,
    pub stream: u32,
    pub figures: PathFigures,
}

/// A request of one end and its result. Times are those of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "MessageOnWire", into = "MessageOnWire")]
pub struct MessageRecord {
    /// The side that sent the request: `Upload` is the client.
    pub flow: Direction,
    /// From 0 in each flow, without a ping's warm-up.
    pub sequence: u32,
    /// Scheduled time of sending: for interactive, a multiple of the interval, independent of the network; for ping,
    /// the time when its first byte was passed to the socket.
    pub due: Timestamp,
    /// Time when the socket had accepted all of its bytes.
    pub sent: Option<Timestamp>,
    /// Time when the acknowledgement was received (interactive); `None`: not received by the end of this end's record.
    pub acknowledged: Option<Timestamp>,
    /// Time when the answer was completely received; `None`: not received, or (ping) after the timeout.
    pub answered: Option<Timestamp>,
}

/// A list instead of a map: an hour of messages must fit into a RECORD frame.
type MessageOnWire = (Direction, u32, Timestamp, Option<Timestamp>, Option<Timestamp>, Option<Timestamp>);

impl From<MessageOnWire> for MessageRecord {
    fn from((flow, sequence, due, sent, acknowledged, answered): MessageOnWire) -> Self {
        Self { flow, sequence, due, sent, acknowledged, answered }
    }
}

impl From<MessageRecord> for MessageOnWire {
    fn from(message: MessageRecord) -> Self {
        let MessageRecord { flow, sequence, due, sent, acknowledged, answered } = message;
        (flow, sequence, due, sent, acknowledged, answered)
    }
}

impl MessageRecord {
    pub fn delay(&self) -> Option<Duration> {
        self.acknowledged.map(|at| at.duration_since(self.due))
    }

    /// Time from due to acknowledged. Without an acknowledgement, the time to `end`, when the requester stopped
    /// waiting: a lower bound.
    pub fn delay_by(&self, end: Timestamp) -> Duration {
        self.acknowledged.unwrap_or(end).duration_since(self.due)
    }

    /// Time from due to answered; for a ping, the round-trip time.
    pub fn round_trip(&self) -> Option<Duration> {
        self.answered.map(|at| at.duration_since(self.due))
    }
}

/// A record does not fit into a RECORD frame even without samples.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the record of the test takes {bytes} bytes even without samples; a RECORD frame carries {MAX_RECORD_BYTES}"
)]
pub struct RecordTooLong {
    pub bytes: usize,
}

/// Smallest size of a path's sample as JSON, to thin out samples before encoding.
const LEAST_SAMPLE_JSON_BYTES: usize = 400;

impl EndRecord {
    /// Combines the records of one end's streams; `None` without a record, or if the records begin at different times:
    /// all streams of a test have the same start.
    pub fn of_streams(mut parts: Vec<Self>) -> Option<Self> {
        parts.sort_by_key(|part| part.streams.first().map(|stream| stream.stream));
        let deliveries: Vec<_> = parts.iter().map(|part| &part.deliveries).collect();
        let offered: Vec<_> = parts.iter().map(|part| &part.offered).collect();
        let (deliveries, offered) = (DeliverySeries::sum(&deliveries)?, DeliverySeries::sum(&offered)?);
        let count = parts.len();
        let mut parts = parts.into_iter();
        let mut all = Self { deliveries, offered, ..parts.next()? };
        all.completed &= count == all.parameters.streams() as usize;
        for part in parts {
            all.ended = all.ended.max(part.ended);
            all.samples_thinned_by = all.samples_thinned_by.max(part.samples_thinned_by);
            all.completed &= part.completed;
            all.mptcp_counters =
                all.mptcp_counters.zip(part.mptcp_counters).map(|(all, part)| latest(all, &part));
            all.cpu = match (all.cpu, part.cpu) {
                (Some(all), Some(part)) => Some(all.and(part)),
                (one, other) => one.or(other),
            };
            // The test is complete with its last stream.
            all.fct = all.fct.zip(part.fct).map(|(all, part)| all.max(part));
            all.messages.extend(part.messages);
            all.path_events.extend(part.path_events);
            all.errors.extend(part.errors);
            all.streams.extend(part.streams);
            all.samples.extend(part.samples);
        }
        Some(all)
    }

    /// The longest time without progress at the end of a stream that did not complete.
    pub fn hung(&self) -> Option<Duration> {
        self.streams.iter().filter_map(|stream| stream.hung_ns).max().map(Duration::from_nanos)
    }

    /// The record as JSON. Every second sample time is removed until the record has at most `preferred` bytes; without
    /// samples it may be as long as a RECORD frame permits.
    ///
    /// # Errors
    /// [`RecordTooLong`] when it is longer even without samples.
    pub fn fit(&mut self, preferred: usize) -> Result<Vec<u8>, RecordTooLong> {
        let preferred = preferred.min(MAX_RECORD_BYTES);
        while self.samples.len() * LEAST_SAMPLE_JSON_BYTES > preferred {
            self.thin_samples();
        }
        loop {
            // A struct of numbers, strings and lists always serialises.
            let json = serde_json::to_vec(self).unwrap_or_default();
            if json.len() <= preferred {
                return Ok(json);
            }
            if self.samples.is_empty() {
                let bytes = json.len();
                return if bytes <= MAX_RECORD_BYTES { Ok(json) } else { Err(RecordTooLong { bytes }) };
            }
            self.thin_samples();
        }
    }

    fn thin_samples(&mut self) {
        let mut moment = (u32::MAX, Timestamp::default());
        let mut index: u64 = 0;
        let before = self.samples.len();
        self.samples.retain(|sample| {
            if moment != (sample.stream, sample.at) {
                index = if moment.0 == sample.stream { index + 1 } else { 0 };
                moment = (sample.stream, sample.at);
            }
            index.is_multiple_of(2)
        });
        self.samples_thinned_by = self.samples_thinned_by.saturating_mul(2);
        if self.samples.len() == before {
            self.samples.clear();
        }
    }
}

/// The counters of the stream that ended last: counters only rise.
fn latest(mut all: BTreeMap<String, u64>, part: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    for (name, rise) in &mut all {
        *rise = (*rise).max(part.get(name).copied().unwrap_or_default());
    }
    all
}

/// One line of `messages.jsonl`. Times are on the run's clock.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageLine {
    /// The run's `id`.
    pub run: String,
    /// Direction of the request: `upload` from the client, `download` from the server.
    pub direction: Direction,
    /// Number within its direction (of a probe: within its kind and path), from 0.
    pub sequence: u32,
    /// `responsiveness` only: the kind of the probe, `self`, `foreign` or `path`.
    pub probe: Option<ProbeKind>,
    /// The path of a probe of kind `path`.
    pub path: Option<String>,
    /// The phase in whose measured part the probe was due; absent between them.
    pub phase: Option<LoadPhase>,
    /// Time at which the message was due; of `interactive`, on a fixed grid from the start.
    pub due_ms: f64,
    /// Time at which the transport accepted its last byte; absent if it never did.
    pub sent_ms: Option<f64>,
    /// Time at which its acknowledgement had arrived; absent if it never did.
    pub acknowledged_ms: Option<f64>,
    /// Time at which its whole answer had arrived; absent if it never did.
    pub answered_ms: Option<f64>,
    /// `acknowledged_ms` − `due_ms`; of an unacknowledged message end of the run − `due_ms`, a lower bound. Of a probe
    /// the same with `answered_ms`.
    pub delay_ms: f64,
    /// Whether it was never acknowledged (a probe: never answered).
    pub unacknowledged: bool,
}

impl MessageLine {
    /// The lines of `messages`. `origin` is the zero of the run's clock, `end` the time when the requesters stopped
    /// waiting.
    pub fn of_messages(
        run: &str,
        messages: &[MessageRecord],
        origin: Timestamp,
        end: Timestamp,
    ) -> Vec<Self> {
        let on_the_clock = |at: Option<Timestamp>| at.map(|at| at.ms_from(origin));
        messages
            .iter()
            .map(|message| Self {
                run: run.to_owned(),
                direction: message.flow,
                sequence: message.sequence,
                probe: None,
                path: None,
                phase: None,
                due_ms: message.due.ms_from(origin),
                sent_ms: on_the_clock(message.sent),
                acknowledged_ms: on_the_clock(message.acknowledged),
                answered_ms: on_the_clock(message.answered),
                delay_ms: message.delay_by(end).as_nanos() as f64 / 1e6,
                unacknowledged: message.acknowledged.is_none(),
            })
            .collect()
    }
}

/// Sixteen random bytes that identify a test. They authorise a peer to join the test, fetch its record and end it, so
/// they come from a cryptographic random source. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, SerializeDisplay, DeserializeFromStr)]
pub struct TestId(pub [u8; 16]);

impl fmt::Display for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestId({self})")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a test id; one is 32 hexadecimal digits")]
pub struct InvalidTestId {
    pub text: String,
}

impl FromStr for TestId {
    type Err = InvalidTestId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| InvalidTestId { text: text.chars().take(80).collect() })
    }
}
