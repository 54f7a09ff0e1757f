//! The analysis of one segment of a known flow.

use super::connection::{Closing, Kind, Subflow};
use super::sequence::{SegmentKind, Sequence, TracedSegment};
use super::state::{Analyzer, LINGER_NS, LINGER_SEVERAL_NS};
use crate::capture::Frame;
use crate::mptcp::data::Carried;
use crate::mptcp::options::{self, MptcpOption};
use crate::packet::tcp_options::{TcpOption, behind_timestamps, options};
use crate::packet::{PacketHeaders, Tcp};
use crate::tcp::{ACK, Arrival, FIN, RST, Receipt, SYN};

impl<S: Sequence> Analyzer<S> {
    /// Whether the segment belongs to the connection, and is no copy.
    #[inline]
    pub(super) fn segment(
        &mut self,
        flow: u32,
        frame: &Frame<'_>,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
    ) -> bool {
        let time_ns = frame.time_ns;
        let subflow = &mut self.flows[flow as usize];
        let side = subflow.flow.side(packet.source);
        let receipt = subflow.flow.packet(side, packet, tcp, time_ns);
        let connection = subflow.connection;
        self.connections[connection as usize].last_ns = time_ns;
        let Receipt::Taken(arrival) = receipt else {
            self.left_out(flow, side, frame, receipt);
            return false;
        };
        if let Some(arrival) = &arrival {
            self.totals.payload_bytes += arrival.end - arrival.start;
        }
        if tcp.flags & SYN != 0 {
            self.syn(flow, side, tcp, time_ns);
        }
        let mut mptcp = false;
        for option in options(behind_timestamps(tcp.options)) {
            match option {
                TcpOption::Mptcp(bytes) => {
                    mptcp = true;
                    let option = options::parse(bytes, tcp.flags & SYN != 0, tcp.flags & ACK != 0);
                    match &option {
                        MptcpOption::Dss(signal) => self.signal(flow, side, tcp, signal, time_ns),
                        _ => self.control_option(flow, side, tcp, &option, time_ns),
                    }
                }
                TcpOption::Sack(_) => self.flows[flow as usize].flow.directions[side].sack_blocks += 1,
                _ => {}
            }
        }
        self.checksum(flow, side, tcp);
        let carried = match &arrival {
            Some(arrival) => self.data(flow, side, arrival, mptcp, time_ns),
            None => None,
        };
        self.note(flow, side, packet, tcp, (arrival.as_ref(), carried));
        if S::ACTIVE {
            let kind = kind(arrival.as_ref(), carried);
            self.record(flow, side, frame, kind, arrival.as_ref(), carried);
        }
        if tcp.flags & (FIN | RST) != 0 {
            self.may_close(flow);
        }
        true
    }

    /// A copy, or a segment outside the window.
    #[cold]
    fn left_out(&mut self, flow: u32, side: usize, frame: &Frame<'_>, receipt: Receipt) {
        let is_copy = receipt == Receipt::Copy;
        self.totals.duplicate_packets += u64::from(is_copy);
        if S::ACTIVE {
            let kind = if is_copy { SegmentKind::Copy } else { SegmentKind::OutOfWindow };
            self.record(flow, side, frame, kind, None, None);
        }
    }

    /// The payload of a segment, at the data level.
    #[inline]
    fn data(
        &mut self,
        flow: u32,
        side: usize,
        arrival: &Arrival,
        mptcp_option: bool,
        time_ns: u64,
    ) -> Option<Carried> {
        let subflow = &mut self.flows[flow as usize];
        let connection = &mut self.connections[subflow.connection as usize];
        let start_ns = connection.first_ns;
        let Some(mptcp) = connection.mptcp.as_mut().filter(|_| connection.fallback.is_none()) else {
            subflow.plain_data(side, arrival.new, time_ns, start_ns);
            return None;
        };
        // Payload that the subflow carried before is a retransmission, and no matter of the data level.
        let (start, end) = arrival.new_part()?;
        let ordinal = subflow.ordinal;
        let sender = subflow.connection_side(side);
        let Subflow { flow: tcp_flow, mptcp: state, kind, .. } = subflow;
        let state = state.get_or_insert_default();
        let initial = *kind == Kind::Initial && connection.members.len() == 1;
        if !mptcp_option && initial && !state.dss_captured[side] && !state.dss_captured[1 - side] {
            // RFC 8684, section 3.7: data of the first subflow without a DSS are plain TCP from then on.
            connection.fallback = Some((time_ns, "no-dss"));
            subflow.plain_data(side, arrival.new, time_ns, start_ns);
            return None;
        }
        let data = &mut mptcp.data[sender];
        let mut sum = Carried::default();
        state.mappings[side].resolve(start, end, time_ns, |range| {
            let carried = data.carry(ordinal, range, time_ns, start_ns);
            sum.add(carried);
        });
        state.reinjected_bytes[side] += sum.again;
        tcp_flow.directions[side].new_data(sum.new, time_ns, start_ns);
        Some(sum)
    }

