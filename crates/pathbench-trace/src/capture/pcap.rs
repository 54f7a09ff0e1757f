//! pcap, draft-ietf-opsawg-pcap.

use super::batch::{Slot, Slots, Step};
use super::byte_order::ByteOrder;
use super::damage::{Damage, LARGEST_PACKET_BYTES};

/// Length of the file's header.
pub(super) const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// Interface index, protocol, packet type and padding of the format by Alexey Kuznetsov ("modified" in Wireshark).
const MODIFIED_BYTES: usize = 8;
pub(super) const VERSION_MAJOR: u16 = 2;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// The layout of a file's records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pcap {
    order: ByteOrder,
    unit_ns: u64,
    skipped_bytes: usize,
}

/// The file's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) version: (u16, u16),
    pub(super) snap_length: u32,
    pub(super) link_type: u16,
}

impl Pcap {
    pub(super) fn from_magic(magic: [u8; 4]) -> Option<Self> {
        [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let (unit_ns, skipped_bytes) = match order.u32(magic) {
                MICROSECONDS => (1_000, 0),
                NANOSECONDS => (1, 0),
                MODIFIED => (1_000, MODIFIED_BYTES),
                _ => return None,
            };
            Some(Self { order, unit_ns, skipped_bytes })
        })
    }

    pub(super) fn header(self, bytes: [u8; FILE_HEADER_BYTES]) -> Header {
        let [_, _, _, _, a0, a1, i0, i1, .., s0, s1, s2, s3, l0, l1, l2, l3] = bytes;
        Header {
            version: (self.order.u16([a0, a1]), self.order.u16([i0, i1])),
            snap_length: self.order.u32([s0, s1, s2, s3]),
            // The upper bits state the length of frame check sequences.
            link_type: self.order.u32([l0, l1, l2, l3]) as u16,
        }
    }

    /// Finds the packets of `bytes` from `at` on; returns the start of the first record that is not in `slots`.
    #[inline]
    pub(super) fn scan(self, bytes: &[u8], mut at: usize, slots: &mut Slots) -> (usize, Step) {
        while !slots.is_full() {
            let Some(record) = bytes.get(at..) else { break };
            let Some((header, _)) = record.split_first_chunk::<RECORD_HEADER_BYTES>() else {
                return (at, Step::More(RECORD_HEADER_BYTES));
            };
            let [s0, s1, s2, s3, f0, f1, f2, f3, c0, c1, c2, c3, o0, o1, o2, o3] = *header;
            let captured = self.order.u32([c0, c1, c2, c3]);
            if captured > LARGEST_PACKET_BYTES {
                return (at, Step::Damage(Damage::PacketLength { length: captured }));
            }
            let start = RECORD_HEADER_BYTES + self.skipped_bytes;
            let length = start + captured as usize;
            if record.len() < length {
                return (at, Step::More(length));
            }
            let seconds = u64::from(self.order.u32([s0, s1, s2, s3]));
            let fraction = u64::from(self.order.u32([f0, f1, f2, f3]));
            slots.push(Slot {
                interface: 0,
                time_ns: seconds * 1_000_000_000 + fraction * self.unit_ns,
                original_length: self.order.u32([o0, o1, o2, o3]).max(captured),
                start: (at + start) as u32,
                length: captured,
                comment: None,
            });
            at += length;
        }
        (at, Step::Full)
    }
}
