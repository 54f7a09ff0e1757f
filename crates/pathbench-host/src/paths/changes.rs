//! Changes of links and addresses that affect tests.

use super::network::HostNetwork;
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use pathbench_record::network::ClientPath;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The change of the paths to a server between two reads; `None` if there is none.
pub fn describe_reroute(before: &[ClientPath], now: &[ClientPath]) -> Option<String> {
    let names = |paths: &[ClientPath]| {
        let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (before, now) = (names(before), names(now));
    (before != now).then(|| format!("the paths to the server were {before}, and are {now}"))
}

/// Separates changes that affect tests from other events, such as renewed leases and interfaces of other programs.
#[derive(Debug, Default)]
pub struct ChangeFilter {
    addresses: BTreeMap<u32, BTreeSet<IpAddr>>,
    /// Interfaces that have had a path to the server. An interface that is down may come up again.
    pub interfaces: BTreeSet<String>,
}

impl ChangeFilter {
    pub fn new(network: &HostNetwork) -> Self {
        let addresses = network.routable_addresses().into_iter();
        Self {
            addresses: addresses.map(|(index, of)| (index, of.into_iter().collect())).collect(),
            interfaces: BTreeSet::new(),
        }
    }

    /// Describes the change: `eth0 down`, `wlan0 address 192.0.2.2/24 added`; `None` if it does not affect tests.
    pub fn change(&mut self, event: &LinkEvent) -> Option<String> {
        let name = event.name.clone().unwrap_or_else(|| format!("interface {}", event.index));
        let is_change = match event.change {
            LinkChange::AddressAdded(network) => {
                // The kernel reports a renewed lease in the same form as a new address.
                let is_new = self.addresses.entry(event.index).or_default().insert(network.addr());
                is_new && is_routable(network.addr())
            }
            LinkChange::AddressRemoved(network) => {
                let was_known =
                    self.addresses.get_mut(&event.index).is_some_and(|of| of.remove(&network.addr()));
                was_known && is_routable(network.addr())
            }
            LinkChange::Overrun => return Some("more changes than could be read".to_owned()),
            _ => self.interfaces.contains(&name),
        };
        is_change.then(|| format!("{name} {}", event.change))
    }
}

/// Whether packets with this address can leave their link.
const fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    }
}
