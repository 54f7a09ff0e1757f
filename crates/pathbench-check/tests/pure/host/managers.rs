//! Remedies in the language of the program that manages an interface, as the real programs accepted them: `NetworkManager`
//! 1.42 and mptcpd 0.12 of Debian 12.

use super::facts::{ETH0, WLAN0, WLAN0_ADDRESS, address, endpoint, healthy, ip, link};
use pathbench_check::facts::HostFacts;
use pathbench_check::finding::{Finding, FindingId, Level};
use pathbench_check::host::findings;
use pathbench_host::leases::DhcpLease;
use pathbench_host::managers::MptcpdFlags;
use pathbench_host::mptcp::EndpointFlags;

const UUID: &str = "678d5939-b2d8-366e-84b9-e3f25b6ab2e3";

fn managed(version: (u32, u32)) -> HostFacts {
    let mut facts = healthy();
    facts.managers.network_manager = vec!["eth0".to_owned(), "wlan0".to_owned()];
    facts.managers.network_manager_version = Some(version);
    facts.managers.connections = [("wlan0".to_owned(), UUID.to_owned())].into();
    facts
}

fn mptcpd(endpoint: &[&str], notification: &[&str]) -> HostFacts {
    let owned = |flags: &[&str]| flags.iter().map(|flag| (*flag).to_owned()).collect();
    let mut facts = healthy();
    facts.managers.mptcpd = true;
    facts.managers.mptcpd_flags =
        Some(MptcpdFlags { endpoint: owned(endpoint), notification: owned(notification) });
    facts
}

fn cellular(facts: &mut HostFacts) {
    facts.devices.get_mut(&WLAN0).unwrap().cellular = true;
}

fn without_wlan0(mut facts: HostFacts) -> HostFacts {
    facts.endpoints.as_mut().unwrap().remove(1);
    facts
}

fn remedy(facts: &HostFacts, id: FindingId) -> Vec<String> {
    let found: Vec<Finding> =
        findings(facts).into_iter().filter(|one| one.id == id && !one.remedy.is_empty()).collect();
    assert_eq!(found.len(), 1, "{id:?}: {found:#?}");
    found[0].remedy.clone()
}

fn modify(flags: &str) -> Vec<String> {
    vec![format!(
        "nmcli connection modify {UUID} connection.mptcp-flags {flags} && nmcli device reapply wlan0"
    )]
}

/// Regression: an endpoint that `ip mptcp` adds or changes on an interface of `NetworkManager` lasts until the next reapply.
#[test]
fn endpoints_of_network_manager_are_changed_in_the_connection() {
    let facts = without_wlan0(managed((1, 42)));
    assert_eq!(remedy(&facts, FindingId::MptcpEndpoint), modify("enabled,subflow"));
    let mut facts = managed((1, 42));
    cellular(&mut facts);
    assert_eq!(remedy(&facts, FindingId::Metered), modify("enabled,subflow,backup"));
    // `enabled` alone gives an endpoint without flags.
    let mut facts = managed((1, 42));
    facts.endpoints.as_mut().unwrap()[1].flags = EndpointFlags::default();
    assert_eq!(remedy(&facts, FindingId::MptcpEndpoint), modify("enabled,subflow"));
    // Without a default route NetworkManager makes an endpoint with this flag only.
    let mut facts = without_wlan0(managed((1, 42)));
    facts.network.routes.retain(|route| route.interface != Some(WLAN0));
    assert_eq!(
        remedy(&facts, FindingId::MptcpEndpoint),
        modify("enabled,subflow,also-without-default-route")
    );
}

#[test]
fn other_interfaces_and_old_versions_keep_the_language_of_ip() {
    let ip = format!("ip mptcp endpoint add {WLAN0_ADDRESS} dev wlan0 subflow");
    assert_eq!(remedy(&without_wlan0(managed((1, 36))), FindingId::MptcpEndpoint), std::slice::from_ref(&ip));
    let mut facts = without_wlan0(managed((1, 42)));
    facts.managers.network_manager = vec!["eth0".to_owned()];
    assert_eq!(remedy(&facts, FindingId::MptcpEndpoint), [ip]);
}

/// nmcli 1.42: invalid option 'enabled,laminar'.
#[test]
fn the_flag_laminar_needs_a_version_that_knows_it() {
    for (version, knows) in [((1, 42), false), ((1, 54), false), ((1, 56), true), ((2, 0), true)] {
        let mut facts = managed(version);
        cellular(&mut facts);
        facts.endpoints.as_mut().unwrap()[1].flags.laminar = true;
        let found = remedy(&facts, FindingId::Metered);
        assert_eq!(found[0].contains("laminar"), knows, "{version:?}: {found:?}");
    }
}

/// `NetworkManager` removes routes of other programs from the main table when it reapplies a connection.
#[test]
fn a_default_route_belongs_to_the_connection_and_to_the_lease() {
    let without_route = |mut facts: HostFacts| {
        facts.network.routes.retain(|route| route.interface != Some(WLAN0));
        facts.endpoints.as_mut().unwrap().remove(1);
        facts.departures.retain(|departure| departure.interface != WLAN0);
        facts
    };
    let facts = without_route(healthy());
    let by_hand = remedy(&facts, FindingId::Interface);
    assert_eq!(
        by_hand,
        ["ip route add default via ROUTER dev wlan0 metric 200 (ROUTER: the router of its subnet)"]
    );
    let facts = without_route(managed((1, 42)));
    let by_connection = remedy(&facts, FindingId::Interface);
    assert_eq!(
        by_connection,
        [format!(
            "nmcli connection modify {UUID} +ipv4.routes \"0.0.0.0/0 ROUTER 200\" && nmcli device reapply wlan0 (ROUTER: the \
             router of its subnet)"
        )]
    );
    let mut facts = facts;
    let lease =
        |address: &str| DhcpLease { interface: WLAN0, address: ip(address), routers: vec![ip("10.0.0.254")] };
    facts.managers.leases = vec![lease("10.0.0.99")];
    assert_eq!(remedy(&facts, FindingId::Interface), by_connection, "a lease of another address");
    facts.managers.leases.push(lease(WLAN0_ADDRESS));
    assert!(remedy(&facts, FindingId::Interface)[0].contains("\"0.0.0.0/0 10.0.0.254 200\""));
    facts.managers.network_manager.clear();
    assert_eq!(
        remedy(&facts, FindingId::Interface),
        ["ip route add default via 10.0.0.254 dev wlan0 metric 200 (the router of its DHCP lease)"]
    );
}

