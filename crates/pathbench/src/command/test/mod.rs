//! `test`: the suite against the nearest of several servers. The command tries every transport on every port, then
//! runs each pattern on each working transport in seeded random order, and monitors the host's network.

mod labels;
mod plan;
mod runs;

pub(crate) use plan::TestArgs;

use crate::client::discovery::Reached;
use crate::client::{TestClient, network};
use crate::command::record::{self, LineRecorder};
use crate::session::MeasurementSession;
use crate::study;
use crate::study::StudyArgs;
use labels::labels_of;
use pathbench_analysis::assembly::ClientPath;
use pathbench_lab::study::ending::StoppingRule;
use pathbench_lab::study::is_ending_note;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::connection::Scheduler;
use pathbench_record::directory::Resumed;
use pathbench_record::document::{ResultDocument, RunRecord, StudyRecord};
use pathbench_record::network::{MOST_TEST_PATHS, ServerName};
use pathbench_record::time::SharedClock;
use pathbench_record::transport::Transport;
use plan::SuitePlan;
use runs::{Ended, TestSuite};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// `options` are the options that differ from their defaults.
pub(crate) fn test(
    args: &TestArgs,
    options: Map<String, Value>,
    clock: &SharedClock,
) -> Result<Exit, Failure> {
    let (plan, servers) = plan(args)?;
    record::require_new(args.record.as_deref())?;
    let client =
        TestClient::new(&args.server, plan.scheduler.clone(), args.traffic.congestion.clone(), clock);
    let submitter = args.submit.submitter(clock)?;
    let mut session =
        MeasurementSession::begin("test", &args.output, args.tui, args.traffic.seed, options, clock);
    session.submitter = submitter;
    let measured = measure(&plan, args, &client, servers, &mut session);
    session.finish(measured)
}

pub(crate) fn plan(args: &TestArgs) -> Result<(SuitePlan, Vec<ServerName>), Failure> {
    let paths = args.server.server.interfaces.len();
    let mut plan = SuitePlan::new(&args.traffic, args.server.tls, &args.study);
    if paths > MOST_TEST_PATHS {
        let mistake =
            format!("--path: {paths} paths are named, and at most {MOST_TEST_PATHS} are measured together");
        plan = Err([plan.err().unwrap_or_default(), vec![mistake]].concat());
    }
    args.server.validate(&args.servers, plan, |plan| &plan.choice)
}

fn measure(
    plan: &SuitePlan,
    args: &TestArgs,
    client: &TestClient,
    servers: Vec<ServerName>,
    session: &mut MeasurementSession,
) -> Result<Exit, Failure> {
    let (begun, study) = (client.clock.now(), &args.study);
    let (mut writer, found) = match session.open_study(study.resume.as_deref())? {
        Resumed::Finished(found) => return all_made(plan, study, *found, session),
        Resumed::Unfinished(writer, found) => (writer, found),
    };
    if let Some(found) = &found {
        // They stay if this session fails.
        session.document.runs.clone_from(&found.runs);
        take_seed(session, found);
    }
    let stop = Arc::clone(&session.stop);
    let choice = plan.choice_to_reach(args.record.is_some());
    let mut reached = session.reach(client, &choice, servers, "The suite against")?;
    let flows = plan::udp_endpoint(&reached.endpoints);
    reached.notes.extend(plan.settle_endpoints(&mut reached.endpoints));
    let paths = match reached.endpoints.values().next() {
        Some(&address) => client.paths_to(address).map_err(Failure::failed)?,
        None => Vec::new(),
    };
    session.record_notes(notes(&reached, &paths));
    let labels = labels_of(reached.endpoints.keys(), &paths);
    let names = labels.iter().map(ToString::to_string).collect();
    session.document.study = Some(study_record(plan, study, names, &session.document.host.started));
    session.document.identify_study();
    continue_study(session, found, &writer.path)?;
    let ending = StoppingRule::new(begun, study.time_limit.map(|limit| limit.0), study.until_ci);
    let suite = TestSuite::new(client, plan, &reached, &labels, paths.len(), &stop, ending)?;
    let ended = suite.run_all(session, &mut writer)?;
    let recorded = match args.record.as_deref().filter(|_| !ended.by_user) {
        Some(file) => record_lines(file, client, &reached, flows, session),
        None => Ok(()),
    };
    // The suite's result is complete without the recorded lines.
    writer.finish(&session.document).map_err(Failure::failed)?;
    recorded.map(|()| verdict(plan, &session.document, &ended))
}

