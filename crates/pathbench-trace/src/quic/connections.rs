//! Which UDP packet belongs to which connection.

use super::connection::{CLIENT, Connection, PacketContext, Scratch};
use super::datagram::open;
use super::header::{ConnectionId, Header, Long, LongType, is_plausible_version, parse};
use super::keylog::Keylog;
use super::{keys, output};
use crate::packet::{FlowEndpoint, PacketHeaders, Udp};
use pathbench_record::trace::TracedConnection;
use std::collections::{HashMap, HashSet};

/// Connections in memory; at this count the quarter that is idle longest is concluded.
const MAX_LIVE: usize = 10_000;
/// Connections in the result.
const MAX_CONCLUDED: usize = 10_000;
/// UDP flows without QUIC that are counted one by one.
const MAX_OTHER: usize = 100_000;
/// Shortest datagram with a client's Initial packet (RFC 9000, section 14.1).
const MIN_INITIAL: u32 = 1200;
/// Shortest connection id that assigns a packet of an unknown 4-tuple to a connection.
const MIN_LINKING_ID: usize = 4;

type Flow = (FlowEndpoint, FlowEndpoint);

/// Counts over all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuicTotals {
    pub connections: u64,
    /// UDP flows without a recognised QUIC handshake.
    pub other_udp_flows: u64,
    /// Payload of all UDP packets.
    pub payload_bytes: u64,
    /// Connections that are not in the result, and flows that are not told apart.
    pub discarded: u64,
}

/// Assigns UDP packets to QUIC connections and their paths.
#[derive(Debug, Default)]
pub struct Quic {
    keylog: Keylog,
    live: HashMap<u64, Connection>,
    next: u64,
    /// Connection, sender and path of each direction of a 4-tuple.
    flows: HashMap<Flow, (u64, usize, usize)>,
    /// Connection and the end that chose the id.
    ids: HashMap<ConnectionId, (u64, usize)>,
    /// Known ids per length.
    id_lengths: [usize; 21],
    concluded: Vec<TracedConnection>,
    other: HashSet<Flow>,
    totals: QuicTotals,
    origin_ns: Option<u64>,
    scratch: Scratch,
}

impl Quic {
    pub fn new(keylog: Option<Keylog>) -> Self {
        Self { keylog: keylog.unwrap_or_default(), ..Self::default() }
    }

    /// Adds secrets in the format of `SSLKEYLOGFILE` for the handshakes that follow.
    pub fn add_secrets(&mut self, key_log: &[u8]) {
        self.keylog.extend(key_log);
    }

    /// Packets in order of time.
    pub fn push(&mut self, time_ns: u64, packet: &PacketHeaders<'_>, udp: &Udp<'_>) {
        let origin = *self.origin_ns.get_or_insert(time_ns);
        // A clock that was set back.
        let time_ns = time_ns.max(origin);
        self.totals.payload_bytes += u64::from(udp.payload_length);
        let flow = (packet.source, packet.destination);
        let Some((id, side, path)) = self.find(time_ns, flow, udp) else {
            self.count_other(flow);
            return;
        };
        let Some(connection) = self.live.get_mut(&id) else { return };
        let context = PacketContext { time_ns, side, path };
        let since_start = time_ns.saturating_sub(connection.start_ns);
        if let Some(path) = connection.paths.get_mut(path) {
            path.end_ns = path.end_ns.max(time_ns);
            let marked = packet.congestion_experienced;
            path.directions[side].add(since_start, packet.ip_length, udp.payload_length, marked);
        }
        connection.datagram(context, udp.payload, &self.keylog, &mut self.scratch);
        let changes = std::mem::take(&mut connection.id_changes);
        for change in changes {
            if change.added {
                self.add_id(change.id, id, change.side);
            } else {
                self.remove_id(&change.id, id);
            }
        }
    }

