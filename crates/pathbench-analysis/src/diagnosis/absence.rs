//! Times in which an established path was unusable: its subflows closed, or its QUIC path suspended.

use super::cause::{Cause, find_cause};
use super::input::{DiagnosisInput, SHORTEST_SILENCE_MS, has_several_paths, is_used};
use super::remedy;
use crate::verdict::failure_words;
use pathbench_record::document::{DiagnosisKind, PathDiagnosis};
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::network::ClientPath;
use pathbench_record::sample::{PathState, Sample, Side};
use std::collections::BTreeMap;

/// A period without a usable subflow.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Absence {
    from_ms: f64,
    /// `None`: it lasted to the end of the run.
    to_ms: Option<f64>,
}

/// Explains the absences of a path with known silences, and merges each with the silences that touch it; all sorted
/// by time. Single-path transports have no absences: the run ends with their path.
pub(super) fn explain(
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    side: Side,
    silences: &mut Vec<PathDiagnosis>,
) {
    if !has_several_paths(input) {
        return;
    }
    let of_side = || input.samples.iter().filter(|sample| sample.side == side);
    let of_path: Vec<&Sample> = of_side().filter(|sample| sample.path == path.name).collect();
    // A closed path has no further samples.
    let Some(last_ms) = of_side().next_back().map(|sample| sample.t_ms) else { return };
    let carried = is_used(input, path);
    for absence in absences(&of_path, &suspensions(input, path, side)) {
        let end_ms = absence.to_ms.unwrap_or(last_ms);
        if end_ms - absence.from_ms < SHORTEST_SILENCE_MS {
            continue;
        }
        let touches = |known: &PathDiagnosis| {
            known.from_ms.unwrap_or(0.0) <= end_ms
                && known.to_ms.is_none_or(|to_ms| absence.from_ms - to_ms < SHORTEST_SILENCE_MS)
        };
        let touching: Vec<PathDiagnosis> = silences.extract_if(.., |known| touches(known)).collect();
        if let Some(first) = touching.first() {
            silences.push(merged(first, &touching, absence));
        } else if carried {
            silences.push(diagnosis(input, path, side, absence));
        } // Otherwise `unused` explains the path.
        silences.sort_by(|a, b| a.from_ms.unwrap_or(0.0).total_cmp(&b.from_ms.unwrap_or(0.0)));
    }
}

/// The silence `first` and the others that touch an absence, as one period with it.
fn merged(first: &PathDiagnosis, touching: &[PathDiagnosis], absence: Absence) -> PathDiagnosis {
    let later = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b));
    PathDiagnosis {
        from_ms: first.from_ms.map(|from_ms| from_ms.min(absence.from_ms.max(0.0))),
        to_ms: touching.iter().map(|one| one.to_ms).fold(absence.to_ms, later),
        ..first.clone()
    }
}

/// Periods in which all established subflows were closed, and periods in which the path was suspended.
fn absences(of_path: &[&Sample], suspensions: &[Absence]) -> Vec<Absence> {
    let mut states: BTreeMap<(u32, u32), PathState> = BTreeMap::new();
    let mut found: Vec<Absence> = Vec::new();
    let mut away = false;
    for sample in of_path {
        states.insert((sample.stream, sample.figures.subflow), sample.figures.state);
        let is_open = states.values().any(|state| *state == PathState::Open);
        let was_open = states.values().any(|state| *state == PathState::Closed);
        if is_open && away {
            if let Some(last) = found.last_mut() {
                last.to_ms = Some(sample.t_ms);
            }
        } else if !is_open && was_open && !away {
            found.push(Absence { from_ms: sample.t_ms, to_ms: None });
        }
        away = !is_open && was_open;
    }
    found.extend(suspensions);
    found.sort_by(|a, b| a.from_ms.total_cmp(&b.from_ms));
    found.dedup_by(|later, earlier| {
        let one = earlier.to_ms.is_none_or(|to_ms| later.from_ms - to_ms < SHORTEST_SILENCE_MS);
        if one {
            earlier.to_ms = earlier.to_ms.zip(later.to_ms).map(|(a, b)| a.max(b));
        }
        one
    });
    found
}

