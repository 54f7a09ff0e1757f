//! GSO packets from the devices, in buffers that are reused, and the packets written to the far device.

use crate::segmentation::{GsoPacket, Headers, Run};
use pathbench_host::tun::{LARGEST_PACKET_BYTES, PacketHeader, Tun};
use pathbench_link::packet::Delivery;
use rustix::io::Errno;
use std::io::IoSlice;
use std::rc::Rc;
use std::time::Duration;

/// Sizes of buffers. A packet is copied into the smallest buffer that fits, so that small packets in flight do not use
/// fifty times their size.
const SIZES: [usize; 3] = [2_048, 16_384, PacketHeader::BYTES + LARGEST_PACKET_BYTES];
/// Maximum number of unused buffers of each size; the pool frees further ones.
const KEPT: [usize; 3] = [8_192, 1_024, 512];

#[derive(Debug)]
pub(super) struct PacketBuffer {
    buffer: Box<[u8]>,
    length: usize,
    gso: Option<GsoPacket>,
}

impl PacketBuffer {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    pub(super) fn ip(&self) -> &[u8] {
        self.bytes().get(PacketHeader::BYTES..).unwrap_or_default()
    }
}

impl Piece {
    pub(super) fn gso(&self) -> Option<&GsoPacket> {
        self.packet.gso.as_ref()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.gso().is_some_and(|gso| gso.whole() == self.run)
    }

    pub(super) fn is_followed_by(&self, next: &Self) -> bool {
        Rc::ptr_eq(&self.packet, &next.packet) && self.run.first + self.run.count == next.run.first
    }
}

#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) packet: Rc<PacketBuffer>,
    pub(super) run: Run,
}

#[derive(Debug)]
pub(super) struct Pool {
    free: [Vec<Rc<PacketBuffer>>; 3],
    reading: Box<[u8]>,
}

#[derive(Debug)]
pub(super) enum Received {
    Packet(Rc<PacketBuffer>, GsoPacket),
    Invalid,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self { free: Default::default(), reading: buffer(SIZES[2]) }
    }

    pub(super) fn receive(&mut self, tun: &Tun) -> Result<Received, Errno> {
        let length = tun.read(&mut self.reading)?;
        let read = self.reading.get(..length).unwrap_or_default();
        let ip = read.get(PacketHeader::BYTES..).unwrap_or_default();
        let Some(gso) = PacketHeader::parse(read).and_then(|header| GsoPacket::parse(header, ip)) else {
            return Ok(Received::Invalid);
        };
        let size = SIZES.iter().position(|size| length <= *size).unwrap_or(SIZES.len() - 1);
        let mut packet = self.free.get_mut(size).and_then(Vec::pop).unwrap_or_else(|| fresh(size));
        if let Some(buffered) = Rc::get_mut(&mut packet) {
            match buffered.buffer.get_mut(..length) {
                Some(target) if size + 1 < SIZES.len() => target.copy_from_slice(read),
                _ => std::mem::swap(&mut buffered.buffer, &mut self.reading),
            }
            buffered.length = length;
            buffered.gso = Some(gso);
        }
        Ok(Received::Packet(packet, gso))
    }

    pub(super) fn put(&mut self, mut packet: Rc<PacketBuffer>) {
        if Rc::get_mut(&mut packet).is_none() {
            return;
        }
        let size = SIZES.iter().position(|size| packet.buffer.len() <= *size).unwrap_or(SIZES.len() - 1);
        if let (Some(free), Some(kept)) = (self.free.get_mut(size), KEPT.get(size))
            && free.len() < *kept
        {
            free.push(packet);
        }
    }
}

fn buffer(bytes: usize) -> Box<[u8]> {
    vec![0; bytes].into_boxed_slice()
}

fn fresh(size: usize) -> Rc<PacketBuffer> {
    let bytes = SIZES.get(size).copied().unwrap_or(SIZES[2]);
    Rc::new(PacketBuffer { buffer: buffer(bytes), length: 0, gso: None })
}

