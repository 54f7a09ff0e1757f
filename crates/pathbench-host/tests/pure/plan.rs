//! Plans of routes and endpoints, and the equivalent commands.

use crate::common::waiting;
use crate::samples::{Sample, route_to};
use pathbench_host::change::ChangePlan;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_host::path_mtu::{CachedMtu, HostPath, LiveConnection, PathMtuState, PlanError, plan};
use std::collections::BTreeMap;
use std::time::Duration;

const ETH: u32 = 2;
const WLAN: u32 = 3;
const SERVER: &str = "10.9.9.9";
const SERVER_V6: &str = "fd09::9";

/// The path from `wlan` to the server with the routes of its table that match the server; the kernel uses the first.
fn state(routes: Vec<Sample>) -> PathMtuState {
    let candidates: Vec<_> = routes.into_iter().map(Sample::entry).collect();
    let v4 = candidates[0].is_ipv4();
    let address = |v4_text: &str, v6_text: &str| if v4 { v4_text } else { v6_text }.parse().unwrap();
    PathMtuState {
        path: HostPath {
            local: address("10.0.2.1", "fd02::1"),
            interface: "wlan".to_owned(),
            server: address(SERVER, SERVER_V6),
        },
        interface_index: WLAN,
        interface_mtu_bytes: 9000,
        rule_priority: Some(1002),
        route: candidates[0].clone(),
        candidates,
        unbound_interface: Some(WLAN),
        cached: None,
        connections: Vec::new(),
        siblings: Vec::new(),
        endpoints: Some(Vec::new()),
        limits: Some(MptcpLimits { subflows: 2, add_addr_accepted: 0 }),
        interface_names: BTreeMap::from([(ETH, "eth".to_owned()), (WLAN, "wlan".to_owned())]),
    }
}

fn commands(plan: &ChangePlan) -> Vec<&str> {
    plan.steps.iter().flat_map(|step| step.commands.iter().map(String::as_str)).collect()
}

fn undo_commands(plan: &ChangePlan) -> Vec<&str> {
    plan.steps.iter().flat_map(|step| step.undo_commands.iter().map(String::as_str)).collect()
}

fn own_default() -> Sample {
    route_to("0.0.0.0/0", 1002).set_gateway("10.0.2.254").dev(WLAN)
}

/// Name, routes (the kernel uses the first), discovered MTU, commands, and undo commands.
type Case<'a> = (&'a str, Vec<Sample>, u32, &'a str, &'a str);

fn check(cases: Vec<Case<'_>>) {
    for (name, routes, mtu, does, undoes) in cases {
        let plan = plan(&state(routes), mtu, &[]).unwrap();
        assert_eq!(commands(&plan).join("\n"), does, "{name}");
        assert_eq!(undo_commands(&plan).join("\n"), undoes, "{name}");
    }
}

fn default_by(dev: u32, gateway: &str, metric: u32) -> Sample {
    route_to("0.0.0.0/0", 254).set_gateway(gateway).dev(dev).metric(metric)
}

fn own_default_v6() -> Sample {
    route_to("::/0", 1002).set_gateway("fe80::1").dev(WLAN).metric(1024)
}

#[test]
fn tables_of_one_interface() {
    check(vec![
        (
            "a table of its own",
            vec![own_default()],
            1500,
            "ip route add 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1500",
            "ip route delete 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1500",
        ),
        (
            "a table of its own, on the link",
            vec![route_to("10.9.9.0/24", 1002).dev(WLAN).header(6, 253).header(5, 2)],
            1500,
            "ip route add 10.9.9.9 dev wlan proto static table 1002 mtu 1500",
            "ip route delete 10.9.9.9 dev wlan proto static table 1002 mtu 1500",
        ),
        (
            "other metrics are kept in a copy",
            vec![own_default().with_metric(8, 1400).with_metric(11, 20)],
            1500,
            "ip route add 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1500 advmss 1400 initcwnd 20",
            "ip route delete 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1500 advmss 1400 initcwnd 20",
        ),
        (
            "a route for the server is there",
            vec![route_to("10.9.9.9/32", 1002).set_gateway("10.0.2.254").dev(WLAN).mtu(1400), own_default()],
            1500,
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1500",
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1400",
        ),
        (
            "a locked MTU stays locked",
            vec![route_to("10.9.9.9/32", 1002).set_gateway("10.0.2.254").dev(WLAN).locked(2000)],
            1500,
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu lock 1500",
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu lock 2000",
        ),
    ]);
}

