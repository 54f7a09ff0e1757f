//! From the evidence of one run to its record: a pure function of what both ends and the lab wrote down.

mod lines;
mod paths;

pub(crate) use paths::PathNames;

use crate::scenario::{DataDirection, PatternPlan, RunPlan, VariantPlan};
use pathbench_host::link_events::LinkEvent;
use pathbench_host::mptcp::{MptcpEvent, MptcpEventKind};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::document::{MultipathRecord, Parameters, RunLink, RunRecord};
use pathbench_record::event::{DeliveryLine, Direction, Event};
use pathbench_record::metrics::{self, DirectionAnalysis, Disturbance, Measurement, PathCounter};
use pathbench_record::sample::{Sample, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::TransportLabel;
use pathbench_traffic::record::EndRecord;
use pathbench_transport::{
    JoinFailure, LocalSetup, Negotiation, PathDelivery, VerdictInput, multipath_verdict,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What happened in one run, as written down by everyone who saw it.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) id: String,
    pub(crate) plan: &'a VariantPlan,
    pub(crate) label: &'a TransportLabel,
    pub(crate) repetition: u32,
    /// The client's record; `None` when the connection was never opened.
    pub(crate) client: Option<EndRecord>,
    pub(crate) server: Option<EndRecord>,
    pub(crate) completed: bool,
    pub(crate) error: Option<String>,
    /// When the client gave the connection up.
    pub(crate) gave_up: Option<Timestamp>,
    pub(crate) links: Vec<RunLink>,
    /// Why the environment was not what the scenario asks for; empty when it was.
    pub(crate) invalid_because: Vec<String>,
    pub(crate) executed: Vec<ExecutedEvent>,
    pub(crate) notifications: Vec<SeenEvent>,
    pub(crate) counters: BTreeMap<Side, BTreeMap<String, i64>>,
}

/// An event of the scenario, carried out.
#[derive(Debug, Clone)]
pub(crate) struct ExecutedEvent {
    pub(crate) due: Timestamp,
    /// When the kernel call returned.
    pub(crate) at: Timestamp,
    pub(crate) node: String,
    pub(crate) link: String,
    pub(crate) kind: &'static str,
    pub(crate) detail: Map<String, Value>,
}

/// What a host's kernel told, and when it was heard.
#[derive(Debug, Clone)]
pub(crate) struct SeenEvent {
    pub(crate) at: Timestamp,
    pub(crate) node: String,
    pub(crate) what: Notification,
}

/// What a kernel tells unasked.
#[derive(Debug, Clone)]
pub(crate) enum Notification {
    /// Its MPTCP path manager.
    Mptcp(MptcpEvent),
    /// Its interfaces and addresses.
    Link(LinkEvent),
}

/// A run's record and its lines for the other files.
#[derive(Debug)]
pub(crate) struct AssembledRun {
    pub(crate) record: RunRecord,
    pub(crate) samples: Vec<Sample>,
    pub(crate) events: Vec<Event>,
    pub(crate) deliveries: Vec<DeliveryLine>,
}

/// Puts the evidence together.
pub(crate) fn assemble(evidence: &Evidence<'_>) -> AssembledRun {
    let names = PathNames::of(&evidence.plan.topology, &evidence.plan.run.client);
    let origin = evidence.origin();
    let samples = lines::samples(evidence, &names, origin);
    let analyses: Vec<DirectionAnalysis> = evidence
        .directions()
        .iter()
        .filter_map(|&direction| evidence.analyse(direction, origin, &samples))
        .collect();
    let deliveries = evidence
        .directions()
        .iter()
        .flat_map(|&direction| lines::deliveries(evidence, direction, origin))
        .collect();
    AssembledRun {
        record: record(evidence, &names, &samples, &analyses),
        events: lines::events(evidence, &names, origin),
        samples,
        deliveries,
    }
}

fn record(
    evidence: &Evidence<'_>,
    names: &PathNames,
    samples: &[Sample],
    analyses: &[DirectionAnalysis],
) -> RunRecord {
    let figures = metrics::combine(analyses);
    let paths = paths::paths(evidence, names, samples);
    let multipath = evidence.verdict(&paths);
    RunRecord {
        id: evidence.id.clone(),
        variant: evidence.plan.variant.clone(),
        transport: evidence.label.transport,
        label: evidence.label.to_string(),
        pattern: evidence.plan.run.pattern.name().to_owned(),
        repetition: evidence.repetition,
        valid: evidence.invalid_because.is_empty(),
        invalid_because: evidence.invalid_because.clone(),
        completed: evidence.completed,
        error: evidence.error.clone(),
        goodput_mbps: figures.goodput_mbps,
        delivered_bytes: figures.delivered_bytes,
        duration_ms: figures.duration_ms,
        hung_ms: figures.hung_ms,
        stall_ms: figures.stall_ms,
        recovery_ms: figures.recovery_ms,
        dip: figures.dip,
        multipath,
        paths: paths.into_iter().map(|path| path.record).collect(),
        directions: analyses.iter().map(DirectionAnalysis::record).collect(),
        impacts: analyses.iter().flat_map(|analysis| analysis.impacts.clone()).collect(),
        phases: analyses.iter().flat_map(|analysis| analysis.phases.clone()).collect(),
        links: evidence.links.clone(),
        parameters: parameters(evidence),
        counters: evidence.counters.clone(),
        notes: notes(evidence, analyses),
    }
}