/// Measures each path alone, and writes the scenario `file`.
fn record_lines(
    file: &Path,
    client: &TestClient,
    reached: &Reached,
    flows: Result<SocketAddr, String>,
    session: &mut MeasurementSession,
) -> Result<(), Failure> {
    let address = reached.udp_address().ok_or_else(|| Failure::failed("no transport works"))?;
    let mut paths = client.paths_to(address).map_err(Failure::failed)?;
    paths.truncate(MOST_TEST_PATHS);
    let recorder = LineRecorder {
        client,
        reached,
        flows,
        paths: &paths,
        stop: &session.stop,
        progress: &session.progress,
    };
    let lines = recorder.record(&session.document.host.started)?;
    let line = record::write(file, &lines)?;
    session.progress.line(&line);
    session.document.summary.notes.push(line);
    Ok(())
}

/// The seed of the study that this session continues, unless the user gave one.
fn take_seed(session: &mut MeasurementSession, found: &ResultDocument) {
    if !session.has_seed {
        session.document.seed = found.seed;
    }
}

fn study_record(plan: &SuitePlan, study: &StudyArgs, labels: Vec<String>, started: &str) -> StudyRecord {
    let (labels_and_patterns, repetitions) = (labels.len() * plan.patterns.len(), plan.repeat);
    StudyRecord {
        planned_runs: labels_and_patterns as u64 * u64::from(repetitions),
        repetitions,
        warm_up: plan.warm_up,
        labels,
        shard: study.shard,
        until_ci_percent: study.until_ci,
        retry_invalid: Some(study.retry_invalid),
        time_limit_ms: study.time_limit.map(|limit| limit.0.as_secs_f64() * 1e3),
        sessions: vec![started.to_owned()],
        ..StudyRecord::default()
    }
}

/// Puts the runs and notes of earlier sessions, if there are any, into the session's document.
fn continue_study(
    session: &mut MeasurementSession,
    found: Option<Box<ResultDocument>>,
    directory: &Path,
) -> Result<(), Failure> {
    let now = session.document.clone();
    let notes = now.summary.notes.clone();
    session.document = study::continue_result(found, now, directory)?;
    let all = &mut session.document.summary.notes;
    all.retain(|note| !is_ending_note(note));
    let fresh: Vec<String> = notes.into_iter().filter(|note| !all.contains(note)).collect();
    all.extend(fresh);
    Ok(())
}

/// Presents a study of which every run was made earlier. It needs no server.
fn all_made(
    plan: &SuitePlan,
    study: &StudyArgs,
    found: ResultDocument,
    session: &mut MeasurementSession,
) -> Result<Exit, Failure> {
    take_seed(session, &found);
    let labels = found.study.as_ref().map(|study| study.labels.clone()).unwrap_or_default();
    let record = study_record(plan, study, labels, &session.document.host.started);
    let now =
        ResultDocument { study: Some(record), servers: found.servers.clone(), ..session.document.clone() };
    session.document.runs.clone_from(&found.runs);
    study::check_identity(&found, &now, study.resume.as_deref().unwrap_or(Path::new("")))?;
    session.document = found;
    session.progress.line("all runs of this study were made earlier");
    Ok(verdict(plan, &session.document, &Ended::default()))
}

/// Notes that a reader needs before reading the figures.
fn notes(reached: &Reached, paths: &[ClientPath]) -> Vec<String> {
    let mut notes = reached.notes.clone();
    if paths.len() < 2 && reached.endpoints.keys().any(|transport| transport.is_multipath()) {
        let name = paths.first().map_or("none is known", |path| path.name.as_str());
        notes.push(format!("this host has one path to the server ({name}): multipath has nothing to add"));
    }
    if paths.len() > MOST_TEST_PATHS {
        let left_out: Vec<&str> = paths.iter().skip(MOST_TEST_PATHS).map(|path| path.name.as_str()).collect();
        notes.push(format!(
            "{} paths lead to the server, and the first {MOST_TEST_PATHS} are measured; {} are left out: name others with --path",
            paths.len(),
            left_out.join(", ")
        ));
    }
    if reached.endpoints.contains_key(&Transport::Mptcp) {
        notes.extend(network::mptcp_shortage(paths));
    }
    notes
}

/// The exit code; prints the reason on stderr if the summary does not give it.
fn verdict(plan: &SuitePlan, document: &ResultDocument, ended: &Ended) -> Exit {
    let unused = multipath_unused(plan, &document.runs, &ended.with_several_paths);
    let missing = |transport: &Transport| {
        // The control connection of udp is one of tcp.
        let asked = if *transport == Transport::Udp { Transport::Tcp } else { *transport };
        plan.choice.names(*transport)
            && !document.reachability.iter().any(|one| one.transport == asked && one.reachable)
    };
    if ended.refused {
        Exit::Refused
    } else if ended.by_user || !document.runs.iter().any(|run| run.valid && run.completed) {
        Exit::Failed
    } else if ended.lost || plan.choice.transports.iter().any(missing) {
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
        SuitePlan {
            patterns,
            choice: TransportChoice { transports, named },
            repeat: 1,
            warm_up: 0,
            scheduler,
        }
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
