//! `roam`: interactive traffic on several transports at the same time while this host moves from network to network,
//! beside probes of each of them, until the user stops it.

mod display;
mod figures;
mod plan;
mod records;
mod surroundings;
mod test;
mod view;
mod walk;
mod wifi;

pub(crate) use plan::RoamArgs;

use crate::client::discovery::{Approach, Reached};
use crate::client::server::ServerName;
use crate::client::{self, Client, Clocks, Target, mptcp};
use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::result::{begin_result, host_record, remove_empty};
use crate::{output, random, report, signals};
use display::Display;
use pathbench_analysis::assembly::ClientPath;
use pathbench_host::counters::Counters;
use pathbench_lab::order::schedule;
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{ResultDocument, ScenarioRecord};
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::ClientError;
use pathbench_transport::mptcp_available;
use plan::RoamPlan;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use walk::{End, Walk, Walked};

/// Name of a result of this command.
const NAME: &str = "roam";

/// `given` are the options that differ from their defaults.
pub(crate) fn roam(args: &RoamArgs, given: Map<String, Value>) -> Result<Exit, Failure> {
    let (plan, server, client) = validate(args)?;
    let stop = signals::stop_flag();
    let mut display = Display::new(args.quiet);
    let started = rfc3339_from_unix(unix_seconds() as i64);
    // Made before anything is sent, so that nobody walks for an hour and then cannot write.
    let writer = begin_result(args.out.as_deref(), NAME, &started)?;
    let directory = writer.path().to_owned();
    let mut document =
        ResultDocument { seed: args.seed.unwrap_or_else(random::seed), ..ResultDocument::default() };
    document.host = host_record("user", started);
    document.scenario.overrides = given;
    let job = Job { args, plan: &plan, client: &client, stop: &stop };
    let verdict = job.measure(server, &mut display, writer, &mut document);
    display.end();
    let exit = verdict.inspect_err(|_| {
        // Where nothing was measured, no trace of it stays.
        if document.runs.is_empty() {
            let _never_written = std::fs::remove_file(directory.join("run.partial.json"));
            remove_empty(&directory);
        }
    })?;
    report::present(&directory, &document, args.presentation)?;
    Ok(exit)
}

/// Everything that can be wrong before anything is sent.
fn validate(args: &RoamArgs) -> Result<(RoamPlan, ServerName, Client), Failure> {
    let mut mistakes = Vec::new();
    let server = ServerName::parse(&args.server, args.port);
    mistakes.extend(server.as_ref().err().cloned());
    let plan = RoamPlan::of(args);
    mistakes.extend(plan.as_ref().err().into_iter().flatten().cloned());
    mistakes.extend(args.access.mistake());
    let (Ok(plan), Ok(server), true) = (plan, server, mistakes.is_empty()) else {
        return Err(Failure::bad_input(mistakes.join("\n")));
    };
    if plan.asks_for(Transport::Mptcp)
        && let Err(unavailable) = mptcp_available()
    {
        return Err(Failure::host_cannot(unavailable));
    }
    let bind = !args.paths.interfaces.is_empty();
    let client = Client::wishing(&args.access, plan.scheduler.clone(), None, bind);
    Ok((plan, server, client))
}

/// One call of the command.
struct Job<'a> {
    args: &'a RoamArgs,
    plan: &'a RoamPlan,
    client: &'a Client,
    stop: &'a Arc<AtomicBool>,
}