    /// Connection, sender and path of a packet.
    fn find(&mut self, time_ns: u64, flow: Flow, udp: &Udp<'_>) -> Option<(u64, usize, usize)> {
        let known = self.flows.get(&flow).copied();
        let Some((header, _)) = parse(udp.payload) else { return known };
        let (destination, owner) = match header {
            Header::Short { packet } => {
                // The common case first.
                if known.is_some_and(|(id, side, _)| self.is_to(id, side, packet)) {
                    return known;
                }
                (ConnectionId::default(), self.owner_of_short(packet))
            }
            Header::Long(Long { destination, .. })
            | Header::Retry { destination, .. }
            | Header::VersionNegotiation { destination, .. }
            | Header::UnknownVersion { destination, .. } => {
                (destination, self.ids.get(&destination).copied())
            }
        };
        if let Some((id, owner_side)) = owner {
            if known.is_some_and(|known| known.0 == id) {
                return known;
            }
            // A long id belongs to the connection on any 4-tuple, a short one may be in use twice.
            if !matches!(header, Header::Short { .. })
                && known.is_some()
                && destination.len() < MIN_LINKING_ID
            {
                return known;
            }
            return self.add_path(time_ns, flow, id, 1 - owner_side);
        }
        let is_new = |long: &Long<'_>| long.long_type == LongType::Initial && !long.is_truncated();
        match (known, header) {
            (None, header) => self.begin(time_ns, flow, &header, udp),
            // A further connection between the same ports, or the same one after version negotiation.
            (Some((id, side, path)), Header::Long(long)) if is_new(&long) && self.is_first(&long) => {
                let renewed = self.live.get_mut(&id).filter(|connection| connection.version_negotiation);
                match renewed {
                    Some(connection) if side == CLIENT => {
                        connection.rekey(long.version, long.destination);
                        Some((id, side, path))
                    }
                    _ => self.begin(time_ns, flow, &header, udp),
                }
            }
            (known, _) => known,
        }
    }

    /// Whether the packet has a connection id that the receiver of the flow chose.
    fn is_to(&self, id: u64, side: usize, packet: &[u8]) -> bool {
        let ids = self.live.get(&id).map(|connection| &connection.ids[1 - side]);
        let after = packet.get(1..).unwrap_or_default();
        ids.is_some_and(|ids| {
            ids.iter().any(|(known, _)| !known.is_empty() && after.starts_with(known.as_slice()))
        })
    }

    fn owner_of_short(&self, packet: &[u8]) -> Option<(u64, usize)> {
        (MIN_LINKING_ID..self.id_lengths.len()).rev().find_map(|length| {
            self.id_lengths.get(length).filter(|&&known| known > 0)?;
            let id = ConnectionId::new(packet.get(1..)?.get(..length)?)?;
            self.ids.get(&id).copied()
        })
    }

    /// Whether the keys that follow from its connection id decrypt the packet: a client sent it first.
    fn is_first(&mut self, long: &Long<'_>) -> bool {
        let keys = keys::initial(long.version, &long.destination);
        keys.and_then(|[client, _]| open(&client, long, 0, &mut self.scratch)).is_some()
    }

    /// A flow is QUIC from its first decrypted Initial packet on, or from a long header of a plausible version.
    fn begin(
        &mut self,
        time_ns: u64,
        flow: Flow,
        header: &Header<'_>,
        udp: &Udp<'_>,
    ) -> Option<(u64, usize, usize)> {
        let sender = match header {
            Header::Long(long) => {
                let first =
                    long.long_type == LongType::Initial && !long.is_truncated() && self.is_first(long);
                if first {
                    CLIENT
                } else if long.length > udp.payload_length as usize
                    || long.length < long.number_offset + 4 + 16
                {
                    return None;
                } else {
                    // The packet is truncated, or the connection began before the capture; the server's port is the
                    // lower one.
                    usize::from(flow.0.port < flow.1.port)
                }
            }
            Header::UnknownVersion { version, .. }
                if is_plausible_version(*version) && udp.payload_length >= MIN_INITIAL =>
            {
                CLIENT
            }
            _ => return None,
        };
        self.evict();
        let (client, server) = if sender == CLIENT { flow } else { (flow.1, flow.0) };
        let id = self.next;
        self.next += 1;
        self.totals.connections += 1;
        self.live.insert(id, Connection::new(time_ns, client, server, header));
        Some(self.assign(flow, id, sender, 0))
    }

