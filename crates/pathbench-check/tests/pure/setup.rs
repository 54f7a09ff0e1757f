//! Plans of a set-up for models of hosts: chosen ones, and random ones with properties that every plan has.

use pathbench_check::setup::persistence::{self, is_unchanged};
use pathbench_check::setup::{Manager, Medium, Role, SetupHost, SetupOptions, SetupPlan, is_outdated, plan};
use pathbench_host::change::Operation;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::{FibEntry, InterfaceAddress, MAIN_TABLE, NetworkInterface, Route, RoutingRule};
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

fn link(index: u32, name: &str) -> NetworkInterface {
    NetworkInterface {
        index,
        name: name.to_owned(),
        mtu: 1500,
        up: true,
        carrier: true,
        running: true,
        loopback: false,
        kind: None,
        mac: None,
        master: None,
        gso_max_size: None,
        gso_max_segs: None,
    }
}

fn address(index: u32, network: &str) -> InterfaceAddress {
    InterfaceAddress {
        index,
        network: network.parse().unwrap(),
        tentative: false,
        permanent: true,
        deprecated: false,
        secondary: false,
        link_scope: false,
    }
}

fn router(index: u32, gateway: &str, metric: u32) -> Route {
    let gateway: IpAddr = gateway.parse().unwrap();
    let everywhere = if gateway.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 };
    Route { gateway: Some(gateway), interface: Some(index), metric: Some(metric), ..Route::new(everywhere) }
}

const KEYS: [&str; 2] = ["net/mptcp/enabled", "net/mptcp/pm_type"];

/// A host with an Ethernet and a Wi-Fi interface and a router on each, without MPTCP set-up.
pub(crate) fn laptop() -> SetupHost {
    let links = vec![NetworkInterface { loopback: true, ..link(1, "lo") }, link(2, "eth0"), link(3, "wlan0")];
    let mut host = SetupHost {
        addresses: vec![address(1, "127.0.0.1/8"), address(2, "192.0.2.7/24"), address(3, "198.51.100.9/24")],
        routes: vec![
            Route { interface: Some(2), ..Route::new("192.0.2.0/24".parse().unwrap()) },
            Route { interface: Some(3), ..Route::new("198.51.100.0/24".parse().unwrap()) },
            router(2, "192.0.2.1", 100),
            router(3, "198.51.100.1", 600),
        ],
        limits: Some(MptcpLimits { subflows: 2, add_addr_accepted: 0 }),
        links,
        ..SetupHost::default()
    };
    default_settings(&mut host);
    host
}

fn default_settings(host: &mut SetupHost) {
    let names: Vec<String> = host.links.iter().map(|link| link.name.clone()).collect();
    // A kernel before 6.15 has no `path_manager`.
    let keys = SetupHost::setting_keys(names.iter().map(String::as_str)).into_iter();
    for key in keys.filter(|key| key != "net/mptcp/path_manager") {
        let value = if key == KEYS[0] { "1" } else { "0" };
        host.settings.insert(key, value.to_owned());
    }
}

pub(crate) fn planned(host: &SetupHost) -> SetupPlan {
    plan(host, &SetupOptions::default()).unwrap()
}

fn commands(plan: &SetupPlan) -> Vec<String> {
    plan.steps.iter().flat_map(|step| step.change.commands.clone()).collect()
}

#[test]
fn a_laptop_gets_a_rule_for_its_second_interface() {
    let plan = planned(&laptop());
    let expected = [
        "ip route add 198.51.100.0/24 dev wlan0 proto static table 8300",
        "ip route add default via 198.51.100.1 dev wlan0 proto static table 8300",
        "ip rule add from 198.51.100.9 lookup 8300 priority 8300",
        "ip mptcp limits set subflows 4 add_addr_accepted 2",
        "ip mptcp endpoint add 192.0.2.7 dev eth0 id 1 subflow",
        "ip mptcp endpoint add 198.51.100.9 dev wlan0 id 2 subflow",
    ];
    assert_eq!(commands(&plan), expected);
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
}

