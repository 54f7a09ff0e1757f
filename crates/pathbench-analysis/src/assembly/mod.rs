//! Assembles the record of one run. A pure function of the records of both ends and of the observers.
//!
//! [`RunSetting`] holds the plan of a run in a lab as well as of a run between real hosts.

mod clock;
mod datagrams;
mod evidence;
mod failback;
mod judgement;
mod limits;
mod lines;
mod messages;
mod opening;
mod path_names;
mod paths;
mod resolved;
mod response;
mod witness;

pub use clock::ClockOffset;
pub use evidence::{Evidence, ExecutedEvent, Notification, RunSetting, SeenEvent, WifiChange, WifiSighting};
pub use lines::LinesSoFar;
pub use pathbench_record::network::ClientPath;

use crate::metrics::{self, DirectionAnalysis, Disturbance, Measurement, PathCurves};
use crate::verdict::multipath_verdict;
use datagrams::Datagrams;
use evidence::{as_map, receiving_side};
use messages::Messages;
use pathbench_record::datagram::DatagramLine;
use pathbench_record::delivery::{DeliveryLine, DeliverySeries};
use pathbench_record::document::{
    DirectionRecord, FailbackRecord, OpeningOutcome, Parameters, ResponsivenessRecord, RunRecord,
};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventKind};
use pathbench_record::pattern::Amount;
use pathbench_record::sample::{Sample, Side};
use resolved::{ResolvedFlow, ResolvedRun};
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
    pub datagrams: Vec<DatagramLine>,
}

pub fn assemble(evidence: &Evidence<'_>) -> AssembledRun {
    let run = ResolvedRun::new(evidence, evidence.origin());
    let samples = lines::samples(&run);
    let events = lines::events(&run);
    let messages = Messages::new(&run);
    let datagrams = Datagrams::new(&run);
    let analyses: Vec<DirectionAnalysis> =
        run.flows.iter().filter_map(|flow| run.analyse(flow, &samples)).collect();
    let mut record = record(&run, &samples, &events, &analyses, &messages);
    record.datagrams = datagrams.records();
    AssembledRun {
        record,
        events,
        samples,
        deliveries: lines::deliveries(&run),
        messages: response::lines(&run).unwrap_or_else(|| messages.lines(&run)),
        datagrams: datagrams.lines(&run),
    }
}

fn record(
    run: &ResolvedRun<'_>,
    samples: &[Sample],
    events: &[Event],
    analyses: &[DirectionAnalysis],
    messages: &Messages,
) -> RunRecord {
    let evidence = run.evidence;
    let setting = evidence.setting;
    let paths = paths::paths(run, samples);
    let mut connection = run.connection(&paths);
    connection.diagnoses = run.diagnoses(&connection, samples, events);
    let encryption = encryption(evidence);
    let opening = connection.opening.clone();
    let failbacks = run.failbacks(samples, analyses);
    let multipath = multipath_verdict(&connection);
    let mut notes = notes(run, analyses, &failbacks);
    let responsiveness = run.responsiveness(samples);
    // The reason of a connection over one path names them.
    if multipath.used || !multipath.negotiated {
        let words =
            connection.strays.iter().map(|stray| format!("{}; {}", stray.words(), stray.remedy_words()));
        notes.extend(words);
    }
    let (limits, not_examined) = run.limits(samples, analyses);
    RunRecord {
        limited_by: limits.first().map(|first| first.kind.words().to_owned()),
        limits,
        not_examined,
        cpu: run.cpu(),
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
        delivered_bytes: run.delivered_bytes(),
        connect_ms: opening
            .as_ref()
            .filter(|one| one.outcome == OpeningOutcome::Opened)
            .map(|one| one.after_ms),
        opening,
        handshake_ms: milliseconds(evidence.client.as_ref().and_then(|client| client.handshake)),
        fct_ms: milliseconds(evidence.client.as_ref().and_then(|client| client.fct)),
        ping: messages.ping(),
        delay_ms: messages.delay(),
        multipath,
        paths: paths.into_iter().map(|path| path.record).collect(),
        directions: directions(run, analyses, messages, responsiveness.as_ref()),
        responsiveness,
        impacts: analyses.iter().flat_map(|analysis| analysis.impacts.clone()).collect(),
        failback_ms: metrics::slowest_failback_ms(&failbacks),
        phases: analyses.iter().flat_map(|analysis| analysis.phases.clone()).collect(),
        links: evidence.links.clone(),
        diagnoses: connection.diagnoses,
        handover: run.handover(samples, events),
        parameters: parameters(run),
        counters: evidence.counters.clone(),
        notes,
        failbacks,
        ..metrics::combine(analyses)
    }
}

