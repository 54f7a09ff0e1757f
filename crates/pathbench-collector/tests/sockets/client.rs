//! `pathbench` as a client of a running collector: what it submits is stored, shown and deleted.

use crate::support::process::{Collector, pathbench};
use crate::support::within;
use std::process::Output;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn ok(output: &Output) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    message + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn a_submitted_result_is_shown_and_deleted() {
    let collector = Collector::start(&["--open"]);
    let home = tempfile::tempdir().unwrap();
    let golden = pathbench_testkit::checkout().join("crates/pathbench-record/tests/golden/v1");
    let submit = |level: &str| {
        let arguments =
            ["submit", golden.to_str().unwrap(), "--collector", &collector.url, "--consent", level];
        pathbench(home.path(), &arguments)
    };
    // Without consent nothing leaves the host.
    let refused = submit("none");
    assert!(!refused.status.success());
    assert_eq!(collector.get("/v1/results").json()["all"], 0);
    ok(&submit("public"));
    let results = within(PATIENCE, || {
        let results = collector.get("/v1/results").json();
        (results["all"] == 1).then_some(results)
    });
    let results = results.expect("the result appears");
    let id = results["results"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(collector.get(&format!("/results/{id}")).status, 200);
    let report = collector.get(&format!("/results/{id}/report"));
    assert!(report.status == 200 && report.text().contains("Pathbench"), "{}", report.status);
    // A repetition is the same submission.
    ok(&submit("public"));
    assert_eq!(collector.get("/v1/results").json()["all"], 1);
    let message = ok(&pathbench(home.path(), &["submit", "--delete", "--collector", &collector.url]));
    assert!(message.contains('1'), "{message}");
    let gone = within(PATIENCE, || (collector.get("/v1/results").json()["all"] == 0).then_some(()));
    assert!(gone.is_some());
    assert_eq!(collector.get(&format!("/results/{id}/report")).status, 404);
    // What was deleted is rejected for good, with the reason, and waits no longer.
    let refused = submit("public");
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{message}");
    assert!(message.contains("deleted on request (410)"), "{message}");
    let list = ok(&pathbench(home.path(), &["submit", "--list"]));
    assert!(
        list.contains("rejected: the result with this id was deleted") && !list.contains("waits"),
        "{list}"
    );
    let rejected = home.path().join("pathbench/outbox/rejected");
    assert_eq!(std::fs::read_dir(rejected).unwrap().count(), 2, "the line and its reason");
}
