//! Why a path carried nothing, during all of a run or a part of it.
//!
//! Pure: evidence in, diagnoses out. The view of the sending end counts. A path is *silent* while data sent on it is
//! outstanding and no acknowledgement arrives (`course`). An event on the path or its signs explain a silence, or the
//! silence remains unexplained (`silence`). A path without open subflows is reported as well (`absence`). Set-up and
//! opening of the path explain a path that never had data outstanding (`unused`). `docs/metrics.md` defines the
//! signs.

mod absence;
mod cause;
mod course;
mod initial;
mod input;
mod remedy;
mod silence;
mod unused;

pub use input::{DiagnosisInput, SHORTEST_SILENCE_MS};

use pathbench_record::document::PathDiagnosis;
use pathbench_record::network::ClientPath;
use pathbench_record::sample::Side;

/// Maximum number of reported silences per path; the longest are kept.
pub const MOST_SILENCES: usize = 5;

/// Explains every path that carried nothing, in the order of `planned`; the silences of each path are sorted by time.
pub fn diagnose(input: &DiagnosisInput<'_>) -> Vec<PathDiagnosis> {
    let mut found = Vec::new();
    for path in input.planned {
        let mut of_path: Vec<PathDiagnosis> =
            input.senders.iter().flat_map(|&side| of_side(input, path, side)).collect();
        let initial = initial::explain(input, path);
        if initial.is_none() && of_path.is_empty() {
            of_path.extend(unused::explain(input, path));
        }
        found.extend(initial);
        found.append(&mut of_path);
    }
    found
}

/// Periods in which a path carried nothing although an end had data for it, sorted by time.
fn of_side(input: &DiagnosisInput<'_>, path: &ClientPath, side: Side) -> Vec<PathDiagnosis> {
    let mut found = silences(input, path, side);
    absence::explain(input, path, side, &mut found);
    found
}

/// The silences of a path at one sending end that are long enough to report.
fn silences(input: &DiagnosisInput<'_>, path: &ClientPath, side: Side) -> Vec<PathDiagnosis> {
    let mut found = course::silences(input.samples, &path.name, side);
    found.retain(course::Silence::is_reportable);
    if found.len() > MOST_SILENCES {
        let mut lengths: Vec<f64> = found.iter().map(course::Silence::length_ms).collect();
        lengths.sort_by(|a, b| b.total_cmp(a));
        let shortest = lengths[MOST_SILENCES - 1];
        found.retain(|silence| silence.length_ms() >= shortest);
        found.truncate(MOST_SILENCES);
    }
    let is_only = found.len() == 1;
    let mut diagnoses: Vec<PathDiagnosis> =
        found.iter().map(|one| silence::explain(input, path, side, one, is_only)).collect();
    diagnoses.dedup_by(|later, earlier| join(earlier, later));
    diagnoses
}

/// Merges two diagnoses of the same kind if the gap between them is below [`SHORTEST_SILENCE_MS`].
fn join(earlier: &mut PathDiagnosis, later: &PathDiagnosis) -> bool {
    let gap_ms = later.from_ms.zip(earlier.to_ms).map(|(later, earlier)| later - earlier);
    let one = earlier.kind == later.kind && gap_ms.is_some_and(|gap_ms| gap_ms < SHORTEST_SILENCE_MS);
    if one {
        earlier.to_ms = later.to_ms;
    }
    one
}
