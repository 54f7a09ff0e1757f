//! The page of a real failover over all transports, driven in headless Chromium.

use crate::support::{TWO_PATHS, Workplace, finish};
use pathbench_testkit::{checkout, test_tools};
use std::process::Command;

/// Bytes of the page of a failover over four transports.
const MOST_BYTES: u64 = 3 << 20;

pathbench_testkit::tests!(["chromium", "node"] => the_page_of_a_failover_is_explored);

fn the_page_of_a_failover_is_explored() {
    let work = Workplace::new();
    let events = r#"
        [[event]]
        at = "1s"
        path = "wlan"
        action = "down"
        [[event]]
        at = "2500ms"
        path = "wlan"
        action = "up"
        [run]
        transports = ["tcp", "mptcp", "quic", "mpquic"]
        duration = "4s"
        repeat = 2
    "#;
    let file = work.scenario("failover", &format!("{TWO_PATHS}\n{events}"));
    work.run(&["lab", "run", &file, "--out", "result", "--no-calibration"]).expect(0);
    let page = work.path().join("result/report.html");
    let bytes = std::fs::metadata(&page).unwrap().len();
    assert!(bytes < MOST_BYTES, "{bytes} bytes");
    let mut browser = Command::new("node");
    work.prepare(&mut browser);
    // Chromium writes its profile and its caches there.
    browser.env("HOME", work.path()).env("PATHBENCH_TEST_TOOLS", test_tools());
    browser.arg(checkout().join("crates/pathbench-report/tests/browser/explorer.mjs")).arg(&page);
    finish(&mut browser).expect(0);
}
