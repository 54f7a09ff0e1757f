//! Findings: the stories of all labels, whether multipath was used, diagnoses, notes, invalid runs.

use super::content::{Block, Finding, Section, label_of};
use crate::list::{distinct, grouped};
use crate::narrative::{self, Tone, Verdict, diagnosis, limit};
use crate::quantity::counted;
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{Expectation, RunRecord, Variant};
use std::collections::BTreeSet;

const MOST_RUNS: usize = 12;
const MOST_VERDICTS: usize = 4;

pub(crate) fn stories(view: &View) -> Vec<Finding> {
    let of = |group: &GroupView| {
        let story = narrative::story(view, group);
        let subject = format!("{}{}", story.label, story.aside());
        Finding { details: story.details, ..Finding::new(story.tone, subject, story.headline + ".") }
    };
    view.groups.iter().map(of).collect()
}

pub(crate) fn verdicts(view: &View) -> Option<Section> {
    let mut verdicts = narrative::verdicts(view);
    if verdicts.len() > MOST_VERDICTS {
        verdicts = summed_up(&verdicts);
    }
    let of = |one: &Verdict| Finding::new(one.tone(), format!("{}:", one.name()), &*one.text);
    Section::of_findings("Was multipath used?", "", verdicts.iter().map(of).collect())
}

/// One verdict per label for all patterns and variants with multipath used in every run; the others unchanged.
fn summed_up(verdicts: &[Verdict]) -> Vec<Verdict> {
    let sums = grouped(verdicts.iter().filter(|one| one.holds()), |one| &one.label).into_iter();
    let sums = sums.map(|(label, all)| {
        let (used, of) = (all.iter().map(|one| one.used).sum(), all.iter().map(|one| one.of).sum());
        let patterns = distinct(all.iter().filter_map(|one| one.pattern.clone()));
        let number = format!("{} variants", all.len());
        let what = if patterns.is_empty() { number } else { patterns.join(", ") };
        let text = format!("used in all {} of {what}", counted(of, "run"));
        Verdict {
            variant: Variant::new(),
            label: label.clone(),
            pattern: None,
            used,
            of,
            text,
            is_spare_unneeded: false,
        }
    });
    sums.chain(verdicts.iter().filter(|one| !one.holds()).cloned()).collect()
}

/// Paths without traffic, with the reason: one finding per label, path and kind for all repetitions that agree.
pub(crate) fn diagnoses(view: &View) -> Option<Section> {
    let mut all = diagnosis::of_view(view);
    // Faults come before intended states; within both, the order of the groups is kept.
    all.sort_by_key(|(_, one)| !one.is_trouble());
    let mut last: Option<(String, &str)> = None;
    let findings = all.iter().map(|(group, one)| {
        let tone = if one.is_trouble() { Tone::Bad } else { Tone::Neutral };
        let repetitions = one.repetitions().map_or(String::new(), |which| format!(" {which}"));
        let name = label_of(group);
        let variant = variant_text(group.variant);
        let variant = if variant.is_empty() { variant } else { format!(" ({variant})") };
        // Findings that differ only in numbers share their signs and remedy.
        let signs = (one.because().chars().filter(|c| !c.is_ascii_digit()).collect(), one.remedy());
        let text = if last.as_ref() == Some(&signs) { one.in_short() } else { one.sentence() };
        last = Some(signs);
        Finding::new(tone, format!("{name}{variant}{repetitions}:"), text)
    });
    let findings = findings.collect();
    Section::of_findings("Paths that carried nothing", "for a second or more, and why", findings)
}

/// The limits of each label's rate, with the remedy; none where the links did.
pub(crate) fn limits(view: &View) -> Option<Section> {
    let findings = limit::of_view(view).into_iter().map(|(group, one)| {
        let variant = variant_text(group.variant);
        let variant = if variant.is_empty() { variant } else { format!(" ({variant})") };
        Finding::new(Tone::Mixed, format!("{}{variant}:", label_of(group)), one.sentence())
    });
    Section::of_findings("What limited it", "", findings.collect())
}