#[test]
fn the_main_table_and_shared_ones() {
    check(vec![
        (
            "the main table with one interface",
            vec![default_by(WLAN, "10.0.2.254", 600)],
            1500,
            "ip route add 10.9.9.9 via 10.0.2.254 dev wlan proto static metric 600 mtu 1500",
            "ip route delete 10.9.9.9 via 10.0.2.254 dev wlan proto static metric 600 mtu 1500",
        ),
        (
            "the main table with two interfaces",
            vec![default_by(WLAN, "10.0.2.254", 600).header(5, 16), default_by(ETH, "10.0.1.254", 100)],
            1500,
            "ip route replace default via 10.0.2.254 dev wlan proto dhcp metric 600 mtu 1500",
            "ip route replace default via 10.0.2.254 dev wlan proto dhcp metric 600",
        ),
        (
            "several next hops",
            vec![route_to("0.0.0.0/0", 254).hops(&[(ETH, 0, 1, "10.0.1.254"), (WLAN, 4, 3, "10.0.2.254")])],
            1500,
            "ip route replace default proto static mtu 1500 nexthop via 10.0.1.254 dev eth weight 1 \
             nexthop via 10.0.2.254 dev wlan onlink weight 3",
            "ip route replace default proto static nexthop via 10.0.1.254 dev eth weight 1 \
             nexthop via 10.0.2.254 dev wlan onlink weight 3",
        ),
        (
            "IPv6, by advertisement, in a table of its own",
            vec![own_default_v6().header(5, 9).expiring(1800)],
            1500,
            "ip -6 route add fd09::9 via fe80::1 dev wlan proto static metric 1024 table 1002 mtu 1500",
            "ip -6 route delete fd09::9 via fe80::1 dev wlan proto static metric 1024 table 1002 mtu 1500",
        ),
        (
            "IPv6, by advertisement, two interfaces",
            vec![
                own_default_v6().header(5, 9).expiring(1800),
                route_to("::/0", 1002).set_gateway("fe80::2").dev(ETH).metric(2048),
            ],
            1500,
            "ip -6 route replace default via fe80::1 dev wlan proto ra metric 1024 table 1002 expires 1800 mtu 1500",
            "ip -6 route replace default via fe80::1 dev wlan proto ra metric 1024 table 1002 expires 1800",
        ),
    ]);
}

#[test]
fn routes_over_a_next_hop_object() {
    let over =
        |sample: Sample| sample.set_gateway("10.0.2.254").dev(WLAN).set_attribute(30, &7u32.to_ne_bytes());
    let without = "ip route delete 10.9.9.9 nhid 7 proto static table 1002 mtu 1500\n\
                   ip route add 10.9.9.9 nhid 7 proto static table 1002";
    check(vec![
        (
            "lowered",
            vec![over(route_to("10.9.9.9/32", 1002))],
            1500,
            "ip route replace 10.9.9.9 nhid 7 proto static table 1002 mtu 1500",
            without,
        ),
        (
            "raised",
            vec![over(route_to("10.9.9.9/32", 1002)).mtu(1500)],
            9000,
            without,
            "ip route replace 10.9.9.9 nhid 7 proto static table 1002 mtu 1500",
        ),
    ]);
}

#[test]
fn ip_locks_rto_min_implicitly() {
    let route = own_default().with_metric(1, 1 << 13 | 1 << 8).with_metric(8, 1300).with_metric(13, 300);
    let command =
        "10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1500 advmss lock 1300 rto_min 300ms";
    let (add, delete) = (format!("ip route add {command}"), format!("ip route delete {command}"));
    check(vec![("rto_min", vec![route], 1500, &add, &delete)]);
}

#[test]
fn an_mtu_increase_is_planned() {
    check(vec![
        (
            "larger again",
            vec![route_to("10.9.9.9/32", 1002).set_gateway("10.0.2.254").dev(WLAN).mtu(1400)],
            4352,
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 4352",
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1400",
        ),
        (
            "as large as the interface again",
            vec![route_to("10.9.9.9/32", 1002).set_gateway("10.0.2.254").dev(WLAN).mtu(1400)],
            9000,
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002",
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu 1400",
        ),
        (
            "as large as the interface again, locked",
            vec![route_to("10.9.9.9/32", 1002).set_gateway("10.0.2.254").dev(WLAN).locked(1400)],
            9000,
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu lock 9000",
            "ip route replace 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002 mtu lock 1400",
        ),
        (
            "others of the table keep a smaller MTU",
            vec![own_default().mtu(1400)],
            9000,
            "ip route add 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002",
            "ip route delete 10.9.9.9 via 10.0.2.254 dev wlan proto static table 1002",
        ),
        ("the kernel is right", vec![own_default().mtu(1500)], 1500, "", ""),
        ("nothing is narrow", vec![own_default()], 9000, "", ""),
        ("the interface is the bound", vec![own_default()], 65_535, "", ""),
    ]);
}

