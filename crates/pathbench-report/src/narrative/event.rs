//! Events in words, and which of them a picture shows.

use crate::view::{RunData, value_text};
use pathbench_record::event::{Event, EventSource};

/// An event of the scenario as a picture marks it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScenarioEvent {
    pub(crate) t_ms: f64,
    pub(crate) label: String,
    pub(crate) path: Option<String>,
}

/// Whether an event takes something away from a path.
pub(crate) fn is_disruption(event: &Event) -> bool {
    pathbench_analysis::metrics::is_disruptive(&event.kind)
}

/// Network changes beyond this are not marked one by one.
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
        let of_quic = event.source == EventSource::Quic && event.kind == "mtu-black-hole";
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
    event.kind.starts_with("address fe80:")
}

/// Subflows and QUIC paths that opened (`true`) and closed (`false`), as the kernel's path manager and the QUIC
/// connection report. A path that is suspended counts as closed, since no data is sent there.
///
/// Both hosts report the same subflow; the second report of the same kind on the same path within 50 ms is left out.
pub(crate) fn subflow_marks<'a>(data: &RunData<'a>) -> Vec<(f64, bool, &'a Event)> {
    let mut marks: Vec<(f64, bool, &Event)> = Vec::new();
    for event in &data.events {
        let opened = match (event.source, event.kind.as_str()) {
            (EventSource::Mptcp, "SUB_ESTABLISHED")
            | (EventSource::Quic, "path-established" | "path-resumed") => true,
            (EventSource::Mptcp, "SUB_CLOSED") | (EventSource::Quic, "path-abandoned" | "path-suspended") => {
                false
            }
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
    match event.kind.as_str() {
        "down" => format!("▼ {path} down"),
        "up" => format!("▲ {path} up"),
        "blackhole" => format!("▼ {path} black hole"),
        "outage" => format!("▼ {path} outage"),
        "fade" => format!("◆ {path} fades"),
        "mtu-black-hole" => format!("◆ {path}: MTU black hole found"),
        "restore" => format!("▲ {path} restored"),
        "remove-address" => format!("▼ {path} address removed"),
        "add-address" => format!("▲ {path} address added"),
        "set" => format!("◆ {path} {}", changes(event)),
        other => format!("◆ {path} {other}"),
    }
}

/// The event as a sentence: `wlan went down`.
pub fn event_sentence(event: &Event) -> String {
    if event.kind == "set" {
        return format!("{} changed: {}", event.path.as_deref().unwrap_or("the link"), changes(event));
    }
    in_words(&event.kind, event.path.as_deref())
}

/// The keys that a `set` event changed.
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

/// What an event did to a path, in the past tense.
pub(crate) fn in_words(kind: &str, path: Option<&str>) -> String {
    let path = path.unwrap_or("the link");
    match kind {
        "down" => format!("{path} went down"),
        "up" => format!("{path} came up"),
        "blackhole" => format!("{path} became a black hole"),
        "outage" => format!("{path} stopped sending"),
        "fade" => format!("{path} began to fade"),
        "restore" => format!("{path} was restored"),
        "remove-address" => format!("{path} lost its address"),
        "add-address" => format!("{path} got its address back"),
        "set" => format!("{path} was changed"),
        other => format!("`{other}` on {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_no_change_of_the_network() {
        let told = |kind: &str| Event {
            run: "r".to_owned(),
            t_ms: 1.0,
            source: EventSource::Link,
            host: "client".to_owned(),
            kind: kind.to_owned(),
            path: Some("eth".to_owned()),
            due_ms: None,
            detail: serde_json::Map::new(),
        };
        assert!(is_link_local(&told("address fe80::38d8:41ff:febd:6070/64 added")));
        assert!(!is_link_local(&told("address 2001:db8::1/64 added")));
        assert!(!is_link_local(&told("down")));
    }
}
