//! Remedies against the limits and endpoints in force.

use crate::host::facts::{ETH0, WLAN0, counters, endpoint, healthy, set};
use crate::host::table::ROWS;
use crate::server::{rises, sound};
use pathbench_check::facts::HostFacts;
use pathbench_check::finding::{Finding, Level};
use pathbench_check::host::findings;
use pathbench_check::server;
use pathbench_check::server::counters::Counters;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_host::netlink::InterfaceAddress;
use std::net::IpAddr;

const SIGNAL: EndpointFlags = EndpointFlags { subflow: false, signal: true, ..EndpointFlags::SUBFLOW };

fn limited(subflows: u32, add_addr_accepted: u32) -> HostFacts {
    HostFacts { limits: Ok(MptcpLimits { subflows, add_addr_accepted }), ..healthy() }
}

fn finding(facts: &HostFacts, id: &str) -> Finding {
    findings(facts).into_iter().find(|finding| finding.id.name() == id).unwrap()
}

/// Regression: 4 and 0 became 2 and 4.
#[test]
fn a_limit_is_never_lowered() {
    for subflows in 0..=8 {
        for accepted in 0..=8 {
            let facts = limited(subflows, accepted);
            let in_force = MptcpLimits { subflows, add_addr_accepted: accepted };
            let needed = if subflows == 0 { 2 } else { subflows };
            let raised = in_force.raised_to(MptcpLimits { subflows: needed, add_addr_accepted: 2 });
            let remedy = finding(&facts, "mptcp-limits").remedy;
            let expected = format!(
                "ip mptcp limits set subflows {} add_addr_accepted {}",
                raised.subflows, raised.add_addr_accepted
            );
            if subflows == 0 || accepted == 0 {
                assert_eq!(remedy, [expected], "{subflows} {accepted}");
            } else {
                assert_eq!(remedy, [""; 0], "{subflows} {accepted}");
            }
        }
    }
}

/// Nine paths of which a connection can use all at most: the kernel's maximum.
#[test]
fn limits_beyond_the_kernels_are_not_asked_for() {
    let in_force = MptcpLimits { subflows: 8, add_addr_accepted: 1 };
    assert_eq!(in_force.remedy(MptcpLimits { subflows: 12, add_addr_accepted: 1 }), None);
    let remedy = MptcpLimits::default().remedy(MptcpLimits { subflows: 12, add_addr_accepted: 9 });
    assert_eq!(remedy.unwrap(), "ip mptcp limits set subflows 8 add_addr_accepted 8");
}

/// Regression: `endpoint add` of an address that is an endpoint already, which the kernel refuses.
#[test]
fn an_endpoint_that_exists_keeps_its_id_and_flags() {
    let mut facts = healthy();
    let flags = EndpointFlags { backup: true, ..EndpointFlags::default() };
    facts.endpoints.as_mut().unwrap()[1].flags = flags;
    assert_eq!(
        finding(&facts, "mptcp-endpoint").remedy,
        ["ip mptcp endpoint delete id 2", "ip mptcp endpoint add 10.0.0.10 dev wlan0 id 2 subflow backup"]
    );
    assert_eq!(finding(&facts, "endpoint-flags").remedy, [""; 0], "the remedy above gives it the flag");
}

#[test]
fn an_endpoint_of_loopback_is_deleted() {
    let mut facts = healthy();
    facts.endpoints.as_mut().unwrap().push(endpoint(3, "127.0.0.1", Some(WLAN0)));
    let found = finding(&facts, "endpoint-address");
    assert_eq!(found.remedy, ["ip mptcp endpoint delete id 3"]);
    assert!(!findings(&facts).iter().any(|one| one.id.name() == "endpoint-device"), "{found:?}");
}

/// An endpoint of an address of the loopback interface, which routers know, may leave by any interface.
#[test]
fn a_routed_address_of_loopback_is_no_address_of_another_interface() {
    let mut facts = healthy();
    let own: IpAddr = "198.51.100.1".parse().unwrap();
    let network = own.into();
    facts.network.addresses.push(InterfaceAddress { index: 1, network, ..facts.network.addresses[1] });
    facts.endpoints.as_mut().unwrap().push(endpoint(3, "198.51.100.1", Some(ETH0)));
    assert!(!findings(&facts).iter().any(|one| one.level == Level::Problem));
}

