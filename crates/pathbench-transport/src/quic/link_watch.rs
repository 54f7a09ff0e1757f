//! The interfaces of this host, now and as they change, for the path manager.

use pathbench_host::link_events::LinkEventStream;
use pathbench_host::netlink::{Link, NetlinkError, RouteSocket};
use pathbench_mpquic::{InterfaceChange, LocalPath, PathInput};
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Interfaces and their addresses, with the kernel's notices of changes.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    stream: LinkEventStream,
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Interface {
    up: bool,
    carrier: bool,
    addresses: Vec<IpAddr>,
}

impl LinkWatch {
    /// Begins to watch the calling thread's network namespace.
    ///
    /// # Errors
    /// [`NetlinkError`]; it needs no privilege.
    pub(crate) fn start() -> Result<Self, NetlinkError> {
        // Before listing, so that no change falls between.
        let stream = LinkEventStream::subscribe()?;
        Ok(Self { stream, interfaces: listing()? })
    }

    /// The interface's addresses of one family that others can reach, when it is up and has a carrier.
    pub(crate) fn usable_addresses(&self, interface: &str, ipv6: bool) -> Vec<IpAddr> {
        let usable = self.interfaces.get(interface).filter(|interface| interface.is_up());
        let fits = |address: &&IpAddr| LocalPath::may_have(**address, ipv6);
        usable.map(|interface| interface.addresses.iter().filter(fits).copied().collect()).unwrap_or_default()
    }

    pub(crate) fn as_changes(&self, name: &str) -> Vec<PathInput> {
        let Some(interface) = self.interfaces.get(name) else { return Vec::new() };
        let added = interface
            .addresses
            .iter()
            .map(|&address| PathInput::AddressAdded { interface: name.to_owned(), address });
        let up = interface.is_up().then(|| PathInput::LinkUp { interface: name.to_owned() });
        added.chain(up).collect()
    }

    /// What has changed since the last call, without waiting.
    pub(crate) fn changes(&mut self) -> Vec<InterfaceChange> {
        // A socket that fails tells nothing any more; the heartbeats still notice.
        let events = self.stream.receive().unwrap_or_default();
        let mut noticed = Vec::new();
        for event in events {
            if event.change == LinkChange::Overrun {
                if let Ok(listed) = listing() {
                    noticed.extend(differences(&self.interfaces, &listed));
                    self.interfaces = listed;
                }
            } else {
                noticed.extend(self.take_in(&event));
            }
        }
        noticed
    }

    fn take_in(&mut self, event: &LinkEvent) -> Option<InterfaceChange> {
        let name = event.name.clone()?;
        let before = self.interfaces.get(&name).cloned().unwrap_or_default();
        let interface = self.interfaces.entry(name.clone()).or_default();
        let description = format!("{name}: {}", event.change);
        match event.change {
            LinkChange::Up => interface.up = true,
            LinkChange::Down => interface.up = false,
            LinkChange::CarrierUp => interface.carrier = true,
            LinkChange::CarrierDown => interface.carrier = false,
            LinkChange::Disappeared => *interface = Interface::default(),
            LinkChange::AddressAdded(network) => {
                let address = network.addr();
                interface.addresses.retain(|known| *known != address);
                interface.addresses.push(address);
                let input = PathInput::AddressAdded { interface: name, address };
                return Some(InterfaceChange { input, description });
            }
            LinkChange::AddressRemoved(network) => {
                let address = network.addr();
                interface.addresses.retain(|known| *known != address);
                let input = PathInput::AddressRemoved { interface: name, address };
                return Some(InterfaceChange { input, description });
            }
            LinkChange::Appeared | LinkChange::Mtu(_) | LinkChange::Overrun => return None,
        }
        let input = match (before.is_up(), interface.is_up()) {
            (false, true) => PathInput::LinkUp { interface: name },
            (true, false) => PathInput::LinkDown { interface: name },
            _ => return None,
        };
        Some(InterfaceChange { input, description })
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Interface {
    fn is_up(&self) -> bool {
        self.up && self.carrier
    }
}

fn listing() -> Result<BTreeMap<String, Interface>, NetlinkError> {
    let mut socket = RouteSocket::open()?;
    let links: Vec<Link> = socket.links()?;
    let addresses = socket.addresses()?;
    let of = |index| {
        let own = addresses.iter().filter(move |address| address.index == index && !address.tentative);
        own.map(|address| address.network.addr()).collect()
    };
    let interface = |link: &Link| Interface { up: link.up, carrier: link.carrier, addresses: of(link.index) };
    Ok(links.iter().map(|link| (link.name.clone(), interface(link))).collect())
}

fn differences(
    before: &BTreeMap<String, Interface>,
    after: &BTreeMap<String, Interface>,
) -> Vec<InterfaceChange> {
    let nothing = Interface::default();
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (old, new) = (before.get(name).unwrap_or(&nothing), after.get(name).unwrap_or(&nothing));
        let interface = || name.clone();
        for &address in new.addresses.iter().filter(|address| !old.addresses.contains(address)) {
            found.push(PathInput::AddressAdded { interface: interface(), address });
        }
        for &address in old.addresses.iter().filter(|address| !new.addresses.contains(address)) {
            found.push(PathInput::AddressRemoved { interface: interface(), address });
        }
        match (old.is_up(), new.is_up()) {
            (false, true) => found.push(PathInput::LinkUp { interface: interface() }),
            (true, false) => found.push(PathInput::LinkDown { interface: interface() }),
            _ => {}
        }
    }
    let told =
        |input| InterfaceChange { input, description: "found changed when notices were lost".to_owned() };
    found.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_notices_are_made_up_for_by_comparing() {
        let address = IpAddr::from([10, 0, 0, 1]);
        let up = Interface { up: true, carrier: true, addresses: vec![address] };
        let before = BTreeMap::from([("a".to_owned(), up.clone()), ("b".to_owned(), Interface::default())]);
        let after = BTreeMap::from([("b".to_owned(), up)]);
        let inputs: Vec<PathInput> =
            differences(&before, &after).into_iter().map(|change| change.input).collect();
        let name = |name: &str| name.to_owned();
        assert_eq!(
            inputs,
            [
                PathInput::AddressRemoved { interface: name("a"), address },
                PathInput::LinkDown { interface: name("a") },
                PathInput::AddressAdded { interface: name("b"), address },
                PathInput::LinkUp { interface: name("b") },
            ]
        );
        assert!(differences(&after, &after).is_empty());
    }
}
