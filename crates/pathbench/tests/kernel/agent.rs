//! The agent: check-in, experiments within the owner's limits, live reports, and collectors that lie.

#![allow(clippy::disallowed_methods, reason = "a test is an outermost shell")]

use crate::support;
use crate::support::collector::{FakeCollector, Manner};
use crate::support::standing::Server;
use crate::support::{Dice, Finished, Workplace, captured, finish, processes, within};
use pathbench_api::check_in::ServerReport;
use pathbench_api::consent::Consent;
use pathbench_api::summary::Mode;
use pathbench_api::token::{Audience, TokenKey};
use pathbench_record::network::AddressFamily;
use pathbench_record::transport::Transport;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(60);

/// Limits for tests on the loopback interface, whose counters have the bytes of all programs of this host.
const LIMITS: &str = r#"
[limits]
shortest_interval = "10s"
servers = ["127.0.0.0/8", "::1"]
execution = "9000GB"
day = "90000GB"
"#;
const MONTH: &str = "month = \"90000GB\"\n";
/// More than all programs send while a test runs.
const MOST_BYTES: u64 = 1_000_000_000_000;

struct Host {
    work: Workplace,
    collector: FakeCollector,
}

impl Host {
    /// With consent, and these limits instead of the defaults.
    fn new(limits: &str) -> Self {
        let month = if limits == LIMITS { MONTH } else { "" };
        let work = Workplace::new();
        let config = work.path().join("config/pathbench");
        fs::create_dir_all(&config).unwrap();
        let text = format!(
            "consent = \"private\"\nagent = \"2b0b8c9e-8a3d-4a58-9c4e-0d1d7a3a0b11\"\nname = \"tester\"\n\
             deletion_token = \"{}\"\n{limits}{month}",
            "ab".repeat(32)
        );
        fs::write(config.join("collector.toml"), text).unwrap();
        Self { work, collector: FakeCollector::start(Manner::Honest) }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.work.pathbench(&[&["agent", &self.collector.url], arguments].concat());
        command
            .env("XDG_CONFIG_HOME", self.work.path().join("config"))
            .env("XDG_STATE_HOME", self.work.path().join("state"))
            .env("PATHBENCH_TOKEN", "owner-token")
            .env_remove("PATHBENCH_COLLECTOR_TOKEN");
        command
    }

    fn once(&self, options: &[&str]) -> Finished {
        finish(&mut self.command(&[&["--once"], options].concat()))
    }

    /// Replaces a part of the configuration.
    fn change(&self, from: &str, to: &str) {
        let file = self.work.path().join("config/pathbench/collector.toml");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(file, text.replacen(from, to, 1)).unwrap();
    }

    /// Its result stays in the outbox.
    fn measure_for_a_busy_collector(&self, offered: &Value) {
        self.collector.offer(offered, &json!([experiment(&json!({}))]));
        self.collector.set(Manner::Busy(1));
        self.once(&[]).expect(4);
    }

    fn budget(&self) -> Value {
        let text = fs::read_to_string(self.work.path().join("state/pathbench/budget.json"));
        text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }
}

fn has_word(process: &processes::Process, word: &str) -> bool {
    process.arguments().iter().any(|one| one == word)
}

fn server(address: &str, fingerprint: &str) -> Value {
    json!([{ "name": "near", "address": address, "quic_ports": [], "fingerprint": fingerprint, "load": 0.0 }])
}

/// One ping over tcp.
fn experiment(changes: &Value) -> Value {
    let mut experiment = json!({
        "name": "ping", "kind": "test", "schedule": { "every_s": 10 }, "transports": ["tcp"], "patterns": ["ping"],
        "most_bytes": MOST_BYTES,
    });
    experiment.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    experiment
}

