//! The agent's local page in headless Chromium, driven by puppeteer-core (`tests/browser/`), and who may use it.

use crate::support::collector::{FakeCollector, Manner};
use crate::support::standing::Server;
use crate::support::{Workplace, captured, finish, within};
use pathbench_kerneltest::test_tools;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// An agent with a page.
struct Agent {
    process: Child,
    url: String,
}

impl Agent {
    fn start(work: &Workplace, address: &str) -> Self {
        Self::run(work, &["--ui", address])
    }

    fn run(work: &Workplace, arguments: &[&str]) -> Self {
        let mut command = work.pathbench(&[&["agent"], arguments].concat());
        command
            .env("XDG_CONFIG_HOME", work.path().join("config"))
            .env("XDG_STATE_HOME", work.path().join("state"));
        let mut process = captured(&mut command);
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }

    /// The header field that a browser sends after it has opened the printed URL, with `Host: 127.0.0.1`.
    fn cookie(&self) -> String {
        let query = self.url.split_once('?').unwrap().1;
        let (first, rest) = self.request(&format!("GET /?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        assert!(first.contains("303") && rest.contains("HttpOnly; SameSite=Strict"), "{first} {rest}");
        let cookie = rest.split("Set-Cookie: ").nth(1).unwrap().split(';').next().unwrap();
        format!("Cookie: {cookie}\r\n")
    }

    /// `POST /api/consent` with these header fields.
    fn consent(&self, fields: &str) -> String {
        let head = "POST /api/consent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20";
        self.request(&format!("{head}\r\n{fields}\r\n{{\"consent\":\"public\"}}")).0
    }

    /// The header field with the page's token.
    fn token(&self) -> String {
        let cookie = self.cookie();
        let (first, page) = self.request(&format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{cookie}\r\n"));
        assert!(first.contains("200"), "{first}");
        assert!(page.contains("Content-Security-Policy: default-src 'none'; script-src 'self'"), "{page}");
        let token = page.split("name=\"pathbench-token\" content=\"").nth(1).unwrap();
        format!("X-Pathbench-Token: {}\r\n", token.split('"').next().unwrap())
    }

    /// The first line and the rest of an answer.
    fn request(&self, request: &str) -> (String, String) {
        let place = self.url.trim_start_matches("http://").split('/').next().unwrap();
        let port = place.rsplit(':').next().unwrap().parse::<u16>().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (first, rest) = answer.split_once("\r\n").unwrap_or_default();
        (first.to_owned(), rest.to_owned())
    }

    fn state(&self) -> Value {
        let cookie = self.cookie();
        let (_, rest) = self.request(&format!("GET /api/state HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
        serde_json::from_str(rest.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Starts a measurement and returns its outcome.
    fn measure(&self, start: &Value) -> String {
        let (cookie, token, body) = (self.cookie(), self.token(), start.to_string());
        let head = format!("POST /api/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}", body.len());
        let (first, rest) = self.request(&format!("{head}\r\n{cookie}{token}\r\n{body}"));
        assert!(first.contains("200"), "{first} {rest}");
        assert!(within(PATIENCE, || self.state()["last"].is_string()), "{}", self.state());
        self.state()["last"].as_str().unwrap().to_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _dead = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[test]
fn the_owner_measures_sees_results_and_decides() {
    // `./test` lets the ordinary user run copied programs; the browser is the same for both.
    if std::env::var_os("PATHBENCH_TEST_UNPRIVILEGED").is_some() {
        return;
    }
    let work = Workplace::new();
    let serving = Server::on_loopback(&work);
    let agent = Agent::start(&work, "127.0.0.1:0");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/page.mjs");
    let home = tempfile::tempdir().unwrap();
    let driven = Command::new("node")
        .arg(script)
        .args([&agent.url, &serving.address, &serving.fingerprint])
        .env("PATHBENCH_TEST_TOOLS", test_tools())
        .env("HOME", home.path())
        .output()
        .unwrap();
    let text = [driven.stdout, driven.stderr].concat();
    assert!(driven.status.success(), "{}", String::from_utf8_lossy(&text));
    let config = std::fs::read_to_string(work.path().join("config/pathbench/collector.toml")).unwrap();
    assert!(config.contains("consent = \"private\""), "{config}");
}

#[test]
fn a_collector_cannot_choose_the_server_that_the_owner_tests() {
    let work = Workplace::new();
    let collector = FakeCollector::start(Manner::Honest);
    let [own, other] = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let place = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    // A host of the owner's network, under the address that the owner writes.
    let offered = json!([{ "name": place(&own), "address": place(&other), "quic_ports": [], "load": 0.0 }]);
    collector.offer(&offered, &json!([]));
    let agent = Agent::run(&work, &[&collector.url, "--consent", "private", "--ui", "127.0.0.1:0"]);
    assert!(within(PATIENCE, || agent.state()["servers"][0].is_object()), "{}", agent.state());
    let refused = agent.measure(&json!({ "mobile": false, "offered": place(&own) }));
    assert!(refused.contains("not a public address"), "{refused}");
    let gone = agent.measure(&json!({ "mobile": false, "offered": "gone" }));
    assert!(gone.contains("does not offer gone"), "{gone}");
    own.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    assert!(own.accept().is_err(), "the offered server is not the one with this address");
    agent.measure(&json!({ "mobile": false, "address": place(&own), "fingerprint": "ab".repeat(32) }));
    assert!(own.accept().is_ok(), "the owner's address is tested");
    assert!(other.accept().is_err(), "the offered server got a connection");
}

#[test]
fn pages_of_other_hosts_are_refused() {
    let work = Workplace::new();
    let agent = Agent::start(&work, "127.0.0.1:0");
    let (cookie, token) = (agent.cookie(), agent.token());
    let rebound = agent.request(&format!("GET / HTTP/1.1\r\nHost: evil.test\r\n{cookie}\r\n"));
    assert!(rebound.0.contains("403"), "a name that leads here by DNS rebinding");
    assert!(agent.consent(&cookie).contains("403"));
    assert!(agent.consent(&format!("{cookie}{token}Origin: http://evil.test\r\n")).contains("403"));
    assert!(agent.consent(&token).contains("403"), "another user of this host");
    assert!(!work.path().join("config/pathbench/collector.toml").exists());
    assert!(agent.consent(&format!("{cookie}{token}Origin: http://localhost\r\n")).contains("200"));
    assert!(work.path().join("config/pathbench/collector.toml").exists());
    for path in ["/results/../../../../etc/passwd/report.html", "/results/%2e%2e/report.html", "/etc/passwd"]
    {
        let (first, _) = agent.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
        assert!(first.contains("404"), "{path}: {first}");
    }
}

#[test]
fn a_decision_on_the_page_keeps_the_identity_that_another_command_made() {
    let work = Workplace::new();
    let agent = Agent::start(&work, "127.0.0.1:0");
    let mut submit = work.pathbench(&["submit", "--collector", "http://127.0.0.1:1", "--consent", "private"]);
    submit
        .env("XDG_CONFIG_HOME", work.path().join("config"))
        .env("XDG_STATE_HOME", work.path().join("state"));
    finish(&mut submit).expect(0);
    let file = work.path().join("config/pathbench/collector.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    assert!(agent.consent(&format!("{}{}", agent.cookie(), agent.token())).contains("200"));
    let after = std::fs::read_to_string(&file).unwrap();
    assert_eq!(after, before.replace("consent = \"private\"", "consent = \"public\""));
}

#[test]
fn every_address_needs_the_printed_key() {
    let work = Workplace::new();
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let agent = Agent::start(&work, address);
        for path in ["/", "/api/state", "/api/results"] {
            let (first, rest) = agent.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert!(first.contains("403") && !rest.contains("pathbench-token"), "{path}: {first}");
        }
        agent.token();
    }
}

#[test]
fn a_silent_client_delays_no_other_one() {
    let work = Workplace::new();
    let agent = Agent::start(&work, "127.0.0.1:0");
    let place = agent.url.trim_start_matches("http://").split('/').next().unwrap();
    let port = place.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert!(within(Duration::from_secs(5), || {
        agent.request("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").0.contains("403")
    }));
}
