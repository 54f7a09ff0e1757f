//! Which interfaces a measurement may use: metered and roaming networks only where the owner allows them.

use super::limits::Limits;
use crate::check::nmcli;
use crate::collector::network_kinds;
use pathbench_api::summary::NetworkKind;
use pathbench_host::mptcp::PathManager;
use pathbench_host::netlink::RouteSocket;
use pathbench_host::paths::HostNetwork;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What is known about the networks of this host at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkState {
    pub(crate) metered: BTreeSet<String>,
    pub(crate) cellular: BTreeSet<String>,
    /// Whether a modem is roaming.
    pub(crate) roaming: bool,
}

impl NetworkState {
    pub(crate) fn read() -> Self {
        let kinds = network_kinds();
        let cellular: BTreeSet<String> = kinds
            .into_iter()
            .filter(|(_, kind)| *kind == NetworkKind::Cellular)
            .map(|(name, _)| name)
            .collect();
        let roaming = !cellular.is_empty() && nmcli::roaming();
        Self { metered: nmcli::metered().into_iter().collect(), cellular, roaming }
    }

    /// Why a measurement must not use the interface; `metered` says whether it may use metered ones at all.
    pub(crate) fn objection(&self, interface: &str, metered: bool, limits: &Limits) -> Option<String> {
        let networks = &limits.networks;
        let is_cellular = self.cellular.contains(interface);
        if is_cellular && self.roaming && !limits.roaming {
            return Some(format!("the modem of {interface} is roaming"));
        }
        let is_metered = networks.metered.contains(interface)
            || (!networks.unmetered.contains(interface) && (is_cellular || self.metered.contains(interface)));
        if !is_metered || (metered && limits.metered) {
            return None;
        }
        let who = if limits.metered { "the experiment" } else { "`limits.metered`" };
        Some(format!("{interface} is metered, and {who} does not allow that"))
    }
}

/// The interfaces with a path to `server`.
pub(crate) fn interfaces_to(server: IpAddr) -> Result<Vec<String>, String> {
    let network = HostNetwork::read().map_err(|error| error.to_string())?;
    Ok(network.paths_to(server, None).into_iter().map(|path| path.interface).collect())
}

/// Whether the kernel could open MPTCP subflows over one of these interfaces on its own.
pub(crate) fn has_mptcp_endpoint(interfaces: &[String]) -> bool {
    let Ok(network) = HostNetwork::read() else { return true };
    let Ok(endpoints) = PathManager::open().and_then(|mut manager| manager.endpoints()) else { return false };
    let indexes: Vec<u32> =
        network.links.iter().filter(|link| interfaces.contains(&link.name)).map(|link| link.index).collect();
    let own: Vec<IpAddr> = network
        .addresses
        .iter()
        .filter(|address| indexes.contains(&address.index))
        .map(|address| address.network.addr())
        .collect();
    endpoints.iter().any(|endpoint| own.contains(&endpoint.address))
}

/// Bytes of each interface in both directions since it was created; an interface that is gone is absent.
pub(crate) fn counted_bytes(interfaces: &[String]) -> BTreeMap<String, u64> {
    let Ok(mut socket) = RouteSocket::open() else { return BTreeMap::new() };
    let links = socket.links().unwrap_or_default();
    let wanted = links.into_iter().filter(|link| interfaces.contains(&link.name));
    let bytes = wanted.filter_map(|link| {
        let counted = socket.statistics(link.index).ok()?;
        Some((link.name, counted.rx_bytes.saturating_add(counted.tx_bytes)))
    });
    bytes.collect()
}

/// The use between two counts. Counters begin anew with an interface that was created anew.
pub(crate) fn used_bytes(
    before: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let used = now.iter().map(|(name, now)| {
        let before = before.get(name).copied().unwrap_or(0);
        (name.clone(), now.checked_sub(before).unwrap_or(*now))
    });
    used.collect()
}

#[cfg(test)]
mod tests {
    use super::super::limits::Networks;
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn metered_networks_need_the_owner_and_the_experiment() {
        let state = NetworkState { metered: set(&["wlan0"]), cellular: set(&["wwan0"]), roaming: false };
        let forbidden = Limits::default();
        let allowed = Limits { metered: true, ..Limits::default() };
        for interface in ["wlan0", "wwan0"] {
            assert!(state.objection(interface, true, &forbidden).is_some(), "{interface}");
            assert!(state.objection(interface, false, &allowed).is_some(), "{interface}");
            assert!(state.objection(interface, true, &allowed).is_none(), "{interface}");
        }
        assert!(state.objection("eth0", false, &forbidden).is_none());
    }

    #[test]
    fn the_owner_knows_better_and_roaming_is_forbidden_separately() {
        let mut state = NetworkState { metered: set(&["wlan0"]), cellular: set(&["wwan0"]), roaming: false };
        let networks = Networks { metered: set(&["usb0"]), unmetered: set(&["wwan0", "wlan0"]) };
        let limits = Limits { networks, ..Limits::default() };
        assert!(state.objection("usb0", true, &limits).is_some());
        assert!(state.objection("wwan0", false, &limits).is_none());
        assert!(state.objection("wlan0", false, &limits).is_none());
        state.roaming = true;
        assert!(state.objection("wwan0", false, &limits).is_some());
        assert!(state.objection("wwan0", false, &Limits { roaming: true, ..limits }).is_none());
    }

    #[test]
    fn counters_that_begin_anew_count_from_zero() {
        let map = |bytes: u64| BTreeMap::from([("eth0".to_owned(), bytes)]);
        assert_eq!(used_bytes(&map(100), &map(250)), map(150));
        assert_eq!(used_bytes(&map(1000), &map(30)), map(30));
        assert_eq!(used_bytes(&BTreeMap::new(), &map(30)), map(30));
    }
}
