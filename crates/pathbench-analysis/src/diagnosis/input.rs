//! The evidence for diagnoses.

use crate::verdict::{self, VerdictInput};
use pathbench_record::connection::Negotiation;
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::network::ClientPath;
use pathbench_record::sample::{Sample, Side};
use pathbench_record::transport::Transport;

/// Shorter silences are not diagnosed: losses, handovers and timeouts cause them on a healthy path.
pub const SHORTEST_SILENCE_MS: f64 = 1000.0;

/// Unknown values stay empty or `None`; an unknown value never counts against a path.
#[derive(Debug, Clone)]
pub struct DiagnosisInput<'a> {
    pub transport: Transport,
    /// The server as given by the user, for the remedy's command; `None` in a lab.
    pub server: Option<&'a str>,
    /// The ends that had data to send.
    pub senders: &'a [Side],
    /// The planned paths of the connection, the initial one first; for a single-path transport only its own path.
    pub planned: &'a [ClientPath],
    /// Samples of both ends on the run's clock.
    pub samples: &'a [Sample],
    /// The run's events, on its clock; `path` is the name of a path or of a link.
    pub events: &'a [Event],
    /// The verdict's input: negotiation, delivered bytes per path, counters, set-up, joins, QUIC paths.
    pub connection: &'a VerdictInput,
}

/// The first sending end, for the diagnosis of an unused path.
pub(super) fn first_sender(input: &DiagnosisInput<'_>) -> Side {
    input.senders.first().copied().unwrap_or(Side::Client)
}

/// When the application gave up the connection. Events after that moment explain nothing about the connection.
pub(super) fn given_up_ms(input: &DiagnosisInput<'_>) -> Option<f64> {
    let gave_up = |event: &&Event| event.source == EventSource::Observer && event.kind == EventKind::GaveUp;
    input.events.iter().find(gave_up).map(|event| event.t_ms)
}

pub(super) fn is_used(input: &DiagnosisInput<'_>, path: &ClientPath) -> bool {
    let paths = &input.connection.paths;
    let total = paths.iter().map(|path| path.delivered_bytes).fold(0, u64::saturating_add);
    paths.iter().any(|delivery| delivery.name == path.name && verdict::is_used(delivery, total))
}

/// Whether several paths were in force, so that one without data needs an explanation.
pub(super) fn has_several_paths(input: &DiagnosisInput<'_>) -> bool {
    input.transport.is_multipath() && input.connection.negotiation == Negotiation::Negotiated
}