impl Evidence<'_> {
    fn run(&self) -> &RunPlan {
        &self.plan.run
    }

    fn directions(&self) -> &'static [Direction] {
        let PatternPlan::Iperf(iperf) = &self.run().pattern;
        match iperf.direction {
            DataDirection::Upload => &[Direction::Upload],
            DataDirection::Download => &[Direction::Download],
            DataDirection::Both => &[Direction::Upload, Direction::Download],
        }
    }

    fn end(&self, side: Side) -> Option<&EndRecord> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }

    fn sender(&self, direction: Direction) -> Option<&EndRecord> {
        self.end(sending_side(direction))
    }

    fn receiver(&self, direction: Direction) -> Option<&EndRecord> {
        self.end(receiving_side(direction))
    }

    /// Zero of the run's clock: the first byte that a sending application wrote.
    fn origin(&self) -> Timestamp {
        let first_written = self
            .directions()
            .iter()
            .filter_map(|&direction| {
                let written = self.sender(direction).and_then(|end| end.offered.first);
                written.or_else(|| self.receiver(direction).and_then(|end| end.deliveries.first))
            })
            .min();
        first_written
            .or_else(|| self.client.as_ref().map(|client| client.started))
            .or_else(|| self.executed.first().map(|event| event.due))
            .unwrap_or_default()
    }

    fn analyse(
        &self,
        direction: Direction,
        origin: Timestamp,
        samples: &[Sample],
    ) -> Option<DirectionAnalysis> {
        let PatternPlan::Iperf(iperf) = &self.run().pattern;
        let disturbances: Vec<Disturbance> = self
            .executed
            .iter()
            .map(|event| Disturbance {
                at: event.at,
                kind: event.kind.to_owned(),
                path: Some(event.link.clone()),
                disruptive: metrics::is_disruptive(event.kind) && self.may_feel(&event.link),
            })
            .collect();
        // A receiver that never reported back got nothing that we know of.
        let nothing = DeliverySeries::starting_at(origin);
        let deliveries = self.receiver(direction).map_or(&nothing, |end| &end.deliveries);
        if deliveries.first.is_none() && self.client.is_none() {
            return None;
        }
        // Without a rate limit the sending application always has more to send until its time is over.
        let offered = (iperf.rate_bps.is_some() || iperf.bytes.is_some())
            .then(|| self.sender(direction).map(|end| &end.offered))
            .flatten();
        Some(metrics::analyse(&Measurement {
            origin,
            omit: iperf.omit,
            duration: self.run().duration,
            direction,
            deliveries,
            offered,
            gave_up: self.gave_up,
            disturbances: &disturbances,
            path_counters: &PathCounter::from_samples(samples, receiving_side(direction), origin),
        }))
    }

    /// Whether this run's traffic can cross `link`: a single-path transport uses none of the client's links but
    /// the one it is bound to, and an event there tells nothing about it.
    fn may_feel(&self, link: &str) -> bool {
        let client = &self.run().client;
        let of_client: Vec<&str> =
            self.plan.topology.links_of(client).map(|(link, _)| link.name.as_str()).collect();
        let own = self.label.path.as_deref().or(of_client.first().copied());
        self.label.transport.is_multipath() || own == Some(link) || !of_client.contains(&link)
    }

    /// The connection's negotiation: the worst word of any of its streams.
    fn negotiation(&self) -> Negotiation {
        let streams = self.client.iter().flat_map(|client| &client.streams);
        let mut word = Negotiation::default();
        for stream in streams {
            match stream.multipath {
                Negotiation::FellBack { .. } => return stream.multipath,
                _ => word = stream.multipath,
            }
        }
        word
    }

    fn verdict(&self, paths: &[paths::AssembledPath]) -> MultipathRecord {
        // The client's ledger keeps closed subflows, so its length is how many there ever were.
        let streams = self.client.iter().flat_map(|client| &client.streams);
        let subflows_total = streams.map(|stream| stream.paths.len() as u32).max();
        multipath_verdict(&VerdictInput {
            requested: self.label.transport.is_multipath(),
            negotiation: self.negotiation(),
            paths: paths
                .iter()
                .map(|path| PathDelivery {
                    name: path.record.name.clone(),
                    delivered_bytes: path.record.bytes_delivered,
                    last: path.last.clone(),
                })
                .collect(),
            subflows_total,
            counters: self.counters.get(&Side::Client).cloned().unwrap_or_default(),
            peer_counters: self.counters.get(&Side::Server).cloned().unwrap_or_default(),
            setup: self.setup(),
            join_failures: self.join_failures(),
        })
    }

    fn setup(&self) -> Option<LocalSetup> {
        let topology = &self.plan.topology;
        let client = topology.node(&self.run().client)?;
        let addresses: Vec<IpAddr> = topology
            .links_of(&client.name)
            .filter_map(|(link, end)| link.ends[end].address(self.run().family))
            .collect();
        let initial =
            self.client.as_ref().and_then(|end| end.streams.first()).map(|stream| stream.local.ip());
        Some(LocalSetup {
            subflow_limit: client.mptcp.subflows,
            add_addr_accepted_limit: client.mptcp.add_addr_accepted,
            endpoints: client
                .mptcp
                .endpoints
                .iter()
                .filter(|endpoint| endpoint.subflow || endpoint.fullmesh)
                .map(|endpoint| endpoint.address)
                .collect(),
            addresses,
            initial,
            peer_subflow_limit: topology.node(&self.run().server).map(|server| server.mptcp.subflows),
        })
    }

    /// The path managers' events, with the host each comes from.
    fn path_manager(&self) -> impl Iterator<Item = (&str, &MptcpEvent)> {
        self.notifications.iter().filter_map(|seen| match &seen.what {
            Notification::Mptcp(event) => Some((seen.node.as_str(), event)),
            Notification::Link(_) => None,
        })
    }

    fn join_failures(&self) -> Vec<JoinFailure> {
        self.path_manager()
            .filter(|(node, _)| *node == self.run().client)
            .map(|(_, event)| event)
            .filter(|event| event.kind == MptcpEventKind::SubClosed)
            .filter(|event| event.error.is_some_and(|error| error != 0) || event.reset_reason.is_some())
            .map(|event| JoinFailure {
                local: event.local.map(|address| address.ip()),
                remote: event.remote.map(|address| address.ip()),
                errno: event.error.map(i32::from),
                reset_reason: event.reset_reason,
            })
            .collect()
    }
}

