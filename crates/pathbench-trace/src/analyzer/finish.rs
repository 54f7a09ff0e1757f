//! From live state to the result.

use super::comparison::FlowComparisonResult;
use super::connection::{Closing, Connection, MptcpConnection, Subflow};
use super::counts::Counts;
use super::findings;
use super::kept::Aside;
use super::kept_times::KeptTimes;
use super::notes;
use super::sequence::Sequence;
use super::state::{AWAITING_JOIN, Analyzer};
use crate::display_filter::display_filter;
use crate::mptcp::checksum::Checksums;
use crate::mptcp::signal::{Signal, reset_reason};
use crate::packet::FlowEndpoint;
use crate::tcp::{Flow, FlowDirection};
use pathbench_record::time::rfc3339_from_unix;
use pathbench_record::trace::{
    ConnectionDirection, Fallback, SubflowDirection, TooBigMessage, TraceDocument, TracedConnection,
    TracedSignal, TracedSubflow,
};

/// Flows among which an idle connection is searched.
const EXAMINED: usize = 64;
/// Subflows in the display filter of a connection.
const MOST_FILTERED: usize = 64;
/// With several captures, closed connections that are kept until the others have them, too.
const CLOSED_OF_SEVERAL: usize = 16_384;
const NS_PER_S: f64 = 1e9;

/// Seconds from `origin` to `at`.
fn seconds(origin_ns: u64, at_ns: u64) -> f64 {
    at_ns.saturating_sub(origin_ns) as f64 / NS_PER_S
}

impl<S: Sequence> Analyzer<S> {
    /// Ends all connections. The caller fills in the names of the captures.
    pub fn finish(mut self) -> (TraceDocument, Vec<Counts>, S) {
        for connection in 0..self.connections.len() as u32 {
            if !self.connections[connection as usize].members.is_empty() {
                self.end(connection);
            }
        }
        let origin_ns = self.origin_ns.unwrap_or(0);
        let quic = self.quic.totals();
        for connection in self.quic.finish(origin_ns) {
            let payload: u64 = connection.upload.payload_bytes + connection.download.payload_bytes;
            let id = self.next_id + connection.id;
            self.kept.keep(payload, TracedConnection { id, ..connection }, Aside::default());
        }
        self.totals.quic_connections = quic.connections;
        self.totals.other_udp_flows = quic.other_udp_flows;
        self.totals.payload_bytes += quic.payload_bytes;
        let fragments = self.reassembly.discarded();
        self.totals.discarded += quic.discarded + fragments.evicted;
        self.totals.incomplete_datagrams = fragments.overlapping + fragments.timed_out;
        let (mut connections, asides) = self.kept.into_connections();
        if let Some(several) = &self.several {
            for (connection, aside) in connections.iter_mut().zip(&asides) {
                aside
                    .times
                    .iter()
                    .for_each(|times| times.complete(&mut connection.subflows, &several.clocks));
            }
        }
        let mut document = TraceDocument {
            schema: pathbench_record::trace::SCHEMA.to_owned(),
            started: rfc3339_from_unix((origin_ns / 1_000_000_000) as i64),
            duration_s: seconds(origin_ns, self.last_ns),
            totals: self.totals,
            connections,
            ..TraceDocument::default()
        };
        document.findings = findings::findings(&document, &asides);
        (document, self.counts, self.sequence)
    }

    /// Ends the connections that have been closed for long enough.
    #[inline]
    pub(super) fn end_closed(&mut self) {
        while let Some(&(at_ns, connection, id)) = self.closed.front()
            && at_ns <= self.last_ns
            // The clock of a capture that has the flow, too, may be hours behind.
            && (self.several.is_none() || self.closed.len() > CLOSED_OF_SEVERAL)
        {
            self.closed.pop_front();
            self.end_if(connection, id, Closing::Ends);
        }
    }

