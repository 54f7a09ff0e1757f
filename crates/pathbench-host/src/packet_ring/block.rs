//! Blocks of packets in the ring of a packet socket (`TPACKET_V3`, `linux/if_packet.h`;
//! `Documentation/networking/packet_mmap.rst`).

use crate::netlink::message::{u16_at, u32_at};
use crate::tun::PacketHeader;

pub(super) const STATUS_OFFSET: usize = 8;
pub(super) const PACKETS_OFFSET: usize = 12;
const FIRST_OFFSET: usize = 16;

/// Length of `struct tpacket3_hdr`; a `struct sockaddr_ll` follows.
const PACKET_HEADER: usize = 48;
/// Offset of the packet's direction in a `struct sockaddr_ll`.
const DIRECTION_OFFSET: usize = PACKET_HEADER + 10;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RingPacket<'a> {
    /// Nanoseconds since 1970.
    pub(crate) time_ns: u64,
    /// `PACKET_HOST`, `PACKET_OUTGOING`, …
    pub(crate) direction: u8,
    /// The bytes before the packet, which are a [`PacketHeader`] if the ring was opened with it.
    pub(crate) offload: &'a [u8],
    /// From the link header on, as captured.
    pub(crate) bytes: &'a [u8],
    pub(crate) link_header_bytes: usize,
    /// With the link header, before truncation.
    pub(crate) original_length: u32,
}

/// Passes the packets of one block to `take`. Returns the packets that could not be read, which is not possible with a
/// kernel that implements the documented layout.
pub(crate) fn packets(block: &[u8], mut take: impl FnMut(&RingPacket<'_>)) -> u32 {
    let packets = u32_at(block, PACKETS_OFFSET).unwrap_or(0);
    let mut offset = u32_at(block, FIRST_OFFSET).unwrap_or(0) as usize;
    for read in 0..packets {
        let Some((packet, next)) = block.get(offset..).and_then(packet) else { return packets - read };
        take(&packet);
        offset += next;
    }
    0
}

fn packet(bytes: &[u8]) -> Option<(RingPacket<'_>, usize)> {
    // struct tpacket3_hdr: next offset, seconds, nanoseconds, captured length, length, status, link header, IP header.
    let next = u32_at(bytes, 0)?;
    let (seconds, nanoseconds) = (u32_at(bytes, 4)?, u32_at(bytes, 8)?);
    let (captured, original_length) = (u32_at(bytes, 12)? as usize, u32_at(bytes, 16)?);
    let (link, network) = (usize::from(u16_at(bytes, 24)?), usize::from(u16_at(bytes, 26)?));
    let packet = RingPacket {
        time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds),
        direction: *bytes.get(DIRECTION_OFFSET)?,
        offload: bytes.get(link.checked_sub(PacketHeader::BYTES)?..link)?,
        bytes: bytes.get(link..link.checked_add(captured)?)?,
        link_header_bytes: network.checked_sub(link)?,
        original_length,
    };
    Some((packet, next as usize))
}
