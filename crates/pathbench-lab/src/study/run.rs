//! One run: builds a new lab, measures its links, runs the traffic and the events, and collects both ends' records.

use super::assignment::{CONNECT_TIMEOUT, RunAssignment};
use super::ending::STOPPED_BY_USER;
use super::load::{self, LoadMeter};
use super::progress::{ConductedRun, ObserverHandle, StudyObserver, StudyOptions};
use super::{capture, emulation};
use crate::agent::{AgentError, AgentNotice, AgentRequest};
use crate::calibration;
use crate::environment::{Emulation, Environment, EnvironmentError};
use crate::kernel_watch::{KernelEvents, KernelWatch};
use crate::scenario::{EventAction, EventPlan, EventTime, LinkPlan, VariantPlan};
use pathbench_analysis::assembly::{Evidence, ExecutedEvent, LinesSoFar, RunSetting, SeenEvent, assemble};
use pathbench_host::counters::KernelCounters;
use pathbench_record::document::RunLink;
use pathbench_record::end::EndRecord;
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::{ClientError, ClientOutcome};
use pathbench_transport::CertificateFingerprint;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time in addition to duration and patience, for the exchange of records over a bad path.
const WRAP_UP: Duration = Duration::from_secs(20);
/// The wait for notices ends this long before an event; the clock sleeps for the rest.
const LAST_STRETCH: Duration = Duration::from_millis(2);
/// Interval at which the loop checks whether the user stops the study.
const STOP_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct RunExecution<'a> {
    pub(super) assignment: RunAssignment<'a>,
    pub(super) options: &'a StudyOptions,
    pub(super) emulation: &'a Emulation,
    pub(super) lateness_tolerance: Duration,
}

struct Serving {
    address: SocketAddr,
    fingerprint: Option<CertificateFingerprint>,
    /// The address that answers UDP probes.
    probed: Option<SocketAddr>,
}

#[derive(Default)]
struct Traffic {
    outcome: Option<Box<ClientOutcome>>,
    executed: Vec<ExecutedEvent>,
    notifications: Vec<SeenEvent>,
    failure: Option<String>,
    ended: Timestamp,
}

/// Reports the events of a running test.
struct LiveEvents<'a, 'o> {
    run: &'a RunExecution<'a>,
    setting: &'a RunSetting,
    listener: &'a ObserverHandle<'o>,
    watch: &'a KernelWatch,
}

impl LiveEvents<'_, '_> {
    fn notify(&self, notify: impl FnOnce(&mut dyn StudyObserver, &str)) {
        self.listener.notify(|observer| notify(observer, &self.run.assignment.id));
    }

    /// Reports the kernels' events since the last call and the scenario's event that was just carried out, in order.
    fn report(&self, traffic: &mut Traffic, executed: Option<ExecutedEvent>, origin: Timestamp) {
        let notifications = self.watch.take();
        if notifications.is_empty() && executed.is_none() {
            return;
        }
        let RunExecution { assignment, emulation, .. } = self.run;
        let repetition = emulation.repetition;
        let evidence = Evidence::new(assignment.id.clone(), self.setting, assignment.label, repetition);
        let (executed_now, seen) = (executed.iter().cloned().collect(), notifications.clone());
        let evidence = Evidence { executed: executed_now, notifications: seen, ..evidence };
        let events = LinesSoFar::from_evidence(&evidence, origin).events;
        traffic.notifications.extend(notifications);
        traffic.executed.extend(executed);
        self.notify(|observer, run| observer.on_events(run, events));
    }
}

