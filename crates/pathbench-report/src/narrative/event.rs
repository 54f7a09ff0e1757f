//! Events in words, and the selection of events for pictures.

use crate::quantity::{bytes, duration, percent, plain, rate};
use crate::run_data::RunData;
use crate::view::value_text;
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::text::three_digits;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScenarioEvent {
    pub(crate) t_ms: f64,
    pub(crate) label: String,
    pub(crate) path: Option<String>,
}

impl ScenarioEvent {
    fn from_event(event: &Event) -> Self {
        Self { t_ms: event.t_ms, label: event_label(event), path: event.path.clone() }
    }
}

const MOST_CHANGES: usize = 12;

pub(crate) fn scenario_events(data: &RunData) -> Vec<ScenarioEvent> {
    let of = |source: EventSource| {
        data.events.iter().filter(move |event| event.source == source && event.t_ms >= 0.0)
    };
    let mut shown: Vec<&Event> = of(EventSource::Scenario).collect();
    if shown.is_empty() {
        shown = of(EventSource::Link).filter(|event| !is_link_local(event)).take(MOST_CHANGES).collect();
    }
    shown.into_iter().map(ScenarioEvent::from_event).collect()
}

/// Events that can change packet sizes: those of the scenario, and QUIC's detection of an MTU black hole.
pub(crate) fn size_events(data: &RunData) -> Vec<ScenarioEvent> {
    let is_shown = |event: &&Event| {
        let of_quic = event.source == EventSource::Quic && event.kind == EventKind::MtuBlackHole;
        event.t_ms >= 0.0 && (event.source == EventSource::Scenario || of_quic)
    };
    data.events.iter().filter(is_shown).take(MOST_CHANGES).map(ScenarioEvent::from_event).collect()
}

/// Whether a change concerns only a link-local IPv6 address. The kernel adds one to every interface about a second
/// after it came up, and no test traffic uses it.
fn is_link_local(event: &Event) -> bool {
    event.detail.get("address").and_then(|address| address.as_str()).is_some_and(|it| it.starts_with("fe80:"))
}

/// Subflows and QUIC paths that opened (`true`) and closed (`false`), as reported by the kernel's path manager and
/// the QUIC connection. A suspended path counts as closed, because no data is sent on it.
///
/// Both hosts report the same subflow; a second report of the same kind on the same path within 50 ms is left out.
pub(crate) fn subflow_marks(data: &RunData) -> Vec<(f64, bool, &Event)> {
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

pub(crate) fn subflow_words(event: &Event, opened: bool) -> &'static str {
    match (event.source, &event.kind, opened) {
        (EventSource::Quic, EventKind::PathSuspended, _) => "path suspended",
        (EventSource::Quic, EventKind::PathResumed, _) => "path resumed",
        (EventSource::Quic, _, true) => "path opened",
        (EventSource::Quic, _, false) => "path closed",
        (_, _, true) => "subflow opened",
        (_, _, false) => "subflow closed",
    }
}

/// The sign, label and predicate for an event on a path.
const fn words(kind: &EventKind) -> Option<(char, &'static str, &'static str)> {
    Some(match kind {
        EventKind::Down => ('▼', "down", "went down"),
        EventKind::Up => ('▲', "up", "came up"),
        EventKind::Blackhole => ('▼', "black hole", "became a black hole"),
        EventKind::Outage => ('▼', "outage", "stopped sending"),
        EventKind::Fade => ('◆', "fades", "began to fade"),
        EventKind::Restore => ('▲', "restored", "was restored"),
        EventKind::RemoveAddress => ('▼', "address removed", "lost its address"),
        EventKind::AddAddress => ('▲', "address added", "got its address back"),
        _ => return None,
    })
}

fn event_label(event: &Event) -> String {
    let path = event.path.as_deref().unwrap_or(&event.host);
    match (&event.kind, words(&event.kind)) {
        (_, Some((sign, words, _))) => format!("{sign} {path} {words}"),
        (EventKind::MtuBlackHole, _) => format!("◆ {path}: MTU black hole found"),
        (EventKind::Set | EventKind::Mtu, _) => format!("◆ {path} {}", changes(event)),
        (EventKind::AddressAdded, _) => format!("◆ {path} {} added", changes(event)),
        (EventKind::AddressRemoved, _) => format!("◆ {path} {} removed", changes(event)),
        (other, _) => format!("◆ {path} {other}"),
    }
}

pub(crate) fn event_sentence(event: &Event) -> String {
    if event.kind == EventKind::Set {
        return format!("{} changed: {}", event.path.as_deref().unwrap_or("the link"), changes(event));
    }
    in_words(&event.kind, event.path.as_deref())
}

fn changes(event: &Event) -> String {
    if event.detail.is_empty() {
        return "changed".to_owned();
    }
    event.detail.iter().map(|(key, value)| detail(key, value)).collect::<Vec<_>>().join(" ")
}

/// A quantity with its unit.
type Words = fn(f64) -> String;

/// A detail as the key of the scenario file and a quantity with its unit: `rate=20 Mbit/s`. In the record the name of a
/// detail has the unit.
pub(crate) fn detail(name: &str, value: &Value) -> String {
    const UNITS: [(&str, Words); 5] = [
        ("_bps", |bps| rate(bps / 1e6)),
        ("_ms", duration),
        ("_bytes", |count| bytes(count.max(0.0) as u64)),
        ("_mps", |speed| format!("{} m/s", three_digits(speed))),
        ("_m", |length| format!("{} m", three_digits(length))),
    ];
    let number = value.as_f64().filter(|number| number.is_finite());
    match number {
        // Sizes of packets are exact.
        Some(_) if name.ends_with("mtu_bytes") => format!("{}={value}", name.trim_end_matches("_bytes")),
        Some(part) if name == "loss" => format!("loss={}", plain(&percent(part))),
        Some(number) => {
            let known = UNITS.iter().find_map(|(unit, words)| Some((name.strip_suffix(unit)?, words)));
            let Some((key, words)) = known else { return format!("{name}={value}") };
            format!("{key}={}", plain(&words(number)))
        }
        None => format!("{name}={}", value_text(value)),
    }
}

pub(crate) fn in_words(kind: &EventKind, path: Option<&str>) -> String {
    let path = path.unwrap_or("the link");
    match words(kind) {
        Some((.., words)) => format!("{path} {words}"),
        None if *kind == EventKind::Set => format!("{path} was changed"),
        None => format!("`{kind}` on {path}"),
    }
}