#[test]
fn a_full_table_is_named() {
    let mut facts = healthy();
    let others =
        (3..=9).map(|id| MptcpEndpoint { flags: SIGNAL, ..endpoint(id, &format!("203.0.113.{id}"), None) });
    let endpoints = facts.endpoints.as_mut().unwrap();
    endpoints.truncate(1);
    endpoints.extend(others);
    let remedy = finding(&facts, "mptcp-endpoint").remedy;
    assert!(remedy[0].contains("at most 8 endpoints"), "{remedy:?}");
    // One of them has no use, and the remedy before deletes it.
    facts.endpoints.as_mut().unwrap()[1].flags = EndpointFlags::SUBFLOW;
    assert_eq!(
        finding(&facts, "mptcp-endpoint").remedy,
        ["ip mptcp endpoint add 10.0.0.10 dev wlan0 subflow"]
    );
}

/// Regression: settings that are in force were advised again.
#[test]
fn settings_in_force_are_not_advised() {
    let mut facts = healthy();
    facts.network.addresses[2].network = "192.168.1.11/24".parse().unwrap();
    let remedy = |facts: &HostFacts| finding(facts, "same-subnet").remedy;
    assert_eq!(remedy(&facts).len(), 5, "{:?}", remedy(&facts));
    set(&mut facts, "net.ipv4.conf.all.arp_ignore", "1");
    set(&mut facts, "net.ipv4.conf.eth0.arp_announce", "2");
    assert_eq!(remedy(&facts)[0], "sysctl -w net.ipv4.conf.wlan0.arp_announce=2");
    set(&mut facts, "net.ipv4.conf.wlan0.arp_announce", "2");
    assert_eq!(finding(&facts, "same-subnet").level, Level::Ok);
    facts.network.links[1].name = "eth0.7".to_owned();
    assert_eq!(remedy(&facts)[0], "sysctl -w net/ipv4/conf/eth0.7/arp_announce=2");

    let mut facts = healthy();
    set(&mut facts, "net.mptcp.allow_join_initial_addr_port", "0");
    let announce = "ip mptcp endpoint add 10.0.0.10 dev wlan0 id 2 signal subflow";
    assert_eq!(finding(&facts, "join-initial-address").remedy[1], announce);
    facts.endpoints.as_mut().unwrap()[1].flags = SIGNAL;
    assert_eq!(finding(&facts, "join-initial-address").level, Level::Ok);
}

/// A host with one interface, and a server with two addresses of which it announces the second.
#[test]
fn announced_addresses_that_are_ignored_are_the_problem() {
    let mut facts = sound();
    facts.paths.truncate(1);
    facts.transfers.truncate(1);
    facts.path_manager.limits = Some(MptcpLimits { subflows: 2, add_addr_accepted: 0 });
    facts.transfers[0].probe.counters = Counters::new(rises(&["AddAddr", "EchoAddTx"]), None, 1);
    facts.transfers[0].probe.subflows.truncate(1);
    let found = server::findings(&facts);
    let found = found.iter().find(|one| one.id.name() == "mptcp-limits").unwrap();
    assert_eq!(found.level, Level::Problem);
    assert_eq!(found.remedy, ["ip mptcp limits set subflows 2 add_addr_accepted 1"]);
    facts.path_manager.limits = Some(MptcpLimits { subflows: 2, add_addr_accepted: 1 });
    assert!(!server::findings(&facts).iter().any(|one| one.id.name() == "mptcp-limits"));

    let mut facts = limited(2, 0);
    facts.network.addresses.truncate(2);
    facts.endpoints = Ok(Vec::new());
    assert_eq!(finding(&facts, "mptcp-limits").level, Level::Ok, "nothing was announced");
    facts.counters = Ok(counters("MPTcpExt: AddAddr\nMPTcpExt: 3\n"));
    assert_eq!(
        finding(&facts, "mptcp-limits").remedy,
        ["ip mptcp limits set subflows 2 add_addr_accepted 1"]
    );
}

