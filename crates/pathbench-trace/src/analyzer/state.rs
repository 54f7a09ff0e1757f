//! The live state of an analysis: captures, flows, connections, and how to find them.

use super::compared::Several;
use super::connection::{Connection, Kind, Subflow};
use super::counts::Counts;
use super::evidence::MOST_LIVE_FRAMES;
use super::kept::Kept;
use super::sequence::Sequence;
use super::table::{FlowKey, Table};
use crate::packet::reassembly::Reassembly;
use crate::quic::Quic;
use pathbench_record::trace::TraceTotals;
use std::collections::{HashMap, VecDeque};

/// Capture time for which a closed connection is kept: its last retransmissions belong to it.
pub(super) const LINGER_NS: u64 = 3_000_000_000;
/// The same with several captures, whose clocks may differ.
pub(super) const LINGER_SEVERAL_NS: u64 = 30_000_000_000;

/// Most MPTCP connections without an open subflow that are kept for a join; the one that closed first is ended.
pub(super) const AWAITING_JOIN: usize = 4_096;

/// Parameters of an analysis.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnalysisParameters {
    /// Connections whose details the result has: those with the most payload.
    pub most: usize,
    /// Seed of the flow table.
    pub seed: u64,
}

/// The analysis of one or more captures, fed in order of time.
pub struct Analyzer<S: Sequence = ()> {
    /// With several captures.
    pub(super) several: Option<Box<Several>>,
    pub(super) table: Table,
    pub(super) flows: Vec<Subflow>,
    pub(super) free_flows: Vec<u32>,
    pub(super) connections: Vec<Connection>,
    pub(super) free_connections: Vec<u32>,
    pub(super) live_flows: usize,
    /// Where the next search for idle connections begins.
    pub(super) hand: usize,
    /// Closed connections, and the time at which each ends.
    pub(super) closed: VecDeque<(u64, u32, u64)>,
    /// Connections without an open subflow that a join may name, by index and id.
    pub(super) awaiting_join: VecDeque<(u32, u64)>,
    /// From a token to the connection and the side whose key has it.
    pub(super) tokens: HashMap<u32, (u32, usize)>,
    /// Flows with MPTCP and no first handshake.
    pub(super) without_handshake: VecDeque<u32>,
    pub(super) reassembly: Reassembly,
    pub(super) quic: Quic,
    pub(super) counts: Vec<Counts>,
    pub(super) origin_ns: Option<u64>,
    pub(super) last_ns: u64,
    pub(super) next_id: u64,
    pub(super) totals: TraceTotals,
    pub(super) kept: Kept,
    pub(super) sequence: S,
    pub(super) lookups: Vec<Lookup>,
    /// Number of the current frame in its capture, from 1.
    pub(super) frame: u64,
    /// Frame numbers that may still be kept for findings.
    pub(super) frames_left: usize,
}

/// A packet of a batch after the first stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup {
    pub(super) key: FlowKey,
    pub(super) hash: u64,
    pub(super) flow: Option<u32>,
    /// Number of the packet in its capture, from 1.
    pub(super) frame: u64,
}

impl<S: Sequence> Analyzer<S> {
    /// Compares flows between captures if there are several.
    pub fn new(parameters: &AnalysisParameters, captures: usize, quic: Quic, sequence: S) -> Self {
        Self {
            table: Table::new(parameters.seed),
            counts: vec![Counts::default(); captures.max(1)],
            kept: Kept::new(parameters.most),
            flows: Vec::new(),
            free_flows: Vec::new(),
            connections: Vec::new(),
            free_connections: Vec::new(),
            live_flows: 0,
            hand: 0,
            closed: VecDeque::new(),
            awaiting_join: VecDeque::new(),
            tokens: HashMap::new(),
            without_handshake: VecDeque::new(),
            reassembly: Reassembly::default(),
            origin_ns: None,
            last_ns: 0,
            next_id: 0,
            totals: TraceTotals::default(),
            lookups: Vec::new(),
            frame: 0,
            frames_left: MOST_LIVE_FRAMES,
            several: (captures > 1).then(Box::default),
            quic,
            sequence,
        }
    }

    /// The packets are in no file, so that no frame has a number.
    pub(crate) fn without_frame_numbers(mut self) -> Self {
        self.frames_left = 0;
        self
    }

    /// The capture `next` began when `first` had ended: it is the next file of the same point of capture.
    pub(super) fn continues(&self, first: u32, next: u32) -> bool {
        let (first, next) = (&self.counts[first as usize], &self.counts[next as usize]);
        first.ended && next.first_ns.is_some_and(|first_ns| first_ns >= first.last_ns)
    }

    #[inline]
    pub(super) fn find(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        self.table.get(hash, |flow| self.flows[flow as usize].has(key))
    }

    pub(super) fn enter(&mut self, key: &FlowKey, flow: u32) {
        let Self { table, flows, .. } = self;
        table.insert(table.hash(key), flow, |flow| flows[flow as usize].has(key));
    }

    pub(super) fn add_member(&mut self, connection: u32, flow: u32, turned: bool, kind: Kind) {
        let Connection { members, first_ns, .. } = &mut self.connections[connection as usize];
        let ordinal = members.len() as u32;
        members.push(flow);
        let subflow = &mut self.flows[flow as usize];
        subflow.connection = connection;
        subflow.ordinal = ordinal;
        subflow.turned = turned;
        subflow.kind = kind;
        subflow.flow.origin_ns = *first_ns;
    }
}