#[test]
fn an_experiment_runs_once_and_its_result_is_submitted() {
    let host = Host::new(LIMITS);
    let serving = Server::on_loopback(&host.work);
    host.collector.offer(&server(&serving.address, &serving.fingerprint), &json!([experiment(&json!({}))]));
    let finished = host.once(&["--collector-token", "secret"]).expect(0);
    let stored = host.collector.stored();
    assert_eq!(stored.len(), 1, "{finished:#?}");
    let summary = &stored[0].summary;
    assert_eq!((stored[0].consent, summary.mode), (Consent::Private, Mode::Stable));
    assert_eq!(summary.experiment.as_ref().unwrap().as_str(), "ping");
    assert_eq!(summary.server.as_ref().unwrap().as_str(), "near");
    let check_in: Value = serde_json::from_slice(&host.collector.requests("/v1/check-in")[0].body).unwrap();
    assert_eq!((&check_in["name"], &check_in["consent"]), (&json!("tester"), &json!("private")));
    assert!(host.collector.requests("").iter().all(|one| one.token.as_deref() == Some("secret")));
    // The log is JSON, one object a line.
    for line in finished.stderr.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["event"].is_string() && line["time"].is_string(), "{line}");
    }
    assert!(!finished.stderr.contains("secret"), "{}", finished.stderr);
    let budget = host.budget();
    assert_eq!(budget["executions"], 1);
    let used = budget["interfaces"]["lo"].as_u64().unwrap();
    assert!((1000..MOST_BYTES).contains(&used), "the use replaces the reservation: {budget}");
    assert!(host.work.left_behind().iter().all(|one| has_word(one, "serve")));
}

#[test]
fn a_mobile_experiment_runs_for_its_duration() {
    let host = Host::new(LIMITS);
    let serving = Server::on_loopback(&host.work);
    let roam = json!({ "kind": "roam", "patterns": [], "duration_s": 3 });
    host.collector.offer(&server(&serving.address, &serving.fingerprint), &json!([experiment(&roam)]));
    let finished = host.once(&[]).expect(0);
    let stored = host.collector.stored();
    assert_eq!(
        stored.iter().map(|one| one.summary.mode).collect::<Vec<_>>(),
        [Mode::Mobile],
        "{finished:#?}"
    );
}

#[test]
fn both_ip_versions_are_compared_in_the_second_result() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let host = Host::new(LIMITS);
    let mut serve =
        host.work.pathbench(&["serve", "--open", "--port", "0", "--listen", "127.0.0.1", "--listen", "::1"]);
    let serving = Server::started(&mut serve);
    let families = json!({ "families": ["ipv4", "ipv6"], "patterns": ["bulk"], "bulk_bytes": 100_000 });
    let offered = server(&format!("localhost:{}", serving.port()), &serving.fingerprint);
    host.collector.offer(&offered, &json!([experiment(&families)]));
    let finished = host.once(&["--allow-servers", "localhost"]).expect(0);
    let stored = host.collector.stored();
    // Where the name has one address only, there is one result.
    if stored.len() == 1 {
        assert!(stored[0].summary.family_pairs.is_empty(), "{finished:#?}");
        return;
    }
    let pairs: usize = stored.iter().map(|one| one.summary.family_pairs.len()).sum();
    assert_eq!((stored.len(), pairs), (2, 1), "{finished:#?}");
}

#[test]
fn a_server_without_ipv6_leaves_its_failed_attempts_in_the_result_over_ipv4() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    for families in [["ipv4", "ipv6"], ["ipv6", "ipv4"]] {
        let host = Host::new(LIMITS);
        let serving = Server::on_loopback(&host.work);
        let changes = json!({ "families": families, "transports": ["tcp", "quic"] });
        let offered = server(&format!("dual.example:{}", serving.port()), &serving.fingerprint);
        host.collector.offer(&offered, &json!([experiment(&changes)]));
        fs::write(host.work.path().join("hosts"), "127.0.0.1 dual.example\n::1 dual.example\n").unwrap();
        let agent = host.command(&["--once", "--allow-servers", "dual.example"]);
        let mut command = std::process::Command::new("unshare");
        command.args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            "mount --bind hosts /etc/hosts && exec \"$@\"",
            "sh",
        ]);
        command.arg(agent.get_program()).args(agent.get_args()).current_dir(host.work.path());
        for (name, value) in agent.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let finished = finish(&mut command).expect(0);
        let stored = host.collector.stored();
        assert_eq!(stored.len(), 1, "{finished:#?}");
        let summary = &stored[0].summary;
        for transport in [Transport::Tcp, Transport::Quic] {
            let attempts = summary.reachability.iter().filter(|one| one.transport == transport);
            let attempts: BTreeSet<(AddressFamily, bool)> =
                attempts.map(|one| (one.family, one.reachable)).collect();
            let expected = [(AddressFamily::Ipv4, true), (AddressFamily::Ipv6, false)];
            assert_eq!(attempts, expected.into(), "{transport}: {finished:#?}");
        }
        assert!(summary.family_pairs.is_empty(), "{finished:#?}");
    }
}

