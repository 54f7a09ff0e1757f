//! The receiver of a flow of datagrams: a bounded log of arrivals.

use crate::meter::Meter;
use pathbench_record::datagram::{DatagramsParameters, LoggedDatagram};
use pathbench_record::time::Timestamp;

/// Arrivals in the log beyond those expected: duplicates made by the network.
const SPARE: usize = 64;

#[derive(Debug, Clone)]
pub struct ReceiverPlan {
    pub parameters: DatagramsParameters,
    /// Whether each path has a flow of its own (udp), so that a copy on another path is no copy.
    pub is_flow_per_path: bool,
}

#[derive(Debug)]
pub struct FlowReceiver {
    parameters: DatagramsParameters,
    is_flow_per_path: bool,
    count: u32,
    /// One bit for each datagram, or for each datagram of each path.
    seen: Vec<u64>,
    pub log: Vec<LoggedDatagram>,
    most_logged: usize,
    pub omitted: u64,
    pub foreign: u64,
    pub meter: Meter,
}

impl FlowReceiver {
    pub fn new(plan: ReceiverPlan, meter: Meter) -> Self {
        let ReceiverPlan { parameters, is_flow_per_path } = plan;
        let count = u32::try_from(parameters.datagrams()).unwrap_or(u32::MAX);
        let expected = u64::from(count).saturating_mul(parameters.paths.into());
        let expected = usize::try_from(expected).unwrap_or(usize::MAX);
        Self {
            seen: vec![0; expected.div_ceil(64)],
            log: Vec::new(),
            most_logged: expected.saturating_add(expected / 8).saturating_add(SPARE),
            omitted: 0,
            foreign: 0,
            count,
            is_flow_per_path,
            meter,
            parameters,
        }
    }

    /// Notes an arrival. A number or a length that this test does not have counts as foreign. Path numbers of quic are
    /// the peer's choice, so only those of udp are checked.
    pub fn receive(&mut self, at: Timestamp, path: u32, sequence: u32, length: usize) {
        let is_known_path = !self.is_flow_per_path || path < self.parameters.paths;
        if sequence >= self.count || !is_known_path || length != self.parameters.size_bytes(sequence) as usize
        {
            self.foreign = self.foreign.saturating_add(1);
            return;
        }
        self.meter.progressed(at);
        if self.log.len() >= self.most_logged {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        self.log.push(LoggedDatagram { sequence, at, path });
        if self.is_first(path, sequence) {
            self.meter.received(at, length as u64);
        }
    }

    /// An arrival beyond the rate limit of this end.
    pub fn omit(&mut self) {
        self.omitted = self.omitted.saturating_add(1);
    }

    pub fn count_foreign(&mut self) {
        self.foreign = self.foreign.saturating_add(1);
    }

    fn is_first(&mut self, path: u32, sequence: u32) -> bool {
        let path = if self.is_flow_per_path { path as usize } else { 0 };
        let bit = path * self.count as usize + sequence as usize;
        let Some(word) = self.seen.get_mut(bit / 64) else { return false };
        let mask = 1_u64 << (bit % 64);
        let is_first = *word & mask == 0;
        *word |= mask;
        is_first
    }
}
