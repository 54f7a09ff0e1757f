//! Handovers, and the return of traffic to a restored path, in words.

use super::event::in_words;
use crate::list::grouped;
use crate::quantity::{counted, duration, spread};
use crate::restoration::{Fate, Restoration};
use crate::view::{GroupView, View};
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
            format!("neither RTT ({srtt}) nor retransmission timeout ({rto}) of {from} explains it")
        }
    }
}

fn overlap(handover: &HandoverRecord) -> Option<String> {
    let received = handover.duration_received_ms?;
    Some(if received < 0.0 {
        format!("abrupt: no packet had arrived over {} for {}", handover.from, duration(-received))
    } else {
        format!("packets still arrived over {} for {}", handover.from, duration(received))
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
    if let Some(spread) = spread(&smooth, duration) {
        parts.push(format!("packets still arrived over {} for {spread}", first.from));
    }
    if abrupt > 0 {
        parts.push(format!("abrupt in {abrupt} of {}", counted(handovers.len(), "handover")));
    }
    if !parts.is_empty() {
        sentences.push(parts.join("; "));
    }
    sentences
}

pub(crate) fn sentences(view: &View, group: &GroupView) -> Vec<String> {
    let sampled = group.valid_runs().any(|run| !view.data(run).samples.is_empty());
    let of_run = |run| view.restorations(run);
    let all = group.valid_runs().filter(|_| sampled).flat_map(of_run);
    let mut returns = grouped(all, |one| (one.path.clone(), one.before));
    returns.sort_by(|a, b| a.0.cmp(&b.0));
    returns.iter().filter_map(|(_, all)| sentence(all, group.is_quic())).collect()
}

fn sentence(all: &[Restoration], is_quic: bool) -> Option<String> {
    let first = all.first()?;
    let path = &first.path;
    let event = in_words(&first.kind, Some("it"));
    let back = all.iter().filter_map(|one| match one.fate {
        Fate::CameBack { after_ms, new_subflow } => Some((after_ms, new_subflow)),
        _ => None,
    });
    let (after, new): (Vec<f64>, Vec<bool>) = back.unzip();
    let by = match is_quic {
        _ if new.is_empty() || new.contains(&false) => "",
        true => ", on a new QUIC path",
        false => ", on a new subflow",
    };
    let reason = all.iter().find_map(|one| reason(one.fate, is_quic));
    let watched: Vec<f64> = all.iter().map(|one| one.watched_ms).collect();
    match (spread(&after, duration), reason) {
        (Some(after), None) => Some(format!("traffic was back on {path} {after} after {event}{by}")),
        (Some(spread), Some(reason)) => Some(format!(
            "traffic was back on {path} {spread} after {event}{by} in {} of {}; elsewhere {reason}",
            after.len(),
            counted(all.len(), "run"),
        )),
        (None, reason) => Some(format!(
            "traffic did not return to {path} in the {} after {event}: {}",
            spread(&watched, duration)?,
            reason?,
        )),
    }
}

fn reason(fate: Fate, is_quic: bool) -> Option<String> {
    let (of_quic, of_mptcp) = match fate {
        Fate::CameBack { .. } => return None,
        Fate::BackOff { rto_ms } => (
            format!("the path was still waiting for an answer to its probes (PTO {})", duration(rto_ms)),
            format!("the subflow was still in retransmission back-off (RTO {})", duration(rto_ms)),
        ),
        Fate::Closed => (
            "its QUIC path had been abandoned and was not opened again".to_owned(),
            "its subflow had been closed; the kernel does not re-create closed subflows".to_owned(),
        ),
        Fate::Idle => (
            "a QUIC path was open, but the scheduler sent no data on it".to_owned(),
            "a subflow was open, but the transport sent no data on it".to_owned(),
        ),
        Fate::Absent => (
            "the connection had no QUIC path on it".to_owned(),
            "the connection had no subflow on it".to_owned(),
        ),
    };
    Some(if is_quic { of_quic } else { of_mptcp })
}
