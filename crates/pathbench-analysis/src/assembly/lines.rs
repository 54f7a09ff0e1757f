//! The lines of `samples.jsonl`, `events.jsonl` and `delivery.jsonl` of one run.

use super::{Evidence, Notification, PathNames, WifiChange, quic};
use pathbench_record::direction::Direction;
use pathbench_record::event::{DeliveryLine, Event, EventKind, EventSource};
use pathbench_record::kernel_event::{LinkChange, MptcpEvent, WifiNetwork};
use pathbench_record::sample::{Sample, Side};
use pathbench_record::time::Timestamp;
use serde_json::{Map, Value};

/// Every sample of both ends, on the run's clock, in order of time.
pub(super) fn samples(evidence: &Evidence<'_>, names: &PathNames, origin: Timestamp) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for end in [evidence.client.as_ref(), evidence.server.as_ref()].into_iter().flatten() {
        let host = match end.side {
            Side::Client => &evidence.setting.client,
            Side::Server => &evidence.setting.server,
        };
        samples.extend(end.samples.iter().map(|sample| Sample {
            run: evidence.id.clone(),
            t_ms: rounded(sample.at.ms_from(origin)),
            host: host.clone(),
            side: end.side,
            stream: sample.stream,
            path: names.of_figures(&sample.figures, end.side),
            figures: sample.figures.clone(),
        }));
    }
    samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
    samples
}

pub(super) fn deliveries(
    evidence: &Evidence<'_>,
    direction: Direction,
    origin: Timestamp,
) -> Vec<DeliveryLine> {
    let Some(receiver) = evidence.receiver(direction) else { return Vec::new() };
    let lines = DeliveryLine::of_series(&evidence.id, direction, &receiver.deliveries, origin);
    lines.into_iter().map(|line| DeliveryLine { t_ms: rounded(line.t_ms), ..line }).collect()
}

pub(super) fn events(evidence: &Evidence<'_>, names: &PathNames, origin: Timestamp) -> Vec<Event> {
    let event = |at: Timestamp, source, host: &str, kind: EventKind| Event {
        run: evidence.id.clone(),
        t_ms: rounded(at.ms_from(origin)),
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
            due_ms: Some(rounded(executed.due.ms_from(origin))),
            detail: executed.detail.clone(),
            ..event(executed.at, EventSource::Scenario, &executed.node, executed.kind.clone())
        });
    }
    for seen in &evidence.notifications {
        events.push(match &seen.what {
            Notification::Mptcp(told) => {
                let addresses = [told.local, told.remote].into_iter().flatten();
                Event {
                    path: addresses.into_iter().find_map(|address| names.known(address.ip()).cloned()),
                    detail: path_manager_detail(told),
                    ..event(seen.at, EventSource::Mptcp, &seen.node, told.kind.event_kind())
                }
            }
            Notification::Link(told) => Event {
                path: told
                    .name
                    .as_deref()
                    .and_then(|name| evidence.setting.path_of_interface(&seen.node, name)),
                detail: link_detail(told.change),
                ..event(seen.at, EventSource::Link, &seen.node, told.change.event_kind())
            },
            Notification::Wifi(told) => {
                let (source, kind) = wifi_kind(told.change);
                Event {
                    path: evidence.setting.path_of_interface(&seen.node, &told.interface),
                    detail: told.network.as_ref().map(wifi_detail).unwrap_or_default(),
                    ..event(seen.at, source, &seen.node, kind)
                }
            }
        });
    }
    quic::append_events(evidence, names, &mut events, &|told, host| {
        event(told.at, EventSource::Quic, host, told.kind.name().into())
    });
    for &direction in evidence.directions() {
        let Some(receiver) = evidence.receiver(direction) else { continue };
        let host = match receiver.side {
            Side::Client => &evidence.setting.client,
            Side::Server => &evidence.setting.server,
        };
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

fn path_manager_detail(event: &MptcpEvent) -> Map<String, Value> {
    let mut detail = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            detail.insert(key.to_owned(), value);
        }
    };
    put("token", event.token.map(|token| format!("{token:08x}").into()));
    put("local", event.local.map(|address| address.to_string().into()));
    put("remote", event.remote.map(|address| address.to_string().into()));
    put("local_id", event.local_id.map(Value::from));
    put("remote_id", event.remote_id.map(Value::from));
    put("backup", event.backup.map(Value::from));
    put("error", event.error.map(Value::from));
    put("reset_reason", event.reset_reason.map(Value::from));
    put("interface_index", event.interface_index.map(Value::from));
    detail
}

fn link_detail(change: LinkChange) -> Map<String, Value> {
    let (key, value) = match change {
        LinkChange::Mtu(bytes) => ("mtu_bytes", bytes.into()),
        LinkChange::AddressAdded(network) | LinkChange::AddressRemoved(network) => {
            ("address", network.to_string().into())
        }
        _ => return Map::new(),
    };
    Map::from_iter([(key.to_owned(), value)])
}

/// What a reader looks for: changes stand with those of links, the signal's course by itself.
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
    let told = [
        ("ssid", network.ssid.clone().map(Value::from)),
        ("bssid", network.bssid.map(|bssid| bssid.to_string().into())),
        ("frequency_mhz", network.frequency_mhz.map(Value::from)),
        ("signal_dbm", network.signal_dbm.map(Value::from)),
        ("tx_mbps", network.tx_bps.map(mbps)),
        ("rx_mbps", network.rx_bps.map(mbps)),
    ];
    told.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Milliseconds with three decimals: microseconds are all that the clock's readers are good for.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}
