//! Defaults are filled in, and given keys have their documented meaning.

use crate::at_ms;
use pathbench_lab::scenario::{
    EventAction, LinkEngine, NodeRole, Overrides, PathChange, RoutePlan, ScenarioPlan, ScenarioSource,
    VariantPlan, plan,
};
use pathbench_link::{BaseDelay, LinkChange, LossModel, RateModel};
use pathbench_record::network::AddressFamily;
use pathbench_record::pattern::{BulkParameters, PatternParameters};
use pathbench_record::units::QueueLimit;
use serde_json::json;
use std::time::Duration;

fn planned(text: &str) -> ScenarioPlan {
    let source = ScenarioSource::from_text("mine.toml", text);
    plan(&source, &Overrides::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn only_variant(text: &str) -> VariantPlan {
    let mut plan = planned(text);
    assert_eq!(plan.variants.len(), 1);
    plan.variants.remove(0)
}

fn addresses(variant: &VariantPlan, link: &str) -> [Vec<String>; 2] {
    let link = variant.topology.link(link).expect("it exists");
    link.ends.each_ref().map(|end| end.addresses.iter().map(ToString::to_string).collect::<Vec<_>>())
}

#[test]
fn a_path_without_anything_has_the_documented_defaults() {
    let variant = only_variant("name = \"x\"\n[[path]]\nname = \"eth\"\n");
    let link = &variant.topology.links[0];
    assert_eq!((link.mtu_bytes(), link.engine, link.backup), (1500, LinkEngine::Kernel, false));
    assert!((link.tolerance - 0.05).abs() < 1e-12);
    for model in [&link.forward, &link.reverse] {
        assert_eq!(
            (model.rate_bps(), model.constant_delay(), model.jitter),
            (None, Some(Duration::ZERO), Duration::ZERO)
        );
        assert_eq!(model.queue, QueueLimit::Time(Duration::from_millis(100)));
        assert_eq!(model.queue_bytes(), None);
    }
    assert_eq!(addresses(&variant, "eth"), [vec!["10.83.0.1/24"], vec!["10.83.0.2/24"]]);
    assert_eq!(
        (variant.run.family, variant.run.duration()),
        (AddressFamily::Ipv4, Some(Duration::from_secs(10)))
    );
}

#[test]
fn directions_have_their_own_model_and_share_the_rest() {
    let variant = only_variant(
        "name = \"x\"\n[[path]]\nname = \"dsl\"\nrate = \"5mbit\"\ndelay = \"4ms\"\nloss = \"1%\"\n\
         download = { rate = \"50mbit\", queue = \"20p\" }\n",
    );
    let link = &variant.topology.links[0];
    assert_eq!((link.forward.rate_bps(), link.reverse.rate_bps()), (Some(5_000_000), Some(50_000_000)));
    assert_eq!(
        (link.forward.constant_delay(), link.reverse.constant_delay()),
        (Some(Duration::from_millis(4)), Some(Duration::from_millis(4)))
    );
    assert!((link.reverse.independent_loss().unwrap() - 0.01).abs() < 1e-12);
    // 100 ms at 5 Mbit/s are 62 500 bytes, less than the least a timed queue holds.
    assert_eq!(link.forward.queue_bytes(), Some(65_536));
    assert_eq!(link.reverse.queue_bytes(), Some(20 * 1514));
}

#[test]
fn missing_addresses_are_filled_in() {
    let variant = only_variant(
        "name = \"x\"\n[[path]]\nname = \"a\"\nclient_address = \"192.168.7.1/24\"\n[[path]]\nname = \"b\"\n\
         server_address = [\"172.16.0.9/16\", \"172.16.0.1/16\"]\n[[path]]\nname = \"c\"\n\
         client_address = [\"10.5.0.1/31\", \"fd00:9::5/64\"]\n",
    );
    assert_eq!(addresses(&variant, "a"), [vec!["192.168.7.1/24"], vec!["192.168.7.2/24"]]);
    assert_eq!(addresses(&variant, "b"), [vec!["172.16.0.2/16"], vec!["172.16.0.9/16", "172.16.0.1/16"]]);
    assert_eq!(
        addresses(&variant, "c"),
        [vec!["10.5.0.1/31", "fd00:9::5/64"], vec!["10.5.0.0/31", "fd00:9::1/64"]]
    );
    // One endpoint for each address of the run's IP version.
    let endpoints: Vec<_> = variant.topology.nodes[0]
        .mptcp
        .endpoints
        .iter()
        .map(|endpoint| endpoint.address.to_string())
        .collect();
    assert_eq!(endpoints, ["192.168.7.1", "172.16.0.2", "10.5.0.1"]);
}

#[test]
fn ipv6_runs_get_ipv6_addresses() {
    let variant =
        only_variant("name = \"x\"\nrun.family = \"ipv6\"\n[[path]]\nname = \"a\"\n[[path]]\nname = \"b\"\n");
    assert_eq!(addresses(&variant, "b"), [vec!["fd83:0:0:1::1/64"], vec!["fd83:0:0:1::2/64"]]);
    let endpoints = &variant.topology.nodes[0].mptcp.endpoints;
    assert!(endpoints.len() == 2 && endpoints.iter().all(|endpoint| endpoint.address.is_ipv6()));
}

#[test]
fn routers_and_both_forms_of_hosts_fit_together() {
    let variant = only_variant(
        r#"name = "x"
[[router]]
name = "r1"
[[host]]
name = "laptop"
[[host]]
name = "camera"
[host.laptop.sysctl]
net.ipv4.tcp_mtu_probing = 1
"net.ipv4.tcp_rmem" = "4096 131072 6291456"
[host.server.mptcp]
endpoints = [{ link = "up", flags = ["signal", "backup"] }]
[host.laptop]
routes = [{ to = "10.200.0.0/16", via = "10.83.0.2" }]
[[link]]
name = "home"
ends = ["laptop:wlan0", "r1:a"]
[[link]]
name = "cam"
ends = ["camera:eth0", { node = "r1", interface = "b", address = "192.168.1.1/24" }]
[[link]]
name = "up"
ends = ["r1:c", "server:eth0"]
[router.r1.sysctl]
"net.ipv4.ip_forward_use_pmtu" = 1
[run]
client = "laptop"
transports = "mptcp@home"
"#,
    );
    let topology = &variant.topology;
    let names: Vec<_> = topology.nodes.iter().map(|node| (node.name.as_str(), node.role)).collect();
    assert_eq!(
        names,
        [
            ("server", NodeRole::Host),
            ("laptop", NodeRole::Host),
            ("camera", NodeRole::Host),
            ("r1", NodeRole::Router)
        ]
    );
    let laptop = topology.node("laptop").expect("a laptop");
    assert_eq!(laptop.sysctls["net.ipv4.tcp_mtu_probing"], "1");
    assert_eq!(laptop.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
    assert_eq!(laptop.mptcp.endpoints.len(), 1);
    let route = RoutePlan {
        destination: Some("10.200.0.0/16".parse().expect("a subnet")),
        via: "10.83.0.2".parse().expect("an address"),
        metric: None,
    };
    assert_eq!(laptop.routes, [route]);
    let server = &topology.node("server").expect("a server").mptcp.endpoints[0];
    assert_eq!(
        (server.address.to_string(), server.flags.signal, server.flags.backup),
        ("10.83.2.2".to_owned(), true, true)
    );
    assert!(!server.flags.subflow && !server.flags.fullmesh);
    let router = topology.node("r1").expect("a router");
    assert_eq!(router.sysctls["net.ipv4.ip_forward_use_pmtu"], "1");
    assert!(router.mptcp.endpoints.is_empty());
    assert_eq!(
        topology.links_of("r1").map(|(link, end)| (link.name.as_str(), end)).collect::<Vec<_>>(),
        [("home", 1), ("cam", 1), ("up", 0)]
    );
    assert_eq!(addresses(&variant, "cam"), [vec!["192.168.1.2/24"], vec!["192.168.1.1/24"]]);
}

#[test]
fn events_come_in_the_order_of_their_times() {
    let variant = only_variant(
        "name = \"x\"\n[[path]]\nname = \"eth\"\nrate = \"1gbit\"\n[[event]]\nat = \"5s\"\nlink = \"eth\"\nhost = \"server\"\n\
         action = \"remove-address\"\n[[event]]\nat = \"500ms\"\npath = \"eth\"\naction = \"set\"\nrate = \"5mbit\"\n\
         delay = \"3ms\"\nloss = \"1%\"\nmtu = 1400\nqueue = \"10p\"\n",
    );
    let change = PathChange {
        direction: None,
        link: LinkChange {
            rate: Some(RateModel::Constant(5_000_000)),
            delay: Some(BaseDelay::Constant(Duration::from_millis(3))),
            loss: Some(LossModel::Independent(0.01)),
            queue: Some(QueueLimit::Packets(10)),
            mtu_bytes: Some(1400),
            ..LinkChange::default()
        },
        given:
            json!({ "rate_bps": 5_000_000, "delay_ms": 3.0, "loss": 0.01, "queue": "10p", "mtu_bytes": 1400 })
                .as_object()
                .cloned()
                .unwrap(),
        ..PathChange::default()
    };
    let events: Vec<_> = variant
        .events
        .iter()
        .map(|event| (at_ms(event), event.node.as_str(), event.action.clone()))
        .collect();
    let set = EventAction::Set(Box::new(change));
    assert_eq!(events, [(500, "client", set), (5000, "server", EventAction::RemoveAddress)]);
    assert_eq!(variant.topology.links[0].engine, LinkEngine::Emulated, "for the delay that is to come");
}

#[test]
fn a_matrix_is_every_combination_in_file_order() {
    let plan = planned(
        "name = \"x\"\n[[path]]\nname = \"eth\"\n[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"down\"\n[matrix]\n\
         \"path.eth.mtu\" = [1280, 1500]\n\"event.0.at\" = [\"1s\", \"2s\", \"3s\"]\n\
         host.client.sysctl.\"net.ipv4.tcp_mtu_probing\" = [1]\nrun.transports = [[\"tcp\"]]\n",
    );
    let found: Vec<_> = plan
        .variants
        .iter()
        .map(|variant| (variant.topology.links[0].mtu_bytes(), at_ms(&variant.events[0]) / 1000))
        .collect();
    assert_eq!(found, [(1280, 1), (1280, 2), (1280, 3), (1500, 1), (1500, 2), (1500, 3)]);
    let variant = serde_json::to_value(&plan.variants[4].variant).expect("JSON");
    assert_eq!(
        variant,
        serde_json::json!({
            "path.eth.mtu": 1500,
            "event.0.at": "2s",
            "host.client.sysctl.net.ipv4.tcp_mtu_probing": 1,
            "run.transports": ["tcp"],
        })
    );
    assert_eq!(plan.variants[4].topology.nodes[0].sysctls["net.ipv4.tcp_mtu_probing"], "1");
}

#[test]
fn bulk_has_bytes_for_either_or_both_directions() {
    for (keys, bytes, upload_bytes) in [
        ("", 10_000_000, 0),
        ("upload = \"81920B\"\nbytes = 16777216", 16_777_216, 81_920),
        ("upload = 5000\nbytes = 0", 0, 5_000),
    ] {
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[path]]\nname = \"eth\"\n[run]\ntransports = [\"tcp\"]\n\
             pattern = \"bulk\"\n[run.bulk]\n{keys}\n"
        );
        let plan = plan(&ScenarioSource::from_text("t.toml", &text), &Overrides::default()).unwrap();
        let expected = BulkParameters { bytes, upload_bytes, ..BulkParameters::default() };
        let read = plan.variants[0].run.patterns[0].parameters();
        assert_eq!(read, PatternParameters::Bulk(expected));
    }
}
