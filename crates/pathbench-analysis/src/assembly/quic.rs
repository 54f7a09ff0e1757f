//! What QUIC told of its paths: events for the result, and what the multipath verdict has to know.

use super::{Evidence, PathNames};
use crate::verdict::{AskedPath, QuicPaths};
use pathbench_record::connection::PathEvent;
use pathbench_record::end::EndRecord;
use pathbench_record::event::Event;
use pathbench_record::sample::Side;
use pathbench_record::transport::Transport;
use serde_json::{Map, Value};
use std::net::IpAddr;

/// An end's path events in order of time, each once: every stream's record tells those of its whole connection.
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

/// The client's paths and what happened to them; `None` for other transports than mpquic.
pub(super) fn paths(evidence: &Evidence<'_>) -> Option<QuicPaths> {
    if evidence.label.transport != Transport::Mpquic {
        return None;
    }
    let first = evidence.label.path.as_deref();
    let mut asked: Vec<AskedPath> = evidence
        .setting
        .paths
        .iter()
        .map(|path| AskedPath {
            name: path.name.clone(),
            addresses: path.addresses.clone(),
            backup: path.backup.unwrap_or(false),
        })
        .collect();
    // Stable: the others keep their order.
    asked.sort_by_key(|path| first.is_some_and(|first| first != path.name));
    Some(QuicPaths {
        asked,
        events: evidence.client.as_ref().map(path_events).unwrap_or_default(),
        scheduler: evidence.setting.scheduler.clone(),
    })
}

/// The path of an event, by the client's address on it.
pub(super) fn path_of(event: &PathEvent, side: Side, names: &PathNames) -> Option<String> {
    let address: IpAddr = match side {
        Side::Client => event.local?,
        Side::Server => event.remote?.ip(),
    };
    names.known(address).cloned()
}

/// Everything else that is said, for [`Event::detail`].
pub(super) fn detail(event: &PathEvent) -> Map<String, Value> {
    let Ok(Value::Object(mut detail)) = serde_json::to_value(event) else { return Map::new() };
    // Both stand in the event itself.
    for known in ["at", "kind"] {
        detail.remove(known);
    }
    detail
}

/// Appends the path events of both ends; `event` makes one of its time, host and kind.
pub(super) fn append_events(
    evidence: &Evidence<'_>,
    names: &PathNames,
    events: &mut Vec<Event>,
    event: &dyn Fn(&PathEvent, &str) -> Event,
) {
    for end in [evidence.client.as_ref(), evidence.server.as_ref()].into_iter().flatten() {
        let host = match end.side {
            Side::Client => &evidence.setting.client,
            Side::Server => &evidence.setting.server,
        };
        events.extend(path_events(end).iter().map(|told| Event {
            path: path_of(told, end.side, names),
            detail: detail(told),
            ..event(told, host)
        }));
    }
}
