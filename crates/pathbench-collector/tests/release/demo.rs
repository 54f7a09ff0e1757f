//! `pathbench collect demo`: a collector, two test servers and three agents in a lab, and the dashboard in headless Chromium.

use crate::support::process::{Request, client_program, program};
use crate::support::within;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pathbench_testkit::tests!(
    ["chromium", "node", "libraries"] => three_agents_fill_the_dashboard_and_nothing_is_left_behind
);

/// A slow machine needs a minute for the first suite of all agents.
const PATIENCE: Duration = Duration::from_secs(400);

struct Demo {
    child: Child,
    url: String,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn start(dir: &Path) -> Demo {
    // The demo starts it.
    client_program();
    let mut child = Command::new(program())
        .args(["demo", "--listen", "127.0.0.1:0", "--dir"])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().expect("the demo prints the address of the dashboard").unwrap();
    let url = first.split_whitespace().last().unwrap().trim_end_matches('/').to_owned();
    std::thread::spawn(move || lines.for_each(drop));
    Demo { child, url }
}

fn get(url: &str) -> Option<Value> {
    let answer = Request::to("GET", url.to_owned()).try_send().ok()?;
    (answer.status == 200).then(|| answer.json())
}

/// Processes of this demo.
fn left_behind(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        path.file_name()?.to_str()?.parse::<u32>().ok()?;
        let line = std::fs::read(path.join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    processes.filter(|line| line.contains(dir)).collect()
}

fn three_agents_fill_the_dashboard_and_nothing_is_left_behind() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("demo");
    let mut demo = start(&dir);
    let logs = || {
        let files =
            ["anna", "ben", "cleo", "collector", "server1"].map(|host| dir.join(format!("{host}.log")));
        files.map(|file| std::fs::read_to_string(file).unwrap_or_default()).join("\n")
    };
    // Tests and mobile measurements of every agent: the chart of operators appears with the third agent.
    let filled = within(PATIENCE, || {
        std::thread::sleep(Duration::from_secs(1));
        assert!(demo.child.try_wait().unwrap().is_none(), "the demo ended\n{}", logs());
        let results = get(&format!("{}/v1/results?limit=1000", demo.url))?;
        let modes: BTreeSet<String> = results["results"]
            .as_array()?
            .iter()
            .map(|one| one["summary"]["mode"].as_str().unwrap_or_default().to_owned())
            .collect();
        let charts = [
            "gain",
            "gain-by-operator",
            "ipv4-ipv6-completion",
            "ipv6-reachability",
            "mobile-max-delay",
            "max-delay-ratio",
        ];
        let has_data = charts.iter().all(|name| {
            get(&format!("{}/v1/charts/{name}.json", demo.url))
                .is_some_and(|chart| chart["n"].as_u64().unwrap_or(0) > 0)
        });
        (has_data && modes.len() >= 2).then_some(results)
    });
    let results = filled.unwrap_or_else(|| panic!("the charts stay empty\n{}", logs()));
    // A running measurement is visible.
    let live = within(PATIENCE, || {
        let live = get(&format!("{}/v1/live", demo.url))?;
        (!live["running"].as_array()?.is_empty()).then_some(live)
    });
    assert!(live.is_some(), "no agent reports what it measures\n{}", logs());

    let id = results["results"][0]["id"].as_str().unwrap().to_owned();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/dashboard.mjs");
    let output = Command::new("node")
        .arg(script)
        .args([&demo.url, &id])
        .env("PATHBENCH_TEST_TOOLS", pathbench_testkit::test_tools())
        .env("HOME", place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    rustix::process::kill_process(
        rustix::process::Pid::from_child(&demo.child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(demo.child.wait().unwrap().code(), Some(0));
    assert_eq!(left_behind(&dir), Vec::<String>::new());
}
