//! Results that wait: for the end of a measurement, for the collector, and for space.

use crate::collector::Manner;
use crate::host::{HOUR, Host, MINUTE, PATIENCE, experiment, intervals};
use pathbench_api::problem::LineStatus;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn nothing_is_uploaded_while_a_measurement_runs() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    host.collector.set(Manner::Busy(1));
    let agent = host.start();
    host.wait_for("ended", 1);
    host.wait_for("outbox", 1);
    host.hold();
    host.wait_for("begins", 2);
    host.collector.set(Manner::Honest);
    // The request that had begun.
    host.clock.pass(MINUTE / 20);
    let attempts = host.requests("/v1/results");
    host.clock.pass(5 * MINUTE);
    assert_eq!(host.requests("/v1/results"), attempts, "a batch was sent");
    assert!(host.collector.stored().is_empty());
    assert_eq!(host.entries("ended").len(), 1, "the measurement runs");
    host.release();
    host.collector.wait_for(2);
    agent.stop();
}

#[test]
fn results_outlast_an_outage_of_the_collector() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let agent = host.start_with(&["--metrics", &metrics.to_string()]);
    host.collector.wait_for(1);
    host.collector.set(Manner::Busy(1));
    host.wait_for("outbox", 1);
    assert!(!get(metrics, "/metrics").contains("\npathbench_agent_outbox 0\n"));
    assert!(get(metrics, "/health").contains(r#""status":"ok""#));
    assert!(get(metrics, "/metrics").contains("pathbench_agent_budget_used_bytes{interface=\"eth0\"}"));
    host.clock.pass(2 * HOUR);
    let measured = host.entries("ended").len();
    assert!(measured >= 8, "the schedule goes on without the collector: {measured}");
    assert_eq!(host.collector.stored().len(), 1);
    let between = intervals(&host.entries("outbox"));
    assert!(between.iter().all(|seconds| *seconds < 320.0), "the longest wait is 5 min: {between:?}");
    assert!(
        between.iter().filter(|seconds| **seconds >= 149.0).count() > 5,
        "waits are doubled: {between:?}"
    );
    host.collector.set(Manner::Honest);
    host.collector.wait_for(measured);
    host.clock.pass(MINUTE);
    agent.stop();
    let entries = host.entries("acknowledged");
    let (first, last) = (&entries[1], &entries[measured - 1]);
    assert!(last.time.duration_since(first.time) < MINUTE, "one batch: {entries:?}");
}

#[test]
fn a_rejected_result_is_kept_apart_and_not_sent_again() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 3600)]);
    host.collector.set(Manner::Answers(LineStatus::Invalid));
    let agent = host.start();
    host.wait_for("rejected", 1);
    let sent = host.requests("/v1/results");
    host.clock.pass(MINUTE);
    assert_eq!(host.requests("/v1/results"), sent);
    agent.stop();
    let rejected = fs::read_dir(host.path().join("state/outbox/rejected")).unwrap();
    assert_eq!(rejected.count(), 2 * host.entries("rejected").len(), "the line and its reason");
}

#[test]
fn experiments_wait_for_space_in_the_outbox() {
    let host = Host::new("outbox = \"1B\"\n");
    host.offer(&[experiment("ping", 600), experiment("pong", 600)]);
    let agent = host.start();
    host.wait_for("skipped", 2);
    assert_eq!(host.entries("begins").len(), 1);
    assert!(host.texts("skipped", "reason").iter().all(|reason| reason.contains("is full")));
    assert_eq!(host.budget()["executions"], 1);
    assert_eq!(host.requests("/v1/results"), 0);
    host.configure("outbox = \"1B\"", "outbox = \"100MB\"");
    host.collector.wait_for(2);
    agent.stop();
    assert!(!host.texts("recovered", "result").is_empty(), "the first result is not lost");
}

#[test]
fn space_in_the_outbox_is_used_at_once() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    host.collector.set(Manner::Busy(1));
    assert_eq!(host.once().0, 4);
    let files = fs::read_dir(host.path().join("state/outbox"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap());
    let held: u64 = files.filter(fs::Metadata::is_file).map(|file| file.len()).sum();
    // Not for a second result.
    host.configure("longest = \"10h\"", &format!("longest = \"10h\"\noutbox = \"{}B\"", held + held / 2));
    host.collector.set(Manner::Honest);
    assert_eq!(host.once(), (0, String::new()));
    assert!(host.texts("not submitted", "error")[0].contains("is full"));
    assert_eq!(host.collector.stored().len(), 2);
}

#[test]
fn the_exit_code_of_one_round_names_the_collectors_answer() {
    let host = Host::new("");
    host.offer(&[]);
    for (manner, code) in [
        (Manner::Honest, 0),
        (Manner::Closing, 3),
        (Manner::Huge, 3),
        (Manner::Garbage, 3),
        (Manner::Unauthorised, 4),
        (Manner::Redirecting, 4),
    ] {
        host.collector.set(manner.clone());
        assert_eq!(host.once().0, code, "{manner:?}");
    }
    host.configure("\"private\"", "\"none\"");
    let before = host.requests("");
    let (code, message) = host.once();
    assert!(code == 2 && message.contains("consent is `none`"), "{code} {message}");
    assert_eq!(host.requests(""), before, "nothing was sent");
}

#[test]
fn a_pending_result_goes_only_where_its_owner_consented_when_it_was_measured() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    assert_eq!(host.once(), (0, String::new()));
    host.offer(&[]);
    let mut results =
        fs::read_dir(host.path().join("state/results")).unwrap().map(|entry| entry.unwrap().path());
    let result = results.find(|path| path.is_dir()).unwrap();
    let note = result.with_extension("pending");
    // Another result each time, by its seed.
    let text = fs::read_to_string(result.join("run.json")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    for (number, collector, consent, is_submitted, is_left) in [
        (1, json!(host.collector.url), "none", false, false),
        (2, Value::Null, "private", false, false),
        (3, json!("https://other.example"), "private", false, true),
        (4, json!(host.collector.url), "private", true, false),
    ] {
        document["seed"] = number.into();
        fs::write(result.join("run.json"), document.to_string()).unwrap();
        let pending = json!({ "directory": result, "experiment": "ping", "server": "near", "collector": collector,
                              "consent": consent });
        fs::write(&note, pending.to_string()).unwrap();
        let before = host.collector.stored().len();
        assert_eq!(host.once(), (0, String::new()));
        let after = host.collector.stored().len();
        assert_eq!((after - before, note.exists()), (usize::from(is_submitted), is_left), "{pending}");
    }
}
