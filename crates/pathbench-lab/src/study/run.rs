//! One run: a fresh lab, links measured, the traffic with its events on time, both ends' records.

use super::assignment::{Assignment, CONNECT_TIMEOUT};
use super::{StudyObserver, StudyOptions, emulation};
use crate::agent::{AgentError, Notice, Request};
use crate::calibration;
use crate::environment::{Emulation, Environment, EnvironmentError};
use crate::kernel_watch::KernelWatch;
use crate::scenario::{Action, EventPlan, VariantPlan};
use pathbench_analysis::assembly::{AssembledRun, Evidence, ExecutedEvent, assemble};
use pathbench_host::counters::Counters;
use pathbench_record::document::{LinkSample, PacketSizes, RunLink};
use pathbench_record::end::EndRecord;
use pathbench_record::sample::Side;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_traffic::client::ClientOutcome;
use pathbench_transport::CertificateFingerprint;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Beyond duration and patience: exchange of records over a bad path.
const WRAP_UP: Duration = Duration::from_secs(20);
/// A sleep that long before an event is left to the channel; the rest is waited out on the clock.
const LAST_STRETCH: Duration = Duration::from_millis(2);
/// How often the loop looks whether the user wants to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Run<'a> {
    pub(super) assignment: Assignment<'a>,
    pub(super) repetition: u32,
    pub(super) options: &'a StudyOptions,
    pub(super) emulation: &'a Emulation,
    pub(super) lateness_tolerance: Duration,
    pub(super) clock: &'a Arc<dyn Clock>,
}

pub(super) struct ConductedRun {
    pub(super) assembled: AssembledRun,
    pub(super) link_samples: Vec<LinkSample>,
}

struct Serving {
    address: SocketAddr,
    fingerprint: Option<CertificateFingerprint>,
}

#[derive(Default)]
struct Traffic {
    outcome: Option<Box<ClientOutcome>>,
    executed: Vec<ExecutedEvent>,
    failure: Option<String>,
    ended: Timestamp,
}

