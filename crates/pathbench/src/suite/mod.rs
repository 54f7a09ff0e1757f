//! `test`: the suite against the nearest of several servers. The command tries every transport on every port, then
//! runs each pattern on each working transport in seeded random order, and monitors the host's network.

mod plan;
mod runs;

pub(crate) use plan::TestArgs;

use crate::client::discovery::Reached;
use crate::client::{Client, network};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::session::Session;
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::connection::Scheduler;
use pathbench_record::document::{ResultDocument, RunRecord};
use pathbench_record::network::ServerName;
use pathbench_record::transport::Transport;
use plan::SuitePlan;
use runs::Suite;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// `options` are the options that differ from their defaults.
pub(crate) fn test(args: &TestArgs, options: Map<String, Value>) -> Result<Exit, Failure> {
    let plan = SuitePlan::new(&args.traffic);
    let (plan, servers) = args.server.validate(&args.servers, plan, |plan| &plan.choice)?;
    let client = Client::new(&args.server, plan.scheduler.clone(), args.traffic.congestion.clone());
    let mut session = Session::begin("test", &args.output, args.tui, args.traffic.seed, options);
    let measured = measure(&plan, &client, servers, &mut session);
    session.finish(measured)
}

fn measure(
    plan: &SuitePlan,
    client: &Client,
    servers: Vec<ServerName>,
    session: &mut Session,
) -> Result<Exit, Failure> {
    let mut writer = session.create_result()?;
    let stop = Arc::clone(&session.stop);
    let reached = session.reach(client, &plan.choice, servers, "The suite against")?;
    let paths = match reached.places.values().next() {
        Some(&address) => client.paths_to(address).map_err(Failure::failed)?,
        None => Vec::new(),
    };
    session.record_notes(notes(&reached, &paths));
    let mut suite = Suite::new(client, plan, &reached, &stop)?;
    suite.run_all(session, &mut writer)?;
    writer.finish(&session.document).map_err(Failure::failed)?;
    Ok(verdict(plan, &session.document, &suite))
}

/// Notes that a reader needs before reading the figures.
fn notes(reached: &Reached, paths: &[ClientPath]) -> Vec<String> {
    let mut notes = reached.left_out.clone();
    if paths.len() < 2 && reached.places.keys().any(|transport| transport.is_multipath()) {
        let name = paths.first().map_or("none is known", |path| path.name.as_str());
        notes.push(format!("this host has one path to the server ({name}): multipath has nothing to add"));
    }
    if reached.places.contains_key(&Transport::Mptcp) {
        notes.extend(network::mptcp_shortage(paths));
    }
    notes
}

/// The exit code; prints the reason on stderr if the summary does not give it.
fn verdict(plan: &SuitePlan, document: &ResultDocument, suite: &Suite<'_>) -> Exit {
    let unused = multipath_unused(plan, &document.runs, &suite.with_several_paths);
    let missing = |transport: &Transport| {
        plan.choice.names(*transport)
            && !document.reachability.iter().any(|one| one.transport == *transport && one.reachable)
    };
    if suite.refused {
        Exit::Refused
    } else if suite.stopped || !document.runs.iter().any(|run| run.valid && run.completed) {
        Exit::Failed
    } else if suite.is_lost() || plan.choice.transports.iter().any(missing) {
        Exit::Unreachable
    } else if unused.is_empty() {
        Exit::Done
    } else {
        for line in &unused {
            output::note(format_args!("pathbench: {line}"));
        }
        Exit::MultipathNotUsed
    }
}

/// The multipath transports that the user named and that fell back, or used only one path in a run with several paths
/// to the server at its start; each with the reason of its first such run.
fn multipath_unused(
    plan: &SuitePlan,
    runs: &[RunRecord],
    with_several_paths: &BTreeSet<String>,
) -> Vec<String> {
    let unused = |transport: Transport| {
        // The backup scheduler intentionally leaves a backup path unused.
        let by_design = transport == Transport::Mpquic && matches!(plan.scheduler, Scheduler::Backup { .. });
        let run = runs.iter().find(|run| {
            let fell_back = !run.multipath.negotiated;
            let fills =
                plan.patterns.iter().any(|pattern| pattern.name == run.pattern && pattern.fills_paths());
            run.transport == transport
                && run.valid
                && run.completed
                && !run.multipath.used
                && (fell_back || (fills && !by_design && with_several_paths.contains(&run.id)))
        })?;
        plan.choice.names(transport).then(|| format!("{transport}: {}", run.multipath.reason))
    };
    [Transport::Mptcp, Transport::Mpquic].into_iter().filter_map(unused).collect()
}

#[cfg(test)]
mod tests {
    use super::plan::SuitePattern;
    use super::*;
    use crate::arguments::TransportChoice;
    use pathbench_record::document::MultipathRecord;
    use pathbench_record::pattern::{PatternParameters, PingParameters, ThroughputParameters};

    fn plan(transports: Vec<Transport>, named: bool, scheduler: Scheduler) -> SuitePlan {
        let throughput = PatternParameters::Throughput(ThroughputParameters::default());
        let ping = PatternParameters::Ping(PingParameters::default());
        let patterns = vec![
            SuitePattern { name: "throughput-upload", parameters: throughput },
            SuitePattern { name: "ping", parameters: ping },
        ];
        SuitePlan { patterns, choice: TransportChoice { transports, named }, repeat: 1, scheduler }
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
    fn multipath_that_was_named_and_had_the_paths_must_be_used() {
        let several = BTreeSet::from(["throughput-upload".to_owned(), "ping".to_owned()]);
        let one_path = BTreeSet::new();
        let asked = plan(vec![Transport::Mptcp, Transport::Mpquic], true, Scheduler::default());
        let upload = run(Transport::Mptcp, "throughput-upload", true);
        assert_eq!(multipath_unused(&asked, std::slice::from_ref(&upload), &several).len(), 1);
        assert!(multipath_unused(&asked, std::slice::from_ref(&upload), &one_path).is_empty());
        let mut by_default = asked.clone();
        by_default.choice.named = false;
        assert!(multipath_unused(&by_default, &[upload], &several).is_empty());
        // A few bytes do not need a second path; a fallback counts for any amount of data.
        assert!(multipath_unused(&asked, &[run(Transport::Mptcp, "ping", true)], &several).is_empty());
        assert_eq!(multipath_unused(&asked, &[run(Transport::Mptcp, "ping", false)], &one_path).len(), 1);
        let invalid = RunRecord { valid: false, ..run(Transport::Mptcp, "throughput-upload", true) };
        assert!(multipath_unused(&asked, &[invalid], &several).is_empty());
        let with_backup = SuitePlan { scheduler: Scheduler::backup(), ..asked };
        assert!(
            multipath_unused(&with_backup, &[run(Transport::Mpquic, "throughput-upload", true)], &several)
                .is_empty()
        );
    }
}
