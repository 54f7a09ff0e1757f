//! The networks around this host: links, addresses and Wi-Fi, as the kernel reports them, and when the Wi-Fi is lost.

use crate::client::CLIENT;
use crate::client::network::NetworkMonitor;
use crate::exit::Failure;
use pathbench_analysis::assembly::{ClientPath, Notification, SeenEvent, WifiChange, WifiSighting};
use pathbench_host::wifi::{WifiInterface, WifiSocket};
use pathbench_record::kernel_event::WifiNetwork;
use pathbench_record::time::{Clock, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Between two requests for the state of the Wi-Fi.
const INTERVAL: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

pub(super) struct PathContext {
    pub(super) monitor: NetworkMonitor,
    pub(super) wifi: WifiLog,
}

impl PathContext {
    pub(super) fn start(clock: &Arc<dyn Clock>, paths: &[ClientPath]) -> Result<Self, Failure> {
        let mut monitor = NetworkMonitor::start(clock)?;
        monitor.follow(paths);
        Ok(Self { monitor, wifi: WifiLog::default() })
    }

    /// Takes in a state of the Wi-Fi; returns the changes for the user.
    pub(super) fn add_wifi(&mut self, state: WifiState) -> Vec<String> {
        let mut words = Vec::new();
        for sighting in self.wifi.take(state.interfaces) {
            words.extend(super::view::wifi_words(&sighting));
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

    /// Interfaces without a path to the server, with all addresses that they have had.
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

/// Reads the state of the Wi-Fi until `stop`, in this thread, since a driver may take long to answer. Returns at once
/// where the kernel has no Wi-Fi.
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

/// The Wi-Fi interfaces now; none where the kernel has no Wi-Fi.
pub(super) fn wifi_interfaces() -> Vec<WifiInterface> {
    let socket = WifiSocket::open().ok().flatten();
    socket.and_then(|mut socket| socket.interfaces().ok()).unwrap_or_default()
}

/// The last state of each Wi-Fi interface.
#[derive(Debug, Default)]
pub(super) struct WifiLog {
    last: BTreeMap<String, Option<WifiNetwork>>,
}

impl WifiLog {
    /// Whether `interface` is a Wi-Fi interface.
    pub(super) fn knows(&self, interface: &str) -> bool {
        self.last.contains_key(interface)
    }

    pub(super) fn network(&self, interface: &str) -> Option<&WifiNetwork> {
        self.last.get(interface)?.as_ref()
    }

    /// The changes of each interface since the last state.
    pub(super) fn take(&mut self, interfaces: Vec<WifiInterface>) -> Vec<WifiSighting> {
        let mut changes = Vec::new();
        let gone: Vec<String> = self
            .last
            .keys()
            .filter(|name| !interfaces.iter().any(|interface| interface.name == **name))
            .cloned()
            .collect();
        for name in gone {
            let sighting = WifiSighting { interface: name.clone(), change: WifiChange::Left, network: None };
            changes.extend(self.last.remove(&name).flatten().map(|_| sighting));
        }
        for WifiInterface { name, network, .. } in interfaces {
            let before = self.last.insert(name.clone(), network.clone()).flatten();
            let change = change(before.as_ref(), network.as_ref());
            changes.extend(change.map(|change| WifiSighting { interface: name, change, network }));
        }
        changes
    }
}

fn change(before: Option<&WifiNetwork>, now: Option<&WifiNetwork>) -> Option<WifiChange> {
    match (before, now) {
        (None, None) => None,
        (Some(_), None) => Some(WifiChange::Left),
        (None, Some(_)) => Some(WifiChange::Joined),
        (Some(before), Some(now)) if before.ssid != now.ssid => Some(WifiChange::Joined),
        (Some(before), Some(now)) if before.bssid != now.bssid => Some(WifiChange::Moved),
        (Some(_), Some(_)) => Some(WifiChange::Signal),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InterfaceState {
    /// With the SSID, where the kernel reports one.
    Usable(Option<String>),
    /// With the reason: `wlan0 is down`.
    Lost(String),
}

/// Ends the tests some seconds after the Wi-Fi was lost or its identity changed, as `MultipathTester` does.
#[derive(Debug, Clone)]
pub(super) struct LossDetector {
    lost_for: Duration,
    /// The first network.
    network: Option<String>,
    lost: Option<(Timestamp, String)>,
}

impl LossDetector {
    pub(super) const fn new(lost_for: Duration) -> Self {
        Self { lost_for, network: None, lost: None }
    }

    /// Takes in the state at `at`; returns the reason to end, once there is one.
    pub(super) fn add(&mut self, at: Timestamp, state: InterfaceState) -> Option<String> {
        let why = match state {
            InterfaceState::Lost(why) => Some(why),
            InterfaceState::Usable(None) => None,
            InterfaceState::Usable(Some(network)) => {
                let first = self.network.get_or_insert_with(|| network.clone());
                (*first != network).then(|| format!("the Wi-Fi is `{network}` instead of `{first}`"))
            }
        };
        let Some(why) = why else {
            self.lost = None;
            return None;
        };
        let (since, first_reason) = self.lost.get_or_insert((at, why));
        (at.since(*since) >= self.lost_for).then(|| first_reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::kernel_event::Bssid;

    fn network(ssid: &str, access_point: u8, signal_dbm: i8) -> WifiNetwork {
        WifiNetwork {
            ssid: Some(ssid.to_owned()),
            bssid: Some(Bssid([2, 0, 0, 0, 0, access_point])),
            signal_dbm: Some(signal_dbm),
            ..WifiNetwork::default()
        }
    }

    #[test]
    fn each_change_of_network_is_reported() {
        let mut log = WifiLog::default();
        let mut changes = |network: Option<WifiNetwork>| -> Vec<WifiChange> {
            let interface = WifiInterface { index: 3, name: "wlan0".to_owned(), network };
            log.take(vec![interface]).into_iter().map(|one| one.change).collect()
        };
        assert_eq!(changes(None), []);
        assert_eq!(changes(Some(network("home", 1, -50))), [WifiChange::Joined]);
        assert_eq!(changes(Some(network("home", 1, -60))), [WifiChange::Signal]);
        assert_eq!(changes(Some(network("home", 2, -55))), [WifiChange::Moved]);
        assert_eq!(changes(Some(network("café", 3, -55))), [WifiChange::Joined]);
        assert_eq!(changes(None), [WifiChange::Left]);
        assert_eq!(changes(None), []);
        assert!(log.knows("wlan0") && log.network("wlan0").is_none());
        assert!(!log.knows("eth0"));
    }

    #[test]
    fn an_interface_that_is_unplugged_has_left() {
        let mut log = WifiLog::default();
        let joined = Some(network("home", 1, -50));
        log.take(vec![WifiInterface { index: 3, name: "wlan0".to_owned(), network: joined }]);
        let changes = log.take(Vec::new());
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].interface.as_str(), changes[0].change), ("wlan0", WifiChange::Left));
        assert_eq!(log.take(Vec::new()), []);
    }

    const HOME: &str = "home";

    fn there(network: &str) -> InterfaceState {
        InterfaceState::Usable(Some(network.to_owned()))
    }

    fn gone() -> InterfaceState {
        InterfaceState::Lost("wlan is down".to_owned())
    }

    /// States half a second apart; when the tests end, and why.
    fn end(states: Vec<InterfaceState>) -> Option<(u64, String)> {
        let mut detector = LossDetector::new(Duration::from_secs(2));
        states.into_iter().zip(0_u64..).find_map(|(sight, half_seconds)| {
            let at = Timestamp::from_nanos(half_seconds * 500_000_000);
            Some((half_seconds, detector.add(at, sight)?))
        })
    }

    #[test]
    fn the_tests_end_when_the_wifi_has_been_lost_for_some_seconds() {
        let down = "wlan is down".to_owned();
        let home = || there(HOME);
        for (states, expected) in [
            (vec![home(), home(), home(), home(), home(), home()], None),
            (vec![home(), gone(), gone(), gone(), gone(), gone()], Some((5, down.clone()))),
            // It came back in time.
            (vec![home(), gone(), gone(), gone(), home(), gone(), gone(), gone(), gone()], None),
            // The kernel reports no SSID.
            (vec![InterfaceState::Usable(None), gone(), gone(), gone(), gone(), gone()], Some((5, down))),
            // Another network is not the one that was left.
            (
                vec![home(), there("café"), gone(), there("café"), there("café"), there("café")],
                Some((5, "the Wi-Fi is `café` instead of `home`".to_owned())),
            ),
            (vec![home(), there("café"), home(), home(), there("café"), there("café")], None),
            (
                vec![
                    home(),
                    InterfaceState::Usable(None),
                    home(),
                    InterfaceState::Usable(None),
                    home(),
                    home(),
                ],
                None,
            ),
        ] {
            assert_eq!(end(states.clone()), expected, "{states:?}");
        }
    }
}
