//! The plan of a test at one end, the same for all its streams.

use crate::pacer::Pacers;
use crate::protocol::HEADER_BYTES;
use crate::throughput::payload_bytes_per_block;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::sync::Arc;
use std::time::Duration;

/// Limit of a server's path samples of a test, for all streams together: more than its record can carry.
pub(crate) const MAX_SERVER_FIGURES: usize = 16_384;

/// Limit of the blocks that a server sends repeatedly in a test, for all streams together.
pub(crate) const MAX_SERVER_BLOCKS_BYTES: u32 = 16 << 20;

#[derive(Debug, Clone)]
pub(crate) struct TestPlan {
    pub(crate) side: Side,
    pub(crate) test: TestId,
    pub(crate) transport: Transport,
    pub(crate) parameters: PatternParameters,
    pub(crate) started: Timestamp,
    /// At the client: time to open the first connection.
    pub(crate) handshake: Option<Duration>,
    pub(crate) patience: Duration,
    pub(crate) ceiling_bytes: Option<u64>,
    pub(crate) pacers: Option<Arc<Pacers>>,
    /// Time at which a stream's data ends at this end; no peer can extend it.
    pub(crate) deadline: Timestamp,
}

impl TestPlan {
    /// This end's record of a test without streams.
    pub(crate) fn record(&self, ended: Timestamp) -> EndRecord {
        EndRecord {
            side: self.side,
            test: self.test,
            transport: self.transport,
            parameters: self.parameters.clone(),
            started: self.started,
            ended,
            deliveries: DeliverySeries::starting_at(self.started),
            offered: DeliverySeries::starting_at(self.started),
            messages: Vec::new(),
            datagrams: None,
            path_events: Vec::new(),
            handshake: self.handshake,
            fct: None,
            rate_limit_bps: self.pacers.as_ref().map(|pacers| pacers.rate_bps),
            mptcp_counters: None,
            streams: Vec::new(),
            samples: Vec::new(),
            samples_thinned_by: 1,
            completed: false,
            errors: Vec::new(),
        }
    }

    /// If this end limits the rate, blocks are small enough that the last ones do not outlast the test. A server limits
    /// the memory of all blocks of a test.
    pub(super) fn block_bytes(&self, asked: u32, streams: u32) -> u32 {
        let most = match self.side {
            Side::Client => asked,
            Side::Server => MAX_SERVER_BLOCKS_BYTES / streams.max(1),
        };
        let asked = asked.min(most);
        let share = self.pacers.as_ref().map(|pacers| pacers.rate_bps / u64::from(streams.max(1)));
        payload_bytes_per_block(asked, share) as u32 + HEADER_BYTES as u32
    }

    pub(super) const fn sends_as(&self) -> Direction {
        match self.side {
            Side::Client => Direction::Upload,
            Side::Server => Direction::Download,
        }
    }

    pub(super) fn receives_as(&self) -> Direction {
        if self.sends_as() == Direction::Upload { Direction::Download } else { Direction::Upload }
    }
}
