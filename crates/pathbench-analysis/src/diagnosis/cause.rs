//! The event that made a path silent.

use super::input::{DiagnosisInput, given_up_ms};
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::network::ClientPath;

/// Maximum time from the last acknowledgement to the record of the causing event: samples are 100 ms apart, and
/// packets in flight still arrive.
const SLACK_MS: f64 = 300.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cause {
    /// No packet passes: the interface is down, the address was removed, or the link drops all packets.
    Gone { words: String, ordered: bool, restored: Option<Restored> },
    /// A hop or an end accepts only smaller packets.
    Smaller { words: String, mtu_bytes: u32, restored: Option<Restored> },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Restored {
    pub(super) t_ms: f64,
    pub(super) words: String,
}

/// The last event before the silence that impaired the path and was not undone. `from_ms` and `to_ms` bound the
/// silence (`None`: it lasted to the end); `pmtu_bytes` is the path MTU in force at the sender.
pub(super) fn find_cause(
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    from_ms: f64,
    to_ms: Option<f64>,
    pmtu_bytes: u32,
) -> Option<Cause> {
    let until_ms = from_ms + SLACK_MS;
    let (event, effect) = taken(input, path, until_ms, pmtu_bytes)?;
    let end_ms = to_ms.into_iter().chain(given_up_ms(input)).fold(f64::INFINITY, f64::min);
    let restored = input
        .events
        .iter()
        .filter(|later| later.t_ms > until_ms && later.t_ms < end_ms && concerns(later, path, input))
        .find(|later| self::effect(later, pmtu_bytes).undoes(effect))
        .map(|event| Restored { t_ms: event.t_ms, words: in_words(event) });
    let words = in_words(event);
    Some(match effect {
        Effect::Smaller(mtu_bytes) => Cause::Smaller { words, mtu_bytes, restored },
        _ => Cause::Gone { words, ordered: event.source == EventSource::Scenario, restored },
    })
}

/// The event that interrupted a path until the end of the run, in words.
pub(super) fn final_interruption(input: &DiagnosisInput<'_>, path: &ClientPath) -> Option<(String, bool)> {
    let (event, effect) = taken(input, path, f64::INFINITY, 0)?;
    (effect == Effect::Gone).then(|| (in_words(event), event.source == EventSource::Scenario))
}

/// The event that interrupted a path before the first byte, in words.
pub(super) fn event_before_connect(input: &DiagnosisInput<'_>, path: &ClientPath) -> Option<String> {
    let (event, effect) = taken(input, path, 0.0, 0)?;
    (effect == Effect::Gone && event.source == EventSource::Scenario).then(|| in_words(event))
}

/// The impairment in force on a path at `until_ms`, for a sender with the path MTU `pmtu_bytes`.
fn taken<'a>(
    input: &DiagnosisInput<'a>,
    path: &ClientPath,
    until_ms: f64,
    pmtu_bytes: u32,
) -> Option<(&'a Event, Effect)> {
    let mut taken: Option<(&Event, Effect)> = None;
    for event in input.events.iter().filter(|event| event.t_ms <= until_ms && concerns(event, path, input)) {
        let effect = effect(event, pmtu_bytes);
        match effect {
            Effect::Gone | Effect::Lossy | Effect::Smaller(_) => {
                // A kernel's notification about a link that is already down is a consequence.
                if event.source == EventSource::Scenario || taken.is_none() {
                    taken = Some((event, effect));
                }
            }
            _ => taken = taken.filter(|(_, before)| !effect.undoes(*before)),
        }
    }
    taken
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Gone,
    Back,
    Lossy,
    Sound,
    /// Packets up to this size pass; the sender's packets are larger.
    Smaller(u32),
    Wide,
    None,
}

impl Effect {
    fn undoes(self, before: Self) -> bool {
        matches!(
            (self, before),
            (Self::Back, Self::Gone) | (Self::Sound, Self::Lossy) | (Self::Wide, Self::Smaller(_))
        )
    }
}

/// docs/results.md defines the kinds of events.
fn effect(event: &Event, pmtu_bytes: u32) -> Effect {
    match event.source {
        EventSource::Scenario => match event.kind {
            EventKind::Down
            | EventKind::Blackhole
            | EventKind::Outage
            | EventKind::RemoveAddress
            | EventKind::Fade => Effect::Gone,
            EventKind::Up | EventKind::Restore | EventKind::AddAddress => Effect::Back,
            EventKind::Set => change(event, pmtu_bytes),
            _ => Effect::None,
        },
        EventSource::Link => match event.kind {
            EventKind::Down
            | EventKind::CarrierDown
            | EventKind::Disappeared
            | EventKind::AddressRemoved
            | EventKind::WifiLeft => Effect::Gone,
            EventKind::Up
            | EventKind::CarrierUp
            | EventKind::Appeared
            | EventKind::AddressAdded
            | EventKind::WifiJoined => Effect::Back,
            _ => Effect::None,
        },
        EventSource::Mptcp | EventSource::Quic | EventSource::Observer => Effect::None,
    }
}

fn change(event: &Event, pmtu_bytes: u32) -> Effect {
    if let Some(mtu_bytes) = mtu_of(event) {
        return if mtu_bytes < pmtu_bytes { Effect::Smaller(mtu_bytes) } else { Effect::Wide };
    }
    match loss_of(event) {
        Some(loss) if loss >= 0.5 => Effect::Lossy,
        Some(_) => Effect::Sound,
        None => Effect::None,
    }
}

/// Whether the event is on the path itself, on a hop behind it (`wlan.hop`), or on a link that belongs to no path and
/// that all paths may share.
fn concerns(event: &Event, path: &ClientPath, input: &DiagnosisInput<'_>) -> bool {
    let Some(link) = &event.path else { return false };
    let is_of = |planned: &ClientPath| {
        link.strip_prefix(planned.name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if matches!(event.kind, EventKind::AddressAdded | EventKind::AddressRemoved) {
        // An event on another address of the interface, such as a link-local one, does not affect the path.
        let address =
            event.detail.get("address").and_then(|network| network.as_str()?.split('/').next()?.parse().ok());
        return is_of(path) && address.is_some_and(|address| path.addresses.contains(&address));
    }
    is_of(path) || (event.source == EventSource::Scenario && !input.planned.iter().any(is_of))
}

fn mtu_of(event: &Event) -> Option<u32> {
    ["path_mtu_bytes", "mtu_bytes"]
        .iter()
        .filter_map(|key| event.detail.get(*key)?.as_u64())
        .min()
        .and_then(|bytes| u32::try_from(bytes).ok())
}

fn loss_of(event: &Event) -> Option<f64> {
    event.detail.get("loss")?.as_f64()
}

/// "the scenario's `blackhole wlan` at 3.0 s"
fn in_words(event: &Event) -> String {
    let who = if event.source == EventSource::Scenario { "the scenario's " } else { "" };
    let link = event.path.as_deref().map(|link| format!(" {link}")).unwrap_or_default();
    let address = event.detail.get("address").and_then(|network| network.as_str());
    let value = match (mtu_of(event), address) {
        (Some(bytes), _) => format!(" (MTU {bytes} bytes)"),
        (None, Some(network)) => format!(" ({network})"),
        (None, None) => String::new(),
    };
    let when = if event.t_ms < 0.0 {
        "before the first byte".to_owned()
    } else {
        format!("at {:.1} s", event.t_ms / 1e3)
    };
    format!("{who}`{}{link}`{value} {when}", event.kind)
}
