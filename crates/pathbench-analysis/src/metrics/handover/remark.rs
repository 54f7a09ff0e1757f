//! What else happened to the first path before the second came into use, in words.

use pathbench_record::event::{Event, EventKind, EventSource};

/// What had been done to `path`, and what the transport at `host` said of it, up to `until_ms`; `None` when nothing
/// is known.
pub(super) fn remark(
    events: &[Event],
    path: &str,
    host: &str,
    (began_ms, until_ms): (f64, f64),
) -> Option<String> {
    let of_transport = |event: &Event| matches!(event.source, EventSource::Quic | EventSource::Mptcp);
    let is_meant = |event: &Event| match event.path.as_deref() {
        Some(of) => of == path,
        // A scheduler does not always know the address of the path that it leaves.
        None => event.kind == EventKind::Scheduler,
    };
    let latest = |sources: &[EventSource], words: fn(&Event, &str) -> Option<Told>| {
        let mut of_path: Vec<&Event> = events
            .iter()
            .filter(|event| sources.contains(&event.source) && is_meant(event))
            .filter(|event| !of_transport(event) || event.host == host)
            .filter(|event| event.t_ms <= until_ms)
            .collect();
        of_path.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let (event, told) = of_path.iter().rev().find_map(|event| Some((event, words(event, path)?)))?;
        match told {
            Told::Trouble(words) => Some(format!("{words} {}", distance(began_ms - event.t_ms))),
            Told::AllWell => None,
        }
    };
    // What was ordered is known best; the same seen by a kernel follows it.
    let cause = latest(&[EventSource::Scenario], done).or_else(|| latest(&[EventSource::Link], seen));
    let transport = latest(&[EventSource::Quic, EventSource::Mptcp], said);
    let remarks: Vec<String> = cause.into_iter().chain(transport).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

pub(super) fn is_return(event: &Event) -> bool {
    let reason = event.detail.get("reason").and_then(serde_json::Value::as_str);
    event.kind == EventKind::Scheduler && reason == Some("the preferred path is used again")
}

enum Told {
    Trouble(String),
    AllWell,
}

fn distance(before_ms: f64) -> String {
    if before_ms < 0.0 { format!("{:.0} ms after", -before_ms) } else { format!("{before_ms:.0} ms before") }
}

fn done(event: &Event, path: &str) -> Option<Told> {
    let words = match event.kind {
        EventKind::Up | EventKind::Restore | EventKind::AddAddress => return Some(Told::AllWell),
        EventKind::Down => format!("`{path}` went down"),
        EventKind::Blackhole => format!("`{path}` became a black hole"),
        EventKind::Outage => format!("`{path}` stopped sending"),
        EventKind::Fade => format!("`{path}` began to fade"),
        EventKind::RemoveAddress => format!("`{path}` lost its address"),
        EventKind::Set => format!("`{path}` was changed"),
        _ => return None,
    };
    Some(Told::Trouble(words))
}

fn seen(event: &Event, path: &str) -> Option<Told> {
    let words = match event.kind {
        EventKind::Up | EventKind::CarrierUp | EventKind::Appeared | EventKind::AddressAdded => {
            return Some(Told::AllWell);
        }
        EventKind::Down => format!("`{path}` went down"),
        EventKind::CarrierDown => format!("`{path}` lost its carrier"),
        EventKind::Disappeared => format!("the interface of `{path}` went away"),
        EventKind::AddressRemoved => format!("`{path}` lost its address"),
        _ => return None,
    };
    Some(Told::Trouble(words))
}

fn said(event: &Event, path: &str) -> Option<Told> {
    let reason = event.detail.get("reason").and_then(serde_json::Value::as_str);
    let because = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let words = match event.kind {
        EventKind::PathResumed
        | EventKind::PathEstablished
        | EventKind::InterfaceBack
        | EventKind::SubEstablished => {
            return Some(Told::AllWell);
        }
        EventKind::PathSuspended => format!("nothing had been heard on `{path}` for too long"),
        EventKind::PathGivenUp | EventKind::PathAbandoned => format!("`{path}` was given up{because}"),
        EventKind::InterfaceGone => format!("the transport saw the interface of `{path}` go"),
        EventKind::Scheduler if is_return(event) => return Some(Told::AllWell),
        EventKind::Scheduler => format!("the scheduler left `{path}`{because}"),
        EventKind::SubClosed => format!("the kernel closed the subflow on `{path}`"),
        _ => return None,
    };
    Some(Told::Trouble(words))
}
