//! This host's interfaces and their changes, for the path manager.

use pathbench_host::link_events::LinkEventStream;
use pathbench_host::netlink::{NetlinkError, NetworkInterface, RouteSocket};
use pathbench_mpquic::{InterfaceChange, LocalInterface};
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Interfaces and their addresses, updated by the kernel's notifications.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    stream: LinkEventStream,
    interfaces: Interfaces,
}

type Interfaces = BTreeMap<String, Watched>;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Watched {
    /// Administrative state.
    up: bool,
    carrier: bool,
    addresses: Vec<IpAddr>,
}

impl LinkWatch {
    /// Watches the calling thread's network namespace; requires no privilege.
    pub(crate) fn start() -> Result<Self, NetlinkError> {
        // Subscribed before the listing, so that no change is missed.
        let stream = LinkEventStream::subscribe()?;
        Ok(Self { stream, interfaces: list_interfaces()? })
    }

    pub(crate) fn interfaces(&self) -> Vec<LocalInterface> {
        self.interfaces.iter().map(|(name, watched)| watched.interface_state(name)).collect()
    }

    /// Changes since the last call; non-blocking.
    pub(crate) fn changes(&mut self) -> Vec<InterfaceChange> {
        // After a socket error, heartbeats still detect dead paths.
        let events = self.stream.receive().unwrap_or_default();
        let mut changes = Vec::new();
        for event in events {
            let before = self.interfaces.clone();
            self.apply(&event);
            let description = match &event.name {
                Some(name) => format!("{name}: {}", event.change),
                None => "found changed after lost notifications".to_owned(),
            };
            changes.extend(differences(&before, &self.interfaces, &description));
        }
        changes
    }

    fn apply(&mut self, event: &LinkEvent) {
        if event.change == LinkChange::Overrun {
            if let Ok(listed) = list_interfaces() {
                self.interfaces = listed;
            }
            return;
        }
        let Some(name) = event.name.clone() else { return };
        let interface = self.interfaces.entry(name).or_default();
        match event.change {
            LinkChange::Up => interface.up = true,
            LinkChange::Down => interface.up = false,
            LinkChange::CarrierUp => interface.carrier = true,
            LinkChange::CarrierDown => interface.carrier = false,
            LinkChange::Disappeared => *interface = Watched::default(),
            LinkChange::AddressAdded(network) => {
                interface.addresses.retain(|known| *known != network.addr());
                interface.addresses.push(network.addr());
            }
            LinkChange::AddressRemoved(network) => {
                interface.addresses.retain(|known| *known != network.addr());
            }
            LinkChange::Appeared | LinkChange::Mtu(_) | LinkChange::Overrun => {}
        }
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Watched {
    fn interface_state(&self, name: &str) -> LocalInterface {
        let (up, addresses) = (self.up && self.carrier, self.addresses.clone());
        LocalInterface { name: name.to_owned(), up, addresses }
    }
}

fn list_interfaces() -> Result<Interfaces, NetlinkError> {
    let mut socket = RouteSocket::open()?;
    let links: Vec<NetworkInterface> = socket.links()?;
    let addresses = socket.addresses()?;
    let of = |index| {
        let own = addresses.iter().filter(move |address| address.index == index && !address.tentative);
        own.map(|address| address.network.addr()).collect()
    };
    let watched =
        |link: &NetworkInterface| Watched { up: link.up, carrier: link.carrier, addresses: of(link.index) };
    Ok(links.iter().map(|link| (link.name.clone(), watched(link))).collect())
}

fn differences(before: &Interfaces, after: &Interfaces, description: &str) -> Vec<InterfaceChange> {
    let nothing = Watched::default();
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter_map(|name| {
        let of = |interfaces: &Interfaces| interfaces.get(name).unwrap_or(&nothing).interface_state(name);
        let interface = of(after);
        let description = description.to_owned();
        (interface != of(before)).then_some(InterfaceChange { interface, description })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_listing_replaces_lost_notifications() {
        let addresses = vec![IpAddr::from([10, 0, 0, 1])];
        let up = Watched { up: true, carrier: true, addresses: addresses.clone() };
        let before = BTreeMap::from([("a".to_owned(), up.clone()), ("b".to_owned(), Watched::default())]);
        let after = BTreeMap::from([("b".to_owned(), up)]);
        let found = differences(&before, &after, "").into_iter().map(|change| change.interface);
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let (gone, up) = (
            LocalInterface { name: a, ..LocalInterface::default() },
            LocalInterface { name: b, up: true, addresses },
        );
        assert_eq!(found.collect::<Vec<_>>(), [gone, up]);
        assert!(differences(&after, &after, "").is_empty());
    }
}
