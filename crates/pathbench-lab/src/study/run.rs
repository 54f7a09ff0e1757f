//! One run: a fresh lab, links measured, the traffic with its events on time, both ends' records.

use super::{StudyError, StudyObserver, StudyOptions};
use crate::agent::{AgentError, Notice, Request, ServePlan};
use crate::assembly::{AssembledRun, Evidence, ExecutedEvent, assemble};
use crate::calibration;
use crate::environment::{Environment, EnvironmentError};
use crate::kernel_watch::KernelWatch;
use crate::order::ScheduledRun;
use crate::scenario::{EventPlan, Link, PatternPlan, VariantPlan};
use pathbench_host::counters::Counters;
use pathbench_record::sample::Side;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_traffic::client::{ClientOutcome, ClientPlan};
use pathbench_traffic::iperf::{Amount, IperfParameters, TrafficDirection};
use pathbench_traffic::protocol::TestId;
use pathbench_transport::SocketOptions;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Beyond duration and patience: exchange of records over a bad path.
const WRAP_UP: Duration = Duration::from_secs(20);
/// A sleep that long before an event is left to the channel; the rest is waited out on the clock.
const LAST_STRETCH: Duration = Duration::from_millis(2);
/// How often the loop looks whether the user wants to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(200);

/// One run and all that it needs.
pub(super) struct Run<'a> {
    pub(super) id: String,
    pub(super) plan: &'a VariantPlan,
    pub(super) scheduled: &'a ScheduledRun,
    pub(super) options: &'a StudyOptions,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) sample_interval: Duration,
}

/// What the traffic phase brought.
#[derive(Default)]
struct Traffic {
    outcome: Option<Box<ClientOutcome>>,
    executed: Vec<ExecutedEvent>,
    failure: Option<String>,
    /// When the client's end was heard of.
    ended: Timestamp,
}