#[test]
fn an_execution_that_uses_more_than_it_says_is_stopped() {
    let host = Host::new(LIMITS);
    let serving = Server::on_loopback(&host.work);
    let greedy = json!({ "patterns": ["throughput-upload"], "duration_s": 30, "most_bytes": 3_000_000 });
    host.collector.offer(&server(&serving.address, &serving.fingerprint), &json!([experiment(&greedy)]));
    host.once(&[]).expect(0).reports(&["it used more than 3000000 bytes", "\"stopped\""]);
    assert!(host.budget()["interfaces"]["lo"].as_u64().unwrap() > 3_000_000);
}

#[test]
fn results_wait_for_a_network_that_the_owner_allows() {
    let host = Host::new(&format!("{LIMITS}{MONTH}"));
    let serving = Server::on_loopback(&host.work);
    host.measure_for_a_busy_collector(&server(&serving.address, &serving.fingerprint));
    host.collector.set(Manner::Honest);
    host.collector.offer(&json!([]), &json!([]));
    let attempts = host.collector.requests("/v1/results").len();
    host.change("[limits]", "[kinds]\nlo = \"cellular\"\n[limits]");
    host.once(&[]).expect(0).reports(&["lo is metered"]);
    assert_eq!(host.collector.requests("/v1/results").len(), attempts, "a batch was sent");
    host.change("[limits]", "[limits]\nmetered = true");
    host.once(&[]).expect(0);
    assert_eq!(host.collector.stored().len(), 1);
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_killed_agent_leaves_no_process_and_no_free_budget() {
    let host = Host::new(LIMITS);
    let serving = Server::on_loopback(&host.work);
    let measuring = experiment(&json!({ "patterns": ["interactive"], "duration_s": 60 }));
    host.collector.offer(&server(&serving.address, &serving.fingerprint), &json!([measuring]));
    let mut agent = captured(&mut host.command(&["--once"]));
    let is_testing = || host.work.processes().iter().any(|one| has_word(one, "interactive"));
    assert!(within(PATIENCE, is_testing));
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(within(PATIENCE, || !is_testing()), "the test goes on without its agent");
    assert_eq!(host.budget()["interfaces"]["lo"], MOST_BYTES, "the reservation stays");
}

/// `PATHBENCH_KILLS=1000` for more.
#[test]
fn kills_of_the_agent_lose_and_double_no_result() {
    let kills: u64 = std::env::var("PATHBENCH_KILLS").map_or(20, |text| text.parse().unwrap());
    let host = Host::new(&format!("{LIMITS}{MONTH}executions_per_day = 100000\n"));
    let serving = Server::on_loopback(&host.work);
    host.collector.offer(
        &server(&serving.address, &serving.fingerprint),
        &json!([experiment(&json!({ "repeat": 1 }))]),
    );
    let mut dice = Dice(7);
    for _ in 0..kills {
        let mut agent = captured(&mut host.command(&["--once"]));
        thread::sleep(Duration::from_millis(dice.below(900)));
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
    host.once(&[]).expect(0);
    let results = host.work.path().join("state/pathbench/results");
    let finished = fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path());
    // The agent keeps the latest 50.
    let finished: Vec<_> = finished.filter(|path| path.join("run.json").exists()).collect();
    let stored = host.collector.stored();
    assert!(!stored.is_empty() && stored.len() >= finished.len(), "{} of {}", stored.len(), finished.len());
    let starts: Vec<u64> = stored.iter().map(|one| one.summary.started_ms).collect();
    for path in finished {
        let document: Value =
            serde_json::from_str(&fs::read_to_string(path.join("run.json")).unwrap()).unwrap();
        let seed = document["seed"].clone();
        let same = |one: &&pathbench_api::submission::Submission| seed_of(one) == seed;
        assert_eq!(stored.iter().filter(same).count(), 1, "{} among {starts:?}", path.display());
    }
    let state = host.work.path().join("state/pathbench");
    assert_eq!(fs::read_dir(state.join("outbox/rejected")).unwrap().count(), 0);
    let pending = fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(pending.filter(|path| path.extension().is_some_and(|ending| ending == "pending")).count(), 0);
}

/// Random in each result.
fn seed_of(submission: &pathbench_api::submission::Submission) -> Value {
    let raw = data_encoding::BASE64.decode(submission.raw.as_ref().unwrap().as_bytes()).unwrap();
    let mut archive = tar::Archive::new(ruzstd::decoding::StreamingDecoder::new(raw.as_slice()).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().ends_with("run.json") {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            return serde_json::from_str::<Value>(&text).unwrap()["seed"].clone();
        }
    }
    Value::Null
}

#[test]
fn a_server_reports_itself_with_a_token_of_its_own_key() {
    let host = Host::new(LIMITS);
    host.work.run(&["serve", "key", "tokens.key"]).expect(0);
    let key = TokenKey::from_text(&fs::read_to_string(host.work.path().join("tokens.key")).unwrap()).unwrap();
    let health = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (url, health_text) = (host.collector.url.clone(), health.to_string());
    let options = ["serve", "--port", "0", "--listen", "127.0.0.1", "--token-key", "tokens.key"];
    let report = ["--collector", &url, "--collector-name", "near-1", "--health", &health_text];
    let serving = Server::started(&mut host.work.pathbench(&[&options[..], &report].concat()));
    let reports = || host.collector.requests("/v1/servers/near-1");
    assert!(within(PATIENCE, || !reports().is_empty()));
    let first = &reports()[0];
    let report: ServerReport = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(
        (report.address.as_str(), report.tests, report.draining),
        (serving.address.as_str(), 0, false)
    );
    assert_eq!(report.fingerprint.as_ref(), Some(&serving.fingerprint));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let token = key.check(Audience::Server, first.token.as_ref().unwrap(), now).unwrap();
    assert_eq!(token.subject.as_str(), "near-1");
    assert!(get(health, "/metrics").contains("\npathbench_server_max_tests 8\n"));
    // A collector that fails does not end the server.
    host.collector.set(Manner::Garbage);
    let before = reports().len();
    assert!(within(PATIENCE, || reports().len() > before));
    assert!(get(health, "/health").contains(r#""status":"ok""#));
}

/// Listens on a TCP and a UDP port, accepts everything and keeps what arrives.
struct Spy {
    received: Arc<Mutex<Vec<u8>>>,
    connections: Arc<AtomicUsize>,
}

impl Spy {
    fn start(address: SocketAddr, on_connection: impl Fn() + Send + 'static) -> Self {
        let spy = Self { received: Arc::default(), connections: Arc::default() };
        let (listener, socket) = (TcpListener::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
        let (received, connections) = (Arc::clone(&spy.received), Arc::clone(&spy.connections));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                on_connection();
                let received = Arc::clone(&received);
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        received.lock().unwrap().extend_from_slice(&buffer[..count]);
                    }
                });
            }
        });
        let received = Arc::clone(&spy.received);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = socket.recv(&mut buffer) {
                received.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        spy
    }

    fn holds(&self, text: &str) -> bool {
        self.received.lock().unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    }
}

