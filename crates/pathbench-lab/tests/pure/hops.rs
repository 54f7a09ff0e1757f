//! Paths with routers in them: the effect of `path_mtu`, `icmp`, `clamp_mss` and `middlebox`, and mistakes in them.

use pathbench_host::firewall::{Middlebox, RouterRules, TooBigTreatment};
use pathbench_lab::scenario::{EventAction, LinkEngine, Overrides, ScenarioSource, VariantPlan, plan};

const TWO: &str = "name = \"x\"\n[[path]]\nname = \"eth\"\nmtu = 9000\n[[path]]\nname = \"wlan\"\nmtu = 9000\n\
                   rate = \"30mbit\"\n";

fn variants(addition: &str) -> Vec<VariantPlan> {
    let source = ScenarioSource::from_text("mine.toml", format!("{TWO}{addition}\n"));
    plan(&source, &Overrides::default()).unwrap_or_else(|mistakes| panic!("{mistakes}")).variants
}

fn variant(addition: &str) -> VariantPlan {
    variants(addition).remove(0)
}

fn mistakes(addition: &str) -> Vec<String> {
    let source = ScenarioSource::from_text("mine.toml", format!("{TWO}{addition}\n"));
    match plan(&source, &Overrides::default()) {
        Ok(_) => Vec::new(),
        Err(mistakes) => crate::in_lines(&mistakes),
    }
}

#[test]
fn a_path_without_such_keys_stays_a_wire() {
    let topology = variant("").topology;
    assert!(topology.hops.is_empty());
    assert_eq!(topology.links.len(), 2);
    assert_eq!(topology.nodes.len(), 2);
}

#[test]
fn a_path_mtu_lies_between_two_routers_and_neither_host_sees_it() {
    let topology = variant("path_mtu = 1500").topology;
    let ends = |link: &str| {
        let link = topology.link(link).expect("the link");
        let ends = link.ends.each_ref().map(|end| format!("{}:{}", end.node, end.interface));
        (ends, link.mtu_bytes(), link.forward.rate_bps())
    };
    let of = |first: &str, second: &str| [first.to_owned(), second.to_owned()];
    assert_eq!(ends("wlan"), (of("client:wlan", "wlan.near:near"), 9000, Some(30_000_000)));
    assert_eq!(ends("wlan.hop"), (of("wlan.near:hop", "wlan.beyond:hop"), 1500, None));
    assert_eq!(ends("wlan.far"), (of("wlan.beyond:far", "server:wlan"), 9000, None));
    // The addresses of the scenario's own links do not depend on the hops of other paths.
    let first = |link: &str| topology.link(link).expect("the link").ends[0].addresses[0].addr().to_string();
    assert_eq!(
        ["eth", "wlan", "wlan.hop", "wlan.far"].map(first),
        ["10.83.0.1", "10.83.1.1", "10.83.2.1", "10.83.3.1"]
    );
    // Without `icmp` routers behave as Linux does, without an nftables table.
    assert!(topology.nodes.iter().all(|node| node.rules.is_none()));
    assert_eq!((topology.path_of("wlan.far"), topology.path_of("eth")), ("wlan", "eth"));
}

#[test]
fn where_the_server_opens_the_connections_the_path_begins_there() {
    let topology = variant("path_mtu = 1500\n[run]\nclient = \"server\"\nserver = \"client\"").topology;
    let wlan = topology.link("wlan").expect("the link");
    assert_eq!((wlan.ends[0].node.as_str(), wlan.ends[1].node.as_str()), ("wlan.near", "server"));
    let (far, end) = topology.far_end_of(wlan, "server").expect("a far end");
    assert_eq!((far.name.as_str(), far.ends[end].node.as_str()), ("wlan.far", "client"));
}

#[test]
fn routers_have_rules_where_they_are_asked_for_anything() {
    let rules = |addition: &str| {
        let topology = variant(addition).topology;
        let of = |name: &str| topology.node(name).expect("a router").rules.clone();
        assert_eq!(of("wlan.near"), of("wlan.beyond"));
        of("wlan.near")
    };
    let sent = RouterRules::default();
    assert_eq!(rules("icmp = \"on\""), Some(sent.clone()));
    assert_eq!(
        rules("icmp = \"off\""),
        Some(RouterRules { too_big: TooBigTreatment::Dropped, ..sent.clone() })
    );
    assert_eq!(
        rules("icmp = \"10/s\""),
        Some(RouterRules { too_big: TooBigTreatment::Limited { per_second: 10 }, ..sent.clone() })
    );
    assert_eq!(rules("clamp_mss = true"), Some(RouterRules { clamp_mss: true, ..sent.clone() }));
    let middlebox = vec![Middlebox::from_name("strip-dss").expect("known"), Middlebox::DropUdp];
    assert_eq!(
        rules("middlebox = [\"strip-dss\", \"drop-udp\"]"),
        Some(RouterRules { middlebox: middlebox.clone(), ..sent.clone() })
    );
    assert_eq!(rules("middlebox = []"), Some(sent.clone()));
    // A change by an event is checked before the run.
    let event = "[[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"set\"\n";
    assert_eq!(rules(&format!("path_mtu = 1500\n{event}icmp = \"off\"")), Some(sent));
    assert_eq!(rules(&format!("path_mtu = 1500\n{event}path_mtu = 1400")), None);
}

