//! The load of the machine during a run, and the note on runs whose goodput it lowers.

use crate::scenario::{LinkEngine, TopologyPlan};
use pathbench_host::load::LoadCounters;
use pathbench_record::document::{MachineLoad, RunRecord};
use pathbench_record::time::{Clock, Timestamp};

/// Share of the time in which a task waits for a CPU from which on the goodput of kernel links suffers
/// (docs/lab.md, "Load of the machine").
const CPU_PRESSURE_PERCENT: f64 = 60.0;
/// Share of stolen time from which on the goodput of kernel links suffers.
const STEAL_PERCENT: f64 = 10.0;

/// A measurement of the machine's load.
#[derive(Debug, Clone, Copy)]
pub struct LoadMeter {
    begun: Timestamp,
    counters: LoadCounters,
}

impl LoadMeter {
    pub fn start(clock: &dyn Clock) -> Self {
        Self { begun: clock.now(), counters: LoadCounters::read() }
    }

    /// The load since the start; `None` if the kernel reports none.
    pub fn load(&self, clock: &dyn Clock) -> Option<MachineLoad> {
        LoadCounters::read().load_since(&self.counters, clock.now().duration_since(self.begun))
    }
}

/// A note if the load of the machine lowers the run's goodput. An emulated link under load is late instead, which makes
/// the run invalid; the kernel drops and delays packets of its links without a trace.
pub fn note(record: &RunRecord, topology: &TopologyPlan) -> Option<String> {
    let load = record.load?;
    record.goodput_mbps?;
    let kernel = topology
        .links
        .iter()
        .find(|link| link.engine == LinkEngine::Kernel && topology.is_reported(&link.name))?;
    let above = |figure: Option<f64>, limit: f64| figure.filter(|percent| *percent >= limit);
    let mut causes = Vec::new();
    if let Some(percent) = above(load.cpu_pressure_percent, CPU_PRESSURE_PERCENT) {
        causes.push(format!("tasks waited for a CPU in {percent:.0} % of the time"));
    }
    if let Some(percent) = above(load.steal_percent, STEAL_PERCENT) {
        causes.push(format!("the hypervisor took {percent:.0} % of the CPU time"));
    }
    (!causes.is_empty()).then(|| {
        format!(
            "the machine was loaded: {}; goodput over links of the kernel's engine ({}) can be too low",
            causes.join(", and "),
            kernel.name
        )
    })
}
