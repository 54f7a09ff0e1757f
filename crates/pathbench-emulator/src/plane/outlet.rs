//! Packets on their way out: what is written to the far device.

use super::packet::Piece;
use crate::packet::Delivery;
use crate::segmentation::{Headers, Run};
use pathbench_host::tun::{PacketHeader, Tun};
use rustix::io::Errno;
use std::io::IoSlice;
use std::time::Duration;

/// Pieces that leave together.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) piece: Piece,
    pub(super) number: u64,
    pub(super) delivery: Delivery,
}

/// Packets that are due within this time of one another may leave together, as network cards moderate their interrupts
/// and hand up as one what came meanwhile. It is the time of four full packets at 1 Gbit/s; below 240 Mbit/s each
/// goes by itself, however late.
pub(super) const MODERATION: Duration = Duration::from_micros(50);

impl Departure {
    /// Takes in `next`, if both are ordinary neighbours of one flow that leave at about the same time; gives it back
    /// otherwise.
    pub(super) fn join(&mut self, next: Self) -> Result<Piece, Self> {
        let plain = |delivery: &Delivery| !delivery.mark && delivery.corrupt.is_none() && !delivery.twice;
        let together = next.delivery.due.since(self.delivery.due) <= MODERATION
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

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Taken,
    /// The device is down, or this is no packet any more.
    Refused,
    /// There is no device any more.
    Gone,
}

/// Writes departures; holds what they are put together in.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    headers: Headers,
    wire: Vec<u8>,
}

impl Outlet {
    /// Writes a departure, twice where that was its fate.
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
        let payload = piece.handover().and_then(|handover| handover.headers(ip, piece.run, mark, headers));
        let Some(payload) = payload.and_then(|range| ip.get(range)) else { return Written::Refused };
        answer(tun.write(&[IoSlice::new(headers.as_bytes()), IoSlice::new(payload)]))
    }

    /// Turns a bit over in one wire packet; its checksum is right before. The others of a piece of several follow it.
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
        if count == 1 || written == Written::Gone {
            return written;
        }
        let rest = Piece { run: Run { first: first + 1, count: count - 1 }, ..piece.clone() };
        self.write_plain(tun, &rest, mark)
    }

    /// Writes the wire packet that was put together last.
    fn write_again(&self, tun: &Tun) -> Written {
        let header = PacketHeader::default().to_bytes();
        answer(tun.write(&[IoSlice::new(&header), IoSlice::new(&self.wire)]))
    }

    fn wire_packet(&mut self, piece: &Piece, segment: u32, mark: bool) -> Option<()> {
        piece.handover()?.wire_packet(piece.packet.ip(), segment, mark, &mut self.wire)
    }
}

fn answer(answer: Result<usize, Errno>) -> Written {
    match answer {
        Ok(_) => Written::Taken,
        Err(Errno::BADFD | Errno::NODEV) => Written::Gone,
        Err(_) => Written::Refused,
    }
}