fn parameters(evidence: &Evidence<'_>) -> Parameters {
    let PatternPlan::Iperf(iperf) = &evidence.run().pattern;
    let mut asked = as_map(iperf);
    if let Some(duration) = evidence.run().duration {
        asked.insert("duration_ms".to_owned(), (duration.as_secs_f64() * 1e3).into());
    }
    let mut in_force = Map::new();
    for end in [evidence.client.as_ref(), evidence.server.as_ref()].into_iter().flatten() {
        let Some(stream) = end.streams.first() else { continue };
        for (key, value) in as_map(&stream.in_force) {
            let side = if end.side == Side::Client { "client" } else { "server" };
            in_force.insert(format!("{side}.{key}"), value);
        }
    }
    Parameters { asked, in_force }
}

fn as_map(value: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn notes(evidence: &Evidence<'_>, analyses: &[DirectionAnalysis]) -> Vec<String> {
    let mut notes: Vec<String> = analyses.iter().flat_map(|analysis| analysis.notes.clone()).collect();
    for end in [evidence.client.as_ref(), evidence.server.as_ref()].into_iter().flatten() {
        if end.samples_thinned_by > 1 {
            notes.push(format!(
                "the {:?}'s record was too long to travel whole: every {}th sample of it is here",
                end.side, end.samples_thinned_by
            ));
        }
    }
    if evidence.client.is_some() && evidence.server.is_none() {
        notes.push("the server has no record of this test".to_owned());
    }
    if evidence.path_manager().any(|(_, event)| event.kind == MptcpEventKind::Overrun) {
        notes.push("the kernel had more path-manager events than could be read; some are missing".to_owned());
    }
    notes
}

const fn sending_side(direction: Direction) -> Side {
    match direction {
        Direction::Upload => Side::Client,
        Direction::Download => Side::Server,
    }
}

const fn receiving_side(direction: Direction) -> Side {
    match direction {
        Direction::Upload => Side::Server,
        Direction::Download => Side::Client,
    }
}