    /// A connection whose subflows have all closed, and which a join may name. At the bound the oldest ends.
    pub(super) fn await_join(&mut self, connection: u32, id: u64) {
        if self.awaiting_join.len() == AWAITING_JOIN
            && let Some((oldest, id)) = self.awaiting_join.pop_front()
        {
            self.end_if(oldest, id, Closing::AwaitsJoin);
        }
        self.awaiting_join.push_back((connection, id));
    }

    /// Ends a connection that is in this state unless a subflow has joined since.
    fn end_if(&mut self, connection: u32, id: u64, closing: Closing) {
        let state = &mut self.connections[connection as usize];
        if state.members.is_empty() || state.id != id || state.closing != closing {
            return;
        }
        if state.members.iter().all(|flow| self.flows[*flow as usize].flow.closed()) {
            self.end(connection);
        } else {
            state.closing = Closing::No;
        }
    }

    /// Ends the connection that has been idle for longest among some.
    pub(super) fn end_idle(&mut self) {
        let mut idle: Option<(u64, u32)> = None;
        for _ in 0..EXAMINED {
            self.hand = (self.hand + 1) % self.connections.len().max(1);
            let Some(connection) = self.connections.get(self.hand).filter(|found| !found.members.is_empty())
            else {
                continue;
            };
            if idle.is_none_or(|(last_ns, _)| connection.last_ns < last_ns) {
                idle = Some((connection.last_ns, self.hand as u32));
            }
        }
        if let Some((_, connection)) = idle {
            self.totals.discarded += 1;
            self.end(connection);
        }
    }

    /// Moves a connection and its flows out of the live state into the result.
    fn end(&mut self, connection: u32) {
        let ended = std::mem::take(&mut self.connections[connection as usize]);
        self.free_connections.push(connection);
        let members: Vec<Subflow> = ended
            .members
            .iter()
            .map(|&flow| {
                let subflow = std::mem::take(&mut self.flows[flow as usize]);
                self.table.remove(self.table.hash(&subflow.key()), flow);
                self.end_comparison(&subflow, flow);
                self.frames_left += subflow.kept_frames();
                self.free_flows.push(flow);
                subflow
            })
            .collect();
        self.live_flows -= members.len();
        if let Some(mptcp) = &ended.mptcp {
            for token in mptcp.tokens.into_iter().flatten() {
                if self.tokens.get(&token).is_some_and(|(owner, _)| *owner == connection) {
                    self.tokens.remove(&token);
                }
            }
            self.without_handshake.retain(|other| *other != connection);
        }
        self.result(ended, members);
    }

    fn result(&mut self, connection: Connection, mut members: Vec<Subflow>) {
        if connection.multipath() {
            self.totals.mptcp_connections += 1;
            self.totals.mptcp_subflows += members.len() as u64;
        } else {
            self.totals.tcp_connections += 1;
        }
        let payload =
            members.iter().flat_map(|subflow| &subflow.flow.directions).map(|sent| sent.payload_bytes).sum();
        self.totals.offload_packets +=
            members.iter().map(|member| member.flow.offload_packets()).sum::<u64>();
        // The clocks are those of all flows.
        let comparisons = self.finish_comparisons(&mut members);
        if self.kept.wants(payload, connection.id) {
            let origin_ns = self.origin_ns.unwrap_or(0);
            let shown = notes::shown(&members, connection.fallback_frame);
            let mut result = traced_connection(connection, members, origin_ns);
            let mut kept_times = Vec::new();
            for (subflow, compared) in result.subflows.iter_mut().zip(comparisons) {
                let Some(FlowComparisonResult { comparison, times, turned, translated }) = compared else {
                    continue;
                };
                subflow.comparison = Some(comparison);
                kept_times.push(KeptTimes::new(subflow.id as usize, times, turned, self.kept.most()));
                if let Some(ends) = translated {
                    subflow.filter = either(&[&subflow.filter, &display_filter("tcp", ends)]);
                }
            }
            result.filter = connection_filter(&result.subflows);
            if let (Some(fallback), Some((filter, _))) = (&mut result.fallback, shown.fallback()) {
                fallback.filter = filter;
            }
            self.kept.keep(payload, result, Aside { shown, times: kept_times });
        }
    }
}

