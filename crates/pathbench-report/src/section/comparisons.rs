//! The comparisons of a result in sentences.

use super::{Finding, Section};
use crate::narrative::Tone;
use crate::pattern::Pattern;
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
    let figure = Pattern::named(&one.pattern).figures().iter().find(|known| known.name == one.figure);
    let title = figure.map_or(one.figure.as_str(), |figure| figure.title);
    let (subject, effect, show) = match (one.ratio, one.difference) {
        (Some(value), _) => (
            candidate,
            format!("gives {} the {title} of {baseline}", ratio(value)),
            (|value| ratio(value).trim_end_matches(" ×").to_owned()) as fn(f64) -> String,
        ),
        (None, difference) => {
            let show = match figure.map(|figure| figure.unit) {
                Some(unit) if unit != Unit::Duration => unit.words(),
                _ => signed_duration,
            };
            let value = show(difference.unwrap_or_default());
            (candidate, format!("has a {title} that differs by {value} from that of {baseline}"), show)
        }
    };
    let interval = one.ci95.map(|[low, high]| format!("95 % CI {} to {}, ", show(low), show(high)));
    let pairs = counted(one.pairs.unwrap_or_default(), "pair");
    let text = format!("{effect} ({}{pairs}): {}", interval.unwrap_or_default(), verdict(one));
    Finding::new(tone(one), subject, text)
}

fn signed_duration(ms: f64) -> String {
    if ms < 0.0 { format!("−{}", duration(-ms)) } else { duration(ms) }
}

fn verdict(one: &Comparison) -> String {
    let name = one.verdict.name();
    match one.verdict {
        Verdict::Different if !one.adjusted => {
            let pairs = one.pairs.unwrap_or_default();
            let most = largest_family(pairs);
            let because = if most < u64::from(one.family) {
                format!("; {} can pass among {most} at most", counted(pairs, "pair"))
            } else {
                String::new()
            };
            format!("{name}, but not after Holm's correction for {} comparisons{because}", one.family)
        }
        Verdict::CannotTell => match one.repetitions_needed {
            Some(needed) => format!("{name}; about {needed} repetitions would decide"),
            None => format!("{name}; the effect is close to the margin"),
        },
        Verdict::Different | Verdict::Same => name.to_owned(),
    }
}

fn tone(one: &Comparison) -> Tone {
    let is_larger = one.ratio.map_or_else(|| one.difference.unwrap_or_default() > 0.0, |ratio| ratio > 1.0);
    match one.verdict {
        Verdict::Different if !one.adjusted => Tone::Mixed,
        Verdict::Different if is_larger == smaller_is_better(&one.figure) => Tone::Bad,
        Verdict::Different => Tone::Good,
        Verdict::Same | Verdict::CannotTell => Tone::Neutral,
    }
}
