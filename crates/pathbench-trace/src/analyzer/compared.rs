//! The state of flows that several captures contain.

use super::counts::Counts;
use super::evidence::Evidence;
use super::table::FlowKey;
use crate::comparison::{CaptureSpan, Clocks, FlowComparison};
use crate::mptcp::options::{self, Join, MptcpOption};
use crate::packet::tcp_options::{TcpOption, options};
use crate::packet::{FlowEndpoint, PacketHeaders, Tcp};
use crate::tcp::Flow;
use std::collections::{HashMap, VecDeque};

/// Fields of a SYN that a NAT does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Signature {
    /// Initial sequence number and timestamp value.
    Sequence(u32, Option<u32>),
    /// Token and nonce of an `MP_JOIN`.
    Join(u32, u32),
    /// Key in the `MP_CAPABLE` of version 0.
    Capable(u64),
}

/// State over all flows.
#[derive(Debug, Default)]
pub(super) struct Several {
    /// From a SYN to the flow that began with it, and that flow's number.
    pub(super) signatures: HashMap<Signature, (u32, u64)>,
    pub(super) oldest: VecDeque<Signature>,
    pub(super) flows: u64,
    /// The capture that has the packets of a UDP flow: those of further captures are the same.
    pub(super) datagrams: HashMap<FlowKey, u32>,
    /// From all flows that have ended.
    pub(super) clocks: Clocks,
    /// Ranges that wait, of all flows.
    pub(super) waiting: usize,
}

/// A flow at a second point of capture.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) comparison: FlowComparison,
    /// The flow as the second point has it: figures of a sender are those of the point nearer to it.
    pub(super) flow: Flow,
    /// Frames of the second point that show findings.
    pub(super) evidence: Evidence,
    /// Number of the flow: indices are used again.
    pub(super) number: u64,
    /// Capture of the second point.
    pub(super) second: Option<u32>,
    /// The ends at the second point, where a NAT has changed them.
    pub(super) translated: Option<[FlowEndpoint; 2]>,
    /// Time of the first packet of each point's capture, and the start of its first file.
    pub(super) first_ns: [Option<u64>; 2],
}

impl Compared {
    pub(super) fn side(&self, packet: &PacketHeaders<'_>, ends: [FlowEndpoint; 2]) -> usize {
        let client = if self.translated.is_some_and(|translated| translated.contains(&packet.source)) {
            self.translated.map_or(ends[0], |translated| translated[0])
        } else {
            ends[0]
        };
        usize::from(packet.source != client)
    }

    fn span(&mut self, point: usize, counts: Option<&Counts>) -> CaptureSpan {
        let Some(counts) = counts else { return CaptureSpan::default() };
        let first_ns = *self.first_ns[point].get_or_insert(counts.first_ns.unwrap_or(0));
        CaptureSpan { first_ns, last_ns: counts.last_ns, ended: counts.ended }
    }

    pub(super) fn spans(&mut self, first: u32, counts: &[Counts]) -> [CaptureSpan; 2] {
        let second = self.second.map(|second| second as usize);
        [
            self.span(0, counts.get(first as usize)),
            second.map_or(CaptureSpan::default(), |second| self.span(1, counts.get(second))),
        ]
    }

    /// The key of the ends at the second point of capture, behind a NAT.
    pub(super) fn translated_key(&self) -> Option<FlowKey> {
        self.translated.map(|[client, server]| FlowKey::new(client, server))
    }
}

pub(super) fn signatures(tcp: &Tcp<'_>) -> [Option<Signature>; 2] {
    let mut stamp = None;
    let mut multipath = None;
    for option in options(tcp.options) {
        match option {
            TcpOption::Timestamps { value, .. } => stamp = Some(value),
            TcpOption::Mptcp(bytes) => match options::parse(bytes, true, false) {
                MptcpOption::Join(Join::Syn { token, nonce, .. }) => {
                    multipath = Some(Signature::Join(token, nonce));
                }
                MptcpOption::Capable(capable) => multipath = capable.sender_key.map(Signature::Capable),
                _ => {}
            },
            _ => {}
        }
    }
    match multipath {
        // Token and nonce suffice, and the sequence number of the first subflow may be the same.
        Some(Signature::Join(..)) => [multipath, None],
        _ => [Some(Signature::Sequence(tcp.sequence, stamp)), multipath],
    }
}
