//! From the evidence of one run to its record: a pure function of what both ends and whoever watched wrote down.
//!
//! It serves runs in a lab and runs between real hosts alike: what it has to know of the plan is in [`RunSetting`].

mod clock;
mod diagnosis;
mod handover;
mod lines;
mod messages;
mod paths;
mod quic;
mod setting;
mod so_far;
mod verdict;

pub use clock::ClockOffset;
pub use setting::{ClientPath, RunSetting};
pub use so_far::LinesSoFar;

use crate::metrics::{self, DirectionAnalysis, Disturbance, Measurement, PathCurves};
use crate::verdict::multipath_verdict;
use messages::Messages;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::{DataDirection, Direction};
use pathbench_record::document::{DirectionRecord, Parameters, RunLink, RunRecord};
use pathbench_record::end::EndRecord;
use pathbench_record::event::{DeliveryLine, Event, EventKind};
use pathbench_record::kernel_event::{LinkEvent, MptcpEvent, MptcpEventKind, WifiNetwork};
use pathbench_record::message::MessageLine;
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::sample::{Sample, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use paths::PathNames;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// What happened in one run, as written down by everyone who saw it.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Unique within the result.
    pub id: String,
    /// What was to be done, and between whom.
    pub setting: &'a RunSetting,
    pub label: &'a TransportLabel,
    /// From 1.
    pub repetition: u32,
    /// The client's record; `None` when the connection was never opened.
    pub client: Option<EndRecord>,
    /// The server's record, on the client's clock.
    pub server: Option<EndRecord>,
    /// Whether the test ran to its end and both ends agree.
    pub completed: bool,
    pub error: Option<String>,
    pub gave_up: Option<Timestamp>,
    /// Links as measured before the run.
    pub links: Vec<RunLink>,
    /// Why the environment was not what the scenario asks for; empty when it was.
    pub invalid_because: Vec<String>,
    pub executed: Vec<ExecutedEvent>,
    /// What kernels told meanwhile.
    pub notifications: Vec<SeenEvent>,
    pub counters: BTreeMap<Side, BTreeMap<String, i64>>,
}

/// An event of the scenario, carried out.
#[derive(Debug, Clone)]
pub struct ExecutedEvent {
    pub due: Timestamp,
    /// When the kernel call returned.
    pub at: Timestamp,
    pub node: String,
    pub link: String,
    pub kind: EventKind,
    pub detail: Map<String, Value>,
}

/// What a host's kernel told, and when it was heard.
#[derive(Debug, Clone)]
pub struct SeenEvent {
    pub at: Timestamp,
    pub node: String,
    pub what: Notification,
}

/// What a kernel tells unasked.
#[derive(Debug, Clone)]
pub enum Notification {
    Mptcp(MptcpEvent),
    Link(LinkEvent),
    /// What a Wi-Fi interface is connected to.
    Wifi(WifiSighting),
}

/// What a Wi-Fi interface is connected to, and what is new of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WifiSighting {
    pub interface: String,
    pub change: WifiChange,
    /// The network it is connected to; `None` when it is not.
    pub network: Option<WifiNetwork>,
}

/// What is new of a Wi-Fi interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WifiChange {
    /// It joined a network, or another one than before.
    Joined,
    Left,
    /// It moved to another access point of the same network.
    Moved,
    /// Only how well it hears it.
    Signal,
}

/// A run's record and its lines for the other files.
#[derive(Debug)]
pub struct AssembledRun {
    pub record: RunRecord,
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
    pub deliveries: Vec<DeliveryLine>,
    pub messages: Vec<MessageLine>,
}

pub fn assemble(evidence: &Evidence<'_>) -> AssembledRun {
    let names = PathNames::of(evidence.setting.named());
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
    let messages = Messages::of(evidence);
    let events = lines::events(evidence, &names, origin);
    AssembledRun {
        record: record(evidence, &names, &samples, &events, &analyses, &messages),
        events,
        samples,
        deliveries,
        messages: messages.lines(&evidence.id, origin),
    }
}