#[test]
fn routers_of_the_long_form_take_the_same_rules() {
    let text = "name = \"x\"\n[[router]]\nname = \"isp\"\nicmp = \"off\"\n[[link]]\nname = \"a\"\nmtu = 9000\n\
                ends = [\"client:a\", \"isp:a\"]\n[[link]]\nname = \"b\"\nends = [\"isp:b\", \"server:b\"]\n\
                [matrix]\n\"router.isp.clamp_mss\" = [false, true]\n";
    let plan = plan(&ScenarioSource::from_text("x.toml", text), &Overrides::default()).expect("a plan");
    let rules: Vec<_> =
        plan.variants.iter().map(|variant| variant.topology.node("isp").expect("it").rules.clone()).collect();
    let off = RouterRules { too_big: TooBigTreatment::Dropped, ..RouterRules::default() };
    assert_eq!(rules, [Some(off.clone()), Some(RouterRules { clamp_mss: true, ..off })]);
}

#[test]
fn a_matrix_varies_the_middle_of_a_path() {
    let variants = variants(
        "icmp = \"on\"\n[matrix]\n\"path.wlan.icmp\" = [\"on\", \"off\"]\n\"path.wlan.path_mtu\" = [1280, 9000]",
    );
    let found: Vec<_> = variants
        .iter()
        .map(|variant| {
            let topology = &variant.topology;
            let hop = topology.link("wlan.hop").expect("a hop").mtu_bytes();
            (topology.node("wlan.near").and_then(|router| router.rules.clone()).expect("rules").too_big, hop)
        })
        .collect();
    let (on, off) = (TooBigTreatment::Sent, TooBigTreatment::Dropped);
    assert_eq!(found, [(on, 1280), (on, 9000), (off, 1280), (off, 9000)]);
}

#[test]
fn the_models_engine_is_that_of_the_first_link_alone() {
    let topology = variant("path_mtu = 1500\ndelay = \"10ms\"").topology;
    let engines = ["wlan", "wlan.hop", "wlan.far"].map(|link| topology.link(link).expect("the link").engine);
    assert_eq!(engines, [LinkEngine::Emulated, LinkEngine::Kernel, LinkEngine::Kernel]);
}

#[test]
fn events_happen_at_the_end_that_they_name() {
    let event = "[[event]]\npath = \"wlan\"\nat = ";
    let events = variant(&format!(
        "path_mtu = 1500\n{event}\"1s\"\naction = \"down\"\n{event}\"2s\"\naction = \"down\"\nhost = \"server\"\n\
         {event}\"3s\"\naction = \"set\"\npath_mtu = 1400\nicmp = \"5/s\"\nhost = \"server\""
    ))
    .events;
    let locations: Vec<_> = events.iter().map(|event| (event.link.as_str(), event.node.as_str())).collect();
    assert_eq!(locations, [("wlan", "client"), ("wlan.far", "server"), ("wlan", "server")]);
    let EventAction::Set(change) = &events[2].action else { panic!("no change: {:?}", events[2]) };
    assert_eq!(change.path_mtu_bytes, Some(1400));
    assert_eq!(change.rules.too_big, Some(TooBigTreatment::Limited { per_second: 5 }));
}

#[test]
fn endpoints_of_the_server_are_named_by_their_paths() {
    let text =
        "path_mtu = 1500\n[host.server.mptcp]\nendpoints = [{ path = \"wlan\", flags = [\"signal\"] }]";
    let variant = variant(text);
    let endpoint = &variant.topology.node("server").expect("a server").mptcp.endpoints[0];
    assert_eq!(endpoint.address.to_string(), "10.83.3.2");
}

#[test]
fn addresses_of_both_ip_versions_lead_through_the_middle() {
    let given = "path_mtu = 1500\nclient_address = [\"192.168.7.2/24\", \"fd07::2/64\"]";
    let topology = variant(given).topology;
    for link in ["wlan", "wlan.hop", "wlan.far"] {
        for end in &topology.link(link).expect("the link").ends {
            let versions: Vec<_> = end.addresses.iter().map(|own| own.addr().is_ipv4()).collect();
            assert_eq!(versions, [true, false], "{link} at {}", end.node);
        }
    }
}

