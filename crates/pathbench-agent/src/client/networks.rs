//! The networks of this host's interfaces: Ethernet, Wi-Fi or cellular.

use pathbench_api::summary::NetworkKind;
use pathbench_host::device;
use pathbench_host::netlink::{NetworkInterface, RouteSocket};
use pathbench_host::wifi::WifiSocket;
use std::collections::BTreeMap;

/// Interface → kind of its network; empty if the kernel does not answer.
pub(crate) fn network_kinds() -> BTreeMap<String, NetworkKind> {
    let links = RouteSocket::open().and_then(|mut socket| socket.links()).unwrap_or_default();
    let wifi = WifiSocket::open().ok().flatten();
    let wifi = wifi.and_then(|mut socket| socket.interfaces().ok()).unwrap_or_default();
    let kind = |link: &NetworkInterface| {
        if wifi.iter().any(|one| one.index == link.index) {
            NetworkKind::Wifi
        } else if device::is_cellular(link) {
            NetworkKind::Cellular
        } else if link.kind.is_none() && !link.loopback && link.mac.is_some() {
            // Hardware with an Ethernet header; a phone that shares its connection over USB as well.
            NetworkKind::Ethernet
        } else {
            NetworkKind::Other
        }
    };
    links.iter().map(|link| (link.name.clone(), kind(link))).collect()
}