/// The agent's program resolves the name a second time no more than it sends its token to a server without a valid
/// certificate.
#[test]
fn a_name_that_means_another_address_meanwhile_leads_nowhere() {
    let host = Host::new(LIMITS);
    host.change("\"127.0.0.0/8\"", "\"127.0.0.1\"");
    let hosts = host.work.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 rebound.example\n").unwrap();
    let other = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let checked = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), other.port());
    let forbidden = Spy::start(other, || {});
    let rebound = hosts.clone();
    // The agent measures how far its servers are, after it has checked their addresses.
    let permitted = Spy::start(checked, move || fs::write(&rebound, "127.0.0.2 rebound.example\n").unwrap());
    let address = format!("rebound.example:{}", other.port());
    let token = "pb2.test.the-collectors-token";
    let offered = |name: &str| json!({ "name": name, "address": address, "quic_ports": [], "token": token, "load": 0.0 });
    let transports = ["tcp", "mptcp", "quic", "mpquic"];
    for transports in [&transports[..1], &transports[1..2], &transports[2..]] {
        fs::write(&hosts, "127.0.0.1 rebound.example\n").unwrap();
        let changes = json!({ "transports": transports });
        host.collector.offer(&json!([offered("one"), offered("two")]), &json!([experiment(&changes)]));
        let agent = host.command(&["--once"]);
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let mut inside = std::process::Command::new("unshare");
        inside.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        inside.arg(&hosts).arg(agent.get_program()).args(agent.get_args());
        for (name, value) in agent.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside.current_dir(host.work.path());
        let before = permitted.connections.load(Ordering::SeqCst);
        let finished = finish(&mut inside);
        assert!(finished.stderr.contains("\"exit\":3"), "{finished:#?}");
        assert!(permitted.connections.load(Ordering::SeqCst) > before, "{finished:#?}");
        assert_eq!(fs::read_to_string(&hosts).unwrap(), "127.0.0.2 rebound.example\n");
        assert!(!permitted.holds(token), "{transports:?}");
        assert_eq!(forbidden.connections.load(Ordering::SeqCst), 0, "{transports:?}: {finished:#?}");
        assert!(forbidden.received.lock().unwrap().is_empty(), "{transports:?}");
    }
    assert!(!permitted.received.lock().unwrap().is_empty(), "the server had its chance to prove itself");
}