impl Run<'_> {
    /// Makes the run. Its failure is part of what it returns; an error means that no lab could be had.
    pub(super) fn conduct(self, observer: &mut dyn StudyObserver) -> Result<AssembledRun, StudyError> {
        let mut environment =
            Environment::build(&self.plan.topology, &self.plan.run.server, &self.options.launcher)?;
        let mut links = Vec::new();
        let mut invalid_because = Vec::new();
        if self.options.calibrate {
            observer.on_calibration();
            links = calibration::measure(&environment)?;
            observer.on_links(&links);
            invalid_because = calibration::deviations(&links);
        }
        let server = self.start_server(&environment)?;
        let watch = KernelWatch::start(&environment, self.clock)?;
        let before = self.read_counters(&environment)?;
        let link_counters = calibration::read_link_counters(&mut environment)?;
        let traffic = self.traffic(&mut environment, server, observer)?;
        calibration::count_bytes(&mut links, &link_counters, &mut environment)?;
        let counters = difference(&before, &self.read_counters(&environment)?);
        let server_record = self.server_record(&environment, &traffic)?;
        if let Some(failure) = &traffic.failure {
            invalid_because.push(failure.clone());
        }
        let notifications = watch.stop();
        Ok(self.assemble(traffic, server_record, links, invalid_because, notifications, counters))
    }

    fn assemble(
        &self,
        traffic: Traffic,
        server: Option<pathbench_traffic::record::EndRecord>,
        links: Vec<pathbench_record::document::RunLink>,
        invalid_because: Vec<String>,
        notifications: Vec<crate::assembly::SeenEvent>,
        counters: BTreeMap<Side, BTreeMap<String, i64>>,
    ) -> AssembledRun {
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
        assemble(&Evidence {
            id: self.id.clone(),
            plan: self.plan,
            label: &self.scheduled.label,
            repetition: self.scheduled.repetition,
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
        })
    }

    /// The link that the connection starts on: the one it is bound to, else the first that joins both hosts.
    fn first_link(&self) -> Option<(&Link, usize)> {
        let run = &self.plan.run;
        let mut of_client = self.plan.topology.links_of(&run.client);
        match &self.scheduled.label.path {
            Some(name) => of_client.find(|(link, _)| link.name == *name),
            None => of_client.next(),
        }
    }

    /// The client's address on the first link and the server's address to connect to: on the same link where
    /// both are on it, else the server's first of the family.
    fn addresses(&self) -> Option<(IpAddr, String, IpAddr)> {
        let run = &self.plan.run;
        let (link, end) = self.first_link()?;
        let local = link.ends[end].address(run.family)?;
        let far = &link.ends[1 - end];
        let remote = if far.node == run.server {
            far.address(run.family)?
        } else {
            self.plan
                .topology
                .links_of(&run.server)
                .find_map(|(link, end)| link.ends[end].address(run.family))?
        };
        Some((local, link.ends[end].interface.clone(), remote))
    }

    fn start_server(&self, environment: &Environment) -> Result<SocketAddr, StudyError> {
        let run = &self.plan.run;
        let (_, _, remote) = self.addresses().ok_or_else(|| EnvironmentError::NoSuchNode {
            name: format!("{} with an {} address", run.server, run.family.title()),
            known: "none".to_owned(),
        })?;
        let any: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let plan = ServePlan {
            transport: self.scheduled.label.transport,
            address: SocketAddr::new(any, 0),
            socket: self.socket_options(),
            sample_interval: self.sample_interval,
        };
        let addresses =
            environment.ask(&run.server, &Request::Serve(plan), WRAP_UP, |notice| match notice {
                Notice::Serving(addresses) => Some(addresses),
                _ => None,
            })?;
        let port = addresses.first().map_or(0, SocketAddr::port);
        Ok(SocketAddr::new(remote, port))
    }

    fn socket_options(&self) -> SocketOptions {
        let PatternPlan::Iperf(iperf) = &self.plan.run.pattern;
        SocketOptions {
            congestion: iperf.congestion.clone(),
            send_buffer_bytes: iperf.send_buffer_bytes,
            receive_buffer_bytes: iperf.receive_buffer_bytes,
            ..SocketOptions::default()
        }
    }

    fn parameters(&self) -> IperfParameters {
        let PatternPlan::Iperf(iperf) = &self.plan.run.pattern;
        let streams = u64::from(iperf.streams);
        IperfParameters {
            direction: match iperf.direction {
                crate::scenario::DataDirection::Upload => TrafficDirection::Upload,
                crate::scenario::DataDirection::Download => TrafficDirection::Download,
                crate::scenario::DataDirection::Both => TrafficDirection::Both,
            },
            streams: iperf.streams,
            amount: match (iperf.bytes, self.plan.run.duration) {
                (Some(bytes), _) => Amount::Bytes(bytes * streams),
                (None, duration) => {
                    Amount::Duration(duration.unwrap_or(Duration::from_secs(10)).saturating_sub(iperf.omit))
                }
            },
            rate_bps: iperf.rate_bps.map(|rate_bps| rate_bps * streams),
            omit: iperf.omit,
            block_bytes: iperf.block_bytes.unwrap_or(IperfParameters::DEFAULT_BLOCK_BYTES),
        }
    }

    fn client_plan(&self, server: SocketAddr) -> Option<ClientPlan> {
        let PatternPlan::Iperf(iperf) = &self.plan.run.pattern;
        let (local, interface, _) = self.addresses()?;
        // Binding an mptcp socket to an interface would bind its further subflows to it, too.
        let bound = !self.scheduled.label.transport.is_multipath();
        Some(ClientPlan {
            transport: self.scheduled.label.transport,
            server,
            local: Some(local),
            interface: bound.then_some(interface),
            socket: self.socket_options(),
            test: test_id(&self.id),
            parameters: self.parameters(),
            sample_interval: self.sample_interval,
            patience: iperf.patience,
            connect_timeout: CONNECT_TIMEOUT,
        })
    }

    /// Runs the client and carries out the events until the client is done.
    fn traffic(
        &self,
        environment: &mut Environment,
        server: SocketAddr,
        observer: &mut dyn StudyObserver,
    ) -> Result<Traffic, StudyError> {
        let client = self.plan.run.client.clone();
        let gone = |source: AgentError| EnvironmentError::Agent { node: client.clone(), source };
        let plan = self.client_plan(server).ok_or_else(|| gone(AgentError::OutOfTurn))?;
        let PatternPlan::Iperf(iperf) = &self.plan.run.pattern;
        let longest = self.plan.run.duration.map(|duration| duration + iperf.patience + WRAP_UP);
        environment.node(&client)?.agent().send(&Request::Transfer(Box::new(plan))).map_err(gone)?;
        let mut traffic = Traffic::default();
        let mut due: Option<Timestamp> = None;
        let mut pending = self.plan.events.iter();
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
                self.carry_out(environment, event, at, &mut traffic, observer);
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
                Some(_) => return Err(gone(AgentError::OutOfTurn).into()),
            }
        }
        traffic.ended = self.clock.now();
        Ok(traffic)
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
        match environment.apply(event) {
            Ok(detail) => {
                traffic.executed.push(ExecutedEvent {
                    due,
                    at: self.clock.now(),
                    node: event.node.clone(),
                    link: event.link.clone(),
                    kind: event.action.name(),
                    detail,
                });
                observer.on_event(event.action.name(), &event.link);
            }
            Err(error) => {
                traffic.failure = Some(format!("the event `{}` failed: {error}", event.action.name()));
            }
        }
    }

    fn read_counters(&self, environment: &Environment) -> Result<BTreeMap<Side, Counters>, StudyError> {
        let run = &self.plan.run;
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
        traffic: &Traffic,
    ) -> Result<Option<pathbench_traffic::record::EndRecord>, StudyError> {
        let Some(outcome) = &traffic.outcome else { return Ok(None) };
        if let Some(record) = &outcome.server {
            return Ok(Some(record.clone()));
        }
        let request = Request::Record(outcome.client.test);
        Ok(environment.ask(&self.plan.run.server, &request, WRAP_UP, |notice| match notice {
            Notice::Record(record) => Some(*record),
            _ => None,
        })?)
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

/// Within a lab nobody guesses ids; the run's own name makes the test easy to find.
fn test_id(run: &str) -> TestId {
    let mut bytes = [0; 16];
    for (byte, letter) in bytes.iter_mut().zip(run.bytes().rev()) {
        *byte = letter;
    }
    TestId(bytes)
}
