//! What was done to a path, or happened to it, before it fell silent.

use super::{DiagnosisInput, PlannedPath};
use pathbench_record::event::{Event, EventKind, EventSource};

/// The event that a silence is put down to may be noted that much later than the last acknowledgement is seen: samples
/// are 100 ms apart, and what is on its way still arrives.
const SLACK_MS: f64 = 300.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cause {
    /// Nothing passes: the interface is down, the address gone, the link dead. In words.
    Gone { words: String, ordered: bool, restored: Option<Restored> },
    /// A hop or an end takes smaller packets only.
    Smaller { words: String, mtu_bytes: u32, restored: Option<Restored> },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Restored {
    pub(super) t_ms: f64,
    pub(super) words: String,
}

/// The last thing before the silence that took something from the path and was not taken back.
/// `from_ms` and `to_ms` are those of the silence (`None`: it lasted), `pmtu_bytes` what the sender had in force.
pub(super) fn of(
    input: &DiagnosisInput<'_>,
    path: &PlannedPath,
    from_ms: f64,
    to_ms: Option<f64>,
    pmtu_bytes: u32,
) -> Option<Cause> {
    let until_ms = from_ms + SLACK_MS;
    let (event, effect) = taken(input, path, until_ms, pmtu_bytes)?;
    let end_ms = to_ms.unwrap_or(f64::INFINITY);
    let restored = input
        .events
        .iter()
        .filter(|later| later.t_ms > until_ms && later.t_ms < end_ms && concerns(later, path, input))
        .find(|later| self::effect(later, pmtu_bytes).takes_back(effect))
        .map(|event| Restored { t_ms: event.t_ms, words: in_words(event) });
    let words = in_words(event);
    Some(match effect {
        Effect::Smaller(mtu_bytes) => Cause::Smaller { words, mtu_bytes, restored },
        _ => Cause::Gone { words, ordered: event.source == EventSource::Scenario, restored },
    })
}

/// What took a path away and never gave it back, in words.
pub(super) fn away(input: &DiagnosisInput<'_>, path: &PlannedPath) -> Option<(String, bool)> {
    let (event, effect) = taken(input, path, f64::INFINITY, 0)?;
    (effect == Effect::Gone).then(|| (in_words(event), event.source == EventSource::Scenario))
}

/// What is in force on a path at a moment that keeps packets from passing, of a sender with this path MTU.
fn taken<'a>(
    input: &DiagnosisInput<'a>,
    path: &PlannedPath,
    until_ms: f64,
    pmtu_bytes: u32,
) -> Option<(&'a Event, Effect)> {
    let mut taken: Option<(&Event, Effect)> = None;
    for event in input.events.iter().filter(|event| event.t_ms <= until_ms && concerns(event, path, input)) {
        let effect = effect(event, pmtu_bytes);
        match effect {
            Effect::Gone | Effect::Lossy | Effect::Smaller(_) => {
                // What a kernel tells of a link that is away already is what came of that.
                if event.source == EventSource::Scenario || taken.is_none() {
                    taken = Some((event, effect));
                }
            }
            _ => taken = taken.filter(|(_, before)| !effect.takes_back(*before)),
        }
    }
    taken
}

/// What an event does to its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Gone,
    Back,
    Lossy,
    Sound,
    /// Packets up to this size pass, which is less than what is sent.
    Smaller(u32),
    Wide,
    None,
}

impl Effect {
    fn takes_back(self, before: Self) -> bool {
        matches!(
            (self, before),
            (Self::Back, Self::Gone) | (Self::Sound, Self::Lossy) | (Self::Wide, Self::Smaller(_))
        )
    }
}

/// See the kinds of events in docs/results.md.
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

/// An event of the path itself, of a hop behind it (`wlan.hop`), or of a link that is nobody's own and that all paths
/// may share.
fn concerns(event: &Event, path: &PlannedPath, input: &DiagnosisInput<'_>) -> bool {
    let Some(link) = &event.path else { return false };
    let is_of = |planned: &PlannedPath| {
        link.strip_prefix(planned.name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if matches!(event.kind, EventKind::AddressAdded | EventKind::AddressRemoved) {
        // One of several addresses, or a link-local one, is not the path.
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
    format!("{who}`{}{link}`{value} at {:.1} s", event.kind, event.t_ms / 1e3)
}
