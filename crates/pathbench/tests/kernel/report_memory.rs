//! The memory of `report` does not grow with the lines of a result.

#![allow(clippy::disallowed_methods, reason = "the test waits by the real clock")]

#[path = "../support/large_result.rs"]
mod large_result;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The largest resident memory of a report in bytes, and the bytes of the result's lines.
fn peak_bytes(place: &Path, runs: u32) -> (u64, u64) {
    let result = place.join(runs.to_string());
    large_result::write(&result, runs).unwrap();
    let files = std::fs::read_dir(&result).unwrap().map(Result::unwrap);
    let lines = files.filter(|file| file.path().extension().is_some_and(|one| one == "jsonl"));
    let line_bytes = lines.map(|file| file.metadata().unwrap().len()).sum();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathbench"));
    command.arg("report").arg(&result).arg("--out").arg(place.join("page")).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut peak_kib = 0;
    while child.try_wait().unwrap().is_none() {
        // The high-water mark only grows, so that the last reading is close to the end's.
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak_kib = peak_kib.max(mark.map_or(0, |kib| kib.trim().parse().unwrap()));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.wait().unwrap().success());
    assert!(place.join("page/report.html").exists());
    (peak_kib * 1024, line_bytes)
}

#[test]
fn ten_times_the_runs_take_little_more_memory() {
    let place = tempfile::tempdir().unwrap();
    let (few, few_lines) = peak_bytes(place.path(), 30);
    let (many, many_lines) = peak_bytes(place.path(), 300);
    let (grown, lines) = (many.saturating_sub(few), many_lines - few_lines);
    assert!(few > 1 << 20, "{few}");
    assert!(lines > 60_000_000, "{lines}");
    // The document, the page and its figures grow; lines are read run by run.
    assert!(grown < lines / 2, "{grown} bytes more for {lines} bytes of lines; {few} with 30 runs");
    let page = std::fs::metadata(place.path().join("page/report.html")).unwrap().len();
    assert!(page < 20_000_000, "{page}");
}
