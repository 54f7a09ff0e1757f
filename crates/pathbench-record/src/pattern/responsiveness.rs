//! The rules for the parameters of `responsiveness`.

use super::error::{ParameterError, SHORTEST, block_error, number_error, size_errors};
use crate::response::{LoadPhase, ResponsivenessParameters};
use std::time::Duration;

/// Shortest interval of the probes of `responsiveness`: the server's limit of datagrams.
pub const SHORTEST_PROBE_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn measures_nothing(parameters: &ResponsivenessParameters) -> bool {
    parameters.idle < SHORTEST || parameters.load < SHORTEST || parameters.phases.is_empty()
}

pub(super) fn errors(parameters: &ResponsivenessParameters) -> Vec<ParameterError> {
    let mut wrong = Vec::new();
    if parameters.settle >= parameters.load {
        wrong.push(ParameterError::Settle);
    }
    for (index, phase) in parameters.phases.iter().enumerate() {
        if parameters.phases.iter().take(index).any(|other| other == phase) {
            wrong.push(ParameterError::PhaseTwice { given: LoadPhase::from(*phase).name() });
        }
    }
    if parameters.interval < SHORTEST_PROBE_INTERVAL {
        wrong.push(ParameterError::ProbeInterval { given: parameters.interval });
    } else {
        wrong.extend(number_error(parameters.probes()));
    }
    wrong.extend(size_errors([parameters.probe_bytes, parameters.probe_bytes]));
    wrong.extend(block_error(parameters.block_bytes));
    wrong
}
