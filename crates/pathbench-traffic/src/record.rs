//! What one end of a test knows when the test is over.

use crate::iperf::IperfParameters;
use crate::protocol::TestId;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::sample::{PathFigures, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_transport::{InForce, MptcpFigures, Negotiation};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// One end's record of a test: all its streams, or of one stream while it travels in a RECORD frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    /// Which end.
    pub side: Side,
    /// The test.
    pub test: TestId,
    /// The transport that the client asked for.
    pub transport: Transport,
    /// What was asked.
    pub parameters: IperfParameters,
    /// When this end began the test (before the first byte of data); origin of both series.
    pub started: Timestamp,
    /// When this end's record was closed.
    pub ended: Timestamp,
    /// What this end's application received; empty when it was to receive nothing.
    pub deliveries: DeliverySeries,
    /// What this end's sockets accepted from its application; empty when it was to send nothing.
    pub offered: DeliverySeries,
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
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Payload bytes that the socket accepted.
    pub sent_bytes: u64,
    /// Whether it ran to its end and both ends agree on every byte.
    pub completed: bool,
    /// Why not, in words.
    pub error: Option<String>,
    /// For a stream that did not complete: from the last progress to its end.
    pub hung_ns: Option<u64>,
}

/// A path of one stream at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathSample {
    /// When.
    pub at: Timestamp,
    /// Of which stream.
    pub stream: u32,
    /// The kernel's figures.
    pub figures: PathFigures,
}

/// What a server keeps of a test and gives to whoever knows its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// The test still runs; the record has no samples yet.
    pub running: bool,
    /// The server's own record.
    pub record: EndRecord,
    /// The client's, where it was handed in.
    pub client: Option<EndRecord>,
}

/// A record does not fit into a RECORD frame even without samples.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the record of the test takes {bytes} bytes even without samples; a RECORD frame carries {most}")]
pub struct RecordTooLong {
    /// Its size.
    pub bytes: usize,
    /// The bound.
    pub most: usize,
}

impl EndRecord {
    /// Puts the records of one end's streams together; `None` of nothing.
    #[must_use]
    pub fn of_streams(mut parts: Vec<Self>) -> Option<Self> {
        parts.sort_by_key(|part| part.streams.first().map(|stream| stream.stream));
        let first = parts.first()?;
        let started = parts.iter().map(|part| part.started).min()?;
        let deliveries: Vec<_> = parts.iter().map(|part| &part.deliveries).collect();
        let offered: Vec<_> = parts.iter().map(|part| &part.offered).collect();
        Some(Self {
            side: first.side,
            test: first.test,
            transport: first.transport,
            parameters: first.parameters.clone(),
            started,
            ended: parts.iter().map(|part| part.ended).max()?,
            deliveries: DeliverySeries::sum(started, &deliveries),
            offered: DeliverySeries::sum(started, &offered),
            samples_thinned_by: parts.iter().map(|part| part.samples_thinned_by).max()?,
            completed: parts.len() == first.parameters.streams as usize
                && parts.iter().all(|part| part.completed),
            errors: parts.iter().flat_map(|part| part.errors.iter().cloned()).collect(),
            streams: parts.iter().flat_map(|part| part.streams.iter().cloned()).collect(),
            samples: parts.into_iter().flat_map(|part| part.samples).collect(),
        })
    }

    /// The longest time without progress at the end of a stream that did not complete.
    #[must_use]
    pub fn hung(&self) -> Option<Duration> {
        self.streams.iter().filter_map(|stream| stream.hung_ns).max().map(Duration::from_nanos)
    }

    /// JSON of at most `most` bytes; every other moment's samples go until it fits.
    ///
    /// # Errors
    /// [`RecordTooLong`] when it does not fit even without samples.
    pub fn to_bounded_json(mut self, most: usize) -> Result<Vec<u8>, RecordTooLong> {
        loop {
            // A struct of numbers, strings and lists always serialises.
            let json = serde_json::to_vec(&self).unwrap_or_default();
            if json.len() <= most {
                return Ok(json);
            }
            if self.samples.is_empty() {
                return Err(RecordTooLong { bytes: json.len(), most });
            }
            self.thin_samples();
        }
    }

    /// Drops the samples of every other moment of each stream.
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