#[test]
fn cellular_and_metered_interfaces_are_backup_beside_others() {
    let mut host = laptop();
    host.media.insert(3, Medium::Cellular);
    let backup = |host: &SetupHost| planned(host).paths.iter().map(|path| path.backup).collect::<Vec<_>>();
    assert_eq!(backup(&host), [false, true]);
    assert!(
        commands(&planned(&host))
            .contains(&"ip mptcp endpoint add 198.51.100.9 dev wlan0 id 2 subflow backup".to_owned())
    );
    // With metered interfaces only, none is a backup.
    host.metered.insert(2);
    assert_eq!(backup(&host), [false, false]);
}

#[test]
fn local_networks_and_tunnels_are_no_paths() {
    let mut host = laptop();
    host.links.extend([
        NetworkInterface { kind: Some("bridge".to_owned()), ..link(4, "docker0") },
        NetworkInterface { kind: Some("wireguard".to_owned()), ..link(5, "wg0") },
        NetworkInterface { master: Some(4), ..link(6, "veth1") },
        NetworkInterface { carrier: false, ..link(7, "eth1") },
    ]);
    host.addresses.extend([
        address(4, "172.17.0.1/16"),
        address(5, "10.8.0.2/24"),
        address(6, "10.9.0.1/24"),
        address(7, "203.0.113.5/24"),
    ]);
    host.routes.push(Route { interface: Some(5), table: 51820, ..Route::new(DEFAULT_V4) });
    let plan = planned(&host);
    let names: Vec<&str> = plan.paths.iter().map(|path| path.interface.as_str()).collect();
    assert_eq!(names, ["eth0", "wlan0"]);
    for note in ["wg0 is a tunnel", "docker0 has no default route", "eth1 has no carrier"] {
        assert!(plan.notes.iter().any(|found| found.contains(note)), "{note}: {:?}", plan.notes);
    }
    let options =
        SetupOptions { interfaces: vec!["eth0".into(), "docker0".into()], ..SetupOptions::default() };
    let chosen = planned_with(&host, &options);
    assert!(
        commands(&chosen).iter().any(|command| command.contains("172.17.0.1 dev docker0")),
        "{chosen:#?}"
    );
    let wrong = SetupOptions { interfaces: vec!["nosuch".into()], backup: vec!["other".into()], ..options };
    assert_eq!(plan_mistakes(&host, &wrong), 2);
}

pub(crate) fn planned_with(host: &SetupHost, options: &SetupOptions) -> SetupPlan {
    plan(host, options).unwrap()
}

#[test]
fn named_interfaces_without_a_router_are_withheld_beside_a_vpn() {
    let mut host = laptop();
    host.links.push(NetworkInterface { kind: Some("wireguard".to_owned()), ..link(5, "wg0") });
    host.addresses.push(address(5, "10.8.0.2/24"));
    host.routes = vec![Route { interface: Some(5), ..Route::new(DEFAULT_V4) }];
    let options = SetupOptions { interfaces: vec!["eth0".into(), "wlan0".into()], ..SetupOptions::default() };
    let planned = planned_with(&host, &options);
    assert_eq!(planned.withheld.len(), 2, "{planned:#?}");
    assert!(!commands(&planned).iter().any(|command| command.contains("endpoint")), "{planned:#?}");
}

fn plan_mistakes(host: &SetupHost, options: &SetupOptions) -> usize {
    plan(host, options).unwrap_err().len()
}

#[test]
fn other_managers_keep_their_objects() {
    let mut host = laptop();
    host.managers.insert(3, Manager::NetworkManager);
    host.managers.insert(2, Manager::Networkd);
    let plan = planned(&host);
    let endpoints: Vec<String> = commands(&plan).into_iter().filter(|one| one.contains("endpoint")).collect();
    assert_eq!(endpoints, ["ip mptcp endpoint add 192.0.2.7 dev eth0 id 1 subflow"]);
    assert!(
        plan.notes.iter().any(|note| note.contains("connection.mptcp-flags enabled,subflow")),
        "{:?}",
        plan.notes
    );
    host.has_mptcpd = true;
    let plan = planned(&host);
    assert!(!commands(&plan).iter().any(|command| command.starts_with("ip mptcp")), "{plan:#?}");
    assert!(plan.notes.iter().any(|note| note.contains("mptcpd runs")), "{:?}", plan.notes);
}

