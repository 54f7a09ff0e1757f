//! The paths of `roam` as traces of their delay and loss, from the probes beside the interactive traffic.

use super::{READABLE, write};
use pathbench_analysis::assembly::ClientPath;
use pathbench_analysis::line::{DirectionEstimate, IdleEstimate, LineEstimate, LineProbe};
use pathbench_lab::scenario::{RecordedLine, RecordedLines, RecordedTraffic};
use pathbench_link::trace::{self, TraceFormat, TraceOptions};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::document::ProbeLine;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest run of the recorded scenario; the traces repeat.
const LONGEST: Duration = Duration::from_secs(120);

/// Writes the scenario `file` and the traces beside it; returns the line that says so.
pub(crate) fn record_roam(
    file: &Path,
    server: &str,
    started: &str,
    paths: &[ClientPath],
    probes: &[ProbeLine],
) -> Result<String, Failure> {
    let mut lines = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let own: Vec<&ProbeLine> = probes.iter().filter(|probe| probe.path == path.name).collect();
        let traces = write_traces(file, index, &own)?;
        lines.push(RecordedLine { estimate: estimate(path, &own), traces });
    }
    let last_ms = probes.iter().map(|probe| probe.t_ms).fold(0.0, f64::max);
    let duration = Duration::try_from_secs_f64(last_ms / 1e3).unwrap_or_default().min(LONGEST);
    let recorded = RecordedLines {
        command: "roam",
        server: server.to_owned(),
        measured: started.to_owned(),
        method: "The traces are of UDP probes every 100 ms beside the interactive traffic; they repeat from their end.\n\
                 A probe that could not be sent, because the interface was down, counts as lost."
            .to_owned(),
        lines,
        traffic: RecordedTraffic::Interactive(duration),
    };
    write(file, &recorded)
}

/// The interactive traffic does not fill a path.
fn estimate(path: &ClientPath, probes: &[&ProbeLine]) -> LineEstimate {
    let reason =
        || "interactive traffic does not fill the path; `pathbench test --record` measures it".to_owned();
    let direction = || DirectionEstimate {
        rate: Err(reason()),
        queue: Err(reason()),
        loss: Err(reason()),
        congestion: None,
    };
    let all: Vec<LineProbe> =
        probes.iter().map(|probe| LineProbe { at_ms: probe.t_ms, rtt_ms: probe.rtt_ms }).collect();
    LineEstimate {
        name: path.name.clone(),
        is_backup: path.backup.unwrap_or(false),
        idle: IdleEstimate::from_probes(&all).ok_or_else(|| "too few UDP probes were answered".to_owned()),
        mtu_bytes: Err("`roam` sends no packets of different sizes; `pathbench mtu` measures it".to_owned()),
        upload: direction(),
        download: direction(),
        probe_frame_bytes: 0,
    }
}

/// Writes the delay and loss of one path; returns the scenario's keys with their files.
fn write_traces(
    file: &Path,
    index: usize,
    probes: &[&ProbeLine],
) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut table = "time_s,rtt_ms\n".to_owned();
    let mut sorted: Vec<&&ProbeLine> = probes.iter().collect();
    sorted.sort_by(|one, other| one.t_ms.total_cmp(&other.t_ms));
    sorted.dedup_by(|one, other| (one.t_ms - other.t_ms).abs() < 1e-3);
    for probe in sorted {
        let rtt = probe.rtt_ms.map(|rtt_ms| rtt_ms.to_string()).unwrap_or_default();
        let _infallible = writeln!(table, "{:.6},{rtt}", probe.t_ms.max(0.0) / 1e3);
    }
    let options = TraceOptions { format: Some(TraceFormat::Csv), ..TraceOptions::default() };
    // Without an answered probe there is no trace.
    let Ok(content) = trace::import(table.as_bytes(), &options) else { return Ok(Vec::new()) };
    let tables = [
        ("delay_trace", "delay", content.delay.as_ref().map(trace::delay_table)),
        ("loss_trace", "loss", content.loss.as_ref().map(trace::loss_table)),
    ];
    let mut files = Vec::new();
    for (key, name, table) in tables {
        let Some(table) = table else { continue };
        let trace = trace_file(file, index, name);
        output::create_file(&trace, READABLE, &table)?;
        let name = trace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        files.push((key, name));
    }
    Ok(files)
}

/// The trace's file: `FILE-path1-delay.csv` beside `FILE.toml`.
fn trace_file(file: &Path, index: usize, name: &str) -> PathBuf {
    let mut trace = OsString::from(file.file_stem().unwrap_or(file.as_os_str()));
    trace.push(format!("-path{}-{name}.csv", index + 1));
    file.with_file_name(trace)
}
