//! The comparisons of a result in sentences.

use super::content::{Finding, Section};
use crate::narrative::Tone;
use crate::pattern::{Figure, Pattern};
use crate::quantity::{Unit, counted, duration, ratio};
use crate::view::{View, name_of};
use pathbench_analysis::comparison::{largest_family, smaller_is_better};
use pathbench_record::document::{ComparedRuns, Comparison, Verdict};
use pathbench_record::statistics::FEWEST_FOR_INTERVAL;

const REMARK: &str = "pairs of the same repetition; 95 % CI from Walsh averages; margin 5 %";

pub(crate) fn comparisons(view: &View) -> Option<Section> {
    let summary = &view.set.document.summary;
    let most_pairs = summary.comparisons.iter().filter_map(|one| one.pairs).max()?;
    if (most_pairs as usize) < FEWEST_FOR_INTERVAL {
        let text = format!(
            "{} cannot tell a difference: a comparison needs {FEWEST_FOR_INTERVAL} repetitions or more (--repeat)",
            counted(most_pairs, "pair")
        );
        return Section::of_findings("Comparisons", "", vec![Finding::new(Tone::Neutral, "", text)]);
    }
    let several = view.patterns().len() > 1;
    let mut findings: Vec<Finding> = summary.comparisons.iter().map(|one| finding(one, several)).collect();
    if summary.comparisons_omitted > 0 {
        let text = format!("{} left out", counted(summary.comparisons_omitted, "further comparison"));
        findings.push(Finding::new(Tone::Neutral, "", text));
    }
    Section::of_findings("Comparisons", REMARK, findings)
}

fn finding(one: &Comparison, several_patterns: bool) -> Finding {
    let name = |side: &ComparedRuns| {
        name_of(&side.label, several_patterns.then_some(one.pattern.as_str()), &side.variant)
    };
    let (candidate, baseline) = (name(&one.candidate), name(&one.baseline));
    let title = figure(one).map_or(one.figure.as_str(), |figure| figure.title);
    let (value, interval) = effect(one);
    let effect = if one.ratio.is_some() {
        format!("gives {value} the {title} of {baseline}")
    } else {
        format!("has a {title} that differs by {value} from that of {baseline}")
    };
    let interval = interval.map(|interval| format!("{interval}, ")).unwrap_or_default();
    let pairs = counted(one.pairs.unwrap_or_default(), "pair");
    Finding::new(tone(one), candidate, format!("{effect} ({interval}{pairs}): {}", verdict(one)))
}

pub(crate) fn figure(one: &Comparison) -> Option<&'static Figure> {
    Pattern::named(&one.pattern).figure(&one.figure)
}

/// The ratio or difference, and its interval.
pub(crate) fn effect(one: &Comparison) -> (String, Option<String>) {
    let show: fn(f64) -> String = match (one.ratio, figure(one).map(|figure| figure.unit)) {
        (Some(_), _) => |value| ratio(value).trim_end_matches(" ×").to_owned(),
        (None, Some(unit)) if unit != Unit::Duration => unit.words(),
        (None, _) => signed_duration,
    };
    let value = one.ratio.map_or_else(|| show(one.difference.unwrap_or_default()), ratio);
    let interval = one.ci95.map(|interval| {
        let [low, high] = interval.map(show);
        // Of a ratio with a narrow interval, two decimals would show no interval at all.
        let [low, high] = if one.ratio.is_some() && low == high {
            interval.map(|bound| format!("{bound:.4}"))
        } else {
            [low, high]
        };
        format!("95 % CI {low} to {high}")
    });
    (value, interval)
}

fn signed_duration(ms: f64) -> String {
    if ms < 0.0 { format!("−{}", duration(-ms)) } else { duration(ms) }
}

pub(crate) fn verdict(one: &Comparison) -> String {
    let name = one.verdict.name();
    match one.verdict {
        Verdict::Different if !one.adjusted => {
            let limit = one.pairs.map(|pairs| (pairs, largest_family(pairs)));
            let limit = limit.filter(|(_, most)| *most < u64::from(one.family));
            let because = limit
                .map(|(pairs, most)| format!("; {} can pass among {most} at most", counted(pairs, "pair")))
                .unwrap_or_default();
            format!("{name}, but not after Holm's correction for {} comparisons{because}", one.family)
        }
        Verdict::CannotTell => match one.repetitions_needed {
            Some(needed) => format!("{name}; about {needed} repetitions would decide"),
            None => format!("{name}; the effect is close to the margin"),
        },
        Verdict::Different | Verdict::Same => name.to_owned(),
    }
}

pub(crate) fn tone(one: &Comparison) -> Tone {
    let is_larger = one.ratio.map_or_else(|| one.difference.unwrap_or_default() > 0.0, |ratio| ratio > 1.0);
    match one.verdict {
        Verdict::Different if !one.adjusted => Tone::Mixed,
        Verdict::Different if is_larger == smaller_is_better(&one.figure) => Tone::Bad,
        Verdict::Different => Tone::Good,
        Verdict::Same | Verdict::CannotTell => Tone::Neutral,
    }
}
