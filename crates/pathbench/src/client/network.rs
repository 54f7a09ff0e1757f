//! The host's network while the suite runs: what changed, and which of it matters.

use super::paths::HostNetwork;
use pathbench_analysis::assembly::{ClientPath, Notification, SeenEvent};
use pathbench_host::link_events::LinkEventStream;
use pathbench_host::mptcp::EventStream;
use pathbench_host::netlink::NetlinkError;
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Longest time between the end of the watch and its thread noticing.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// This host in results.
pub(crate) const CLIENT: &str = "client";

/// A thread that writes down what the kernel tells of links, addresses and (where it may) MPTCP subflows.
pub(crate) struct NetworkWatch {
    seen: Arc<Mutex<Vec<SeenEvent>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NetworkWatch {
    /// What happens from now on is seen.
    pub(crate) fn start(clock: &Arc<dyn Clock>) -> Result<Self, NetlinkError> {
        let links = LinkEventStream::subscribe()?;
        // Takes CAP_NET_ADMIN; without it, the paths themselves still tell.
        let subflows = EventStream::subscribe().ok();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped, clock) = (Arc::clone(&seen), Arc::clone(&stop), Arc::clone(clock));
        let thread = std::thread::spawn(move || watch(links, subflows, &kept, &stopped, &*clock));
        Ok(Self { seen, stop, thread: Some(thread) })
    }

    /// What was seen since the last call, in order.
    pub(crate) fn take(&self) -> Vec<SeenEvent> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for NetworkWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed already.
            let _ended = thread.join();
        }
    }
}

fn watch(
    mut links: LinkEventStream,
    mut subflows: Option<EventStream>,
    seen: &Mutex<Vec<SeenEvent>>,
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
        let heard = of_links.chain(of_subflows.into_iter().map(Notification::Mptcp));
        let heard = heard.map(|what| SeenEvent { at, node: CLIENT.to_owned(), what });
        seen.lock().unwrap_or_else(PoisonError::into_inner).extend(heard);
    }
}

/// A change that may have touched a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) at: Timestamp,
    /// `eth0 down`, `wlan0 address 192.0.2.2/24 added`, ….
    pub(crate) words: String,
}

/// Tells changes of the network from the kernel's other news: renewed leases, other programs' interfaces.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    addresses: BTreeMap<u32, BTreeSet<IpAddr>>,
    /// Interfaces that were a way to the server at any time: one that is down is one that may come back.
    ways: BTreeSet<String>,
}

impl Judge {
    /// One that knows the network as it is.
    pub(crate) fn knowing(network: &HostNetwork) -> Self {
        let addresses = network.routable_addresses().into_iter();
        Self {
            addresses: addresses.map(|(index, of)| (index, of.into_iter().collect())).collect(),
            ways: BTreeSet::new(),
        }
    }

    /// These are ways to the server, from now on.
    pub(crate) fn know_ways(&mut self, ways: &[ClientPath]) {
        self.ways.extend(ways.iter().map(|way| way.interface.clone()));
    }

    /// The change that `event` is for the tests of this suite; `None` where it is none.
    pub(crate) fn change(&mut self, at: Timestamp, event: &LinkEvent) -> Option<Change> {
        let name = event.name.clone().unwrap_or_else(|| format!("interface {}", event.index));
        let ours = self.ways.contains(&name);
        let matters = match event.change {
            LinkChange::AddressAdded(network) => {
                // A lease that was renewed is told like an address that is new.
                let is_new = self.addresses.entry(event.index).or_default().insert(network.addr());
                is_new && is_routable(network.addr())
            }
            LinkChange::AddressRemoved(network) => {
                let was_known =
                    self.addresses.get_mut(&event.index).is_some_and(|of| of.remove(&network.addr()));
                was_known && is_routable(network.addr())
            }
            LinkChange::Overrun => true,
            _ => ours,
        };
        matters.then(|| Change {
            at,
            words: match event.change {
                LinkChange::Overrun => "more changes than could be read".to_owned(),
                change => format!("{name} {change}"),
            },
        })
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

    fn told(index: u32, name: &str, change: LinkChange) -> LinkEvent {
        LinkEvent { index, name: Some(name.to_owned()), change }
    }

    fn added(text: &str) -> LinkChange {
        LinkChange::AddressAdded(text.parse().unwrap())
    }

    fn removed(text: &str) -> LinkChange {
        LinkChange::AddressRemoved(text.parse().unwrap())
    }

    #[test]
    fn only_changes_that_can_touch_a_test_count() {
        let known = BTreeMap::from([(2, BTreeSet::from(["192.0.2.2".parse().unwrap()]))]);
        let mut judge = Judge { addresses: known, ways: BTreeSet::from(["eth0".to_owned()]) };
        let mut words =
            |event: &LinkEvent| judge.change(Timestamp::default(), event).map(|change| change.words);
        let said = |words: &str| Some(words.to_owned());
        assert_eq!(words(&told(2, "eth0", LinkChange::Down)), said("eth0 down"));
        assert_eq!(words(&told(2, "eth0", LinkChange::Mtu(1400))), said("eth0 mtu 1400"));
        // Another program's interface comes and goes.
        assert_eq!(words(&told(9, "veth7", LinkChange::Appeared)), None);
        assert_eq!(words(&told(9, "veth7", LinkChange::Up)), None);
        assert_eq!(words(&told(9, "veth7", added("fe80::9/64"))), None);
        // A lease is renewed; an address goes and comes back.
        assert_eq!(words(&told(2, "eth0", added("192.0.2.2/24"))), None);
        assert_eq!(
            words(&told(2, "eth0", removed("192.0.2.2/24"))),
            said("eth0 address 192.0.2.2/24 removed")
        );
        assert_eq!(words(&told(2, "eth0", removed("192.0.2.2/24"))), None);
        assert_eq!(words(&told(2, "eth0", added("192.0.2.2/24"))), said("eth0 address 192.0.2.2/24 added"));
        // A new way out of the host, too.
        assert_eq!(
            words(&told(3, "wlan0", added("198.51.100.2/24"))),
            said("wlan0 address 198.51.100.2/24 added")
        );
    }
}
