//! The answer of a result in one sentence: gain over the best single path, then failover.

use super::verdict::Tone;
use crate::list::{distinct, grouped};
use crate::quantity::{counted, duration, range, ratio};
use crate::section::Finding;
use pathbench_record::document::{Failover, Gain, ResultDocument, Verdict};

/// Labels of one kind in the sentence; the tables have all.
const MOST_LABELS: usize = 4;
/// Fewer pairs show no interval, so that the number of pairs that decide is a lower bound.
const FEWEST_FOR_SPREAD: u32 = 2;

/// `None` in a result without several paths and without failures.
pub(crate) fn of_document(document: &ResultDocument) -> Option<Finding> {
    let headline = document.summary.headline.as_ref()?;
    let mut parts = gains(&headline.gains);
    parts.extend(failovers(&headline.failovers));
    if parts.is_empty() {
        return None;
    }
    Some(Finding::new(tone(&headline.gains), "", parts.join("; ") + "."))
}

fn tone(gains: &[Gain]) -> Tone {
    let is_better = |gain: &Gain| gain.ratio.is_some_and(|ratio| ratio > 1.0);
    let decided: Vec<&Gain> = gains.iter().filter(|gain| gain.verdict == Some(Verdict::Different)).collect();
    if gains.iter().any(|gain| gain.runs > 0 && gain.multipath_used == 0) {
        Tone::Bad
    } else if decided.is_empty() {
        Tone::Neutral
    } else if decided.iter().all(|gain| is_better(gain)) {
        Tone::Good
    } else {
        Tone::Mixed
    }
}

/// One part for each label, with its directions; first the labels with a gain.
fn gains(gains: &[Gain]) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let known: Vec<&Gain> = gains.iter().filter(|gain| gain.ratio.is_some()).collect();
    // Said once if it is the same of all, as after a few repetitions.
    let common = known.first().map(|gain| certainty(gain)).filter(|first| {
        known.len() > 1 && known.iter().all(|gain| gain.ci95.is_none() && certainty(gain) == *first)
    });
    for (label, gains) in grouped(known.iter().copied(), |gain| &gain.label).into_iter().take(MOST_LABELS) {
        let directions = grouped(gains, |gain| gain.direction).into_iter();
        let of_direction = directions.map(|(direction, gains)| {
            format!("{} {}", direction.name(), of_variants(&gains, common.is_none()))
        });
        parts.push(format!("{label}: {}", of_direction.collect::<Vec<_>>().join(", ")));
    }
    if let (Some(last), Some(common)) = (parts.last_mut(), common) {
        *last = format!("{last} (each {common})");
    }
    let unknown = gains.iter().filter(|gain| gain.ratio.is_none());
    for (why, gains) in grouped(unknown, |gain| why_unknown(gain)).into_iter().take(MOST_LABELS) {
        let labels = distinct(gains.iter().map(|gain| gain.label.as_str()));
        parts.push(format!("{}: {why}", labels.join(", ")));
    }
    parts
}

/// The gains of a label and direction in one variant or several.
fn of_variants(gains: &[&Gain], with_certainty: bool) -> String {
    match gains {
        [gain] => {
            let best = gain.best_single.as_deref().unwrap_or_default();
            let certainty = if with_certainty { format!(" ({})", certainty(gain)) } else { String::new() };
            let limit =
                gain.limited_by.as_ref().map_or(String::new(), |limit| format!(", limited by {limit}"));
            format!("{} {best}{limit}{certainty}", ratio(gain.ratio.unwrap_or(f64::NAN)))
        }
        gains => {
            let ratios = || gains.iter().filter_map(|gain| gain.ratio);
            let (low, high) = (ratios().fold(f64::MAX, f64::min), ratios().fold(0.0, f64::max));
            let variants = counted(gains.len(), "variant");
            format!("{} the best single path in {variants}", range(low, high, ratio))
        }
    }
}

fn certainty(gain: &Gain) -> String {
    let mut parts = Vec::new();
    match gain.ci95 {
        Some([low, high]) => parts.push(format!("95 %: {}", range(low, high, ratio))),
        None => parts.push(format!("{}, no interval", counted(gain.pairs, "pair"))),
    }
    match gain.pairs_needed {
        Some(needed) if gain.pairs < FEWEST_FOR_SPREAD => parts.push(format!("at least {needed} decide")),
        Some(needed) => parts.push(format!("about {needed} decide")),
        None => {}
    }
    if gain.multipath_used < gain.runs {
        parts.push(format!("several paths used in {} of {} runs", gain.multipath_used, gain.runs));
    }
    parts.join("; ")
}

fn why_unknown(gain: &Gain) -> String {
    if gain.runs == 0 {
        return format!("gain unknown, because no run completed in {}", gain.direction.name());
    }
    if gain.multipath_used == 0 {
        return "no gain, because only one path was used".to_owned();
    }
    if !gain.not_alone.is_empty() {
        let was = if gain.not_alone.len() == 1 { "was" } else { "were" };
        return format!("gain unknown, because {} {was} not measured alone", gain.not_alone.join(", "));
    }
    "gain unknown, because no repetition has both figures".to_owned()
}

fn failovers(failovers: &[Failover]) -> Option<String> {
    let labels = grouped(failovers, |one| &one.label).into_iter().take(MOST_LABELS);
    let parts: Vec<String> = labels
        .map(|(label, all)| {
            let stalls = || all.iter().filter_map(|one| one.stall_ms);
            let (low, high) = (stalls().fold(f64::MAX, f64::min), stalls().fold(0.0, f64::max));
            let (runs, failed) =
                all.iter().fold((0, 0), |(runs, failed), one| (runs + one.runs, failed + one.failed));
            match (stalls().next().is_some(), failed) {
                (true, 0) => format!("{label} {}", range(low, high, duration)),
                (true, failed) => {
                    format!("{label} {} (failed in {failed} of {runs} runs)", range(low, high, duration))
                }
                (false, failed) => format!("{label} failed in {failed} of {runs} runs"),
            }
        })
        .collect();
    (!parts.is_empty()).then(|| format!("longest stall after a failure: {}", parts.join(", ")))
}
