//! The host's network while a command measures: the kernel's events, and the changes among them that affect tests.

use super::CLIENT;
use super::paths::HostNetwork;
use crate::exit::Failure;
use pathbench_analysis::assembly::{ClientPath, Notification, SeenEvent};
use pathbench_host::link_events::LinkEventStream;
use pathbench_host::mptcp::EventStream;
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use pathbench_record::time::Clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Longest time between the end of the monitor and the end of its thread.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Follows links, addresses and (with `CAP_NET_ADMIN`) MPTCP subflows by netlink, on a thread of its own.
pub(crate) struct NetworkMonitor {
    received: Arc<Mutex<Vec<SeenEvent>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    filter: ChangeFilter,
    pub(crate) network: HostNetwork,
    /// Interface → every address that it has had, in the order of their appearance.
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// All events since the last [`Self::take`], in order.
    pub(crate) events: Vec<SeenEvent>,
    /// The changes among them that affect tests.
    pub(crate) changes: Vec<String>,
}

impl NetworkMonitor {
    pub(crate) fn start(clock: &Arc<dyn Clock>) -> Result<Self, Failure> {
        let links = LinkEventStream::subscribe().map_err(Failure::failed)?;
        let subflows = EventStream::subscribe().ok();
        let network = HostNetwork::read().map_err(Failure::failed)?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (sink, stopped, clock) = (Arc::clone(&received), Arc::clone(&stop), Arc::clone(clock));
        let thread = std::thread::spawn(move || receive(links, subflows, &sink, &stopped, &*clock));
        let mut monitor = Self {
            received,
            stop,
            thread: Some(thread),
            filter: ChangeFilter::new(&network),
            network,
            addresses: BTreeMap::new(),
            events: Vec::new(),
            changes: Vec::new(),
        };
        monitor.add_addresses();
        Ok(monitor)
    }

    /// Changes of these interfaces affect tests from now on.
    pub(crate) fn follow(&mut self, paths: &[ClientPath]) {
        self.filter.interfaces.extend(paths.iter().map(|path| path.interface.clone()));
    }

    /// Takes in the latest events, and returns the changes among them.
    pub(crate) fn poll(&mut self) -> Vec<String> {
        let received = std::mem::take(&mut *self.received.lock().unwrap_or_else(PoisonError::into_inner));
        if received.is_empty() {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for event in received {
            if let Notification::Link(link) = &event.what {
                changes.extend(self.filter.change(link));
            }
            self.events.push(event);
        }
        if let Ok(network) = HostNetwork::read() {
            self.network = network;
            self.add_addresses();
        }
        self.changes.extend(changes.iter().cloned());
        changes
    }

    /// The events and changes since the last call.
    pub(crate) fn take(&mut self) -> (Vec<SeenEvent>, Vec<String>) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.changes))
    }

    /// These paths with all addresses that their interfaces have had, for the names of subflows.
    pub(crate) fn with_all_addresses(&self, paths: &[ClientPath]) -> Vec<ClientPath> {
        let mut paths = paths.to_vec();
        for path in &mut paths {
            for address in self.addresses.get(&path.interface).into_iter().flatten() {
                if !path.addresses.contains(address) {
                    path.addresses.push(*address);
                }
            }
        }
        paths
    }

    fn add_addresses(&mut self) {
        let routable = self.network.routable_addresses();
        for link in &self.network.links {
            let known = self.addresses.entry(link.name.clone()).or_default();
            for address in routable.get(&link.index).into_iter().flatten() {
                if !known.contains(address) {
                    known.push(*address);
                }
            }
        }
    }
}

impl Drop for NetworkMonitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic hook has printed a panic of the thread already.
            let _ended = thread.join();
        }
    }
}

