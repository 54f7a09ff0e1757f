//! `check` in the hosts of labs: healthy ones, misconfigured ones, and with less privilege.

use crate::support::standing::Lab;
use crate::support::{Finished, Workplace, binary, finish};
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};

pathbench_testkit::tests!(
    ["ip", "sysctl"] => mptcp_off,
    mptcp_off_on_the_server,
    limits,
    no_endpoint,
    no_source_rule,
    strict_reverse_path_filter,
    unconfigured,
    foreign_endpoints;
    ["ip"] => an_interface_that_is_down_is_named;
    [] => hello_has_no_problem,
    failover_has_no_problem,
    stable_has_no_problem,
    the_client_of_foreign_endpoints_shares_a_subnet,
    without_capabilities_findings_say_what_was_not_examined,
    the_summary_starts_with_the_problem_and_two_runs_agree,
    this_machine_is_examined_by_any_user;
);

/// A lab of a shipped scenario.
fn shipped(scenario: &str) -> Lab {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let work = Workplace::new();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("check-{}-{number}", std::process::id());
    work.run(&["lab", "up", scenario, "--name", &name]).expect(0);
    Lab { work, name }
}

/// `pathbench check` in a host, below a program that changes its privileges.
fn check(lab: &Lab, host: &str, below: &[&str], options: &[&str]) -> Finished {
    let program = binary();
    finish(&mut lab.exec(host, &[below, &[program.to_str().unwrap(), "check"], options].concat()))
}