#[test]
fn a_broken_rule_of_another_program_is_preceded() {
    let mut host = laptop();
    let from = "198.51.100.9/32".parse().unwrap();
    host.rules.push(RoutingRule { from, table: 77, priority: 1000 });
    let plan = planned(&host);
    assert!(
        commands(&plan).contains(&"ip rule add from 198.51.100.9 lookup 8300 priority 999".to_owned()),
        "{plan:#?}"
    );
}

#[test]
fn a_rule_for_all_addresses_is_no_rule_of_an_address() {
    let mut host = laptop();
    let plan = commands(&planned(&host));
    host.rules.push(RoutingRule { from: DEFAULT_V4, table: 77, priority: 1000 });
    assert_eq!(commands(&planned(&host)), plan);
}

#[test]
fn an_implicit_endpoint_is_replaced_by_one_without_id() {
    let mut host = laptop();
    let implicit = EndpointFlags { implicit: true, ..EndpointFlags::default() };
    let address = "198.51.100.9".parse().unwrap();
    host.endpoints.push(MptcpEndpoint { address, port: None, id: Some(1), interface: None, flags: implicit });
    let plan = commands(&planned(&host));
    assert!(plan.contains(&"ip mptcp endpoint add 198.51.100.9 dev wlan0 subflow".to_owned()), "{plan:#?}");
    assert!(plan.contains(&"ip mptcp endpoint add 192.0.2.7 dev eth0 id 2 subflow".to_owned()), "{plan:#?}");
}

#[test]
fn files_repeat_the_plan_and_detect_changes() {
    let mut host = laptop();
    host.managers.insert(2, Manager::NetworkManager);
    host.managers.insert(3, Manager::Networkd);
    let options = SetupOptions { backup: vec!["wlan0".into()], ..SetupOptions::default() };
    let plan = planned_with(&host, &options);
    let networks = BTreeMap::from([(3, "20-wlan.network".to_owned())]);
    let files = persistence::files(&host, &options, &plan, "/opt/my tools/pathbench", &networks);
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            persistence::UNIT,
            persistence::NETWORK_MANAGER,
            "etc/systemd/network/20-wlan.network.d/90-pathbench-setup.conf"
        ]
    );
    let unit = &files[0].text;
    assert!(
        unit.contains("ExecStart=\"/opt/my tools/pathbench\" setup --apply --backup wlan0 --watch\n"),
        "{unit}"
    );
    assert!(files[1].text.contains("connection.mptcp-flags=34\n"), "{}", files[1].text);
    assert!(
        files[2].text.contains("[RoutingPolicyRule]\nFrom=198.51.100.9/32\nTable=8300\nPriority=8300\n"),
        "{}",
        files[2].text
    );
    // After `--apply`, the plan is empty, and the files are the same.
    let mut applied = host.clone();
    apply(&mut applied, &plan);
    let again = planned_with(&applied, &options);
    assert!(again.steps.is_empty());
    assert_eq!(persistence::files(&applied, &options, &again, "/opt/my tools/pathbench", &networks), files);
    for file in files {
        assert!(is_unchanged(&file.text));
        assert!(
            !is_unchanged(&(file.text.clone() + "#"))
                && !is_unchanged(&file.text.replace("pathbench", "other"))
        );
    }
}

