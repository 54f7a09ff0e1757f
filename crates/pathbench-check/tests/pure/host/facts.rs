//! A healthy host with two paths: `eth0` 192.168.1.10/24 and `wlan0` 10.0.0.10/24, each with a default route, a source
//! rule and an endpoint.

use pathbench_check::facts::{Departure, DeviceFacts, HostFacts, LabFacts, RouteAnswer};
use pathbench_host::counters::KernelCounters;
use pathbench_host::device::DeviceFeatures;
use pathbench_host::firewall::rules::FirewallRules;
use pathbench_host::kernel::{MptcpSupport, Release};
use pathbench_host::managers::Managers;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::{InterfaceAddress, MAIN_TABLE, NetworkInterface, NextHop, Route};
use pathbench_host::paths::HostNetwork;
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use std::net::IpAddr;

pub(crate) const ETH0: u32 = 2;
pub(crate) const WLAN0: u32 = 3;
pub(crate) const ETH0_ADDRESS: &str = "192.168.1.10";
pub(crate) const WLAN0_ADDRESS: &str = "10.0.0.10";
const BEYOND: &str = "192.0.2.1";

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn link(index: u32, name: &str) -> NetworkInterface {
    NetworkInterface {
        index,
        name: name.to_owned(),
        mtu: 1500,
        up: true,
        carrier: true,
        running: true,
        loopback: false,
        kind: None,
        mac: Some([2, 0, 0, 0, 0, index as u8]),
        master: None,
        gso_max_size: None,
        gso_max_segs: None,
    }
}

pub(crate) fn address(index: u32, network: &str) -> InterfaceAddress {
    let network: IpNet = network.parse().unwrap();
    InterfaceAddress {
        index,
        network,
        tentative: false,
        permanent: true,
        deprecated: false,
        secondary: false,
        link_scope: false,
    }
}

pub(crate) fn default_route(index: u32, router: &str, table: u32) -> Route {
    let router = ip(router);
    let to = if router.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 };
    Route { gateway: Some(router), interface: Some(index), table, ..Route::new(to) }
}

pub(crate) fn endpoint(id: u8, address: &str, interface: Option<u32>) -> MptcpEndpoint {
    let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
    MptcpEndpoint { address: ip(address), port: None, id: Some(id), interface, flags }
}

#[allow(clippy::unnecessary_wraps, reason = "the type of a fact")]
pub(crate) fn via(interface: u32, router: &str) -> RouteAnswer {
    Ok(vec![NextHop { interface, gateway: Some(ip(router)), weight: 1, on_link: false }])
}

pub(crate) fn departure(source: &str, interface: u32, any: RouteAnswer, bound: RouteAnswer) -> Departure {
    let destination = if source.contains(':') { "2001:db8::1" } else { BEYOND };
    Departure { source: ip(source), interface, destination: ip(destination), any, bound }
}

pub(crate) fn set(facts: &mut HostFacts, key: &str, value: &str) {
    facts.settings.insert(key.to_owned(), Ok(Some(value.to_owned())));
}

pub(crate) fn counters(table: &str) -> KernelCounters {
    let mut counters = KernelCounters::default();
    counters.take_table(table);
    counters
}

pub(crate) fn healthy() -> HostFacts {
    let loopback = NetworkInterface { loopback: true, mac: None, ..link(1, "lo") };
    let network = HostNetwork {
        links: vec![loopback, link(ETH0, "eth0"), link(WLAN0, "wlan0")],
        addresses: vec![
            InterfaceAddress { link_scope: true, ..address(1, "127.0.0.1/8") },
            address(ETH0, "192.168.1.10/24"),
            address(WLAN0, "10.0.0.10/24"),
        ],
        routes: vec![default_route(ETH0, "192.168.1.1", MAIN_TABLE), default_route(WLAN0, "10.0.0.1", 101)],
        ..HostNetwork::default()
    };
    let device = DeviceFacts {
        speed_bps: Some(1_000_000_000),
        features: Some(DeviceFeatures { gso: true, tso: true, gro: true }),
        ..DeviceFacts::default()
    };
    let (by_eth0, by_wlan0) = (via(ETH0, "192.168.1.1"), via(WLAN0, "10.0.0.1"));
    let mut facts = HostFacts {
        kernel: Release::parse("6.12.0-amd64"),
        support: MptcpSupport::Available,
        settings: [].into(),
        endpoints: Ok(vec![endpoint(1, ETH0_ADDRESS, Some(ETH0)), endpoint(2, WLAN0_ADDRESS, Some(WLAN0))]),
        limits: Ok(MptcpLimits { subflows: 2, add_addr_accepted: 2 }),
        ip_knows_laminar: false,
        network,
        devices: [(ETH0, device), (WLAN0, DeviceFacts { wifi: true, ..DeviceFacts::default() })].into(),
        primaries: vec![(ip(BEYOND), by_eth0.clone())],
        departures: vec![
            departure(ETH0_ADDRESS, ETH0, by_eth0.clone(), by_eth0),
            departure(WLAN0_ADDRESS, WLAN0, by_wlan0.clone(), by_wlan0),
        ],
        leased_routers: [].into(),
        managers: Managers::default(),
        counters: Ok(counters("MPTcpExt: MPJoinSynTx MPJoinSynAckRx MPCapableSYNTX\nMPTcpExt: 10 10 9\n")),
        suspended: None,
        firewall: Ok(FirewallRules::default()),
        legacy_tables: Ok(Vec::new()),
        shaping: Ok(Vec::new()),
        lab: LabFacts { rootless: Ok(()), tun: Ok(()), nf_tables: Ok(true), netem: Ok(true) },
        udp_gso: true,
    };
    for (key, value) in [
        ("net.mptcp.enabled", "1"),
        ("net.mptcp.pm_type", "0"),
        ("net.mptcp.allow_join_initial_addr_port", "1"),
        ("net.mptcp.blackhole_timeout", "3600"),
        ("net.mptcp.scheduler", "default"),
        ("net.mptcp.available_schedulers", "default"),
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("net.ipv4.tcp_allowed_congestion_control", "reno cubic"),
        ("net.ipv4.tcp_rmem", "4096\t131072\t6291456"),
        ("net.ipv4.tcp_wmem", "4096\t16384\t4194304"),
        ("net.core.rmem_max", "7500000"),
        ("net.core.wmem_max", "7500000"),
        ("net.ipv4.conf.all.rp_filter", "2"),
        ("net.ipv4.conf.eth0.rp_filter", "2"),
        ("net.ipv4.conf.wlan0.rp_filter", "2"),
    ] {
        set(&mut facts, key, value);
    }
    facts
}
