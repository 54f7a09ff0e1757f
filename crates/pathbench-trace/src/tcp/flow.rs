//! A TCP flow: both directions.

use super::{ACK, Arrival, FIN, FlowDirection, Handshake, Opening, RST, SYN};
use crate::packet::tcp_options::{TcpOption, options};
use crate::packet::{FlowEndpoint, PacketHeaders, PacketTooBig, Tcp};

/// Most ICMP messages that are kept for a flow.
const TOO_BIG_MESSAGES: usize = 32;

/// Bytes that a client sends before the first answer that was captured.
const FIRST_FLIGHT: i64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlowEnd {
    #[default]
    Open,
    Fin,
    Reset,
}

impl FlowEnd {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Fin => "fin",
            Self::Reset => "reset",
        }
    }
}

/// How a packet belongs to its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// Of the connection, with the range of its payload.
    Taken(Option<Arrival>),
    /// A copy of a packet that was captured before.
    Copy,
    /// Outside the window: it proves nothing about the connection.
    OutOfWindow,
}

/// An ICMP message about a packet of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooBig {
    pub time_ns: u64,
    pub mtu: u32,
    pub packet_bytes: u32,
    /// Of the packet that was too big: index of its sender.
    pub side: usize,
}

/// A flow at one point of capture. Index 0 is the end that sent the SYN.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    pub ends: [FlowEndpoint; 2],
    /// Index of the sender's direction: data that this end sends.
    pub directions: [FlowDirection; 2],
    pub first_ns: u64,
    /// Start of the connection, from which series count.
    pub origin_ns: u64,
    pub last_ns: u64,
    pub end: FlowEnd,
    /// Times of SYN, SYN/ACK and the ACK after it.
    pub handshake_ns: [Option<u64>; 3],
    pub handshake: Handshake,
    pub too_big: Vec<TooBig>,
}

impl Flow {
    /// A flow that begins with a packet from `source`. Without a SYN, the end with the lower port is the server.
    pub fn new(packet: &PacketHeaders<'_>, tcp: &Tcp<'_>, time_ns: u64) -> Self {
        let (source, destination) = (packet.source, packet.destination);
        let source_is_client = match tcp.flags & (SYN | ACK) {
            SYN => true,
            f if f == SYN | ACK => false,
            _ => source.port >= destination.port,
        };
        let ends = if source_is_client { [source, destination] } else { [destination, source] };
        Self { ends, first_ns: time_ns, origin_ns: time_ns, last_ns: time_ns, ..Self::default() }
    }

    /// Index of the end that sent a packet.
    #[inline]
    pub fn side(&self, source: FlowEndpoint) -> usize {
        usize::from(source != self.ends[0])
    }

    /// Accounts for a packet that end `side` sent.
    #[inline]
    pub fn packet(
        &mut self,
        side: usize,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        time_ns: u64,
    ) -> Receipt {
        self.last_ns = self.last_ns.max(time_ns);
        let peer_packets = self.directions[1 - side].packets;
        if self.directions[side].copies.is_copy(packet, tcp, time_ns, peer_packets) {
            self.directions[side].duplicates += 1;
            return Receipt::Copy;
        }
        if !self.continues(side, tcp) {
            let receipt = self.judge(side, packet, tcp, time_ns);
            if receipt != Receipt::Taken(None) {
                return receipt;
            }
        }
        let [first, second] = &mut self.directions;
        let (own, peer) = if side == 0 { (first, second) } else { (second, first) };
        own.packets += 1;
        own.ip_bytes += u64::from(packet.ip_length);
        // A write of nothing would load a cache line that most packets do not need.
        if packet.congestion_experienced {
            own.congestion_experienced += 1;
        }
        if !own.started && tcp.flags & RST == 0 {
            own.start(tcp.sequence, tcp.flags & SYN != 0);
        }
        if tcp.flags & (SYN | FIN | RST) != 0 {
            Self::control(&mut self.end, &mut self.handshake_ns, own, tcp.flags, time_ns);
            self.handshake.control(side, packet, tcp, time_ns);
        }
        let arrival = Self::payload(own, peer, packet, tcp, (time_ns, self.origin_ns));
        if tcp.flags & ACK != 0 && tcp.flags & RST == 0 {
            if tcp.flags & SYN == 0 {
                own.window.advertise(tcp.window, time_ns);
                if tcp.window == 0 {
                    own.zero_windows += 1;
                }
            }
            if peer.started {
                let position = peer.position(tcp.acknowledgment);
                // An acknowledgment of data that were never sent is no acknowledgment; a capture may miss some packets.
                if peer.acknowledge(position, time_ns) {
                    if self.handshake_ns[2].is_none() && side == 0 && self.handshake_ns[1].is_some() {
                        self.handshake_ns[2] = Some(time_ns);
                        self.handshake.complete(tcp, time_ns);
                    }
                } else if tcp.payload_length == 0
                    && tcp.flags & (SYN | FIN) == 0
                    && position == peer.acknowledged
                    && peer.next > position
                {
                    own.duplicate_acks += 1;
                }
            }
        }
        Receipt::Taken(arrival)
    }

