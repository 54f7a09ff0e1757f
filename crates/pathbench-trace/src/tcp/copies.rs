//! Copies of packets: what a mirror port, or several interfaces in one file, show more than once.
//!
//! A retransmission has the bytes of an earlier packet, too, but another identification of IPv4, or another time stamp. Where
//! a packet has neither, only the circumstances tell: a copy follows at once, before the peer can have said anything.

use super::{FIN, SYN};
use crate::packet::tcp_options::timestamps;
use crate::packet::{PacketHeaders, Tcp};
use std::collections::VecDeque;

/// Packets that each direction remembers.
const RECENT: usize = 4;
/// Those after the first copy: the copies of a queue follow behind it.
const MORE: usize = 256;
/// Longest time to a copy at the same hop.
const SAME_HOP_US: u32 = 100_000;
/// The same at another hop: its queue is in between.
const OTHER_HOP_US: u32 = 1_000_000;
/// The same without an identification.
const UNIDENTIFIED_US: u32 = 1_000;

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    hash: u32,
    time_us: u32,
    /// Packets of the peer before.
    peer: u16,
    hop_limit: u8,
}

/// The last packets of one direction: one cache line.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies {
    recent: [Seen; RECENT],
    /// Packets so far: the last one is at the index before.
    count: u32,
    identification: u16,
    /// The sender gives different packets the same identification.
    is_constant: bool,
    #[expect(
        clippy::box_collection,
        reason = "most directions have none, and the others fit into one cache line"
    )]
    more: Option<Box<VecDeque<Seen>>>,
}

impl Copies {
    /// Loads the packets into the processor's cache.
    #[inline]
    pub(super) fn touch(&self) {
        std::hint::black_box(self.count);
    }

    /// Whether a packet is a copy of one of the last; it is remembered if not. `peer` counts the packets of the peer.
    #[inline]
    pub(super) fn is_copy(
        &mut self,
        packet: &PacketHeaders<'_>,
        tcp: &Tcp<'_>,
        time_ns: u64,
        peer: u64,
    ) -> bool {
        let identified = packet.identification != 0 && !self.is_constant;
        let stamp = if identified { None } else { timestamps(tcp.options) };
        let hash = hash(packet, tcp, if identified { packet.identification } else { 0 }, stamp);
        let seen =
            Seen { hash, time_us: (time_ns / 1_000) as u32, peer: peer as u16, hop_limit: packet.hop_limit };
        let last = (self.count as usize).wrapping_sub(1) % RECENT;
        if self.recent.iter().any(|recent| recent.hash == hash) || self.more.is_some() {
            let evidence = Evidence { identified, stamped: stamp.is_some(), kind: Kind::classify(tcp) };
            if self.has(&seen, &evidence) {
                self.more.get_or_insert_with(|| Box::new(self.recent.into()));
                return true;
            }
        }
        if packet.identification == self.identification && self.count > 0 && identified {
            self.is_constant = self.recent[last].hash != hash;
        }
        self.identification = packet.identification;
        self.recent[self.count as usize % RECENT] = seen;
        self.count = self.count.wrapping_add(1);
        if let Some(more) = &mut self.more {
            if more.len() == MORE {
                more.pop_front();
            }
            more.push_back(seen);
        }
        false
    }

    #[cold]
    fn has(&self, seen: &Seen, evidence: &Evidence) -> bool {
        let confirmed = self.more.is_some();
        let recent = self.recent.iter().take(self.count as usize);
        recent
            .chain(self.more.iter().flat_map(|more| more.iter()))
            .any(|earlier| earlier.hash == seen.hash && evidence.shows(earlier, seen, confirmed))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No host sends a SYN again so soon.
    Syn,
    /// An acknowledgment without data: hosts send equal ones.
    Acknowledgment,
    Data,
}

impl Kind {
    fn classify(tcp: &Tcp<'_>) -> Self {
        if tcp.flags & SYN != 0 {
            Self::Syn
        } else if tcp.payload_length == 0 && tcp.flags & FIN == 0 {
            Self::Acknowledgment
        } else {
            Self::Data
        }
    }
}

struct Evidence {
    identified: bool,
    stamped: bool,
    kind: Kind,
}

impl Evidence {
    fn shows(&self, earlier: &Seen, seen: &Seen, confirmed: bool) -> bool {
        let age_us = seen.time_us.wrapping_sub(earlier.time_us);
        if earlier.hop_limit != seen.hop_limit {
            return age_us <= if self.identified || self.stamped { OTHER_HOP_US } else { SAME_HOP_US };
        }
        if self.identified {
            return age_us <= SAME_HOP_US;
        }
        let is_telling = match self.kind {
            Kind::Syn => true,
            Kind::Acknowledgment => false,
            Kind::Data => self.stamped,
        };
        let at_once = earlier.peer == seen.peer && is_telling;
        age_us <= UNIDENTIFIED_US && (confirmed || at_once)
    }
}

#[inline]
fn hash(packet: &PacketHeaders<'_>, tcp: &Tcp<'_>, identification: u16, stamp: Option<(u32, u32)>) -> u32 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let numbers = u64::from(tcp.sequence) << 32 | u64::from(tcp.acknowledgment);
    let flags = u64::from(tcp.flags) << 48 | u64::from(tcp.window) << 32;
    let rest = flags | u64::from(identification) << 16 ^ u64::from(packet.ip_length);
    let stamps = stamp.map_or(0, |(value, echo)| u64::from(value) << 32 | u64::from(echo));
    let folded = fold(numbers ^ 0x9e37_79b9_7f4a_7c15, rest ^ 0xd6e8_feb8_6659_fd93);
    let folded = if stamps == 0 { folded } else { fold(folded ^ stamps, 0xa076_1d64_78bd_642f) };
    folded as u32 ^ (folded >> 32) as u32
}
