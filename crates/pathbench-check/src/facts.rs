//! Facts about a host. Every fact that could not be read has its reason.

use pathbench_host::counters::KernelCounters;
use pathbench_host::device::DeviceFeatures;
use pathbench_host::firewall::rules::FirewallRules;
use pathbench_host::kernel::{MptcpSupport, Release};
use pathbench_host::managers::Managers;
use pathbench_host::mptcp::{MptcpEndpoint, MptcpLimits};
use pathbench_host::namespace::IsolationError;
use pathbench_host::netlink::{InterfaceAddress, NetworkInterface};
use pathbench_host::paths::{HostNetwork, HostPaths, PathAddress, PathEvidence};
use pathbench_host::shaping::Shaping;
use pathbench_record::mptcp::remedy::PathManagerState;
use pathbench_record::network::{AddressFamily, IpNet};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub use pathbench_host::paths::{Departure, RouteAnswer};

/// A fact, or the reason why it could not be read, with the remedy.
pub type Fact<T> = Result<T, String>;

/// The settings under `/proc/sys` that findings use.
pub const SETTINGS: [&str; 17] = [
    "net.mptcp.enabled",
    "net.mptcp.path_manager",
    "net.mptcp.pm_type",
    "net.mptcp.allow_join_initial_addr_port",
    "net.mptcp.blackhole_timeout",
    "net.mptcp.scheduler",
    "net.mptcp.available_schedulers",
    "net.mptcp.checksum_enabled",
    "net.mptcp.mptcp_enabled",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.default.rp_filter",
];

/// This host, as seen from the calling thread's network namespace.
#[derive(Debug, Clone)]
pub struct HostFacts {
    pub kernel: Release,
    pub support: MptcpSupport,
    /// Value by key; `Ok(None)` where this kernel lacks the setting.
    pub settings: BTreeMap<String, Fact<Option<String>>>,
    pub endpoints: Fact<Vec<MptcpEndpoint>>,
    pub limits: Fact<MptcpLimits>,
    /// Whether the installed `ip` knows the endpoint flag `laminar`.
    pub ip_knows_laminar: bool,
    pub network: HostNetwork,
    /// By index of the interface.
    pub devices: BTreeMap<u32, DeviceFacts>,
    /// The interface by which packets to a destination leave without a source address, per destination.
    pub primaries: Vec<(IpAddr, RouteAnswer)>,
    pub departures: Vec<Departure>,
    /// Routers from DHCP leases, by index of the interface.
    pub leased_routers: BTreeMap<u32, Vec<IpAddr>>,
    pub managers: Managers,
    pub counters: Fact<KernelCounters>,
    /// Whether a new connection is opened without `MP_CAPABLE`; `None` without a black hole in the counters.
    pub suspended: Option<bool>,
    pub firewall: Fact<FirewallRules>,
    /// Tables of legacy iptables.
    pub legacy_tables: Fact<Vec<String>>,
    /// Queueing disciplines that limit an interface.
    pub shaping: Fact<Vec<Shaping>>,
    pub lab: LabFacts,
    /// Whether a UDP socket accepts `UDP_SEGMENT`.
    pub udp_gso: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Speed of the link, where the driver reports it.
    pub speed_bps: Option<u64>,
    pub features: Option<DeviceFeatures>,
    /// A cellular interface (`DEVTYPE=wwan`, or a point-to-point interface of a modem).
    pub cellular: bool,
    pub wifi: bool,
    /// As `NetworkManager` reports it.
    pub metered: Option<bool>,
}

/// The needs of `pathbench lab`.
#[derive(Debug, Clone)]
pub struct LabFacts {
    /// Whether an ordinary user can create a lab's namespaces here.
    pub rootless: Result<(), IsolationError>,
    pub tun: Fact<()>,
    pub nf_tables: Fact<bool>,
    pub netem: Fact<bool>,
}

