//! What must be known of this host's interfaces.

use pathbench_host::netlink::{Link, NetlinkError, RouteSocket};
use std::net::IpAddr;

/// Of Ethernet; what is assumed when the host does not tell.
const ETHERNET_MTU_BYTES: u32 = 1500;

/// Ethernet with a VLAN tag, IPv6 and UDP, and one byte: `gso_max_size` itself is too long.
const LONGEST_HEADERS_BYTES: usize = 18 + 40 + 8 + 1;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Exits<'a> {
    Named(&'a [String]),
    Of(IpAddr),
    /// Whichever the routes choose, for a host reached at the address.
    Any(IpAddr),
}

/// The largest GSO packet that interfaces take without segmenting it in software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GsoLimit {
    bytes: usize,
    segments: usize,
}

impl GsoLimit {
    /// Without a limit of the interface, a GSO packet has to fit an IP packet: the kernel drops a longer one silently,
    /// and the path MTU collapses.
    const NONE: Self = Self { bytes: 65_000, segments: usize::MAX };

    /// The smallest limit of the interfaces that packets may leave by (`gso_max_size`, `gso_max_segs`).
    ///
    /// The kernel segments a longer GSO packet before it enters the interface (`gso_features_check`, net/core/dev.c),
    /// and each segment then passes bridges, netfilter and qdiscs by itself: 0.4 ms for 44 datagrams, not 0.03 ms.
    /// Single segments are made by the kernel at less cost than by a system call for each, so a limit of one is none.
    pub(crate) fn of(exits: Exits<'_>) -> Self {
        links_of(exits).unwrap_or_default().iter().fold(Self::NONE, Self::and)
    }

    fn and(self, link: &Link) -> Self {
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
        // As above.
        let fitting = if fitting > 1 { fitting } else { Self::NONE.bytes / segment_bytes.max(1) };
        fitting.min(self.segments).max(1)
    }
}

/// The largest MTU of the interfaces, in bytes: no path can have a larger one.
///
/// Loopback's 64 KiB count only where nothing else can be meant: each search of a path that goes elsewhere would begin
/// with probes that no interface takes.
pub(crate) fn largest_mtu(exits: Exits<'_>) -> u32 {
    links_of(exits)
        .ok()
        .and_then(|links| links.iter().map(|link| link.mtu).max())
        .unwrap_or(ETHERNET_MTU_BYTES)
}

fn links_of(exits: Exits<'_>) -> Result<Vec<Link>, NetlinkError> {
    let mut socket = RouteSocket::open()?;
    let mut links = socket.links()?;
    let address = match exits {
        Exits::Named(names) => {
            links.retain(|link| names.contains(&link.name));
            return Ok(links);
        }
        Exits::Of(address) => {
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
        Exits::Any(address) => address,
    };
    links.retain(|link| link.up);
    let loopback = address.to_canonical().is_loopback() || links.iter().all(|link| link.loopback);
    links.retain(|link| link.loopback == loopback);
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(gso_max_size: u32, gso_max_segs: u32) -> Link {
        Link {
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

    fn limit(links: &[Link]) -> GsoLimit {
        links.iter().fold(GsoLimit::NONE, GsoLimit::and)
    }

    #[test]
    fn a_gso_packet_is_no_longer_than_every_interface_takes() {
        let usual = link(65_536, 65_535);
        assert_eq!(limit(&[]).segments_of(1472), 44);
        assert_eq!(limit(std::slice::from_ref(&usual)).segments_of(1472), 44);
        assert_eq!(limit(&[usual.clone(), link(65_536, 25)]).segments_of(1472), 25);
        assert_eq!(limit(&[link(18_000, 65_535), usual.clone()]).segments_of(1472), 12);
        assert_eq!(limit(&[usual]).segments_of(8972), 7);
    }

    #[test]
    fn an_interface_of_single_segments_leaves_segmentation_to_the_kernel() {
        assert_eq!(limit(&[link(65_536, 1)]).segments_of(1472), 44);
        assert_eq!(limit(&[link(2_000, 65_535)]).segments_of(1472), 44);
    }
}