impl Job<'_> {
    fn measure(
        &self,
        server: ServerName,
        display: &mut Display,
        mut writer: ResultWriter,
        document: &mut ResultDocument,
    ) -> Result<Exit, Failure> {
        let approach = self.approach();
        let reached = approach.find(vec![server], &|line| display.line(line))?;
        let ways = self.ways(&approach, &reached)?;
        let until_gone = self.until_gone(&ways)?;
        document.servers.clone_from(&reached.servers);
        document.reachability.clone_from(&reached.reachability);
        let overrides = std::mem::take(&mut document.scenario.overrides);
        document.scenario = ScenarioRecord {
            name: NAME.to_owned(),
            description: format!("A walk with {}", reached.server),
            origin: "command line".to_owned(),
            text: String::new(),
            overrides,
        };
        document.summary.notes = self.notes(&reached, &ways);
        for note in &document.summary.notes {
            display.line(&format!("note: {note}"));
        }
        let walk = Walk {
            client: self.client,
            plan: self.plan,
            approach,
            server: &reached.server,
            places: &reached.places,
            tests: self.tests(&reached, &ways, document.seed),
            until_gone,
            stop: self.stop,
        };
        let mut clocks = Clocks::differing_by(self.compare_clocks(&reached, &ways));
        display.line(&self.announcement(&walk, &ways));
        let before = Counters::read().ok();
        let walked = walk.go(&mut writer, document, display)?;
        let after = Counters::read().ok();
        let counters = before.zip(after).map(|(before, after)| Counters::difference(&before, &after));
        clocks.learn(self.compare_clocks(&reached, &ways));
        let verdict = verdict(&walked)?;
        let after = view::clock(walked.lasted);
        document.summary.notes.push(format!("{}, after {after}", walked.end.words()));
        walk.write_runs(walked, &mut clocks, counters.as_ref(), &mut writer, document)
            .map_err(Failure::failed)?;
        writer.finish(document).map_err(Failure::failed)?;
        Ok(self.multipath_verdict(document).unwrap_or(verdict))
    }

    fn approach(&self) -> Approach<'_> {
        Approach {
            client: self.client,
            access: &self.args.access,
            transports: &self.plan.transports,
            named: self.plan.named,
            interfaces: &self.args.paths.interfaces,
            family: self.args.family.only(),
            stop: self.stop,
        }
    }

    /// The ways to the server, those that are spares among them.
    fn ways(&self, approach: &Approach<'_>, reached: &Reached) -> Result<Vec<ClientPath>, Failure> {
        let Some(&address) = reached.places.values().next() else {
            return Err(Failure::failed("no transport works"));
        };
        let ways = approach.ways(address).map_err(Failure::failed)?;
        let missing = self.plan.backups.iter().find(|name| !ways.iter().any(|way| way.interface == **name));
        match missing {
            None => Ok(ways),
            Some(name) => {
                let there: Vec<&str> = ways.iter().map(|way| way.name.as_str()).collect();
                Err(Failure::bad_input(format!(
                    "--backup {name}: it is no way to the server; there are {}",
                    there.join(", ")
                )))
            }
        }
    }

    /// The interface whose loss ends the walk, where one does.
    fn until_gone(&self, ways: &[ClientPath]) -> Result<Option<(String, Duration)>, Failure> {
        let Some(asked) = &self.args.end.until_gone else { return Ok(None) };
        let interface = if asked == "auto" { self.wifi(ways) } else { Some(asked.clone()) };
        let Some(interface) = interface else {
            return Err(Failure::bad_input(
                "--until-gone auto: this kernel tells of no Wi-Fi interface; name it: --until-gone IFACE",
            ));
        };
        if !ways.iter().any(|way| way.interface == interface) {
            let there: Vec<&str> = ways.iter().map(|way| way.name.as_str()).collect();
            return Err(Failure::bad_input(format!(
                "--until-gone {interface}: it is no way to the server, and so cannot be lost; there are {}",
                there.join(", ")
            )));
        }
        Ok(Some((interface, self.args.end.gone_for.0)))
    }

    /// The Wi-Fi interface: as the user says, or that of the ways of which the kernel says so.
    fn wifi(&self, ways: &[ClientPath]) -> Option<String> {
        if let Some(named) = &self.args.paths.wifi {
            return Some(named.clone());
        }
        let radios = wifi::interfaces();
        let is_radio = |way: &&ClientPath| radios.iter().any(|radio| radio.name == way.interface);
        ways.iter().find(is_radio).map(|way| way.interface.clone())
    }

    /// The transports that work, in the random order of the seed, each with its ways.
    fn tests(&self, reached: &Reached, ways: &[ClientPath], seed: u64) -> Vec<(Transport, Vec<ClientPath>)> {
        let label = |&transport: &Transport| TransportLabel { transport, path: None };
        let labels: Vec<TransportLabel> = reached.places.keys().map(label).collect();
        let spares = mptcp::spares();
        schedule(&[(&labels, 1)], 1, seed)
            .into_iter()
            .map(|run| run.label.transport)
            .map(|transport| (transport, self.plan.ways_of(transport, ways, &spares)))
            .collect()
    }

    fn compare_clocks(
        &self,
        reached: &Reached,
        ways: &[ClientPath],
    ) -> Option<pathbench_analysis::assembly::ClockOffset> {
        let (&transport, &address): (&Transport, &SocketAddr) = reached.places.first_key_value()?;
        let target = Target { address, host: reached.server.host.clone(), ways: ways.to_vec() };
        client::compare_clocks(self.client, transport, &target)
    }

    /// What a reader must know before the figures.
    fn notes(&self, reached: &Reached, ways: &[ClientPath]) -> Vec<String> {
        let mut notes = reached.left_out.clone();
        if ways.len() < 2 {
            let name = ways.first().map_or("none is known", |way| way.name.as_str());
            notes.push(format!("this host has one path to the server ({name}) as the walk begins"));
        }
        if reached.places.contains_key(&Transport::Mptcp) {
            notes.extend(mptcp::kernel_setup(ways).and_then(|setup| mptcp::shortage(&setup, ways)));
            let spares: Vec<&ClientPath> =
                ways.iter().filter(|way| self.plan.backups.contains(&way.interface)).collect();
            notes.extend(spares.into_iter().filter_map(mptcp::not_spared));
        }
        notes
    }

    fn announcement(&self, walk: &Walk<'_>, ways: &[ClientPath]) -> String {
        let transports: Vec<&str> = walk.tests.iter().map(|(transport, _)| transport.name()).collect();
        let ways: Vec<&str> = ways.iter().map(|way| way.name.as_str()).collect();
        let until = match (self.args.end.duration, &walk.until_gone) {
            (Some(duration), _) => format!("for {duration}"),
            (None, Some((interface, _))) => format!("until {interface} is gone, or Ctrl-C"),
            (None, None) => "until Ctrl-C".to_owned(),
        };
        format!("roaming with {} over {}, {until}", transports.join(" and "), ways.join(", "))
    }

    /// A multipath transport that the user named and that fell back.
    fn multipath_verdict(&self, document: &ResultDocument) -> Option<Exit> {
        let fell_back = document.runs.iter().find(|run| {
            run.completed
                && run.transport.is_multipath()
                && self.plan.asks_for(run.transport)
                && !run.multipath.negotiated
        })?;
        output::note(format_args!("pathbench: {}: {}", fell_back.transport, fell_back.multipath.reason));
        Some(Exit::MultipathNotUsed)
    }
}

/// The exit code that a walk deserves. What happens to a test on the way is what the walk is for; only one that never
/// began, or of which nothing was left to be stopped, has failed.
fn verdict(walked: &Walked) -> Result<Exit, Failure> {
    let outcomes: Vec<_> = walked.finished.iter().flatten().map(|finished| &finished.outcome).collect();
    if outcomes.iter().any(|outcome| !outcome.client.messages.is_empty()) {
        let completed = outcomes.iter().any(|outcome| outcome.completed);
        return Ok(if walked.end == End::Over && !completed { Exit::Failed } else { Exit::Done });
    }
    let errors = || outcomes.iter().filter_map(|outcome| outcome.error.as_ref());
    let refused = errors().any(|error| matches!(error, ClientError::Refused { .. }));
    let message: Vec<String> = errors().map(ToString::to_string).collect();
    let exit = if refused { Exit::Refused } else { Exit::Unreachable };
    Err(Failure { exit, message: format!("no test began\n{}", message.join("\n")) })
}
