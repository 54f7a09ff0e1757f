//! `test`: the suite against a server. The nearest of several is chosen, every transport is tried on every port, then
//! each pattern runs on each transport that works, in seeded random order, while the host's network is watched.

use crate::client::discovery::Approach;
use crate::client::network::{Judge, NetworkWatch};
use crate::client::paths::HostNetwork;
use crate::client::server::ServerName;
use crate::client::{Client, mptcp};
use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::result::{begin_result, host_record, remove_empty};
use crate::{output, random, report, signals};
use display::Display;
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::connection::Scheduler;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{ResultDocument, RunRecord, ScenarioRecord};
use pathbench_record::transport::Transport;
use pathbench_transport::mptcp_available;
use plan::SuitePlan;
pub(crate) use plan::TestArgs;
use runs::{Ending, Lookout, Suite, announcement};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod display;
mod plan;
mod runs;

/// Name of a result of this command.
const NAME: &str = "test";

/// `given` are the options that differ from their defaults.
pub(crate) fn test(args: &TestArgs, given: Map<String, Value>) -> Result<Exit, Failure> {
    let (plan, servers, client) = validate(args)?;
    let stop = signals::stop_flag();
    let mut display = Display::new(args.quiet);
    let started = rfc3339_from_unix(unix_seconds() as i64);
    // Made before anything is sent, so that nobody measures for minutes and then cannot write.
    let writer = begin_result(args.out.as_deref(), NAME, &started)?;
    let directory = writer.path().to_owned();
    let mut document =
        ResultDocument { seed: args.traffic.seed.unwrap_or_else(random::seed), ..ResultDocument::default() };
    document.host = host_record("user", started);
    document.scenario.overrides = given;
    let job = Job { args, plan: &plan, client: &client, stop: &stop };
    let ending = job.measure(servers, &mut display, writer, &mut document);
    display.end();
    let ending = ending.inspect_err(|_| {
        // Where nothing was measured, no trace of it stays.
        if document.runs.is_empty() {
            remove_empty(&directory);
        }
    })?;
    report::present(&directory, &document, args.presentation)?;
    Ok(verdict(&plan, &document, &ending))
}

/// Everything that can be wrong before anything is sent.
fn validate(args: &TestArgs) -> Result<(SuitePlan, Vec<ServerName>, Client), Failure> {
    let mut mistakes = Vec::new();
    let mut servers = Vec::new();
    for given in &args.servers {
        match ServerName::parse(given, args.port) {
            Ok(server) => servers.push(server),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let plan = SuitePlan::of(&args.traffic);
    if let Err(of_plan) = &plan {
        mistakes.extend(of_plan.iter().cloned());
    }
    mistakes.extend(args.access.mistake());
    let (Ok(plan), true) = (plan, mistakes.is_empty()) else {
        return Err(Failure::bad_input(mistakes.join("\n")));
    };
    if plan.asks_for(Transport::Mptcp)
        && let Err(unavailable) = mptcp_available()
    {
        return Err(Failure::host_cannot(unavailable));
    }
    let bind = !args.traffic.paths.is_empty();
    let client = Client::wishing(&args.access, plan.scheduler.clone(), args.traffic.congestion.clone(), bind);
    Ok((plan, servers, client))
}

/// One call of the command.
struct Job<'a> {
    args: &'a TestArgs,
    plan: &'a SuitePlan,
    client: &'a Client,
    stop: &'a Arc<AtomicBool>,
}

impl Job<'_> {
    /// Chooses the server, finds out what works and makes all runs.
    fn measure(
        &self,
        servers: Vec<ServerName>,
        display: &mut Display,
        mut writer: ResultWriter,
        document: &mut ResultDocument,
    ) -> Result<Ending, Failure> {
        let approach = Approach {
            client: self.client,
            access: &self.args.access,
            transports: &self.plan.transports,
            named: self.plan.named,
            interfaces: &self.args.traffic.paths,
            family: self.args.family.only(),
            stop: self.stop,
        };
        let reached = approach.find(servers, &|line| display.line(line))?;
        document.servers = reached.servers;
        document.reachability = reached.reachability;
        let overrides = std::mem::take(&mut document.scenario.overrides);
        document.scenario = ScenarioRecord {
            name: NAME.to_owned(),
            description: format!("The suite against {}", reached.server),
            origin: "command line".to_owned(),
            text: String::new(),
            overrides,
        };
        let suite = Suite {
            approach,
            client: self.client,
            plan: self.plan,
            server: &reached.server,
            places: reached.places,
            stop: self.stop,
        };
        let ways = match suite.places.values().next() {
            Some(&address) => approach.ways(address).map_err(Failure::failed)?,
            None => Vec::new(),
        };
        let notes = [reached.left_out, Self::notes(&suite, &ways)].concat();
        for note in &notes {
            display.line(&format!("note: {note}"));
        }
        document.summary.notes = notes;
        let (order, total) = suite.order(document.seed);
        display.line(&announcement(&suite, order.len(), total, document.seed));
        let network = HostNetwork::read().map_err(Failure::failed)?;
        let watch = NetworkWatch::start(&self.client.clock).map_err(Failure::failed)?;
        let mut lookout = Lookout { watch, judge: Judge::knowing(&network) };
        let ending = suite.conduct(&order, &mut lookout, display, &mut writer, document)?;
        writer.finish(document).map_err(Failure::failed)?;
        Ok(ending)
    }

    /// What a reader must know before the figures.
    fn notes(suite: &Suite<'_>, ways: &[ClientPath]) -> Vec<String> {
        let mut notes = Vec::new();
        if ways.len() < 2 && suite.places.keys().any(|transport| transport.is_multipath()) {
            let name = ways.first().map_or("none is known", |way| way.name.as_str());
            notes
                .push(format!("this host has one path to the server ({name}): multipath has nothing to add"));
        }
        if suite.places.contains_key(&Transport::Mptcp) {
            let setup = mptcp::kernel_setup(ways);
            notes.extend(setup.and_then(|setup| mptcp::shortage(&setup, ways)));
        }
        notes
    }
}

/// The exit code that the result deserves, with the reason on stderr where the summary does not give it.
fn verdict(plan: &SuitePlan, document: &ResultDocument, ending: &Ending) -> Exit {
    let disappointments = disappointments(plan, &document.runs, &ending.with_several_ways);
    let missing = |transport: &Transport| {
        plan.asks_for(*transport)
            && !document.reachability.iter().any(|one| one.transport == *transport && one.reachable)
    };
    if ending.refused {
        Exit::Refused
    } else if ending.stopped || !document.runs.iter().any(|run| run.valid && run.completed) {
        Exit::Failed
    } else if ending.lost || plan.transports.iter().any(missing) {
        Exit::Unreachable
    } else if disappointments.is_empty() {
        Exit::Done
    } else {
        for disappointment in disappointments {
            output::note(format_args!("pathbench: {disappointment}"));
        }
        Exit::MultipathNotUsed
    }
}

/// Multipath transports that the user named and that fell back, or used one path only in a run that began with several
/// ways to the server; each with the reason of its first such run.
fn disappointments(
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
    use super::plan::SuitePattern;
    use super::*;
    use pathbench_record::document::MultipathRecord;
    use pathbench_record::pattern::IperfParameters;
    use pathbench_record::pattern::PatternParameters;
    use pathbench_record::pattern::PingParameters;

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
