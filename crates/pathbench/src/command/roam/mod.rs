//! `roam`: interactive traffic on several transports in parallel while this host moves from network to network, with
//! probes of each path, until the user stops the command.

mod context;
mod plan;
mod records;
mod run;
mod test;

pub(crate) use plan::RoamArgs;

use crate::client::discovery::Reached;
use crate::client::{Clocks, TestClient, counters_since, network};
use crate::command::record;
use crate::session::MeasurementSession;
use pathbench_analysis::assembly::ClientPath;
use pathbench_host::counters::KernelCounters;
use pathbench_lab::study::{RunOrder, schedule};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::document::ResultDocument;
use pathbench_record::network::ServerName;
use pathbench_record::time::SharedClock;
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_report::terminal::live;
use pathbench_traffic::client::ClientError;
use plan::{Roam, RoamPlan};
use run::{RoamEnd, RoamRecorder};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// `options` are the options that differ from their defaults.
pub(crate) fn roam(
    args: &RoamArgs,
    options: Map<String, Value>,
    clock: &SharedClock,
) -> Result<Exit, Failure> {
    let (plan, servers) = plan(args)?;
    record::require_new(args.record.as_deref())?;
    let client = TestClient::new(&args.server, plan.scheduler.clone(), None, clock);
    let submitter = args.submit.submitter(clock)?;
    let mut session = MeasurementSession::begin("roam", &args.output, args.tui, args.seed, options, clock);
    session.submitter = submitter;
    let measured = Job { args, plan: &plan, client: &client }.measure(servers, &mut session);
    session.finish(measured)
}

pub(crate) fn plan(args: &RoamArgs) -> Result<(RoamPlan, Vec<ServerName>), Failure> {
    args.server.validate(std::slice::from_ref(&args.name), RoamPlan::new(args), |plan| &plan.choice)
}

struct Job<'a> {
    args: &'a RoamArgs,
    plan: &'a RoamPlan,
    client: &'a TestClient,
}

