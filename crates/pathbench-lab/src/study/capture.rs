//! A run's captures against the counters of its transport.

use super::progress::ConductedRun;
use crate::environment::Emulation;
use pathbench_record::document::{CaptureCheck, CapturedPath, PathRecord, RunRecord};
use pathbench_record::file;
use pathbench_record::sample::{Sample, Side};
use pathbench_record::trace::CaptureRecord;
use pathbench_trace::analysis::{Analysis, AnalysisParameters, CaptureSource, analyse, open};
use pathbench_trace::analyzer::{Sequence, TracedSegment};
use pathbench_trace::capture::Frame;
use pathbench_trace::quic::Quic;

/// Payload between TCP's counters and the capture at the moment of a sample: two GSO packets.
const TOLERANCE_BYTES: u64 = 2 << 16;

/// Payload of each capture and sender until a time.
struct Counted {
    paths: Vec<PathCount>,
}

#[derive(Default)]
struct PathCount {
    /// Nanoseconds since 1970 of the last sample, by sender.
    until_ns: [Option<u64>; 2],
    payload: u64,
    retransmitted: u64,
}

impl Sequence for Counted {
    const ACTIVE: bool = true;

    fn segment(&mut self, _: &Frame<'_>, segment: &TracedSegment) {
        let Some((start, end)) = segment.range else { return };
        let Some(path) = self.paths.get_mut(segment.capture as usize) else { return };
        if path.until_ns[segment.sender].is_some_and(|until_ns| segment.time_ns <= until_ns) {
            path.payload += end - start;
            path.retransmitted += segment.retransmitted;
        }
    }
}

pub(super) fn check(run: &mut ConductedRun, emulation: &Emulation) {
    let origin_ns = i128::from(run.origin.as_nanos()) + i128::from(emulation.wall_offset_ns);
    let record = &run.assembled.record;
    let (mut sources, mut names, mut damage) = (Vec::new(), Vec::new(), Vec::new());
    for path in &record.paths {
        let Some(file) = emulation.captures.get(&path.name) else { continue };
        match source(file) {
            Ok(source) => {
                sources.push(source);
                names.push(path);
            }
            Err(error) => damage.push(format!("{}: {error}", path.name)),
        }
    }
    if names.is_empty() {
        return;
    }
    let encrypted = record.transport.is_quic();
    let count = |path: &&PathRecord| PathCount {
        until_ns: [Side::Client, Side::Server].map(|side| {
            // The sender's samples have the counters of the record.
            sends(record, side)
                .then(|| last_sample_ns(&run.assembled.samples, &path.name, side, origin_ns))
                .flatten()
        }),
        ..PathCount::default()
    };
    let counted = Counted { paths: names.iter().map(count).collect() };
    let Analysis { document, sequence: counted, .. } =
        analyse(sources, &AnalysisParameters { most: 1_000, seed: 0 }, Quic::new(None), counted);
    damage.extend(
        document
            .captures
            .iter()
            .filter_map(|capture| Some(format!("{}: {}", capture.file, capture.damage.as_ref()?))),
    );
    let each = names.iter().zip(&counted.paths).zip(&document.captures);
    let paths: Vec<_> =
        each.map(|((path, count), capture)| captured_path(path, count, capture, encrypted)).collect();
    let agrees = (!encrypted).then(|| damage.is_empty() && paths.iter().all(agrees));
    let mptcp = || document.connections.iter().filter(|connection| connection.transport == "mptcp");
    let directions = || mptcp().flat_map(|connection| [&connection.upload, &connection.download]);
    let multipath = mptcp().next().is_some();
    let check = CaptureCheck {
        paths,
        reinjected_bytes: multipath
            .then(|| directions().filter_map(|direction| direction.reinjected_bytes).sum()),
        reinjected_needed_bytes: multipath
            .then(|| directions().filter_map(|direction| direction.reinjected_needed_bytes).sum()),
        agrees,
        damage,
    };
    run.assembled.record.notes.push(note(&check));
    run.assembled.record.capture = Some(check);
}

fn note(check: &CaptureCheck) -> String {
    let names: Vec<&str> = check.paths.iter().map(|path| path.name.as_str()).collect();
    let names = names.join(", ");
    if let Some(damage) = check.damage.first() {
        return format!("capture of {damage}");
    }
    match check.agrees {
        None => format!("captures of {names}: the payload is encrypted and not compared with counters"),
        Some(true) => format!(
            "captures of {names}: payload and retransmissions on the wire agree with the kernel's counters"
        ),
        Some(false) => {
            let differing = check.paths.iter().filter(|path| !agrees(path)).map(|path| {
                format!(
                    "{}: {} bytes on the wire, {} counted; retransmitted {} on the wire, {} counted",
                    path.name,
                    path.wire_bytes,
                    path.counted_bytes.unwrap_or(0),
                    path.wire_retransmitted_bytes.unwrap_or(0),
                    path.counted_retransmitted_bytes.unwrap_or(0)
                )
            });
            let differing: Vec<String> = differing.collect();
            format!("captures differ from the kernel's counters: {}", differing.join("; "))
        }
    }
}

fn source(path: &std::path::Path) -> Result<CaptureSource, String> {
    let file = file::open(path).map_err(|error| error.to_string())?;
    open(path.display().to_string(), file).map_err(|error| error.to_string())
}

/// The end sends data of the test.
fn sends(record: &RunRecord, side: Side) -> bool {
    use pathbench_record::direction::Direction;
    let sends = |direction| match side {
        Side::Client => direction == Direction::Upload,
        Side::Server => direction == Direction::Download,
    };
    record.directions.iter().any(|direction| sends(direction.direction))
}

fn last_sample_ns(samples: &[Sample], path: &str, side: Side, origin_ns: i128) -> Option<u64> {
    let of_path = samples.iter().filter(|sample| sample.path == path && sample.side == side);
    let last_ms = of_path.map(|sample| sample.t_ms).reduce(f64::max)?;
    u64::try_from(origin_ns + (last_ms * 1e6).round() as i128).ok()
}

fn captured_path(
    path: &PathRecord,
    count: &PathCount,
    capture: &CaptureRecord,
    encrypted: bool,
) -> CapturedPath {
    let name = path.name.clone();
    if encrypted {
        return CapturedPath { name, wire_bytes: capture.wire_bytes, ..CapturedPath::default() };
    }
    CapturedPath {
        name,
        wire_bytes: count.payload,
        counted_bytes: Some(path.bytes_sent),
        wire_retransmitted_bytes: Some(count.retransmitted),
        counted_retransmitted_bytes: Some(path.retransmitted_bytes),
    }
}

fn agrees(path: &CapturedPath) -> bool {
    let near = |counted: Option<u64>, wire: u64| {
        counted.is_none_or(|counted| counted.abs_diff(wire) <= TOLERANCE_BYTES)
    };
    near(path.counted_bytes, path.wire_bytes)
        && near(path.counted_retransmitted_bytes, path.wire_retransmitted_bytes.unwrap_or(0))
}
