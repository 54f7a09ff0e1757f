//! Why paths of a run carried nothing: what the diagnosis has to know of the run.

use super::{ClientPath, Evidence, sending_side};
use crate::diagnosis::{DiagnosisInput, PlannedPath, diagnose};
use crate::verdict::VerdictInput;
use pathbench_record::document::PathDiagnosis;
use pathbench_record::event::Event;
use pathbench_record::sample::{Sample, Side};

pub(super) fn diagnoses(
    evidence: &Evidence<'_>,
    connection: &VerdictInput,
    samples: &[Sample],
    events: &[Event],
) -> Vec<PathDiagnosis> {
    let senders: Vec<Side> = evidence.directions().iter().map(|&direction| sending_side(direction)).collect();
    diagnose(&DiagnosisInput {
        transport: evidence.label.transport,
        server: evidence.setting.server_address.as_deref(),
        senders: &senders,
        planned: &planned(evidence),
        samples,
        events,
        connection,
    })
}

/// The client's paths that the run was to use, the one to start on first.
fn planned(evidence: &Evidence<'_>) -> Vec<PlannedPath> {
    let first = evidence.label.path.as_deref();
    let mut paths: Vec<&ClientPath> = evidence.setting.paths.iter().collect();
    // Stable: the others keep their order.
    paths.sort_by_key(|path| first.is_some_and(|first| first != path.name));
    let most = if evidence.label.transport.is_multipath() { paths.len() } else { 1 };
    let planned = |path: &ClientPath| PlannedPath {
        name: path.name.clone(),
        interface: path.interface.clone(),
        addresses: path.addresses.clone(),
        backup: path.backup == Some(true),
        mtu_bytes: path.mtu_bytes,
    };
    paths.into_iter().take(most).map(planned).collect()
}
