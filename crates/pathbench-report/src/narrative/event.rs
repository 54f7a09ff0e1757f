//! Events in words, and which of them a picture shows.

use crate::view::{RunData, value_text};
use pathbench_record::event::{Event, EventKind, EventSource};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScenarioEvent {
    pub(crate) t_ms: f64,
    pub(crate) label: String,
    pub(crate) path: Option<String>,
}

pub(crate) fn is_disruption(event: &Event) -> bool {
    event.kind.is_disruptive()
}

const MOST_CHANGES: usize = 12;

/// The scenario's events during a run, in order; without a scenario, the link changes that the kernel reported.
pub(crate) fn scenario_events(data: &RunData) -> Vec<ScenarioEvent> {
    let of = |source: EventSource| {
        data.events.iter().copied().filter(move |event| event.source == source && event.t_ms >= 0.0)
    };
    let mut shown: Vec<&Event> = of(EventSource::Scenario).collect();
    if shown.is_empty() {
        shown = of(EventSource::Link).filter(|event| !is_link_local(event)).take(MOST_CHANGES).collect();
    }
    shown
        .into_iter()
        .map(|one| ScenarioEvent { t_ms: one.t_ms, label: event_label(one), path: one.path.clone() })
        .collect()
}

/// Events that can change packet sizes: those of the scenario, and QUIC's detection of an MTU black hole.
pub(crate) fn size_events(data: &RunData) -> Vec<ScenarioEvent> {
    let is_shown = |event: &&Event| {
        let of_quic = event.source == EventSource::Quic && event.kind == EventKind::MtuBlackHole;
        event.t_ms >= 0.0 && (event.source == EventSource::Scenario || of_quic)
    };
    let shown = data.events.iter().copied().filter(is_shown).take(MOST_CHANGES);
    shown
        .map(|one| ScenarioEvent { t_ms: one.t_ms, label: event_label(one), path: one.path.clone() })
        .collect()
}

/// Whether a change concerns a link-local IPv6 address only. The kernel gives every interface one about a second after
/// it came up, and no test's traffic uses it.
fn is_link_local(event: &Event) -> bool {
    event.detail.get("address").and_then(|address| address.as_str()).is_some_and(|it| it.starts_with("fe80:"))
}

/// Subflows and QUIC paths that opened (`true`) and closed (`false`), as the kernel's path manager and the QUIC
/// connection report. A path that is suspended counts as closed, since no data is sent there.
///
/// Both hosts report the same subflow; the second report of the same kind on the same path within 50 ms is left out.
pub(crate) fn subflow_marks<'a>(data: &RunData<'a>) -> Vec<(f64, bool, &'a Event)> {
    let mut marks: Vec<(f64, bool, &Event)> = Vec::new();
    for event in &data.events {
        let opened = match (event.source, &event.kind) {
            (EventSource::Mptcp, EventKind::SubEstablished)
            | (EventSource::Quic, EventKind::PathEstablished | EventKind::PathResumed) => true,
            (EventSource::Mptcp, EventKind::SubClosed)
            | (EventSource::Quic, EventKind::PathAbandoned | EventKind::PathSuspended) => false,
            _ => continue,
        };
        let same = |(t_ms, kind, known): &&(f64, bool, &Event)| {
            *kind == opened && known.path == event.path && event.t_ms - t_ms < 50.0
        };
        if marks.iter().rev().find(same).is_none() {
            marks.push((event.t_ms, opened, event));
        }
    }
    marks
}

/// A short label for a mark in a picture: `▼ wlan down`, `▲ wlan up`, `◆ wlan rate=50mbit`.
pub fn event_label(event: &Event) -> String {
    let path = event.path.as_deref().unwrap_or(&event.host);
    match &event.kind {
        EventKind::Down => format!("▼ {path} down"),
        EventKind::Up => format!("▲ {path} up"),
        EventKind::Blackhole => format!("▼ {path} black hole"),
        EventKind::Outage => format!("▼ {path} outage"),
        EventKind::Fade => format!("◆ {path} fades"),
        EventKind::MtuBlackHole => format!("◆ {path}: MTU black hole found"),
        EventKind::Restore => format!("▲ {path} restored"),
        EventKind::RemoveAddress => format!("▼ {path} address removed"),
        EventKind::AddAddress => format!("▲ {path} address added"),
        EventKind::Set | EventKind::Mtu => format!("◆ {path} {}", changes(event)),
        EventKind::AddressAdded => format!("◆ {path} {} added", changes(event)),
        EventKind::AddressRemoved => format!("◆ {path} {} removed", changes(event)),
        other => format!("◆ {path} {other}"),
    }
}

/// The event as a sentence: `wlan went down`.
pub fn event_sentence(event: &Event) -> String {
    if event.kind == EventKind::Set {
        return format!("{} changed: {}", event.path.as_deref().unwrap_or("the link"), changes(event));
    }
    in_words(&event.kind, event.path.as_deref())
}

fn changes(event: &Event) -> String {
    if event.detail.is_empty() {
        return "changed".to_owned();
    }
    let parts: Vec<String> = event
        .detail
        .iter()
        .map(|(key, value)| format!("{}={}", scenario_key(key), value_text(value)))
        .collect();
    parts.join(" ")
}

/// The key of a scenario file that a detail comes from: a number that has its unit there has it in its name here.
fn scenario_key(detail: &str) -> &str {
    match detail {
        "path_mtu_bytes" | "mtu_bytes" => detail.trim_end_matches("_bytes"),
        other => other,
    }
}

pub(crate) fn in_words(kind: &EventKind, path: Option<&str>) -> String {
    let path = path.unwrap_or("the link");
    match kind {
        EventKind::Down => format!("{path} went down"),
        EventKind::Up => format!("{path} came up"),
        EventKind::Blackhole => format!("{path} became a black hole"),
        EventKind::Outage => format!("{path} stopped sending"),
        EventKind::Fade => format!("{path} began to fade"),
        EventKind::Restore => format!("{path} was restored"),
        EventKind::RemoveAddress => format!("{path} lost its address"),
        EventKind::AddAddress => format!("{path} got its address back"),
        EventKind::Set => format!("{path} was changed"),
        other => format!("`{other}` on {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_no_change_of_the_network() {
        let added = |network: &str| Event {
            run: "r".to_owned(),
            t_ms: 1.0,
            source: EventSource::Link,
            host: "client".to_owned(),
            kind: EventKind::AddressAdded,
            path: Some("eth".to_owned()),
            due_ms: None,
            detail: serde_json::Map::from_iter([("address".to_owned(), network.into())]),
        };
        assert!(is_link_local(&added("fe80::38d8:41ff:febd:6070/64")));
        assert!(!is_link_local(&added("2001:db8::1/64")));
        assert!(!is_link_local(&Event {
            kind: EventKind::Down,
            detail: serde_json::Map::new(),
            ..added("")
        }));
    }
}
