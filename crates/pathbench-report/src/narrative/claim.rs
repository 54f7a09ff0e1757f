//! The conditions under which a sentence may claim a cause or a fault, checked against the events and the record of a
//! run.

use super::diagnosis::is_trouble;
use crate::restoration::restores;
use crate::run_data::RunData;
use crate::series::BIN_MS;
use pathbench_record::document::{DiagnosisKind, Impact, RunRecord};

/// An event more than this after the last byte is not the cause of a failure.
const AFTER_LAST_BYTE_MS: f64 = 500.0;

/// When the last byte was delivered, as far as the record and its lines tell.
fn last_byte_ms(run: &RunRecord, data: &RunData) -> f64 {
    let line = data.deliveries.iter().rfind(|line| line.bytes > 0);
    line.map_or(run.duration_ms, |line| run.duration_ms.min(line.t_ms + BIN_MS))
}

/// The event after which a run hung: the last one before the end of its data that was neither undone nor recovered
/// from while data still arrived.
pub(crate) fn cause_of_hanging<'a>(run: &'a RunRecord, data: &RunData) -> Option<&'a Impact> {
    let last_ms = last_byte_ms(run, data);
    let is_undone = |impact: &Impact| {
        data.scenario_events().any(|event| {
            restores(&event.kind)
                && event.path == impact.path
                && event.t_ms > impact.at_ms
                && event.t_ms < last_ms
        })
    };
    let preceded = |impact: &&Impact| impact.at_ms <= last_ms + AFTER_LAST_BYTE_MS;
    run.impacts.iter().filter(preceded).rfind(|impact| impact.recovery_ms.is_none() && !is_undone(impact))
}

/// Whether multipath was not used because the other paths are backups that no fault required.
pub(crate) fn is_spare_unneeded(run: &RunRecord) -> bool {
    let is_backup = |kind: DiagnosisKind| kind == DiagnosisKind::Backup;
    run.multipath.negotiated
        && !run.multipath.used
        && run.completed
        && run.diagnoses.iter().any(|one| is_backup(one.kind))
        && !run.diagnoses.iter().any(is_trouble)
}
