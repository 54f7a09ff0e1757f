//! Data sequence signals (DSS): mappings, data acknowledgments, and connections whose handshake was not captured.

use super::connection::{Connection, Kind, MptcpSubflow, Subflow};
use super::sequence::Sequence;
use super::state::Analyzer;
use crate::mptcp::data::FARTHEST;
use crate::mptcp::mapping::Range;
use crate::mptcp::options::{DataSequence, DataSequenceSignal, Mapping};
use crate::packet::Tcp;
use crate::tcp::{FlowDirection, nearest_position};
use pathbench_record::trace::HandshakeEvidence;

/// Flows without a first handshake among which a data sequence number is searched.
const WITHOUT_HANDSHAKE: usize = 256;

impl<S: Sequence> Analyzer<S> {
    /// A DSS option (RFC 8684, section 3.3).
    #[inline]
    pub(super) fn signal(
        &mut self,
        flow: u32,
        side: usize,
        tcp: &Tcp<'_>,
        signal: &DataSequenceSignal,
        time_ns: u64,
    ) {
        let connection = self.flows[flow as usize].connection;
        if self.connections[connection as usize].lacks_data_sequence() {
            self.begin_without_handshake(flow, side, signal, time_ns);
        }
        if let Some(acknowledgment) = signal.data_ack {
            self.acknowledge_data(flow, side, acknowledgment);
        }
        let subflow = &mut self.flows[flow as usize];
        subflow.mptcp.get_or_insert_default().dss_captured[side] = true;
        if let Some(mapping) = &signal.mapping {
            self.map(flow, side, tcp, mapping, signal.data_fin, time_ns);
        }
    }

    #[inline]
    fn acknowledge_data(&mut self, flow: u32, side: usize, acknowledgment: DataSequence) {
        let Self { flows, connections, .. } = self;
        let subflow = &flows[flow as usize];
        let sender = subflow.connection_side(side);
        let Connection { mptcp: Some(mptcp), members, .. } = &mut connections[subflow.connection as usize]
        else {
            return;
        };
        let data = &mut mptcp.data[1 - sender];
        let Some(position) = data.position(acknowledgment) else { return };
        data.acknowledge(position, |ordinal| {
            let Some(&member) = members.get(ordinal as usize) else { return 0 };
            let subflow = &flows[member as usize];
            let from = usize::from(subflow.connection_side(0) == sender);
            subflow.flow.directions[from].acknowledged
        });
    }

    /// A mapping, and the payload that has waited for it.
    #[inline]
    fn map(
        &mut self,
        flow: u32,
        side: usize,
        tcp: &Tcp<'_>,
        mapping: &Mapping,
        data_fin: bool,
        time_ns: u64,
    ) {
        let Self { flows, connections, .. } = self;
        let subflow = &mut flows[flow as usize];
        let (ordinal, sender) = (subflow.ordinal, subflow.connection_side(side));
        let Connection { mptcp: Some(mptcp), first_ns, fallback, .. } =
            &mut connections[subflow.connection as usize]
        else {
            return;
        };
        if mapping.length == 0 {
            fallback.get_or_insert((time_ns, "infinite-mapping"));
            return;
        }
        let data = &mut mptcp.data[sender];
        let Some(position) = data.position(mapping.data_sequence) else { return };
        let length = u64::from(mapping.length) - u64::from(data_fin);
        if data_fin {
            data.data_fin.get_or_insert(position + length);
        }
        let Subflow { flow: tcp_flow, mptcp: state, .. } = subflow;
        let (state, direction) = (state.get_or_insert_default(), &mut tcp_flow.directions[side]);
        if let (Some(checksum), true) = (mapping.checksum, mptcp.checksum.iter().any(|required| *required)) {
            let sequence = data.sequence(position);
            let checksums = state.checksums[side].get_or_insert_default();
            checksums.mapping(sequence, mapping.subflow_sequence, mapping.length, checksum, data_fin);
        }
        if length == 0 {
            return;
        }
        let start = state.mapping_start(side, direction, tcp, mapping);
        let end = start.saturating_add(length);
        let new = state.mappings[side].add(Range { start, end, data: position });
        if new && state.mappings[side].is_waiting() {
            let mut reinjected = 0;
            state.mappings[side].resolve_waiting(|range, at_ns| {
                let carried = data.carry(ordinal, range, at_ns, *first_ns);
                reinjected += carried.again;
                direction.new_data(carried.new, at_ns, *first_ns);
            });
            state.reinjected_bytes[side] += reinjected;
        }
    }

    /// A connection whose first packet in the capture is a join: the token is the receiver's.
    pub(super) fn begin_from_join(&mut self, connection: u32, token: u32) {
        let state = &mut self.connections[connection as usize];
        state.handshake = HandshakeEvidence::Token;
        state.mptcp.get_or_insert_default();
        self.without_handshake(connection);
        self.learn_token(connection, 1, token);
    }

