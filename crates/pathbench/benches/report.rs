//! Speed and memory of `pathbench report` on results of many runs: bytes of line files per second of processor time, and
//! the largest resident memory, beside a Python script that reads the same lines (`json`) and only sums bytes per path and
//! 100 ms. The programs take turns.
//!
//! `cargo bench -p pathbench --bench report [-- ROUNDS]`; it writes about 250 MB to the temporary directory.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

#[path = "../tests/support/large_result.rs"]
mod large_result;
mod support;

use pathbench_record::statistics::median;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const RUNS: [u32; 2] = [100, 1000];

const PEER: &str = "
import json, sys
sums = {}
for name in ('samples', 'delivery', 'events'):
    with open(f'{sys.argv[1]}/{name}.jsonl') as file:
        for line in file:
            record = json.loads(line)
            key = (name, record['run'], record.get('path'), int(record['t_ms'] / 100))
            sums[key] = sums.get(key, 0) + record.get('bytes', record.get('bytes_received', 0))
print(len(sums))
";

/// One execution of a program.
struct Use {
    cpu: Duration,
    peak_kib: u64,
}

fn main() -> ExitCode {
    let rounds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(5_usize);
    match compare(rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(rounds: usize) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    println!("medians of {rounds} rounds");
    for runs in RUNS {
        let result = place.path().join(format!("result-{runs}"));
        large_result::write(&result, runs)?;
        let bytes = line_bytes(&result)?;
        let out = place.path().join("page");
        let mut report = Command::new(env!("CARGO_BIN_EXE_pathbench"));
        report.arg("report").arg(&result).arg("--out").arg(&out);
        let mut peer = Command::new("python3");
        peer.args(["-c", PEER]).arg(&result);
        let mut uses: [Vec<Use>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            uses[0].push(run(&mut report)?);
            uses[1].push(run(&mut peer)?);
        }
        let page = std::fs::metadata(out.join("report.html")).map_err(|error| error.to_string())?.len();
        println!("{runs} runs, {:.0} MB of lines, page {:.1} MB", bytes / 1e6, page as f64 / 1e6);
        for (name, uses) in ["pathbench report", "python3, json"].iter().zip(&uses) {
            let speed: Vec<f64> = uses.iter().map(|one| bytes / 1e6 / one.cpu.as_secs_f64()).collect();
            let peak = uses.iter().map(|one| one.peak_kib).max().unwrap_or_default();
            println!(
                "  {name:18} {:6.0} MB/s of processor time, peak memory {:5.0} MB",
                median(&speed).unwrap_or_default(),
                peak as f64 * 1024.0 / 1e6
            );
        }
        let seconds =
            |index: usize| uses[index].iter().map(|one: &Use| one.cpu.as_secs_f64()).collect::<Vec<_>>();
        if let Some((ratio, interval)) = support::paired_ratio(&seconds(0), &seconds(1)) {
            println!("  python3 takes {ratio:.2} times the processor time{interval}");
        }
    }
    Ok(())
}

fn line_bytes(result: &Path) -> Result<f64, String> {
    let entries = std::fs::read_dir(result).map_err(|error| error.to_string())?;
    let files =
        entries.filter_map(Result::ok).filter(|one| one.path().extension().is_some_and(|one| one == "jsonl"));
    Ok(files.filter_map(|file| file.metadata().ok()).map(|file| file.len() as f64).sum())
}

fn run(command: &mut Command) -> Result<Use, String> {
    let before = support::children_cpu();
    let mut child = command.stdout(Stdio::null()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut peak_kib = 0;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        // The high-water mark only grows, so that the last reading is close to the end's.
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = mark.and_then(|mark| mark.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or_default());
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        return Err(format!("{command:?}: {status}"));
    }
    Ok(Use { cpu: support::children_cpu().saturating_sub(before), peak_kib })
}
