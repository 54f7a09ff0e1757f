//! The state of a host before its set-up.

use pathbench_host::change::setting::{
    MPTCP_ENABLED, OF_INTERFACE, PATH_MANAGER, PM_TYPE, interface_key, linkdown_key,
};
use pathbench_host::change::{InterfaceNames, Operation};
use pathbench_host::managers::MptcpdFlags;
use pathbench_host::mptcp::{MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::{InterfaceAddress, NetworkInterface, Route, RoutingRule};
use pathbench_host::paths::{HostNetwork, HostPaths, PathEvidence, RouteAnswer};
use pathbench_record::network::AddressFamily;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The access network of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    Wired,
    Wifi,
    Cellular,
}

/// The program that configures an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    NetworkManager,
    Networkd,
}

/// The state of a host.
#[derive(Debug, Clone, Default)]
pub struct SetupHost {
    pub links: Vec<NetworkInterface>,
    pub addresses: Vec<InterfaceAddress>,
    /// Unicast routes of all tables and both families.
    pub routes: Vec<Route>,
    /// Rules whose only condition is the source.
    pub rules: Vec<RoutingRule>,
    pub endpoints: Vec<MptcpEndpoint>,
    /// The kernel's answers for new connections, by destination.
    pub primaries: Vec<(IpAddr, RouteAnswer)>,
    /// `None`: this kernel has no MPTCP path manager.
    pub limits: Option<MptcpLimits>,
    /// Kernel settings by key with slashes; a setting that the kernel lacks is absent.
    pub settings: BTreeMap<String, String>,
    /// By interface index, as the three below.
    pub media: BTreeMap<u32, Medium>,
    /// Interfaces whose traffic costs money according to `NetworkManager`.
    pub metered: BTreeSet<u32>,
    pub managers: BTreeMap<u32, Manager>,
    pub network_manager_version: Option<(u32, u32)>,
    /// The UUID of `NetworkManager`'s active connection, by interface index.
    pub connections: BTreeMap<u32, String>,
    /// Routers from DHCP leases that have not expired.
    pub leased_routers: BTreeMap<u32, Vec<IpAddr>>,
    /// The daemon mptcpd runs: it adds endpoints and raises limits.
    pub has_mptcpd: bool,
    /// Unknown if mptcpd does not run.
    pub mptcpd_flags: Option<MptcpdFlags>,
    /// Whether networkd keeps policy rules of other programs (`ManageForeignRoutingPolicyRules=no`).
    pub networkd_keeps_rules: bool,
    /// Whether the kernel knows the endpoint flag `laminar` (Linux 6.18).
    pub has_laminar: bool,
    /// Operations of earlier plans that are applied and not undone.
    pub standing: Vec<Operation>,
}

impl SetupHost {
    /// The value of a setting as a number; 0 if the kernel lacks it.
    pub(super) fn number(&self, key: &str) -> u32 {
        self.settings.get(key).and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    }

    pub(super) fn network(&self) -> HostNetwork {
        HostNetwork {
            links: self.links.clone(),
            addresses: self.addresses.clone(),
            routes: self.routes.clone(),
            rules: self.rules.clone(),
        }
    }

    /// The model of this host's paths; `network` is [`Self::network`].
    pub(super) fn paths<'a>(&'a self, network: &'a HostNetwork) -> HostPaths<'a> {
        let evidence = PathEvidence {
            endpoints: &self.endpoints,
            primaries: &self.primaries,
            departures: &[],
            leased_routers: Some(&self.leased_routers),
        };
        HostPaths::new(network, evidence)
    }

    pub(super) fn names(&self) -> InterfaceNames {
        self.links.iter().map(|link| (link.index, link.name.clone())).collect()
    }

    /// The settings that a plan depends on, for the interfaces with these names.
    pub fn setting_keys<'a>(interfaces: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut keys = [MPTCP_ENABLED, PM_TYPE, PATH_MANAGER].map(str::to_owned).to_vec();
        for interface in interfaces.chain(["all"]) {
            keys.extend(OF_INTERFACE.map(|name| interface_key(interface, name)));
            keys.extend(AddressFamily::ALL.map(|family| linkdown_key(interface, family)));
        }
        keys
    }
}