pub(crate) fn notes(view: &View) -> Option<Section> {
    let document = &view.set.document;
    let mut notes = document.summary.notes.clone();
    // Results of earlier versions name the expectations about transports that the command line removed.
    notes.retain(|note| !note.ends_with(" does not run"));
    let is_known = notes.iter().any(|note| note.contains("clear text"));
    if let Some(note) = narrative::encryption(view).filter(|_| !is_known) {
        notes.insert(0, note);
    }
    let of_runs = document.runs.iter().flat_map(|run| run.notes.iter().map(move |text| (run, text)));
    let gist = |text: &str| text.replace(|character: char| character.is_ascii_digit(), "");
    notes.extend(grouped(of_runs, |(_, text)| gist(text)).iter().map(|(_, all)| note(all)));
    let findings = notes.into_iter().map(|note| Finding::new(Tone::Neutral, "", note));
    Section::of_findings("Notes", "", findings.collect())
}

/// A note, with the runs that have it or a note that differs only in numbers.
fn note(all: &[(&RunRecord, &String)]) -> String {
    let (first, text) = all[0];
    let of = match all.len() {
        1 => first.id.clone(),
        many if all.iter().all(|one| one.1 == text) => format!("{many} runs"),
        many => format!("{}; much the same in {}", first.id, counted(many - 1, "other run")),
    };
    format!("{text} ({of})")
}

/// Expectations: the heading counts those that hold; the others follow in full.
pub(crate) fn expectations(view: &View) -> Option<Section> {
    let all = &view.set.document.summary.expectations;
    let held = all.iter().filter(|one| one.held).count();
    let others: Vec<Finding> = all.iter().filter(|one| !one.held).map(expectation).collect();
    let holds = if all.len() == 1 { "expectation holds" } else { "expectations hold" };
    let title = format!("{held} of {} {holds}", all.len());
    let findings = if others.is_empty() { Vec::new() } else { vec![Block::Findings(others)] };
    (!all.is_empty()).then(|| Section::new(title, "", findings))
}

/// Every expectation in full.
pub(crate) fn all_expectations(view: &View) -> Option<Section> {
    let all = &view.set.document.summary.expectations;
    let held = all.iter().filter(|one| one.held).count();
    let remark = format!("{held} of {} held", all.len());
    Section::of_findings("Expectations", remark, all.iter().map(expectation).collect())
}

fn expectation(one: &Expectation) -> Finding {
    let (tone, verdict) = match (one.held, one.not_judged) {
        (true, _) => (Tone::Good, "held, found"),
        (false, true) => (Tone::Neutral, "not judged:"),
        (false, false) => (Tone::Bad, "did not hold, found"),
    };
    Finding::new(tone, format!("{} {}:", one.key, one.expected), format!("{verdict} {}", one.found))
}

/// Runs that enter no figure, with their number: warm-up runs, and runs in an environment that was not as asked for.
pub(crate) fn left_out(view: &View) -> Option<Section> {
    let runs = &view.set.document.runs;
    let (warm_up, invalid): (Vec<&RunRecord>, Vec<&RunRecord>) =
        runs.iter().filter(|run| !run.valid).partition(|run| run.warm_up);
    let (left_out, not_valid) = (counted(warm_up.len(), "warm-up run"), counted(invalid.len(), "run"));
    let planned: BTreeSet<&str> = runs.iter().filter(|run| run.valid).map(RunRecord::planned_id).collect();
    let repeated = invalid.iter().filter(|run| planned.contains(run.planned_id())).count();
    let remarks = [
        (!warm_up.is_empty()).then(|| format!("{left_out} by request")),
        (!invalid.is_empty()).then(|| format!("{not_valid} not valid: the environment was not as asked for")),
        (repeated > 0).then(|| format!("{repeated} of them repeated by a valid run")),
    ];
    let remark = remarks.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let warm_up = reasons(&warm_up, Tone::Neutral);
    let findings = reasons(&invalid, Tone::Bad).into_iter().chain(warm_up).collect();
    Section::of_findings("Runs that do not count", remark, findings)
}

/// A finding for each reason, with the runs that it left out.
fn reasons(runs: &[&RunRecord], tone: Tone) -> Vec<Finding> {
    let by_reason = grouped(runs.iter().copied(), |run| run.invalid_because.join("; ")).into_iter();
    let findings = by_reason.map(|(because, runs)| {
        let because = if because.is_empty() { "no reason was recorded".to_owned() } else { because };
        let (shown, more) = runs.split_at(runs.len().min(MOST_RUNS));
        let shown: Vec<&str> = shown.iter().map(|run| run.id.as_str()).collect();
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let details = vec![String::new(), format!("{}{more}", shown.join(", "))];
        Finding { details, ..Finding::new(tone, "", because) }
    });
    findings.collect()
}
