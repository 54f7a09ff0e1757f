//! Requests that schemathesis generates from the description of the API: every answer is as described, and none is an
//! error of the server.

use crate::support::demo::{golden, packed};
use crate::support::process::{Collector, line, submission};
use pathbench_api::Uuid;
use pathbench_api::submission::Submission;
use pathbench_testkit::{checkout, test_tools};
use serde_json::json;
use std::process::Command;

pathbench_testkit::tests!(["libraries"] => answers_are_as_described);

/// Cases of each operation; together they take about a minute.
const EXAMPLES: &str = "80";

fn answers_are_as_described() {
    let collector = Collector::start(&["--open", "--rate-limit", "0"]);
    let admin = collector.command(&["token", "--admin", "--valid", "1h"]);
    let id = seed(&collector, &admin);
    let place = tempfile::tempdir().unwrap();
    let output = Command::new(test_tools().join("venv/bin/schemathesis"))
        .current_dir(place.path())
        .env("HOME", place.path())
        .env("PYTHONPATH", checkout().join("crates/pathbench-collector/tests/schemathesis"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PATHBENCH_RESULT", id.to_string())
        .args(["run", &format!("{}/v1/openapi.json", collector.url), "--no-color", "--seed", "1"])
        .args(["--max-examples", EXAMPLES, "--request-timeout", "20", "--phases", "examples,coverage,fuzzing"])
        .args(["--generation-database", "none", "--suppress-health-check", "all"])
        .args(["--header", &format!("Authorization: Bearer {}", admin.trim())])
        .args([
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
             response_schema_conformance,negative_data_rejection",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("generated"), "{text}");
    let metrics = collector.get("/metrics").text();
    assert!(metrics.contains("pathbench_collector_panics_total 0"), "{metrics}");
    assert_eq!(collector.get("/v1/results").status, 200);
}

/// Results, an experiment and a server, so that there is something to find.
fn seed(collector: &Collector, admin: &str) -> Uuid {
    let raw = data_encoding::BASE64.encode(&packed(&golden("v1-messages"), ""));
    let with_raw = || Submission { raw: Some(raw.clone()), ..submission() };
    let results: Vec<Submission> = (0..20).map(|_| with_raw()).collect();
    let lines: Vec<String> = results.iter().map(line).collect();
    assert_eq!(collector.submit(&lines).status, 201);
    let put = |path: &str, body: serde_json::Value| {
        let answer = collector.request("PUT", path).bearer(admin).json(&body).send();
        assert!(answer.status < 300, "{}", answer.text());
    };
    put("/v1/admin/servers/nyc", json!({ "address": "192.0.2.1:4433" }));
    put(
        "/v1/admin/experiments/hourly",
        json!({ "name": "hourly", "kind": "test", "schedule": { "every_s": 3600 }, "most_bytes": 1_000_000 }),
    );
    results[0].id
}
