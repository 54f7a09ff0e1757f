//! `check SERVER` in labs: each `broken-*` scenario names its cause first, and a lab without a fault has no problem.

#![allow(clippy::print_stdout, reason = "a server of a test reports on its standard output")]

use crate::support::standing::{Lab, SERVER};
use crate::support::{Finished, TWO_PATHS, binary, captured, finish};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::server::{Server, ServerOptions};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::Child;
use std::sync::Arc;
use std::thread;

/// Labs at the same time: most of a check is waiting.
const PARALLEL: usize = 3;

/// Runs a program without any capability, as an ordinary user's program runs on a real host.
pub(crate) const WITHOUT_CAPABILITIES: [&str; 4] =
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];

/// Scenario, address of its server, and id and subject of the first problem.
const BROKEN: [(&str, &str, &str, Option<&str>); 16] = [
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
    ("broken-small-buffers", SERVER, "tcp-buffers", None),
    ("broken-address-family", SERVER, "path-family", Some("lte")),
    ("broken-nat-announcement", "198.51.100.2", "path-add-addr", Some("192.168.77.2")),
    ("broken-unconfigured", "10.0.0.2", "mptcp-endpoint", Some("eno2")),
];

pub(crate) fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

/// `check` in a host of the lab, started by `prefix`.
pub(crate) fn check(lab: &Lab, host: &str, prefix: &[&str], arguments: &[&str]) -> Finished {
    let program = binary();
    let check = [prefix, &[program.to_str().unwrap(), "check", "--json"], arguments].concat();
    finish(&mut lab.exec(host, &check))
}

pub(crate) fn of_level<'a>(document: &'a Value, level: &str) -> Vec<&'a Value> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().filter(|finding| finding["level"] == level).collect()
}

pub(crate) fn first_problem(document: &Value) -> (&str, Option<&str>) {
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

/// The certificate is checked on each path before anything is sent in clear text, as `test` does.
#[test]
fn a_server_proves_its_identity_by_its_fingerprint() {
    let lab = Lab::of(TWO_PATHS, &[]);
    let server = lab.serve(&["--open"]);
    let finished = check(&lab, "client", &[], &[SERVER, "--fingerprint", &server.fingerprint]).expect(0);
    let found = document(&finished);
    assert!(of_level(&found, "ok").iter().any(|one| one["id"] == "multipath"), "{finished:#?}");
    let other = "0".repeat(64);
    let refused = check(&lab, "client", &[], &[SERVER, "--fingerprint", &other]).expect(3);
    refused.reports(&["certificate"]);
    // An impostor learns no token.
    let options = [SERVER, "--fingerprint", &other, "--token", "pb2.secret"];
    check(&lab, "client", &[], &options).expect(3).reports(&["certificate"]);
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

/// A server other than `pathbench serve`, in the host `server`; ends with the test.
pub(crate) struct Task(Child);

impl Task {
    fn start(lab: &Lab, task: &str) -> Self {
        Self::start_in(lab, &format!("check_server::{task}"))
    }

    /// Starts the ignored test `task`, and waits until it prints that it is listening.
    pub(crate) fn start_in(lab: &Lab, task: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let itself = [program.to_str().unwrap(), "--ignored", "--exact", "--nocapture", task];
        let mut child = captured(&mut lab.exec("server", &itself));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.into_iter().any(|line| line.contains(LISTENING)), "{task} did not start");
        Self(child)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}

pub(crate) const LISTENING: &str = "listening";

#[test]
#[ignore = "a server of the other tests in a lab's host"]
fn an_mptcp_web_server() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    listener.bind(&SocketAddr::from(([0, 0, 0, 0], 8080)).into()).unwrap();
    listener.listen(16).unwrap();
    println!("{LISTENING}");
    thread::scope(|scope| {
        loop {
            let (mut connection, _) = listener.accept().unwrap();
            scope.spawn(move || {
                let mut request = [0; 4096];
                let length = connection.read(&mut request).unwrap_or_default();
                let is_http = request[..length].starts_with(b"HEAD / HTTP/1.1\r\n");
                let status = if is_http { "200 OK" } else { "400 Bad Request" };
                let reply = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                if connection.write_all(reply.as_bytes()).is_ok() && is_http {
                    // Keeps the connection open, until the client closes it.
                    let _closed = connection.read(&mut request);
                }
            });
        }
    });
}

#[test]
#[ignore = "a server of the other tests in a lab's host"]
fn a_server_without_counters() {
    let options = ServerOptions::new(vec![(Transport::Mptcp, SocketAddr::from(([0, 0, 0, 0], 4433)))]);
    let _server = Server::start(options, Arc::new(MonotonicClock)).unwrap();
    println!("{LISTENING}");
    loop {
        thread::park();
    }
}

#[test]
fn of_an_mptcp_web_server_handshake_and_joins_are_examined() {
    let server = "10.83.3.2:8080";
    let lab = Lab::of_shipped("broken-strip-mp-capable", &[]);
    let _server = Task::start(&lab, "an_mptcp_web_server");
    let finished = check(&lab, "client", &[], &[server]).expect(6);
    let found = document(&finished);
    assert_eq!(first_problem(&found), ("path-mp-capable", Some("eth")), "{finished:#?}");
    assert_eq!(of_level(&found, "problem").len(), 1, "{finished:#?}");
    let ok = of_level(&found, "ok");
    let is_joined = |one: &&Value| one["id"] == "path-mp-join" && one["subject"] == "eth";
    assert!(ok.iter().any(is_joined), "{finished:#?}");
}

#[test]
fn a_server_that_reports_no_counters_is_named_as_such() {
    let lab = Lab::of_shipped("broken-strip-mp-capable", &[]);
    let _server = Task::start(&lab, "a_server_without_counters");
    let finished = check(&lab, "client", &[], &["10.83.3.2"]).expect(6);
    let found = document(&finished);
    assert_eq!(first_problem(&found), ("path-mp-capable", Some("eth")), "{finished:#?}");
    let not_examined = of_level(&found, "not-examined");
    assert!(not_examined.iter().any(|one| one["id"] == "server-counters"), "{finished:#?}");
}
