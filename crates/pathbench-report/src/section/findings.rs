//! Findings: the stories of all labels, whether multipath was used, diagnoses, notes, invalid runs.

use super::{Finding, Section};
use crate::narrative::{self, Tone, Verdict, diagnosis};
use crate::quantity::counted;
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{RunRecord, Variant};

const MOST_RUNS: usize = 12;
/// Verdicts beyond this are summed up per label where multipath was used.
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
    let of = |one: &Verdict| {
        let tone = if one.holds() { Tone::Good } else { Tone::Bad };
        Finding::new(tone, format!("{}:", one.name()), &*one.text)
    };
    Section::of_findings("Was multipath used?", "", verdicts.iter().map(of).collect())
}

/// One verdict per label for the patterns and variants in which multipath was used in every run; the others as they are.
fn summed_up(verdicts: &[Verdict]) -> Vec<Verdict> {
    let mut sums: Vec<(Verdict, usize, Vec<String>)> = Vec::new();
    for verdict in verdicts.iter().filter(|one| one.holds()) {
        let place = sums.iter().position(|(known, ..)| known.label == verdict.label).unwrap_or_else(|| {
            let none = Verdict { variant: Variant::new(), pattern: None, used: 0, of: 0, ..verdict.clone() };
            sums.push((none, 0, Vec::new()));
            sums.len() - 1
        });
        let (known, number, patterns) = &mut sums[place];
        known.used += verdict.used;
        known.of += verdict.of;
        *number += 1;
        patterns.extend(verdict.pattern.clone().filter(|pattern| !patterns.contains(pattern)));
    }
    let sums = sums.into_iter().map(|(verdict, number, patterns)| {
        let of = if patterns.is_empty() { format!("{number} variants") } else { patterns.join(", ") };
        Verdict { text: format!("used in all {} of {of}", counted(verdict.of, "run")), ..verdict }
    });
    sums.chain(verdicts.iter().filter(|one| !one.holds()).cloned()).collect()
}

/// Paths without traffic, and why: a finding per label, path and kind, once for all repetitions that agree.
pub(crate) fn diagnoses(view: &View) -> Option<Section> {
    let mut all = diagnosis::of_view(view);
    // Trouble comes before what was asked for; within both the groups keep their order.
    all.sort_by_key(|(_, one)| !one.is_trouble());
    let mut last: Option<(String, &str)> = None;
    let findings = all.iter().map(|(group, one)| {
        let tone = if one.is_trouble() { Tone::Bad } else { Tone::Neutral };
        let repetitions = one.repetitions().map_or(String::new(), |which| format!(" {which}"));
        let name = crate::view::name_of(group.label, group.said_pattern(), &Variant::new());
        let variant = variant_text(group.variant);
        let variant = if variant.is_empty() { variant } else { format!(" ({variant})") };
        // Findings that differ only in numbers have their signs and remedy once.
        let signs = (one.because().chars().filter(|c| !c.is_ascii_digit()).collect(), one.remedy());
        let text = if last.as_ref() == Some(&signs) { one.in_short() } else { one.sentence() };
        last = Some(signs);
        Finding::new(tone, format!("{name}{variant}{repetitions}:"), text)
    });
    let findings = findings.collect();
    Section::of_findings("Paths that carried nothing", "for a second or more, and why", findings)
}

/// Notes of the result and of its runs; those that differ only in numbers once.
pub(crate) fn notes(view: &View) -> Option<Section> {
    let document = &view.set.document;
    let mut notes: Vec<Note> = document.summary.notes.iter().map(|text| Note::of(text)).collect();
    let is_known = notes.iter().any(|note| note.text.contains("clear text"));
    if let Some(note) = narrative::encryption(view).filter(|_| !is_known) {
        notes.insert(0, Note::of(&note));
    }
    for run in &document.runs {
        for text in &run.notes {
            let new = Note::of(text);
            let place = notes.iter().position(|known| known.gist == new.gist).unwrap_or_else(|| {
                notes.push(new);
                notes.len() - 1
            });
            notes[place].differs |= notes[place].text != *text;
            notes[place].runs.push(&run.id);
        }
    }
    let findings = notes.iter().map(|note| Finding::new(Tone::Neutral, "", note.sentence()));
    Section::of_findings("Notes", "", findings.collect())
}

struct Note<'a> {
    text: String,
    /// The note without its numbers.
    gist: String,
    runs: Vec<&'a str>,
    differs: bool,
}

impl Note<'_> {
    fn of(text: &str) -> Self {
        let gist = text.chars().filter(|character| !character.is_ascii_digit()).collect();
        Self { text: text.to_owned(), gist, runs: Vec::new(), differs: false }
    }

    fn sentence(&self) -> String {
        let of = match (self.runs.as_slice(), self.differs) {
            ([], _) => String::new(),
            ([run], _) => format!(" ({run})"),
            ([first, others @ ..], true) => {
                format!(" ({first}; much the same in {})", counted(others.len() as u32, "other run"))
            }
            (many, false) => format!(" ({} runs)", many.len()),
        };
        format!("{}{of}", self.text)
    }
}

pub(crate) fn expectations(view: &View) -> Option<Section> {
    let all = &view.set.document.summary.expectations;
    let held = all.iter().filter(|one| one.held).count();
    let findings = all.iter().map(|one| {
        let (tone, verdict) = if one.held { (Tone::Good, "held") } else { (Tone::Bad, "did not hold") };
        Finding::new(
            tone,
            format!("{} {}:", one.key, one.expected),
            format!("{verdict}, found {}", one.found),
        )
    });
    Section::of_findings("Expectations", format!("{held} of {} held", all.len()), findings.collect())
}

pub(crate) fn invalid(view: &View) -> Option<Section> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    let is_invalid = |run: &&RunRecord| !run.valid;
    for run in view.set.document.runs.iter().filter(is_invalid) {
        let because = run.invalid_because.join("; ");
        let because = if because.is_empty() { "no reason was recorded".to_owned() } else { because };
        match reasons.iter_mut().find(|(known, _)| *known == because) {
            Some((_, ids)) => ids.push(&run.id),
            None => reasons.push((because, vec![&run.id])),
        }
    }
    let findings = reasons.into_iter().map(|(because, ids)| {
        let (shown, more) = ids.split_at(ids.len().min(MOST_RUNS));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let details = vec![String::new(), format!("{}{more}", shown.join(", "))];
        Finding { details, ..Finding::new(Tone::Bad, "", because) }
    });
    let remark = "the environment was not as asked for";
    Section::of_findings("Runs that do not count", remark, findings.collect())
}