fn record(
    evidence: &Evidence<'_>,
    names: &PathNames,
    samples: &[Sample],
    events: &[Event],
    analyses: &[DirectionAnalysis],
    messages: &Messages,
) -> RunRecord {
    let setting = evidence.setting;
    let figures = metrics::combine(analyses);
    let paths = paths::paths(evidence, names, samples);
    let mut connection = evidence.connection(&paths);
    connection.diagnoses = diagnosis::diagnoses(evidence, &connection, samples, events);
    let encryption = evidence.encryption();
    RunRecord {
        id: evidence.id.clone(),
        variant: setting.variant.clone(),
        transport: evidence.label.transport,
        label: evidence.label.to_string(),
        pattern: setting.pattern.clone(),
        server: setting.server_address.clone(),
        repetition: evidence.repetition,
        encrypted: encryption.is_some() || is_quic(evidence.label.transport),
        encryption,
        valid: evidence.invalid_because.is_empty(),
        invalid_because: evidence.invalid_because.clone(),
        completed: evidence.completed,
        error: evidence.error.clone(),
        goodput_mbps: figures.goodput_mbps,
        delivered_bytes: evidence.delivered_bytes(),
        duration_ms: figures.duration_ms,
        hung_ms: figures.hung_ms,
        stall_ms: figures.stall_ms,
        recovery_ms: figures.recovery_ms,
        dip: figures.dip,
        handshake_ms: milliseconds(evidence.client.as_ref().and_then(|client| client.handshake)),
        completion_ms: milliseconds(evidence.client.as_ref().and_then(|client| client.completion)),
        ping: messages.ping(),
        delay_ms: messages.delay(),
        multipath: multipath_verdict(&connection),
        paths: paths.into_iter().map(|path| path.record).collect(),
        directions: directions(evidence, analyses, messages),
        impacts: analyses.iter().flat_map(|analysis| analysis.impacts.clone()).collect(),
        phases: analyses.iter().flat_map(|analysis| analysis.phases.clone()).collect(),
        links: evidence.links.clone(),
        diagnoses: connection.diagnoses,
        handover: handover::handover(evidence, samples, events),
        parameters: parameters(evidence),
        counters: evidence.counters.clone(),
        notes: notes(evidence, analyses),
        ..RunRecord::default()
    }
}

/// What each direction got; a pattern of messages has its delays there instead of goodput and stalls.
fn directions(
    evidence: &Evidence<'_>,
    analyses: &[DirectionAnalysis],
    messages: &Messages,
) -> Vec<DirectionRecord> {
    let of_direction = |&direction: &Direction| {
        let delay_ms = messages.delay_of(direction);
        match analyses.iter().find(|one| one.direction == direction) {
            Some(of_bytes) => Some(DirectionRecord { delay_ms, ..of_bytes.record() }),
            None => delay_ms.map(|delay| DirectionRecord {
                direction,
                goodput_mbps: None,
                delivered_bytes: evidence.receiver(direction).map_or(0, |end| end.deliveries.total_bytes()),
                stall_ms: None,
                delay_ms: Some(delay),
            }),
        }
    };
    evidence.directions().iter().filter_map(of_direction).collect()
}

const fn is_quic(transport: Transport) -> bool {
    matches!(transport, Transport::Quic | Transport::Mpquic)
}

fn milliseconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_nanos() as f64 / 1e6)
}

