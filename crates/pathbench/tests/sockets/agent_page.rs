//! Who may use the agent's local page.

use crate::support::agent_page::{Agent, PATIENCE};
use crate::support::collector::{FakeCollector, Manner};
use crate::support::{Workplace, finish, within};
use serde_json::json;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

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
