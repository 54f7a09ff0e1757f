//! Facts about a host. Every fact that could not be read has its reason.

use pathbench_host::counters::KernelCounters;
use pathbench_host::device::DeviceFeatures;
use pathbench_host::firewall::rules::FirewallRules;
use pathbench_host::kernel::{MptcpSupport, Release};
use pathbench_host::managers::Managers;
use pathbench_host::mptcp::{MptcpEndpoint, MptcpLimits};
use pathbench_host::namespace::IsolationError;
use pathbench_host::netlink::{InterfaceAddress, NetworkInterface, NextHop, Route};
use pathbench_host::paths::HostNetwork;
use pathbench_record::network::{AddressFamily, IpNet};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A fact, or the reason why it could not be read, with the remedy.
pub type Fact<T> = Result<T, String>;

/// Table of the host's own addresses (`RT_TABLE_LOCAL` of linux/rtnetlink.h).
pub(crate) const LOCAL_TABLE: u32 = 255;

/// Kinds of interfaces of VPNs.
const TUNNELS: [&str; 7] = ["wireguard", "tun", "xfrm", "vti", "vti6", "ipip", "gre"];

/// The settings under `/proc/sys` that findings use.
pub const SETTINGS: [&str; 16] = [
    "net.mptcp.enabled",
    "net.mptcp.path_manager",
    "net.mptcp.pm_type",
    "net.mptcp.allow_join_initial_addr_port",
    "net.mptcp.blackhole_timeout",
    "net.mptcp.scheduler",
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
    pub network: HostNetwork,
    /// By index of the interface.
    pub devices: BTreeMap<u32, DeviceFacts>,
    /// The interface by which packets to a destination leave without a source address, per destination.
    pub primaries: Vec<(IpAddr, RouteAnswer)>,
    pub departures: Vec<Departure>,
    pub managers: Managers,
    pub counters: Fact<KernelCounters>,
    /// Whether a new connection is opened without `MP_CAPABLE`; `None` without a black hole in the counters.
    pub suspended: Option<bool>,
    pub firewall: Fact<FirewallRules>,
    /// Tables of legacy iptables.
    pub legacy_tables: Fact<Vec<String>>,
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

/// Next hops of the kernel's answer to a route lookup, or its error: `ENETUNREACH`.
pub type RouteAnswer = Result<Vec<NextHop>, String>;

/// How packets from a local address to a destination leave this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    pub source: IpAddr,
    /// Index of the interface that has the address.
    pub interface: u32,
    pub destination: IpAddr,
    /// The kernel's answer without a required interface: for an endpoint without `dev`.
    pub any: RouteAnswer,
    /// The kernel's answer if the interface of the address is required: for an endpoint with `dev`.
    pub bound: RouteAnswer,
}

/// Whether a next hop of the answer is by this interface.
pub(crate) fn leaves_by(answer: &RouteAnswer, interface: u32) -> bool {
    answer.as_ref().is_ok_and(|hops| hops.iter().any(|hop| hop.interface == interface))
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

    /// The default routes of this family, in all tables.
    fn default_routes(&self, family: AddressFamily) -> impl Iterator<Item = &Route> {
        self.network.routes.iter().filter(move |route| {
            route.destination.prefix_len() == 0
                && AddressFamily::from_address(route.destination.addr()) == family
        })
    }

    /// Whether any table has a default route of this family, by any interface or by this one.
    pub fn has_default_route(&self, family: AddressFamily, interface: Option<u32>) -> bool {
        self.default_routes(family).any(|route| interface.is_none() || route.interface == interface)
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
    /// The interfaces of this family that are up, have a carrier and an address, and lead to a destination; where no
    /// interface has a default route (direct links), each of them. An interface whose address is an endpoint is
    /// included without a route, because its owner wants it to be a path.
    pub fn paths(&self, family: AddressFamily) -> Vec<PathFacts<'_>> {
        let direct = !self.has_default_route(family, None);
        let endpoints = self.endpoints.as_deref().unwrap_or_default();
        let is_endpoint = |at: IpAddr| endpoints.iter().any(|endpoint| endpoint.address == at);
        let mut paths = Vec::new();
        for link in self.network.links.iter().filter(|link| self.can_carry(link)) {
            let Some(address) = self.address_of(link.index, family) else { continue };
            let at = address.network.addr();
            let is_virtual = matches!(link.kind.as_deref(), Some("bridge" | "dummy"));
            let leads =
                self.has_default_route(family, Some(link.index)) || self.leads_to_destination(link, at);
            if leads || is_endpoint(at) || direct && !is_virtual {
                paths.push(PathFacts { link, address: at, network: address.network });
            }
        }
        paths
    }

    /// Whether the interface is up and has a carrier, and is neither loopback nor part of a bridge or bond.
    pub fn can_carry(&self, link: &NetworkInterface) -> bool {
        link.up && link.carrier && !link.loopback && link.master.is_none()
    }

    fn leads_to_destination(&self, link: &NetworkInterface, source: IpAddr) -> bool {
        let mut departures = self.departures.iter().filter(|departure| departure.source == source);
        departures.any(|departure| leaves_by(&departure.bound, link.index))
    }

    /// The first address for new connections; deprecated and privacy addresses only if there is no other.
    pub fn address_of(&self, interface: u32, family: AddressFamily) -> Option<&InterfaceAddress> {
        let usable = self.network.addresses.iter().filter(|one| {
            one.index == interface
                && AddressFamily::from_address(one.network.addr()) == family
                && !one.tentative
                && !one.link_scope
        });
        usable.min_by_key(|one| (one.deprecated, one.secondary))
    }

    pub fn is_tunnel(&self, index: u32) -> bool {
        self.link(index).and_then(|link| link.kind.as_deref()).is_some_and(|kind| TUNNELS.contains(&kind))
    }

    /// The VPN that has the default route, beside a path that is no tunnel. Labs have tunnels (TUN devices) only.
    pub fn vpn(&self) -> Option<&NetworkInterface> {
        let mut primaries = AddressFamily::ALL.into_iter().filter_map(|family| self.primary(family));
        let tunnel = primaries.find(|index| self.is_tunnel(*index))?;
        let paths = AddressFamily::ALL.into_iter().flat_map(|family| self.paths(family));
        let is_beside = paths.into_iter().any(|path| !self.is_tunnel(path.link.index));
        self.link(tunnel).filter(|_| is_beside)
    }

    /// The interface that the kernel selects for connections without a bound address.
    pub fn primary(&self, family: AddressFamily) -> Option<u32> {
        let (_, answer) = self
            .primaries
            .iter()
            .find(|(destination, _)| AddressFamily::from_address(*destination) == family)?;
        answer.as_ref().ok()?.first().map(|hop| hop.interface)
    }
}
