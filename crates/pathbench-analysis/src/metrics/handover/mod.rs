//! When and why the second path came into use, and how long the first remained active: the mobility metrics of
//! De Coninck and Bonaventure (`MultipathTester`, section IV). docs/metrics.md, section Handover.

mod timeline;

use pathbench_record::document::{HandoverReason, HandoverRecord};
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::sample::{PathFigures, Sample, Side};
use timeline::{Onset, Timeline};

/// Smoothed RTT of the first path above which the second path is used: the paper's value for iOS 11.
const SRTT_THRESHOLD_MS: f64 = 600.0;

/// Retransmission timeout of the first path above which the second path is used: the paper's value for iOS 11.
const RTO_THRESHOLD_MS: f64 = 1500.0;

/// Time during which each path must have carried data alone, before and after the change, if the second path is no
/// backup path. Paths that share a transfer come into use within a few round trips of each other.
const ALONE_MS: f64 = 1000.0;

#[derive(Debug, Clone, Copy)]
pub struct PathHistory<'a> {
    /// All samples of the run, of both sides, in any order.
    pub samples: &'a [Sample],
    /// All events of the run, in any order.
    pub events: &'a [Event],
    /// The end that sends data: the client, except in a run with only a download.
    pub side: Side,
    /// Names of the paths planned as backup.
    pub backups: &'a [String],
}

/// The handover of a run: from the path on which its connections started to the first other path that took over its
/// data. `None` without a handover, or if the samples do not separate data from heartbeats.
///
/// The other path must be a backup path, or must have carried data alone for a second after the first path did so.
pub fn handover(history: &PathHistory<'_>) -> Option<HandoverRecord> {
    let timeline = Timeline::from_samples(history.samples, history.side)?;
    let first = timeline.first_path();
    let onset = timeline
        .others()
        .filter_map(|path| timeline.onset(path))
        .filter(|onset| is_backup(history, onset.path) || data_moved(&timeline, onset))
        .min_by(|a, b| a.at_ms.total_cmp(&b.at_ms))?;
    let host = history.samples.iter().find(|sample| sample.side == history.side)?.host.as_str();
    let decision = decision(history.events, host, onset.seen_ms);
    let decided_ms = decision.map(|event| event.t_ms).filter(|at_ms| *at_ms > onset.unseen_ms);
    let began_ms = decided_ms.unwrap_or(onset.at_ms);
    // The samples before and after the moment show the path's state.
    let around = timeline.around(first, &onset);
    let most = |figure: fn(&PathFigures) -> f64| around.iter().map(|seen| figure(seen)).fold(0.0, f64::max);
    let (srtt_ms, rto_ms) = (most(|seen| seen.srtt_ms), most(|seen| seen.rto_ms));
    let backoff = around.iter().map(|seen| seen.backoff).max().unwrap_or_default();
    let since = |last: Option<f64>| last.map(|last| rounded(last - began_ms));
    Some(HandoverRecord {
        from: first.to_owned(),
        to: onset.path.to_owned(),
        began_ms: rounded(began_ms),
        duration_sent_ms: since(timeline.last_sent_ms(first)),
        duration_received_ms: since(timeline.last_received_ms(first)),
        reason: decision.and_then(condition).unwrap_or_else(|| reason(srtt_ms, rto_ms, backoff)),
        srtt_ms,
        rto_ms,
        backoff,
        remark: remark(history.events, first, host, (began_ms, onset.seen_ms)),
    })
}

fn reason(srtt_ms: f64, rto_ms: f64, backoff: u32) -> HandoverReason {
    if srtt_ms > SRTT_THRESHOLD_MS {
        HandoverReason::RttThreshold
    } else if backoff > 0 {
        HandoverReason::UnderRto
    } else if rto_ms > RTO_THRESHOLD_MS {
        HandoverReason::RtoThreshold
    } else {
        HandoverReason::Other
    }
}

/// Whether the path is a planned backup, or the transport flagged it as backup before the path came into use.
fn is_backup(history: &PathHistory<'_>, path: &str) -> bool {
    history.backups.iter().any(|backup| backup == path)
        || history
            .samples
            .iter()
            .filter(|sample| sample.side == history.side && sample.path == path)
            .min_by(|a, b| a.t_ms.total_cmp(&b.t_ms))
            .is_some_and(|sample| sample.figures.backup == Some(true))
}

fn data_moved(timeline: &Timeline<'_>, onset: &Onset<'_>) -> bool {
    let first = timeline.first_path();
    let alone_before = timeline.first_data_ms(first).is_some_and(|from| onset.at_ms - from >= ALONE_MS);
    let last = |path| timeline.last_data_ms(path);
    let alone_after = last(onset.path).zip(last(first)).is_some_and(|(to, from)| to - from >= ALONE_MS);
    alone_before && alone_after
}

