//! Detects when a host joins, changes and loses Wi-Fi networks.

use crate::assembly::{WifiChange, WifiSighting};
use pathbench_record::kernel_event::WifiNetwork;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The last state of each Wi-Fi interface.
#[derive(Debug, Default)]
pub struct WifiLog {
    last: BTreeMap<String, Option<WifiNetwork>>,
}

impl WifiLog {
    /// Whether `interface` is a Wi-Fi interface.
    pub fn knows(&self, interface: &str) -> bool {
        self.last.contains_key(interface)
    }

    pub fn network(&self, interface: &str) -> Option<&WifiNetwork> {
        self.last.get(interface)?.as_ref()
    }

    /// The changes of each interface since its last state.
    pub fn take(&mut self, interfaces: BTreeMap<String, Option<WifiNetwork>>) -> Vec<WifiSighting> {
        let mut changes = Vec::new();
        self.last.retain(|name, network| {
            let is_present = interfaces.contains_key(name);
            if !is_present && network.is_some() {
                changes.push(WifiSighting {
                    interface: name.clone(),
                    change: WifiChange::Left,
                    network: None,
                });
            }
            is_present
        });
        for (name, network) in interfaces {
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
pub enum InterfaceState {
    /// With the SSID, if the kernel reports one.
    Usable(Option<String>),
    /// With the reason: `wlan0 is down`.
    Lost(String),
}

/// Ends the tests some seconds after the Wi-Fi connection was lost or the network changed, as `MultipathTester` does.
#[derive(Debug, Clone)]
pub struct LossDetector {
    lost_for: Duration,
    /// The first network.
    network: Option<String>,
    lost: Option<(Timestamp, String)>,
}

impl LossDetector {
    pub const fn new(lost_for: Duration) -> Self {
        Self { lost_for, network: None, lost: None }
    }

    /// Adds the state at `at`; returns the reason to end the tests, if any.
    pub fn add(&mut self, at: Timestamp, state: InterfaceState) -> Option<String> {
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
        (at.duration_since(*since) >= self.lost_for).then(|| first_reason.clone())
    }
}
