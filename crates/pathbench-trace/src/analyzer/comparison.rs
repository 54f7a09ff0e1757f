//! Flows that several captures contain.

use super::compared::{Compared, signatures};
use super::connection::Subflow;
use super::counts::Counts;
use super::evidence::Shows;
use super::sequence::Sequence;
use super::state::{Analyzer, LINGER_NS};
use super::table::FlowKey;
use crate::capture::Frame;
use crate::comparison::{Clocks, FlowTimes, ObservationContext};
use crate::packet::tcp_options::{TcpOption, options};
use crate::packet::{FlowEndpoint, PacketHeaders, Tcp};
use crate::tcp::{ACK, Flow, Receipt, SYN};
use pathbench_record::trace::SubflowComparison;

/// SYNs by which a flow behind a NAT is recognised.
const SIGNATURES: usize = 65_536;
/// Ranges of all flows that wait for their counterparts. Above, each flow keeps only [`FEW`].
const WAITING: usize = 1 << 20;
const FEW: usize = 256;
/// UDP flows whose capture is known.
const DATAGRAM_FLOWS: usize = 100_000;

impl<S: Sequence> Analyzer<S> {
    /// A UDP flow is analysed at one point of capture.
    #[inline]
    pub(super) fn is_first_point(&mut self, capture: u32, key: FlowKey) -> bool {
        let Some(several) = &mut self.several else { return true };
        if several.datagrams.len() >= DATAGRAM_FLOWS && !several.datagrams.contains_key(&key) {
            return true;
        }
        let first = *several.datagrams.entry(key).or_insert(capture);
        if first != capture && self.continues(first, capture) {
            if let Some(several) = &mut self.several {
                several.datagrams.insert(key, capture);
            }
            return true;
        }
        first == capture
    }

    /// The capture is not that of the flow's first point.
    ///
    /// A capture that begins after the end of the other is its next file, unless it has the handshake again: then the
    /// offset of its clock exceeds its duration.
    #[inline]
    pub(super) fn is_second_point(
        &self,
        flow: u32,
        capture: u32,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
    ) -> bool {
        let first = self.flows[flow as usize].capture;
        first != capture
            && (!self.continues(first, capture) || self.continues_second(flow, capture, packet, tcp))
    }

    /// Whether a capture that may be the next file of a flow's first point is one of its second point.
    fn continues_second(&self, flow: u32, capture: u32, packet: &PacketHeaders<'_>, tcp: &Tcp<'_>) -> bool {
        let Subflow { capture: first, comparison, flow, .. } = &self.flows[flow as usize];
        if tcp.flags & SYN != 0 && flow.handshake_ns[2].is_some() {
            return true;
        }
        let Some(compared) = comparison else { return false };
        match compared.second {
            Some(second) if second == capture => true,
            // The next file of either.
            Some(second) if self.continues(second, capture) => {
                let side = compared.side(packet, flow.ends);
                let hops = [0, 1].map(|point| compared.comparison.hop_limit(side, point));
                let here = hops.map(|hops| hops == Some(packet.hop_limit));
                match here {
                    [true, false] => false,
                    [false, true] => true,
                    // The file behind it in the order of the captures.
                    _ => (second < capture, second) > (*first < capture, *first),
                }
            }
            _ => false,
        }
    }

    /// Whether a SYN at the second point begins another connection of the same ends. A middlebox may have rewritten
    /// the initial sequence number of a connection that has just begun.
    pub(super) fn second_begins_anew(&self, flow: u32, packet: &PacketHeaders<'_>, tcp: &Tcp<'_>) -> bool {
        let subflow = &self.flows[flow as usize];
        let Some(compared) = &subflow.comparison else { return false };
        let side = compared.side(packet, subflow.flow.ends);
        let comparison = &compared.comparison;
        let initial = [0, 1].map(|point| comparison.initial_sequence(side, point));
        if initial.contains(&Some(tcp.sequence)) {
            return false;
        }
        if initial[1].is_some() || initial[0].is_none() || side != 0 {
            return true;
        }
        let stamp = options(tcp.options).find_map(|option| match option {
            TcpOption::Timestamps { value, .. } => Some(value),
            _ => None,
        });
        match (comparison.syn_timestamp(side, 0), stamp) {
            (Some(first), Some(second)) => first != second,
            _ => subflow.flow.closed() || self.last_ns > subflow.flow.first_ns.saturating_add(LINGER_NS),
        }
    }

    /// The flow of another capture whose SYN this is, with other addresses or ports.
    pub(super) fn find_translated(
        &mut self,
        capture: u32,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        key: FlowKey,
    ) -> Option<u32> {
        let several = self.several.as_ref()?;
        if tcp.flags & (SYN | ACK) != SYN {
            return None;
        }
        let found = |signature| several.signatures.get(&signature).copied();
        let (flow, number) = signatures(tcp).into_iter().flatten().find_map(found)?;
        if !self.is_second_point(flow, capture, packet, tcp) {
            return None;
        }
        let subflow = &mut self.flows[flow as usize];
        let compared = subflow.comparison.as_mut()?;
        let ends = [packet.source, packet.destination];
        if compared.number != number || compared.second.is_some() || subflow.flow.ends == ends {
            return None;
        }
        compared.translated = Some(ends);
        self.enter(&key, flow);
        Some(flow)
    }

