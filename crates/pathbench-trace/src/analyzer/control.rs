//! Handshakes, joins and signals.

use super::connection::{Kind, MptcpConnection};
use super::segment::full;
use super::sequence::Sequence;
use super::{Analyzer, WITHOUT_HANDSHAKE};
use crate::mptcp::data::{DataDirection, FARTHEST};
use crate::mptcp::keys::{self, Key};
use crate::mptcp::options::{self, Capable, DataSequenceSignal, Join, Mapping, MptcpOption};
use crate::mptcp::signal::Signal;
use crate::packet::Tcp;
use crate::packet::tcp_options::{TcpOption, nop_count, options};
use crate::tcp::{ACK, SYN};
use pathbench_record::trace::HandshakeEvidence;

/// An erased MPTCP option of a SYN/ACK leaves at least its 12 bytes as NOPs.
const NOPS_OF_AN_ERASED_OPTION: usize = 8;

/// Key and nonce of an end of a join.
type Secret = (Key, u32);

/// The token of an `MP_JOIN` in a SYN.
pub(super) fn join_request(tcp: &Tcp<'_>) -> Option<u32> {
    if tcp.flags & (SYN | ACK) != SYN {
        return None;
    }
    mptcp_options(tcp).find_map(|option| match option {
        MptcpOption::Join(Join::Syn { token, .. }) => Some(token),
        _ => None,
    })
}

fn mptcp_options<'a>(tcp: &Tcp<'a>) -> impl Iterator<Item = MptcpOption> + 'a {
    let (syn, ack) = (tcp.flags & SYN != 0, tcp.flags & ACK != 0);
    options(tcp.options).filter_map(move |option| match option {
        TcpOption::Mptcp(bytes) => Some(options::parse(bytes, syn, ack)),
        _ => None,
    })
}

impl<S: Sequence> Analyzer<S> {
    /// A SYN or SYN/ACK: the options of TCP, and whether those of MPTCP are missing.
    pub(super) fn syn(&mut self, flow: u32, side: usize, tcp: &Tcp<'_>, time_ns: u64) {
        for option in options(tcp.options) {
            if let TcpOption::Mss(mss) = option {
                self.flows[flow as usize].flow.directions[side].mss = Some(mss);
            }
        }
        let index = self.flows[flow as usize].connection as usize;
        let connection = &mut self.connections[index];
        if tcp.flags & ACK != 0
            && connection.offered.is_some()
            && connection.mptcp.as_ref().is_none_or(|mptcp| mptcp.version.is_none())
            && mptcp_options(tcp).next().is_none()
        {
            let erased = nop_count(tcp.options) >= NOPS_OF_AN_ERASED_OPTION;
            let reason = if erased { "option-overwritten" } else { "peer-declined" };
            connection.fallback.get_or_insert((time_ns, reason));
        }
    }

    /// Any MPTCP option but a DSS.
    pub(super) fn control_option(
        &mut self,
        flow: u32,
        side: usize,
        tcp: &Tcp<'_>,
        option: &MptcpOption,
        time_ns: u64,
    ) {
        match option {
            MptcpOption::Capable(capable) => self.capable(flow, side, tcp, capable, time_ns),
            MptcpOption::Join(join) => self.join(flow, side, join),
            MptcpOption::Dss(_) => {}
            other => self.other_signal(flow, side, other, time_ns),
        }
    }

    fn capable(&mut self, flow: u32, side: usize, tcp: &Tcp<'_>, capable: &Capable, time_ns: u64) {
        let subflow = &self.flows[flow as usize];
        let sender = subflow.connection_side(side);
        let index = subflow.connection;
        let connection = &mut self.connections[index as usize];
        if tcp.flags & (SYN | ACK) == SYN {
            connection.offered = Some(capable.version);
            // Version 0 has the client's key in the SYN.
            if let Some(key) = capable.sender_key {
                connection.mptcp.get_or_insert_default();
                self.learn_key(index, sender, capable.version, Key(key));
            }
            return;
        }
        let mptcp = connection.mptcp.get_or_insert_default();
        mptcp.version = Some(capable.version);
        mptcp.checksum[sender] |= capable.checksum;
        if let Some(key) = capable.sender_key {
            self.learn_key(index, sender, capable.version, Key(key));
        }
        if let Some(key) = capable.receiver_key {
            self.learn_key(index, 1 - sender, capable.version, Key(key));
        }
        if let Some((length, checksum)) = capable.data {
            // The first mapping, implied (RFC 8684, section 3.1): data sequence number IDSN + 1.
            let mptcp = &self.connections[index as usize].mptcp;
            let key = mptcp.as_ref().and_then(|mptcp| mptcp.keys[sender]);
            if let Some(key) = key {
                let initial = keys::initial_data_sequence(capable.version, key);
                let mapping = Mapping {
                    data_sequence: options::DataSequence::Full(initial.wrapping_add(1)),
                    subflow_sequence: 1,
                    length,
                    checksum,
                };
                let signal = DataSequenceSignal { data_ack: None, mapping: Some(mapping), data_fin: false };
                self.signal(flow, side, tcp, &signal, time_ns);
            }
        }
    }

