//! `test`: the suite against a server. The nearest of several is chosen, every transport is tried on every port, then
//! each pattern runs on each transport that works, in seeded random order, while the host's network is watched.

mod address;
mod arguments;
mod client;
mod conduct;
mod display;
mod knowledge;
mod multipath;
mod network;
mod plan;
mod probe;
mod reachability;
mod run;
mod selection;
mod ways;

pub(crate) use arguments::TestArgs;

use crate::clock::{MonotonicClock, unix_seconds};
use crate::exit::{Exit, Failure};
use crate::result::{host_record, remove_empty};
use crate::{random, report, signals, terminal};
use address::ServerName;
use client::{Client, Wishes};
use conduct::{Ending, Suite, announcement};
use display::Display;
use network::{Judge, NetworkWatch};
use pathbench_lab::assembly::ClientPath;
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::directory::{ResultWriter, default_directory_name};
use pathbench_record::document::{
    AddressFamily, Reachability, ResultDocument, ScenarioRecord, UnreachableBecause,
};
use pathbench_record::transport::Transport;
use pathbench_transport::mptcp_available;
use plan::SuitePlan;
use run::Lookout;
use selection::{Asked, Search};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use ways::HostNetwork;

/// Name of a result of this command.
const NAME: &str = "test";

pub(crate) fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let (plan, servers, client) = validate(args)?;
    let stop = signals::stop_flag();
    let mut display = Display::new(args.quiet);
    let started = rfc3339_from_unix(unix_seconds() as i64);
    // Made before anything is sent, so that nobody measures for minutes and then cannot write.
    let created = match &args.out {
        Some(out) => ResultWriter::create(out),
        None => ResultWriter::create_beside(&default_directory_name(NAME, &started)),
    };
    let writer = created.map_err(Failure::bad_input)?;
    let directory = writer.path().to_owned();
    let mut document =
        ResultDocument { seed: args.traffic.seed.unwrap_or_else(random::seed), ..ResultDocument::default() };
    document.host = host_record("user", started);
    let job = Job { args, plan: &plan, client: &client, stop: &stop };
    let ending = job.measure(servers, &mut display, writer, &mut document);
    display.end();
    let ending = ending.inspect_err(|_| {
        // Where nothing was measured, no trace of it stays.
        if document.runs.is_empty() {
            remove_empty(&directory);
        }
    })?;
    present(args, &directory, &document)?;
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
    let access = &args.access;
    if let Some(file) = &access.ca
        && let Err(error) = std::fs::read(file)
    {
        mistakes.push(format!("--ca {}: {error}", file.display()));
    }
    let (Ok(plan), true) = (plan, mistakes.is_empty()) else {
        return Err(Failure::bad_input(mistakes.join("\n")));
    };
    if plan.asks_for(Transport::Mptcp)
        && let Err(unavailable) = mptcp_available()
    {
        return Err(Failure::host_cannot(unavailable));
    }
    let client = Client {
        clock: Arc::new(MonotonicClock),
        wishes: Wishes {
            fingerprint: access.fingerprint,
            ca: access.ca.clone(),
            token: access.token.clone(),
            tls: access.tls,
            scheduler: plan.scheduler.clone(),
            congestion: args.traffic.congestion.clone(),
            bind: !args.traffic.paths.is_empty(),
        },
    };
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
        let (chosen, asked) = self.choose(servers, display)?;
        document.servers = selection::records(&asked, Some(chosen));
        let asked = asked.get(chosen).ok_or_else(|| Failure::failed("no server was chosen"))?;
        document.scenario = self.scenario(&asked.server);
        let mut suite = Suite {
            client: self.client,
            plan: self.plan,
            server: &asked.server,
            places: BTreeMap::new(),
            interfaces: &self.args.traffic.paths,
            stop: self.stop,
        };
        require_paths(&suite, asked)?;
        document.reachability = self.reach(&suite, asked, display);
        suite.places = reachability::choose(&document.reachability, &asked.addresses).into_iter().collect();
        self.go_on()?;
        let Some(&address) = suite.places.values().next() else {
            return Err(nothing_works(&asked.server, &document.reachability));
        };
        let ways = suite.ways(address).map_err(Failure::failed)?;
        let left_out = self.left_out(&suite, &document.reachability);
        let notes = [left_out, Self::notes(&suite, &ways)].concat();
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

    /// Asks all servers; the index of the nearest.
    fn choose(&self, servers: Vec<ServerName>, display: &Display) -> Result<(usize, Vec<Asked>), Failure> {
        let search = Search {
            family: self.family(),
            quic_ports: &self.args.quic_ports,
            transports: if self.plan.named { &self.plan.transports } else { &[] },
        };
        let mut asked = Vec::new();
        for server in servers {
            asked.push(selection::ask(self.client, server, &search));
            self.go_on()?;
        }
        let nearest = selection::nearest(&asked);
        let lines = selection::lines(&asked, nearest);
        let Some(nearest) = nearest else {
            // A server that was reached and said no is the better news, and what this host lacks the worse.
            let exits = || asked.iter().filter_map(|asked| asked.outcome.as_ref().err().map(|no| no.exit));
            let exit =
                [Exit::Refused, Exit::Unreachable].into_iter().find(|exit| exits().any(|one| one == *exit));
            let exit = exit.unwrap_or(Exit::HostCannot);
            let mut lines = lines;
            if self.args.access.tls {
                lines.extend(self.hint());
            }
            return Err(Failure { exit, message: lines.join("\n") });
        };
        for line in lines {
            display.line(&line);
        }
        Ok((nearest, asked))
    }

    fn family(&self) -> Option<AddressFamily> {
        match (self.args.ipv4_only, self.args.ipv6_only) {
            (true, _) => Some(AddressFamily::Ipv4),
            (_, true) => Some(AddressFamily::Ipv6),
            _ => None,
        }
    }

    fn reach(&self, suite: &Suite<'_>, asked: &Asked, display: &Display) -> Vec<Reachability> {
        // An address has no name of the other family.
        let given = asked.server.host.parse().ok().map(address::family);
        let families = match self.family().or(given) {
            Some(family) => vec![family],
            None => vec![AddressFamily::Ipv4, AddressFamily::Ipv6],
        };
        let tries = reachability::tries(
            &asked.server,
            &asked.addresses,
            &families,
            &self.plan.transports,
            &self.args.quic_ports,
        );
        let ways = |address| suite.ways(address);
        let stopped = || self.stop.load(Ordering::Relaxed);
        reachability::probe_all(self.client, &asked.server, &tries, &ways, &stopped, |one| {
            let place = format!("{} over {}, port {}", one.transport, one.family.name(), one.port);
            match (one.rtt_ms, &one.error) {
                (Some(ms), _) => display.line(&format!("{place}: works, first answer after {ms:.1} ms")),
                (None, Some(error)) => display.line(&format!("{place}: {error}")),
                (None, None) => display.line(&format!("{place}: no answer")),
            }
        })
    }

    /// The transports that do not work, with the reason.
    fn left_out(&self, suite: &Suite<'_>, reachability: &[Reachability]) -> Vec<String> {
        let mut words = Vec::new();
        let missing = self.plan.transports.iter().filter(|transport| !suite.places.contains_key(transport));
        for &transport in missing {
            let why = reachability.iter().find(|one| one.transport == transport && one.error.is_some());
            let hint = why
                .filter(|why| client::is_quic(transport) && why.error_kind == Some(UnreachableBecause::Other))
                .and_then(|_| self.hint());
            let why = why.and_then(|one| one.error.clone()).unwrap_or_default();
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            words.push(format!("{transport} does not work here and is left out: {why}{hint}"));
        }
        words
    }

    /// What to give where the server's certificate is to be believed by something else than the public's authorities.
    fn hint(&self) -> Option<String> {
        let given = self.args.access.fingerprint.is_some() || self.args.access.ca.is_some();
        (!given).then(|| {
            "without --fingerprint or --ca, the server's certificate must be by an authority that the public trusts"
                .to_owned()
        })
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
            let setup = multipath::kernel_setup(ways);
            notes.extend(setup.and_then(|setup| multipath::shortage(&setup, ways)));
        }
        notes
    }

    fn scenario(&self, server: &ServerName) -> ScenarioRecord {
        let traffic = &self.args.traffic;
        let overrides = [
            ("repeat", Value::from(traffic.repeat)),
            ("duration", traffic.duration.to_string().into()),
            ("bulk-bytes", traffic.bulk_bytes.0.into()),
            ("scheduler", traffic.scheduler.as_str().into()),
            ("tls", self.args.access.tls.into()),
        ];
        ScenarioRecord {
            name: NAME.to_owned(),
            description: format!("The suite against {server}"),
            origin: "command line".to_owned(),
            text: String::new(),
            overrides: overrides.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        }
    }

    /// An error when the user wants to stop before anything was measured.
    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("stopped by the user before anything was measured"));
        }
        Ok(())
    }
}

