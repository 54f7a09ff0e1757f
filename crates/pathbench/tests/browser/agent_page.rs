//! The agent's local page in headless Chromium, driven by puppeteer-core.

use crate::support::Workplace;
use crate::support::agent_page::Agent;
use crate::support::standing::Server;
use pathbench_testkit::{checkout, test_tools};
use std::process::Command;

pathbench_testkit::tests!(["chromium", "node"] => the_owner_measures_sees_results_and_decides);

fn the_owner_measures_sees_results_and_decides() {
    let work = Workplace::new();
    let serving = Server::on_loopback(&work);
    let agent = Agent::start(&work, "127.0.0.1:0");
    let script = checkout().join("crates/pathbench/tests/browser/page.mjs");
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
