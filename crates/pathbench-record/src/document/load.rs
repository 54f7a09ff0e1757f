//! The load of a machine during a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pressure stall information (PSI) and stolen time of a machine during a run. Each figure is absent where the kernel does
/// not report it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct MachineLoad {
    /// Time between the two readings.
    pub measured_ms: f64,
    /// Share of that time in which at least one task waited for a CPU (`some` of `/proc/pressure/cpu`).
    pub cpu_pressure_percent: Option<f64>,
    /// Share of that time in which at least one task waited for input or output (`some` of `/proc/pressure/io`).
    pub io_pressure_percent: Option<f64>,
    /// Share of that time in which at least one task waited for memory (`some` of `/proc/pressure/memory`).
    pub memory_pressure_percent: Option<f64>,
    /// Share of the time of all CPUs that the hypervisor gave to other machines (`steal` of `/proc/stat`).
    pub steal_percent: Option<f64>,
}