fn quic_events<'a>(
    input: &'a DiagnosisInput<'_>,
    path: &'a ClientPath,
    side: Side,
) -> impl Iterator<Item = &'a Event> {
    let is_of_client = |event: &Event| {
        let local = event.detail.get("local").and_then(|local| local.as_str()?.parse().ok());
        local.is_some_and(|local| path.addresses.contains(&local))
    };
    input
        .events
        .iter()
        .filter(|event| event.source == EventSource::Quic && event.path.as_ref() == Some(&path.name))
        .filter(move |event| is_of_client(event) == (side == Side::Client))
}

fn suspensions(input: &DiagnosisInput<'_>, path: &ClientPath, side: Side) -> Vec<Absence> {
    let mut found: Vec<Absence> = Vec::new();
    for event in quic_events(input, path, side) {
        let open = found.last_mut().filter(|last| last.to_ms.is_none());
        match (&event.kind, open) {
            (EventKind::PathSuspended, None) => found.push(Absence { from_ms: event.t_ms, to_ms: None }),
            // The samples show the other cases.
            (
                EventKind::PathResumed
                | EventKind::PathEstablished
                | EventKind::PathGivenUp
                | EventKind::PathAbandoned,
                Some(last),
            ) => {
                last.to_ms = Some(event.t_ms);
            }
            _ => {}
        }
    }
    found
}

fn diagnosis(input: &DiagnosisInput<'_>, path: &ClientPath, side: Side, absence: Absence) -> PathDiagnosis {
    let why = why(input, path, side, absence);
    let cause = find_cause(input, path, absence.from_ms, absence.to_ms, 0);
    let (because, remedy) = match cause {
        Some(Cause::Gone { words, ordered, restored }) => (
            format!(
                "{words} took the path away{}; {why}",
                restored.map(|back| format!(", and {} gave it back", back.words)).unwrap_or_default()
            ),
            remedy::taken_away(input, path, ordered, None),
        ),
        Some(Cause::Smaller { .. }) | None => (why, remedy::dead(path)),
    };
    PathDiagnosis {
        path: path.name.clone(),
        side,
        kind: DiagnosisKind::Stale,
        from_ms: Some(absence.from_ms.max(0.0)),
        to_ms: absence.to_ms,
        because,
        remedy,
    }
}

fn why(input: &DiagnosisInput<'_>, path: &ClientPath, side: Side, absence: Absence) -> String {
    if input.connection.quic.is_some() {
        let end_ms = absence.to_ms.unwrap_or(f64::INFINITY);
        let around =
            |event: &&Event| event.t_ms > absence.from_ms - SHORTEST_SILENCE_MS && event.t_ms < end_ms;
        let reason = |event: &Event| match event.kind {
            EventKind::PathSuspended => Some("no packet arrived on it".to_owned()),
            EventKind::PathGivenUp | EventKind::PathAbandoned => {
                let reason = event
                    .detail
                    .get("reason")
                    .and_then(|reason| reason.as_str())
                    .unwrap_or("no reason given");
                Some(format!("it was given up: {reason}"))
            }
            _ => None,
        };
        let reported = quic_events(input, path, side).filter(around).find_map(reason);
        return reported.unwrap_or_else(|| "its QUIC path was closed".to_owned());
    }
    let failure = input
        .connection
        .join_failures
        .iter()
        .find(|failure| failure.local.is_some_and(|local| path.addresses.contains(&local.ip())));
    let closed = match failure {
        Some(failure) => failure_words(failure),
        None => "its subflow was closed".to_owned(),
    };
    match absence.to_ms {
        Some(_) => closed,
        None => format!("{closed}, and no other was opened in its place"),
    }
}