#[test]
fn a_shared_table_is_noted() {
    let routes = vec![
        route_to("0.0.0.0/0", 254).set_gateway("10.0.2.254").dev(WLAN).metric(600),
        route_to("0.0.0.0/0", 254).set_gateway("10.0.1.254").dev(ETH).metric(100),
    ];
    let notes = plan(&state(routes), 1500, &[]).unwrap().notes.join(" ");
    assert!(notes.contains("Table 254 leads to 10.9.9.9 by other interfaces, too"), "{notes}");
}

#[test]
fn an_mtu_learnt_from_icmp_is_considered() {
    let learnt = |mtu_bytes| {
        let cached = CachedMtu { mtu_bytes, expires_in: Duration::from_secs(90), locked: false };
        PathMtuState { cached: Some(cached), ..state(vec![own_default()]) }
    };
    let right = plan(&learnt(1400), 1400, &[]).unwrap();
    assert!(right.steps.is_empty() && right.notes[0].contains("learnt 1400 by ICMP"), "{right:?}");
    let lower = plan(&learnt(1400), 1300, &[]).unwrap();
    assert!(commands(&lower)[0].ends_with("mtu 1300"), "{lower:?}");
    let higher = plan(&learnt(1400), 9000, &[]).unwrap();
    assert!(commands(&higher)[0].ends_with("table 1002 mtu 9000"), "{higher:?}");
    assert!(higher.notes[0].contains("not used"), "{higher:?}");
}

#[test]
fn impossible_changes_are_reported() {
    let below = |routes, mtu| plan(&state(routes), mtu, &[]).unwrap_err();
    let v6 = below(vec![route_to("::/0", 1002).set_gateway("fe80::1").dev(WLAN)], 1279);
    assert_eq!(v6, PlanError::BelowMinimum { mtu_bytes: 1279, least_bytes: 1280 });
    let v4 = below(vec![own_default()], 67);
    assert_eq!(v4, PlanError::BelowMinimum { mtu_bytes: 67, least_bytes: 68 });
    let local = below(vec![route_to("10.9.9.9/32", 255).dev(1).header(7, 2)], 1500);
    assert!(matches!(local, PlanError::NotUnicast { table: 255, .. }), "{local}");
    let connected = |dev| route_to("10.9.9.0/24", 254).dev(dev).header(6, 253).header(5, 2);
    let mut two = state(vec![connected(WLAN)]);
    two.candidates = vec![connected(ETH).entry(), connected(WLAN).entry()];
    let ambiguous = plan(&two, 1500, &[]).unwrap_err();
    assert!(
        matches!(&ambiguous, PlanError::Ambiguous { interface, .. } if interface == "wlan"),
        "{ambiguous}"
    );
    let rival =
        vec![own_default(), route_to("10.9.9.9/32", 1002).set_gateway("10.0.2.253").dev(WLAN).header(7, 6)];
    assert!(matches!(plan(&state(rival), 1500, &[]), Err(PlanError::Ambiguous { .. })));
}

fn endpoint(id: u8, flags: EndpointFlags) -> MptcpEndpoint {
    MptcpEndpoint {
        address: "10.0.2.1".parse().unwrap(),
        port: None,
        id: Some(id),
        interface: Some(WLAN),
        flags,
    }
}

const SUBFLOW: EndpointFlags = EndpointFlags {
    signal: false,
    subflow: true,
    backup: true,
    fullmesh: false,
    implicit: false,
    laminar: false,
};

/// A plan for stuck connections on a path with a correct route.
fn freeing(state: &PathMtuState, stuck: &[LiveConnection]) -> ChangePlan {
    let mut state = state.clone();
    state.route = state.route.with_mtu(Some(1500));
    plan(&state, 1500, stuck).unwrap()
}

fn stuck(subflow: Option<(u32, u8)>) -> LiveConnection {
    waiting("10.0.2.1".parse().unwrap(), SERVER.parse().unwrap(), subflow)
}

/// A subflow from another address.
fn working(token: u32, id: u8) -> LiveConnection {
    LiveConnection {
        cookie: 80 + u64::from(id),
        rto_us: 80_000 * u32::from(id),
        ..waiting("10.0.1.1".parse().unwrap(), SERVER.parse().unwrap(), Some((token, id)))
    }
}

