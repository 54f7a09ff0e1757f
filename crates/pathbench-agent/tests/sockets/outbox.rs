//! Results that wait: for the end of a measurement, for the collector, and for space.

use crate::collector::Manner;
use crate::host::{HOUR, Host, MINUTE, experiment, intervals};
use pathbench_api::problem::LineStatus;
use std::fs;

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
    let agent = host.start();
    host.collector.wait_for(1);
    host.collector.set(Manner::Busy(1));
    host.wait_for("outbox", 1);
    host.clock.pass(2 * HOUR);
    let measured = host.entries("ended").len();
    assert!(measured >= 8, "the schedule goes on without the collector: {measured}");
    assert_eq!(host.collector.stored().len(), 1);
    let between = intervals(&host.entries("outbox"));
    assert!(between.iter().all(|seconds| *seconds < 320.0), "the longest wait is 5 min: {between:?}");
    assert!(between.iter().filter(|seconds| **seconds >= 149.0).count() > 5, "waits are doubled: {between:?}");
    host.collector.set(Manner::Honest);
    host.collector.wait_for(measured);
    host.clock.pass(MINUTE);
    agent.stop();
    let entries = host.entries("acknowledged");
    let (first, last) = (&entries[1], &entries[measured - 1]);
    assert!(last.time.since(first.time) < MINUTE, "one batch: {entries:?}");
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
    assert_eq!(host.texts("recovered", "result").is_empty(), false, "the first result is not lost");
}

#[test]
fn space_in_the_outbox_is_used_at_once() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    host.collector.set(Manner::Busy(1));
    assert_eq!(host.once().0, 4);
    let files = fs::read_dir(host.path().join("state/outbox")).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
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