impl RunExecution<'_> {
    fn plan(&self) -> &VariantPlan {
        self.assignment.plan
    }

    /// Executes the run. A failure of the lab makes the result invalid and is not an error: the next run has a new lab.
    ///
    /// # Errors
    /// This host cannot build a lab.
    pub(super) fn conduct(&self, listener: &ObserverHandle<'_>) -> Result<ConductedRun, EnvironmentError> {
        let _span = tracing::info_span!("run", id = self.assignment.id).entered();
        let (topology, server) = (&self.plan().topology, &self.plan().run.server);
        let reported = topology.links.iter().filter(|link| topology.is_reported(&link.name));
        let record = |link: &LinkPlan| RunLink {
            name: link.name.clone(),
            within_tolerance: true,
            ..RunLink::default()
        };
        let mut links: Vec<_> = reported.map(record).collect();
        let built = Environment::build(topology, server, &self.options.launcher, self.emulation);
        let mut environment = match built {
            Err(error) if error.is_transient() => return Ok(self.failed_run(&error, links)),
            built => built?,
        };
        let mut conducted = match self.conduct_in(&mut environment, &mut links, listener) {
            Err(error) if !error.is_incapable() => self.failed_run(&error, links),
            conducted => conducted?,
        };
        // Completes the captures.
        drop(environment);
        capture::check(&mut conducted, self.emulation);
        Ok(conducted)
    }

    fn failed_run(&self, error: &EnvironmentError, links: Vec<RunLink>) -> ConductedRun {
        let failure = Some(error.to_string());
        let traffic = Traffic { failure, ended: self.emulation.clock.now(), ..Traffic::default() };
        let setting = self.assignment.setting();
        let evidence = self.evidence(&setting, traffic, links, Vec::new());
        ConductedRun { assembled: assemble(&evidence), link_samples: Vec::new(), origin: evidence.origin() }
    }

    fn conduct_in(
        &self,
        environment: &mut Environment,
        links: &mut [RunLink],
        listener: &ObserverHandle<'_>,
    ) -> Result<ConductedRun, EnvironmentError> {
        if self.options.calibrate {
            listener.notify(|observer| observer.on_calibration(&self.assignment.id));
            calibration::measure(environment, links)?;
        }
        let mut setting = self.assignment.setting();
        if let Some(setup) = &mut setting.mptcp {
            setup.source_routes = environment.node(&self.plan().run.client)?.network()?.source_routes();
        }
        listener.notify(|observer| observer.on_connecting(&self.assignment.id, &setting.paths));
        let server = self.start_server(environment)?;
        let kernels = environment.nodes().iter().map(KernelEvents::open).collect::<Result<_, _>>()?;
        let watch = KernelWatch::start(kernels, &self.emulation.clock);
        let before = self.read_counters(environment)?;
        let routers = environment.routers()?;
        environment.restart_links(self.plan().run.packet_sizes)?;
        let meter = LoadMeter::start(self.emulation.clock.as_ref());
        let live = LiveEvents { run: self, setting: &setting, listener, watch: &watch };
        let mut traffic = self.traffic(environment, &server, &live);
        let load = meter.load(self.emulation.clock.as_ref());
        let counted = environment.link_counters()?;
        emulation::record(links, &counted, self.plan().run.packet_sizes);
        let late = emulation::too_late(self.lateness_tolerance, &counted);
        let counters = difference(&before, &self.read_counters(environment)?);
        let server = self.server_record(environment, &mut traffic)?;
        let mut notifications = std::mem::take(&mut traffic.notifications);
        notifications.extend(watch.stop());
        let evidence = self.evidence(&setting, traffic, links.to_vec(), late);
        let carried = emulation::carried(&self.plan().topology, &self.plan().run.client, &counted);
        let evidence = Evidence { server, counters, carried, notifications, ..evidence };
        let mut assembled = assemble(&evidence);
        assembled.record.load = load;
        assembled.record.notes.extend(load::note(&assembled.record, &self.plan().topology));
        assembled.record.notes.extend(emulation::notes(&counted, &self.links_down()));
        let after = environment.routers()?;
        assembled.record.routers =
            after.iter().zip(&routers).filter_map(|(after, before)| after.count_since(before)).collect();
        let origin = evidence.origin();
        let link_samples = emulation::samples(&self.assignment.id, origin, &counted);
        Ok(ConductedRun { assembled, link_samples, origin })
    }

    fn links_down(&self) -> Vec<&str> {
        let down = self.plan().events.iter().filter(|event| event.action == EventAction::Down);
        down.map(|event| event.link.as_str()).collect()
    }

    /// The data from client and links. Deviations of `links`, `late` and a failure of the traffic invalidate the run.
    fn evidence<'e>(
        &'e self,
        setting: &'e RunSetting,
        traffic: Traffic,
        links: Vec<RunLink>,
        late: Vec<String>,
    ) -> Evidence<'e> {
        let Traffic { outcome, executed, notifications: _, failure, ended } = traffic;
        let invalid_because = calibration::deviations(&links).into_iter().chain(late).chain(failure.clone());
        let RunAssignment { id, label, .. } = &self.assignment;
        let evidence = Evidence {
            error: failure,
            invalid_because: invalid_because.collect(),
            links,
            executed,
            ..Evidence::new(id.clone(), setting, label, self.emulation.repetition)
        };
        let Some(outcome) = outcome else { return evidence };
        Evidence {
            completed: outcome.completed,
            unreachable: outcome.error.as_ref().and_then(ClientError::unreachable_because),
            error: outcome.error.map(|error| error.to_string()),
            gave_up: outcome.hung.map(|_| outcome.client.ended.min(ended)),
            client: Some(outcome.client),
            ..evidence
        }
    }

    fn start_server(&self, environment: &Environment) -> Result<Serving, EnvironmentError> {
        let run = &self.assignment.plan.run;
        let remote = self.assignment.server_address().ok_or_else(|| EnvironmentError::NoSuchNode {
            name: format!("{} with an {} address", run.server, run.family.name()),
            known: "none".to_owned(),
        })?;
        let plan = self.assignment.serve_plan(remote);
        let has_probes = plan.answers_probes;
        let (addresses, fingerprint) =
            environment.ask(&run.server, &AgentRequest::Serve(plan), WRAP_UP, |notice| match notice {
                AgentNotice::Serving { addresses, fingerprint } => Some((addresses, fingerprint)),
                _ => None,
            })?;
        let port = addresses.first().map_or(0, SocketAddr::port);
        let probed_port = has_probes.then(|| addresses.last().map(SocketAddr::port)).flatten();
        let probed = probed_port.map(|port| SocketAddr::new(remote, port));
        Ok(Serving { address: SocketAddr::new(remote, port), fingerprint, probed })
    }

    /// Runs the client and carries out the events until the client has finished or an agent has exited.
    fn traffic(&self, environment: &mut Environment, server: &Serving, live: &LiveEvents<'_, '_>) -> Traffic {
        let mut traffic = Traffic::default();
        if let Err(error) = self.follow(environment, server, &mut traffic, live) {
            traffic.failure = Some(error.to_string());
        }
        traffic.ended = self.emulation.clock.now();
        traffic
    }

    fn follow(
        &self,
        environment: &mut Environment,
        server: &Serving,
        traffic: &mut Traffic,
        live: &LiveEvents<'_, '_>,
    ) -> Result<(), EnvironmentError> {
        let client = self.plan().run.client.clone();
        let gone = |source: AgentError| EnvironmentError::Agent { node: client.clone(), source };
        let plan = self
            .assignment
            .client_plan(server.address, server.fingerprint, server.probed)
            .ok_or_else(|| gone(AgentError::OutOfTurn))?;
        let (before, after): (Vec<_>, Vec<_>) =
            self.plan().events.iter().partition(|event| event.at == EventTime::BeforeConnect);
        for event in before {
            let now = self.emulation.clock.now();
            self.carry_out(environment, event, now, now, traffic, live);
        }
        if traffic.failure.is_some() {
            return Ok(());
        }
        let longest = plan.parameters.nominal_duration().map(|nominal| nominal + plan.patience + WRAP_UP);
        environment.node(&client)?.agent().send(&AgentRequest::Transfer(Box::new(plan))).map_err(gone)?;
        let mut due: Option<Timestamp> = None;
        let mut pending = after.into_iter();
        let mut next = pending.next();
        let begun = self.emulation.clock.now();
        while traffic.outcome.is_none() && traffic.failure.is_none() {
            let now = self.emulation.clock.now();
            if self.options.stop.load(Ordering::Relaxed) {
                traffic.failure = Some(STOPPED_BY_USER.to_owned());
            } else if longest.is_some_and(|longest| now.duration_since(begun) > longest + CONNECT_TIMEOUT) {
                traffic.failure = Some("the client did not come to an end in time".to_owned());
            }
            let since = next.and_then(|event| event.at.since_first_byte());
            let at = due.zip(since).map(|(first_byte, since)| first_byte + since);
            if let (Some(at), Some(event), Some(first_byte)) = (at, next, due)
                && at.duration_since(now) <= LAST_STRETCH
            {
                self.carry_out(environment, event, at, first_byte, traffic, live);
                next = pending.next();
                continue;
            }
            let wait = at
                .map_or(STOP_INTERVAL, |at| at.duration_since(now).saturating_sub(LAST_STRETCH))
                .min(STOP_INTERVAL);
            match environment.next_notice(&client, wait)? {
                None => {}
                Some(AgentNotice::FirstByte(at)) => due = Some(at),
                Some(AgentNotice::Progress(progress)) => {
                    let origin = progress.first_byte;
                    live.notify(|observer, run| observer.on_progress(run, progress));
                    live.report(traffic, None, origin);
                }
                Some(AgentNotice::Finished(outcome)) => traffic.outcome = Some(outcome),
                Some(AgentNotice::Failed(message)) => traffic.failure = Some(message),
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
        origin: Timestamp,
        traffic: &mut Traffic,
        live: &LiveEvents<'_, '_>,
    ) {
        self.emulation.clock.sleep_until(due);
        let path = self.plan().topology.path_of(&event.link);
        match environment.apply(event) {
            Ok(detail) => {
                let executed = ExecutedEvent {
                    due,
                    at: self.emulation.clock.now(),
                    node: event.node.clone(),
                    link: path.to_owned(),
                    kind: event.action.name().into(),
                    effect: event.effect,
                    detail,
                };
                live.report(traffic, Some(executed), origin);
            }
            Err(error) => {
                traffic.failure = Some(format!("the event `{}` failed: {error}", event.action.name()));
            }
        }
    }

    fn read_counters(
        &self,
        environment: &Environment,
    ) -> Result<BTreeMap<Side, KernelCounters>, EnvironmentError> {
        let run = &self.plan().run;
        let counters = |host| environment.node(host)?.mib();
        Ok(BTreeMap::from([(Side::Client, counters(&run.client)?), (Side::Server, counters(&run.server)?)]))
    }

    /// The server's record, as received by the client over the connection, else requested from the server.
    fn server_record(
        &self,
        environment: &Environment,
        traffic: &mut Traffic,
    ) -> Result<Option<EndRecord>, EnvironmentError> {
        let Some(outcome) = &mut traffic.outcome else { return Ok(None) };
        if let Some(record) = outcome.server.take() {
            return Ok(Some(record));
        }
        let request = AgentRequest::Record(Box::new(outcome.client.clone()));
        let fetched = environment.ask(&self.plan().run.server, &request, WRAP_UP, |notice| match notice {
            AgentNotice::Record(record) => Some(*record),
            _ => None,
        })?;
        Ok(fetched.map_err(|why| outcome.report_fetch(&why)).ok())
    }
}

fn difference(
    before: &BTreeMap<Side, KernelCounters>,
    after: &BTreeMap<Side, KernelCounters>,
) -> BTreeMap<Side, BTreeMap<String, i64>> {
    before
        .iter()
        .filter_map(|(side, before)| Some((*side, KernelCounters::difference(before, after.get(side)?))))
        .collect()
}
