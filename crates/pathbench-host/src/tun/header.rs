//! What stands before each packet of a TUN device: `struct virtio_net_hdr` (`linux/virtio_net.h`; virtio 1.2, section
//! 5.1.6), in the machine's own byte order.

/// How a packet is still to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either, into datagrams.
    Udp,
}

/// What a network card is told of a packet, and tells of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHeader {
    /// Where the checksum is still to be completed: the first byte it covers and where it stands, from there. The
    /// checksum field holds the sum of the pseudo header by then.
    pub checksum: Option<(u16, u16)>,
    /// How the packet is to be cut; `None`: it is a wire packet.
    pub segmentation: Option<Segmentation>,
    /// Whether the first segment alone carries CWR (RFC 3168).
    pub ecn: bool,
    /// Length of the headers, as far as the kernel knows: a hint only.
    pub header_bytes: u16,
    /// Payload bytes of each segment but the last.
    pub segment_bytes: u16,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl PacketHeader {
    /// Its length.
    pub const BYTES: usize = 10;

    /// The header at the beginning of `bytes`; `None` when they are too few, or name a way of cutting that was not
    /// offered.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[flags, gso, h0, h1, s0, s1, c0, c1, o0, o1] = bytes.first_chunk::<{ Self::BYTES }>()?;
        let segmentation = match gso & !GSO_ECN {
            0 => None,
            GSO_TCP_V4 => Some(Segmentation::TcpV4),
            GSO_TCP_V6 => Some(Segmentation::TcpV6),
            GSO_UDP_L4 => Some(Segmentation::Udp),
            _ => return None,
        };
        let checksum = (u16::from_ne_bytes([c0, c1]), u16::from_ne_bytes([o0, o1]));
        Some(Self {
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some(checksum),
            segmentation,
            ecn: gso & GSO_ECN != 0,
            header_bytes: u16::from_ne_bytes([h0, h1]),
            segment_bytes: u16::from_ne_bytes([s0, s1]),
        })
    }

    /// As the kernel reads it.
    #[inline]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let flags = if self.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        let gso = match self.segmentation {
            None => 0,
            Some(Segmentation::TcpV4) => GSO_TCP_V4,
            Some(Segmentation::TcpV6) => GSO_TCP_V6,
            Some(Segmentation::Udp) => GSO_UDP_L4,
        };
        let gso = if self.ecn { gso | GSO_ECN } else { gso };
        let (start, offset) = self.checksum.unwrap_or_default();
        let [h, s] = [self.header_bytes, self.segment_bytes].map(u16::to_ne_bytes);
        let [c, o] = [start, offset].map(u16::to_ne_bytes);
        [flags, gso, h[0], h[1], s[0], s[1], c[0], c[1], o[0], o[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_the_kernel_writes_it() {
        let bytes = [1, 0x81, 54, 0, 0xb4, 5, 34, 0, 16, 0];
        let header = PacketHeader {
            checksum: Some((34, 16)),
            segmentation: Some(Segmentation::TcpV4),
            ecn: true,
            header_bytes: 54,
            segment_bytes: 1_460,
        };
        #[cfg(target_endian = "little")]
        assert_eq!(PacketHeader::parse(&bytes), Some(header));
        #[cfg(target_endian = "little")]
        assert_eq!(header.to_bytes(), bytes);
        assert_eq!(PacketHeader::parse(&bytes[..9]), None);
        assert_eq!(PacketHeader::parse(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), None, "UFO was not offered");
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_written_the_same(bytes: [u8; PacketHeader::BYTES]) {
            if let Some(header) = PacketHeader::parse(&bytes) {
                prop_assert_eq!(PacketHeader::parse(&header.to_bytes()), Some(header));
            }
        }
    }
}