fn traced_connection(connection: Connection, mut members: Vec<Subflow>, origin_ns: u64) -> TracedConnection {
    // A subflow that was guessed may have begun before the first member.
    let first_ns = connection.first_ns;
    let multipath = connection.multipath();
    let mut result = TracedConnection {
        id: connection.id,
        transport: if multipath { "mptcp" } else { "tcp" }.to_owned(),
        start_s: seconds(origin_ns, first_ns),
        duration_s: seconds(first_ns, connection.last_ns),
        handshake: connection.handshake,
        ..TracedConnection::default()
    };
    if let Some(first) = members.first() {
        let ends = connection_ends(first);
        (result.client, result.server) = (Some(ends[0].into()), Some(ends[1].into()));
        if !multipath && first.flow.handshake_ns[0].is_some() {
            result.handshake = pathbench_record::trace::HandshakeEvidence::Captured;
        }
    }
    result.fallback = connection.fallback.map(|(at_ns, reason)| Fallback {
        at_s: seconds(origin_ns, at_ns),
        reason: reason.to_owned(),
        filter: members.first().map(|member| display_filter("tcp", member.flow.ends)).unwrap_or_default(),
    });
    let mptcp = connection.mptcp.filter(|_| multipath);
    result.upload = direction(&members, mptcp.as_deref(), 0);
    result.download = direction(&members, mptcp.as_deref(), 1);
    if let Some(mptcp) = mptcp {
        add_data_level(&mut result, *mptcp, &members, origin_ns);
    }
    result.subflows = members.iter_mut().map(|member| subflow(member, origin_ns, multipath)).collect();
    result.filter = connection_filter(&result.subflows);
    result
}

/// The packets of the first subflows.
fn connection_filter(subflows: &[TracedSubflow]) -> String {
    let filters: Vec<&str> =
        subflows.iter().take(MOST_FILTERED).map(|subflow| subflow.filter.as_str()).collect();
    either(&filters)
}

fn either(filters: &[&str]) -> String {
    match filters {
        [one] => (*one).to_owned(),
        several => several.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" || "),
    }
}

fn connection_ends(subflow: &Subflow) -> [FlowEndpoint; 2] {
    let [client, server] = subflow.flow.ends;
    if subflow.turned { [server, client] } else { [client, server] }
}

/// The data level of the data that the connection's end `sender` sent.
fn direction(members: &[Subflow], mptcp: Option<&MptcpConnection>, sender: usize) -> ConnectionDirection {
    let sent = || members.iter().map(|member| &member.flow.directions[member.connection_side(sender)]);
    let mut result = ConnectionDirection {
        payload_bytes: sent().map(|direction| direction.payload_bytes).sum(),
        ..ConnectionDirection::default()
    };
    let stall;
    if let Some(mptcp) = mptcp {
        let data = &mptcp.data[sender];
        // After a fallback the first subflow carries data without mappings.
        let plain: u64 =
            members.iter().map(|member| member.plain_bytes[member.connection_side(sender)]).sum();
        result.data_bytes = data.data_bytes() + plain;
        if plain == 0 {
            result.acknowledged_bytes = Some(data.acknowledged_bytes());
        }
        result.reinjected_bytes = Some(data.reinjected_bytes);
        result.reinjected_same_subflow_bytes = Some(data.reinjected_same_subflow_bytes);
        result.reinjected_needed_bytes = Some(data.reinjected_needed_bytes);
        result.out_of_order_delay_ms = data.out_of_order_delay.distribution_ms();
        result.stall_ms = Some(data.stall_ns as f64 / 1e6);
        stall = (data.stall_start_ns, data.stall_ns);
        result.goodput = data.goodput.clone().into_series();
    } else {
        result.data_bytes =
            sent().map(|direction| direction.payload_bytes - direction.retransmitted_bytes).sum();
        result.acknowledged_bytes = Some(sent().map(FlowDirection::acknowledged_bytes).sum());
        let stalls = sent().map(|direction| (direction.stall_start_ns, direction.stall_ns));
        stall = stalls.max_by_key(|(_, ns)| *ns).unwrap_or_default();
        result.stall_ms = Some(stall.1 as f64 / 1e6);
        if let Some(first) = sent().next() {
            result.goodput = first.goodput.clone().into_series();
        }
    }
    let was_zero = |member: &Subflow| {
        let receiver = &member.flow.directions[member.connection_side(1 - sender)];
        covers_most(receiver.window.longest_zero(member.flow.last_ns), stall)
    };
    result.stall_reason = members.iter().any(was_zero).then(|| "zero-window".to_owned());
    result
}