    /// The payload of a segment, if it is data.
    #[inline]
    fn payload(
        own: &mut FlowDirection,
        peer: &FlowDirection,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        (time_ns, origin_ns): (u64, u64),
    ) -> Option<Arrival> {
        if tcp.payload_length <= 1 && tcp.flags & (SYN | FIN | RST) == 0 && own.started {
            // RFC 9293, section 3.8.4: one before the next sequence number, after everything was acknowledged or while the
            // window is zero.
            let asks = own.acknowledged >= own.next || peer.window.is_zero();
            if own.distance(tcp.sequence) == -1 && asks {
                own.keep_alives += 1;
                return None;
            }
        }
        if tcp.payload_length == 0 || tcp.flags & RST != 0 {
            return None;
        }
        own.largest_ip_bytes = own.largest_ip_bytes.max(packet.ip_length);
        // Data in a SYN (RFC 7413) begin after it.
        let start = own.position(tcp.sequence) + u64::from(tcp.flags & SYN != 0);
        let arrival = own.data(start, tcp.payload_length, packet.ip_length, time_ns);
        own.throughput.add(time_ns.saturating_sub(origin_ns), u64::from(tcp.payload_length));
        Some(arrival)
    }

    /// A segment that is next in its direction, and acknowledges what is not yet acknowledged.
    #[inline]
    fn continues(&self, side: usize, tcp: &Tcp<'_>) -> bool {
        let (own, peer) = (&self.directions[side], &self.directions[1 - side]);
        let unacknowledged = peer.next.saturating_sub(peer.acknowledged) as i64;
        tcp.flags & (SYN | RST | ACK) == ACK
            && own.started
            && peer.started
            && own.distance(tcp.sequence) == 0
            && (-unacknowledged..=0).contains(&peer.distance(tcp.acknowledgment))
            && own.elsewhere.2 == 0
    }

    /// Judges a segment by the state of both directions (RFC 9293, section 3.10.7; RFC 5961): `Taken(None)` if it belongs
    /// to the connection.
    #[cold]
    fn judge(&mut self, side: usize, packet: &PacketHeaders<'_>, tcp: &Tcp<'_>, time_ns: u64) -> Receipt {
        if tcp.flags & SYN != 0 {
            if let Some(receipt) = self.judge_syn(side, packet, tcp, time_ns) {
                return receipt;
            }
        } else if side == 0 && tcp.flags & ACK != 0 && self.handshake_ns[2].is_none() {
            // The client decides which of two SYN/ACKs counts.
            let answer = &mut self.directions[1];
            let other = answer.other_initial.map(|other| other.wrapping_add(1));
            if answer.next == 1 && other == Some(tcp.acknowledgment) {
                answer.exchange_initial();
            }
        }
        let (sequence, acknowledgment) = (tcp.sequence, tcp.acknowledgment);
        if self.fits(side, tcp.flags, sequence, acknowledgment) {
            self.directions[side].elsewhere.2 = 0;
            return Receipt::Taken(None);
        }
        // The numbers of the far side of a middlebox, of one end or of both.
        let own = self.directions[side].translated(sequence);
        let peer = self.directions[1 - side].translated(acknowledgment);
        let pairs = [(own, Some(acknowledgment)), (Some(sequence), peer), (own, peer)];
        let is_translated = pairs.into_iter().any(|pair| {
            matches!(pair, (Some(sequence), Some(acknowledgment))
                if self.fits(side, tcp.flags, sequence, acknowledgment))
        });
        let direction = &mut self.directions[side];
        if is_translated {
            if tcp.flags & SYN != 0 && !direction.started {
                direction.other_initial = Some(sequence);
            }
            direction.duplicates += 1;
            return Receipt::Copy;
        }
        if self.is_elsewhere(side, tcp) {
            return Receipt::Taken(None);
        }
        let direction = &mut self.directions[side];
        direction.out_of_window += 1;
        direction.packets += 1;
        direction.ip_bytes += u64::from(packet.ip_length);
        Receipt::OutOfWindow
    }

