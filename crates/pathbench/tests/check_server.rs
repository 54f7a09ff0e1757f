//! `check SERVER` in labs: each `broken-*` scenario names its cause first, and a lab without a fault has no problem.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use serde_json::Value;
use std::thread;
use support::standing::{Lab, SERVER};
use support::{Finished, TWO_PATHS, binary, finish};

pathbench_kerneltest::unprivileged_too!();

/// Labs at the same time: most of a check is waiting.
const PARALLEL: usize = 3;

/// Runs a program without any capability, as an ordinary user's program runs on a real host.
const WITHOUT_CAPABILITIES: [&str; 4] =
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];

/// Scenario, address of its server, and id and subject of the first problem.
const BROKEN: [(&str, &str, &str, Option<&str>); 14] = [
    ("broken-mptcp-off", SERVER, "mptcp-enabled", None),
    ("broken-server-tcp", SERVER, "server-mptcp", Some(SERVER)),
    ("broken-limits", SERVER, "mptcp-limits", None),
    ("broken-no-endpoint", SERVER, "mptcp-endpoint", Some("wlan")),
    ("broken-no-source-rule", SERVER, "source-route", None),
    ("broken-rp-filter", SERVER, "rp-filter", Some("wlan")),
    ("broken-strip-mp-capable", "10.83.3.2", "path-mp-capable", Some("eth")),
    ("broken-strip-mp-join", SERVER, "path-mp-join", Some("wlan")),
    ("broken-strip-dss", SERVER, "path-dss", Some("wlan")),
    ("broken-rewrite-payload", SERVER, "path-payload", Some("wlan")),
    ("broken-udp", SERVER, "path-udp", Some("wlan")),
    ("broken-mtu", SERVER, "path-mtu", Some("wlan")),
    ("broken-address-family", SERVER, "path-family", Some("lte")),
    ("broken-unconfigured", "10.0.0.2", "mptcp-endpoint", Some("eno2")),
];

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

/// `check` in a host of the lab, started by `prefix`.
fn check(lab: &Lab, host: &str, prefix: &[&str], arguments: &[&str]) -> Finished {
    let program = binary();
    let check = [prefix, &[program.to_str().unwrap(), "check", "--json"], arguments].concat();
    finish(&mut lab.exec(host, &check))
}

fn of_level<'a>(document: &'a Value, level: &str) -> Vec<&'a Value> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().filter(|finding| finding["level"] == level).collect()
}

fn first_problem(document: &Value) -> (&str, Option<&str>) {
    let problems = of_level(document, "problem");
    problems
        .first()
        .map_or(("none", None), |first| (first["id"].as_str().unwrap(), first["subject"].as_str()))
}

/// Runs `examine` for all of `rows`, some in parallel, and reports all mistakes.
fn for_each<T: Sync>(rows: &[T], examine: impl Fn(&T) -> Option<String> + Sync) {
    let mut mistakes = Vec::new();
    for part in rows.chunks(rows.len().div_ceil(PARALLEL)) {
        mistakes.push(part);
    }
    let mistakes: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = mistakes
            .into_iter()
            .map(|part| scope.spawn(|| part.iter().filter_map(&examine).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn each_broken_scenario_names_its_cause_first() {
    for_each(&BROKEN, |&(scenario, address, id, subject)| {
        let lab = Lab::of_shipped(scenario, &[]);
        let _server = lab.serve(&["--open"]);
        let finished = check(&lab, "client", &[], &[address]);
        let found = document(&finished);
        let first = first_problem(&found);
        let is_right = first.0 == id && (subject.is_none() || first.1 == subject) && finished.code == Some(6);
        (!is_right).then(|| format!("{scenario}: {id} of {subject:?}, not {first:?}\n{finished:#?}"))
    });
}

#[test]
fn two_sound_paths_have_no_problem_with_and_without_capabilities() {
    let lab = Lab::of(TWO_PATHS, &[]);
    let _server = lab.serve(&["--open"]);
    for prefix in [&[][..], &WITHOUT_CAPABILITIES] {
        let finished = check(&lab, "client", prefix, &[SERVER]).expect(0);
        let found = document(&finished);
        assert_eq!(of_level(&found, "problem"), [] as [&Value; 0], "{finished:#?}");
        let ok = of_level(&found, "ok");
        for id in ["server-mptcp", "path-mp-capable", "path-mp-join", "path-udp", "path-mtu", "multipath"] {
            assert!(ok.iter().any(|finding| finding["id"] == id), "{id}: {finished:#?}");
        }
    }
}

#[test]
fn faults_of_paths_and_of_this_host_are_named_without_capabilities() {
    let rows = ["broken-strip-mp-join", "broken-limits", "broken-strip-mp-capable"];
    let rows: Vec<_> = BROKEN.iter().filter(|(scenario, ..)| rows.contains(scenario)).collect();
    for_each(&rows, |&&(scenario, address, id, _)| {
        let lab = Lab::of_shipped(scenario, &[]);
        let _server = lab.serve(&["--open"]);
        let finished = check(&lab, "client", &WITHOUT_CAPABILITIES, &[address]);
        let found = document(&finished);
        let is_right = first_problem(&found).0 == id && !of_level(&found, "not-examined").is_empty();
        (!is_right).then(|| format!("{scenario}: {id}\n{finished:#?}"))
    });
}

#[test]
fn the_failover_article_names_the_clients_addresses_on_the_server() {
    let lab = Lab::of_shipped("broken-foreign-endpoints", &[]);
    let found = document(&check(&lab, "server", &[], &[]).expect(6));
    assert_eq!(first_problem(&found).0, "endpoint-address");
    let _server = lab.serve(&["--open"]);
    let finished = check(&lab, "client", &[], &["172.31.0.218"]);
    let found = document(&finished);
    assert!(of_level(&found, "advice").iter().any(|one| one["id"] == "same-subnet"), "{finished:#?}");
}

#[test]
fn an_unreachable_server_and_a_refusal_have_their_exit_codes() {
    let lab = Lab::of(TWO_PATHS, &[]);
    // Nothing listens.
    let finished = check(&lab, "client", &[], &[SERVER]).expect(3);
    assert_eq!(first_problem(&document(&finished)).0, "server-reach");
    let key = lab.work.path().join("key");
    lab.work.run(&["serve", "key", key.to_str().unwrap()]).expect(0);
    let _server = lab.serve(&["--token-key", key.to_str().unwrap()]);
    check(&lab, "client", &[], &[SERVER]).expect(4).reports(&["token"]);
}

#[test]
fn of_another_server_the_handshake_is_examined_and_the_rest_is_named() {
    let lab = Lab::of(TWO_PATHS, &[]);
    // The health responder speaks HTTP over plain TCP.
    let _server = lab.serve(&["--open", "--health", "0.0.0.0:8080"]);
    let finished = check(&lab, "client", &[], &["10.83.0.2:8080"]).expect(6);
    let found = document(&finished);
    assert_eq!(first_problem(&found).0, "server-mptcp", "{finished:#?}");
    let not_examined = of_level(&found, "not-examined");
    assert!(not_examined.iter().any(|one| one["id"] == "server-protocol"), "{finished:#?}");
}
