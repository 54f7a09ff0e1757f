//! The comparison of results as findings and tables.

use super::{Candidate, ComparedResults, Judgement, ResultOverview};
use crate::list::distinct;
use crate::narrative::Tone;
use crate::pattern::Pattern;
use crate::quantity::{Unit, counted};
use crate::result_set::ResultSet;
use crate::section::{Cell, Finding, Items, Section, comparisons};
use crate::view::{name_of, variant_text};
use pathbench_record::document::{ComparedRuns, Comparison, Distribution, Verdict};
use pathbench_record::text::printable;

/// Of a directory's name in a heading.
const LONGEST_NAME: usize = 24;
const REMARK: &str = "medians; effects by Hodges and Lehmann; margin 5 %";
/// Facts that hold for every comparison of results.
const CAUTION: &str = "These runs were made at different times: a change of the machine's state counts as an effect. For a sure \
                       answer run both variants in one study, alternating (docs/compare.md).";

/// The comparison: conditions, the results, what else differs, and a table of figures for each candidate.
pub(crate) fn sections(compared: &ComparedResults, sets: &[&ResultSet]) -> Vec<Section> {
    let findings: Vec<Finding> = compared.conditions.iter().map(|one| judgement(one, compared)).collect();
    let conditions = Section::of_findings("Conditions", "fail if", findings);
    let mut sections: Vec<Section> = conditions.into_iter().chain(results(compared)).collect();
    for (index, candidate) in compared.candidates.iter().enumerate() {
        let number = index + 2;
        sections.extend(differences(
            candidate,
            [&named(&compared.baseline, 1), &named(&candidate.result, number)],
        ));
        if let (Some(baseline), Some(set)) = (sets.first(), sets.get(index + 1)) {
            let names = [named(&compared.baseline, 1), named(&candidate.result, number)];
            sections.extend(figures(candidate, &names, baseline, set));
        }
        sections.extend(not_compared(candidate, number));
    }
    sections
}

/// The sentence that precedes the sections.
pub(crate) fn headline(compared: &ComparedResults) -> Finding {
    let failed = compared.conditions.iter().filter(|one| one.holds).count() as u32;
    if failed > 0 {
        let all = counted(compared.conditions.len(), "judgement");
        return Finding::new(Tone::Bad, "failed", format!("in {failed} of {all}"));
    }
    let all: Vec<&Comparison> = compared.candidates.iter().flat_map(|one| &one.comparisons).collect();
    let count = |verdict: Verdict| all.iter().filter(|one| one.verdict == verdict).count();
    let (different, same) = (count(Verdict::Different), count(Verdict::Same));
    let text = format!(
        "{}: {different} different, {same} the same, {} undecided",
        counted(all.len(), "comparison"),
        all.len() - different - same
    );
    let subject = if compared.conditions.is_empty() { "" } else { "passed" };
    let tone = if subject.is_empty() { Tone::Neutral } else { Tone::Good };
    Finding::new(tone, subject, text)
}

fn judgement(one: &Judgement, compared: &ComparedResults) -> Finding {
    let unit = Pattern::named(&one.pattern).figure(&one.figure).map_or(Unit::Duration, |figure| figure.unit);
    let words = if one.is_relative { |part| format!("{:.1} %", part * 100.0) } else { unit.words() };
    let show = |value: f64| signed(value, words);
    let several = compared.candidates.len() > 1;
    let of = if several { format!("{}. ", one.result) } else { String::new() };
    let group = name_of(&one.label, Some(&one.pattern), &one.variant);
    let [low, high] = one.ci95.map(show);
    let verdict = if one.holds { "fails" } else { "passes" };
    let text = format!("{of}{group}: {} (95 % CI {low} to {high}): {verdict}", show(one.change));
    Finding::new(if one.holds { Tone::Bad } else { Tone::Good }, &one.condition, text)
}

fn signed(value: f64, show: fn(f64) -> String) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", show(value.abs()))
}

