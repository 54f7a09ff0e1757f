//! Reassembly of IP fragments (RFC 791, section 3.2; RFC 8200, section 4.5) with bounded memory.

use super::address::Address;
use super::headers::{Dissected, Fragment};
use super::network::dissect_reassembled;
use super::transport::IpPacket;
use std::collections::VecDeque;

const MAXIMUM_DATAGRAMS: usize = 256;
const MAXIMUM_BYTES: usize = 8 << 20;
const MAXIMUM_PAYLOAD: u32 = 65_535;
/// Of Linux (`net.ipv4.ipfrag_time`).
const TIMEOUT_NS: u64 = 30_000_000_000;
/// Counted per fragment besides its bytes.
const FRAGMENT_OVERHEAD: usize = 64;

/// Fragments of incomplete datagrams: at most 256 datagrams and 8 MiB. Interfaces are not distinguished: use one
/// `Reassembly` for each interface that captures the same packets.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// By the arrival of the first fragment.
    datagrams: VecDeque<Partial>,
    bytes: usize,
    discarded: Discarded,
}

/// Datagrams that were not reassembled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discarded {
    /// Fragments overlap (RFC 5722), or disagree on the end of the datagram.
    pub overlapping: u64,
    /// The oldest, at the limit of 256 datagrams or 8 MiB.
    pub evicted: u64,
    /// Incomplete after 30 s.
    pub timed_out: u64,
    /// Single fragments: empty, beyond 65,535 bytes, or not the last and no multiple of 8 bytes.
    pub malformed_fragments: u64,
}

/// A reassembled datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    source: Address,
    destination: Address,
    /// Of IPv4, otherwise 0.
    identification: u16,
    ipv6: bool,
    first: First,
    congestion_experienced: bool,
    /// Captured bytes from offset 0, without a gap.
    payload: Vec<u8>,
    payload_length: u32,
}

/// Fields of the first fragment's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct First {
    protocol: u8,
    header_length: u32,
    hop_limit: u8,
}

impl Datagram {
    /// `ip_length` is that of the packet before it was fragmented.
    pub fn dissect(&self) -> Dissected<'_> {
        let ip = IpPacket {
            source: self.source,
            destination: self.destination,
            ip_length: self.first.header_length + self.payload_length,
            identification: self.identification,
            hop_limit: self.first.hop_limit,
            congestion_experienced: self.congestion_experienced,
            protocol: self.first.protocol,
            payload: &self.payload,
            payload_length: self.payload_length,
        };
        dissect_reassembled(ip, self.ipv6)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    identification: u32,
    source: Address,
    destination: Address,
    /// Of IPv4. The next header of IPv6 may differ between fragments.
    protocol: Option<u8>,
}

#[derive(Debug)]
struct Partial {
    key: Key,
    since_ns: u64,
    first: Option<First>,
    congestion_experienced: bool,
    /// Known from the last fragment.
    payload_length: Option<u32>,
    /// By offset, without overlaps.
    pieces: Vec<Piece>,
    /// On the wire.
    received: u32,
    /// RFC 5722: fragments that arrive later are discarded, too.
    discarded: bool,
}

#[derive(Debug)]
struct Piece {
    offset: u32,
    length: u32,
    captured: Box<[u8]>,
}

impl Piece {
    fn end(&self) -> u32 {
        self.offset + self.length
    }

    fn cost(&self) -> usize {
        self.captured.len() + FRAGMENT_OVERHEAD
    }

    fn is_duplicate(&self, fragment: &Fragment<'_>) -> bool {
        self.offset == fragment.offset
            && self.length == fragment.payload_length
            && self.captured.iter().zip(fragment.payload).all(|(a, b)| a == b)
    }
}

enum Insertion {
    Stored(usize),
    Duplicate,
    Overlap,
}

impl Reassembly {
    pub fn discarded(&self) -> Discarded {
        self.discarded
    }

    /// Incomplete datagrams, with those whose later fragments are discarded.
    pub fn pending(&self) -> usize {
        self.datagrams.len()
    }

    /// Returns the datagram that `fragment` completes.
    pub fn push(&mut self, time_ns: u64, fragment: &Fragment<'_>) -> Option<Datagram> {
        self.time_out(time_ns);
        if !is_well_formed(fragment) {
            self.discarded.malformed_fragments += 1;
            return None;
        }
        let index = self.find_or_add(time_ns, fragment);
        let partial = self.datagrams.get_mut(index)?;
        if partial.discarded {
            return None;
        }
        match partial.insert(fragment) {
            Insertion::Stored(cost) => self.bytes += cost,
            Insertion::Duplicate => return None,
            Insertion::Overlap => {
                self.bytes -= partial.cost();
                partial.pieces = Vec::new();
                partial.discarded = true;
                self.discarded.overlapping += 1;
                return None;
            }
        }
        if partial.is_complete() {
            let partial = self.datagrams.remove(index)?;
            self.bytes -= partial.cost();
            return partial.assemble();
        }
        while self.bytes > MAXIMUM_BYTES {
            self.evict();
        }
        None
    }

