//! Why a path carried nothing, for all of a run or for a part of it.
//!
//! Pure: evidence in, diagnoses out. What counts is what the sending end knew: a path is *silent* while data that was
//! sent there waits for an acknowledgement and none comes (`course`). A silence is explained by what was done to the
//! path, by its signs, or not at all (`silence`); a path whose subflows are
//! gone is told, too (`absence`); one that never had anything to wait for is explained by how it was set up and
//! opened (`unused`). `docs/metrics.md` defines the signs.

mod absence;
mod cause;
mod course;
mod remedy;
mod silence;
mod unused;

use crate::verdict::{self, VerdictInput};
use pathbench_record::connection::Negotiation;
use pathbench_record::document::{DiagnosisKind, PathDiagnosis};
use pathbench_record::event::Event;
use pathbench_record::sample::{Sample, Side};
use pathbench_record::transport::Transport;
use std::net::IpAddr;

/// A silence shorter than this is no diagnosis: losses, handovers and timeouts make such in good health.
pub const SHORTEST_SILENCE_MS: f64 = 1000.0;

/// Silences of one path that are told, the longest first to be kept.
pub const MOST_SILENCES: usize = 5;

/// The evidence. Anything unknown stays empty or `None`; nothing unknown counts against a path.
#[derive(Debug, Clone)]
pub struct DiagnosisInput<'a> {
    pub transport: Transport,
    /// The server as it was given, for the remedy's command; `None` in a lab.
    pub server: Option<&'a str>,
    /// The ends that had data to send.
    pub senders: &'a [Side],
    /// The paths that the connection was to use, the one to start on first; of a single-path transport its own alone.
    pub planned: &'a [PlannedPath],
    /// Samples of both ends on the run's clock.
    pub samples: &'a [Sample],
    /// What happened, on the run's clock; `path` is a path's name or that of a link.
    pub events: &'a [Event],
    /// What the verdict is made of: negotiation, what arrived over each path, counters, set-up, joins, QUIC's paths.
    pub connection: &'a VerdictInput,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedPath {
    pub name: String,
    pub interface: String,
    pub addresses: Vec<IpAddr>,
    pub backup: bool,
    /// MTU of the client's interface, where it is known.
    pub mtu_bytes: Option<u32>,
}

/// Explains every path that carried nothing, in the order of `planned`, each path's silences in order of time.
pub fn diagnose(input: &DiagnosisInput<'_>) -> Vec<PathDiagnosis> {
    let mut found = Vec::new();
    for path in input.planned {
        let mut of_path: Vec<PathDiagnosis> =
            input.senders.iter().flat_map(|&side| of_side(input, path, side)).collect();
        if of_path.is_empty() {
            of_path.extend(unused::explain(input, path));
        }
        found.append(&mut of_path);
    }
    found
}

/// When a path carried nothing although an end had data for it, in order of time.
fn of_side(input: &DiagnosisInput<'_>, path: &PlannedPath, side: Side) -> Vec<PathDiagnosis> {
    let mut found = silences(input, path, side);
    absence::explain(input, path, side, &mut found);
    found.sort_by(|a, b| a.from_ms.unwrap_or(0.0).total_cmp(&b.from_ms.unwrap_or(0.0)));
    found
}

/// The silences of a path at one sending end that are long enough to tell.
fn silences(input: &DiagnosisInput<'_>, path: &PlannedPath, side: Side) -> Vec<PathDiagnosis> {
    let mut found = course::silences(input.samples, &path.name, side);
    found.retain(course::Silence::is_worth_telling);
    if found.len() > MOST_SILENCES {
        let mut lengths: Vec<f64> = found.iter().map(course::Silence::length_ms).collect();
        lengths.sort_by(|a, b| b.total_cmp(a));
        let shortest = lengths[MOST_SILENCES - 1];
        found.retain(|silence| silence.length_ms() >= shortest);
        found.truncate(MOST_SILENCES);
    }
    let is_only = found.len() == 1;
    let mut told: Vec<PathDiagnosis> =
        found.iter().map(|one| silence::explain(input, path, side, one, is_only)).collect();
    told.dedup_by(|later, earlier| join(earlier, later));
    told
}

/// Makes one of two diagnoses of the same kind with next to nothing between them.
fn join(earlier: &mut PathDiagnosis, later: &PathDiagnosis) -> bool {
    let gap_ms = later.from_ms.zip(earlier.to_ms).map(|(later, earlier)| later - earlier);
    let one = earlier.kind == later.kind && gap_ms.is_some_and(|gap_ms| gap_ms < SHORTEST_SILENCE_MS);
    if one {
        earlier.to_ms = later.to_ms;
    }
    one
}

/// The end whose data did not go over a path that nobody used.
fn first_sender(input: &DiagnosisInput<'_>) -> Side {
    input.senders.first().copied().unwrap_or(Side::Client)
}

fn is_used(input: &DiagnosisInput<'_>, path: &PlannedPath) -> bool {
    let paths = &input.connection.paths;
    let total = paths.iter().map(|path| path.delivered_bytes).fold(0, u64::saturating_add);
    paths.iter().any(|delivery| delivery.name == path.name && verdict::is_used(delivery, total))
}

/// Whether several paths were in force, so that one without data wants an explanation.
fn has_several_paths(input: &DiagnosisInput<'_>) -> bool {
    input.transport.is_multipath() && input.connection.negotiation == Negotiation::Negotiated
}

pub(crate) const fn kind_in_words(kind: DiagnosisKind) -> &'static str {
    match kind {
        DiagnosisKind::MtuBlackHole => "MTU black hole suspected",
        DiagnosisKind::Stale => "it went silent",
        DiagnosisKind::Backup => "it is a spare",
        DiagnosisKind::NeverEstablished => "it was never established",
        DiagnosisKind::NoRoute => "there is no route",
        DiagnosisKind::NotChosen => "it was not chosen",
    }
}