    /// A SYN with another sequence number than the one before.
    fn judge_syn(
        &mut self,
        side: usize,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        time_ns: u64,
    ) -> Option<Receipt> {
        let scale = options(tcp.options).find_map(|option| match option {
            TcpOption::WindowScale(scale) => Some(scale),
            _ => None,
        });
        let direction = &self.directions[side];
        let is_same = direction.initial_sequence().is_none_or(|initial| initial == tcp.sequence);
        // A client sends a SYN, a server a SYN/ACK; with other flags, or after data, it is of another connection.
        let is_begun = direction.next > 1 || (tcp.flags & ACK != 0) != (side == 1);
        if !is_same && (is_begun || !self.answers(side, tcp)) {
            return None;
        }
        let direction = &mut self.directions[side];
        direction.window.set_scale(scale);
        if is_same {
            return None;
        }
        direction.other_initial = Some(tcp.sequence);
        if tcp.flags & ACK == 0 || self.handshake.is_rewritten(packet, tcp, time_ns) {
            direction.duplicates += 1;
            return Some(Receipt::Copy);
        }
        Some(Receipt::Taken(None))
    }

    /// A SYN/ACK acknowledges the SYN, in one of its numberings.
    fn answers(&self, side: usize, tcp: &Tcp<'_>) -> bool {
        let (own, peer) = (&self.directions[side], &self.directions[1 - side]);
        let numbers = [Some(tcp.acknowledgment), peer.translated(tcp.acknowledgment)];
        tcp.flags & ACK == 0 || numbers.into_iter().flatten().any(|number| peer.admits(number, own))
    }

    /// The numbers of a segment are within the windows.
    fn fits(&self, side: usize, flags: u8, sequence: u32, acknowledgment: u32) -> bool {
        let (own, peer) = (&self.directions[side], &self.directions[1 - side]);
        let is_ahead = own.syn_captured && !peer.started && own.distance(sequence) > FIRST_FLIGHT;
        let sent = own.admits(sequence, peer) && !is_ahead;
        // The first answer to a SYN acknowledges what a SYN can have been followed by.
        let is_first = !own.started && peer.syn_captured;
        let acknowledged = peer.admits(acknowledgment, own)
            && (!is_first || (-(peer.next as i64)..=FIRST_FLIGHT).contains(&peer.distance(acknowledgment)));
        match flags & (RST | ACK) {
            // A host that knows nothing of the connection has only the other's numbers.
            f if f == RST | ACK => (own.started && sent) || acknowledged,
            RST if !peer.started && own.syn_captured => {
                own.started && own.distance(sequence).abs() <= FIRST_FLIGHT
            }
            RST => sent && (own.started || !peer.syn_captured),
            0 => sent,
            _ => sent && acknowledged,
        }
    }

    /// Several segments outside the window that continue each other, while none is within it: the capture has a gap.
    fn is_elsewhere(&mut self, side: usize, tcp: &Tcp<'_>) -> bool {
        const ENOUGH: u8 = 3;
        let [client, server] = &mut self.directions;
        let (own, peer) = if side == 0 { (client, server) } else { (server, client) };
        if tcp.flags & (SYN | RST | ACK) != ACK || !own.started {
            return false;
        }
        let count = if own.goes_on_elsewhere(tcp) { own.elsewhere.2 } else { 0 };
        own.elsewhere = (tcp.sequence, tcp.acknowledgment, count + 1);
        if own.elsewhere.2 < ENOUGH {
            return false;
        }
        own.elsewhere.2 = 0;
        let is_ahead = own.syn_captured && !peer.started;
        let skips = [
            is_ahead || !own.admits(tcp.sequence, peer),
            peer.started && !peer.admits(tcp.acknowledgment, own),
        ];
        if skips[0] {
            own.skip_to(tcp.sequence);
        }
        if skips[1] {
            peer.skip_to(tcp.acknowledgment);
        }
        true
    }

