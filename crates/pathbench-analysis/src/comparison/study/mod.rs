//! The comparisons of a result: which groups of runs, by which figures.

use super::correction::holm;
use super::description::cliffs_delta;
use super::estimate::{Estimate, paired, unpaired};
use super::figure::{Measure, figures_of};
use super::rule::{MARGIN, Rule, judge, repetitions_needed};
use crate::limits::name_shared_bottlenecks;
use pathbench_record::document::{ComparedRuns, Comparison, ResultDocument, RunRecord, Variant, Verdict};
use pathbench_record::statistics::median;
use pathbench_record::summary::{figure, summarise_document};
use std::collections::BTreeMap;

mod evenness;
mod groups;
mod headline;

use groups::{Group, Groups};

/// Comparisons of one result; more are counted only.
pub const MOST_COMPARISONS: usize = 120;

/// The comparisons of one result, paired by repetition, with the number of those left out: in each variant and pattern each
/// multipath label with the labels on one path (of its own family, tcp or quic, if there are any) and with other multipath
/// labels; each label's variants with the first variant (with a matrix of one key and few values, all pairs).
pub fn of_runs(runs: &[RunRecord]) -> (Vec<Comparison>, u32) {
    let groups = Groups::from_runs(runs);
    let mut comparisons = Vec::new();
    let mut wanted = 0_u64;
    for (baseline, candidate) in groups.pairs(&mut wanted) {
        for name in figures_of(baseline.pattern) {
            if comparisons.len() >= MOST_COMPARISONS {
                break;
            }
            comparisons.extend(of_pairs(baseline, candidate, name));
            wanted = wanted.saturating_sub(1);
        }
    }
    correct(&mut comparisons);
    (comparisons, u32::try_from(wanted).unwrap_or(u32::MAX))
}

/// Computes the summary of `document` from its runs.
pub fn summarise_runs(document: &mut ResultDocument) {
    summarise_document(document);
    complete(document);
}

/// Sets the headline and the comparisons of a finished result, or of a result without them, and Jain's index of its groups.
pub fn complete(document: &mut ResultDocument) {
    name_shared_bottlenecks(&mut document.runs);
    for group in &mut document.summary.groups {
        group.jains_index = evenness::of_group(group, &document.runs, &document.links);
    }
    let (comparisons, omitted) = of_runs(&document.runs);
    document.summary.comparisons = comparisons;
    document.summary.comparisons_omitted = omitted;
    document.summary.headline = headline::of_runs(&document.runs);
}

/// Groups of the same label, pattern and variant in two results, compared as independent samples by `figures` of a pattern.
pub fn across(
    baseline: &[RunRecord],
    candidate: &[RunRecord],
    figures: &dyn Fn(&str) -> Vec<&'static str>,
) -> Vec<Comparison> {
    let (baseline, candidate) = (Groups::from_runs(baseline), Groups::from_runs(candidate));
    let mut comparisons = Vec::new();
    for (one, other) in baseline.common(&candidate) {
        for name in figures(one.pattern) {
            let (a, b) = (one.values(name), other.values(name));
            comparisons.extend(of_samples(one, other, name, &a, &b));
        }
    }
    correct(&mut comparisons);
    comparisons
}

/// How much a figure of one group of runs differs between two results.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureChange<'a> {
    pub pattern: &'a str,
    pub label: &'a str,
    pub variant: &'a Variant,
    /// Values of the figure: baseline, candidate.
    pub runs: [usize; 2],
    /// Candidate − baseline, relative to the baseline or in the figure's unit, with its interval; `None` relative to 0.
    pub change: Option<(f64, Option<[f64; 2]>)>,
}

/// The change of `figure` in each group that both results have: as a part of the baseline (−0.1: 10 % less) or, if not
/// `is_relative`, in the figure's unit. A relative change of values that are all positive is that of their ratio; of others
/// it is the difference divided by the baseline's median.
pub fn changes<'a>(
    baseline: &'a [RunRecord],
    candidate: &'a [RunRecord],
    figure: &str,
    is_relative: bool,
) -> Vec<FigureChange<'a>> {
    let (baseline, candidate) = (Groups::from_runs(baseline), Groups::from_runs(candidate));
    let common = baseline.common(&candidate).into_iter();
    let changes = common.filter_map(|(one, other)| {
        let (a, b) = (one.values(figure), other.values(figure));
        let runs = [a.len(), b.len()];
        let (pattern, label, variant) = (one.pattern, one.label, one.variant);
        (runs != [0, 0]).then(|| FigureChange {
            pattern,
            label,
            variant,
            runs,
            change: change(&a, &b, is_relative),
        })
    });
    changes.collect()
}

