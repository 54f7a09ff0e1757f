//! Shared by the benchmarks: entering namespaces of their own, resource usage.
#![allow(dead_code, reason = "each benchmark uses its part")]

pub(crate) mod transfer;

use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_lab::agent::AgentLauncher;
use pathbench_lab::environment::Emulation;
use pathbench_lab::scenario::{Overrides, ScenarioSource, VariantPlan, plan};
use pathbench_testkit::{MonotonicClock, in_namespaces};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Resources of emulated links.
pub(crate) fn emulation() -> Emulation {
    Emulation::new(Arc::new(MonotonicClock), 1)
}

/// Runs `benchmark` as the first process of new user, network and PID namespaces; nothing of it is left behind.
pub(crate) fn in_lab_namespaces(benchmark: impl FnOnce() -> Result<(), String>) -> ExitCode {
    in_namespaces(
        || enter_lab(Isolation::User),
        || match benchmark() {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("{message}");
                ExitCode::FAILURE
            }
        },
    )
}

/// How host agents are started: from the binary that cargo built beside the benchmark.
pub(crate) fn launcher() -> AgentLauncher {
    AgentLauncher { program: env!("CARGO_BIN_EXE_pathbench").into(), arguments: vec!["__host".into()] }
}

/// The first variant of a scenario given as text.
pub(crate) fn variant(text: &str) -> Result<VariantPlan, String> {
    let source = ScenarioSource::from_text("benchmark.toml", text);
    let mut plan = plan(&source, &Overrides::default()).map_err(|mistakes| mistakes.to_string())?;
    Ok(plan.variants.remove(0))
}

/// User and system time of all children that have been waited for.
pub(crate) fn children_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    #[expect(unsafe_code, reason = "getrusage has no safe wrapper among our dependencies")]
    // SAFETY: the kernel fills the whole struct, which is plain numbers; on failure it stays zeroed.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Candidate ÷ baseline of paired rounds, with its 95 % interval (Walsh averages) in words.
pub(crate) fn paired_ratio(baseline: &[f64], candidate: &[f64]) -> Option<(f64, String)> {
    let differences: Vec<f64> = baseline.iter().zip(candidate).map(|(a, b)| b.ln() - a.ln()).collect();
    let found = pathbench_analysis::comparison::paired(&differences)?;
    let interval = found.ci95.map(|[low, high]| format!(", 95 % CI {:.2} to {:.2}", low.exp(), high.exp()));
    Some((found.shift.exp(), interval.unwrap_or_default()))
}
