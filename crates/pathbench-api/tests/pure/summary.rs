//! The summary of a result.

use pathbench_api::summary::{
    Best, GroupSummary, HandoverSummary, Mode, NetworkKind, Summary, SummaryContext, family_pairs,
};
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverReason, ResultDocument, RunRecord, UnreachableBecause};
use pathbench_record::transport::Transport;
use serde_json::{Value, json};

/// A result of the lab: two paths, a handover and largest delays in its run of mptcp.
fn document() -> ResultDocument {
    let golden = pathbench_testkit::checkout().join("crates/pathbench-record/tests/golden/v1-emulated");
    let text = std::fs::read_to_string(golden.join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn run(transport: Transport, valid: bool, completed: bool, fct_ms: Option<f64>) -> RunRecord {
    let run = document().runs.remove(0);
    RunRecord { transport, label: transport.name().to_owned(), valid, completed, fct_ms, ..run }
}

fn with_runs(runs: Vec<RunRecord>) -> ResultDocument {
    ResultDocument { runs, ..document() }
}

#[test]
fn the_mode_follows_from_the_command() {
    let mode = |name: &str, has_links: bool| {
        let mut document = document();
        name.clone_into(&mut document.scenario.name);
        if !has_links {
            document.links.clear();
        }
        Summary::from_document(&document, SummaryContext::default()).mode
    };
    assert_eq!(mode("test", false), Mode::Stable);
    assert_eq!(mode("roam", false), Mode::Mobile);
    assert_eq!(mode("failover", true), Mode::Lab);
    assert_eq!(mode("mtu", false), Mode::Other);
}

#[test]
fn the_networks_of_a_lab_are_the_emulated_paths_of_its_runs() {
    let runs = vec![run(Transport::Mptcp, true, true, None), run(Transport::Mpquic, true, true, None)];
    let summary = Summary::from_document(&with_runs(runs), SummaryContext::default());
    let networks: Vec<_> = summary.networks.iter().map(|one| (one.path.as_str(), one.kind)).collect();
    assert_eq!(networks, [("eth", NetworkKind::Emulated), ("wlan", NetworkKind::Emulated)]);
}

#[test]
fn a_summary_has_the_chosen_server_its_groups_and_its_reachability() {
    let mut document = document();
    let mut other = document.servers[0].clone();
    (other.name, other.chosen) = (Some("Ghent".to_owned()), false);
    document.servers.insert(0, other);
    let summary =
        Summary::from_document(&document, SummaryContext { started_ms: 7, ..SummaryContext::default() });
    assert_eq!(summary.server.unwrap().as_str(), "Louvain");
    assert_eq!(summary.started_ms, 7);
    let [GroupSummary { label, pattern, variant, runs, valid, figures, shares, .. }] = &summary.groups[..]
    else {
        panic!("{:?}", summary.groups)
    };
    assert_eq!((label.as_str(), pattern.as_str(), *runs, *valid), ("mptcp", "throughput", 7, 6));
    assert_eq!(variant.as_ref().unwrap().as_str(), "1gbit");
    let figures: Vec<_> = figures.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(figures, [("goodput_mbps", 1214.5)], "the median");
    let shares: Vec<_> = shares.iter().map(|(path, value)| (path.as_str(), *value)).collect();
    assert_eq!(shares, [("eth", 0.77), ("wlan", 0.23)]);
    let [reachability] = &summary.reachability[..] else { panic!("{:?}", summary.reachability) };
    assert_eq!(
        (reachability.transport, reachability.port, reachability.reachable),
        (Transport::Quic, 443, false)
    );
    assert_eq!(reachability.rtt_ms, Some(22.5));
    assert_eq!(reachability.error_kind, Some(UnreachableBecause::Timeout));
}

#[test]
fn only_valid_runs_have_handovers_and_pairs_of_delays() {
    let summary = |mptcp_is_valid: bool| {
        let mut mpquic = run(Transport::Mpquic, true, true, None);
        mpquic.handover = None;
        mpquic.directions[0].delay_ms.as_mut().unwrap().max = 4000.0;
        let runs = vec![run(Transport::Mptcp, mptcp_is_valid, true, None), mpquic];
        Summary::from_document(&with_runs(runs), SummaryContext::default())
    };
    let valid = summary(true);
    assert_eq!(
        valid.handovers,
        [HandoverSummary {
            transport: Transport::Mptcp,
            reason: HandoverReason::UnderRto,
            duration_sent_ms: Some(412.5),
            duration_received_ms: Some(-230.75),
        }]
    );
    let pairs: Vec<_> =
        valid.delay_pairs.iter().map(|pair| (pair.direction, pair.mptcp_ms, pair.mpquic_ms)).collect();
    assert_eq!(pairs, [(Direction::Upload, 5000.0, 4000.0)]);
    let invalid = summary(false);
    assert!(invalid.handovers.is_empty() && invalid.delay_pairs.is_empty());
}

#[test]
fn a_pair_of_ip_versions_has_the_medians_of_their_valid_completed_runs() {
    let ipv4 = with_runs(vec![
        run(Transport::Tcp, true, true, Some(100.0)),
        run(Transport::Tcp, true, true, Some(300.0)),
        run(Transport::Tcp, false, true, Some(9000.0)),
        run(Transport::Tcp, true, false, Some(9000.0)),
        run(Transport::Quic, true, true, Some(50.0)),
        run(Transport::Mptcp, true, true, Some(0.0)),
    ]);
    let ipv6 = with_runs(vec![
        run(Transport::Tcp, true, true, Some(150.0)),
        run(Transport::Mptcp, true, true, Some(80.0)),
    ]);
    let pairs: Vec<_> =
        family_pairs(&ipv4, &ipv6).iter().map(|pair| (pair.transport, pair.ipv4_ms, pair.ipv6_ms)).collect();
    assert_eq!(pairs, [(Transport::Tcp, 200.0, 150.0)], "a time of 0 has no ratio");
}

fn group(label: &str, pattern: &str, valid: u32, figures: &Value) -> Value {
    json!({
        "label": label, "pattern": pattern, "runs": 3, "valid": valid, "completed": 3, "multipath_used": 0,
        "figures": figures,
    })
}

#[test]
fn the_figure_of_a_transport_is_that_of_its_best_path_with_valid_runs() {
    let mut summary = Summary::from_document(&document(), SummaryContext::default());
    let groups = json!([
        group("tcp@wlan", "bulk", 3, &json!({ "goodput_mbps": 20.0, "fct_ms": 900.0 })),
        group("tcp@lte", "bulk", 1, &json!({ "goodput_mbps": 30.0, "fct_ms": 700.0 })),
        group("tcp@eth", "bulk", 0, &json!({ "goodput_mbps": 90.0, "fct_ms": 10.0 })),
        group("tcp", "ping", 3, &json!({ "goodput_mbps": 95.0, "fct_ms": 5.0 })),
        group("mptcp", "bulk", 3, &json!({ "goodput_mbps": 50.0 })),
    ]);
    summary.groups = serde_json::from_value(groups).unwrap();
    let figure = |transport, name: &str, best| summary.figure(transport, "bulk", name, best);
    assert_eq!(figure(Transport::Tcp, "goodput_mbps", Best::Highest), Some(30.0));
    assert_eq!(figure(Transport::Tcp, "goodput_mbps", Best::Lowest), Some(20.0));
    assert_eq!(figure(Transport::Tcp, "fct_ms", Best::Lowest), Some(700.0));
    assert_eq!(figure(Transport::Mptcp, "goodput_mbps", Best::Highest), Some(50.0));
    assert_eq!(figure(Transport::Mptcp, "fct_ms", Best::Lowest), None);
    assert_eq!(figure(Transport::Quic, "goodput_mbps", Best::Highest), None);
}