    fn control(
        end: &mut FlowEnd,
        handshake: &mut [Option<u64>; 3],
        own: &mut FlowDirection,
        flags: u8,
        time_ns: u64,
    ) {
        if flags & SYN != 0 {
            handshake[usize::from(flags & ACK != 0)].get_or_insert(time_ns);
        }
        if flags & FIN != 0 {
            own.fin = true;
            if *end == FlowEnd::Open {
                *end = FlowEnd::Fin;
            }
        }
        if flags & RST != 0 {
            *end = FlowEnd::Reset;
        }
    }

    /// A SYN with another sequence number is the same SYN, on the other side of a middlebox that rewrites it.
    pub fn is_rewritten_syn(&self, packet: &PacketHeaders<'_>, tcp: &Tcp<'_>, time_ns: u64) -> bool {
        let [client, server] = &self.directions;
        client.other_initial == Some(tcp.sequence)
            || (client.next == 1 && !server.started && self.handshake.is_rewritten(packet, tcp, time_ns))
    }

    /// A segment of another connection between the same ends, whose SYN was not captured: this one has closed.
    pub fn is_past(&self, source: FlowEndpoint, tcp: &Tcp<'_>) -> bool {
        let side = self.side(source);
        self.closed()
            && tcp.flags & (SYN | RST) == 0
            && self.directions[side].goes_on_elsewhere(tcp)
            && !self.fits(side, tcp.flags, tcp.sequence, tcp.acknowledgment)
    }

    /// Packets with more payload than a segment can have: the offload of the capturing host joined them.
    pub fn offload_packets(&self) -> u64 {
        /// No interface takes larger packets, except loopback, whose SYNs say so.
        const LARGEST_PAYLOAD: u32 = 9_216;
        let announced = self.directions.iter().filter_map(|sent| sent.mss).min();
        let largest = announced.map_or(LARGEST_PAYLOAD, u32::from);
        self.directions.iter().map(|sent| sent.sizes.packets_above(largest)).sum()
    }

    /// The fate of the SYN; `None` if it is not known.
    pub fn opening(&self) -> Option<Opening> {
        let [client, server] = self.directions.each_ref().map(|sent| sent.packets - sent.out_of_window);
        self.handshake.opening(client, server, self.handshake_ns[1].is_some())
    }

    /// Takes over the figures of end `side` from the same flow at the point of capture nearer to it.
    pub fn take_sender(&mut self, side: usize, other: &mut Self) {
        let mut nearer = std::mem::take(&mut other.directions[side]);
        let direction = &mut self.directions[side];
        // Who carried new data is known at one point.
        nearer.goodput = std::mem::take(&mut direction.goodput);
        (nearer.last_new_ns, nearer.stall_ns) = (direction.last_new_ns, direction.stall_ns);
        nearer.stall_start_ns = direction.stall_start_ns;
        *direction = nearer;
    }

    /// Both ends have closed, or one has reset the connection.
    pub fn closed(&self) -> bool {
        self.end == FlowEnd::Reset || self.directions.iter().all(|direction| direction.fin)
    }

    /// Accounts for a router's report about a packet of this flow; `false` if the flow has not sent such a packet.
    pub fn too_big(&mut self, message: &PacketTooBig, time_ns: u64) -> bool {
        let side = self.side(message.source);
        let direction = &self.directions[side];
        let sent = message.sequence.is_none_or(|sequence| {
            let position = direction.position(sequence);
            position < direction.next && position + (1 << 30) > direction.next
        });
        if sent && self.too_big.len() < TOO_BIG_MESSAGES {
            let (mtu, packet_bytes) = (message.mtu, message.ip_length);
            self.too_big.push(TooBig { time_ns, mtu, packet_bytes, side });
        }
        sent
    }
}