    /// The payload that the checksums of its mappings cover.
    #[inline]
    fn checksum(&mut self, flow: u32, side: usize, tcp: &Tcp<'_>) {
        let Subflow { flow, mptcp: Some(state), .. } = &mut self.flows[flow as usize] else { return };
        if let (Some(checksums), Some(initial)) =
            (&mut state.checksums[side], flow.directions[side].initial_sequence())
        {
            checksums.payload(tcp.sequence.wrapping_sub(initial), tcp.payload);
        }
    }

    fn may_close(&mut self, flow: u32) {
        let index = self.flows[flow as usize].connection;
        let connection = &mut self.connections[index as usize];
        if connection.closing == Closing::Ends
            || !connection.members.iter().all(|member| self.flows[*member as usize].flow.closed())
        {
            return;
        }
        let id = connection.id;
        if !connection.may_be_joined() {
            connection.closing = Closing::Ends;
            let linger_ns = if self.several.is_some() { LINGER_SEVERAL_NS } else { LINGER_NS };
            self.closed.push_back((self.last_ns.saturating_add(linger_ns), index, id));
        } else if connection.closing == Closing::No {
            connection.closing = Closing::AwaitsJoin;
            self.await_join(index, id);
        }
    }

    /// Reports the segment to the sequence.
    fn record(
        &mut self,
        flow: u32,
        side: usize,
        frame: &Frame<'_>,
        kind: SegmentKind,
        arrival: Option<&Arrival>,
        carried: Option<Carried>,
    ) {
        let subflow = &self.flows[flow as usize];
        let connection = &self.connections[subflow.connection as usize];
        let sender = subflow.connection_side(side);
        let peer = &subflow.flow.directions[1 - side];
        let data = connection.mptcp.as_ref().map(|mptcp| &mptcp.data);
        self.sequence.segment(
            frame,
            &TracedSegment {
                capture: subflow.capture,
                connection: connection.id,
                subflow: subflow.ordinal,
                sender,
                time_ns: frame.time_ns,
                kind,
                retransmitted: arrival.map_or(0, Arrival::retransmitted),
                range: arrival.map(|arrival| (arrival.start, arrival.end)),
                acknowledged: peer.acknowledged,
                data_acknowledged: data.map(|data| data[1 - sender].acknowledged),
                data_range: carried
                    .map(|carried| (carried.start, carried.start + carried.new + carried.again)),
            },
        );
    }
}

fn kind(arrival: Option<&Arrival>, carried: Option<Carried>) -> SegmentKind {
    match (arrival, carried) {
        (None, _) => SegmentKind::Control,
        (Some(arrival), _) if arrival.new == 0 => SegmentKind::Retransmission,
        (_, Some(carried)) if carried.again > 0 => SegmentKind::Reinjection,
        (Some(arrival), _) if arrival.start < arrival.expected => SegmentKind::OutOfOrder,
        _ => SegmentKind::Data,
    }
}

impl Subflow {
    /// Data without a mapping.
    #[inline]
    fn plain_data(&mut self, side: usize, bytes: u64, time_ns: u64, start_ns: u64) {
        self.plain_bytes[side] += bytes;
        self.flow.directions[side].new_data(bytes, time_ns, start_ns);
    }
}

impl Arrival {
    /// The part that was not captured before; the whole range where that is not one part.
    #[inline]
    fn new_part(&self) -> Option<(u64, u64)> {
        if self.new == 0 {
            None
        } else if self.new == self.end - self.start || self.end - self.expected.min(self.end) != self.new {
            Some((self.start, self.end))
        } else {
            Some((self.expected, self.end))
        }
    }
}