#[test]
fn a_server_without_a_key_cannot_report_itself() {
    let host = Host::new(LIMITS);
    let serve = ["serve", "--open", "--port", "0", "--collector", &host.collector.url];
    host.work.run(&serve).expect(2).reports(&["--collector-name"]);
    let named = [&serve[..], &["--collector-name", "a b"]].concat();
    host.work.run(&named).expect(2).reports(&["letters"]);
    let named = [&serve[..], &["--collector-name", "near"]].concat();
    host.work.run(&named).expect(2).reports(&["--token-key"]);
}

#[test]
fn the_collector_is_started_where_it_is_installed() {
    let work = Workplace::new();
    // Away from the collector that this workspace builds.
    let alone = work.path().join("alone");
    fs::create_dir(&alone).unwrap();
    let own = alone.join("pathbench");
    fs::copy(support::binary(), &own).unwrap();
    let run = |arguments: &[&str], path: &str| {
        let mut command = std::process::Command::new(&own);
        finish(command.args(arguments).env("PATH", path))
    };
    run(&["collect", "--database", "x"], "/nonexistent")
        .expect(7)
        .reports(&["pathbench-collector", "cargo build"]);
    let program = |place: &std::path::Path, code: u8| {
        let program = place.join("pathbench-collector");
        fs::write(&program, format!("#!/bin/sh\necho \"$@\"\nexit {code}\n")).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    program(work.path(), 4);
    let path = format!("{}:/bin:/usr/bin", work.path().display());
    let finished = run(&["collect", "backup", "--database", "x"], &path);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(4), "backup --database x\n"));
    // The one beside the program wins.
    program(&alone, 5);
    assert_eq!(run(&["collect", "backup"], &path).code, Some(5));
}
