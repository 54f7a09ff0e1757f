//! Sizes of IP packets: what headers take, what every network carries, and what networks usually carry.

use crate::probe::HEADER_BYTES;
use std::net::IpAddr;

/// Largest packet that is tried: the length field of an IPv4 header (RFC 791) ends there.
pub(super) const MOST_BYTES: u32 = 65_535;

/// MTUs that are met, and how often in proportion: minimums of IPv4 and IPv6, tunnels over Ethernet (VXLAN, GRE, ESP,
/// 6in4, PPP, MPLS, VLAN), Ethernet itself, FDDI, token ring, jumbo frames of several makers.
pub(super) const USUAL_BYTES: [(u32, u32); 32] = [
    (576, 1),
    (1006, 1),
    (1280, 3),
    (1358, 1),
    (1380, 1),
    (1390, 1),
    (1400, 3),
    (1410, 1),
    (1412, 1),
    (1420, 3),
    (1428, 1),
    (1436, 1),
    (1440, 1),
    (1442, 1),
    (1446, 1),
    (1450, 2),
    (1454, 1),
    (1458, 1),
    (1460, 1),
    (1462, 1),
    (1464, 1),
    (1472, 1),
    (1476, 1),
    (1480, 2),
    (1488, 1),
    (1492, 4),
    (1500, 8),
    (2002, 1),
    (4352, 1),
    (4464, 1),
    (9000, 3),
    (9216, 1),
];

/// The IP family of a path, for what differs between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// That of an address; an IPv4 address in IPv6 clothing is IPv4.
    pub fn of(address: IpAddr) -> Self {
        if address.to_canonical().is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Bytes of IP and UDP headers, without options or extension headers.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::V4 => 20 + 8,
            Self::V6 => 40 + 8,
        }
    }

    /// What is not searched below: every host takes it (RFC 791), every IPv6 link carries it (RFC 8200).
    pub const fn floor_bytes(self) -> u32 {
        match self {
            Self::V4 => 576,
            Self::V6 => 1280,
        }
    }

    /// The shortest packet that asks anything.
    pub(super) const fn tiny_bytes(self) -> u32 {
        self.header_bytes() + HEADER_BYTES as u32
    }

    /// UDP payload of a packet of `size_bytes`.
    pub(super) const fn payload_bytes(self, size_bytes: u32) -> usize {
        size_bytes.saturating_sub(self.header_bytes()) as usize
    }

    /// The same of a packet that somebody asks for; `None` when none can have that size.
    pub(crate) fn load_payload_bytes(self, size_bytes: u32) -> Option<usize> {
        (self.tiny_bytes()..=MOST_BYTES).contains(&size_bytes).then(|| self.payload_bytes(size_bytes))
    }

    /// Size of the packet of a UDP payload.
    pub(crate) const fn packet_bytes(self, payload: usize) -> u32 {
        self.header_bytes() + payload as u32
    }
}