    pub(super) fn begin_comparison(&mut self, flow: u32, tcp: &Tcp<'_>) {
        let Some(several) = &mut self.several else { return };
        several.flows += 1;
        let number = several.flows;
        self.flows[flow as usize].comparison = Some(Box::new(Compared { number, ..Compared::default() }));
        if tcp.flags & (SYN | ACK) != SYN {
            return;
        }
        for signature in signatures(tcp).into_iter().flatten() {
            if several.signatures.insert(signature, (flow, number)).is_none() {
                several.oldest.push_back(signature);
            }
            if several.oldest.len() > SIGNATURES
                && let Some(oldest) = several.oldest.pop_front()
            {
                several.signatures.remove(&oldest);
            }
        }
    }

    /// A packet of a flow that another capture has already.
    pub(super) fn second_point(
        &mut self,
        flow: u32,
        capture: u32,
        frame: &Frame<'_>,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
    ) {
        let second = self.flows[flow as usize].comparison.as_ref().and_then(|compared| compared.second);
        // Two points are compared; a third is not.
        if second.is_some_and(|second| second != capture && !self.continues(second, capture)) {
            return;
        }
        let Subflow { comparison, flow: first, .. } = &mut self.flows[flow as usize];
        let mut noted = None;
        if let Some(compared) = comparison {
            compared.second = Some(capture);
            let side = compared.side(packet, first.ends);
            if compared.flow.first_ns == 0 {
                compared.flow = Flow {
                    ends: first.ends,
                    first_ns: frame.time_ns,
                    origin_ns: frame.time_ns,
                    ..Flow::default()
                };
            }
            if tcp.flags & SYN != 0 {
                let mss = &mut compared.flow.directions[side].mss;
                *mss = options(tcp.options)
                    .find_map(|option| match option {
                        TcpOption::Mss(bytes) => Some(bytes),
                        _ => None,
                    })
                    .or(*mss);
            }
            let Receipt::Taken(arrival) = compared.flow.packet(side, packet, tcp, frame.time_ns) else {
                return;
            };
            noted = Some((side, arrival));
        }
        if let Some((side, arrival)) = noted {
            self.note_second(flow, (side, capture), packet, tcp, arrival.as_ref());
        }
        self.observe(flow, 1, frame, packet, tcp);
    }

    /// A packet at point 0, the first that had the flow, or at point 1.
    pub(super) fn observe(
        &mut self,
        flow: u32,
        point: usize,
        frame: &Frame<'_>,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
    ) {
        let subflow = &mut self.flows[flow as usize];
        let (Some(compared), Some(several)) = (&mut subflow.comparison, &mut self.several) else { return };
        let mut context = ObservationContext {
            spans: compared.spans(subflow.capture, &self.counts),
            frame: self.frame,
            ..ObservationContext::default()
        };
        if several.waiting > WAITING {
            context.waiting = FEW;
        }
        let side = compared.side(packet, subflow.flow.ends);
        let change = compared.comparison.observe((side, point), frame.time_ns, packet, tcp, &context);
        several.waiting = several.waiting.saturating_add_signed(change);
    }

    /// The flow has ended: its ranges no longer count, and its translated ends are not in the table.
    pub(super) fn end_comparison(&mut self, subflow: &Subflow, flow: u32) {
        let (Some(compared), Some(several)) = (&subflow.comparison, &mut self.several) else { return };
        several.waiting = several.waiting.saturating_sub(compared.comparison.waiting());
        if let Some(key) = compared.translated_key() {
            self.table.remove(self.table.hash(&key), flow);
        }
    }

    /// The comparisons of a connection's subflows.
    pub(super) fn finish_comparisons(
        &mut self,
        members: &mut [Subflow],
    ) -> Vec<Option<FlowComparisonResult>> {
        let Self { several: Some(several), counts, .. } = self else { return Vec::new() };
        members.iter_mut().map(|member| member.finish_comparison(counts, &mut several.clocks)).collect()
    }
}

impl Subflow {
    /// The comparison; the figures and frames of each sender are from then on those of the point nearer to it.
    fn finish_comparison(&mut self, counts: &[Counts], clocks: &mut Clocks) -> Option<FlowComparisonResult> {
        let mut compared = self.comparison.take()?;
        let spans = compared.spans(self.capture, counts);
        let captures = [self.capture, compared.second?];
        let (result, times, frames) = compared.comparison.finish(captures, spans)?;
        clocks.add(&times);
        // By the flow's sender: the point nearer to it.
        let nearer = usize::from(result.client_capture == self.capture);
        let second = &mut compared.flow.directions[nearer];
        second.mss = second.mss.or(self.flow.directions[nearer].mss);
        self.flow.take_sender(nearer, &mut compared.flow);
        let evidence = self.evidence.get_or_insert_default();
        evidence.take_sender(nearer, &mut compared.evidence);
        for (side, capture) in [result.client_capture, result.server_capture].into_iter().enumerate() {
            evidence.extend(Shows::Lost, side, capture, &frames.lost[side]);
            evidence.extend(Shows::Rewritten, side, capture, &frames.rewritten[side]);
        }
        let turned = self.turned;
        let comparison = if turned { exchange_ends(result) } else { result };
        Some(FlowComparisonResult { comparison, times, turned, translated: compared.translated })
    }
}

/// The comparison of a flow at two points of capture.
pub(super) struct FlowComparisonResult {
    /// Without the offset and the delays.
    pub(super) comparison: SubflowComparison,
    pub(super) times: FlowTimes,
    /// The connection's server has sent the SYN.
    pub(super) turned: bool,
    /// The ends at the second point, behind a NAT.
    pub(super) translated: Option<[FlowEndpoint; 2]>,
}

/// The connection's server has sent the SYN of the subflow.
fn exchange_ends(comparison: SubflowComparison) -> SubflowComparison {
    SubflowComparison {
        client_capture: comparison.server_capture,
        server_capture: comparison.client_capture,
        upload: comparison.download,
        download: comparison.upload,
        ..comparison
    }
}
