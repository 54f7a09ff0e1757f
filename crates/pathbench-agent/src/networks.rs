//! The networks of this host, and the rules by which a measurement uses them: metered and roaming networks only where the
//! owner allows them.

use crate::client::network_kinds;
use crate::limits::OwnerLimits;
use ipnet::IpNet;
use pathbench_api::summary::NetworkKind;
use pathbench_host::mptcp::PathManager;
use pathbench_host::netlink::RouteSocket;
use pathbench_host::nmcli;
use pathbench_host::paths::HostNetwork;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

pub trait HostNetworks: Debug + Send + Sync {
    /// Interface → kind of its network.
    fn kinds(&self) -> BTreeMap<String, NetworkKind>;
    /// The interfaces that the host's network manager holds to be metered.
    fn metered(&self) -> Vec<String>;
    fn is_roaming(&self) -> bool;
    /// The addresses of this host with their networks.
    fn own_networks(&self) -> Result<Vec<IpNet>, String>;
    fn interfaces_to(&self, server: IpAddr) -> Result<Vec<String>, String>;
    /// The interfaces over which this host sends to one of the addresses.
    fn interfaces_used(&self, addresses: &[IpAddr]) -> Vec<String>;
    /// Whether the kernel could open MPTCP subflows over one of these interfaces on its own.
    fn has_mptcp_endpoint(&self, interfaces: &[String]) -> bool;
    /// Bytes of each interface in both directions since it was created; an interface that is gone is absent.
    fn byte_counters(&self, interfaces: &[String]) -> Option<BTreeMap<String, u64>>;
}

/// The networks that the kernel and `NetworkManager` know.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelNetworks;

impl HostNetworks for KernelNetworks {
    fn kinds(&self) -> BTreeMap<String, NetworkKind> {
        network_kinds()
    }

    fn metered(&self) -> Vec<String> {
        nmcli::metered_interfaces()
    }

    fn is_roaming(&self) -> bool {
        nmcli::roaming()
    }

    fn own_networks(&self) -> Result<Vec<IpNet>, String> {
        let network = HostNetwork::read().map_err(|error| error.to_string())?;
        Ok(network.addresses.iter().map(|address| address.network).collect())
    }

    fn interfaces_to(&self, server: IpAddr) -> Result<Vec<String>, String> {
        let network = HostNetwork::read().map_err(|error| error.to_string())?;
        Ok(network.paths_to(server, None).into_iter().map(|path| path.interface).collect())
    }

    fn interfaces_used(&self, addresses: &[IpAddr]) -> Vec<String> {
        let Ok(network) = HostNetwork::read() else { return Vec::new() };
        let first = |address: &IpAddr| {
            // Routes do not depend on the port.
            let paths = network.paths_over(&[], SocketAddr::new(*address, 443)).ok()?;
            paths.into_iter().next().map(|path| path.interface)
        };
        addresses.iter().filter_map(first).collect()
    }

    fn has_mptcp_endpoint(&self, interfaces: &[String]) -> bool {
        let Ok(network) = HostNetwork::read() else { return true };
        let Ok(endpoints) = PathManager::open().and_then(|mut manager| manager.endpoints()) else {
            return false;
        };
        let indexes: Vec<u32> = network
            .links
            .iter()
            .filter(|link| interfaces.contains(&link.name))
            .map(|link| link.index)
            .collect();
        let own: Vec<IpAddr> = network
            .addresses
            .iter()
            .filter(|address| indexes.contains(&address.index))
            .map(|address| address.network.addr())
            .collect();
        endpoints.iter().any(|endpoint| own.contains(&endpoint.address))
    }

    fn byte_counters(&self, interfaces: &[String]) -> Option<BTreeMap<String, u64>> {
        let mut socket = RouteSocket::open().ok()?;
        let links = socket.links().ok()?;
        let wanted = links.into_iter().filter(|link| interfaces.contains(&link.name));
        let bytes = wanted.filter_map(|link| {
            let counted = socket.statistics(link.index).ok()?;
            Some((link.name, counted.rx_bytes.saturating_add(counted.tx_bytes)))
        });
        Some(bytes.collect())
    }
}

/// The state of this host's networks at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkState {
    pub(crate) metered: BTreeSet<String>,
    pub(crate) cellular: BTreeSet<String>,
    pub(crate) roaming: bool,
}

/// Which networks a measurement may use.
#[derive(Debug, Clone)]
pub(crate) struct NetworkRules {
    /// Whether the experiment allows metered networks.
    pub(crate) metered: bool,
    pub(crate) limits: OwnerLimits,
    /// The owner's knowledge.
    pub(crate) kinds: BTreeMap<String, NetworkKind>,
}