impl Job<'_> {
    fn measure(&self, servers: Vec<ServerName>, session: &mut MeasurementSession) -> Result<Exit, Failure> {
        let mut writer = session.create_result()?;
        let reached = session.reach(self.client, &self.plan.choice, servers, "Mobility with")?;
        let paths = self.paths(&reached)?;
        let until_gone = self.until_gone(&paths)?;
        session.record_notes(self.notes(&reached, &paths));
        let tests = self.tests(&reached, &paths, session.document.seed);
        let roam = Roam {
            client: self.client,
            plan: self.plan,
            reached: &reached,
            tests,
            until_gone,
            stop: Arc::clone(&session.stop),
        };
        let compare_clocks = || self.client.compare_clocks(&reached.server, &reached.endpoints);
        let mut clocks = Clocks::default();
        clocks.learn(compare_clocks());
        session.progress.line(self.announcement(&roam, &paths));
        let before = KernelCounters::read().ok();
        let recorder = roam.run(&mut writer, session)?;
        let counters = counters_since(before.as_ref());
        clocks.learn(compare_clocks());
        let verdict = verdict(&recorder)?;
        let document = &mut session.document;
        if let Some((end, at)) = &recorder.ended {
            let after = live::clock(at.duration_since(recorder.begun));
            document.summary.notes.push(format!("{}, after {after}", end.words()));
        }
        let lines_written = self.args.record.as_deref().map_or(Ok(()), |file| {
            let (server, started) = (reached.server.to_string(), document.host.started.clone());
            let line = record::record_roam(file, &server, &started, &paths, &recorder.probe_lines)?;
            document.summary.notes.push(line);
            Ok(())
        });
        recorder
            .write_runs(&mut clocks, counters.as_ref(), &mut writer, document)
            .map_err(Failure::failed)?;
        writer.finish(document).map_err(Failure::failed)?;
        lines_written.map(|()| self.multipath_verdict(document).unwrap_or(verdict))
    }

    /// The paths to the server, with the backup paths among them.
    fn paths(&self, reached: &Reached) -> Result<Vec<ClientPath>, Failure> {
        let Some(&address) = reached.endpoints.values().next() else {
            return Err(Failure::failed("no transport works"));
        };
        let paths = self.client.paths_to(address).map_err(Failure::failed)?;
        self.plan.backups.iter().try_for_each(|name| require_path("--backup", name, &paths))?;
        Ok(paths)
    }

    /// The interface whose loss ends the tests, and how long the loss must last.
    fn until_gone(&self, paths: &[ClientPath]) -> Result<Option<(String, Duration)>, Failure> {
        let Some(asked) = &self.args.until_gone else { return Ok(None) };
        let interface = if asked == "auto" { self.wifi(paths) } else { Some(asked.clone()) };
        let Some(interface) = interface else {
            return Err(Failure::bad_input(
                "--until-gone auto: this kernel reports no Wi-Fi interface; name it: --until-gone IFACE",
            ));
        };
        require_path("--until-gone", &interface, paths)?;
        Ok(Some((interface, self.args.gone_for.0)))
    }

    /// The Wi-Fi interface that the user names, or the one reported by the kernel.
    fn wifi(&self, paths: &[ClientPath]) -> Option<String> {
        if let Some(named) = &self.args.wifi {
            return Some(named.clone());
        }
        let wifi = context::wifi_interfaces();
        let is_wifi = |path: &&ClientPath| wifi.iter().any(|one| one.name == path.interface);
        paths.iter().find(is_wifi).map(|path| path.interface.clone())
    }

    /// The transports that work, in random order by the seed, each with its paths.
    fn tests(&self, reached: &Reached, paths: &[ClientPath], seed: u64) -> Vec<(Transport, Vec<ClientPath>)> {
        let label = |&transport: &Transport| TransportLabel { transport, path: None };
        let labels: Vec<TransportLabel> = reached.endpoints.keys().map(label).collect();
        let backups = network::backup_endpoints();
        schedule(&[(&labels, 1)], &RunOrder { repeat: 1, warm_up: 0, seed, shard: None })
            .into_iter()
            .map(|run| run.label.transport)
            .map(|transport| (transport, self.plan.paths_of(transport, paths, &backups)))
            .collect()
    }

    /// Notes that a reader needs before reading the figures.
    fn notes(&self, reached: &Reached, paths: &[ClientPath]) -> Vec<String> {
        let mut notes = reached.notes.clone();
        if paths.len() < 2 {
            let name = paths.first().map_or("none is known", |path| path.name.as_str());
            notes.push(format!("this host has one path to the server ({name}) at the start"));
        }
        if reached.endpoints.contains_key(&Transport::Mptcp) {
            notes.extend(network::mptcp_shortage(paths));
            let backups = paths.iter().filter(|path| self.plan.backups.contains(&path.interface));
            notes.extend(backups.filter_map(network::not_backup));
        }
        notes
    }

    fn announcement(&self, roam: &Roam<'_>, paths: &[ClientPath]) -> String {
        let transports: Vec<&str> = roam.tests.iter().map(|(transport, _)| transport.name()).collect();
        let until = match (self.args.duration, &roam.until_gone) {
            (Some(duration), _) => format!("for {duration}"),
            (None, Some((interface, _))) => format!("until {interface} is lost, or Ctrl-C"),
            (None, None) => "until Ctrl-C".to_owned(),
        };
        format!("roaming with {} over {}, {until}", transports.join(" and "), names(paths))
    }

    /// The exit code for a multipath transport that the user named and that fell back.
    fn multipath_verdict(&self, document: &ResultDocument) -> Option<Exit> {
        let fell_back = document.runs.iter().find(|run| {
            run.completed
                && run.transport.is_multipath()
                && self.plan.choice.names(run.transport)
                && !run.multipath.negotiated
        })?;
        output::note(format_args!("pathbench: {}: {}", fell_back.transport, fell_back.multipath.reason));
        Some(Exit::MultipathNotUsed)
    }
}

fn names(paths: &[ClientPath]) -> String {
    paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn require_path(option: &str, interface: &str, paths: &[ClientPath]) -> Result<(), Failure> {
    if paths.iter().any(|path| path.interface == interface) {
        return Ok(());
    }
    let there = names(paths);
    Err(Failure::bad_input(format!(
        "{option} {interface}: no path to the server uses this interface; the paths are {there}"
    )))
}

/// The exit code. A test may fail; the command fails only if no test began, or if all tests failed before the end.
fn verdict(recorder: &RoamRecorder<'_>) -> Result<Exit, Failure> {
    let finished = recorder.logs.iter().filter_map(|log| log.finished.as_ref());
    let outcomes: Vec<_> = finished.map(|finished| &finished.outcome).collect();
    if outcomes.iter().any(|outcome| !outcome.client.messages.is_empty()) {
        let completed = outcomes.iter().any(|outcome| outcome.completed);
        let is_broken = matches!(recorder.ended, Some((RoamEnd::Over, _))) && !completed;
        return Ok(if is_broken { Exit::Failed } else { Exit::Done });
    }
    let errors = || outcomes.iter().filter_map(|outcome| outcome.error.as_ref());
    let refused = errors().any(|error| matches!(error, ClientError::Refused { .. }));
    let message: Vec<String> = errors().map(ToString::to_string).collect();
    let exit = if refused { Exit::Refused } else { Exit::Unreachable };
    Err(Failure { exit, message: format!("no test began\n{}", message.join("\n")) })
}
