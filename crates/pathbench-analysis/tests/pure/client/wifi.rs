//! Changes of Wi-Fi networks, and the loss of one.

use pathbench_analysis::assembly::WifiChange;
use pathbench_analysis::wifi::{InterfaceState, LossDetector, WifiLog};
use pathbench_record::kernel_event::{Bssid, WifiNetwork};
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

fn network(ssid: &str, access_point: u8, signal_dbm: i8) -> WifiNetwork {
    WifiNetwork {
        ssid: Some(ssid.to_owned()),
        bssid: Some(Bssid([2, 0, 0, 0, 0, access_point])),
        signal_dbm: Some(signal_dbm),
        ..WifiNetwork::default()
    }
}

fn wlan0(network: Option<WifiNetwork>) -> BTreeMap<String, Option<WifiNetwork>> {
    BTreeMap::from([("wlan0".to_owned(), network)])
}

#[test]
fn each_change_of_network_is_reported() {
    let mut log = WifiLog::default();
    let mut changes = |network: Option<WifiNetwork>| -> Vec<WifiChange> {
        log.take(wlan0(network)).into_iter().map(|one| one.change).collect()
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
    log.take(wlan0(Some(network("home", 1, -50))));
    let changes = log.take(BTreeMap::new());
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].interface.as_str(), changes[0].change), ("wlan0", WifiChange::Left));
    assert_eq!(log.take(BTreeMap::new()), []);
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
            vec![home(), InterfaceState::Usable(None), home(), InterfaceState::Usable(None), home(), home()],
            None,
        ),
    ] {
        assert_eq!(end(states.clone()), expected, "{states:?}");
    }
}