fn receive(
    mut links: LinkEventStream,
    mut subflows: Option<EventStream>,
    sink: &Mutex<Vec<SeenEvent>>,
    stop: &AtomicBool,
    clock: &dyn Clock,
) {
    while !stop.load(Ordering::Relaxed) {
        let descriptors = std::iter::once(links.as_fd()).chain(subflows.as_ref().map(EventStream::as_fd));
        let mut waiting: Vec<PollFd<'_>> =
            descriptors.map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN)).collect();
        let ready = poll(&mut waiting, Some(&WAIT));
        drop(waiting);
        if !ready.is_ok_and(|count| count > 0) {
            continue;
        }
        let at = clock.now();
        let of_links = links.receive().unwrap_or_default().into_iter().map(Notification::Link);
        let of_subflows = subflows.as_mut().and_then(|subflows| subflows.receive().ok()).unwrap_or_default();
        let events = of_links.chain(of_subflows.into_iter().map(Notification::Mptcp));
        let events = events.map(|what| SeenEvent { at, node: CLIENT.to_owned(), what });
        sink.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
    }
}

/// Separates changes that affect tests from other events: renewed leases, interfaces of other programs.
#[derive(Debug, Default)]
struct ChangeFilter {
    addresses: BTreeMap<u32, BTreeSet<IpAddr>>,
    /// Interfaces that have had a path to the server. One that is down may come back.
    interfaces: BTreeSet<String>,
}

impl ChangeFilter {
    fn new(network: &HostNetwork) -> Self {
        let addresses = network.routable_addresses().into_iter();
        Self {
            addresses: addresses.map(|(index, of)| (index, of.into_iter().collect())).collect(),
            interfaces: BTreeSet::new(),
        }
    }

    /// The change that `event` is: `eth0 down`, `wlan0 address 192.0.2.2/24 added`; `None` for any other event.
    fn change(&mut self, event: &LinkEvent) -> Option<String> {
        let name = event.name.clone().unwrap_or_else(|| format!("interface {}", event.index));
        let is_change = match event.change {
            LinkChange::AddressAdded(network) => {
                // The kernel reports a renewed lease like a new address.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn event(index: u32, name: &str, change: LinkChange) -> LinkEvent {
        LinkEvent { index, name: Some(name.to_owned()), change }
    }

    fn added(text: &str) -> LinkChange {
        LinkChange::AddressAdded(text.parse().unwrap())
    }

    fn removed(text: &str) -> LinkChange {
        LinkChange::AddressRemoved(text.parse().unwrap())
    }

    #[test]
    fn only_changes_that_affect_a_test_count() {
        let known = BTreeMap::from([(2, BTreeSet::from(["192.0.2.2".parse().unwrap()]))]);
        let mut filter = ChangeFilter { addresses: known, interfaces: BTreeSet::from(["eth0".to_owned()]) };
        let mut words = |event: &LinkEvent| filter.change(event);
        let said = |words: &str| Some(words.to_owned());
        assert_eq!(words(&event(2, "eth0", LinkChange::Down)), said("eth0 down"));
        assert_eq!(words(&event(2, "eth0", LinkChange::Mtu(1400))), said("eth0 mtu 1400"));
        // Another program's interface comes and goes.
        assert_eq!(words(&event(9, "veth7", LinkChange::Appeared)), None);
        assert_eq!(words(&event(9, "veth7", LinkChange::Up)), None);
        assert_eq!(words(&event(9, "veth7", added("fe80::9/64"))), None);
        // A lease is renewed; an address goes and comes back.
        assert_eq!(words(&event(2, "eth0", added("192.0.2.2/24"))), None);
        assert_eq!(
            words(&event(2, "eth0", removed("192.0.2.2/24"))),
            said("eth0 address 192.0.2.2/24 removed")
        );
        assert_eq!(words(&event(2, "eth0", removed("192.0.2.2/24"))), None);
        assert_eq!(words(&event(2, "eth0", added("192.0.2.2/24"))), said("eth0 address 192.0.2.2/24 added"));
        // An address of a further interface counts, too.
        assert_eq!(
            words(&event(3, "wlan0", added("198.51.100.2/24"))),
            said("wlan0 address 198.51.100.2/24 added")
        );
    }
}
