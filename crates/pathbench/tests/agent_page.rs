//! The agent's local page in headless Chromium, driven by puppeteer-core (`tests/browser/`), and who may use it.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use pathbench_kerneltest::test_tools;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use support::standing::Server;
use support::{Workplace, captured, within};

pathbench_kerneltest::unprivileged_too!();

/// An agent with a page, without a collector.
struct Agent {
    process: Child,
    url: String,
}

impl Agent {
    fn start(work: &Workplace, address: &str) -> Self {
        let mut command = work.pathbench(&["agent", "--ui", address]);
        command
            .env("XDG_CONFIG_HOME", work.path().join("config"))
            .env("XDG_STATE_HOME", work.path().join("state"));
        let mut process = captured(&mut command);
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }

    /// The first line and the rest of an answer.
    fn request(&self, request: &str) -> (String, String) {
        let place = self.url.trim_start_matches("http://").split('/').next().unwrap();
        let port = place.rsplit(':').next().unwrap().parse::<u16>().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (first, rest) = answer.split_once("\r\n").unwrap_or_default();
        (first.to_owned(), rest.to_owned())
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
fn pages_of_other_hosts_are_refused() {
    let work = Workplace::new();
    let agent = Agent::start(&work, "127.0.0.1:0");
    let get = |host: &str| agent.request(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let (first, page) = get("127.0.0.1");
    assert!(first.contains("200"), "{first}");
    assert!(page.contains("Content-Security-Policy: default-src 'none'; script-src 'self'"), "{page}");
    let token = page.split("name=\"pathbench-token\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(get("evil.test").0.contains("403"), "a name that leads here by DNS rebinding");
    let post = |fields: &str| {
        agent.request(&format!("POST /api/consent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n{fields}\r\n{{\"consent\":\"public\"}}"))
    };
    assert!(post("").0.contains("403"));
    assert!(post(&format!("X-Pathbench-Token: {token}\r\nOrigin: http://evil.test\r\n")).0.contains("403"));
    assert!(!work.path().join("config/pathbench/collector.toml").exists());
    assert!(post(&format!("X-Pathbench-Token: {token}\r\nOrigin: http://localhost\r\n")).0.contains("200"));
    assert!(work.path().join("config/pathbench/collector.toml").exists());
    for path in ["/results/../../../../etc/passwd/report.html", "/results/%2e%2e/report.html", "/etc/passwd"]
    {
        let (first, _) = agent.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert!(first.contains("404"), "{path}: {first}");
    }
}

#[test]
fn beyond_the_loopback_interface_the_printed_key_is_needed() {
    let work = Workplace::new();
    let agent = Agent::start(&work, "0.0.0.0:0");
    assert!(agent.url.contains("/?key="), "{}", agent.url);
    let (first, _) = agent.request("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(first.contains("403"), "{first}");
    let query = agent.url.split_once('?').unwrap().1;
    let (first, rest) = agent.request(&format!("GET /?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
    assert!(first.contains("303") && rest.contains("HttpOnly; SameSite=Strict"), "{first} {rest}");
    let cookie = rest.split("Set-Cookie: ").nth(1).unwrap().split(';').next().unwrap();
    let (first, _) = agent.request(&format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n"));
    assert!(first.contains("200"), "{first}");
    // A client that sends nothing delays no other client.
    let place = agent.url.trim_start_matches("http://").split('/').next().unwrap();
    let port = place.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert!(within(Duration::from_secs(5), || {
        agent.request("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").0.contains("403")
    }));
}
