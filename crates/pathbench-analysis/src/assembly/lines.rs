//! The lines of `samples.jsonl`, `events.jsonl` and `delivery.jsonl` of one run.

use super::evidence::{Evidence, Notification, SeenEvent, WifiChange, as_map};
use super::messages::Messages;
use super::resolved::{ResolvedFlow, ResolvedRun};
use pathbench_record::connection::PathEvent;
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::end::{EndRecord, MessageLine};
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::kernel_event::{LinkChange, MptcpEvent, WifiNetwork};
use pathbench_record::sample::{Sample, Side};
use pathbench_record::time::Timestamp;
use serde_json::{Map, Value};
use std::net::IpAddr;

/// Lines of a run in progress.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinesSoFar {
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
    /// For `messages.jsonl`. A message that still waits for its acknowledgement counts as unacknowledged.
    pub messages: Vec<MessageLine>,
}

impl LinesSoFar {
    /// Lines of `evidence`, which may cover only a part of the run. `origin` is the zero of their clock; a finished
    /// run's zero is known only when both ends' records are available.
    pub fn from_evidence(evidence: &Evidence<'_>, origin: Timestamp) -> Self {
        let run = ResolvedRun::new(evidence, origin);
        Self { samples: samples(&run), events: events(&run), messages: Messages::new(&run).lines(&run) }
    }
}

/// Every sample of both ends, on the run's clock, sorted by time.
pub(super) fn samples(run: &ResolvedRun<'_>) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for (end, host) in &run.ends {
        samples.extend(end.samples.iter().map(|sample| Sample {
            run: run.evidence.id.clone(),
            t_ms: rounded(sample.at.ms_from(run.origin)),
            host: (*host).to_owned(),
            side: end.side,
            stream: sample.stream,
            path: run.names.name_figures(&sample.figures, end.side),
            figures: sample.figures.clone(),
        }));
    }
    samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
    samples
}

pub(super) fn deliveries(run: &ResolvedRun<'_>) -> Vec<DeliveryLine> {
    let of_flow = |flow: &ResolvedFlow<'_>| {
        let series = flow.receiver.map(|receiver| &receiver.deliveries);
        let lines = series
            .map(|series| DeliveryLine::of_series(&run.evidence.id, flow.direction, series, run.origin));
        lines
            .into_iter()
            .flatten()
            .map(|line| DeliveryLine { t_ms: rounded(line.t_ms), ..line })
            .collect::<Vec<_>>()
    };
    run.flows.iter().flat_map(of_flow).collect()
}

pub(super) fn events(run: &ResolvedRun<'_>) -> Vec<Event> {
    let evidence = run.evidence;
    let event = |at: Timestamp, source, host: &str, kind: EventKind| Event {
        run: evidence.id.clone(),
        t_ms: rounded(at.ms_from(run.origin)),
        source,
        host: host.to_owned(),
        kind,
        path: None,
        due_ms: None,
        detail: Map::new(),
    };
    let mut events: Vec<Event> = Vec::new();
    for executed in &evidence.executed {
        events.push(Event {
            path: Some(executed.link.clone()),
            due_ms: Some(rounded(executed.due.ms_from(run.origin))),
            detail: executed.detail.clone(),
            ..event(executed.at, EventSource::Scenario, &executed.node, executed.kind.clone())
        });
    }
    events.extend(
        evidence
            .notifications
            .iter()
            .map(|seen| notification(run, seen, &|source, kind| event(seen.at, source, &seen.node, kind))),
    );
    for (end, host) in &run.ends {
        events.extend(path_events(end).iter().map(|seen| Event {
            path: client_address(seen, end.side).and_then(|address| run.names.known(address)),
            detail: quic_detail(seen),
            ..event(seen.at, EventSource::Quic, host, seen.kind.name().into())
        }));
    }
    let is_receiver = |end: &EndRecord| {
        run.flows.iter().any(|flow| flow.receiver.is_some_and(|receiver| receiver.side == end.side))
    };
    for (receiver, host) in run.ends.iter().filter(|(end, _)| is_receiver(end)) {
        for (at, kind) in [
            (receiver.deliveries.first, EventKind::FirstByte),
            (receiver.deliveries.last, EventKind::LastByte),
        ] {
            events.extend(at.map(|at| event(at, EventSource::Observer, host, kind)));
        }
    }
    events.extend(evidence.gave_up.map(|at| {
        let error = evidence.error.iter().map(|error| ("error".to_owned(), Value::from(error.as_str())));
        let gave_up = event(at, EventSource::Observer, &evidence.setting.client, EventKind::GaveUp);
        Event { detail: error.collect(), ..gave_up }
    }));
    events.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
    events
}