/// Regression: with the stock settings of mptcpd 0.12, which has no endpoint for the addresses at its start, the remedy was
/// an endpoint by hand.
#[test]
fn mptcpd_gets_its_own_settings() {
    let facts = without_wlan0(mptcpd(&[], &[]));
    let lines = "addr-flags=subflow\\nnotify-flags=existing,skip_link_local,skip_loopback\\n";
    let expected = [
        format!(
            "sed -i -e '/^addr-flags=/d' -e '/^notify-flags=/d' /etc/mptcpd/mptcpd.conf && printf '{lines}' >> \
             /etc/mptcpd/mptcpd.conf"
        ),
        "systemctl restart mptcp.service".to_owned(),
    ];
    assert_eq!(remedy(&facts, FindingId::MptcpEndpoint), expected);
    // What is in force stays.
    let facts =
        without_wlan0(mptcpd(&["signal"], &["existing", "check_route", "skip_loopback", "skip_link_local"]));
    let found = remedy(&facts, FindingId::MptcpEndpoint);
    assert!(found[0].contains("printf 'addr-flags=signal,subflow\\n'"), "{found:?}");
    let facts = without_wlan0(mptcpd(&["subflow"], &["existing", "skip_loopback", "skip_link_local"]));
    assert_eq!(remedy(&facts, FindingId::MptcpEndpoint), ["systemctl restart mptcp.service"]);
    // Endpoints without flags stay after a restart, which finds a duplicate.
    let mut facts = mptcpd(&[], &["existing"]);
    facts.endpoints.as_mut().unwrap()[1].flags = EndpointFlags::default();
    let found = remedy(&facts, FindingId::MptcpEndpoint);
    assert!(found.len() == 3 && found[0] == "ip mptcp endpoint delete id 2", "{found:?}");
    // One set of flags for all interfaces.
    let mut facts = mptcpd(&["subflow"], &[]);
    cellular(&mut facts);
    let found = remedy(&facts, FindingId::Metered);
    assert!(
        found[0].contains("disable --now mptcp.service")
            && found[1].starts_with("ip mptcp endpoint change id 2")
    );
}

#[test]
fn an_endpoint_with_a_port_belongs_to_no_manager() {
    let mut facts = managed((1, 42));
    let there = &mut facts.endpoints.as_mut().unwrap()[1];
    (there.port, there.flags) = (Some(8443), EndpointFlags::default());
    // It stays, and the path gets one of its own.
    assert_eq!(remedy(&facts, FindingId::MptcpEndpoint), modify("enabled,subflow"));
}

/// Hosts that nobody has to change: a VPN's, containers' and virtual machines' bridges, managers with default settings.
#[test]
fn a_healthy_host_is_left_alone() {
    let docker = |facts: &mut HostFacts| {
        let mut bridge = link(9, "docker0");
        (bridge.kind, bridge.carrier) = (Some("bridge".to_owned()), true);
        facts.network.links.push(bridge);
        facts.network.addresses.push(address(9, "172.17.0.1/16"));
        let mut port = link(10, "veth1234");
        (port.kind, port.master) = (Some("veth".to_owned()), Some(9));
        facts.network.links.push(port);
    };
    let one_path = |facts: &mut HostFacts| {
        facts.network.links.retain(|link| link.index != WLAN0);
        facts.network.addresses.retain(|one| one.index != WLAN0);
        facts.network.routes.retain(|route| route.interface != Some(WLAN0));
        facts.departures.retain(|departure| departure.interface != WLAN0);
        facts.endpoints = Ok(Vec::new());
    };
    let silent = |name: &str, facts: &HostFacts, allowed: &[FindingId]| {
        let found = findings(facts);
        let loud = found.iter().filter(|one| matches!(one.level, Level::Problem | Level::Advice));
        let loud: Vec<_> = loud.filter(|one| !allowed.contains(&one.id)).collect();
        assert!(loud.is_empty(), "{name}: {loud:#?}");
    };
    let mut facts = managed((1, 42));
    docker(&mut facts);
    silent("NetworkManager and containers", &facts, &[]);
    one_path(&mut facts);
    silent("NetworkManager without endpoints on one path", &facts, &[FindingId::Paths]);
    let mut facts = healthy();
    docker(&mut facts);
    facts.managers.networkd = vec!["eth0".to_owned()];
    one_path(&mut facts);
    silent("networkd without source rules", &facts, &[FindingId::Paths]);
    silent("mptcpd with endpoints", &mptcpd(&["subflow"], &["existing"]), &[]);
    let mut facts = healthy();
    facts.endpoints =
        Ok(vec![endpoint(1, WLAN0_ADDRESS, Some(WLAN0)), endpoint(2, "192.168.1.10", Some(ETH0))]);
    facts.managers.leases =
        vec![DhcpLease { interface: WLAN0, address: ip(WLAN0_ADDRESS), routers: vec![ip("10.0.0.1")] }];
    silent("leases", &facts, &[]);
}