#[test]
fn a_stuck_subflow_of_an_endpoint() {
    let siblings = vec![stuck(Some((9, 3))), working(9, 0), stuck(Some((10, 3))), working(10, 0)];
    let state =
        PathMtuState { endpoints: Some(vec![endpoint(3, SUBFLOW)]), siblings, ..state(vec![own_default()]) };
    let plan = freeing(&state, &[stuck(Some((9, 3))), stuck(Some((10, 3)))]);
    assert_eq!(
        commands(&plan),
        [
            "ip mptcp endpoint delete id 3",
            "sleep 0.100",
            "ip mptcp endpoint add 10.0.2.1 dev wlan id 3 subflow backup"
        ]
    );
    assert!(undo_commands(&plan).is_empty(), "{plan:?}");
}

#[test]
fn a_stuck_first_subflow_of_an_endpoint() {
    let siblings = vec![stuck(Some((9, 0))), working(9, 1), working(9, 3)];
    let state =
        PathMtuState { endpoints: Some(vec![endpoint(3, SUBFLOW)]), siblings, ..state(vec![own_default()]) };
    let plan = freeing(&state, &[stuck(Some((9, 0)))]);
    assert_eq!(
        commands(&plan),
        [
            "ip mptcp limits set subflows 3 add_addr_accepted 0",
            "ip mptcp endpoint delete id 0 10.0.2.1",
            "ip mptcp endpoint delete id 3",
            "sleep 0.240",
            "ip mptcp endpoint add 10.0.2.1 dev wlan id 3 subflow backup",
        ]
    );
    assert_eq!(undo_commands(&plan), ["ip mptcp limits set subflows 2 add_addr_accepted 0"]);
}

#[test]
fn a_stuck_first_subflow_without_an_endpoint() {
    let other = MptcpEndpoint { address: "10.0.1.1".parse().unwrap(), ..endpoint(1, SUBFLOW) };
    let siblings = vec![stuck(Some((9, 0))), working(9, 2)];
    let state = PathMtuState { endpoints: Some(vec![other]), siblings, ..state(vec![own_default()]) };
    let plan = freeing(&state, &[stuck(Some((9, 0)))]);
    assert_eq!(
        commands(&plan),
        [
            "ip mptcp endpoint delete id 0 10.0.2.1",
            "sleep 0.160",
            "ip mptcp endpoint add 10.0.2.1 dev wlan id 3 subflow"
        ]
    );
    assert_eq!(undo_commands(&plan), ["ip mptcp endpoint delete id 3"]);
}

#[test]
fn useless_changes_are_not_planned() {
    let signal = EndpointFlags { subflow: false, signal: true, ..EndpointFlags::default() };
    let state = PathMtuState { siblings: vec![working(9, 1)], ..state(vec![own_default()]) };
    for (name, endpoints, connections, note) in [
        (
            "nothing but stuck subflows",
            Some(vec![endpoint(3, SUBFLOW)]),
            vec![stuck(Some((10, 3)))],
            "would end with them: stuck ones are left to their next retransmission, in at most 1.6 s",
        ),
        (
            "plain TCP",
            Some(vec![endpoint(3, SUBFLOW)]),
            vec![stuck(None)],
            "next retransmission only: in at most 1.6 s",
        ),
        ("nothing stuck", Some(vec![endpoint(3, SUBFLOW)]), vec![], ""),
        ("not reported", None, vec![stuck(Some((9, 3)))], "Only root can list"),
        ("signalled only", Some(vec![endpoint(3, signal)]), vec![stuck(Some((9, 0)))], "opens no subflows"),
        ("another program's", Some(vec![]), vec![stuck(Some((9, 3)))], "another path manager"),
    ] {
        let plan = freeing(&PathMtuState { endpoints, ..state.clone() }, &connections);
        assert!(plan.steps.is_empty(), "{name}: {plan:?}");
        assert!(plan.notes.join(" ").contains(note), "{name}: {plan:?}");
        assert_eq!(plan.notes.is_empty(), note.is_empty(), "{name}: {plan:?}");
    }
}

/// The kernel opens no further subflow of a connection after the last one is closed.
#[test]
fn a_connection_that_has_no_other_subflow_is_not_ended() {
    let somebody_elses = waiting("10.0.2.1".parse().unwrap(), "192.0.2.1".parse().unwrap(), Some((11, 0)));
    let siblings = vec![stuck(Some((9, 3))), working(9, 0), somebody_elses];
    let state =
        PathMtuState { endpoints: Some(vec![endpoint(3, SUBFLOW)]), siblings, ..state(vec![own_default()]) };
    let plan = freeing(&state, &[stuck(Some((9, 3)))]);
    assert!(plan.steps.is_empty() && plan.notes[0].contains("would end"), "{plan:?}");
}