/// Converts a kernel's notification to an event; `event` builds it from source and kind.
fn notification(
    run: &ResolvedRun<'_>,
    seen: &SeenEvent,
    event: &dyn Fn(EventSource, EventKind) -> Event,
) -> Event {
    let path_of = |interface: &str| run.evidence.setting.path_of_interface(&seen.node, interface);
    match &seen.what {
        Notification::Mptcp(reported) => {
            let addresses = [reported.local, reported.remote].into_iter().flatten();
            Event {
                path: addresses.into_iter().find_map(|address| run.names.known(address.ip())),
                detail: path_manager_detail(reported),
                ..event(EventSource::Mptcp, reported.kind.clone())
            }
        }
        Notification::Link(reported) => Event {
            path: reported.name.as_deref().and_then(path_of),
            detail: link_detail(reported.change),
            ..event(EventSource::Link, reported.change.event_kind())
        },
        Notification::Wifi(reported) => {
            let (source, kind) = wifi_kind(reported.change);
            Event {
                path: path_of(&reported.interface),
                detail: reported.network.as_ref().map(wifi_detail).unwrap_or_default(),
                ..event(source, kind)
            }
        }
    }
}

/// An end's path events sorted by time, without duplicates: every stream records the events of its whole connection.
pub(super) fn path_events(end: &EndRecord) -> Vec<PathEvent> {
    let mut events: Vec<PathEvent> = Vec::new();
    for event in &end.path_events {
        if !events.contains(event) {
            events.push(event.clone());
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

fn client_address(event: &PathEvent, side: Side) -> Option<IpAddr> {
    match side {
        Side::Client => event.local,
        Side::Server => event.remote.map(|address| address.ip()),
    }
}

fn quic_detail(event: &PathEvent) -> Map<String, Value> {
    let mut detail = as_map(event);
    // The event itself has both keys.
    detail.retain(|key, _| key != "at" && key != "kind");
    detail
}

fn path_manager_detail(event: &MptcpEvent) -> Map<String, Value> {
    detail([
        ("token", event.token.map(|token| format!("{token:08x}").into())),
        ("local", event.local.map(|address| address.to_string().into())),
        ("remote", event.remote.map(|address| address.to_string().into())),
        ("local_id", event.local_id.map(Value::from)),
        ("remote_id", event.remote_id.map(Value::from)),
        ("backup", event.backup.map(Value::from)),
        ("error", event.error.map(Value::from)),
        ("reset_reason", event.reset_reason.map(Value::from)),
        ("interface_index", event.interface_index.map(Value::from)),
    ])
}

/// The known values with their keys.
fn detail<const N: usize>(known: [(&str, Option<Value>); N]) -> Map<String, Value> {
    known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn link_detail(change: LinkChange) -> Map<String, Value> {
    match change {
        LinkChange::Mtu(bytes) => detail([("mtu_bytes", Some(bytes.into()))]),
        LinkChange::AddressAdded(network) | LinkChange::AddressRemoved(network) => {
            detail([("address", Some(network.to_string().into()))])
        }
        _ => Map::new(),
    }
}

/// Connection changes are link events; signal readings are observations.
const fn wifi_kind(change: WifiChange) -> (EventSource, EventKind) {
    match change {
        WifiChange::Joined => (EventSource::Link, EventKind::WifiJoined),
        WifiChange::Left => (EventSource::Link, EventKind::WifiLeft),
        WifiChange::Moved => (EventSource::Link, EventKind::WifiMoved),
        WifiChange::Signal => (EventSource::Observer, EventKind::WifiSignal),
    }
}

fn wifi_detail(network: &WifiNetwork) -> Map<String, Value> {
    let mbps = |bps: u64| Value::from(bps as f64 / 1e6);
    detail([
        ("ssid", network.ssid.clone().map(Value::from)),
        ("bssid", network.bssid.map(|bssid| bssid.to_string().into())),
        ("frequency_mhz", network.frequency_mhz.map(Value::from)),
        ("signal_dbm", network.signal_dbm.map(Value::from)),
        ("tx_mbps", network.tx_bps.map(mbps)),
        ("rx_mbps", network.rx_bps.map(mbps)),
    ])
}

/// Milliseconds with three decimals: the recorded times have microsecond resolution.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}
