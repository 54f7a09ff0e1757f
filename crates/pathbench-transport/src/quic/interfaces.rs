//! What must be known of this host's interfaces.

use pathbench_host::netlink::{Link, NetlinkError, RouteSocket};
use std::net::IpAddr;

/// Of Ethernet; what is assumed when the host does not tell.
const ETHERNET_MTU_BYTES: u32 = 1500;

/// The interfaces by which packets of a connection may leave.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exits<'a> {
    /// Those of these names; they may be down as yet.
    Named(&'a [String]),
    /// Whichever has the address.
    Of(IpAddr),
    /// Whichever the routes choose, for a host reached at the address.
    Any(IpAddr),
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
