//! What hosts handed over, in buffers that are used again.

use crate::segmentation::{Handover, Run};
use pathbench_host::tun::{LARGEST_PACKET_BYTES, PacketHeader, Tun};
use rustix::io::Errno;
use std::rc::Rc;

/// Sizes of buffers. A packet that does not need the largest is copied into one that fits: what is under way on a
/// link of small packets should not take up fifty times its size.
const SIZES: [usize; 3] = [2_048, 16_384, PacketHeader::BYTES + LARGEST_PACKET_BYTES];
/// Buffers of each size kept for later; further ones are given back to the system.
const KEPT: [usize; 3] = [8_192, 1_024, 512];

/// A packet as it was read, with the device's header.
#[derive(Debug)]
pub(super) struct Handed {
    buffer: Box<[u8]>,
    length: usize,
    /// Always there once something was read.
    handover: Option<Handover>,
}

impl Handed {
    /// The device's header and the packet.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    /// The packet alone.
    pub(super) fn ip(&self) -> &[u8] {
        self.bytes().get(PacketHeader::BYTES..).unwrap_or_default()
    }
}

impl Piece {
    /// The layout of what it is a piece of.
    pub(super) fn handover(&self) -> Option<&Handover> {
        self.packet.handover.as_ref()
    }

    /// Whether it is all of it.
    pub(super) fn is_whole(&self) -> bool {
        self.handover().is_some_and(|handover| handover.whole() == self.run)
    }

    /// The one right after this one, of the same packet.
    pub(super) fn is_followed_by(&self, next: &Self) -> bool {
        Rc::ptr_eq(&self.packet, &next.packet) && self.run.first + self.run.count == next.run.first
    }
}

/// Some of the wire packets of what was handed over: what goes through a pipe.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) packet: Rc<Handed>,
    pub(super) run: Run,
}

/// The buffers.
#[derive(Debug)]
pub(super) struct Pool {
    free: [Vec<Rc<Handed>>; 3],
    /// What the next packet is read into.
    reading: Box<[u8]>,
}

/// What was read from a device.
#[derive(Debug)]
pub(super) enum Received {
    Packet(Rc<Handed>, Handover),
    /// No IP packet, or one that contradicts its header.
    Nonsense,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self { free: Default::default(), reading: buffer(SIZES[2]) }
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// As [`Tun::read`].
    pub(super) fn receive(&mut self, tun: &Tun) -> Result<Received, Errno> {
        let length = tun.read(&mut self.reading)?;
        let read = self.reading.get(..length).unwrap_or_default();
        let ip = read.get(PacketHeader::BYTES..).unwrap_or_default();
        let Some(handover) = PacketHeader::parse(read).and_then(|header| Handover::parse(header, ip)) else {
            return Ok(Received::Nonsense);
        };
        let size = SIZES.iter().position(|size| length <= *size).unwrap_or(SIZES.len() - 1);
        let mut packet = self.free.get_mut(size).and_then(Vec::pop).unwrap_or_else(|| fresh(size));
        if let Some(handed) = Rc::get_mut(&mut packet) {
            match handed.buffer.get_mut(..length) {
                Some(place) if size + 1 < SIZES.len() => place.copy_from_slice(read),
                _ => std::mem::swap(&mut handed.buffer, &mut self.reading),
            }
            handed.length = length;
            handed.handover = Some(handover);
        }
        Ok(Received::Packet(packet, handover))
    }

    /// Takes a packet back. Its buffer is used again when this was the last piece of it.
    pub(super) fn put(&mut self, mut packet: Rc<Handed>) {
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

fn fresh(size: usize) -> Rc<Handed> {
    let bytes = SIZES.get(size).copied().unwrap_or(SIZES[2]);
    Rc::new(Handed { buffer: buffer(bytes), length: 0, handover: None })
}
