//! GSO limits and MTUs of this host's interfaces.

use pathbench_host::netlink::{NetlinkError, NetworkInterface, RouteSocket};
use std::net::IpAddr;

/// Assumed when the host does not report an MTU.
const ETHERNET_MTU_BYTES: u32 = 1500;

/// Headers of Ethernet with a VLAN tag, IPv6 and UDP, and one byte, since a packet must be shorter than `gso_max_size`.
const LONGEST_HEADERS_BYTES: usize = 18 + 40 + 8 + 1;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Egress<'a> {
    Named(&'a [String]),
    /// The owner of a local address.
    Address(IpAddr),
    /// Any interface, for a server reached at the address.
    Any(IpAddr),
}

/// The largest GSO packet that interfaces take without segmenting it in software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GsoLimit {
    bytes: usize,
    segments: usize,
}

impl GsoLimit {
    /// Without a limit of the interface, a GSO packet must fit into an IP packet: the kernel drops a longer one
    /// silently, and the path MTU falls to 1200 bytes.
    const NONE: Self = Self { bytes: 65_000, segments: usize::MAX };

    /// The smallest limits of the egress interfaces (`gso_max_size`, `gso_max_segs`).
    ///
    /// The kernel segments a longer GSO packet before it enters the interface (`gso_features_check`, net/core/dev.c),
    /// and each segment then passes bridges, netfilter and qdiscs by itself: 0.4 ms for 44 datagrams, not 0.03 ms.
    /// A limit of one segment is ignored: segmentation by the kernel costs less than a system call for each segment.
    pub(crate) fn read(egress: Egress<'_>) -> Self {
        links_of(egress).unwrap_or_default().iter().fold(Self::NONE, Self::and)
    }

    fn and(self, link: &NetworkInterface) -> Self {
        let bytes = link.gso_max_size.map_or(usize::MAX, |bytes| bytes as usize);
        let segments = link.gso_max_segs.map_or(usize::MAX, |segments| segments as usize);
        let bytes = bytes.saturating_sub(LONGEST_HEADERS_BYTES);
        Self {
            bytes: self.bytes.min(bytes),
            segments: if segments > 1 { self.segments.min(segments) } else { self.segments },
        }
    }

    pub(crate) fn segments_of(&self, segment_bytes: usize) -> usize {
        let fitting = self.bytes / segment_bytes.max(1);
        // As in [`GsoLimit::of`].
        let fitting = if fitting > 1 { fitting } else { Self::NONE.bytes / segment_bytes.max(1) };
        fitting.min(self.segments).max(1)
    }
}

/// The largest MTU of the interfaces, in bytes: no path can have a larger one.
///
/// The loopback interface's 64 KiB count only if there is no other outgoing interface: otherwise each search for a path
/// MTU would begin with probes that no interface can send.
pub(crate) fn largest_mtu(egress: Egress<'_>) -> u32 {
    links_of(egress)
        .ok()
        .and_then(|links| links.iter().map(|link| link.mtu).max())
        .unwrap_or(ETHERNET_MTU_BYTES)
}

fn links_of(egress: Egress<'_>) -> Result<Vec<NetworkInterface>, NetlinkError> {
    let mut socket = RouteSocket::open()?;
    let mut links = socket.links()?;
    let address = match egress {
        Egress::Named(names) => {
            links.retain(|link| names.contains(&link.name));
            return Ok(links);
        }
        Egress::Address(address) => {
            let owners: Vec<u32> = socket
                .addresses()?
                .iter()
                .filter(|own| own.network.addr() == address.to_canonical())
                .map(|own| own.index)
                .collect();
            if let Some(owner) = links.iter().find(|link| owners.contains(&link.index) && !link.loopback) {
                return Ok(vec![owner.clone()]);
            }
            address
        }
        Egress::Any(address) => address,
    };
    links.retain(|link| link.up);
    let loopback = address.to_canonical().is_loopback() || links.iter().all(|link| link.loopback);
    links.retain(|link| link.loopback == loopback);
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(gso_max_size: u32, gso_max_segs: u32) -> NetworkInterface {
        NetworkInterface {
            index: 1,
            name: "eth".to_owned(),
            mtu: 1500,
            up: true,
            carrier: true,
            running: true,
            loopback: false,
            kind: None,
            mac: None,
            master: None,
            gso_max_size: Some(gso_max_size),
            gso_max_segs: Some(gso_max_segs),
        }
    }

    fn limit(links: &[NetworkInterface]) -> GsoLimit {
        links.iter().fold(GsoLimit::NONE, GsoLimit::and)
    }

    #[test]
    fn a_gso_packet_fits_every_interface() {
        let usual = link(65_536, 65_535);
        assert_eq!(limit(&[]).segments_of(1472), 44);
        assert_eq!(limit(std::slice::from_ref(&usual)).segments_of(1472), 44);
        assert_eq!(limit(&[usual.clone(), link(65_536, 25)]).segments_of(1472), 25);
        assert_eq!(limit(&[link(18_000, 65_535), usual.clone()]).segments_of(1472), 12);
        assert_eq!(limit(&[usual]).segments_of(8972), 7);
    }

    #[test]
    fn a_limit_of_one_segment_is_ignored() {
        assert_eq!(limit(&[link(65_536, 1)]).segments_of(1472), 44);
        assert_eq!(limit(&[link(2_000, 65_535)]).segments_of(1472), 44);
    }
}