/// The first time, a start and a length, covers most of the second.
fn covers_most((start, length): (u64, u64), (from, of): (u64, u64)) -> bool {
    let overlap = (start + length).min(from + of).saturating_sub(start.max(from));
    of > 0 && overlap > of / 2
}

fn add_data_level(
    result: &mut TracedConnection,
    mptcp: MptcpConnection,
    members: &[Subflow],
    origin_ns: u64,
) {
    result.version = mptcp.version.map(|version| version.to_string());
    let token = |side: usize| mptcp.tokens[side].map(|token| format!("{token:#010x}"));
    (result.client_token, result.server_token) = (token(0), token(1));
    let checksums = mptcp.checksum.iter().any(|required| *required);
    result.checksums = mptcp.version.map(|_| checksums);
    if checksums {
        let sum = |count: fn(&Checksums) -> u64| {
            let of = |member: &Subflow| {
                Some(member.mptcp.as_ref()?.checksums.iter().flatten().map(|sums| count(sums)).sum::<u64>())
            };
            Some(members.iter().filter_map(of).sum())
        };
        result.checksums_verified = sum(|checksums| checksums.verified);
        result.checksums_wrong = sum(|checksums| checksums.wrong);
    }
    result.signals = mptcp.signals.into_iter().map(|found| signal(found, origin_ns)).collect();
}

fn signal(signal: Signal, origin_ns: u64) -> TracedSignal {
    TracedSignal {
        at_s: seconds(origin_ns, signal.time_ns),
        kind: signal.kind.to_owned(),
        sender: if signal.side == 0 { "client" } else { "server" }.to_owned(),
        subflow: signal.subflow,
        address_ids: signal.address_ids,
        address: signal.address,
        detail: signal.detail,
        repeats: signal.repeats,
    }
}

