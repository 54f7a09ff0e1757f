//! When and why the second path came into use, and how long the first stayed alive beside it: the mobility metrics of
//! De Coninck and Bonaventure (`MultipathTester`, section IV). docs/metrics.md, section Handover.

mod remark;
mod timeline;

use pathbench_record::document::{HandoverReason, HandoverRecord};
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::sample::{PathFigures, Sample, Side};
use timeline::{Onset, Timeline};

/// Smoothed RTT of the first path from which the second is used: the paper's, of iOS 11.
const SRTT_THRESHOLD_MS: f64 = 600.0;

/// Retransmission timeout of the first path from which the second is used: the same.
const RTO_THRESHOLD_MS: f64 = 1500.0;

/// How long one path must have been alone, on either side of the change, for data to have moved although the other
/// path is no spare. Paths that share a transfer come into use within a few round trips of each other.
const ALONE_MS: f64 = 1000.0;

#[derive(Debug, Clone, Copy)]
pub struct PathHistory<'a> {
    /// All samples of the run, of both sides, in any order.
    pub samples: &'a [Sample],
    /// All events of the run, in any order.
    pub events: &'a [Event],
    /// The end at which data is sent: the client, but for a run of download alone.
    pub side: Side,
    /// Names of the paths that were set up as spares, as far as the plan knows.
    pub spares: &'a [String],
}

/// The handover of a run from the path on which its connections began to the first other one that took its data over;
/// `None` when there was none, or the samples cannot tell data from heartbeats.
///
/// The other path must be a spare, or must have carried data alone for a second after the first had done so.
pub fn handover(history: &PathHistory<'_>) -> Option<HandoverRecord> {
    let timeline = Timeline::of(history.samples, history.side)?;
    let first = timeline.first_path();
    let onset = timeline
        .others()
        .filter_map(|path| timeline.onset(path))
        .filter(|onset| is_spare(history, onset.path) || data_moved(&timeline, onset))
        .min_by(|a, b| a.at_ms.total_cmp(&b.at_ms))?;
    let host = history.samples.iter().find(|sample| sample.side == history.side)?.host.as_str();
    let decision = decision(history.events, host, onset.seen_ms);
    let decided_ms = decision.map(|event| event.t_ms).filter(|at_ms| *at_ms > onset.unseen_ms);
    let began_ms = decided_ms.unwrap_or(onset.at_ms);
    // What the path was like at that moment is known from the samples on either side of it.
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
        remark: remark::remark(history.events, first, host, (began_ms, onset.seen_ms)),
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

/// A spare by the plan, or by the word of the transport before it came into use.
fn is_spare(history: &PathHistory<'_>, path: &str) -> bool {
    history.spares.iter().any(|spare| spare == path)
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

/// The scheduler's decision in force at `at_ms` at `host`, where it had left the preferred path.
fn decision<'a>(events: &'a [Event], host: &str, at_ms: f64) -> Option<&'a Event> {
    events
        .iter()
        .filter(|event| {
            event.source == EventSource::Quic && event.kind == EventKind::Scheduler && event.host == host
        })
        .filter(|event| event.t_ms <= at_ms)
        .max_by(|a, b| a.t_ms.total_cmp(&b.t_ms))
        .filter(|event| !remark::is_return(event))
}

/// The condition that made a scheduler leave the preferred path, by its own word.
fn condition(event: &Event) -> Option<HandoverReason> {
    serde_json::from_value(event.detail.get("condition")?.clone()).ok()
}

/// To the microsecond: that is all the clock's readers are good for.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}