/// Applies the operations to the model of a host.
fn apply(host: &mut SetupHost, plan: &SetupPlan) {
    for step in &plan.steps {
        let operation = step.change.operation.clone();
        match &operation {
            Operation::AddRoute { route } => {
                let new = route_of(route);
                let same = |there: &Route| {
                    (there.destination, there.table, there.metric.unwrap_or(0))
                        == (new.destination, new.table, new.metric.unwrap_or(0))
                };
                assert!(!host.routes.iter().any(same), "{new} is there already");
                host.routes.push(new);
            }
            Operation::AddRule { rule } => {
                assert!(!host.rules.contains(rule), "{rule} is there already");
                host.rules.push(*rule);
            }
            Operation::SetLimits { before, after } => {
                assert_eq!(host.limits, Some(*before));
                assert!(after.subflows >= before.subflows && after.subflows <= 8);
                assert!(after.add_addr_accepted >= before.add_addr_accepted && after.add_addr_accepted <= 8);
                host.limits = Some(*after);
            }
            Operation::AddEndpoint { endpoint } => add_endpoint(host, *endpoint),
            Operation::ChangeEndpoint { before, after } => {
                let there = host.endpoints.iter_mut().find(|there| *there == before).unwrap();
                there.flags = *after;
            }
            Operation::SetSysctl { key, before, after } => {
                assert_eq!(host.settings.insert(key.clone(), after.clone()).as_ref(), Some(before));
            }
            other => panic!("a set-up does not need {other:?}"),
        }
        host.standing.push(operation);
    }
}

fn add_endpoint(host: &mut SetupHost, mut endpoint: MptcpEndpoint) {
    host.endpoints.retain(|there| {
        assert!(there.flags.implicit || there.address != endpoint.address, "{endpoint} is there already");
        there.address != endpoint.address
    });
    let taken: Vec<Option<u8>> = host.endpoints.iter().map(|there| there.id).collect();
    assert!(endpoint.id.is_none() || !taken.contains(&endpoint.id), "the id of {endpoint} is in use");
    endpoint.id = endpoint.id.or((1..=255).map(Some).find(|id| !taken.contains(id)).flatten());
    host.endpoints.push(endpoint);
    assert!(host.endpoints.iter().filter(|there| !there.flags.implicit).count() <= 8, "too many endpoints");
}

fn route_of(entry: &FibEntry) -> Route {
    Route::parse(&entry.encode().into_bytes()).unwrap()
}

/// Undoes the operations, latest first.
fn undo(host: &mut SetupHost) {
    while let Some(operation) = host.standing.pop() {
        match operation {
            Operation::AddRoute { route } => {
                let ours = route_of(&route);
                host.routes.retain(|there| *there != ours);
            }
            Operation::AddRule { rule } => host.rules.retain(|there| *there != rule),
            Operation::SetLimits { before, .. } => host.limits = Some(before),
            Operation::AddEndpoint { endpoint } => {
                host.endpoints
                    .retain(|there| there.address != endpoint.address || there.port != endpoint.port);
            }
            Operation::ChangeEndpoint { before, .. } => {
                let there = host.endpoints.iter_mut().find(|there| there.address == before.address).unwrap();
                there.flags = before.flags;
            }
            Operation::SetSysctl { key, before, .. } => {
                host.settings.insert(key, before);
            }
            other => panic!("a set-up does not need {other:?}"),
        }
    }
}

prop_compose! {
    fn any_link(index: u32)(
        up in prop::bool::weighted(0.9),
        carrier in prop::bool::weighted(0.9),
        kind in prop::sample::select(vec![None, None, None, Some("veth"), Some("bridge"), Some("wireguard"), Some("tun")]),
        master in prop::option::weighted(0.1, Just(9)),
    ) -> NetworkInterface {
        NetworkInterface { up, carrier, kind: kind.map(str::to_owned), master, ..link(index, &format!("if{index}")) }
    }
}

/// An address of one of few subnets, so that interfaces share some.
fn any_address() -> impl Strategy<Value = InterfaceAddress> {
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (2u32..7, 0u8..5, 1u8..200, prop::bool::ANY, flags).prop_map(|(index, net, host, ipv4, flags)| {
        let text =
            if ipv4 { format!("10.{net}.0.{host}/24") } else { format!("2001:db8:{net}::{host:x}/64") };
        let (tentative, deprecated, secondary) = flags;
        InterfaceAddress { tentative, deprecated, secondary, ..address(index, &text) }
    })
}

