//! What must be known of this host's interfaces.

use pathbench_host::netlink::{Link, RouteSocket};

/// Of Ethernet; what is assumed when the host does not tell.
const ETHERNET_MTU_BYTES: u32 = 1500;

/// The largest MTU of the interfaces that are up, in bytes: no path can have a larger one.
pub(crate) fn largest_mtu() -> u32 {
    let links = RouteSocket::open().and_then(|mut socket| socket.links());
    let largest = |links: Vec<Link>| links.iter().filter(|link| link.up).map(|link| link.mtu).max();
    links.ok().and_then(largest).unwrap_or(ETHERNET_MTU_BYTES)
}
