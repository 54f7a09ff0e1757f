//! Reads the facts about this host. A fact that cannot be read has its reason; only links, addresses and routes must be
//! readable.

use super::suspension;
use pathbench_check::facts::{DeviceFacts, Fact, HostFacts, LabFacts, SETTINGS};
use pathbench_host::change::setting::OF_INTERFACE;
use pathbench_host::counters::KernelCounters;
use pathbench_host::device::{self, DeviceSocket};
use pathbench_host::firewall::rules::{FirewallRules, has_nf_tables, legacy_tables};
use pathbench_host::iproute;
use pathbench_host::kernel;
use pathbench_host::leases;
use pathbench_host::managers::Managers;
use pathbench_host::mptcp::PathManager;
use pathbench_host::namespace::try_user_namespace;
use pathbench_host::netlink::{NetworkInterface, RouteSocket};
use pathbench_host::paths::{HostNetwork, KernelRoutes};
use pathbench_host::qdisc::kernel_has_netem;
use pathbench_host::sysctl::{self, SysctlError};
use pathbench_host::wifi::WifiSocket;
use pathbench_program::exit::Failure;
use pathbench_record::time::SharedClock;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;

/// The facts of the calling thread's network namespace. Routes are looked up to `destinations`; if there are none, to an
/// address beyond the default routes.
pub(crate) fn read(destinations: &[IpAddr], clock: &SharedClock) -> Result<HostFacts, Failure> {
    let network = HostNetwork::read().map_err(Failure::failed)?;
    let path_manager = PathManager::open().map_err(reason);
    let (endpoints, limits) = match path_manager {
        Ok(mut manager) => (manager.endpoints().map_err(reason), manager.limits().map_err(reason)),
        Err(reason) => (Err(reason.clone()), Err(reason)),
    };
    let counters = KernelCounters::read().map_err(reason);
    let managers = Managers::read(&network.links, clock.unix_seconds());
    let mut facts = HostFacts {
        kernel: kernel::release(),
        support: kernel::mptcp_support(),
        settings: settings(&network),
        endpoints,
        limits,
        ip_knows_laminar: iproute::knows_laminar().unwrap_or(false),
        devices: devices(&network.links),
        primaries: Vec::new(),
        departures: Vec::new(),
        leased_routers: leases::routers(&managers.leases, &network.addresses),
        managers,
        suspended: counters.as_ref().ok().and_then(suspension::read),
        counters,
        firewall: FirewallRules::read().map_err(reason),
        legacy_tables: legacy_tables()
            .map_err(|error| format!("/proc/net/ip_tables_names: {}", reason(error))),
        shaping: RouteSocket::open().and_then(|mut socket| socket.shaping()).map_err(reason),
        lab: lab(),
        udp_gso: kernel::udp_segmentation(),
        network,
    };
    let metered = facts.network.links.iter().filter(|link| facts.managers.metered.contains(&link.name));
    for index in metered.map(|link| link.index) {
        facts.devices.entry(index).or_default().metered = Some(true);
    }
    let routes = KernelRoutes::read(&facts.network, destinations).map_err(Failure::failed)?;
    (facts.primaries, facts.departures) = (routes.primaries, routes.departures);
    Ok(facts)
}

/// The error without its remedy, which a finding states in its own words.
fn reason(error: impl Display) -> String {
    let text = error.to_string();
    let text = text.split("; this needs").next().unwrap_or_default();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn settings(network: &HostNetwork) -> BTreeMap<String, Fact<Option<String>>> {
    let names = network.links.iter().map(|link| link.name.as_str()).chain(["all"]);
    let of_interfaces =
        names.flat_map(|name| OF_INTERFACE.map(|setting| format!("net.ipv4.conf.{name}.{setting}")));
    let keys = SETTINGS.iter().map(|key| (*key).to_owned()).chain(of_interfaces);
    keys.map(|key| {
        // With slashes, a dot in the name of an interface is part of the name.
        let path = match key.strip_prefix("net.ipv4.conf.").and_then(|rest| rest.rsplit_once('.')) {
            Some((interface, last)) => format!("net/ipv4/conf/{interface}/{last}"),
            None => key.clone(),
        };
        let value = match sysctl::read(&path) {
            Ok(value) => Ok(Some(value)),
            Err(SysctlError::NoSuchKey { .. }) => Ok(None),
            Err(error) => Err(reason(error)),
        };
        (key, value)
    })
    .collect()
}

/// Facts that a driver does not report are absent.
fn devices(links: &[NetworkInterface]) -> BTreeMap<u32, DeviceFacts> {
    let mut socket = DeviceSocket::open().ok().flatten();
    let wifi = WifiSocket::open().ok().flatten().and_then(|mut socket| socket.interfaces().ok());
    let wifi = wifi.unwrap_or_default();
    let mut read = |link: &NetworkInterface| DeviceFacts {
        speed_bps: socket.as_mut().and_then(|socket| socket.speed_bps(link.index).ok().flatten()),
        features: socket.as_mut().and_then(|socket| socket.features(link.index).ok().flatten()),
        cellular: device::is_cellular(link),
        wifi: wifi.iter().any(|wifi| wifi.index == link.index),
        metered: None,
    };
    links.iter().filter(|link| !link.loopback).map(|link| (link.index, read(link))).collect()
}

fn lab() -> LabFacts {
    let tun = rustix::fs::access("/dev/net/tun", rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK);
    LabFacts {
        rootless: try_user_namespace(),
        tun: tun.map_err(reason),
        nf_tables: has_nf_tables().map_err(reason),
        netem: kernel_has_netem().map_err(reason),
    }
}
