//! The networks around this host: links, addresses and Wi-Fi as the kernel reports them, and the loss of the Wi-Fi.

use crate::client::network::{CLIENT, NetworkMonitor};
use pathbench_analysis::assembly::{ClientPath, Notification, SeenEvent};
use pathbench_analysis::wifi::{InterfaceState, WifiLog};
use pathbench_host::wifi::{WifiInterface, WifiSocket};
use pathbench_program::exit::Failure;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_report::terminal::live::wifi_words;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Interval between requests for the Wi-Fi state.
const INTERVAL: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

pub(super) struct RoamContext {
    pub(super) monitor: NetworkMonitor,
    pub(super) wifi: WifiLog,
}

impl RoamContext {
    pub(super) fn start(clock: &Arc<dyn Clock>, paths: &[ClientPath]) -> Result<Self, Failure> {
        let mut monitor = NetworkMonitor::start(clock)?;
        monitor.follow(paths);
        Ok(Self { monitor, wifi: WifiLog::default() })
    }

    /// Adds a state of the Wi-Fi; returns the changes for the user.
    pub(super) fn add_wifi(&mut self, state: WifiState) -> Vec<String> {
        let mut words = Vec::new();
        let networks = state.interfaces.into_iter().map(|one| (one.name, one.network)).collect();
        for sighting in self.wifi.take(networks) {
            words.extend(wifi_words(&sighting));
            let what = Notification::Wifi(sighting);
            self.monitor.events.push(SeenEvent { at: state.at, node: CLIENT.to_owned(), what });
        }
        words
    }

    pub(super) fn interface(&self, name: &str) -> InterfaceState {
        let lost = |why: &str| InterfaceState::Lost(format!("{name} {why}"));
        let network = &self.monitor.network;
        let Some(link) = network.links.iter().find(|link| link.name == name) else {
            return lost("does not exist");
        };
        if !link.up {
            return lost("is down");
        }
        if !link.carrier {
            return lost("has no carrier");
        }
        if !network.routable_addresses().contains_key(&link.index) {
            return lost("has no address");
        }
        match self.wifi.network(name) {
            Some(network) => InterfaceState::Usable(network.ssid.clone()),
            None if self.wifi.knows(name) => lost("is not connected to any network"),
            None => InterfaceState::Usable(None),
        }
    }

    /// Interfaces without a path to the server, with all their addresses so far.
    pub(super) fn other_interfaces(&self, paths: &[ClientPath]) -> Vec<ClientPath> {
        self.monitor.with_all_addresses(&self.monitor.network.other_interfaces(paths))
    }
}

/// The Wi-Fi interfaces at one moment.
#[derive(Debug)]
pub(super) struct WifiState {
    at: Timestamp,
    interfaces: Vec<WifiInterface>,
}

/// Reads the Wi-Fi state until `stop`, in this thread, because a driver may take long to answer. Returns immediately
/// if the kernel has no Wi-Fi.
pub(super) fn follow_wifi(clock: &dyn Clock, stop: &AtomicBool, sender: &Sender<WifiState>) {
    let Ok(Some(mut socket)) = WifiSocket::open() else { return };
    let mut due = clock.now();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(interfaces) = socket.interfaces()
            && sender.send(WifiState { at: clock.now(), interfaces }).is_err()
        {
            return;
        }
        due = (due + INTERVAL).max(clock.now());
        while clock.now() < due && !stop.load(Ordering::Relaxed) {
            clock.sleep_until((clock.now() + TICK).min(due));
        }
    }
}

/// The current Wi-Fi interfaces; none if the kernel has no Wi-Fi.
pub(super) fn wifi_interfaces() -> Vec<WifiInterface> {
    let socket = WifiSocket::open().ok().flatten();
    socket.and_then(|mut socket| socket.interfaces().ok()).unwrap_or_default()
}