/// The scheduler's decision to leave the preferred path, if in force at `at_ms` at `host`.
fn decision<'a>(events: &'a [Event], host: &str, at_ms: f64) -> Option<&'a Event> {
    events
        .iter()
        .filter(|event| {
            event.source == EventSource::Quic && event.kind == EventKind::Scheduler && event.host == host
        })
        .filter(|event| event.t_ms <= at_ms)
        .max_by(|a, b| a.t_ms.total_cmp(&b.t_ms))
        .filter(|event| !is_return(event))
}

/// The condition that made a scheduler leave the preferred path, as the scheduler reports it.
fn condition(event: &Event) -> Option<HandoverReason> {
    serde_json::from_value(event.detail.get("condition")?.clone()).ok()
}

/// Rounded to 1 µs, the resolution of the recorded times.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// The last event on `path` and the transport's last report at `host` on the path, up to `until_ms`; `None` without
/// either.
fn remark(events: &[Event], path: &str, host: &str, (began_ms, until_ms): (f64, f64)) -> Option<String> {
    let of_transport = |event: &Event| matches!(event.source, EventSource::Quic | EventSource::Mptcp);
    let is_meant = |event: &Event| match event.path.as_deref() {
        Some(of) => of == path,
        // A scheduler does not always have the address of the path that it leaves.
        None => event.kind == EventKind::Scheduler,
    };
    let latest = |sources: &[EventSource]| {
        let mut of_path: Vec<&Event> = events
            .iter()
            .filter(|event| sources.contains(&event.source) && is_meant(event))
            .filter(|event| !of_transport(event) || event.host == host)
            .filter(|event| event.t_ms <= until_ms)
            .collect();
        of_path.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let (event, found) =
            of_path.iter().rev().find_map(|event| Some((event, path_change(event, path)?)))?;
        match found {
            PathChange::Trouble(words) => Some(format!("{words} {}", distance(began_ms - event.t_ms))),
            PathChange::Recovered => None,
        }
    };
    // The scenario's own event precedes the kernel's notification about it.
    let cause = latest(&[EventSource::Scenario]).or_else(|| latest(&[EventSource::Link]));
    let transport = latest(&[EventSource::Quic, EventSource::Mptcp]);
    let remarks: Vec<String> = cause.into_iter().chain(transport).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

fn is_return(event: &Event) -> bool {
    event.kind == EventKind::Scheduler && reason_of(event) == Some("the preferred path is used again")
}

fn reason_of(event: &Event) -> Option<&str> {
    event.detail.get("reason")?.as_str()
}

enum PathChange {
    Trouble(String),
    Recovered,
}

fn distance(before_ms: f64) -> String {
    if before_ms < 0.0 { format!("{:.0} ms after", -before_ms) } else { format!("{before_ms:.0} ms before") }
}

/// The path's new state after an event; `None` for an event without one.
fn path_change(event: &Event, path: &str) -> Option<PathChange> {
    let because = reason_of(event).map(|reason| format!(" ({reason})")).unwrap_or_default();
    let words = match event.kind {
        EventKind::Up
        | EventKind::Restore
        | EventKind::AddAddress
        | EventKind::CarrierUp
        | EventKind::Appeared
        | EventKind::AddressAdded
        | EventKind::PathResumed
        | EventKind::PathEstablished
        | EventKind::InterfaceBack
        | EventKind::SubEstablished => return Some(PathChange::Recovered),
        EventKind::Scheduler if is_return(event) => return Some(PathChange::Recovered),
        EventKind::Down => format!("`{path}` went down"),
        EventKind::Blackhole => format!("`{path}` became a black hole"),
        EventKind::Outage => format!("`{path}` stopped sending"),
        EventKind::Fade => format!("`{path}` began to fade"),
        EventKind::RemoveAddress | EventKind::AddressRemoved => format!("`{path}` lost its address"),
        EventKind::Set => format!("`{path}` was changed"),
        EventKind::CarrierDown => format!("`{path}` lost its carrier"),
        EventKind::Disappeared => format!("the interface of `{path}` disappeared"),
        EventKind::PathSuspended => format!("no packet had arrived on `{path}` for too long"),
        EventKind::PathGivenUp | EventKind::PathAbandoned => format!("`{path}` was given up{because}"),
        EventKind::InterfaceGone => format!("the transport saw the interface of `{path}` disappear"),
        EventKind::Scheduler => format!("the scheduler left `{path}`{because}"),
        EventKind::SubClosed => format!("the kernel closed the subflow on `{path}`"),
        _ => return None,
    };
    Some(PathChange::Trouble(words))
}