/// Regression: 4 and 4 became 2 and 2, beside `endpoint add` of an endpoint that exists.
#[test]
fn a_join_that_is_not_attempted_has_a_remedy_against_what_is_in_force() {
    let mut facts = sound();
    for transfer in &mut facts.transfers {
        transfer.probe.counters = Counters::new(rises(&["MPCapableSYNTX"]), None, 1);
        transfer.probe.subflows.truncate(1);
    }
    let local = facts.paths[1].local;
    facts.paths[1].has_endpoint = false;
    facts.path_manager.limits = Some(MptcpLimits { subflows: 4, add_addr_accepted: 4 });
    facts.path_manager.endpoints =
        vec![MptcpEndpoint { flags: SIGNAL, ..endpoint(2, &local.to_string(), None) }];
    let found = server::findings(&facts);
    let found = found.iter().find(|one| one.found.contains("opens no subflow from")).unwrap();
    assert_eq!(
        found.remedy,
        [
            "ip mptcp endpoint delete id 2".to_owned(),
            format!("ip mptcp endpoint add {local} dev wlan0 id 2 signal subflow")
        ]
    );
}

/// Whether a step that begins with a program of the network is a complete command of a known form.
fn is_known_form(step: &str) -> bool {
    let words: Vec<&str> = step.split_ascii_whitespace().collect();
    let number = |word: &str| word.parse::<u32>().is_ok();
    let address = |word: &str| word.parse::<IpAddr>().is_ok();
    let pairs = |words: &[&str], keys: &[&str]| {
        words.len().is_multiple_of(2) && words.chunks(2).all(|pair| keys.contains(&pair[0]))
    };
    match words[..] {
        ["ip", "mptcp", "limits", "set", "subflows", subflows, "add_addr_accepted", accepted] => {
            [subflows, accepted].iter().all(|limit| limit.parse().is_ok_and(|limit: u32| limit <= 8))
        }
        ["ip", "mptcp", "endpoint", "delete", "id", id] => number(id),
        ["ip", "mptcp", "endpoint", "change", "id", id, ref flags @ ..] => {
            number(id) && !flags.is_empty() && flags.iter().all(|flag| ["backup", "fullmesh"].contains(flag))
        }
        ["ip", "mptcp", "endpoint", "add", at, "dev", _, ref rest @ ..] => {
            let flags =
                if let ["id", id, flags @ ..] = rest { number(id).then_some(flags) } else { Some(rest) };
            let known = ["signal", "subflow", "backup", "fullmesh", "laminar"];
            address(at)
                && flags
                    .is_some_and(|flags| !flags.is_empty() && flags.iter().all(|flag| known.contains(flag)))
        }
        ["ip", "rule", "add", "from", at, "lookup", table]
        | ["ip", "-6", "rule", "add", "from", at, "lookup", table] => address(at) && number(table),
        ["ip", "route", "add", _, ref rest @ ..] | ["ip", "-6", "route", "add", _, ref rest @ ..] => {
            pairs(rest, &["via", "dev", "src", "table", "metric"])
        }
        ["ip", "link", "set", _, "up"] => true,
        ["sysctl", "-w", ref settings @ ..] => {
            !settings.is_empty() && settings.iter().any(|one| one.contains('='))
        }
        ["nft", "delete", "rule", _, _, _, "handle", handle] => number(handle),
        _ => false,
    }
}

#[test]
fn every_remedy_is_a_sentence_or_a_command_of_a_known_form() {
    let mut commands = 0;
    for (name, change, _) in ROWS {
        let mut facts = healthy();
        change(&mut facts);
        for finding in findings(&facts) {
            for step in finding.remedy.iter().filter(|step| {
                ["ip ", "nft "].iter().any(|program| step.starts_with(program))
                    || step.starts_with("sysctl -w")
            }) {
                // The second interface of a user is not known.
                let is_template = step.contains("INTERFACE") || step.contains("ROUTER");
                assert!(is_template || is_known_form(step), "{name}: {finding:#?}");
                assert!(!is_template || !step.starts_with("ip mptcp"), "{name}: {finding:#?}");
                commands += 1;
            }
        }
    }
    assert!(commands > 20, "{commands}");
    for wrong in [
        "ip mptcp limits set subflows 9 add_addr_accepted 0",
        "ip mptcp endpoint add ADDRESS dev INTERFACE subflow",
        "ip mptcp endpoint add 10.0.0.1 dev eth0",
        "ip mptcp endpoint delete",
        "ip route add default via ROUTER dev eth0 table 7 (ROUTER: the router)",
    ] {
        assert!(!is_known_form(wrong), "{wrong}");
    }
}