/// Text appended to a scenario with the paths `eth` and, last, `wlan`, and its one message.
const ONE_BY_ONE: &[(&str, &str)] = &[
    (
        "path_mtu = 9001",
        "mine.toml:9: path.wlan.path_mtu: a path MTU of 9001 is larger than the hosts' interfaces take: 9000; give at \
         most 9000, or the path a larger mtu",
    ),
    ("path_mtu = 575", "mine.toml:9: path.wlan.path_mtu: `575` is out of range; give 576 to 65535"),
    (
        "path_mtu = 1279\n[run]\nfamily = \"ipv6\"",
        "mine.toml:9: path.wlan.path_mtu: an MTU of 1279 is too small for the IPv6 address fd83:0:0:2::1; give at least \
         1280 (RFC 8200), or IPv4 addresses only",
    ),
    (
        "icmp = \"sometimes\"",
        "mine.toml:9: path.wlan.icmp: `sometimes` is not a value of icmp; give \"on\", \"off\", or \
         how many a second are sent, as in \"10/s\"",
    ),
    (
        "icmp = \"0/s\"",
        "mine.toml:9: path.wlan.icmp: `0/s` is not a value of icmp; give \"on\", \"off\", or how \
         many a second are sent, as in \"10/s\"",
    ),
    (
        "middlebox = \"strip-mp-joint\"",
        "mine.toml:9: path.wlan.middlebox: there is no middlebox `strip-mp-joint`; did you mean `strip-mp-join`? known are \
         strip-mp-capable, strip-mp-capable-syn-ack, drop-mp-capable, drop-mp-capable-syn-ack, reset-mp-capable, \
         strip-mp-join, strip-mp-join-syn-ack, drop-mp-join, reset-mp-join, strip-dss, strip-add-addr, rewrite-payload, \
         drop-udp",
    ),
    (
        "middlebox = [\"strip-dss\", \"strip-dss\"]",
        "mine.toml:9: path.wlan.middlebox: `strip-dss` is there twice; remove one",
    ),
    (
        "[host.client]\nmiddlebox = \"drop-udp\"",
        "mine.toml:10: host.client.middlebox: a host does not forward packets; give it to a [[router]], or to the [[path]]",
    ),
    (
        "icmp = true",
        "mine.toml:9: path.wlan.icmp: true or false is not a text; give a text, as in icmp = \"off\"",
    ),
    (
        "[host.client]\nclamp_mss = true",
        "mine.toml:10: host.client.clamp_mss: a host does not forward packets; give it to a [[router]], or to the [[path]]",
    ),
    (
        "[[router]]\nname = \"r\"\n[[link]]\nname = \"a\"\nends = [\"client:a\", \"r:a\"]\nicmp = \"off\"",
        "mine.toml:14: link.a.icmp: a link has no routers in it; give it to the router at its end, or use a [[path]]",
    ),
    (
        "[[router]]\nname = \"r\"\n[[link]]\nname = \"a\"\nends = [\"client:a\", \"r:a\"]\npath_mtu = 1400",
        "mine.toml:14: link.a.path_mtu: a link is a single hop; give it as the link's mtu, or use a [[path]]",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"set\"\npath_mtu = 1400",
        "mine.toml:13: event.0.path_mtu: `wlan` is a plain wire without routers; give the path itself path_mtu = 9000, \
         icmp, clamp_mss or middlebox",
    ),
    (
        "path_mtu = 1500\n[[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"set\"\npath_mtu = 9001",
        "mine.toml:14: event.0.path_mtu: a path MTU of 9001 is larger than the hosts' interfaces take: 9000; give at \
         most 9000, or the path a larger mtu",
    ),
    (
        "path_mtu = 1500\n[[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"set\"\nicmp = \"off\"\ndirection = \"upload\"",
        "mine.toml:14: event.0.icmp: routers do the same in both directions; leave direction out",
    ),
    (
        "path_mtu = 1500\n[[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"down\"\npath_mtu = 1400",
        "mine.toml:14: event.0.path_mtu: the action `down` changes no path_mtu; remove it, or make the action \"set\"",
    ),
    (
        "path_mtu = 1500\n[[event]]\nat = \"1s\"\npath = \"wlan.hop\"\naction = \"blackhole\"",
        "mine.toml:12: event.0.path: there is no path or link `wlan.hop`; known are eth, wlan",
    ),
    (
        "path_mtu = 1500\nclient_address = \"10.5.0.1/24\"\nserver_address = \"10.5.0.2/24\"",
        "mine.toml:11: path.wlan.server_address: the subnet 10.5.0.0/24 overlaps with 10.5.0.0/24 of `wlan`; give each \
         link a subnet of its own",
    ),
    (
        "[run]\npacket_sizes = 1",
        "mine.toml:10: run.packet_sizes: a number is not true or false; give true or false, as in \
     packet_sizes = true",
    ),
];

#[test]
fn each_mistake_has_its_message() {
    let mut wrong = Vec::new();
    for (addition, message) in ONE_BY_ONE {
        let found = mistakes(addition);
        if found != [*message] {
            wrong.push(format!("{addition}\n  gives  {}\n  not    {message}\n", found.join("\n         ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