fn change(a: &[f64], b: &[f64], is_relative: bool) -> Option<(f64, Option<[f64; 2]>)> {
    let is_ratio = is_relative && a.iter().chain(b).all(|value| *value > 0.0);
    let unit = if is_relative && !is_ratio { median(a)? } else { 1.0 };
    let position = |value: &f64| if is_ratio { value.ln() } else { *value };
    let part = |shift: f64| if is_ratio { shift.exp_m1() } else { shift / unit };
    let estimate = unpaired(
        &a.iter().map(position).collect::<Vec<f64>>(),
        &b.iter().map(position).collect::<Vec<f64>>(),
    )?;
    (unit > 0.0).then(|| (part(estimate.shift), estimate.ci95.map(|interval| interval.map(part))))
}

fn of_pairs(baseline: &Group, candidate: &Group, name: &str) -> Option<Comparison> {
    let value =
        |run: Option<&&RunRecord>| run.and_then(|run| figure(run, name)).filter(|one| one.is_finite());
    let pairs: Vec<(f64, f64)> = baseline
        .runs
        .iter()
        .filter_map(|(repetition, run)| Some((value(Some(run))?, value(candidate.runs.get(repetition))?)))
        .collect();
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let scale = Scale::new(name, &a, &b)?;
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| scale.position(*b) - scale.position(*a)).collect();
    let estimate = paired(&differences)?;
    let mut comparison = scale.comparison(baseline, candidate, name, &estimate);
    comparison.pairs = u32::try_from(pairs.len()).ok();
    comparison.cliffs_delta = cliffs_delta(&a, &b);
    Some(comparison)
}

fn of_samples(one: &Group, other: &Group, name: &str, a: &[f64], b: &[f64]) -> Option<Comparison> {
    let scale = Scale::new(name, a, b)?;
    let on_scale = |values: &[f64]| values.iter().map(|value| scale.position(*value)).collect::<Vec<f64>>();
    let estimate = unpaired(&on_scale(a), &on_scale(b))?;
    let mut comparison = scale.comparison(one, other, name, &estimate);
    comparison.cliffs_delta = cliffs_delta(a, b);
    Some(comparison)
}

/// Paired differences of logarithms (ratios) or of plain values, and their rule.
struct Scale {
    is_ratio: bool,
    rule: Rule,
}

impl Scale {
    /// A figure that is compared by ratios, but is zero in a run, is compared by differences.
    fn new(name: &str, baseline: &[f64], candidate: &[f64]) -> Option<Self> {
        let positive = baseline.iter().chain(candidate).all(|value| *value > 0.0);
        let smallest = match Measure::of_figure(name) {
            Measure::Ratio if positive => {
                return Some(Self { is_ratio: true, rule: Rule::of_ratios(MARGIN) });
            }
            Measure::Ratio => 0.0,
            Measure::Difference { smallest } => smallest,
        };
        let margin = smallest.max(MARGIN * median(baseline)?.abs());
        Some(Self { is_ratio: false, rule: Rule { margin } })
    }

    fn position(&self, value: f64) -> f64 {
        if self.is_ratio { value.ln() } else { value }
    }

    fn comparison(&self, baseline: &Group, candidate: &Group, name: &str, found: &Estimate) -> Comparison {
        let verdict = judge(found, self.rule);
        let open = verdict == Verdict::CannotTell;
        let value = |shift: f64| if self.is_ratio { shift.exp() } else { shift };
        Comparison {
            pattern: baseline.pattern.to_owned(),
            figure: name.to_owned(),
            baseline: baseline.side(name),
            candidate: candidate.side(name),
            pairs: None,
            ratio: self.is_ratio.then(|| value(found.shift)),
            difference: (!self.is_ratio).then(|| value(found.shift)),
            ci95: found.ci95.map(|interval| interval.map(value)),
            margin: if self.is_ratio { MARGIN } else { self.rule.margin },
            verdict,
            repetitions_needed: open.then(|| repetitions_needed(found, self.rule)).flatten(),
            p: found.p,
            family: 1,
            adjusted: false,
            cliffs_delta: None,
        }
    }
}

impl Group<'_> {
    fn side(&self, name: &str) -> ComparedRuns {
        ComparedRuns {
            label: self.label.to_owned(),
            variant: self.variant.clone(),
            runs: u32::try_from(self.values(name).len()).unwrap_or(u32::MAX),
        }
    }
}

/// Holm's correction in each family: the comparisons of one pattern and figure.
fn correct(comparisons: &mut [Comparison]) {
    let mut families: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (index, one) in comparisons.iter().enumerate() {
        families.entry((one.pattern.clone(), one.figure.clone())).or_default().push(index);
    }
    for members in families.into_values() {
        let p: Vec<f64> = members.iter().map(|index| comparisons[*index].p).collect();
        for (index, rejected) in members.iter().zip(holm(&p)) {
            let one = &mut comparisons[*index];
            one.family = u32::try_from(members.len()).unwrap_or(u32::MAX);
            one.adjusted = rejected && one.verdict == Verdict::Different;
        }
    }
}
