//! What the kernel tells of the Wi-Fi, every second.

use pathbench_analysis::assembly::{WifiChange, WifiSighting};
use pathbench_host::wifi::{WifiInterface, WifiSocket};
use pathbench_record::kernel_event::WifiNetwork;
use pathbench_record::time::{Clock, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often a sleeping thread looks whether it is needed.
const TICK: Duration = Duration::from_millis(100);

/// The Wi-Fi interfaces at one moment.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) at: Timestamp,
    pub(super) interfaces: Vec<WifiInterface>,
}

/// Looks until `stop`, in this thread; returns at once where the kernel has no Wi-Fi. A driver may take its time, so
/// nothing else is done here.
pub(super) fn watch(clock: &dyn Clock, stop: &AtomicBool, sender: &Sender<Look>) {
    let Ok(Some(mut socket)) = WifiSocket::open() else { return };
    let mut due = clock.now();
    while !stop.load(Ordering::Relaxed) {
        // One that fails is told by its absence; the next may succeed.
        if let Ok(interfaces) = socket.interfaces()
            && sender.send(Look { at: clock.now(), interfaces }).is_err()
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
pub(super) fn interfaces() -> Vec<WifiInterface> {
    let socket = WifiSocket::open().ok().flatten();
    socket.and_then(|mut socket| socket.interfaces().ok()).unwrap_or_default()
}

/// What was seen last, and what is new in a look.
#[derive(Debug, Default)]
pub(super) struct WifiLog {
    last: BTreeMap<String, Option<WifiNetwork>>,
}

impl WifiLog {
    /// Whether the kernel calls `interface` one of Wi-Fi.
    pub(super) fn knows(&self, interface: &str) -> bool {
        self.last.contains_key(interface)
    }

    /// What `interface` is connected to, as far as the kernel tells.
    pub(super) fn network(&self, interface: &str) -> Option<&WifiNetwork> {
        self.last.get(interface)?.as_ref()
    }

    /// What is new of each interface.
    pub(super) fn take(&mut self, interfaces: Vec<WifiInterface>) -> Vec<WifiSighting> {
        let mut told = Vec::new();
        let gone: Vec<String> = self
            .last
            .keys()
            .filter(|name| !interfaces.iter().any(|interface| interface.name == **name))
            .cloned()
            .collect();
        for name in gone {
            let sighting = WifiSighting { interface: name.clone(), change: WifiChange::Left, network: None };
            told.extend(self.last.remove(&name).flatten().map(|_| sighting));
        }
        for WifiInterface { name, network, .. } in interfaces {
            let before = self.last.insert(name.clone(), network.clone()).flatten();
            let change = change(before.as_ref(), network.as_ref());
            told.extend(change.map(|change| WifiSighting { interface: name, change, network }));
        }
        told
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

/// What was seen of the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sight {
    /// It can be used; the network's name, where the kernel tells.
    There(Option<String>),
    /// It cannot, in words: `wlan0 is down`.
    Gone(String),
}

/// Follows an interface.
#[derive(Debug, Clone)]
pub(super) struct Presence {
    gone_for: Duration,
    /// The first network that was seen.
    network: Option<String>,
    gone: Option<(Timestamp, String)>,
}

impl Presence {
    pub(super) const fn new(gone_for: Duration) -> Self {
        Self { gone_for, network: None, gone: None }
    }

    /// Takes in what is seen at `at`; returns why the walk ends, once it does.
    pub(super) fn look(&mut self, at: Timestamp, sight: Sight) -> Option<String> {
        let why = match sight {
            Sight::Gone(why) => Some(why),
            Sight::There(None) => None,
            Sight::There(Some(network)) => {
                let first = self.network.get_or_insert_with(|| network.clone());
                (*first != network).then(|| format!("the Wi-Fi is `{network}` instead of `{first}`"))
            }
        };
        let Some(why) = why else {
            self.gone = None;
            return None;
        };
        let (since, first_reason) = self.gone.get_or_insert((at, why));
        (at.since(*since) >= self.gone_for).then(|| first_reason.clone())
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
    fn a_walk_through_networks_is_told_step_by_step() {
        let mut log = WifiLog::default();
        let mut changes = |network: Option<WifiNetwork>| -> Vec<WifiChange> {
            let interface = WifiInterface { index: 3, name: "wlan0".to_owned(), network };
            log.take(vec![interface]).into_iter().map(|told| told.change).collect()
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
        let told = log.take(Vec::new());
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].interface.as_str(), told[0].change), ("wlan0", WifiChange::Left));
        assert_eq!(log.take(Vec::new()), []);
    }

    const HOME: &str = "home";

    fn there(network: &str) -> Sight {
        Sight::There(Some(network.to_owned()))
    }

    fn gone() -> Sight {
        Sight::Gone("wlan is down".to_owned())
    }

    /// Each sight half a second after the one before; when the walk ends, and why.
    fn end(sights: Vec<Sight>) -> Option<(u64, String)> {
        let mut presence = Presence::new(Duration::from_secs(2));
        sights.into_iter().zip(0_u64..).find_map(|(sight, half_seconds)| {
            let at = Timestamp::from_nanos(half_seconds * 500_000_000);
            Some((half_seconds, presence.look(at, sight)?))
        })
    }

    #[test]
    fn the_walk_ends_when_the_wifi_has_been_gone_for_some_seconds() {
        let down = "wlan is down".to_owned();
        let home = || there(HOME);
        for (sights, expected) in [
            (vec![home(), home(), home(), home(), home(), home()], None),
            (vec![home(), gone(), gone(), gone(), gone(), gone()], Some((5, down.clone()))),
            // It came back in time.
            (vec![home(), gone(), gone(), gone(), home(), gone(), gone(), gone(), gone()], None),
            // The kernel tells no name.
            (vec![Sight::There(None), gone(), gone(), gone(), gone(), gone()], Some((5, down))),
            // Another network is not the one that was left.
            (
                vec![home(), there("café"), gone(), there("café"), there("café"), there("café")],
                Some((5, "the Wi-Fi is `café` instead of `home`".to_owned())),
            ),
            (vec![home(), there("café"), home(), home(), there("café"), there("café")], None),
            (vec![home(), Sight::There(None), home(), Sight::There(None), home(), home()], None),
        ] {
            assert_eq!(end(sights.clone()), expected, "{sights:?}");
        }
    }
}