    fn time_out(&mut self, time_ns: u64) {
        while let Some(oldest) = self.datagrams.front()
            && time_ns.saturating_sub(oldest.since_ns) > TIMEOUT_NS
        {
            self.discarded.timed_out += u64::from(!oldest.discarded);
            self.remove_oldest();
        }
    }

    fn evict(&mut self) {
        self.discarded.evicted += u64::from(self.datagrams.front().is_some_and(|oldest| !oldest.discarded));
        self.remove_oldest();
    }

    fn remove_oldest(&mut self) {
        if let Some(oldest) = self.datagrams.pop_front() {
            self.bytes -= oldest.cost();
        }
    }

    fn find_or_add(&mut self, time_ns: u64, fragment: &Fragment<'_>) -> usize {
        let key = Key {
            identification: fragment.identification,
            source: fragment.source,
            destination: fragment.destination,
            protocol: (!fragment.ipv6).then_some(fragment.protocol),
        };
        // Most fragments belong to the newest datagram.
        if let Some(index) = self.datagrams.iter().rposition(|partial| partial.key == key) {
            return index;
        }
        if self.datagrams.len() == MAXIMUM_DATAGRAMS {
            self.evict();
        }
        self.datagrams.push_back(Partial {
            key,
            since_ns: time_ns,
            first: None,
            congestion_experienced: false,
            payload_length: None,
            pieces: Vec::new(),
            received: 0,
            discarded: false,
        });
        self.datagrams.len() - 1
    }
}

fn is_well_formed(fragment: &Fragment<'_>) -> bool {
    fragment.payload_length > 0
        && fragment.offset.checked_add(fragment.payload_length).is_some_and(|end| end <= MAXIMUM_PAYLOAD)
        && (!fragment.more_fragments || fragment.payload_length.is_multiple_of(8))
}

impl Partial {
    fn cost(&self) -> usize {
        self.pieces.iter().map(Piece::cost).sum()
    }

    fn insert(&mut self, fragment: &Fragment<'_>) -> Insertion {
        let end = fragment.offset + fragment.payload_length;
        let position = self.pieces.partition_point(|piece| piece.offset < fragment.offset);
        if let Some(next) = self.pieces.get(position) {
            if next.is_duplicate(fragment) {
                return Insertion::Duplicate;
            }
            if next.offset < end {
                return Insertion::Overlap;
            }
        }
        let previous = position.checked_sub(1).and_then(|position| self.pieces.get(position));
        if previous.is_some_and(|previous| previous.end() > fragment.offset) {
            return Insertion::Overlap;
        }
        let last_end = self.pieces.last().map_or(0, Piece::end);
        let disagrees = match self.payload_length {
            Some(length) => end > length || !fragment.more_fragments,
            None => !fragment.more_fragments && last_end > end,
        };
        if disagrees {
            return Insertion::Overlap;
        }
        if !fragment.more_fragments {
            self.payload_length = Some(end);
        }
        if fragment.offset == 0 {
            self.first = Some(First {
                protocol: fragment.protocol,
                header_length: fragment.header_length,
                hop_limit: fragment.hop_limit,
            });
        }
        // RFC 3168, section 5.3: one marked fragment marks the packet.
        self.congestion_experienced |= fragment.congestion_experienced;
        self.received += fragment.payload_length;
        let (offset, length) = (fragment.offset, fragment.payload_length);
        let piece = Piece { offset, length, captured: fragment.payload.into() };
        let cost = piece.cost();
        self.pieces.insert(position, piece);
        Insertion::Stored(cost)
    }

    fn is_complete(&self) -> bool {
        // Without overlaps, the sum of the lengths decides.
        self.payload_length == Some(self.received)
    }

    fn assemble(self) -> Option<Datagram> {
        let mut payload = Vec::new();
        for piece in &self.pieces {
            payload.extend_from_slice(&piece.captured);
            if piece.captured.len() < piece.length as usize {
                break;
            }
        }
        Some(Datagram {
            source: self.key.source,
            destination: self.key.destination,
            identification: if self.key.protocol.is_some() { self.key.identification as u16 } else { 0 },
            ipv6: self.key.protocol.is_none(),
            first: self.first?,
            congestion_experienced: self.congestion_experienced,
            payload,
            payload_length: self.payload_length?,
        })
    }
}