fn any_route() -> impl Strategy<Value = Route> {
    let table = prop::sample::select(vec![MAIN_TABLE, MAIN_TABLE, 77, 8300, 8301]);
    (2u32..7, 0u8..5, prop::bool::ANY, prop::bool::ANY, table, 0u32..4).prop_map(
        |(index, net, ipv4, default, table, metric)| {
            let text = |host: &str| {
                if ipv4 { format!("10.{net}.0.{host}") } else { format!("2001:db8:{net}::{host}") }
            };
            let subnet: IpNet = format!("{}/{}", text("0"), if ipv4 { 24 } else { 64 }).parse().unwrap();
            let metric = metric * 100 + u32::from(!ipv4);
            let route = if default {
                router(index, &text("254"), metric)
            } else {
                Route { interface: Some(index), metric: Some(metric), ..Route::new(subnet.trunc()) }
            };
            Route { table, ..route }
        },
    )
}

fn any_rule() -> impl Strategy<Value = RoutingRule> {
    (0u8..5, 1u8..200, 0u8..3, 1u32..3, 0u32..4).prop_map(|(net, host, prefix, table, priority)| {
        RoutingRule {
            from: format!("10.{net}.0.{host}/{}", [32, 24, 0][usize::from(prefix)])
                .parse::<IpNet>()
                .unwrap()
                .trunc(),
            table: 8299 + table,
            priority: [0, 500, 8300, 32766][priority as usize],
        }
    })
}

fn any_endpoint() -> impl Strategy<Value = MptcpEndpoint> {
    (any_address(), 1u8..20, 0u32..64).prop_map(|(address, id, flags)| MptcpEndpoint {
        address: address.network.addr(),
        port: None,
        id: Some(id),
        interface: None,
        flags: EndpointFlags::from_bits(if flags & 16 != 0 { 16 } else { flags }),
    })
}

prop_compose! {
    fn any_host()(
        links in (any_link(2), any_link(3), any_link(4), any_link(5), any_link(6)),
        mut addresses in prop::collection::vec(any_address(), 0..12),
        mut routes in prop::collection::vec(any_route(), 0..12),
        mut rules in prop::collection::vec(any_rule(), 0..4),
        mut endpoints in prop::collection::vec(any_endpoint(), 0..9),
        limits in (0u32..9, 0u32..9),
        settings in prop::collection::vec(0u8..3, 32),
        (media, metered, managed, mptcpd, laminar) in (0u32..8, 0u32..8, 0u32..8, prop::bool::weighted(0.1), prop::bool::ANY),
    ) -> SetupHost {
        // The kernel permits each of these once.
        addresses.dedup_by_key(|one| one.network.addr());
        addresses.sort_by_key(|one| one.network.addr());
        addresses.dedup_by_key(|one| one.network.addr());
        routes.sort_by_key(|one| (one.table, one.destination, one.metric));
        routes.dedup_by_key(|one| (one.table, one.destination, one.metric));
        rules.sort_by_key(|one| (one.priority, one.from, one.table));
        rules.dedup();
        endpoints.sort_by_key(|one| one.address);
        endpoints.dedup_by_key(|one| one.address);
        endpoints.sort_by_key(|one| one.id);
        endpoints.dedup_by_key(|one| one.id);
        endpoints.truncate(8);
        let mut host = SetupHost {
            links: [links.0, links.1, links.2, links.3, links.4].into(),
            addresses,
            routes,
            rules,
            endpoints,
            limits: Some(MptcpLimits { subflows: limits.0, add_addr_accepted: limits.1 }),
            has_mptcpd: mptcpd,
            has_laminar: laminar,
            ..SetupHost::default()
        };
        host.media.insert(media, Medium::Cellular);
        host.metered.insert(metered);
        host.managers.insert(managed, Manager::NetworkManager);
        default_settings(&mut host);
        for (value, setting) in host.settings.values_mut().zip(&settings) {
            *value = setting.to_string();
        }
        host
    }
}

