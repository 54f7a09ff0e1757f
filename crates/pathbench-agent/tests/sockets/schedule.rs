//! Check-ins and executions on schedule, over hours.

use crate::collector::Manner;
use crate::host::{HOUR, Host, MINUTE, PATIENCE, experiment, intervals};
use crate::within;
use pathbench_api::consent::Consent;
use pathbench_record::time::Timestamp;
use serde_json::{Value, json};

#[test]
fn check_ins_follow_the_collectors_interval_with_a_tenth_of_jitter() {
    let host = Host::new("");
    host.offer(&[]);
    host.collector.check_in_again_in(600);
    let agent = host.start();
    host.wait_for("check-in", 1);
    host.clock.pass(2 * HOUR);
    agent.stop();
    let mut check_ins = host.entries("check-in");
    // The clock goes on until the agent has stopped.
    check_ins.retain(|entry| entry.time <= Timestamp::default() + 2 * HOUR);
    let between = intervals(&check_ins);
    assert!((10..=14).contains(&between.len()), "{between:?}");
    assert!(between.iter().all(|seconds| (540.0..=660.5).contains(seconds)), "{between:?}");
    assert!(between.windows(2).any(|pair| (pair[0] - pair[1]).abs() > 1.0), "no jitter: {between:?}");
    assert_eq!(host.requests("/v1/check-in"), host.entries("check-in").len());
    assert_eq!(host.requests(""), host.requests("/v1/check-in"), "nothing else is sent");
}

#[test]
fn a_collector_cannot_ask_for_more_than_a_check_in_each_ten_seconds() {
    let host = Host::new("");
    host.collector.check_in_again_in(0);
    let agent = host.start();
    host.wait_for("check-in", 1);
    host.clock.pass(5 * MINUTE);
    agent.stop();
    let between = intervals(&host.entries("check-in"));
    assert!(between.iter().all(|seconds| (9.0..=11.5).contains(seconds)), "{between:?}");
}

#[test]
fn failed_check_ins_are_repeated_after_doubled_waits_until_the_collector_answers() {
    let host = Host::new("");
    host.collector.set(Manner::Closing);
    let agent = host.start();
    host.wait_for("check-in", 1);
    host.clock.pass(HOUR);
    let failed = host.entries("check-in");
    assert!(failed.iter().all(|entry| entry.fields["error"].is_string()), "{failed:?}");
    let waits: Vec<f64> = failed.iter().map(|entry| entry.fields["again_in_s"].as_f64().unwrap()).collect();
    for (number, wait) in waits.iter().enumerate() {
        let longest = f64::from(1 << number.min(10)).min(300.0);
        // Rounded in the log.
        assert!((longest / 2.0 - 0.5..=longest + 0.5).contains(wait), "{number}: {waits:?}");
    }
    for (between, wait) in intervals(&failed).iter().zip(&waits) {
        assert!((wait - 0.6..=wait + 0.8).contains(between), "{between} {wait}");
    }
    assert!(waits.len() >= 19, "{waits:?}");
    host.collector.set(Manner::Honest);
    let before = host.clock.elapsed().as_secs_f64();
    let answered = || host.entries("check-in").into_iter().find(|entry| entry.fields["next_s"] == 60);
    assert!(within(PATIENCE, || answered().is_some()));
    agent.stop();
    let (all, answered) = (host.entries("check-in"), answered().unwrap());
    assert!(answered.time.as_nanos() as f64 / 1e9 - before < 310.0, "the longest wait is 5 min: {all:?}");
}

/// An earlier collector rejects the list; the agent checks in without it.
#[test]
fn check_ins_list_the_patterns_that_the_agent_knows() {
    let host = Host::new("day = \"1GB\"\n");
    let mut loaded = experiment("loaded", 600);
    loaded["patterns"] = json!(["responsiveness", "datagrams", "ping"]);
    host.offer(&[loaded]);
    let agent = host.start();
    host.wait_for("check-in", 1);
    host.clock.pass(30 * MINUTE);
    host.wait_for("ended", 1);
    host.collector.set(Manner::Earlier);
    let before = host.entries("check-in").len();
    host.clock.pass(5 * MINUTE);
    host.wait_for("check-in", before + 2);
    agent.stop();
    assert!(host.entries("check-in").iter().all(|entry| entry.fields["error"].is_null()));
    let lists: Vec<Value> = host
        .collector
        .requests("/v1/check-in")
        .iter()
        .map(|request| serde_json::from_slice::<Value>(&request.body).unwrap()["patterns"].clone())
        .collect();
    let all = json!([
        "ping",
        "bulk",
        "throughput-upload",
        "throughput-download",
        "interactive",
        "responsiveness",
        "datagrams"
    ]);
    assert_eq!(lists[0], all);
    assert!(lists.contains(&Value::Null) && lists.iter().all(|list| [&all, &Value::Null].contains(&list)));
}

