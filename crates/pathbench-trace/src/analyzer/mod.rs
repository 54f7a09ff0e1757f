//! Assigns packets to flows, and flows to connections.
//!
//! Packets come in batches. A batch passes three stages, so that the loads of different packets from memory overlap:
//! headers and hash of each, flow of each, then the analysis of each in order.

mod comparison;
mod connection;
mod control;
mod findings;
mod finish;
mod kept;
mod segment;
mod sequence;
mod table;
mod touch;

use crate::capture::{Frame, Interface};
use crate::packet::reassembly::Reassembly;
use crate::packet::{Dissected, Packet, PacketTooBig, Tcp, Transport, dissect};
use crate::quic::Quic;
use crate::tcp::{ACK, Flow, SYN};
use comparison::Several;
use connection::{Connection, Subflow};
use kept::Kept;
use std::collections::{HashMap, VecDeque};
use table::{Key, Table};

pub use sequence::{Segment, SegmentKind, Sequence};

/// Capture time for which a closed connection is kept: its last retransmissions belong to it.
const LINGER_NS: u64 = 3_000_000_000;
/// The same with several captures, whose clocks may differ.
const LINGER_SEVERAL_NS: u64 = 30_000_000_000;
/// Most live flows. When there are more, the connection that was idle for longest among some is ended.
const LIVE_FLOWS: usize = 400_000;
/// Flows that are examined for that.
const EXAMINED: usize = 64;
/// Flows without a first handshake among which a data sequence number is searched.
const WITHOUT_HANDSHAKE: usize = 256;

/// Limits and inputs of an analysis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Connections whose details the result has: those with the most payload.
    pub most: usize,
    /// Seed of the flow table.
    pub seed: u64,
    /// Several captures: flows are compared between them.
    pub captures: usize,
}

/// Counts of one capture.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub packets: u64,
    pub captured_bytes: u64,
    pub wire_bytes: u64,
    pub truncated_packets: u64,
    pub other_packets: u64,
    pub by_interface: Vec<u64>,
    /// Time of the first packet.
    pub first_ns: Option<u64>,
    last_ns: u64,
    ended: bool,
}

/// The analysis of one or more captures, fed in order of time.
pub struct Analyzer<S: Sequence = ()> {
    /// With several captures.
    several: Option<Box<Several>>,
    table: Table,
    flows: Vec<Subflow>,
    free_flows: Vec<u32>,
    connections: Vec<Connection>,
    free_connections: Vec<u32>,
    live_flows: usize,
    /// Where the next search for idle connections begins.
    hand: usize,
    /// Closed connections, and the time at which each ends.
    closed: VecDeque<(u64, u32, u64)>,
    /// From a token to the connection and the side whose key has it.
    tokens: HashMap<u32, (u32, usize)>,
    /// Flows with MPTCP and no first handshake.
    without_handshake: VecDeque<u32>,
    reassembly: Reassembly,
    quic: Quic,
    counts: Vec<Counts>,
    origin_ns: Option<u64>,
    last_ns: u64,
    next_id: u64,
    totals: pathbench_record::trace::TraceTotals,
    kept: Kept,
    sequence: S,
    lookups: Vec<Lookup>,
}

/// A packet of a batch after the first stage.
#[derive(Debug, Clone, Copy)]
struct Lookup {
    key: Key,
    hash: u64,
    flow: Option<u32>,
}

impl<S: Sequence> Analyzer<S> {
    pub fn new(options: Options, quic: Quic, sequence: S) -> Self {
        Self {
            table: Table::new(options.seed),
            counts: vec![Counts::default(); options.captures.max(1)],
            kept: Kept::new(options.most),
            flows: Vec::new(),
            free_flows: Vec::new(),
            connections: Vec::new(),
            free_connections: Vec::new(),
            live_flows: 0,
            hand: 0,
            closed: VecDeque::new(),
            tokens: HashMap::new(),
            without_handshake: VecDeque::new(),
            reassembly: Reassembly::default(),
            origin_ns: None,
            last_ns: 0,
            next_id: 0,
            totals: pathbench_record::trace::TraceTotals::default(),
            lookups: Vec::new(),
            several: (options.captures > 1).then(Box::default),
            quic,
            sequence,
        }
    }