    fn learn_key(&mut self, connection: u32, side: usize, version: u8, key: Key) {
        let state = &mut self.connections[connection as usize];
        let Some(mptcp) = &mut state.mptcp else { return };
        if mptcp.keys[side].is_some() {
            return;
        }
        mptcp.keys[side] = Some(key);
        if mptcp.data[side].is_unused() {
            let initial = keys::initial_data_sequence(version, key);
            mptcp.data[side] = DataDirection::with_initial_sequence(initial);
        }
        if mptcp.keys.iter().all(Option::is_some) {
            state.handshake = HandshakeEvidence::Captured;
        }
        self.learn_token(connection, side, keys::token(version, key));
    }

    fn learn_token(&mut self, connection: u32, side: usize, token: u32) {
        if let Some(mptcp) = &mut self.connections[connection as usize].mptcp {
            mptcp.tokens[side] = Some(token);
            self.tokens.insert(token, (connection, side));
        }
    }

    /// A connection whose first packet in the capture is a join: the token is the receiver's.
    pub(super) fn begin_from_join(&mut self, connection: u32, token: u32) {
        let state = &mut self.connections[connection as usize];
        state.handshake = HandshakeEvidence::Token;
        state.mptcp = Some(Box::new(MptcpConnection::default()));
        self.without_handshake(connection);
        self.learn_token(connection, 1, token);
    }

    fn join(&mut self, flow: u32, side: usize, join: &Join) {
        let subflow = &mut self.flows[flow as usize];
        let turned = subflow.turned;
        let state = subflow.mptcp.get_or_insert_default();
        match join {
            Join::Syn { backup, address_id, nonce, .. } => {
                state.address_ids[side] = Some(*address_id);
                state.backup = Some(*backup);
                state.nonces[side] = Some(*nonce);
            }
            Join::SynAck { backup, address_id, nonce, hmac } => {
                state.address_ids[side] = Some(*address_id);
                state.backup = Some(state.backup.unwrap_or(false) || *backup);
                state.nonces[side] = Some(*nonce);
                let sender = side ^ usize::from(turned);
                let expected =
                    self.join_secrets(flow, side, sender).map(|(version, responder, initiator)| {
                        keys::join_syn_ack_hmac(version, initiator, responder)
                    });
                self.authenticate(flow, expected.map(|expected| expected == *hmac));
            }
            Join::Ack { hmac } => {
                let sender = side ^ usize::from(turned);
                let expected =
                    self.join_secrets(flow, side, sender).map(|(version, initiator, responder)| {
                        keys::join_ack_hmac(version, initiator, responder)
                    });
                self.authenticate(flow, expected.map(|expected| expected == *hmac));
            }
        }
    }

    /// The version, and key and nonce of a join's end `side` and of its peer.
    fn join_secrets(&self, flow: u32, side: usize, sender: usize) -> Option<(u8, Secret, Secret)> {
        let subflow = &self.flows[flow as usize];
        let mptcp = self.connections[subflow.connection as usize].mptcp.as_ref()?;
        let nonces = &subflow.mptcp.as_ref()?.nonces;
        let own = (mptcp.keys[sender]?, nonces[side]?);
        let peer = (mptcp.keys[1 - sender]?, nonces[1 - side]?);
        Some((mptcp.version?, own, peer))
    }

    fn authenticate(&mut self, flow: u32, right: Option<bool>) {
        if let (Some(right), Some(state)) = (right, &mut self.flows[flow as usize].mptcp) {
            state.authenticated = Some(state.authenticated.unwrap_or(true) && right);
        }
    }

    fn other_signal(&mut self, flow: u32, side: usize, option: &MptcpOption, time_ns: u64) {
        let subflow = &mut self.flows[flow as usize];
        let sender = subflow.connection_side(side);
        match option {
            MptcpOption::Reset { reason, .. } => {
                subflow.mptcp.get_or_insert_default().reset_reason = Some(*reason);
            }
            MptcpOption::Priority { backup, .. } => {
                subflow.mptcp.get_or_insert_default().backup = Some(*backup);
            }
            _ => {}
        }
        let Some(signal) = Signal::from_option(option, time_ns, sender, subflow.ordinal) else { return };
        let connection = &mut self.connections[subflow.connection as usize];
        let failed = matches!(option, MptcpOption::Fail { .. });
        // With other subflows, a failed checksum closes one subflow; on the only one it ends MPTCP (section 3.7).
        if failed && connection.members.len() == 1 {
            connection.fallback.get_or_insert((time_ns, "mp-fail"));
        }
        if let Some(mptcp) = &mut connection.mptcp {
            mptcp.signal(signal);
        }
    }

    /// A DSS on a flow whose connection is not known to be MPTCP: its handshake is not in the capture.
    pub(super) fn begin_without_handshake(
        &mut self,
        flow: u32,
        side: usize,
        signal: &DataSequenceSignal,
        time_ns: u64,
    ) {
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
        state.mptcp = Some(Box::new(MptcpConnection::default()));
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
        if let Some(mptcp) = left.mptcp {
            for (side, token) in mptcp.tokens.into_iter().enumerate() {
                if let Some(token) = token {
                    self.learn_token(connection, side ^ usize::from(turned), token);
                }
            }
        }
        self.add_member(connection, flow, turned, kind);
    }
}
