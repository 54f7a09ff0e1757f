//! Handshakes, joins and signals.

use super::sequence::Sequence;
use super::state::Analyzer;
use crate::mptcp::data::DataLevelDirection;
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
            mptcp.data[side] = DataLevelDirection::with_initial_sequence(initial);
        }
        if mptcp.keys.iter().all(Option::is_some) {
            state.handshake = HandshakeEvidence::Captured;
        }
        self.learn_token(connection, side, keys::token(version, key));
    }

    fn join(&mut self, flow: u32, side: usize, join: &Join) {
        let state = self.flows[flow as usize].mptcp.get_or_insert_default();
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
                let expected = self.join_secrets(flow, side).map(|(version, responder, initiator)| {
                    keys::join_syn_ack_hmac(version, initiator, responder)
                });
                self.authenticate(flow, expected.map(|expected| expected == *hmac));
            }
            Join::Ack { hmac } => {
                let expected = self.join_secrets(flow, side).map(|(version, initiator, responder)| {
                    keys::join_ack_hmac(version, initiator, responder)
                });
                self.authenticate(flow, expected.map(|expected| expected == *hmac));
            }
        }
    }

    /// The version, and key and nonce of a join's end `side` and of its peer.
    fn join_secrets(&self, flow: u32, side: usize) -> Option<(u8, Secret, Secret)> {
        let subflow = &self.flows[flow as usize];
        let sender = subflow.connection_side(side);
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
            mptcp.fast_closed |= matches!(option, MptcpOption::FastClose { .. });
            mptcp.signal(signal);
        }
    }
}
