//! Reads the facts about this host. A fact that cannot be read has its reason; only links, addresses and routes must be
//! readable.

use super::suspension;
use pathbench_check::facts::{Departure, DeviceFacts, Fact, HostFacts, LabFacts, RouteAnswer, SETTINGS};
use pathbench_host::counters::KernelCounters;
use pathbench_host::device::{self, DeviceSocket};
use pathbench_host::firewall::rules::{FirewallRules, has_nf_tables, legacy_tables};
use pathbench_host::kernel;
use pathbench_host::managers::Managers;
use pathbench_host::mptcp::PathManager;
use pathbench_host::namespace::try_user_namespace;
use pathbench_host::netlink::{
    FibEntry, Lookup, MAIN_TABLE, NetlinkError, NetworkInterface, Route, RouteSocket,
};
use pathbench_host::nmcli;
use pathbench_host::paths::HostNetwork;
use pathbench_host::qdisc::kernel_has_netem;
use pathbench_host::sysctl::{self, SysctlError};
use pathbench_host::wifi::WifiSocket;
use pathbench_program::exit::Failure;
use pathbench_record::network::AddressFamily;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTN_UNICAST` of linux/rtnetlink.h.
const UNICAST: u8 = 1;
/// An address beyond every router (RFC 5737, RFC 3849). A route lookup sends no packet.
const BEYOND_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const BEYOND_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// The facts of the calling thread's network namespace. Routes are looked up to `destinations`; if there are none, to an
/// address beyond the default routes.
pub(crate) fn read(destinations: &[IpAddr]) -> Result<HostFacts, Failure> {
    let mut network = HostNetwork::read().map_err(Failure::failed)?;
    add_multipath_defaults(&mut network).map_err(Failure::failed)?;
    let path_manager = PathManager::open().map_err(reason);
    let (endpoints, limits) = match path_manager {
        Ok(mut manager) => (manager.endpoints().map_err(reason), manager.limits().map_err(reason)),
        Err(reason) => (Err(reason.clone()), Err(reason)),
    };
    let counters = KernelCounters::read().map_err(reason);
    let mut facts = HostFacts {
        kernel: kernel::release(),
        support: kernel::mptcp_support(),
        settings: settings(&network),
        endpoints,
        limits,
        devices: devices(&network.links),
        primaries: Vec::new(),
        departures: Vec::new(),
        managers: Managers::read(&network.links),
        suspended: counters.as_ref().ok().and_then(suspension::read),
        counters,
        firewall: FirewallRules::read().map_err(reason),
        legacy_tables: legacy_tables()
            .map_err(|error| format!("/proc/net/ip_tables_names: {}", reason(error))),
        lab: lab(),
        udp_gso: kernel::udp_segmentation(),
        network,
    };
    if !facts.managers.network_manager.is_empty() {
        facts.managers.network_manager_version = nmcli::version();
        let metered = nmcli::metered_interfaces();
        for link in facts.network.links.iter().filter(|link| metered.contains(&link.name)) {
            facts.devices.entry(link.index).or_default().metered = Some(true);
        }
    }
    let beyond = [BEYOND_V4, BEYOND_V6].into_iter();
    let to: Vec<IpAddr> = if destinations.is_empty() {
        beyond.filter(|to| facts.has_default_route(AddressFamily::from_address(*to), None)).collect()
    } else {
        destinations.to_vec()
    };
    read_routes(&mut facts, &to).map_err(Failure::failed)?;
    Ok(facts)
}

/// Adds a route per next hop of the main table's default routes with several next hops (ECMP).
fn add_multipath_defaults(network: &mut HostNetwork) -> Result<(), NetlinkError> {
    let mut socket = RouteSocket::open()?;
    for family in [BEYOND_V4, BEYOND_V6] {
        let entries = socket.fib_entries(family, MAIN_TABLE)?;
        let defaults = entries.iter().filter(|entry| {
            entry.destination().prefix_len() == 0 && entry.kind() == UNICAST && entry.next_hops().len() > 1
        });
        network.routes.extend(defaults.flat_map(|entry| {
            entry.next_hops().into_iter().map(|hop| Route {
                gateway: hop.gateway,
                interface: Some(hop.interface),
                ..Route::new(entry.destination())
            })
        }));
    }
    Ok(())
}

/// The error without its remedy, which a finding states in its own words.
fn reason(error: impl Display) -> String {
    let text = error.to_string();
    let text = text.split("; this needs").next().unwrap_or_default();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn settings(network: &HostNetwork) -> BTreeMap<String, Fact<Option<String>>> {
    let filters = network.links.iter().map(|link| format!("net.ipv4.conf.{}.rp_filter", link.name));
    let keys = SETTINGS.iter().map(|key| (*key).to_owned()).chain(filters);
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

fn read_routes(facts: &mut HostFacts, destinations: &[IpAddr]) -> Result<(), NetlinkError> {
    let mut socket = RouteSocket::open()?;
    let usable: Vec<(u32, IpAddr)> = facts
        .network
        .addresses
        .iter()
        .filter(|address| !address.link_scope && !address.network.addr().is_loopback())
        .map(|address| (address.index, address.network.addr()))
        .collect();
    for &destination in destinations {
        let any = match destination {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let primary = answer(socket.matched_entry(&Lookup { source: any, destination, interface: None }))?;
        facts.primaries.push((destination, primary));
        for &(interface, source) in
            usable.iter().filter(|(_, source)| source.is_ipv4() == destination.is_ipv4())
        {
            let lookup = Lookup { source, destination, interface: None };
            let any = answer(socket.matched_entry(&lookup))?;
            let bound = answer(socket.bound_entry(&Lookup { interface: Some(interface), ..lookup }))?;
            facts.departures.push(Departure { source, interface, destination, any, bound });
        }
    }
    Ok(())
}

fn answer(found: Result<Option<FibEntry>, NetlinkError>) -> Result<RouteAnswer, NetlinkError> {
    match found {
        Ok(Some(entry)) if entry.kind() == UNICAST => Ok(Ok(entry.next_hops())),
        Ok(_) => Ok(Err("no unicast route".to_owned())),
        Err(error) => match error.errno() {
            Some(errno) => Ok(Err(reason(errno))),
            None => Err(error),
        },
    }
}
