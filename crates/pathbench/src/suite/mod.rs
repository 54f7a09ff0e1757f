//! `test`: the suite against a server. The nearest of several is chosen, every transport is tried on every port, then
//! each pattern runs on each transport that works, in seeded random order, while the host's network is watched.

mod arguments;
mod conduct;
mod display;
mod knowledge;
mod multipath;
mod plan;
mod run;

pub(crate) use arguments::TestArgs;

use crate::client::address::ServerName;
use crate::client::approach::Approach;
use crate::client::network::{Judge, NetworkWatch};
use crate::client::ways::HostNetwork;
use crate::client::{Client, mptcp};
use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::result::{begin_result, host_record, remove_empty};
use crate::{output, random, report, signals};
use conduct::{Ending, Suite, announcement};
use display::Display;
use pathbench_lab::assembly::ClientPath;
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{ResultDocument, ScenarioRecord};
use pathbench_record::transport::Transport;
use pathbench_transport::mptcp_available;
use plan::SuitePlan;
use run::Lookout;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    let disappointments = multipath::disappointments(plan, &document.runs, &ending.with_several_ways);
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
