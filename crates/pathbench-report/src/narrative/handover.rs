//! Handovers in words: why the second path came into use, and how long both were used.

use crate::quantity::{self, counted, duration};
use crate::view::GroupView;
use pathbench_record::document::{HandoverReason, HandoverRecord, RunRecord};
use std::collections::BTreeMap;

pub(crate) const fn reason_title(reason: HandoverReason) -> &'static str {
    match reason {
        HandoverReason::RttThreshold => "smoothed RTT over 600 ms",
        HandoverReason::UnderRto => "in retransmission timeout",
        HandoverReason::RtoThreshold => "RTO over 1500 ms",
        HandoverReason::Other => "other",
    }
}

pub(crate) const REASONS: [HandoverReason; 4] = [
    HandoverReason::RttThreshold,
    HandoverReason::UnderRto,
    HandoverReason::RtoThreshold,
    HandoverReason::Other,
];

fn because(handover: &HandoverRecord) -> String {
    let HandoverRecord { from, srtt_ms, rto_ms, .. } = handover;
    let (srtt, rto) = (duration(*srtt_ms), duration(*rto_ms));
    match handover.reason {
        HandoverReason::RttThreshold => format!("the smoothed RTT of {from} was {srtt}, over 600 ms"),
        HandoverReason::UnderRto => format!("{from} was in retransmission timeout (RTO {rto})"),
        HandoverReason::RtoThreshold => {
            format!("the retransmission timeout of {from} was {rto}, over 1500 ms")
        }
        HandoverReason::Other => {
            format!("neither RTT ({srtt}) nor retransmission timeout ({rto}) of {from} says why")
        }
    }
}

/// How long both paths were in use, by what was received on the first, and whether that was abrupt.
fn overlap(handover: &HandoverRecord) -> Option<String> {
    let received = handover.duration_received_ms?;
    Some(if received < 0.0 {
        format!("abrupt: nothing had come over {} for {} by then", handover.from, duration(-received))
    } else {
        format!("{} was heard for {} more", handover.from, duration(received))
    })
}

pub(crate) fn of_run(handover: &HandoverRecord) -> String {
    let mut parts = vec![format!(
        "{} came into use at {}: {}",
        handover.to,
        duration(handover.began_ms),
        because(handover)
    )];
    parts.extend(overlap(handover));
    parts.extend(handover.remark.clone());
    parts.join("; ")
}

pub(crate) fn of_group<'a>(group: &GroupView<'a>) -> Vec<(&'a RunRecord, &'a HandoverRecord)> {
    group.valid_runs().filter_map(|run| Some((run, run.handover.as_ref()?))).collect()
}

pub(super) fn details(group: &GroupView) -> Vec<String> {
    let handovers = of_group(group);
    let Some((_, first)) = handovers.first() else { return Vec::new() };
    if let ([(_, only)], 1) = (handovers.as_slice(), group.valid()) {
        return vec![of_run(only)];
    }
    let mut reasons: BTreeMap<HandoverReason, usize> = BTreeMap::new();
    for (_, handover) in &handovers {
        *reasons.entry(handover.reason).or_default() += 1;
    }
    let reasons: Vec<String> =
        reasons.into_iter().map(|(reason, runs)| format!("{} in {runs}", reason_title(reason))).collect();
    let mut sentences = vec![format!(
        "{} came into use in {} of {}; {}: {}",
        first.to,
        handovers.len(),
        counted(group.valid(), "run"),
        first.from,
        reasons.join(", ")
    )];
    let received: Vec<f64> = handovers.iter().filter_map(|(_, one)| one.duration_received_ms).collect();
    let smooth: Vec<f64> = received.iter().copied().filter(|ms| *ms >= 0.0).collect();
    let abrupt = received.len() - smooth.len();
    let mut parts = Vec::new();
    if let Some(spread) = quantity::spread(&smooth, duration) {
        parts.push(format!("{} was heard for {spread} more", first.from));
    }
    if abrupt > 0 {
        parts.push(format!("abrupt in {abrupt} of {}", counted(handovers.len() as u32, "handover")));
    }
    if !parts.is_empty() {
        sentences.push(parts.join("; "));
    }
    sentences
}
