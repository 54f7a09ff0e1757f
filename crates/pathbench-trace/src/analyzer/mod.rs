//! Assigns packets to flows, and flows to connections.
//!
//! Packets come in batches. A batch passes three stages, so that the loads of different packets from memory overlap:
//! headers and hash of each, flow of each, then the analysis of each in order.

mod attempts;
mod compared;
mod comparison;
mod connection;
mod control;
mod counts;
mod data_sequence;
mod evidence;
mod findings;
mod finish;
mod kept;
mod kept_times;
mod notes;
mod segment;
mod sequence;
mod state;
mod table;
mod touch;

use crate::capture::{Frame, InterfaceDescription};
use crate::packet::{Dissected, PacketHeaders, PacketTooBig, Tcp, TransportHeader, dissect};
use crate::tcp::{ACK, Flow, SYN};
use connection::{Connection, Kind, SUBFLOWS, Subflow};
use state::Lookup;
use table::FlowKey;

pub use counts::Counts;
pub use sequence::{SegmentKind, Sequence, TracedSegment};
pub use state::{AnalysisParameters, Analyzer};

/// Most live flows. When there are more, the connection that was idle for longest among some is ended.
const LIVE_FLOWS: usize = 400_000;

impl<S: Sequence> Analyzer<S> {
    /// Takes the next packets of capture `capture`.
    pub fn batch<'a>(
        &mut self,
        capture: u32,
        interfaces: &[InterfaceDescription],
        frames: impl Iterator<Item = Frame<'a>>,
    ) {
        let mut packets: Vec<(Frame<'a>, PacketHeaders<'a>)> = Vec::with_capacity(64);
        for frame in frames {
            self.counts[capture as usize].add(&frame);
            let link_type =
                interfaces.get(frame.interface as usize).map_or(1, |interface| interface.link_type);
            match dissect(link_type, frame.bytes, frame.original_length) {
                Dissected::Packet(packet) => {
                    self.look_up(capture, &packet);
                    packets.push((frame, packet));
                }
                Dissected::Fragment(fragment) => {
                    // Packets before it come first.
                    self.stages(capture, &mut packets);
                    self.set_time(capture, frame.time_ns);
                    if let Some(whole) = self.reassembly.push(frame.time_ns, &fragment)
                        && let Dissected::Packet(packet) = whole.dissect()
                    {
                        let frame = Frame { bytes: &[], comment: None, ..frame };
                        self.look_up(capture, &packet);
                        self.stages(capture, &mut vec![(frame, packet)]);
                    }
                }
                Dissected::Other(reason) => {
                    self.stages(capture, &mut packets);
                    self.set_time(capture, frame.time_ns);
                    let counts = &mut self.counts[capture as usize];
                    counts.other_packets += 1;
                    counts.add_undecoded(reason, link_type);
                }
            }
        }
        self.stages(capture, &mut packets);
    }

    /// Takes TLS secrets, lines in the format of `SSLKEYLOGFILE`, for the packets after them.
    pub fn add_secrets(&mut self, key_log: &[u8]) {
        self.quic.add_secrets(key_log);
    }

    /// No further packet of this capture will come.
    pub fn capture_ended(&mut self, capture: u32) {
        self.counts[capture as usize].ended = true;
    }

    /// The time of the next packet: what it ends must not depend on the batch that it came in.
    #[inline]
    fn set_time(&mut self, capture: u32, time_ns: u64) {
        self.counts[capture as usize].set_time(time_ns);
        self.origin_ns.get_or_insert(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
        self.end_closed();
    }

    #[inline]
    fn look_up(&mut self, capture: u32, packet: &PacketHeaders<'_>) {
        let key = FlowKey::new(packet.source, packet.destination);
        let hash = self.table.hash(&key);
        self.table.touch(hash);
        let frame = self.counts[capture as usize].packets;
        self.lookups.push(Lookup { key, hash, flow: None, frame });
    }

    /// Second and third stage.
    fn stages<'a>(&mut self, capture: u32, packets: &mut Vec<(Frame<'a>, PacketHeaders<'a>)>) {
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
        let with_packets = || {
            lookups.iter().zip(packets.iter()).filter_map(|(lookup, (_, packet))| {
                self.flows.get(lookup.flow? as usize).map(|subflow| (subflow, packet))
            })
        };
        for (subflow, packet) in with_packets() {
            subflow.touch_directions(packet);
        }
        for (subflow, packet) in with_packets() {
            subflow.touch_references(packet);
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
            self.set_time(capture, frame.time_ns);
            self.frame = lookup.frame;
            match &packet.transport {
                TransportHeader::Tcp(tcp) => self.tcp(capture, frame, packet, tcp, lookup),
                TransportHeader::Udp(udp) => {
                    if self.is_first_point(capture, lookup.key) {
                        self.quic.push(frame.time_ns, packet, udp);
                    }
                }
                TransportHeader::TooBig(message) => self.too_big(capture, message, frame.time_ns),
            }
        }
        packets.clear();
        lookups.clear();
        self.lookups = lookups;
    }

    #[inline]
    fn tcp(
        &mut self,
        capture: u32,
        frame: &Frame<'_>,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        lookup: &Lookup,
    ) {
        // An earlier packet of the batch may have changed the table.
        let known = match lookup.flow {
            Some(flow)
                if self.flows.get(flow as usize).is_some_and(|one| one.has(&lookup.key) && !one.replaced) =>
            {
                Some(flow)
            }
            _ => self.find(&lookup.key, lookup.hash),
        };
        let flow = match known {
            Some(flow) if !self.begins_anew(flow, capture, packet, tcp, frame.time_ns) => flow,
            _ => {
                if let Some(old) = known {
                    self.flows[old as usize].replaced = true;
                }
                match self.find_translated(capture, packet, tcp, lookup.key) {
                    Some(flow) => flow,
                    None => self.begin(capture, packet, tcp, frame.time_ns, lookup.key),
                }
            }
        };
        let first = self.flows[flow as usize].capture;
        let is_taken = if first == capture {
            self.segment(flow, frame, packet, tcp)
        } else if !self.is_second_point(flow, capture, packet, tcp) {
            self.flows[flow as usize].capture = capture;
            self.segment(flow, frame, packet, tcp)
        } else {
            self.second_point(flow, capture, frame, packet, tcp);
            return;
        };
        if is_taken && self.several.is_some() {
            self.observe(flow, 0, frame, packet, tcp);
        }
    }

    /// A SYN with another sequence number, or data that cannot be of a connection of the same ends that has closed.
    #[inline]
    fn begins_anew(
        &self,
        flow: u32,
        capture: u32,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        time_ns: u64,
    ) -> bool {
        if tcp.flags & (SYN | ACK) != SYN {
            return self.several.is_none() && self.flows[flow as usize].flow.is_past(packet.source, tcp);
        }
        if self.several.is_some() && self.is_second_point(flow, capture, packet, tcp) {
            return self.second_begins_anew(flow, packet, tcp);
        }
        let old = &self.flows[flow as usize].flow;
        let direction = &old.directions[old.side(packet.source)];
        direction.started
            && direction.initial_sequence() != Some(tcp.sequence)
            && !old.is_rewritten_syn(packet, tcp, time_ns)
    }

    /// A new flow, in the connection that its token names or in one of its own.
    fn begin(
        &mut self,
        capture: u32,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        time_ns: u64,
        key: FlowKey,
    ) -> u32 {
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
        match joined {
            Some((connection, receiver))
                if self.connections[connection as usize].members.len() < SUBFLOWS =>
            {
                self.add_member(connection, index, receiver == 0, Kind::Join);
            }
            // The connection that the token names is at its bound: the token stays its own.
            Some(_) => {
                self.totals.discarded += 1;
                self.begin_connection(index, time_ns, None);
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
        let kind = if join.is_some() { Kind::Join } else { Kind::Initial };
        self.add_member(index, flow, false, kind);
        if let Some(token) = join {
            self.begin_from_join(index, token);
        }
    }

    fn too_big(&mut self, capture: u32, message: &PacketTooBig, time_ns: u64) {
        let key = FlowKey::new(message.source, message.destination);
        if let Some(index) = self.find(&key, self.table.hash(&key)) {
            let flow = &mut self.flows[index as usize].flow;
            // Behind a NAT the quoted packet has other ends.
            if flow.ends.contains(&message.source) && flow.too_big(message, time_ns) {
                self.note_too_big(index, capture);
            }
        }
    }
}

/// Stores a value at a free index.
fn store<T>(values: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    if let Some(index) = free.pop() {
        values[index as usize] = value;
        return index;
    }
    values.push(value);
    (values.len() - 1) as u32
}