fn any_options() -> impl Strategy<Value = SetupOptions> {
    let names = || prop::collection::vec(2u32..7, 0..3);
    (names(), names(), prop::bool::ANY, prop::bool::ANY).prop_map(|(paths, backup, fullmesh, server)| {
        let interfaces = |indices: Vec<u32>| indices.iter().map(|index| format!("if{index}")).collect();
        SetupOptions {
            role: if server { Role::Server } else { Role::Client },
            interfaces: interfaces(paths),
            backup: interfaces(backup),
            fullmesh,
            may_be_absent: true,
            ..SetupOptions::default()
        }
    })
}

/// All that a set-up must not change.
fn kept(host: &SetupHost) -> String {
    format!("{:?} {:?} {:?}", host.links, host.addresses, host.managers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_plan_is_complete_adds_only_and_can_be_undone(
        host in any_host(),
        options in any_options(),
        mut other_options in any_options(),
    ) {
        let plan = planned_with(&host, &options);
        let mut applied = host.clone();
        apply(&mut applied, &plan);
        // Complete: nothing is left to do.
        let again = planned_with(&applied, &options);
        prop_assert!(again.steps.is_empty(), "{:#?}\nafter {:#?}", commands(&again), commands(&plan));
        // It only adds: everything that was there is there, endpoints that the kernel made itself excepted.
        prop_assert_eq!(kept(&host), kept(&applied));
        prop_assert!(host.routes.iter().all(|route| applied.routes.contains(route)));
        prop_assert!(host.rules.iter().all(|rule| applied.rules.contains(rule)));
        let mut explicit = host.endpoints.iter().filter(|there| !there.flags.implicit);
        prop_assert!(explicit.all(|there| applied.endpoints.contains(there)));
        // Every step has a reason, a command and its inverse.
        for step in &plan.steps {
            prop_assert!(!step.reason.is_empty() && !step.change.commands.is_empty());
            prop_assert!(!step.change.undo_commands.is_empty());
            prop_assert!(!is_outdated(&step.change.operation, &applied), "{:?}", step.change.operation);
        }
        // A further call with other options is complete, too. The kernel cannot change the role of an endpoint.
        other_options.role = options.role;
        let other = planned_with(&applied, &other_options);
        apply(&mut applied, &other);
        let again = planned_with(&applied, &other_options);
        prop_assert!(again.steps.is_empty(), "{:#?}\nafter {:#?}", commands(&again), commands(&other));
        // The undo restores the host.
        undo(&mut applied);
        let implicit = |host: &SetupHost| host.endpoints.iter().filter(|there| !there.flags.implicit).copied().collect::<Vec<_>>();
        prop_assert_eq!(implicit(&applied), implicit(&host));
        prop_assert_eq!(&applied.routes, &host.routes);
        prop_assert_eq!(&applied.rules, &host.rules);
        prop_assert_eq!(&applied.settings, &host.settings);
        prop_assert_eq!(applied.limits, host.limits);
    }

    /// A rule of the plan leads to a table that leaves by the interface of its address only.
    #[test]
    fn a_rule_leads_to_the_interface_of_its_address(host in any_host(), options in any_options()) {
        let plan = planned_with(&host, &options);
        let mut applied = host.clone();
        apply(&mut applied, &plan);
        for step in &plan.steps {
            let Operation::AddRule { rule } = step.change.operation else { continue };
            let owners: Vec<u32> = applied.addresses.iter().filter(|one| one.network.addr() == rule.from.addr()).map(|one| one.index).collect();
            let family = |route: &&Route| route.destination.addr().is_ipv4() == rule.from.addr().is_ipv4();
            let mut routes = applied.routes.iter().filter(|route| route.table == rule.table).filter(family).peekable();
            prop_assert!(routes.peek().is_some(), "table {} is empty", rule.table);
            prop_assert!(routes.all(|route| route.interface.is_some_and(|index| owners.contains(&index))), "{plan:#?}");
        }
    }
}
