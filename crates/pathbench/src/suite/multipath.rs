//! Is this host set up for several paths, and were they used.

use super::plan::SuitePlan;
use pathbench_host::mptcp::PathManager;
use pathbench_lab::assembly::ClientPath;
use pathbench_record::document::RunRecord;
use pathbench_record::transport::Transport;
use pathbench_transport::{LocalSetup, Scheduler};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// How this host is set up for MPTCP; `None` where the kernel does not tell (before some call it takes privilege).
pub(super) fn kernel_setup(ways: &[ClientPath]) -> Option<LocalSetup> {
    let mut manager = PathManager::open().ok()?;
    let limits = manager.limits().ok()?;
    let endpoints = manager.endpoints().ok()?.into_iter();
    Some(LocalSetup {
        subflow_limit: limits.subflows,
        add_addr_accepted_limit: limits.add_addr_accepted,
        endpoints: endpoints
            .filter(|endpoint| endpoint.flags.subflow || endpoint.flags.fullmesh)
            .map(|endpoint| endpoint.address)
            .collect(),
        addresses: ways.iter().filter_map(|way| way.addresses.first().copied()).collect(),
        initial: None,
        peer_subflow_limit: None,
    })
}

/// What keeps MPTCP from using every one of `ways`, in words; `None` when nothing does.
pub(super) fn shortage(setup: &LocalSetup, ways: &[ClientPath]) -> Option<String> {
    let further = ways.get(1..).unwrap_or_default();
    if further.is_empty() {
        return None;
    }
    if setup.subflow_limit == 0 {
        return Some(
            "mptcp can use one path only, for the limit of additional subflows is 0 on this host; as root: ip \
             mptcp limits set subflows 2"
                .to_owned(),
        );
    }
    let has_endpoint = |way: &&ClientPath| way.addresses.iter().any(|at| setup.endpoints.contains(at));
    let without: Vec<&ClientPath> = further.iter().filter(|way| !has_endpoint(way)).collect();
    let first = without.first()?;
    let names: Vec<&str> = without.iter().map(|way| way.name.as_str()).collect();
    let address = first.addresses.first().copied().unwrap_or(IpAddr::from([0, 0, 0, 0]));
    Some(format!(
        "mptcp has no endpoint on {} and will not use {}; as root: ip mptcp endpoint add {address} dev {} subflow",
        names.join(", "),
        if names.len() == 1 { "it" } else { "them" },
        first.interface
    ))
}

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

    fn way(name: &str, host: u8) -> ClientPath {
        ClientPath {
            name: name.to_owned(),
            interface: name.to_owned(),
            addresses: vec![[192, 0, 2, host].into()],
            backup: None,
        }
    }

    #[test]
    fn a_shortage_names_the_path_and_the_remedy() {
        let ways = [way("eth0", 1), way("wlan0", 2)];
        let mut setup = LocalSetup { subflow_limit: 2, ..LocalSetup::default() };
        let words = shortage(&setup, &ways).unwrap();
        assert!(words.contains("ip mptcp endpoint add 192.0.2.2 dev wlan0 subflow"), "{words}");
        setup.endpoints = vec![[192, 0, 2, 2].into()];
        assert_eq!(shortage(&setup, &ways), None);
        setup.subflow_limit = 0;
        assert!(shortage(&setup, &ways).unwrap().contains("ip mptcp limits set subflows"));
        assert_eq!(shortage(&setup, &ways[..1]), None, "one path is all there is");
    }

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
