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

/// Least part of the time in which a thread was ready that it ran: below it, other programs have the CPUs.
const LEAST_RAN: f64 = 1.0 / 3.0;

/// Why the times of this end's threads do not show a limit of the test's own; `None` if they can.
pub(super) fn undecided(used: &CpuUse) -> Option<String> {
    if let Some(percent) = used.stolen_percent.filter(|percent| *percent >= STOLEN_PERCENT) {
        return Some(format!("the hypervisor gave {percent} % of the machine's CPU time to other machines"));
    }
    let [ran, waited] = used.busiest.shares();
    let is_crowded_out = ran + waited >= ALL_THE_TIME && ran < LEAST_RAN * (ran + waited);
    is_crowded_out.then(|| {
        format!(
            "its busiest thread ran {:.0} % of the time, and others had the CPUs {:.0} %",
            ran * 100.0,
            waited * 100.0
        )
    })
}

/// Whether the CPU time of an end is undecided.
pub(super) fn is_undecided(input: &LimitInput<'_>) -> bool {
    let mut used = [input.sender, input.receiver].into_iter().flatten().filter_map(|end| end.cpu);
    used.any(|used| undecided(&used).is_some())
}

pub(super) fn limits(input: &LimitInput<'_>) -> impl Iterator<Item = LimitRecord> {
    let ends = [(LimitKind::SenderCpu, input.sender), (LimitKind::ReceiverCpu, input.receiver)];
    ends.into_iter().filter_map(|(kind, end)| {
        let used = end?.cpu.filter(|used| undecided(used).is_none())?;
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