impl Evidence<'_> {
    /// What the run comes down to where it is one of bulk data.
    fn transfer(&self) -> Option<ThroughputParameters> {
        self.setting.parameters.transfer()
    }

    fn directions(&self) -> &'static [Direction] {
        match self.transfer().map(|transfer| transfer.direction) {
            Some(DataDirection::Upload) => &[Direction::Upload],
            Some(DataDirection::Download) => &[Direction::Download],
            // Messages and their answers go both ways.
            Some(DataDirection::Both) | None => &Direction::BOTH,
        }
    }

    /// Bytes that reached applications, both directions together.
    fn delivered_bytes(&self) -> u64 {
        let receivers = self.directions().iter().filter_map(|&direction| self.receiver(direction));
        receivers.map(|end| end.deliveries.total_bytes()).fold(0, u64::saturating_add)
    }

    /// Protocol and cipher suite in force; `None` in clear text, or when the connection was never opened.
    fn encryption(&self) -> Option<String> {
        let stream = self.client.as_ref()?.streams.first()?;
        let in_force = as_map(&stream.in_force);
        in_force.get("encryption").and_then(Value::as_str).map(str::to_owned)
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

    /// Zero of the run's clock: the first byte that a sending application wrote; of messages, when the first was due.
    pub fn origin(&self) -> Timestamp {
        let ends = [self.client.as_ref(), self.server.as_ref()].into_iter().flatten();
        if let Some(first_due) = ends.flat_map(|end| &end.messages).map(|message| message.due).min() {
            return first_due;
        }
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
        let transfer = self.transfer()?;
        let disturbances: Vec<Disturbance> = self
            .executed
            .iter()
            .map(|event| Disturbance {
                at: event.at,
                kind: event.kind.clone(),
                path: Some(event.link.clone()),
                disruptive: event.kind.is_disruptive() && self.may_feel(&event.link),
            })
            .collect();
        // A receiver that never reported back got nothing that we know of.
        let nothing = DeliverySeries::starting_at(origin);
        let deliveries = self.receiver(direction).map_or(&nothing, |end| &end.deliveries);
        if deliveries.first.is_none() && self.client.is_none() {
            return None;
        }
        // Without a rate limit the sending application always has more to send until its time is over.
        let by_bytes = matches!(transfer.amount, Amount::Bytes(_));
        let offered = (transfer.rate_bps.is_some() || by_bytes)
            .then(|| self.sender(direction).map(|end| &end.offered))
            .flatten();
        let receiver = receiving_side(direction);
        let arrivals = samples.iter().filter(|sample| sample.side == receiver);
        Some(metrics::analyse(&Measurement {
            origin,
            omit: transfer.omit,
            duration: self.setting.parameters.nominal_duration(),
            direction,
            deliveries,
            offered,
            gave_up: self.gave_up,
            disturbances: &disturbances,
            paths: &PathCurves::of_samples(arrivals, origin, |figures| figures.bytes_received),
        }))
    }

    /// Whether this run's traffic can cross `link`: a single-path transport uses none of the client's links but
    /// the one it is bound to, and an event there tells nothing about it.
    fn may_feel(&self, link: &str) -> bool {
        let of_client: Vec<&str> = self.setting.paths.iter().map(|path| path.name.as_str()).collect();
        let own = self.label.path.as_deref().or(of_client.first().copied());
        self.label.transport.is_multipath() || own == Some(link) || !of_client.contains(&link)
    }

    fn path_manager(&self) -> impl Iterator<Item = (&str, &MptcpEvent)> {
        self.notifications.iter().filter_map(|seen| match &seen.what {
            Notification::Mptcp(event) => Some((seen.node.as_str(), event)),
            Notification::Link(_) | Notification::Wifi(_) => None,
        })
    }
}

fn parameters(evidence: &Evidence<'_>) -> Parameters {
    let mut in_force = Map::new();
    for end in [evidence.client.as_ref(), evidence.server.as_ref()].into_iter().flatten() {
        let Some(stream) = end.streams.first() else { continue };
        for (key, value) in as_map(&stream.in_force) {
            let side = if end.side == Side::Client { "client" } else { "server" };
            in_force.insert(format!("{side}.{key}"), value);
        }
    }
    if let Some(client) = &evidence.client {
        in_force.insert("streams".to_owned(), client.parameters.streams().into());
    }
    Parameters { asked: evidence.setting.asked.clone(), in_force }
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
    if let Some(rate_bps) = evidence.server.as_ref().and_then(|server| server.rate_limit_bps) {
        notes.push(format!(
            "the server bounds each client to {} Mbit/s in each direction: a goodput near that says little about the \
             network",
            rate_bps as f64 / 1e6
        ));
    }
    if evidence.client.is_some() && evidence.server.is_none() {
        notes.push("the server's record of this test is missing".to_owned());
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
