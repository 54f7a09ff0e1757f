//! What one end of a test knows when the test is over.

use crate::connection::{InForce, MptcpFigures, Negotiation, PathEvent};
use crate::delivery::DeliverySeries;
use crate::direction::Direction;
use crate::pattern::PatternParameters;
use crate::sample::{PathFigures, Side};
use crate::test_id::TestId;
use crate::time::Timestamp;
use crate::transport::Transport;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Largest body of a RECORD frame.
pub const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// One end's record of a test: all its streams, or of one stream while it travels in a RECORD frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    pub side: Side,
    pub test: TestId,
    pub transport: Transport,
    /// What was done: what was asked, as the transport takes it ([`PatternParameters::for_transport`]).
    pub parameters: PatternParameters,
    /// When this end began the test (before the first byte of data); origin of both series.
    pub started: Timestamp,
    /// When this end's record was closed.
    pub ended: Timestamp,
    /// What this end's application received; empty when it was to receive nothing.
    pub deliveries: DeliverySeries,
    /// What this end's sockets accepted from its application; empty when it was to send nothing.
    pub offered: DeliverySeries,
    /// The requests that this end made (ping, interactive), those of each flow in order; none is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageRecord>,
    /// What happened to the paths of a quic or mpquic connection, as this end saw it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_events: Vec<PathEvent>,
    /// At the client: from the moment before the first connection is opened to the moment it is open, its
    /// encryption included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Duration>,
    /// At the client of a bulk test that completed: from the moment before the first connection is opened to the
    /// last byte received and verified, or to the server's word that it has received and verified
    /// what was uploaded, whichever came later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Duration>,
    /// What this end, a server, bounds the rate of each of its clients to, in each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit_bps: Option<u64>,
    /// One per stream that was opened, in order.
    pub streams: Vec<StreamRecord>,
    /// The kernel's figures over time, in order of stream and time.
    pub samples: Vec<PathSample>,
    /// Only every n-th sample is here (1: all), because a record must not exceed its bound.
    pub samples_thinned_by: u32,
    /// Whether every stream ran to its end and both ends agree on every byte.
    pub completed: bool,
    /// What went wrong, in words.
    pub errors: Vec<String>,
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
    /// Whether multipath was negotiated and still in force at the end.
    pub multipath: Negotiation,
    /// The connection as a whole at the end. Absent for tcp and after a fallback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<MptcpFigures>,
    /// Every path of the connection at the end, closed ones with their last figures.
    pub paths: Vec<PathFigures>,
    pub received_bytes: u64,
    /// Payload bytes that the socket accepted.
    pub sent_bytes: u64,
    /// Whether it ran to its end and both ends agree on every byte.
    pub completed: bool,
    pub error: Option<String>,
    /// For a stream that did not complete: from the last progress to its end.
    pub hung_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathSample {
    pub at: Timestamp,
    pub stream: u32,
    pub figures: PathFigures,
}

/// A request of one end, and what came of it. Its time is its application's: what it waits for, and when it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "MessageOnWire", into = "MessageOnWire")]
pub struct MessageRecord {
    /// Which side sent the request: `Upload` the client.
    pub flow: Direction,
    /// From 0 in each flow; a ping's warm-up does not count.
    pub sequence: u32,
    /// When it was to be sent: interactive, its place on the grid, wherever the network was by then; ping, when
    /// its first byte was handed to the socket.
    pub due: Timestamp,
    /// When the socket had taken the whole of it.
    pub sent: Option<Timestamp>,
    /// When the acknowledgement was received (interactive); `None`: never, up to the end of this end's record.
    pub acknowledged: Option<Timestamp>,
    /// When the whole answer was received; `None`: never, or (ping) later than the timeout.
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
        self.acknowledged.map(|at| at.since(self.due))
    }

    /// From when it was due to its answer; for a ping, the round-trip time.
    pub fn round_trip(&self) -> Option<Duration> {
        self.answered.map(|at| at.since(self.due))
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

/// No sample of a path is shorter as JSON: what is too long in any case is not written.
const LEAST_SAMPLE_JSON_BYTES: usize = 400;

impl EndRecord {
    /// Puts the records of one end's streams together; `None` of nothing, and of records that begin at different times:
    /// the streams of a test begin with it.
    pub fn of_streams(mut parts: Vec<Self>) -> Option<Self> {
        parts.sort_by_key(|part| part.streams.first().map(|stream| stream.stream));
        let first = parts.first()?;
        let deliveries: Vec<_> = parts.iter().map(|part| &part.deliveries).collect();
        let offered: Vec<_> = parts.iter().map(|part| &part.offered).collect();
        Some(Self {
            side: first.side,
            test: first.test,
            transport: first.transport,
            parameters: first.parameters.clone(),
            started: first.started,
            ended: parts.iter().map(|part| part.ended).max()?,
            deliveries: DeliverySeries::sum(&deliveries)?,
            offered: DeliverySeries::sum(&offered)?,
            samples_thinned_by: parts.iter().map(|part| part.samples_thinned_by).max()?,
            completed: parts.len() == first.parameters.streams() as usize
                && parts.iter().all(|part| part.completed),
            messages: parts.iter().flat_map(|part| part.messages.iter().copied()).collect(),
            path_events: parts.iter().flat_map(|part| part.path_events.iter().cloned()).collect(),
            handshake: first.handshake,
            rate_limit_bps: first.rate_limit_bps,
            // Complete with the last stream.
            completion: parts
                .iter()
                .map(|part| part.completion)
                .collect::<Option<Vec<_>>>()
                .and_then(|times| times.into_iter().max()),
            errors: parts.iter().flat_map(|part| part.errors.iter().cloned()).collect(),
            streams: parts.iter().flat_map(|part| part.streams.iter().cloned()).collect(),
            samples: parts.into_iter().flat_map(|part| part.samples).collect(),
        })
    }

    /// The longest time without progress at the end of a stream that did not complete.
    pub fn hung(&self) -> Option<Duration> {
        self.streams.iter().filter_map(|stream| stream.hung_ns).max().map(Duration::from_nanos)
    }

    /// The record as JSON. Every other moment's samples go until it has at most `preferred` bytes; without samples it may
    /// be as long as a RECORD frame carries.
    ///
    /// # Errors
    /// [`RecordTooLong`] when it is longer even then.
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
