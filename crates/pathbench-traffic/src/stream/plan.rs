//! The plan of a test at one end, the same for all its streams.

use crate::pacer::Pacers;
use crate::protocol::HEADER_BYTES;
use crate::throughput::{FAST_FRAME_BYTES, payload_bytes_per_block};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::{Amount, PatternParameters, ThroughputParameters};
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
            response: None,
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
            cpu: None,
            tcp_buffers: None,
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

    /// Length up to which frames may grow: not where this end limits the rate or the user chose the block.
    pub(super) fn largest_frame_bytes(&self, transfer: &ThroughputParameters) -> u32 {
        let skips_copies = transfer.zero_copy || transfer.skip_receive_copy;
        let is_limited = transfer.rate_bps.is_some() || self.pacers.is_some();
        let is_chosen = transfer.block_bytes != ThroughputParameters::DEFAULT_BLOCK_BYTES;
        if !skips_copies || is_limited || is_chosen {
            return 0;
        }
        match self.side {
            Side::Client => FAST_FRAME_BYTES,
            Side::Server => FAST_FRAME_BYTES.min(MAX_SERVER_BLOCKS_BYTES / transfer.streams.max(1)),
        }
    }

    /// Whether receivers may rest: over sockets of the kernel, where the time of the last byte is not the result.
    pub(super) fn permits_rests(&self) -> bool {
        let lasts = |transfer: ThroughputParameters| matches!(transfer.amount, Amount::Duration(_));
        !self.transport.is_quic() && self.parameters.transfer().is_some_and(lasts)
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