#[test]
fn experiments_are_measured_on_schedule_and_their_results_are_submitted() {
    let host = Host::new("day = \"1GB\"\n");
    let jittered = json!({ "schedule": { "every_s": 1800, "jitter_s": 600 } });
    let mut slow = experiment("slow", 1800);
    slow.as_object_mut().unwrap().extend(jittered.as_object().unwrap().clone());
    host.offer(&[experiment("quick", 600), slow]);
    host.collector.check_in_again_in(300);
    let agent = host.start();
    host.wait_for("check-in", 1);
    host.clock.pass(4 * HOUR);
    agent.stop();
    // The clock goes on until the agent has stopped.
    let midnight = Timestamp::default() + 4 * HOUR;
    for (name, most, interval) in [("quick", 24, 600.0..=660.0), ("slow", 8, 1800.0..=2460.0)] {
        let mut begun = host.entries("begins");
        begun.retain(|entry| entry.fields["experiment"] == name && entry.time < midnight);
        let between = intervals(&begun);
        assert!(between.iter().all(|seconds| interval.contains(seconds)), "{name}: {between:?}");
        assert!((most * 2 / 3..=most).contains(&begun.len()), "{name}: {}", begun.len());
    }
    let ended = host.entries("ended");
    // The agent's stop ends an execution that runs then.
    let (stopped, whole): (Vec<_>, Vec<_>) =
        ended.iter().partition(|entry| entry.fields["stopped"] == "stopped");
    assert!(stopped.len() <= 1 && stopped.iter().all(|entry| entry.time >= midnight), "{stopped:?}");
    assert!(whole.iter().all(|entry| entry.fields["exit"] == 0), "{whole:?}");
    let budget = host.budget();
    let is_next_day = budget["day"] == "2023-12-01";
    let begun = host.entries("begins");
    let of_day = begun.iter().filter(|entry| (entry.time >= midnight) == is_next_day).count();
    assert_eq!(budget["executions"], of_day, "{budget}");
    assert_eq!(begun.len(), ended.len());
    let stored = host.collector.stored();
    // The last one waits where the agent stops at once.
    assert!(
        stored.len() == ended.len() || stored.len() + 1 == ended.len(),
        "{} {}",
        stored.len(),
        ended.len()
    );
    assert_eq!(stored.len(), host.entries("acknowledged").len());
    for one in &stored {
        assert_eq!(one.consent, Consent::Private);
        assert_eq!(one.summary.server.as_ref().unwrap().as_str(), "near");
        assert!(["quick", "slow"].contains(&one.summary.experiment.as_ref().unwrap().as_str()));
    }
    let pending =
        std::fs::read_dir(host.path().join("state/results")).unwrap().map(|entry| entry.unwrap().path());
    assert!(pending.filter(|path| path.extension().is_some_and(|ending| ending == "pending")).count() <= 1);
}

#[test]
fn a_running_measurement_is_reported_each_three_seconds() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    host.hold();
    let agent = host.start();
    host.wait_for("begins", 1);
    host.clock.set_pause(std::time::Duration::ZERO);
    let before = host.requests("/v1/live");
    host.clock.pass(MINUTE);
    let reports = host.requests("/v1/live") - before;
    host.clock.set_pause(std::time::Duration::from_millis(2));
    assert!((18..=25).contains(&reports), "{reports}");
    let last = host.collector.requests("/v1/live").pop().unwrap();
    let report: Value = serde_json::from_slice(&last.body).unwrap();
    assert_eq!((&report["agent"], &report["server"]), (&json!("tester"), &json!("near")));
    assert_eq!((&report["experiment"], &report["runs_planned"]), (&json!("ping"), &json!(1)));
    host.release();
    host.wait_for("ended", 1);
    host.clock.pass(MINUTE);
    let reports = host.requests("/v1/live");
    host.clock.pass(MINUTE);
    assert_eq!(host.requests("/v1/live"), reports, "no measurement runs");
    agent.stop();
}

#[test]
fn a_failed_measurement_is_logged_with_its_message_and_the_schedule_goes_on() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    std::fs::write(host.path().join("fail"), "").unwrap();
    let agent = host.start();
    host.wait_for("ended", 2);
    assert_eq!(host.texts("ended", "message")[..2], ["no route to host"; 2]);
    assert!(host.entries("ended").iter().all(|entry| entry.fields["exit"] == 3));
    assert!(host.collector.stored().is_empty() && host.requests("/v1/results") == 0);
    std::fs::remove_file(host.path().join("fail")).unwrap();
    host.collector.wait_for(1);
    agent.stop();
}

#[test]
fn the_agent_stops_its_measurement_when_it_is_stopped() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    host.hold();
    let agent = host.start();
    assert!(within(PATIENCE, || host.path().join("calls").exists()));
    agent.stop();
    assert_eq!(host.texts("ended", "stopped"), ["stopped"]);
    assert_eq!(host.entries("ended")[0].fields["exit"], 5, "it wrote its result");
}

#[test]
fn an_execution_beyond_the_owners_longest_is_stopped() {
    let host = Host::new("");
    host.configure("longest = \"10h\"", "longest = \"45s\"");
    host.offer(&[json!({ "name": "ping", "kind": "test", "schedule": { "every_s": 600 }, "duration_s": 40,
                         "patterns": ["ping"], "most_bytes": 1_000_000 })]);
    host.hold();
    let agent = host.start();
    host.wait_for("ended", 1);
    agent.stop();
    assert_eq!(host.texts("ended", "stopped"), ["it took longer than 45 s"]);
    let lasted = host.entries("ended")[0].time.duration_since(host.entries("begins")[0].time).as_secs_f64();
    assert!(lasted > 45.0, "{lasted}");
}
