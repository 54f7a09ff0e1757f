//! Events in words, and which of them a picture shows.

use crate::view::{RunData, value_text};
use pathbench_record::event::{Event, EventSource};

/// An event of the scenario as a picture marks it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Happening {
    pub(crate) t_ms: f64,
    pub(crate) label: String,
    pub(crate) path: Option<String>,
}

/// What the scenario did during a run, in order.
pub(crate) fn happenings(data: &RunData) -> Vec<Happening> {
    let shown = data.scenario_events().filter(|event| event.t_ms >= 0.0);
    shown.map(|one| Happening { t_ms: one.t_ms, label: event_label(one), path: one.path.clone() }).collect()
}

/// Subflows that came (`true`) and went (`false`) by the word of the kernel's path manager.
///
/// Both hosts report the same subflow; the second report of the same kind on the same path within 50 ms is left out.
pub(crate) fn subflow_marks<'a>(data: &RunData<'a>) -> Vec<(f64, bool, &'a Event)> {
    let mut marks: Vec<(f64, bool, &Event)> = Vec::new();
    for event in data.events.iter().copied().filter(|event| event.source == EventSource::Mptcp) {
        let opened = match event.kind.as_str() {
            "SUB_ESTABLISHED" => true,
            "SUB_CLOSED" => false,
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
#[must_use]
pub fn event_label(event: &Event) -> String {
    let path = event.path.as_deref().unwrap_or(&event.host);
    match event.kind.as_str() {
        "down" => format!("▼ {path} down"),
        "up" => format!("▲ {path} up"),
        "blackhole" => format!("▼ {path} black hole"),
        "restore" => format!("▲ {path} restored"),
        "remove-address" => format!("▼ {path} address removed"),
        "add-address" => format!("▲ {path} address added"),
        "set" => format!("◆ {path} {}", changes(event)),
        other => format!("◆ {path} {other}"),
    }
}

/// The event as a sentence: `wlan went down`.
#[must_use]
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
    let parts: Vec<String> =
        event.detail.iter().map(|(key, value)| format!("{key}={}", value_text(value))).collect();
    parts.join(" ")
}

/// What an event did to a path, in the past tense.
pub(crate) fn in_words(kind: &str, path: Option<&str>) -> String {
    let path = path.unwrap_or("the link");
    match kind {
        "down" => format!("{path} went down"),
        "up" => format!("{path} came up"),
        "blackhole" => format!("{path} became a black hole"),
        "restore" => format!("{path} was restored"),
        "remove-address" => format!("{path} lost its address"),
        "add-address" => format!("{path} got its address back"),
        "set" => format!("{path} was changed"),
        other => format!("`{other}` on {path}"),
    }
}