fn subflow(member: &mut Subflow, origin_ns: u64, multipath: bool) -> TracedSubflow {
    let ends = connection_ends(member);
    let flow = &member.flow;
    // Index in the flow's arrays of the connection's client and server.
    let (client, server) = (member.connection_side(0), member.connection_side(1));
    let mptcp = member.mptcp.as_deref().filter(|_| multipath);
    let mut result = TracedSubflow {
        id: member.ordinal,
        client: Some(ends[0].into()),
        server: Some(ends[1].into()),
        start_s: seconds(origin_ns, flow.first_ns),
        end_s: seconds(origin_ns, flow.last_ns),
        kind: member.kind.name().to_owned(),
        end: flow.end.name().to_owned(),
        client_mss: flow.directions[client].mss,
        server_mss: flow.directions[server].mss,
        upload_rtt_ms: flow.directions[client].rtt().distribution_ms(),
        download_rtt_ms: flow.directions[server].rtt().distribution_ms(),
        handshake_rtt_ms: flow.handshake.rtt_ns().map(|ns| ns as f64 / 1e6),
        opening: flow.opening().map(|opening| opening.name().to_owned()),
        refused_by: flow
            .handshake
            .refused_by()
            .map(|side| if member.connection_side(side) == 0 { "client" } else { "server" }.to_owned()),
        syns: (flow.handshake.syns > 0).then_some(flow.handshake.syns),
        too_big: flow.too_big.iter().map(|message| too_big(message, client, origin_ns)).collect(),
        black_hole_above_bytes: black_hole_above(flow),
        filter: display_filter("tcp", flow.ends),
        ..TracedSubflow::default()
    };
    if let Some(mptcp) = mptcp {
        result.client_address_id = mptcp.address_ids[client];
        result.server_address_id = mptcp.address_ids[server];
        result.backup = mptcp.backup;
        result.authenticated = mptcp.authenticated;
    }
    // A refused connection is none of MPTCP, and has a reason all the same.
    result.reset_reason =
        member.mptcp.as_ref().and_then(|mptcp| mptcp.reset_reason).map(|code| reset_reason(code).to_owned());
    let Flow { directions, last_ns, .. } = std::mem::take(&mut member.flow);
    for (side, sent) in directions.into_iter().enumerate() {
        let state = mptcp.map(|mptcp| (mptcp.mappings[side].unmapped_bytes(), mptcp.reinjected_bytes[side]));
        let sent = sent_in(sent, state, last_ns);
        *(if side == client { &mut result.upload } else { &mut result.download }) = sent;
    }
    result
}

fn too_big(message: &crate::tcp::TooBig, client: usize, origin_ns: u64) -> TooBigMessage {
    TooBigMessage {
        at_s: seconds(origin_ns, message.time_ns),
        mtu: message.mtu,
        packet_bytes: message.packet_bytes,
        direction: if message.side == client { "upload" } else { "download" }.to_owned(),
    }
}

/// Every path of IPv6 has an MTU of 1,280 bytes (RFC 8200); every host of IPv4 takes packets of 576 (RFC 791), and links
/// with less, down to 68, are out of use.
fn black_hole_above(flow: &Flow) -> Option<u32> {
    let is_ipv4 = std::net::SocketAddr::from(flow.ends[0]).is_ipv4();
    let smallest_mtu = if is_ipv4 { 576 } else { 1_280 };
    flow.directions.iter().filter_map(|sent| sent.black_hole.suspicion(smallest_mtu)).min()
}

/// One direction; `mptcp` has its unmapped and its reinjected bytes.
fn sent_in(direction: FlowDirection, mptcp: Option<(u64, u64)>, last_ns: u64) -> SubflowDirection {
    let (_, zero_ns) = direction.window.longest_zero(last_ns);
    SubflowDirection {
        packets: direction.packets,
        ip_bytes: direction.ip_bytes,
        payload_bytes: direction.payload_bytes,
        retransmitted_bytes: direction.retransmitted_bytes,
        retransmitted_packets: direction.retransmitted_packets,
        out_of_order_bytes: direction.out_of_order_bytes,
        missing_bytes: direction.missing_bytes(),
        acknowledged_bytes: direction.acknowledged_bytes(),
        unmapped_bytes: mptcp.map(|(unmapped, _)| unmapped),
        reinjected_bytes: mptcp.map(|(_, reinjected)| reinjected),
        sack_blocks: direction.sack_blocks,
        duplicate_acks: direction.duplicate_acks,
        zero_windows: direction.zero_windows,
        zero_window_ms: (zero_ns > 0).then_some(zero_ns as f64 / 1e6),
        keep_alives: direction.keep_alives,
        duplicate_packets: direction.duplicates,
        out_of_window_packets: direction.out_of_window,
        congestion_experienced_packets: direction.congestion_experienced,
        largest_ip_bytes: direction.largest_ip_bytes,
        segment_sizes: direction.sizes.into_counts(),
        throughput: direction.throughput.into_series(),
        goodput: direction.goodput.into_series(),
        ..SubflowDirection::default()
    }
}