impl NetworkRules {
    /// Why one of the interfaces must not be used at this moment.
    pub(crate) fn objection(&self, host: &dyn HostNetworks, interfaces: &[String]) -> Option<String> {
        let networks = NetworkState::read(host, &self.kinds);
        interfaces.iter().find_map(|name| networks.objection(name, self.metered, &self.limits))
    }
}

impl NetworkState {
    /// `own_kinds` are the owner's, who knows better than the kernel.
    pub(crate) fn read(host: &dyn HostNetworks, own_kinds: &BTreeMap<String, NetworkKind>) -> Self {
        let mut kinds = host.kinds();
        kinds.extend(own_kinds.clone());
        let cellular: BTreeSet<String> = kinds
            .into_iter()
            .filter(|(_, kind)| *kind == NetworkKind::Cellular)
            .map(|(name, _)| name)
            .collect();
        let roaming = !cellular.is_empty() && host.is_roaming();
        Self { metered: host.metered().into_iter().collect(), cellular, roaming }
    }

    /// Why a measurement must not use the interface; `metered` says whether it may use metered ones at all.
    pub(crate) fn objection(&self, interface: &str, metered: bool, limits: &OwnerLimits) -> Option<String> {
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

/// Interface → bytes in both directions since a meter was made.
#[derive(Debug)]
pub(crate) struct InterfaceMeter {
    interfaces: Vec<String>,
    /// The counters at the last reading, without those of interfaces that were gone.
    last: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
}

impl InterfaceMeter {
    pub(crate) fn new(host: &dyn HostNetworks, interfaces: Vec<String>) -> Self {
        let last = host.byte_counters(&interfaces).unwrap_or_default();
        Self { interfaces, last, used: BTreeMap::new() }
    }

    /// Reads the counters, each second: they begin anew with an interface that is created anew, such as ppp0. An
    /// interface that is gone is absent.
    pub(crate) fn read(&mut self, host: &dyn HostNetworks) -> BTreeMap<String, u64> {
        host.byte_counters(&self.interfaces).map_or_else(BTreeMap::new, |now| self.add(now))
    }

    fn add(&mut self, now: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        for (name, now) in &now {
            let before = self.last.get(name).copied().unwrap_or(0);
            let used = self.used.entry(name.clone()).or_default();
            *used = used.saturating_add(now.checked_sub(before).unwrap_or(*now));
        }
        self.last = now;
        self.last.keys().map(|name| (name.clone(), self.used[name])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Networks;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn metered_networks_need_the_owner_and_the_experiment() {
        let state = NetworkState { metered: set(&["wlan0"]), cellular: set(&["wwan0"]), roaming: false };
        let forbidden = OwnerLimits::default();
        let allowed = OwnerLimits { metered: true, ..OwnerLimits::default() };
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
        let limits = OwnerLimits { networks, ..OwnerLimits::default() };
        assert!(state.objection("usb0", true, &limits).is_some());
        assert!(state.objection("wwan0", false, &limits).is_none());
        assert!(state.objection("wlan0", false, &limits).is_none());
        state.roaming = true;
        assert!(state.objection("wwan0", false, &limits).is_some());
        assert!(state.objection("wwan0", false, &OwnerLimits { roaming: true, ..limits }).is_none());
    }

    #[test]
    fn the_owners_kind_of_a_network_makes_it_metered() {
        let kinds = BTreeMap::from([("lo".to_owned(), NetworkKind::Cellular)]);
        let limits = OwnerLimits::default();
        assert!(
            NetworkState::read(&KernelNetworks, &BTreeMap::new()).objection("lo", true, &limits).is_none()
        );
        assert!(NetworkState::read(&KernelNetworks, &kinds).objection("lo", true, &limits).is_some());
    }

    #[test]
    fn counters_that_begin_anew_lose_no_bytes() {
        let map = |bytes: u64| BTreeMap::from([("ppp0".to_owned(), bytes)]);
        let mut meter = InterfaceMeter { interfaces: Vec::new(), last: map(1000), used: BTreeMap::new() };
        assert_eq!(meter.add(map(1100)), map(100));
        assert_eq!(meter.add(map(5)), map(105), "the modem connects again");
        assert_eq!(meter.add(BTreeMap::new()), BTreeMap::new(), "it is gone");
        assert_eq!(meter.add(map(7)), map(112));
    }
}
