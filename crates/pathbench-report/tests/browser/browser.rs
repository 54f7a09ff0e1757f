//! The page in headless Chromium, driven by puppeteer-core (`tests/browser/`).

use crate::synthetic;
use pathbench_report::{ResultSet, html};
use pathbench_testkit::{program, test_tools};
use std::path::{Path, PathBuf};
use std::process::Command;

pathbench_testkit::tests!(
    ["libraries", "node", "chromium"] => panels_are_linked_accessible_and_nothing_is_clipped,
        a_study_of_two_hundred_runs_is_small_and_quick, other_results_are_drawn_without_an_error;
);

/// Runs a script of `tests/browser` and returns its standard output.
fn drive(script: &str, arguments: &[&Path]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(script);
    let home = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(program("node"))
        .arg(&script)
        .args(arguments)
        .env("PATHBENCH_TEST_TOOLS", test_tools())
        // Chromium writes its profile and its caches there.
        .env("HOME", home.path())
        .output()
        .unwrap();
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{found}", String::from_utf8_lossy(&output.stderr));
    found
}

fn page(directory: &Path, name: &str, sets: &[ResultSet]) -> PathBuf {
    let file = directory.join(format!("{name}.html"));
    std::fs::write(&file, html::report(sets)).expect("the page can be written");
    file
}

fn panels_are_linked_accessible_and_nothing_is_clipped() {
    let work = tempfile::tempdir().expect("a temporary directory");
    let file = page(work.path(), "failover", &[synthetic::failover()]);
    let bytes = std::fs::metadata(&file).map_or(0, |one| one.len());
    assert!(bytes < 3 << 20, "{bytes} bytes");
    drive("explorer.mjs", &[&file]);
}

/// Numbers of docs/performance.md: `cargo test -p pathbench-report --test browser two_hundred -- --nocapture`.
fn a_study_of_two_hundred_runs_is_small_and_quick() {
    let work = tempfile::tempdir().expect("a temporary directory");
    let set = synthetic::aggregate(100, false);
    assert_eq!(set.document.runs.len(), 200);
    let file = page(work.path(), "study", &[set]);
    let bytes = std::fs::metadata(&file).map_or(0, |one| one.len());
    assert!(bytes < 20 << 20, "{bytes} bytes");
    report(&format!("{:.1} MB, {}", bytes as f64 / 1e6, drive("measure.mjs", &[&file]).trim()));
}

fn other_results_are_drawn_without_an_error() {
    let work = tempfile::tempdir().expect("a temporary directory");
    let several = [synthetic::suite(), synthetic::walk(), synthetic::hostile()];
    let file = page(work.path(), "several", &several);
    drive("sections.mjs", &[&file]);
}

#[expect(clippy::print_stdout, reason = "it prints its measurements")]
fn report(text: &str) {
    println!("{text}");
}