impl HostFacts {
    /// The value of a setting; `None` where the kernel lacks it or it could not be read.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key)?.as_ref().ok()?.as_deref()
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.setting(key)?.parse().ok()
    }

    /// The path manager's configuration in force, for remedies.
    pub fn path_manager(&self) -> PathManagerState {
        PathManagerState {
            limits: self.limits.as_ref().ok().copied(),
            endpoints: self.endpoints.clone().unwrap_or_default(),
            ip_knows_laminar: self.ip_knows_laminar,
        }
    }

    pub fn link(&self, index: u32) -> Option<&NetworkInterface> {
        self.network.links.iter().find(|link| link.index == index)
    }

    /// Why a setting could not be read; `None` if it was read, or does not exist.
    pub fn unread(&self, key: &str) -> Option<&str> {
        self.settings.get(key)?.as_ref().err().map(String::as_str)
    }

    /// The name of an interface; its number if it does not exist.
    pub fn name(&self, index: u32) -> String {
        self.link(index).map_or_else(|| format!("interface {index}"), |link| link.name.clone())
    }

    pub fn device(&self, index: u32) -> DeviceFacts {
        self.devices.get(&index).cloned().unwrap_or_default()
    }

    /// The interface that has this address.
    pub fn assigned(&self, address: IpAddr) -> Option<&InterfaceAddress> {
        self.network.addresses.iter().find(|one| one.network.addr() == address)
    }

    /// Whether an interface leads beyond the routers in this family: any interface, or this one.
    pub fn has_default_route(&self, family: AddressFamily, interface: Option<u32>) -> bool {
        let mut links = self.network.links.iter().map(|link| link.index);
        links.any(|index| {
            interface.is_none_or(|wanted| wanted == index) && self.network.leads_beyond(index, family)
        })
    }
}

/// An interface that can be a path, with its address of one family.
#[derive(Debug, Clone, Copy)]
pub struct PathFacts<'a> {
    pub link: &'a NetworkInterface,
    pub address: IpAddr,
    pub network: IpNet,
}

impl HostFacts {
    /// The model of this host's paths.
    pub fn host_paths(&self) -> HostPaths<'_> {
        let evidence = PathEvidence {
            endpoints: self.endpoints.as_deref().unwrap_or_default(),
            primaries: &self.primaries,
            departures: &self.departures,
            leased_routers: Some(&self.leased_routers),
        };
        HostPaths::new(&self.network, evidence)
    }

    /// The paths of this family, each with its preferred address.
    pub fn paths(&self, family: AddressFamily) -> Vec<PathFacts<'_>> {
        let found = self.host_paths().of_family(family).into_iter();
        let network = |at: PathAddress| IpNet::new(at.address, at.subnet.prefix_len()).unwrap_or(at.subnet);
        found.map(|(link, at)| PathFacts { link, address: at.address, network: network(at) }).collect()
    }

    /// The preferred address for new connections.
    pub fn address_of(&self, interface: u32, family: AddressFamily) -> Option<&InterfaceAddress> {
        self.network.usable_addresses(interface, family).first().copied()
    }

    pub fn is_tunnel(&self, index: u32) -> bool {
        self.link(index).is_some_and(|link| self.network.is_tunnel(link))
    }

    /// The VPN that takes new connections of a family, or of any, beside a path that is no tunnel.
    pub fn vpn(&self, family: Option<AddressFamily>) -> Option<&NetworkInterface> {
        let paths = self.host_paths();
        let mut families =
            AddressFamily::ALL.into_iter().filter(|one| family.is_none_or(|family| family == *one));
        families.find_map(|family| paths.vpn(family))
    }

    /// The interface that the kernel selects for connections without a bound address.
    pub fn primary(&self, family: AddressFamily) -> Option<u32> {
        let paths = self.host_paths();
        let answer = paths.answer(family)?;
        answer.as_ref().ok()?.first().map(|hop| hop.interface)
    }
}
