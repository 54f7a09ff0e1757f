//! A TCP flow: both directions.

use super::{ACK, Arrival, FIN, FlowDirection, RST, SYN};
use crate::packet::{FlowEndpoint, PacketHeaders, PacketTooBig, Tcp};

/// Most ICMP messages that are kept for a flow.
const TOO_BIG_MESSAGES: usize = 32;

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

    /// Accounts for a packet that end `side` sent. Returns the range of its payload in the direction.
    #[inline]
    pub fn packet(
        &mut self,
        side: usize,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        time_ns: u64,
    ) -> Option<Arrival> {
        self.last_ns = self.last_ns.max(time_ns);
        let [first, second] = &mut self.directions;
        let (own, peer) = if side == 0 { (first, second) } else { (second, first) };
        own.packets += 1;
        own.ip_bytes += u64::from(packet.ip_length);
        // A write of nothing would load a cache line that most packets do not need.
        if packet.congestion_experienced {
            own.congestion_experienced += 1;
        }
        if !own.started {
            own.start(tcp.sequence, tcp.flags & SYN != 0);
        }
        if tcp.flags & (SYN | FIN | RST) != 0 {
            Self::control(&mut self.end, &mut self.handshake_ns, own, tcp.flags, time_ns);
        }
        let mut arrival = None;
        if tcp.payload_length > 0 && tcp.flags & RST == 0 {
            own.largest_ip_bytes = own.largest_ip_bytes.max(packet.ip_length);
            // Data in a SYN (RFC 7413) begin after it.
            let start = own.position(tcp.sequence) + u64::from(tcp.flags & SYN != 0);
            arrival = Some(own.data(start, tcp.payload_length, packet.ip_length, time_ns));
            own.throughput.add(time_ns.saturating_sub(self.origin_ns), u64::from(tcp.payload_length));
        }
        if tcp.flags & ACK != 0 && tcp.flags & RST == 0 {
            if tcp.window == 0 && tcp.flags & SYN == 0 {
                own.zero_windows += 1;
            }
            if peer.started {
                let position = peer.position(tcp.acknowledgment);
                // An acknowledgment of data that were never sent is no acknowledgment; a capture may miss some packets.
                if peer.acknowledge(position, time_ns) {
                    if self.handshake_ns[2].is_none() && side == 0 && self.handshake_ns[1].is_some() {
                        self.handshake_ns[2] = Some(time_ns);
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
        arrival
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

    /// Takes over the figures of end `side` from the same flow at the point of capture nearer to it.
    pub fn take_sender(&mut self, side: usize, other: &mut Self) {
        let mut nearer = std::mem::take(&mut other.directions[side]);
        let direction = &mut self.directions[side];
        // Who carried new data is known at one point.
        nearer.goodput = std::mem::take(&mut direction.goodput);
        (nearer.last_new_ns, nearer.stall_ns) = (direction.last_new_ns, direction.stall_ns);
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

    /// From the SYN to the acknowledgment of the SYN/ACK.
    pub fn handshake_ns(&self) -> Option<u64> {
        let [syn, _, ack] = self.handshake_ns;
        ack?.checked_sub(syn?)
    }
}