/// One record per direction. A pattern of messages has delays instead of goodput and stalls, latency under load the
/// goodput of its phase.
fn directions(
    run: &ResolvedRun<'_>,
    analyses: &[DirectionAnalysis],
    messages: &Messages,
    responsiveness: Option<&ResponsivenessRecord>,
) -> Vec<DirectionRecord> {
    let of_flow = |flow: &ResolvedFlow<'_>| {
        let direction = flow.direction;
        let delay_ms = messages.delay_of(direction);
        match analyses.iter().find(|one| one.direction == direction) {
            Some(of_bytes) => Some(DirectionRecord { delay_ms, ..of_bytes.record() }),
            None if delay_ms.is_none() && responsiveness.is_none() => None,
            None => Some(DirectionRecord {
                direction,
                goodput_mbps: responsiveness.and_then(|of_phases| of_phases.goodput_mbps(direction)),
                delivered_bytes: flow.receiver.map_or(0, |end| end.deliveries.total_bytes()),
                stall_ms: None,
                delay_ms,
            }),
        }
    };
    run.flows.iter().filter_map(of_flow).collect()
}

fn milliseconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_nanos() as f64 / 1e6)
}

/// Negotiated protocol and cipher suite; `None` in clear text, or when the connection was never opened.
fn encryption(evidence: &Evidence<'_>) -> Option<String> {
    let stream = evidence.client.as_ref()?.streams.first()?;
    let in_force = as_map(&stream.in_force);
    in_force.get("encryption").and_then(Value::as_str).map(str::to_owned)
}

impl ResolvedRun<'_> {
    /// Bytes delivered to the applications, the sum of both directions.
    fn delivered_bytes(&self) -> u64 {
        let receivers = self.flows.iter().filter_map(|flow| flow.receiver);
        receivers.map(|end| end.deliveries.total_bytes()).fold(0, u64::saturating_add)
    }

    fn analyse(&self, flow: &ResolvedFlow<'_>, samples: &[Sample]) -> Option<DirectionAnalysis> {
        let (evidence, origin) = (self.evidence, self.origin);
        let transfer = evidence.transfer()?;
        let disturbances: Vec<Disturbance> = evidence
            .executed
            .iter()
            // An event before the connection begins no phase and has no goodput before it.
            .filter(|event| event.at >= origin)
            .map(|event| Disturbance {
                at: event.at,
                kind: event.kind.clone(),
                path: Some(event.link.clone()),
                disruptive: event.kind.is_disruptive() && self.can_use(&event.link),
                effect: event.effect,
            })
            .collect();
        // Without the receiver's report no byte counts as received.
        let nothing = DeliverySeries::starting_at(origin);
        let deliveries = flow.receiver.map_or(&nothing, |end| &end.deliveries);
        if deliveries.first.is_none() && evidence.client.is_none() {
            return None;
        }
        // Without a rate limit the sending application always has data to send until the end of the test.
        let by_bytes = matches!(transfer.amount, Amount::Bytes(_));
        let offered =
            (transfer.rate_bps.is_some() || by_bytes).then(|| flow.sender.map(|end| &end.offered)).flatten();
        let receiver = receiving_side(flow.direction);
        let arrivals = samples.iter().filter(|sample| sample.side == receiver);
        Some(metrics::analyse(&Measurement {
            origin,
            omit: transfer.omit,
            duration: evidence.setting.parameters.nominal_duration(),
            direction: flow.direction,
            deliveries,
            offered,
            gave_up: evidence.gave_up,
            disturbances: &disturbances,
            paths: &PathCurves::from_samples(arrivals, origin, |figures| figures.bytes_received),
        }))
    }

    /// Whether this run's traffic can cross `link`. A single-path transport uses only the link that it is bound to.
    fn can_use(&self, link: &str) -> bool {
        let of_client: Vec<&str> =
            self.evidence.setting.paths.iter().map(|path| path.name.as_str()).collect();
        let own = self.evidence.label.path.as_deref().or(of_client.first().copied());
        self.evidence.label.transport.is_multipath() || own == Some(link) || !of_client.contains(&link)
    }
}

fn parameters(run: &ResolvedRun<'_>) -> Parameters {
    let evidence = run.evidence;
    let mut in_force = Map::new();
    for (end, _) in &run.ends {
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

fn notes(run: &ResolvedRun<'_>, analyses: &[DirectionAnalysis], failbacks: &[FailbackRecord]) -> Vec<String> {
    let evidence = run.evidence;
    let mut notes: Vec<String> = analyses.iter().flat_map(|analysis| analysis.notes.clone()).collect();
    notes.extend(metrics::failback_notes(failbacks));
    for (end, _) in &run.ends {
        if end.samples_thinned_by > 1 {
            notes.push(format!(
                "the {:?}'s record was too long to send in full: it holds every {}th sample",
                end.side, end.samples_thinned_by
            ));
        }
    }
    notes.extend(run.names.notes());
    notes.extend(witness::notes(run));
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
