//! Any answer of a collector to a check-in, or any problem: rejected, or within every bound, and no text of it becomes
//! an option or a host name on the command line of the program that measures.

use super::input::{Input, changed};
use pathbench_agent::answer::accept;
use pathbench_agent::arguments::test_arguments;
use pathbench_agent::target::TestTarget;
use pathbench_api::check_in::{CheckInAnswer, MOST_SERVERS};
use pathbench_api::experiment::{Experiment, Family};
use pathbench_api::name::Name;
use pathbench_api::problem::{BatchAnswer, LineStatus, Problem};
use pathbench_record::transport::Transport;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The options that a child gets from an agent.
const OPTIONS: [&str; 12] = [
    "--fingerprint",
    "--certificate-name",
    "--quic-port",
    "--path",
    "--transports",
    "--ipv4",
    "--ipv6",
    "--duration",
    "--repeat",
    "--bulk-bytes",
    "--patterns",
    "--",
];

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.byte() % 4 {
        0 => problem(&mut input),
        1 => {
            if let Ok(answer) = serde_json::from_slice(input.rest()) {
                accepted(answer);
            }
        }
        _ => {
            let document = changed(&mut input, valid());
            if let Ok(answer) = serde_json::from_value(document) {
                accepted(answer);
            }
        }
    }
}

pub(crate) fn valid() -> Value {
    json!({
        "version": "0.1.0", "now_ms": 1_795_600_000_000_u64, "next_s": 60, "privacy": "/v1/privacy",
        "token": "pb2.agent.a.0102030405060708.1800000000.1800003600.00",
        "servers": [
            { "name": "nyc", "address": "192.0.2.7:4433", "quic_ports": [443], "fingerprint": "ab".repeat(32),
              "token": "pb2.test.a.0102030405060708.1800000000.1800003600.00", "load": 0.5 },
            { "name": "lab", "address": "lab.example.net", "quic_ports": [], "load": 0.0 },
        ],
        "experiments": [
            { "name": "mesh", "description": "Every minute", "kind": "test", "servers": ["nyc"], "agents": ["a"],
              "schedule": { "every_s": 60, "jitter_s": 10 }, "transports": ["tcp", "mptcp"], "patterns": ["ping"],
              "families": ["ipv4", "ipv6"], "most_bytes": 100_000_000_u64 },
            { "name": "move", "kind": "roam", "schedule": { "every_s": 600 }, "most_bytes": 1 },
        ],
    })
}

fn accepted(mut answer: CheckInAnswer) {
    let agent = Name::nearest("a");
    let next = accept(&mut answer, &agent);
    assert!((Duration::from_secs(10)..=Duration::from_secs(3600)).contains(&next));
    assert!(answer.servers.len() <= MOST_SERVERS);
    for experiment in &answer.experiments {
        assert!(experiment.agents.is_empty() || experiment.agents.contains(&agent));
    }
    for offered in &answer.servers {
        let resolve = |host: &str, _: u16| Ok(vec![host.parse().unwrap_or(IpAddr::from([192, 0, 2, 1]))]);
        let Ok(target) = TestTarget::parse(offered, resolve) else { continue };
        for experiment in answer.experiments.iter().filter(|one| one.problem().is_none()).take(20) {
            command_line(experiment, &target);
        }
    }
}

fn command_line(experiment: &Experiment, target: &TestTarget) {
    let address = IpAddr::from([192, 0, 2, 1]);
    let arguments = test_arguments(
        experiment,
        target,
        address,
        Some(Family::Ipv4),
        &["eth0".to_owned()],
        &experiment.transports,
    );
    assert!(["test", "roam"].contains(&arguments[0].as_str()));
    let server: SocketAddr = arguments[1].parse().expect("an address, never a name");
    assert_eq!(server.ip(), address);
    let mut options = BTreeSet::new();
    for (index, word) in arguments.iter().enumerate().skip(2) {
        assert!(word.len() <= 300 && !word.chars().any(char::is_control), "{word:?}");
        if word.starts_with('-') {
            assert!(OPTIONS.contains(&word.as_str()), "{word}");
            options.insert(word.as_str());
        } else {
            assert!(arguments[index - 1].starts_with("--"), "{arguments:?}");
        }
    }
    // The server has to prove its identity, by a fingerprint or a certificate.
    assert!(options.contains("--fingerprint") != options.contains("--certificate-name"));
    assert!(experiment.transports.len() <= Transport::ALL.len());
}

fn problem(input: &mut Input<'_>) {
    let document = changed(input, json!({ "status": 410, "error": "gone", "retryable": false }));
    if let Ok(problem) = serde_json::from_value::<Problem>(document) {
        let again: Problem = serde_json::from_slice(&serde_json::to_vec(&problem).unwrap()).unwrap();
        assert_eq!(again, problem);
    }
    let line = json!({ "line": 1, "id": null, "status": "deleted", "code": 410, "retryable": false });
    let batch = changed(input, json!({ "results": [line] }));
    if let Ok(batch) = serde_json::from_value::<BatchAnswer>(batch) {
        for line in &batch.results {
            // What the agent does with a line follows from its status alone.
            assert!(!(line.status.is_stored() && line.status.is_retryable()));
            assert!(line.status != LineStatus::Deleted || !line.status.is_stored());
        }
    }
}