    /// Takes the next packets of capture `capture`.
    pub fn batch<'a>(
        &mut self,
        capture: u32,
        interfaces: &[Interface],
        frames: impl Iterator<Item = Frame<'a>>,
    ) {
        let mut packets: Vec<(Frame<'a>, Packet<'a>)> = Vec::with_capacity(64);
        for frame in frames {
            self.count(capture, &frame);
            let link_type =
                interfaces.get(frame.interface as usize).map_or(1, |interface| interface.link_type);
            match dissect(link_type, frame.bytes, frame.original_length) {
                Dissected::Packet(packet) => self.look_up(packet, frame, &mut packets),
                Dissected::Fragment(fragment) => {
                    // Packets before it come first.
                    self.stages(capture, &mut packets);
                    if let Some(whole) = self.reassembly.push(frame.time_ns, &fragment)
                        && let Dissected::Packet(packet) = whole.dissect()
                    {
                        let frame = Frame { bytes: &[], comment: None, ..frame };
                        self.look_up_only(&packet);
                        self.stages(capture, &mut vec![(frame, packet)]);
                    }
                }
                Dissected::Other(_) => self.counts[capture as usize].other_packets += 1,
            }
        }
        self.stages(capture, &mut packets);
        self.end_closed();
    }

    /// No further packet of this capture will come.
    pub fn capture_ended(&mut self, capture: u32) {
        self.counts[capture as usize].ended = true;
    }

    /// The capture `next` began when `first` had ended: it is the next file of the same point of capture.
    fn continues(&self, first: u32, next: u32) -> bool {
        let (first, next) = (&self.counts[first as usize], &self.counts[next as usize]);
        first.ended && next.first_ns.is_some_and(|first_ns| first_ns >= first.last_ns)
    }

    fn count(&mut self, capture: u32, frame: &Frame<'_>) {
        let counts = &mut self.counts[capture as usize];
        counts.packets += 1;
        counts.captured_bytes += frame.bytes.len() as u64;
        counts.wire_bytes += u64::from(frame.original_length);
        counts.truncated_packets += u64::from((frame.bytes.len() as u64) < u64::from(frame.original_length));
        counts.first_ns.get_or_insert(frame.time_ns);
        counts.last_ns = counts.last_ns.max(frame.time_ns);
        let interface = frame.interface as usize;
        if counts.by_interface.len() <= interface {
            counts.by_interface.resize(interface + 1, 0);
        }
        counts.by_interface[interface] += 1;
        self.origin_ns.get_or_insert(frame.time_ns);
        self.last_ns = self.last_ns.max(frame.time_ns);
    }

    #[inline]
    fn look_up<'a>(
        &mut self,
        packet: Packet<'a>,
        frame: Frame<'a>,
        packets: &mut Vec<(Frame<'a>, Packet<'a>)>,
    ) {
        self.look_up_only(&packet);
        packets.push((frame, packet));
    }

    #[inline]
    fn look_up_only(&mut self, packet: &Packet<'_>) {
        let key = Key::new(packet.source, packet.destination);
        let hash = self.table.hash(&key);
        self.table.touch(hash);
        self.lookups.push(Lookup { key, hash, flow: None });
    }

    /// Second and third stage.
    fn stages<'a>(&mut self, capture: u32, packets: &mut Vec<(Frame<'a>, Packet<'a>)>) {
        let mut lookups = std::mem::take(&mut self.lookups);
        for lookup in &mut lookups {
            lookup.flow = self.table.likely(lookup.hash);
            if let Some(subflow) = lookup.flow.and_then(|flow| self.flows.get(flow as usize)) {
                subflow.touch();
            }
        }
        // Each step loads what the one before refers to.
        let subflows = || lookups.iter().filter_map(|lookup| self.flows.get(lookup.flow? as usize));
        let connections =
            || subflows().filter_map(|subflow| self.connections.get(subflow.connection as usize));
        for subflow in subflows() {
            subflow.touch_references();
        }
        for connection in connections() {
            connection.touch();
        }
        for connection in connections() {
            connection.touch_data();
        }
        for connection in connections() {
            connection.touch_references();
        }
        for (lookup, (frame, packet)) in lookups.iter().zip(packets.iter()) {
            match &packet.transport {
                Transport::Tcp(tcp) => self.tcp(capture, frame, packet, tcp, lookup),
                Transport::Udp(udp) => {
                    if self.is_first_point(capture, lookup.key) {
                        self.quic.push(frame.time_ns, packet, udp);
                    }
                }
                Transport::TooBig(message) => self.too_big(message, frame.time_ns),
            }
        }
        packets.clear();
        lookups.clear();
        self.lookups = lookups;
    }

    #[inline]
    fn find(&self, key: &Key, hash: u64) -> Option<u32> {
        self.table.get(hash, |flow| self.flows[flow as usize].has(key))
    }

    fn enter(&mut self, key: &Key, flow: u32) {
        let Self { table, flows, .. } = self;
        table.insert(table.hash(key), flow, |flow| flows[flow as usize].has(key));
    }

    #[inline]
    fn tcp(&mut self, capture: u32, frame: &Frame<'_>, packet: &Packet<'_>, tcp: &Tcp<'_>, lookup: &Lookup) {
        // An earlier packet of the batch may have changed the table.
        let known = match lookup.flow {
            Some(flow) if self.flows.get(flow as usize).is_some_and(|subflow| subflow.has(&lookup.key)) => {
                Some(flow)
            }
            _ => self.find(&lookup.key, lookup.hash),
        };
        let flow = match known {
            Some(flow) if !self.begins_anew(flow, capture, packet, tcp) => flow,
            _ => match self.translated(capture, packet, tcp, lookup.key) {
                Some(flow) => flow,
                None => self.begin(capture, packet, tcp, frame.time_ns, lookup.key),
            },
        };
        let first = self.flows[flow as usize].capture;
        if first == capture {
            self.segment(flow, frame, packet, tcp);
        } else if !self.is_second_point(flow, capture, packet, tcp) {
            self.flows[flow as usize].capture = capture;
            self.segment(flow, frame, packet, tcp);
        } else {
            self.second_point(flow, capture, frame, packet, tcp);
            return;
        }
        if self.several.is_some() {
            self.first_point(flow, frame, packet, tcp);
        }
    }

    /// A SYN with another sequence number, after the end of the old connection of the same ends.
    #[inline]
    fn begins_anew(&self, flow: u32, capture: u32, packet: &Packet<'_>, tcp: &Tcp<'_>) -> bool {
        if tcp.flags & (SYN | ACK) != SYN {
            return false;
        }
        if self.several.is_some() && self.is_second_point(flow, capture, packet, tcp) {
            return self.second_begins_anew(flow, packet, tcp);
        }
        let old = &self.flows[flow as usize].flow;
        let direction = &old.directions[old.side(packet.source)];
        direction.started && direction.initial_sequence() != Some(tcp.sequence)
    }

    /// A new flow, in the connection that its token names or in one of its own.
    fn begin(&mut self, capture: u32, packet: &Packet<'_>, tcp: &Tcp<'_>, time_ns: u64, key: Key) -> u32 {
        if self.live_flows >= LIVE_FLOWS {
            self.end_idle();
        }
        let flow = Flow::new(packet, tcp, time_ns);
        let subflow = Subflow { flow, capture, ..Subflow::default() };
        let index = store(&mut self.flows, &mut self.free_flows, subflow);
        self.live_flows += 1;
        if self.several.is_some() {
            self.begin_comparison(index, tcp);
        }
        self.enter(&key, index);
        let join = control::join_request(tcp);
        let joined = join.and_then(|token| self.tokens.get(&token).copied());
        match joined.filter(|(connection, _)| {
            self.connections[*connection as usize].members.len() < connection::SUBFLOWS
        }) {
            Some((connection, receiver)) => {
                self.add_member(connection, index, receiver == 0, connection::Kind::Join);
            }
            None => self.begin_connection(index, time_ns, join),
        }
        index
    }

    fn begin_connection(&mut self, flow: u32, time_ns: u64, join: Option<u32>) {
        let connection =
            Connection { id: self.next_id, first_ns: time_ns, last_ns: time_ns, ..Connection::default() };
        self.next_id += 1;
        let index = store(&mut self.connections, &mut self.free_connections, connection);
        let kind = if join.is_some() { connection::Kind::Join } else { connection::Kind::Initial };
        self.add_member(index, flow, false, kind);
        if let Some(token) = join {
            self.begin_from_join(index, token);
        }
    }

    fn add_member(&mut self, connection: u32, flow: u32, turned: bool, kind: connection::Kind) {
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

    fn too_big(&mut self, message: &PacketTooBig, time_ns: u64) {
        let key = Key::new(message.source, message.destination);
        if let Some(flow) = self.find(&key, self.table.hash(&key)) {
            let flow = &mut self.flows[flow as usize].flow;
            // Behind a NAT the quoted packet has other ends.
            if flow.ends.contains(&message.source) {
                flow.too_big(message, time_ns);
            }
        }
    }

    /// Ends the connections that have been closed for long enough.
    fn end_closed(&mut self) {
        while let Some(&(at_ns, connection, id)) = self.closed.front()
            && at_ns <= self.last_ns
        {
            self.closed.pop_front();
            let state = &mut self.connections[connection as usize];
            if state.members.is_empty() || state.id != id {
                continue;
            }
            state.closing = false;
            // A subflow may have joined since.
            let open = state.members.iter().any(|flow| !self.flows[*flow as usize].flow.closed());
            if !open {
                self.end(connection);
            }
        }
    }

    /// Ends the connection that has been idle for longest among some.
    fn end_idle(&mut self) {
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
                let [client, server] = subflow.flow.ends;
                self.table.remove(self.table.hash(&Key::new(client, server)), flow);
                self.end_comparison(&subflow, flow);
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
}

/// Puts a value into a free place.
fn store<T>(values: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    if let Some(place) = free.pop() {
        values[place as usize] = value;
        return place;
    }
    values.push(value);
    (values.len() - 1) as u32
}

impl Subflow {
    /// The key is that of the flow's ends, at one point of capture or the other.
    #[inline]
    fn has(&self, key: &Key) -> bool {
        let [client, server] = self.flow.ends;
        Key::new(client, server) == *key || self.is_translated(key)
    }
}