#[derive(Debug)]
pub(super) struct Departure {
    pub(super) piece: Piece,
    pub(super) number: u64,
    pub(super) delivery: Delivery,
}

/// Packets that are due within this time of one another may leave together, like the interrupt moderation of network
/// cards, which deliver packets in batches. It is the time of four full packets at 1 Gbit/s; below 240 Mbit/s each
/// packet leaves separately, even if it is late.
pub(super) const MODERATION: Duration = Duration::from_micros(50);

impl Departure {
    /// Appends `next`, if both are unmodified consecutive parts of one GSO packet and due within [`MODERATION`];
    /// otherwise returns `next`.
    pub(super) fn join(&mut self, next: Self) -> Result<Piece, Self> {
        let plain = |delivery: &Delivery| !delivery.mark && delivery.corrupt.is_none() && !delivery.twice;
        let together = next.delivery.due.duration_since(self.delivery.due) <= MODERATION
            && self.piece.is_followed_by(&next.piece)
            && plain(&self.delivery)
            && plain(&next.delivery);
        if !together {
            return Err(next);
        }
        self.piece.run.count += next.piece.run.count;
        Ok(next.piece)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Taken,
    Refused,
    Removed,
}

#[derive(Debug, Default)]
pub(super) struct Outlet {
    headers: Headers,
    wire: Vec<u8>,
}

impl Outlet {
    pub(super) fn write(&mut self, tun: &Tun, departure: &Departure) -> Written {
        let (piece, delivery) = (&departure.piece, &departure.delivery);
        let written = match delivery.corrupt {
            Some(chance) => self.write_corrupted(tun, piece, delivery.mark, chance),
            None => self.write_plain(tun, piece, delivery.mark),
        };
        match written {
            Written::Taken if delivery.twice && delivery.corrupt.is_none() => {
                self.write_plain(tun, piece, delivery.mark)
            }
            Written::Taken if delivery.twice => self.write_again(tun),
            _ => written,
        }
    }

    fn write_plain(&mut self, tun: &Tun, piece: &Piece, mark: bool) -> Written {
        if piece.is_whole() && !mark {
            return answer(tun.write(&[IoSlice::new(piece.packet.bytes())]));
        }
        let ip = piece.packet.ip();
        let headers = &mut self.headers;
        let payload = piece.gso().and_then(|gso| gso.headers(ip, piece.run, mark, headers));
        let Some(payload) = payload.and_then(|range| ip.get(range)) else { return Written::Refused };
        answer(tun.write(&[IoSlice::new(headers.as_bytes()), IoSlice::new(payload)]))
    }

    fn write_corrupted(&mut self, tun: &Tun, piece: &Piece, mark: bool, chance: u64) -> Written {
        let Run { first, count } = piece.run;
        if self.wire_packet(piece, first, mark).is_none() {
            return Written::Refused;
        }
        let bit = chance % (self.wire.len().max(1) as u64 * 8);
        if let Some(byte) = self.wire.get_mut((bit / 8) as usize) {
            *byte ^= 0x80 >> (bit % 8);
        }
        let written = self.write_again(tun);
        if count == 1 || written == Written::Removed {
            return written;
        }
        let rest = Piece { run: Run { first: first + 1, count: count - 1 }, ..piece.clone() };
        self.write_plain(tun, &rest, mark)
    }

    fn write_again(&self, tun: &Tun) -> Written {
        let header = PacketHeader::default().to_bytes();
        answer(tun.write(&[IoSlice::new(&header), IoSlice::new(&self.wire)]))
    }

    fn wire_packet(&mut self, piece: &Piece, segment: u32, mark: bool) -> Option<()> {
        piece.gso()?.wire_packet(piece.packet.ip(), segment, mark, &mut self.wire)
    }
}

fn answer(answer: Result<usize, Errno>) -> Written {
    match answer {
        Ok(_) => Written::Taken,
        Err(Errno::BADFD | Errno::NODEV) => Written::Removed,
        Err(_) => Written::Refused,
    }
}
