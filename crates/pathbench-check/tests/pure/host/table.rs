//! Rows: a name, the change of the healthy host, and the findings of level problem and advice, causes first.

use crate::host::facts::{
    ETH0, ETH0_ADDRESS, WLAN0, WLAN0_ADDRESS, address, counters, default_route, departure, endpoint, healthy,
    ip, link, set, via,
};
use pathbench_check::facts::HostFacts;
use pathbench_check::finding::{Finding, Level};
use pathbench_check::host::findings;
use pathbench_host::firewall::rules::{MptcpAction, MptcpRule};
use pathbench_host::kernel::MptcpSupport;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_host::namespace::{IsolationError, IsolationStep, NamespaceRefusal};
use pathbench_host::netlink::{InterfaceAddress, MAIN_TABLE, NetworkInterface};
use rustix::io::Errno;

/// A name, a change of the healthy host, and `level id subject` of each finding that is not in order.
type Row = (&'static str, fn(&mut HostFacts), &'static [&'static str]);

const NONE: &[&str] = &[];

pub(crate) const ROWS: &[Row] = &[
    ("healthy", |_| {}, NONE),
    ("too old", |facts| facts.support = MptcpSupport::TooOld, &["problem kernel-mptcp"]),
    ("not built", |facts| facts.support = MptcpSupport::NotBuilt, &["problem kernel-mptcp"]),
    ("out of tree", out_of_tree, &["problem kernel-mptcp"]),
    ("refused", |facts| facts.support = MptcpSupport::Refused(Errno::PERM), &["not-examined kernel-mptcp"]),
    ("mptcp off", |facts| facts.support = MptcpSupport::Disabled, &["problem mptcp-enabled"]),
    ("userspace path manager", |facts| set(facts, "net.mptcp.pm_type", "1"), &["problem mptcp-path-manager"]),
    ("userspace path manager with mptcpd", userspace_with_mptcpd, NONE),
    ("limits 0", |facts| limits(facts, 0, 2), &["problem mptcp-limits"]),
    ("limits 2 0, the kernel's", |facts| limits(facts, 2, 0), &["advice mptcp-limits"]),
    ("no endpoint", |facts| facts.endpoints = Ok(Vec::new()), &["problem mptcp-endpoint wlan0"]),
    ("endpoint of the first path only", |facts| keep_endpoint(facts, 0), &["problem mptcp-endpoint wlan0"]),
    ("endpoint of the second path only", |facts| keep_endpoint(facts, 1), NONE),
    ("announced only", announced_only, &["advice mptcp-endpoint wlan0"]),
    ("endpoint of another host", foreign_endpoint, &["problem endpoint-address 10.0.0.99"]),
    (
        "IPv6 endpoint of an interface that is down",
        endpoint_without_link,
        &["advice interface wlan0", "advice paths", "advice endpoint-address 2001:db8::7"],
    ),
    ("endpoint of no network", lost_endpoint, &["problem endpoint-address 172.16.5.5"]),
    ("announced address of a NAT", announced_nat, &["advice endpoint-address 203.0.113.9"]),
    ("endpoint with the wrong device", wrong_device, &["problem endpoint-device 10.0.0.10"]),
    (
        "endpoint without a role",
        without_role,
        &["problem mptcp-endpoint wlan0", "advice endpoint-flags 10.0.0.10"],
    ),
    ("no rule, no dev", no_rule_no_dev, &["problem source-route 10.0.0.10"]),
    ("no rule, with dev and a second default route", no_rule, NONE),
    ("with dev, no route by it", no_route, &["problem source-route 10.0.0.10"]),
    ("strict without a rule", strict_without_rule, &["problem rp-filter wlan0"]),
    ("strict with a rule", |facts| set(facts, "net.ipv4.conf.all.rp_filter", "1"), NONE),
    ("packets dropped by a strict filter", |facts| drops(facts, "1"), &["advice rp-filter-drops"]),
    ("packets dropped before the filter was loose", |facts| drops(facts, "2"), NONE),
    ("endpoint of one path, the first path unknown", one_endpoint_of_unknown_paths, NONE),
    (
        "three paths, no endpoint",
        three_paths_without_endpoint,
        &["problem mptcp-endpoint usb0", "problem mptcp-endpoint wlan0"],
    ),
    (
        "direct links, unconfigured",
        direct_links,
        &["problem mptcp-endpoint eth0", "problem mptcp-endpoint wlan0", "advice mptcp-limits"],
    ),
    ("one interface", one_interface, &["advice paths"]),
    ("no interface", no_interface, &["problem paths"]),
    (
        "second interface down",
        |facts| facts.network.links[2].up = false,
        &["advice interface wlan0", "advice paths"],
    ),
    ("no carrier", no_carrier, &["advice interface wlan0", "advice paths"]),
    ("no address", no_address, &["advice interface wlan0", "advice paths"]),
    ("same subnet", same_subnet, &["advice same-subnet 192.168.1.0/24"]),
    ("cellular without backup", |facts| modem(facts, false), &["advice metered wlan0"]),
    ("cellular with backup", |facts| modem(facts, true), NONE),
    ("a VPN has the default route", vpn, &["advice vpn-bypass wg0"]),
    (
        "a VPN, and no endpoint",
        vpn_without_endpoint,
        &["advice mptcp-endpoint eth0", "advice mptcp-endpoint wlan0"],
    ),
    ("unused ports beside two paths", unused_ports, NONE),
    (
        "unused ports beside one path",
        unused_ports_beside_one,
        &["advice interface eno2, eno3", "advice paths"],
    ),
    ("containers' bridge", docker, NONE),
    ("NetworkManager with endpoints", |facts| facts.managers.network_manager = vec!["eth0".to_owned()], NONE),
    (
        "NetworkManager without endpoints",
        network_manager,
        &["problem mptcp-endpoint wlan0", "advice network-manager"],
    ),
    ("old NetworkManager", old_network_manager, &["problem mptcp-endpoint wlan0"]),
    ("NetworkManager and mptcpd", two_managers, &["advice mptcpd"]),
    ("networkd", |facts| facts.managers.networkd = vec!["eth0".to_owned()], &["advice systemd-networkd"]),
    (
        "blackhole",
        |facts| count(facts, "Blackhole MPCapableSYNTXDisabled", "1 40"),
        &["advice mptcp-blackhole"],
    ),
    (
        "blackhole in force",
        |facts| {
            count(facts, "Blackhole MPCapableSYNTXDisabled", "1 0");
            facts.suspended = Some(true);
        },
        &["problem mptcp-blackhole"],
    ),
    (
        "blackhole of the past",
        |facts| {
            count(facts, "Blackhole MPCapableSYNTXDisabled", "1 40");
            facts.suspended = Some(false);
        },
        &[],
    ),
    (
        "fallback",
        |facts| count(facts, "MPCapableSYNTX MPCapableFallbackSYNACK", "10 9"),
        &["advice mptcp-fallback"],
    ),
    (
        "fallback of less than one in ten",
        |facts| count(facts, "MPCapableSYNTX MPCapableFallbackSYNACK", "100 9"),
        NONE,
    ),
    (
        "fallback of one in ten",
        |facts| count(facts, "MPCapableSYNTX MPCapableFallbackSYNACK", "100 10"),
        &["advice mptcp-fallback"],
    ),
    ("joins fail", |facts| count(facts, "MPJoinSynTx MPJoinSynTxBindErr", "0 7"), &["advice join-failures"]),
    (
        "joins unanswered",
        |facts| count(facts, "MPJoinSynTx MPJoinSynAckRx", "10 1"),
        &["advice join-failures"],
    ),
    ("firewall strips", firewall_strips, &["problem firewall-mptcp inet filter output"]),
    (
        "firewall strips in forwarded packets",
        firewall_strips_forwarded,
        &["advice firewall-mptcp inet filter output"],
    ),
    ("firewall unread", |facts| facts.firewall = Err("EPERM".to_owned()), &["not-examined firewall-mptcp"]),
    (
        "legacy iptables",
        |facts| facts.legacy_tables = Ok(vec!["ip filter".to_owned()]),
        &["not-examined firewall-legacy"],
    ),
    ("initial address", initial_address, &["advice join-initial-address"]),
    ("fast links, small buffers", fast_links, &["advice tcp-buffers"]),
    ("no offloads", no_offloads, &["advice offloads eth0"]),
    ("small UDP buffers", |facts| set(facts, "net.core.rmem_max", "212992"), &["advice udp-buffers"]),
    ("no UDP GSO", |facts| facts.udp_gso = false, &["advice udp-gso"]),
    ("no user namespaces", no_user_namespaces, &["advice lab-user-namespaces"]),
    ("no TUN", |facts| facts.lab.tun = Err("ENOENT".to_owned()), &["advice lab-tun"]),
    ("endpoints unread", |facts| facts.endpoints = Err("EIO".to_owned()), &["not-examined mptcp-endpoint"]),
    ("rp_filter unread", rp_filter_unread, &["not-examined rp-filter eth0", "not-examined rp-filter wlan0"]),
];

fn limits(facts: &mut HostFacts, subflows: u32, add_addr_accepted: u32) {
    facts.limits = Ok(MptcpLimits { subflows, add_addr_accepted });
}

fn out_of_tree(facts: &mut HostFacts) {
    facts.support = MptcpSupport::NotBuilt;
    set(facts, "net.mptcp.mptcp_enabled", "1");
}

fn userspace_with_mptcpd(facts: &mut HostFacts) {
    set(facts, "net.mptcp.path_manager", "userspace");
    facts.managers.mptcpd = true;
}

fn keep_endpoint(facts: &mut HostFacts, place: usize) {
    let kept = facts.endpoints.as_ref().unwrap()[place];
    facts.endpoints = Ok(vec![kept]);
}

fn announced_only(facts: &mut HostFacts) {
    for endpoint in facts.endpoints.as_mut().unwrap() {
        endpoint.flags = EndpointFlags { signal: true, ..EndpointFlags::default() };
    }
}

fn foreign_endpoint(facts: &mut HostFacts) {
    facts.endpoints = Ok(vec![endpoint(1, ETH0_ADDRESS, Some(ETH0)), endpoint(2, "10.0.0.99", Some(WLAN0))]);
}

fn lost_endpoint(facts: &mut HostFacts) {
    facts.endpoints.as_mut().unwrap().push(endpoint(3, "172.16.5.5", None));
}

/// Regression: the advice was to delete the endpoint.
fn endpoint_without_link(facts: &mut HostFacts) {
    facts.network.links[2].up = false;
    facts.endpoints.as_mut().unwrap().push(endpoint(3, "2001:db8::7", Some(WLAN0)));
}

fn announced_nat(facts: &mut HostFacts) {
    let flags = EndpointFlags { signal: true, ..EndpointFlags::default() };
    facts.endpoints.as_mut().unwrap().push(MptcpEndpoint { flags, ..endpoint(3, "203.0.113.9", None) });
}

fn wrong_device(facts: &mut HostFacts) {
    facts.endpoints.as_mut().unwrap()[1].interface = Some(ETH0);
}

fn without_role(facts: &mut HostFacts) {
    facts.endpoints.as_mut().unwrap()[1].flags = EndpointFlags::default();
}

/// Both default routes in the main table; the first has the lower metric.
fn no_rule(facts: &mut HostFacts) {
    facts.network.routes[1] = default_route(WLAN0, "10.0.0.1", MAIN_TABLE);
    facts.departures[1].any = via(ETH0, "192.168.1.1");
}

fn no_rule_no_dev(facts: &mut HostFacts) {
    no_rule(facts);
    facts.endpoints.as_mut().unwrap()[1].interface = None;
}

fn no_route(facts: &mut HostFacts) {
    facts.network.routes.pop();
    facts.departures[1] =
        departure(WLAN0_ADDRESS, WLAN0, via(ETH0, "192.168.1.1"), Err("EHOSTUNREACH".to_owned()));
}

fn strict_without_rule(facts: &mut HostFacts) {
    no_rule(facts);
    set(facts, "net.ipv4.conf.all.rp_filter", "1");
    set(facts, "net.ipv4.conf.wlan0.rp_filter", "0");
}

/// Reverse path filtering has dropped packets, and is `rp_filter` now.
fn drops(facts: &mut HostFacts, rp_filter: &str) {
    set(facts, "net.ipv4.conf.all.rp_filter", rp_filter);
    facts.counters = Ok(counters("TcpExt: IPReversePathFilter\nTcpExt: 3\n"));
}

fn one_endpoint_of_unknown_paths(facts: &mut HostFacts) {
    keep_endpoint(facts, 0);
    facts.primaries = Vec::new();
}

fn three_paths_without_endpoint(facts: &mut HostFacts) {
    let usb0 = 4;
    facts.network.links.push(link(usb0, "usb0"));
    facts.network.addresses.push(address(usb0, "172.16.0.10/24"));
    facts.network.routes.push(default_route(usb0, "172.16.0.1", 102));
    let by_usb0 = via(usb0, "172.16.0.1");
    facts.departures.push(departure("172.16.0.10", usb0, by_usb0.clone(), by_usb0));
    facts.devices.insert(usb0, facts.devices[&WLAN0].clone());
    facts.endpoints = Ok(Vec::new());
}

fn direct_links(facts: &mut HostFacts) {
    facts.network.routes.clear();
    facts.endpoints = Ok(Vec::new());
    (facts.departures, facts.primaries) = (Vec::new(), Vec::new());
    limits(facts, 2, 0);
}

fn one_interface(facts: &mut HostFacts) {
    facts.network.links.pop();
    facts.network.addresses.pop();
    facts.network.routes.pop();
    facts.departures.pop();
    facts.endpoints = Ok(Vec::new());
    // The kernel's limits, which prevent nothing on one path.
    limits(facts, 2, 0);
}

fn no_interface(facts: &mut HostFacts) {
    one_interface(facts);
    facts.network.links.pop();
}

fn no_carrier(facts: &mut HostFacts) {
    facts.network.links[2].carrier = false;
}

fn no_address(facts: &mut HostFacts) {
    facts.network.addresses.pop();
    facts.network.routes.pop();
    facts.departures.pop();
    keep_endpoint(facts, 0);
}

fn same_subnet(facts: &mut HostFacts) {
    facts.network.addresses[2] = address(WLAN0, "192.168.1.11/24");
    facts.departures[1].source = ip("192.168.1.11");
    facts.endpoints.as_mut().unwrap()[1].address = ip("192.168.1.11");
}

fn modem(facts: &mut HostFacts, backup: bool) {
    facts.devices.get_mut(&WLAN0).unwrap().cellular = true;
    facts.endpoints.as_mut().unwrap()[1].flags.backup = backup;
}

fn vpn(facts: &mut HostFacts) {
    let mut tunnel = link(9, "wg0");
    tunnel.kind = Some("wireguard".to_owned());
    facts.network.links.push(tunnel);
    facts.network.addresses.push(address(9, "10.8.0.2/32"));
    facts.primaries[0].1 = via(9, "10.8.0.1");
}

fn vpn_without_endpoint(facts: &mut HostFacts) {
    vpn(facts);
    facts.endpoints = Ok(Vec::new());
}

fn unused_ports(facts: &mut HostFacts) {
    for (index, name) in [(11, "eno2"), (12, "eno3")] {
        facts.network.links.push(NetworkInterface { carrier: false, ..link(index, name) });
    }
}

fn unused_ports_beside_one(facts: &mut HostFacts) {
    one_interface(facts);
    unused_ports(facts);
}

fn docker(facts: &mut HostFacts) {
    let mut bridge = link(9, "docker0");
    bridge.kind = Some("bridge".to_owned());
    bridge.carrier = false;
    facts.network.links.push(bridge);
    facts.network.addresses.push(address(9, "172.17.0.1/16"));
    let mut port = link(10, "veth1234");
    (port.kind, port.master) = (Some("veth".to_owned()), Some(9));
    facts.network.links.push(port);
}

fn network_manager(facts: &mut HostFacts) {
    facts.managers.network_manager = vec!["eth0".to_owned(), "wlan0".to_owned()];
    facts.endpoints = Ok(Vec::new());
}

fn old_network_manager(facts: &mut HostFacts) {
    network_manager(facts);
    facts.managers.network_manager_version = Some((1, 36));
}

fn two_managers(facts: &mut HostFacts) {
    facts.managers.network_manager = vec!["eth0".to_owned()];
    facts.managers.mptcpd = true;
}

fn count(facts: &mut HostFacts, names: &str, values: &str) {
    facts.counters = Ok(counters(&format!("MPTcpExt: {names}\nMPTcpExt: {values}\n")));
}

fn firewall_strips(facts: &mut HostFacts) {
    let rule = MptcpRule {
        chain: "inet filter output".to_owned(),
        handle: 7,
        is_forwarding: false,
        action: MptcpAction::Strip,
        subtype: Some(1),
    };
    facts.firewall.as_mut().unwrap().mptcp.push(rule);
}

fn firewall_strips_forwarded(facts: &mut HostFacts) {
    firewall_strips(facts);
    facts.firewall.as_mut().unwrap().mptcp[0].is_forwarding = true;
}

fn initial_address(facts: &mut HostFacts) {
    set(facts, "net.mptcp.allow_join_initial_addr_port", "0");
}

fn fast_links(facts: &mut HostFacts) {
    facts.devices.get_mut(&ETH0).unwrap().speed_bps = Some(10_000_000_000);
}

fn no_offloads(facts: &mut HostFacts) {
    facts.devices.get_mut(&ETH0).unwrap().features.as_mut().unwrap().gro = false;
}

fn no_user_namespaces(facts: &mut HostFacts) {
    facts.lab.rootless = Err(IsolationError {
        step: IsolationStep::NetworkAndPid,
        errno: Errno::PERM,
        refusal: NamespaceRefusal::AppArmor,
    });
}

fn rp_filter_unread(facts: &mut HostFacts) {
    facts.settings.insert("net.ipv4.conf.all.rp_filter".to_owned(), Err("EACCES".to_owned()));
}

fn short(finding: &Finding) -> String {
    let level: &str = finding.level.into();
    let subject = finding.subject.as_ref().map(|subject| format!(" {subject}")).unwrap_or_default();
    format!("{level} {}{subject}", finding.id.name())
}

#[test]
fn each_misconfiguration_leads_to_its_findings() {
    for (name, change, expected) in ROWS {
        let mut facts = healthy();
        change(&mut facts);
        let found = findings(&facts);
        let notable: Vec<String> = found.iter().filter(|one| one.level != Level::Ok).map(short).collect();
        assert_eq!(notable, *expected, "{name}: {found:#?}");
    }
}

fn remedy_of(change: fn(&mut HostFacts), id: &str) -> Vec<String> {
    let mut facts = healthy();
    change(&mut facts);
    findings(&facts).into_iter().find(|finding| finding.id.name() == id).unwrap().remedy
}

#[test]
fn remedies_name_this_hosts_addresses_devices_and_tables() {
    assert_eq!(
        remedy_of(no_rule_no_dev, "source-route"),
        [
            "ip route add 10.0.0.0/24 dev wlan0 src 10.0.0.10 table 101",
            "ip route add default via 10.0.0.1 dev wlan0 table 101",
            "ip rule add from 10.0.0.10 lookup 101"
        ]
    );
    assert_eq!(
        remedy_of(foreign_endpoint, "endpoint-address"),
        ["ip mptcp endpoint delete id 2", "ip mptcp endpoint add 10.0.0.10 dev wlan0 subflow"]
    );
    assert_eq!(
        remedy_of(|facts| facts.endpoints = Ok(Vec::new()), "mptcp-endpoint"),
        ["ip mptcp endpoint add 10.0.0.10 dev wlan0 subflow"]
    );
    assert_eq!(remedy_of(firewall_strips, "firewall-mptcp"), ["nft delete rule inet filter output handle 7"]);
    assert_eq!(
        remedy_of(|facts| limits(facts, 0, 0), "mptcp-limits"),
        ["ip mptcp limits set subflows 2 add_addr_accepted 2"]
    );
    // 10 Gbit/s · 20 ms are 25 MB: twice that in each buffer, in whole MiB.
    assert_eq!(
        remedy_of(fast_links, "tcp-buffers"),
        [
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 50331648'",
            "sysctl -w net.ipv4.tcp_wmem='4096 16384 50331648'"
        ]
    );
    assert_eq!(remedy_of(no_offloads, "offloads"), ["ethtool -K eth0 gro on"]);
}

#[test]
fn only_the_buffer_below_the_bandwidth_delay_product_is_too_small() {
    let remedy = |receive: u64, send: u64| {
        let mut facts = healthy();
        fast_links(&mut facts);
        set(&mut facts, "net.ipv4.tcp_rmem", &format!("4096 131072 {receive}"));
        set(&mut facts, "net.ipv4.tcp_wmem", &format!("4096 16384 {send}"));
        findings(&facts).into_iter().find(|finding| finding.id.name() == "tcp-buffers").unwrap().remedy
    };
    // Half of a receive buffer is the window.
    assert_eq!(remedy(50_000_000, 25_000_000), [""; 0]);
    assert_eq!(remedy(49_999_998, 25_000_000), ["sysctl -w net.ipv4.tcp_rmem='4096 131072 50331648'"]);
    assert_eq!(remedy(50_000_000, 24_999_999), ["sysctl -w net.ipv4.tcp_wmem='4096 16384 50331648'"]);
}

#[test]
fn a_link_local_address_is_no_address_of_a_path() {
    let found = |link_scope: bool, tentative: bool| {
        let mut facts = healthy();
        no_address(&mut facts);
        facts.network.addresses.push(InterfaceAddress {
            link_scope,
            tentative,
            ..address(WLAN0, "fe80::1/64")
        });
        let finding = findings(&facts).into_iter().find(|one| one.subject.as_deref() == Some("wlan0"));
        finding.unwrap().found
    };
    assert_eq!(found(true, false), "wlan0 has no address");
    assert_eq!(found(false, true), "the address of wlan0 is tentative (duplicate address detection)");
}

/// The table of a rule exists, and only the rule is missing.
#[test]
fn an_existing_table_is_used() {
    let without_rule = |facts: &mut HostFacts| {
        facts.endpoints.as_mut().unwrap()[1].interface = None;
        facts.departures[1].any = via(ETH0, "192.168.1.1");
    };
    assert_eq!(remedy_of(without_rule, "source-route"), ["ip rule add from 10.0.0.10 lookup 101"]);
}

#[test]
fn a_metered_path_is_proposed_as_backup() {
    let change = |facts: &mut HostFacts| {
        facts.endpoints = Ok(Vec::new());
        facts.devices.get_mut(&WLAN0).unwrap().cellular = true;
    };
    assert_eq!(
        remedy_of(change, "mptcp-endpoint"),
        ["ip mptcp endpoint add 10.0.0.10 dev wlan0 subflow backup"]
    );
}
