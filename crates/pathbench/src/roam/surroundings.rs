//! The networks around: what the kernel tells of links, addresses and Wi-Fi, and what it means for the walk.

use super::wifi::Sight;
use super::wifi::{Look, WifiLog};
use crate::client::network::{CLIENT, Change, Judge, NetworkWatch};
use crate::client::paths::HostNetwork;
use crate::exit::Failure;
use pathbench_analysis::assembly::{ClientPath, Notification, SeenEvent};
use pathbench_record::time::Clock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// What is known of the networks around.
pub(super) struct Surroundings {
    watch: NetworkWatch,
    judge: Judge,
    pub(super) wifi: WifiLog,
    now: HostNetwork,
    /// Interface → every address that it ever had here, in the order in which they were seen.
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Everything that was told, in order.
    pub(super) events: Vec<SeenEvent>,
    pub(super) changes: Vec<Change>,
}

impl Surroundings {
    /// What happens from now on is seen.
    pub(super) fn watch(clock: &Arc<dyn Clock>, ways: &[ClientPath]) -> Result<Self, Failure> {
        let watch = NetworkWatch::start(clock).map_err(Failure::failed)?;
        let now = HostNetwork::read().map_err(Failure::failed)?;
        let mut judge = Judge::knowing(&now);
        judge.know_ways(ways);
        let mut surroundings = Self {
            watch,
            judge,
            wifi: WifiLog::default(),
            now,
            addresses: BTreeMap::new(),
            events: Vec::new(),
            changes: Vec::new(),
        };
        surroundings.learn_addresses();
        Ok(surroundings)
    }

    /// Takes in what has happened; returns in words what of it matters.
    pub(super) fn look(&mut self) -> Vec<String> {
        let told = self.watch.take();
        if told.is_empty() {
            return Vec::new();
        }
        let mut words = Vec::new();
        for event in told {
            if let Notification::Link(link) = &event.what
                && let Some(change) = self.judge.change(event.at, link)
            {
                words.push(change.words.clone());
                self.changes.push(change);
            }
            self.events.push(event);
        }
        if let Ok(now) = HostNetwork::read() {
            self.now = now;
            self.learn_addresses();
        }
        words
    }

    /// Takes in what was seen of the Wi-Fi; returns in words what of it matters.
    pub(super) fn see_wifi(&mut self, look: Look) -> Vec<String> {
        let mut words = Vec::new();
        for sighting in self.wifi.take(look.interfaces) {
            words.extend(super::view::wifi_words(&sighting));
            let what = Notification::Wifi(sighting);
            self.events.push(SeenEvent { at: look.at, node: CLIENT.to_owned(), what });
        }
        words
    }

    /// What is to be seen of an interface, by the kernel's network and Wi-Fi.
    pub(super) fn sight(&self, interface: &str) -> Sight {
        let Some(link) = self.now.links.iter().find(|link| link.name == interface) else {
            return Sight::Gone(format!("{interface} is not there"));
        };
        if !link.up {
            return Sight::Gone(format!("{interface} is down"));
        }
        if !link.carrier {
            return Sight::Gone(format!("{interface} has no carrier"));
        }
        if !self.now.routable_addresses().contains_key(&link.index) {
            return Sight::Gone(format!("{interface} has no address"));
        }
        match self.wifi.network(interface) {
            Some(network) => Sight::There(network.ssid.clone()),
            None if self.wifi.knows(interface) => {
                Sight::Gone(format!("{interface} is not connected to any network"))
            }
            None => Sight::There(None),
        }
    }

    /// These ways with all addresses that their interfaces ever had, for the names of paths.
    pub(super) fn with_all_addresses(&self, ways: &[ClientPath]) -> Vec<ClientPath> {
        let all = |way: &ClientPath| {
            let mut way = way.clone();
            for address in self.addresses.get(&way.interface).into_iter().flatten() {
                if !way.addresses.contains(address) {
                    way.addresses.push(*address);
                }
            }
            way
        };
        ways.iter().map(all).collect()
    }

    /// Interfaces that are none of these ways, with their addresses.
    pub(super) fn other_interfaces(&self, ways: &[ClientPath]) -> Vec<ClientPath> {
        self.with_all_addresses(&self.now.other_interfaces(ways))
    }

    fn learn_addresses(&mut self) {
        let routable = self.now.routable_addresses();
        for link in &self.now.links {
            let known = self.addresses.entry(link.name.clone()).or_default();
            for address in routable.get(&link.index).into_iter().flatten() {
                if !known.contains(address) {
                    known.push(*address);
                }
            }
        }
    }
}