/// The document of `--json`, and the exit code.
fn document(lab: &Lab, host: &str, code: i32) -> Value {
    let finished = check(lab, host, &[], &["--json"]).expect(code);
    assert_eq!(finished.stderr, "", "{finished:#?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

/// `id` and subject of the findings of a level, in their order.
fn of_level<'a>(document: &'a Value, level: &str) -> Vec<(&'a str, &'a str)> {
    let findings = document["findings"].as_array().unwrap().iter();
    let of = findings.filter(|finding| finding["level"] == level);
    of.map(|finding| (finding["id"].as_str().unwrap(), finding["subject"].as_str().unwrap_or_default()))
        .collect()
}

#[track_caller]
fn assert_healthy(scenario: &str) {
    let lab = shipped(scenario);
    let document = document(&lab, "client", 0);
    assert_eq!(document["schema"], "pathbench.check/1");
    assert_eq!(document["host"]["mptcp"], "upstream");
    assert!(document["host"]["paths"].as_array().unwrap().len() >= 2, "{document:#}");
    assert_eq!(of_level(&document, "problem"), [], "{document:#}");
    let ok = of_level(&document, "ok");
    for id in [
        "kernel-mptcp",
        "mptcp-enabled",
        "paths",
        "mptcp-endpoint",
        "mptcp-limits",
        "source-route",
        "rp-filter",
    ] {
        assert!(ok.iter().any(|one| one.0 == id), "{id}: {document:#}");
    }
    let summary = check(&lab, "client", &[], &[]).expect(0).stdout;
    assert!(summary.starts_with("No problem found\n"), "{summary}");
    assert!(!summary.contains('\u{1b}'), "colours only on a terminal: {summary}");
}

fn hello_has_no_problem() {
    assert_healthy("hello");
}

fn failover_has_no_problem() {
    assert_healthy("failover");
}

/// Links of the `emulated` engine: TUN devices.
fn stable_has_no_problem() {
    assert_healthy("stable");
}

/// The problems of a host in a shipped scenario, of which the first is the cause.
#[track_caller]
fn assert_broken(scenario: &str, host: &str, problems: &[(&str, &str)]) -> (Lab, Value) {
    let lab = shipped(scenario);
    let document = document(&lab, host, 6);
    assert_eq!(of_level(&document, "problem"), problems, "{document:#}");
    (lab, document)
}

/// Runs the commands of all remedies of problems in the host. Afterwards no problem is left.
#[track_caller]
fn assert_cured(lab: &Lab, host: &str, found: &Value) {
    let problems =
        found["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "problem");
    let steps: Vec<&str> = problems
        .flat_map(|finding| finding["remedy"].as_array().unwrap())
        .map(|step| step.as_str().unwrap())
        .collect();
    let is_command = |step: &&str| ["ip ", "sysctl "].iter().any(|program| step.starts_with(program));
    let commands: Vec<&str> = steps.iter().copied().filter(is_command).collect();
    assert!(!commands.is_empty(), "{steps:#?}");
    for command in commands {
        let script = format!("PATH=$PATH:/sbin:/usr/sbin; {command}");
        finish(&mut lab.exec(host, &["sh", "-c", &script])).expect(0);
    }
    let after = document(lab, host, 0);
    assert_eq!(of_level(&after, "problem"), [], "{after:#}");
}

/// Scenarios whose cause lies on one host: the problems, and that their remedies leave none.
macro_rules! broken {
    ($($test:ident: $scenario:literal $host:literal $problems:expr;)*) => {
        $(
            fn $test() {
                let (lab, found) = assert_broken($scenario, $host, &$problems);
                assert_cured(&lab, $host, &found);
            }
        )*
    };
}

broken! {
    mptcp_off: "broken-mptcp-off" "client" [("mptcp-enabled", "")];
    mptcp_off_on_the_server: "broken-server-tcp" "server" [
        ("mptcp-enabled", ""), ("mptcp-endpoint", "eth"), ("mptcp-endpoint", "wlan")
    ];
    limits: "broken-limits" "client" [("mptcp-limits", "")];
    no_endpoint: "broken-no-endpoint" "client" [("mptcp-endpoint", "eth"), ("mptcp-endpoint", "wlan")];
    no_source_rule: "broken-no-source-rule" "client" [("source-route", "10.83.1.1")];
    strict_reverse_path_filter: "broken-rp-filter" "client" [("rp-filter", "wlan")];
    unconfigured: "broken-unconfigured" "client" [("mptcp-endpoint", "eno1"), ("mptcp-endpoint", "eno2")];
    foreign_endpoints: "broken-foreign-endpoints" "server" [
        ("endpoint-address", "172.31.0.133"), ("endpoint-address", "172.31.0.173")
    ];
}

fn the_client_of_foreign_endpoints_shares_a_subnet() {
    let lab = shipped("broken-foreign-endpoints");
    let found = document(&lab, "client", 0);
    assert_eq!(of_level(&found, "problem"), []);
    assert_eq!(of_level(&found, "advice")[0], ("same-subnet", "172.31.0.0/24"), "{found:#}");
}

fn an_interface_that_is_down_is_named() {
    let lab = shipped("hello");
    finish(&mut lab.exec("client", &["sh", "-c", "PATH=$PATH:/sbin:/usr/sbin; ip link set wlan down"]))
        .expect(0);
    let found = document(&lab, "client", 0);
    let advice = of_level(&found, "advice");
    let at = |expected: (&str, &str)| advice.iter().position(|one| *one == expected);
    let (interface, paths) = (at(("interface", "wlan")), at(("paths", "")));
    assert!(interface.is_some() && interface < paths, "{found:#}");
}

fn without_capabilities_findings_say_what_was_not_examined() {
    let lab = shipped("hello");
    let bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let finished = check(&lab, "client", &bare, &["--json"]).expect(0);
    let found: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(of_level(&found, "problem"), [], "{found:#}");
    let unexamined = of_level(&found, "not-examined");
    assert!(unexamined.contains(&("firewall-mptcp", "")), "{found:#}");
    assert!(!of_level(&found, "ok").iter().any(|one| one.0 == "firewall-mptcp"), "{found:#}");
    let all = found["findings"].as_array().unwrap();
    for finding in all.iter().filter(|finding| finding["level"] == "not-examined") {
        assert!(
            !finding["found"].as_str().unwrap().is_empty() && !finding["remedy"].is_null(),
            "{finding:#}"
        );
    }
    // Endpoints, limits, counters and routes need no privilege.
    for id in ["mptcp-endpoint", "mptcp-limits", "source-route", "mptcp-fallback"] {
        assert!(of_level(&found, "ok").iter().any(|one| one.0 == id), "{id}: {found:#}");
    }
    let summary = check(&lab, "client", &bare, &[]).expect(0).stdout;
    assert!(summary.contains("\nNot examined\n"), "{summary}");
}

fn the_summary_starts_with_the_problem_and_two_runs_agree() {
    let lab = shipped("broken-limits");
    let first = check(&lab, "client", &[], &[]).expect(6).stdout;
    assert!(first.starts_with("1 problem "), "{first}");
    let after = first.split_once("mptcp-limits").unwrap().1;
    assert!(after.contains("      ip mptcp limits set subflows 2 add_addr_accepted 8\n"), "{first}");
    // It changes nothing.
    assert_eq!(check(&lab, "client", &[], &[]).expect(6).stdout, first);
}

fn this_machine_is_examined_by_any_user() {
    let work = Workplace::new();
    let finished = work.run(&["check", "--json"]);
    let found: Value = serde_json::from_str(&finished.stdout).unwrap();
    let expected = if of_level(&found, "problem").is_empty() { 0 } else { 6 };
    finished.expect(expected);
    assert!(!found["findings"].as_array().unwrap().is_empty());
}