fn results(compared: &ComparedResults) -> Option<Section> {
    let all = std::iter::once(&compared.baseline).chain(compared.candidates.iter().map(|one| &one.result));
    let rows: Vec<(usize, &ResultOverview)> = all.enumerate().collect();
    Items::new(rows)
        .words("result", |(index, one)| Cell::text(format!("{}. {}", index + 1, one.scenario)))
        .words("directory", |(_, one)| one.name().map_or_else(Cell::absent, Cell::text))
        .words("started", |(_, one)| Cell::text(one.started.clone()))
        .words("Linux", |(_, one)| Cell::text(one.kernel.clone()))
        .words("runs", |(_, one)| {
            let left_out = [(one.invalid, "invalid"), (one.warm_up, "warm-up")];
            let cell = Cell::text(one.runs.to_string());
            left_out.into_iter().filter(|(count, _)| *count > 0).fold(cell, |cell, (count, name)| {
                cell.with_line(format!("{count} {name}")).bad(name == "invalid")
            })
        })
        .section("Results", "1. is the baseline; invalid and warm-up runs are not used")
}

/// `2. after`: the number of the result, and the name of its directory.
fn named(one: &ResultOverview, number: usize) -> String {
    one.name()
        .map_or_else(|| format!("{number}."), |name| format!("{number}. {}", printable(name, LONGEST_NAME)))
}

fn differences(candidate: &Candidate, [baseline, number]: [&str; 2]) -> Option<Section> {
    let each = candidate.differences.iter().map(|one| {
        let value = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        let text = format!("{} in {baseline}, {} in {number}", value(&one.baseline), value(&one.candidate));
        Finding::new(Tone::Mixed, format!("{}:", one.name), text)
    });
    let findings: Vec<Finding> = each.chain([Finding::new(Tone::Neutral, "", CAUTION)]).collect();
    Section::of_findings(
        format!("{baseline} and {number} differ in"),
        "each may be the cause of an effect",
        findings,
    )
}

fn not_compared(candidate: &Candidate, number: usize) -> Option<Section> {
    let each = candidate.not_compared.iter().map(|one| {
        let (has, lacks) = if one.is_in_baseline { (1, number) } else { (number, 1) };
        let name = name_of(&one.label, Some(&one.pattern), &one.variant);
        Finding::new(Tone::Mixed, name, format!("has valid runs in {has}. and none in {lacks}."))
    });
    Section::of_findings("Not compared", "", each.collect())
}

fn figures(
    candidate: &Candidate,
    names: &[String; 2],
    baseline: &ResultSet,
    set: &ResultSet,
) -> Option<Section> {
    let patterns = distinct(candidate.comparisons.iter().map(|one| one.pattern.as_str()));
    let several = patterns.len() > 1;
    let median = |set: &ResultSet, one: &Comparison, side: &ComparedRuns| {
        let unit = comparisons::figure(one).map_or(Unit::Duration, |known| known.unit);
        Cell::median(distribution(set, one, side), unit, "")
    };
    let mut rows = Items::new(&candidate.comparisons)
        .words("transport", |one| Cell::text(&one.candidate.label))
        .words("figure", |one| {
            Cell::text(comparisons::figure(one).map_or(one.figure.as_str(), |known| known.title))
        })
        .words(names[0].clone(), |one| median(baseline, one, &one.baseline))
        .words(names[1].clone(), |one| median(set, one, &one.candidate))
        .words("effect", |one| {
            let (effect, interval) = comparisons::effect(one);
            Cell::text(effect).with_line(interval.unwrap_or_default())
        })
        .words("verdict", |one| Cell::text(comparisons::verdict(one)).toned(comparisons::tone(one)));
    rows = rows.each(|row, one| {
        let pattern = several.then(|| one.pattern.clone());
        let variant = (!one.candidate.variant.is_empty()).then(|| variant_text(&one.candidate.variant));
        row.group = pattern.into_iter().chain(variant).collect::<Vec<_>>().join(" · ");
    });
    rows.section(format!("{} compared with {}", names[1], names[0]), REMARK)
}

fn distribution<'a>(set: &'a ResultSet, one: &Comparison, side: &ComparedRuns) -> Option<&'a Distribution> {
    let mut groups = set.document.summary.groups.iter();
    let group = groups.find(|group| {
        group.pattern == one.pattern && group.label == side.label && group.variant == side.variant
    })?;
    group.figures.get(&one.figure)
}
