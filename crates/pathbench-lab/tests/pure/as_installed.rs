//! Hosts as they are installed, or configured by mistake: no source rules, endpoints without `dev` or with another host's
//! address, routes of several metrics, paths in one subnet.

use pathbench_lab::addressing::interfaces;
use pathbench_lab::scenario::{Overrides, ScenarioSource, TopologyPlan, plan};

const TWO: &str = "name = \"x\"\n[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\n";

fn topology(text: &str) -> TopologyPlan {
    let source = ScenarioSource::from_text("mine.toml", text);
    plan(&source, &Overrides::default())
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
        .variants
        .remove(0)
        .topology
}

fn mistakes(text: &str) -> Vec<String> {
    let source = ScenarioSource::from_text("mine.toml", text);
    plan(&source, &Overrides::default()).err().map(|mistakes| crate::in_lines(&mistakes)).unwrap_or_default()
}

#[test]
fn a_host_without_source_rules_has_the_main_table_alone() {
    for (addition, rules) in [("", 2), ("[host.client]\nsource_rules = false\n", 0)] {
        let topology = topology(&format!("{TWO}{addition}"));
        let plans = interfaces(&topology, "client", "server");
        assert_eq!(plans.iter().flat_map(|plan| &plan.rules).count(), rules, "{addition}");
        assert_eq!(plans.iter().all(|plan| plan.routes.is_empty()), rules == 0, "{addition}");
    }
}

#[test]
fn routes_to_one_destination_differ_by_their_metric() {
    let routes = "[host.client]\nroutes = [{ to = \"default\", via = \"10.83.0.2\", metric = 100 },\n\
                  { to = \"default\", via = \"10.83.1.2\" }]\n";
    let topology = topology(&format!("{TWO}{routes}"));
    let routes = &topology.node("client").expect("a client").routes;
    assert_eq!(routes.iter().map(|route| route.metric).collect::<Vec<_>>(), [Some(100), None]);
}

#[test]
fn an_endpoint_is_bound_to_its_interface_unless_it_has_no_dev() {
    let endpoints = "[host.client.mptcp]\nendpoints = [{ path = \"eth\", flags = [\"subflow\"] },\n\
                     { path = \"wlan\", flags = [\"subflow\"], dev = false }]\n";
    let devices = |addition: &str| {
        let topology = topology(&format!("{TWO}{addition}"));
        let endpoints = topology.node("client").expect("a client").mptcp.endpoints.clone();
        endpoints.into_iter().map(|endpoint| endpoint.device).collect::<Vec<_>>()
    };
    assert_eq!(devices(endpoints), [Some("eth".to_owned()), None]);
    assert_eq!(devices(""), [Some("eth".to_owned()), Some("wlan".to_owned())]);
}

#[test]
fn an_endpoint_may_name_another_host_by_mistake() {
    let endpoint = |text: &str| {
        format!(
            "{TWO}[host.server.mptcp]\nendpoints = [{{ flags = [\"subflow\"], foreign = true, {text} }}]\n"
        )
    };
    let topology = topology(&endpoint("address = \"10.83.1.1\", path = \"wlan\""));
    let endpoint_of = &topology.node("server").expect("a server").mptcp.endpoints[0];
    assert_eq!(
        (endpoint_of.address.to_string(), endpoint_of.device.as_deref()),
        ("10.83.1.1".to_owned(), Some("wlan"))
    );
    assert_eq!(
        mistakes(&endpoint("address = \"10.83.1.2\", path = \"wlan\"")),
        [
            "mine.toml:7: host.server.mptcp.endpoints.0.address: `10.83.1.2` is not an address of a host beside \
          `server`; give an address of another one, or leave `foreign` out"
        ]
    );
    assert_eq!(
        mistakes(&endpoint("address = \"10.83.1.1\"")),
        ["mine.toml:7: host.server.mptcp.endpoints.0.path: is missing; add path = \"eth\""]
    );
}

#[test]
fn paths_are_in_one_subnet_only_if_both_allow_it() {
    let text = |first: bool, second: bool| {
        format!(
            "name = \"x\"\n[[path]]\nname = \"eth\"\nclient_address = \"10.1.0.1/24\"\nshared_subnet = {first}\n\
             [[path]]\nname = \"wlan\"\nclient_address = \"10.1.0.2/24\"\nserver_address = \"10.1.0.9/24\"\n\
             shared_subnet = {second}\n"
        )
    };
    assert_eq!(topology(&text(true, true)).links.len(), 2);
    for (first, second) in [(true, false), (false, true)] {
        let found = mistakes(&text(first, second));
        assert!(
            found.iter().any(|mistake| mistake.contains("overlaps with 10.1.0.0/24 of `eth`")),
            "{found:?}"
        );
    }
}
