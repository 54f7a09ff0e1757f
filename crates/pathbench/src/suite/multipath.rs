//! Were several paths used, where that was asked for.

use super::plan::SuitePlan;
use pathbench_record::document::RunRecord;
use pathbench_record::transport::Transport;
use pathbench_transport::Scheduler;
use std::collections::BTreeSet;

/// Multipath transports that the user named and that fell back, or used one path only in a run that began with several
/// ways to the server; each with the reason of its first such run.
pub(super) fn disappointments(
    plan: &SuitePlan,
    runs: &[RunRecord],
    with_several_ways: &BTreeSet<String>,
) -> Vec<String> {
    let disappointed = |transport: Transport| {
        let run = runs.iter().find(|run| {
            // A spare is there to be spared.
            let by_design =
                transport == Transport::Mpquic && matches!(plan.scheduler, Scheduler::Backup { .. });
            let fell_back = !run.multipath.negotiated;
            let fills =
                plan.patterns.iter().any(|pattern| pattern.name == run.pattern && pattern.fills_paths());
            run.transport == transport
                && run.valid
                && run.completed
                && !run.multipath.used
                && (fell_back || (fills && !by_design && with_several_ways.contains(&run.id)))
        })?;
        plan.asks_for(transport).then(|| format!("{transport}: {}", run.multipath.reason))
    };
    [Transport::Mptcp, Transport::Mpquic].into_iter().filter_map(disappointed).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plan::SuitePattern;
    use super::*;
    use pathbench_record::document::MultipathRecord;
    use pathbench_traffic::iperf::IperfParameters;
    use pathbench_traffic::pattern::{PatternParameters, PingParameters};

    fn plan(transports: Vec<Transport>, named: bool, scheduler: Scheduler) -> SuitePlan {
        let iperf = PatternParameters::Iperf(IperfParameters::default());
        let ping = PatternParameters::Ping(PingParameters::default());
        let patterns = vec![
            SuitePattern { name: "iperf-upload", parameters: iperf },
            SuitePattern { name: "ping", parameters: ping },
        ];
        SuitePlan { patterns, transports, named, repeat: 1, scheduler }
    }

    fn run(transport: Transport, pattern: &str, negotiated: bool) -> RunRecord {
        let multipath = MultipathRecord { requested: true, negotiated, ..MultipathRecord::default() };
        RunRecord {
            id: pattern.to_owned(),
            transport,
            pattern: pattern.to_owned(),
            valid: true,
            completed: true,
            multipath,
            ..RunRecord::default()
        }
    }

    #[test]
    fn only_who_asked_for_multipath_and_had_the_paths_is_disappointed() {
        let several = BTreeSet::from(["iperf-upload".to_owned(), "ping".to_owned()]);
        let one_way = BTreeSet::new();
        let asked = plan(vec![Transport::Mptcp, Transport::Mpquic], true, Scheduler::default());
        let upload = run(Transport::Mptcp, "iperf-upload", true);
        assert_eq!(disappointments(&asked, std::slice::from_ref(&upload), &several).len(), 1);
        assert!(disappointments(&asked, std::slice::from_ref(&upload), &one_way).is_empty());
        let by_default = SuitePlan { named: false, ..asked.clone() };
        assert!(disappointments(&by_default, &[upload], &several).is_empty());
        // A few bytes need no second path; a fallback is one whatever was sent.
        assert!(disappointments(&asked, &[run(Transport::Mptcp, "ping", true)], &several).is_empty());
        assert_eq!(disappointments(&asked, &[run(Transport::Mptcp, "ping", false)], &one_way).len(), 1);
        let invalid = RunRecord { valid: false, ..run(Transport::Mptcp, "iperf-upload", true) };
        assert!(disappointments(&asked, &[invalid], &several).is_empty());
        let spared = SuitePlan { scheduler: Scheduler::backup(), ..asked };
        assert!(
            disappointments(&spared, &[run(Transport::Mpquic, "iperf-upload", true)], &several).is_empty()
        );
    }
}