impl Run<'_> {
    fn plan(&self) -> &VariantPlan {
        self.assignment.plan
    }

    /// Makes the run. A run whose lab fails is no error but a result that does not count: the next run gets a lab of its
    /// own.
    ///
    /// # Errors
    /// When no lab can be had, or not on this host.
    pub(super) fn conduct(&self, observer: &mut dyn StudyObserver) -> Result<ConductedRun, EnvironmentError> {
        let (topology, server) = (&self.plan().topology, &self.plan().run.server);
        let built = Environment::build(topology, server, &self.options.launcher, self.emulation);
        let mut environment = match built {
            Err(error) if error.is_transient() => return Ok(self.failed(&error, Vec::new())),
            built => built?,
        };
        let mut links = Vec::new();
        match self.conduct_in(&mut environment, &mut links, observer) {
            Err(error) if !error.is_incapable() => Ok(self.failed(&error, links)),
            conducted => conducted,
        }
    }

    fn failed(&self, error: &EnvironmentError, links: Vec<RunLink>) -> ConductedRun {
        let error = error.to_string();
        let mut invalid_because = calibration::deviations(&links);
        invalid_because.push(error.clone());
        let traffic = Traffic { failure: Some(error), ended: self.clock.now(), ..Traffic::default() };
        let (assembled, _) =
            self.assemble(traffic, None, links, invalid_because, Vec::new(), BTreeMap::new());
        ConductedRun { assembled, link_samples: Vec::new() }
    }

    fn conduct_in(
        &self,
        environment: &mut Environment,
        measured: &mut Vec<RunLink>,
        observer: &mut dyn StudyObserver,
    ) -> Result<ConductedRun, EnvironmentError> {
        if self.options.calibrate {
            observer.on_calibration();
            *measured = calibration::measure(environment)?;
            observer.on_links(measured);
        }
        let mut invalid_because = calibration::deviations(measured);
        let server = self.start_server(environment)?;
        let watch = KernelWatch::start(environment, self.clock)?;
        let before = self.read_counters(environment)?;
        let routers = environment.routers()?;
        environment.restart_links()?;
        if self.plan().run.packet_sizes {
            environment.count_sizes()?;
        }
        let link_counters = calibration::read_link_counters(environment)?;
        let mut traffic = self.traffic(environment, &server, observer);
        let mut links = measured.clone();
        calibration::count_bytes(&mut links, &link_counters, environment)?;
        if self.plan().run.packet_sizes {
            note_sizes(&mut links, environment.counted_sizes()?);
        }
        let reports = environment.reports()?;
        emulation::record(&mut links, &reports);
        invalid_because.extend(emulation::too_late(self.lateness_tolerance, &reports));
        let counters = difference(&before, &self.read_counters(environment)?);
        let server_record = self.server_record(environment, &mut traffic)?;
        if let Some(failure) = &traffic.failure {
            invalid_because.push(failure.clone());
        }
        let notifications = watch.stop();
        let (mut assembled, origin) =
            self.assemble(traffic, server_record, links, invalid_because, notifications, counters);
        assembled.record.notes.extend(emulation::notes(&reports, &self.links_down()));
        let after = environment.routers()?;
        assembled.record.routers =
            after.iter().zip(&routers).filter_map(|(after, before)| after.since(before)).collect();
        let link_samples = emulation::samples(&self.assignment.id, origin, &reports);
        Ok(ConductedRun { assembled, link_samples })
    }

    fn links_down(&self) -> Vec<&str> {
        let down = self.plan().events.iter().filter(|event| event.action == Action::Down);
        down.map(|event| event.link.as_str()).collect()
    }

    fn assemble(
        &self,
        traffic: Traffic,
        server: Option<EndRecord>,
        links: Vec<RunLink>,
        invalid_because: Vec<String>,
        notifications: Vec<pathbench_analysis::assembly::SeenEvent>,
        counters: BTreeMap<Side, BTreeMap<String, i64>>,
    ) -> (AssembledRun, Timestamp) {
        let Traffic { outcome, executed, failure, ended } = traffic;
        let (completed, error, gave_up, client) = match outcome {
            None => (false, failure, None, None),
            Some(outcome) => {
                let gave_up = outcome.hung.map(|_| outcome.client.ended.min(ended));
                (
                    outcome.completed,
                    outcome.error.map(|error| error.to_string()),
                    gave_up,
                    Some(outcome.client),
                )
            }
        };
        let setting = self.assignment.setting();
        let evidence = Evidence {
            id: self.assignment.id.clone(),
            setting: &setting,
            label: self.assignment.label,
            repetition: self.repetition,
            client,
            server,
            completed,
            error,
            gave_up,
            links,
            invalid_because,
            executed,
            notifications,
            counters,
        };
        (assemble(&evidence), evidence.origin())
    }

    fn start_server(&self, environment: &Environment) -> Result<Serving, EnvironmentError> {
        let run = &self.assignment.plan.run;
        let remote = self.assignment.server_address().ok_or_else(|| EnvironmentError::NoSuchNode {
            name: format!("{} with an {} address", run.server, run.family.title()),
            known: "none".to_owned(),
        })?;
        let plan = self.assignment.serve_plan(remote);
        let (addresses, fingerprint) =
            environment.ask(&run.server, &Request::Serve(plan), WRAP_UP, |notice| match notice {
                Notice::Serving { addresses, fingerprint } => Some((addresses, fingerprint)),
                _ => None,
            })?;
        let port = addresses.first().map_or(0, SocketAddr::port);
        Ok(Serving { address: SocketAddr::new(remote, port), fingerprint })
    }

    /// Runs the client and carries out the events until the client is done, or an agent is gone.
    fn traffic(
        &self,
        environment: &mut Environment,
        server: &Serving,
        observer: &mut dyn StudyObserver,
    ) -> Traffic {
        let mut traffic = Traffic::default();
        if let Err(error) = self.follow(environment, server, &mut traffic, observer) {
            traffic.failure = Some(error.to_string());
        }
        traffic.ended = self.clock.now();
        traffic
    }

    fn follow(
        &self,
        environment: &mut Environment,
        server: &Serving,
        traffic: &mut Traffic,
        observer: &mut dyn StudyObserver,
    ) -> Result<(), EnvironmentError> {
        let client = self.plan().run.client.clone();
        let gone = |source: AgentError| EnvironmentError::Agent { node: client.clone(), source };
        let plan = self
            .assignment
            .client_plan(server.address, server.fingerprint)
            .ok_or_else(|| gone(AgentError::OutOfTurn))?;
        let longest = plan.parameters.nominal_duration().map(|nominal| nominal + plan.patience + WRAP_UP);
        environment.node(&client)?.agent().send(&Request::Transfer(Box::new(plan))).map_err(gone)?;
        let mut due: Option<Timestamp> = None;
        let mut pending = self.plan().events.iter();
        let mut next = pending.next();
        let begun = self.clock.now();
        while traffic.outcome.is_none() && traffic.failure.is_none() {
            let now = self.clock.now();
            if self.options.stop.load(Ordering::Relaxed) {
                traffic.failure = Some("stopped by the user".to_owned());
            } else if longest.is_some_and(|longest| now.since(begun) > longest + CONNECT_TIMEOUT) {
                traffic.failure = Some("the client did not come to an end in time".to_owned());
            }
            let at = due.zip(next).map(|(first_byte, event)| first_byte + event.at);
            if let (Some(at), Some(event)) = (at, next)
                && at.since(now) <= LAST_STRETCH
            {
                self.carry_out(environment, event, at, traffic, observer);
                next = pending.next();
                continue;
            }
            let wait =
                at.map_or(STOP_INTERVAL, |at| at.since(now).saturating_sub(LAST_STRETCH)).min(STOP_INTERVAL);
            match environment.next_notice(&client, wait)? {
                None => {}
                Some(Notice::FirstByte(at)) => due = Some(at),
                Some(Notice::Progress(progress)) => observer.on_progress(&progress),
                Some(Notice::Finished(outcome)) => traffic.outcome = Some(outcome),
                Some(Notice::Failed(message)) => traffic.failure = Some(message),
                Some(_) => return Err(gone(AgentError::OutOfTurn)),
            }
        }
        Ok(())
    }

    fn carry_out(
        &self,
        environment: &mut Environment,
        event: &EventPlan,
        due: Timestamp,
        traffic: &mut Traffic,
        observer: &mut dyn StudyObserver,
    ) {
        self.clock.sleep_until(due);
        let path = self.plan().topology.path_of(&event.link);
        match environment.apply(event) {
            Ok(detail) => {
                traffic.executed.push(ExecutedEvent {
                    due,
                    at: self.clock.now(),
                    node: event.node.clone(),
                    link: path.to_owned(),
                    kind: event.action.name().into(),
                    detail,
                });
                observer.on_event(event.action.name(), path);
            }
            Err(error) => {
                traffic.failure = Some(format!("the event `{}` failed: {error}", event.action.name()));
            }
        }
    }

    fn read_counters(&self, environment: &Environment) -> Result<BTreeMap<Side, Counters>, EnvironmentError> {
        let run = &self.plan().run;
        let mut counters = BTreeMap::new();
        for (side, host) in [(Side::Client, &run.client), (Side::Server, &run.server)] {
            counters.insert(side, environment.node(host)?.mib()?);
        }
        Ok(counters)
    }

    /// The server's record: as handed over in the connection, else from the server itself.
    fn server_record(
        &self,
        environment: &Environment,
        traffic: &mut Traffic,
    ) -> Result<Option<EndRecord>, EnvironmentError> {
        let Some(outcome) = &mut traffic.outcome else { return Ok(None) };
        if let Some(record) = outcome.server.take() {
            return Ok(Some(record));
        }
        let request = Request::Record(Box::new(outcome.client.clone()));
        let fetched = environment.ask(&self.plan().run.server, &request, WRAP_UP, |notice| match notice {
            Notice::Record(record) => Some(*record),
            _ => None,
        })?;
        Ok(fetched.map_err(|why| outcome.report_fetch(&why)).ok())
    }
}

/// Notes in `links` what entered each. A run whose links were not measured has nothing else to tell of them.
fn note_sizes(links: &mut Vec<RunLink>, counted: Vec<(String, PacketSizes)>) {
    for (name, sizes) in counted {
        match links.iter_mut().find(|link| link.name == name) {
            Some(link) => link.packet_sizes = Some(sizes),
            None => links.push(RunLink {
                name,
                within_tolerance: true,
                packet_sizes: Some(sizes),
                ..RunLink::default()
            }),
        }
    }
}

fn difference(
    before: &BTreeMap<Side, Counters>,
    after: &BTreeMap<Side, Counters>,
) -> BTreeMap<Side, BTreeMap<String, i64>> {
    before
        .iter()
        .filter_map(|(side, before)| Some((*side, Counters::difference(before, after.get(side)?))))
        .collect()
}
