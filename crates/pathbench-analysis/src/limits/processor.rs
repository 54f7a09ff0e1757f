//! A thread that used a CPU all the time.

use super::input::{LimitInput, record};
use pathbench_record::document::{LimitKind, LimitRecord};

/// Fraction of its time in which a limiting thread ran or was ready to run: the rest are its waits for the other threads of
/// the test, which the same CPUs run.
const ALL_THE_TIME: f64 = 0.8;

pub(super) fn limits(input: &LimitInput<'_>) -> impl Iterator<Item = LimitRecord> {
    let ends = [(LimitKind::SenderCpu, input.sender), (LimitKind::ReceiverCpu, input.receiver)];
    ends.into_iter().filter_map(|(kind, end)| {
        let [ran, waited] = end?.cpu?.busiest.shares();
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
