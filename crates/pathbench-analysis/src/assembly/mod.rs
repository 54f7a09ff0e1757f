//! Assembles the record of one run. A pure function of the records of both ends and of the observers.
//!
//! [`RunSetting`] holds the plan of a run in a lab as well as of a run between real hosts.

mod clock;
mod evidence;
mod judgement;
mod lines;
mod messages;
mod paths;

pub use clock::ClockOffset;
pub use evidence::{Evidence, ExecutedEvent, Notification, RunSetting, SeenEvent, WifiChange, WifiSighting};
pub use lines::LinesSoFar;
pub use pathbench_record::network::ClientPath;

use crate::metrics::{self, DirectionAnalysis, Disturbance, Measurement, PathCurves};
use crate::verdict::multipath_verdict;
use evidence::{as_map, receiving_side};
use messages::Messages;
use pathbench_record::delivery::{DeliveryLine, DeliverySeries};
use pathbench_record::direction::Direction;
use pathbench_record::document::{DirectionRecord, Parameters, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventKind};
use pathbench_record::pattern::Amount;
use pathbench_record::sample::{Sample, Side};
use pathbench_record::time::Timestamp;
use paths::PathNames;
use serde_json::{Map, Value};
use std::time::Duration;

/// A run's record, and its lines for the JSON Lines files.
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
    let paths = paths::paths(evidence, names, samples);
    let mut connection = evidence.connection(&paths);
    connection.diagnoses = evidence.diagnoses(&connection, samples, events);
    let encryption = evidence.encryption();
    RunRecord {
        id: evidence.id.clone(),
        variant: setting.variant.clone(),
        transport: evidence.label.transport,
        label: evidence.label.to_string(),
        pattern: setting.pattern.clone(),
        server: setting.server_address.clone(),
        repetition: evidence.repetition,
        encrypted: encryption.is_some() || evidence.label.transport.is_quic(),
        encryption,
        valid: evidence.invalid_because.is_empty(),
        invalid_because: evidence.invalid_because.clone(),
        completed: evidence.completed,
        error: evidence.error.clone(),
        delivered_bytes: evidence.delivered_bytes(),
        handshake_ms: milliseconds(evidence.client.as_ref().and_then(|client| client.handshake)),
        fct_ms: milliseconds(evidence.client.as_ref().and_then(|client| client.fct)),
        ping: messages.ping(),
        delay_ms: messages.delay(),
        multipath: multipath_verdict(&connection),
        paths: paths.into_iter().map(|path| path.record).collect(),
        directions: directions(evidence, analyses, messages),
        impacts: analyses.iter().flat_map(|analysis| analysis.impacts.clone()).collect(),
        phases: analyses.iter().flat_map(|analysis| analysis.phases.clone()).collect(),
        links: evidence.links.clone(),
        diagnoses: connection.diagnoses,
        handover: evidence.handover(samples, events),
        parameters: parameters(evidence),
        counters: evidence.counters.clone(),
        notes: notes(evidence, analyses),
        ..metrics::combine(analyses)
    }
}

/// One record per direction. A pattern of messages has delays instead of goodput and stalls.
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

fn milliseconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_nanos() as f64 / 1e6)
}

impl Evidence<'_> {
    /// Bytes delivered to the applications, the sum of both directions.
    fn delivered_bytes(&self) -> u64 {
        let receivers = self.directions().iter().filter_map(|&direction| self.receiver(direction));
        receivers.map(|end| end.deliveries.total_bytes()).fold(0, u64::saturating_add)
    }

    /// Negotiated protocol and cipher suite; `None` in clear text, or when the connection was never opened.
    fn encryption(&self) -> Option<String> {
        let stream = self.client.as_ref()?.streams.first()?;
        let in_force = as_map(&stream.in_force);
        in_force.get("encryption").and_then(Value::as_str).map(str::to_owned)
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
                disruptive: event.kind.is_disruptive() && self.can_use(&event.link),
            })
            .collect();
        // Without the receiver's report no byte counts as received.
        let nothing = DeliverySeries::starting_at(origin);
        let deliveries = self.receiver(direction).map_or(&nothing, |end| &end.deliveries);
        if deliveries.first.is_none() && self.client.is_none() {
            return None;
        }
        // Without a rate limit the sending application always has data to send until the end of the test.
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

    /// Whether this run's traffic can cross `link`. A single-path transport uses only the link that it is bound to.
    fn can_use(&self, link: &str) -> bool {
        let of_client: Vec<&str> = self.setting.paths.iter().map(|path| path.name.as_str()).collect();
        let own = self.label.path.as_deref().or(of_client.first().copied());
        self.label.transport.is_multipath() || own == Some(link) || !of_client.contains(&link)
    }
}

fn parameters(evidence: &Evidence<'_>) -> Parameters {
    let mut in_force = Map::new();
    for end in evidence.ends() {
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

fn notes(evidence: &Evidence<'_>, analyses: &[DirectionAnalysis]) -> Vec<String> {
    let mut notes: Vec<String> = analyses.iter().flat_map(|analysis| analysis.notes.clone()).collect();
    for end in evidence.ends() {
        if end.samples_thinned_by > 1 {
            notes.push(format!(
                "the {:?}'s record was too long to send in full: it holds every {}th sample",
                end.side, end.samples_thinned_by
            ));
        }
    }
    if let Some(rate_bps) = evidence.server.as_ref().and_then(|server| server.rate_limit_bps) {
        notes.push(format!(
            "the server bounds each client to {} Mbit/s in each direction: a goodput near that limit shows little about \
             the network",
            rate_bps as f64 / 1e6
        ));
    }
    if evidence.client.is_some() && evidence.server.is_none() {
        notes.push("the server's record of this test is missing".to_owned());
    }
    if evidence.path_manager().any(|(_, event)| event.kind == EventKind::Overrun) {
        notes.push("the kernel had more path-manager events than could be read; some are missing".to_owned());
    }
    notes
}
