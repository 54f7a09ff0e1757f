//! A thread that used a CPU all the time.

use super::input::{LimitInput, record};
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::resource::CpuUse;

/// Fraction of its time in which a limiting thread ran or was ready to run: the rest are its waits for the other threads of
/// the test, which the same CPUs run.
const ALL_THE_TIME: f64 = 0.8;

/// Percentage of stolen CPU time from which the times of threads do not show a limit of the test's own: a thread that is
/// not run by the hypervisor counts as running.
const STOLEN_PERCENT: u32 = 10;

/// The stolen time, where it is too much to decide.
pub(super) fn stolen_percent(used: &CpuUse) -> Option<u32> {
    used.stolen_percent.filter(|percent| *percent >= STOLEN_PERCENT)
}

pub(super) fn limits(input: &LimitInput<'_>) -> impl Iterator<Item = LimitRecord> {
    let ends = [(LimitKind::SenderCpu, input.sender), (LimitKind::ReceiverCpu, input.receiver)];
    ends.into_iter().filter_map(|(kind, end)| {
        let used = end?.cpu.filter(|used| stolen_percent(used).is_none())?;
        let [ran, waited] = used.busiest.shares();
        let demand = (ran + waited).min(1.0);
        let competition = if waited >= 0.1 {
            format!(", and was ready {:.0} % while other threads had the CPUs", waited * 100.0)
        } else {
            String::new()
        };
        let because = format!("its busiest thread ran {:.0} % of the time{competition}", ran * 100.0);
        (demand >= ALL_THE_TIME).then(|| record(input, kind, demand, because))
    })
}