/// An error when `--path` names something that leads to none of the server's addresses.
fn require_paths(suite: &Suite<'_>, asked: &Asked) -> Result<(), Failure> {
    if suite.interfaces.is_empty() {
        return Ok(());
    }
    let mut refusals = Vec::new();
    for &address in &asked.addresses {
        match suite.ways(SocketAddr::new(address, asked.server.port)) {
            Ok(_) => return Ok(()),
            Err(why) => refusals.push(why),
        }
    }
    Err(Failure::bad_input(refusals.join("\n")))
}

fn nothing_works(server: &ServerName, reachability: &[Reachability]) -> Failure {
    let mut lines = vec![format!("{server} answered, but no transport works")];
    lines.extend(reachability.iter().filter_map(|one| {
        let error = one.error.as_ref()?;
        Some(format!("{} over {}, port {}: {error}", one.transport, one.family.name(), one.port))
    }));
    Failure { exit: Exit::Unreachable, message: lines.join("\n") }
}

/// Report, and the summary or the document on standard output.
fn present(args: &TestArgs, directory: &Path, document: &ResultDocument) -> Result<(), Failure> {
    if document.runs.is_empty() {
        return Ok(());
    }
    let set = report::open(directory)?;
    if !args.no_report {
        report::write(std::slice::from_ref(&set), directory)?;
    }
    if args.json {
        report::print_json(&set.document)
    } else {
        print!("{}", pathbench_report::terminal::summary(&set, terminal::style()));
        Ok(())
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
            eprintln!("pathbench: {disappointment}");
        }
        Exit::MultipathNotUsed
    }
}