    fn add_path(&mut self, time_ns: u64, flow: Flow, id: u64, side: usize) -> Option<(u64, usize, usize)> {
        let connection = self.live.get_mut(&id)?;
        let (client, server) = if side == CLIENT { flow } else { (flow.1, flow.0) };
        match connection.add_path(time_ns, client, server) {
            Some(path) => Some(self.assign(flow, id, side, path)),
            // Counted on the last path; the 4-tuple is not kept.
            None => Some((id, side, connection.paths.len().checked_sub(1)?)),
        }
    }

    fn assign(&mut self, flow: Flow, id: u64, side: usize, path: usize) -> (u64, usize, usize) {
        self.flows.insert(flow, (id, side, path));
        self.flows.insert((flow.1, flow.0), (id, 1 - side, path));
        self.other.remove(&undirected(flow));
        (id, side, path)
    }

    fn add_id(&mut self, id: ConnectionId, connection: u64, side: usize) {
        if !id.is_empty()
            && self.ids.insert(id, (connection, side)).is_none()
            && let Some(count) = self.id_lengths.get_mut(id.len())
        {
            *count += 1;
        }
    }

    fn remove_id(&mut self, id: &ConnectionId, connection: u64) {
        if self.ids.get(id).is_some_and(|owner| owner.0 == connection) {
            self.ids.remove(id);
            if let Some(count) = self.id_lengths.get_mut(id.len()) {
                *count -= 1;
            }
        }
    }

    fn count_other(&mut self, flow: Flow) {
        let flow = undirected(flow);
        if self.other.len() < MAX_OTHER {
            self.other.insert(flow);
        } else if !self.other.contains(&flow) {
            self.totals.discarded += 1;
        }
    }

    /// Concludes the connections that are idle longest when there are too many.
    fn evict(&mut self) {
        if self.live.len() < MAX_LIVE {
            return;
        }
        let mut idle: Vec<_> = self.live.iter().map(|(&id, connection)| (connection.end_ns, id)).collect();
        idle.sort_unstable();
        for (_, id) in idle.into_iter().take(MAX_LIVE / 4) {
            if let Some(connection) = self.live.remove(&id) {
                self.conclude(id, &connection);
            }
        }
    }

    fn conclude(&mut self, id: u64, connection: &Connection) {
        for path in &connection.paths {
            for flow in [(path.client, path.server), (path.server, path.client)] {
                if self.flows.get(&flow).is_some_and(|known| known.0 == id) {
                    self.flows.remove(&flow);
                }
            }
        }
        self.remove_id(&connection.original, id);
        for (known, _) in connection.ids.iter().flatten() {
            self.remove_id(known, id);
        }
        if self.concluded.len() < MAX_CONCLUDED {
            self.concluded.push(output::connection(id, connection, self.origin_ns.unwrap_or_default()));
        } else {
            self.totals.discarded += 1;
        }
    }

    /// Counts so far.
    pub fn totals(&self) -> QuicTotals {
        QuicTotals { other_udp_flows: self.other.len() as u64, ..self.totals }
    }

    /// All connections in order of their first packet, which their ids number from 0. Times count from `origin_ns`.
    pub fn finish(mut self, origin_ns: u64) -> Vec<TracedConnection> {
        for (id, connection) in std::mem::take(&mut self.live) {
            self.conclude(id, &connection);
        }
        let shift = self.origin_ns.unwrap_or(origin_ns).abs_diff(origin_ns) as f64 / 1e9;
        let shift = if self.origin_ns.unwrap_or(origin_ns) < origin_ns { -shift } else { shift };
        self.concluded.sort_by_key(|connection| connection.id);
        for connection in &mut self.concluded {
            output::shift(connection, shift);
        }
        self.concluded
    }
}

fn undirected(flow: Flow) -> Flow {
    (flow.0.min(flow.1), flow.0.max(flow.1))
}
