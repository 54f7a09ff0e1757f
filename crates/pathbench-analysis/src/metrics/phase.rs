//! Phases: the periods between events, with the goodput of each and the shares of its paths.

use super::measurement::{Disturbance, Measurement, SAME_MOMENT};
use crate::binning::{ByteCurve, Window};
use pathbench_record::document::Phase;
use pathbench_record::time::Timestamp;

/// Events so close together that no window fits between them.
#[derive(Debug, Clone)]
pub(super) struct Moment<'a> {
    /// Sorted by time; never empty.
    pub(super) events: Vec<&'a Disturbance>,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// The events sorted by time, grouped by moment.
pub(super) fn moments(disturbances: &[Disturbance]) -> Vec<Moment<'_>> {
    let mut ordered: Vec<&Disturbance> = disturbances.iter().collect();
    ordered.sort_by_key(|disturbance| disturbance.at);
    let mut moments: Vec<Moment<'_>> = Vec::new();
    for event in ordered {
        match moments.last_mut() {
            Some(moment) if event.at.duration_since(moment.until) < SAME_MOMENT => {
                moment.until = event.at;
                moment.events.push(event);
            }
            _ => moments.push(Moment { events: vec![event], from: event.at, until: event.at }),
        }
    }
    moments
}

/// `down wlan`, or the kind alone for an event without a path.
pub(super) fn name(event: &Disturbance) -> String {
    match &event.path {
        Some(path) => format!("{} {path}", event.kind),
        None => event.kind.to_string(),
    }
}

pub(super) fn phases(
    measurement: &Measurement<'_>,
    curve: &ByteCurve,
    window: Window,
    moments: &[Moment<'_>],
) -> Vec<Phase> {
    let begins = std::iter::once((window.from, "start".to_owned())).chain(moments.iter().map(|moment| {
        let names: Vec<String> = moment.events.iter().map(|event| name(event)).collect();
        (moment.from.max(window.from), names.join(", "))
    }));
    let ends = moments.iter().map(|moment| moment.from).chain([window.until]);
    begins
        .zip(ends)
        .filter_map(|((from, name), end)| {
            let stretch = Window { from, until: end.min(window.until) };
            let last = stretch.until == window.until;
            let bytes = if last && from <= stretch.until {
                curve.bytes_within(stretch)
            } else {
                curve.bytes_between(stretch.from, stretch.until)
            };
            Some(Phase {
                direction: measurement.direction,
                name,
                from_ms: stretch.from.ms_from(measurement.origin),
                to_ms: stretch.until.ms_from(measurement.origin),
                goodput_mbps: stretch.mbps(bytes)?,
                shares: measurement.paths.shares(stretch.from, stretch.until),
            })
        })
        .collect()
}
