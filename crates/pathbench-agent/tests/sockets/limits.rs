//! The owner's limits while the agent runs: the budget, metered networks, servers.

use crate::host::{EXECUTION_BYTES, HOUR, Host, MINUTE, experiment};
use serde_json::json;
use std::time::Duration;

#[test]
fn the_months_budget_ends_the_executions_until_the_next_month() {
    // Two executions fit, and the reservation of a third one does not.
    let host = Host::new("month = \"1500kB\"\n");
    host.offer(&[experiment("ping", 600)]);
    let agent = host.start();
    host.wait_for("skipped", 3);
    assert_eq!(host.entries("ended").len(), 2);
    assert_eq!(host.budget()["interfaces"]["eth0"], 2 * EXECUTION_BYTES);
    let reasons = host.texts("skipped", "reason");
    assert!(reasons.iter().all(|reason| reason.contains("the month's budget of eth0")), "{reasons:?}");
    // The month ends 4 h after the start.
    host.clock.pass(4 * HOUR);
    agent.stop();
    let begun = host.entries("begins");
    assert_eq!(begun.len(), 4);
    assert!(begun[2].time.as_nanos() >= 4 * HOUR.as_nanos() as u64, "{begun:?}");
    assert_eq!(host.budget()["month"], "2023-12");
    assert_eq!(host.budget()["interfaces"]["eth0"], 2 * EXECUTION_BYTES);
}

#[test]
fn the_executions_of_a_day_are_limited() {
    let host = Host::new("");
    host.configure("executions_per_day = 10000", "executions_per_day = 3");
    host.offer(&[experiment("ping", 600)]);
    let agent = host.start();
    host.wait_for("skipped", 2);
    assert_eq!(host.entries("begins").len(), 3);
    assert!(host.texts("skipped", "reason")[0].contains("executions_per_day"));
    host.wait_for("begins", 4);
    agent.stop();
    assert!(host.entries("begins")[3].time.as_nanos() >= 4 * HOUR.as_nanos() as u64, "the next day");
}

#[test]
fn an_execution_that_uses_more_than_it_says_is_stopped() {
    let host = Host::new("");
    let mut greedy = experiment("greedy", 600);
    greedy["most_bytes"] = json!(EXECUTION_BYTES / 2);
    host.offer(&[greedy]);
    host.hold();
    assert_eq!(host.once(), (0, String::new()));
    let reasons = host.texts("ended", "stopped");
    assert_eq!(reasons, [format!("it used more than {} bytes", EXECUTION_BYTES / 2)]);
    assert_eq!(host.budget()["interfaces"]["eth0"], EXECUTION_BYTES, "the use replaces the reservation");
}

#[test]
fn a_network_that_becomes_metered_ends_the_execution() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    host.hold();
    let agent = host.start();
    host.wait_for("begins", 1);
    host.clock.pass(MINUTE / 2);
    assert!(host.entries("ended").is_empty());
    host.networks.metered.lock().unwrap().push("eth0".to_owned());
    let changed = host.clock.elapsed().as_secs_f64();
    host.wait_for("ended", 1);
    let entry = &host.entries("ended")[0];
    let reason = entry.fields["stopped"].as_str().unwrap();
    assert!(reason.contains("eth0 is metered"), "{reason}");
    assert!(entry.time.as_nanos() as f64 / 1e9 - changed < 60.0, "{entry:?}");
    // Neither executions nor results go over it.
    host.wait_for("skipped", 1);
    assert!(host.texts("skipped", "reason")[0].contains("eth0 is metered"));
    assert_eq!(host.requests("/v1/results"), 0);
    assert!(host.texts("outbox", "waits")[0].contains("eth0 is metered"));
    host.networks.metered.lock().unwrap().clear();
    host.release();
    host.collector.wait_for(2);
    agent.stop();
}

#[test]
fn an_allowed_metered_network_is_used() {
    let host = Host::new("metered = true\n[limits.networks]\nmetered = [\"eth0\"]\n");
    let mut metered = experiment("ping", 600);
    metered["metered"] = true.into();
    host.offer(&[metered, experiment("pong", 600)]);
    assert_eq!(host.once(), (0, String::new()));
    assert_eq!(host.collector.stored().len(), 1);
    let reasons = host.texts("skipped", "reason");
    assert!(reasons.len() == 1 && reasons[0].contains("the experiment does not allow"), "{reasons:?}");
}

#[test]
fn refused_experiments_are_named_once() {
    let host = Host::new("");
    let mut large = experiment("large", 600);
    large["most_bytes"] = 2_000_000_000_u64.into();
    let mut other = experiment("other", 600);
    other["agents"] = json!(["somebody"]);
    host.offer(&[large, other, experiment("often", 1)]);
    host.collector.check_in_again_in(60);
    let agent = host.start();
    host.wait_for("check-in", 5);
    host.clock.pass(Duration::from_secs(2));
    agent.stop();
    assert_eq!(host.texts("refused", "experiment"), ["large", "often"]);
    assert!(host.entries("begins").is_empty());
}

#[test]
fn a_lying_collector_cannot_make_the_agent_test_a_third_party() {
    for (servers, address, reason) in [
        ("", "127.0.0.1:4433", "not a public address"),
        ("\"*.example.net\"", "127.0.0.1:4433", "no pattern"),
        ("\"127.0.0.0/8\"", "169.254.169.254:80", "no pattern"),
        ("\"127.0.0.0/8\"", "--out=/tmp/x", "not"),
        ("\"127.0.0.0/8\"", "127.0.0.1:1/../x", "names no server"),
    ] {
        let host = Host::new("");
        host.configure("\"192.0.2.0/24\"", servers);
        let server = json!([{ "name": "near", "address": address, "quic_ports": [], "load": 0.0 }]);
        host.collector.offer(&server, &json!([experiment("ping", 600)]));
        assert_eq!(host.once(), (0, String::new()));
        let reasons = host.texts("skipped", "reason");
        assert!(reasons.len() == 1 && reasons[0].contains(reason), "{address}: {reasons:?}");
        assert!(!host.path().join("calls").exists() && host.collector.stored().is_empty());
    }
}

#[test]
fn experiments_beyond_the_owners_limits_are_refused() {
    let host = Host::new("");
    let many = (0..300).map(|number| {
        let mut one = experiment(&format!("m{number}"), 600);
        one["most_bytes"] = 2_000_000_000_u64.into();
        one
    });
    let [mut long, often, mut other] =
        [("long", 600), ("often", 1), ("other agents", 600)].map(|(name, every_s)| experiment(name, every_s));
    long["duration_s"] = 80_000.into();
    other["agents"] = json!(["somebody"]);
    let all: Vec<_> = [long, often, other].into_iter().chain(many).collect();
    host.offer(&all);
    assert_eq!(host.once(), (0, String::new()));
    let reasons = host.texts("refused", "reason");
    for part in ["limits.longest", "every_s", "limits.execution"] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "{part}: {reasons:?}");
    }
    assert!(reasons.len() < 50, "{}", reasons.len());
    assert!(!host.texts("refused", "experiment").contains(&"other agents".to_owned()));
    assert!(host.collector.stored().is_empty() && !host.path().join("calls").exists(), "nothing ran");
    assert!(!host.path().join("state/budget.json").exists());
}