    pub(super) fn learn_token(&mut self, connection: u32, side: usize, token: u32) {
        if let Some(mptcp) = &mut self.connections[connection as usize].mptcp {
            mptcp.tokens[side] = Some(token);
            self.tokens.insert(token, (connection, side));
        }
    }

    /// A DSS on a flow whose connection is not known to be MPTCP: its handshake is not in the capture.
    fn begin_without_handshake(&mut self, flow: u32, side: usize, signal: &DataSequenceSignal, time_ns: u64) {
        let connection = self.flows[flow as usize].connection;
        let alone = self.connections[connection as usize].members.len() == 1;
        if let Some((other, turned)) = self.near(flow, side, signal).filter(|_| alone) {
            self.move_flow(flow, other, turned);
            return;
        }
        let state = &mut self.connections[connection as usize];
        if state.fallback.is_some() || state.mptcp.is_some() {
            return;
        }
        state.mptcp.get_or_insert_default();
        state.first_ns = state.first_ns.min(time_ns);
        self.without_handshake(connection);
    }

    fn without_handshake(&mut self, connection: u32) {
        if self.without_handshake.len() == WITHOUT_HANDSHAKE {
            self.without_handshake.pop_front();
        }
        self.without_handshake.push_back(connection);
    }

    /// A connection without a first handshake whose data are near those of a DSS (data sequence numbers are random values
    /// of 64 bits), and whether the flow's ends are exchanged in it.
    fn near(&self, flow: u32, side: usize, signal: &DataSequenceSignal) -> Option<(u32, bool)> {
        let own = self.flows[flow as usize].connection;
        let sent = signal.mapping.and_then(|mapping| full(mapping.data_sequence));
        let acknowledged = signal.data_ack.and_then(full);
        self.without_handshake.iter().filter(|other| **other != own).find_map(|&other| {
            let mptcp = self.connections[other as usize].mptcp.as_ref()?;
            [false, true].into_iter().find_map(|turned| {
                let sender = side ^ usize::from(turned);
                let near = |value: Option<u64>, side: usize| {
                    value
                        .and_then(|value| mptcp.data[side].distance(value))
                        .is_some_and(|distance| distance <= FARTHEST)
                };
                (near(sent, sender) || near(acknowledged, 1 - sender)).then_some((other, turned))
            })
        })
    }

    /// Moves a flow that is alone in its connection to another connection.
    fn move_flow(&mut self, flow: u32, connection: u32, turned: bool) {
        let old = self.flows[flow as usize].connection;
        let left = std::mem::take(&mut self.connections[old as usize]);
        self.free_connections.push(old);
        self.without_handshake.retain(|other| *other != old);
        let target = &mut self.connections[connection as usize];
        target.first_ns = target.first_ns.min(left.first_ns);
        if left.handshake == HandshakeEvidence::Token {
            target.handshake = HandshakeEvidence::Token;
        } else if target.handshake == HandshakeEvidence::Missing {
            target.handshake = HandshakeEvidence::Guessed;
        }
        let kind = if left.mptcp.is_some() { Kind::Join } else { Kind::Guessed };
        let tokens = left.mptcp.map_or([None; 2], |mptcp| mptcp.tokens);
        for (side, token) in tokens.into_iter().enumerate() {
            if let Some(token) = token {
                self.learn_token(connection, side ^ usize::from(turned), token);
            }
        }
        self.add_member(connection, flow, turned, kind);
    }
}

impl MptcpSubflow {
    /// Position of a mapping's first byte on the subflow.
    ///
    /// Without the SYN, the initial sequence number is not known. No segment precedes the mapping that it carries, so
    /// the lowest difference of sequence number and mapping is the nearest estimate.
    #[inline]
    fn mapping_start(
        &mut self,
        side: usize,
        direction: &FlowDirection,
        tcp: &Tcp<'_>,
        mapping: &Mapping,
    ) -> u64 {
        if direction.syn_captured {
            return nearest_position(mapping.subflow_sequence, direction.next);
        }
        let here = direction.position(tcp.sequence);
        let origin = here.wrapping_sub(u64::from(mapping.subflow_sequence));
        let assumed = self.assumed_origin[side].get_or_insert(origin);
        *assumed = (*assumed).min(origin);
        assumed.wrapping_add(u64::from(mapping.subflow_sequence))
    }
}

/// The data sequence number of an option in full, if it is.
fn full(sequence: DataSequence) -> Option<u64> {
    match sequence {
        DataSequence::Full(full) => Some(full),
        DataSequence::Short(_) => None,
    }
}
