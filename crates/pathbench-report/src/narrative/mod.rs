//! What happened, in sentences: for each label what it did, and why, as a person would tell it.
//!
//! The terminal summary, the report and the captions of the figures all take their words from here.

mod application;
pub(crate) mod diagnosis;
mod encryption;
mod event;
mod handover;
pub(crate) mod path_mtu;
mod reachability;
mod restoration;
mod traffic;
mod verdict;

pub(crate) use encryption::{encryption, encryption_of};
pub(crate) use event::{ScenarioEvent, is_disruption, scenario_events, size_events, subflow_marks};
pub use event::{event_label, event_sentence};
pub(crate) use handover::{REASONS, of_group as handovers_of, of_run as handover, reason_title};
pub(crate) use reachability::{barriers, reachability, why_unreachable};
pub use restoration::{Fate, Restoration};
pub(crate) use traffic::traffic;
pub(crate) use verdict::verdicts;
pub use verdict::{Verdict, multipath};

use crate::ResultSet;
use crate::quantity::{self, counted, duration, percent, rate, ratio};
use crate::series::MARKED_SILENCE_MS;
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{Distribution, Impact, RunRecord, Variant};
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Mixed,
    Bad,
    Neutral,
}

impl Tone {
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Mixed => "!",
            Self::Bad => "✗",
            Self::Neutral => "·",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Mixed => "mixed",
            Self::Bad => "bad",
            Self::Neutral => "neutral",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    pub variant: Variant,
    pub label: String,
    /// The pattern, where the result has several.
    pub pattern: Option<String>,
    pub tone: Tone,
    /// The finding, without the label in front: `kept going at 1.37 Gbit/s: longest stall 210 ms`.
    pub headline: String,
    pub details: Vec<String>,
}

impl Story {
    /// The finding as a sentence of its own: `mptcp kept going at …`.
    pub fn sentence(&self) -> String {
        format!("{}{} {}", self.label, self.aside(), self.headline)
    }

    /// What stands in brackets behind the label: ` (ping, wlan.rate=50mbit)`, or nothing.
    pub fn aside(&self) -> String {
        let variant = (!self.variant.is_empty()).then(|| variant_text(&self.variant));
        let parts: Vec<String> = self.pattern.iter().cloned().chain(variant).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }
}

pub fn stories(set: &ResultSet) -> Vec<Story> {
    stories_of(&View::new(set))
}

pub(crate) fn stories_of(view: &View) -> Vec<Story> {
    view.groups.iter().map(|group| story(view, group)).collect()
}

/// Every return of a path during `run`, and whether traffic came back with it.
pub fn restorations(set: &ResultSet, run: &RunRecord) -> Vec<Restoration> {
    restoration::restorations(run, View::new(set).data(run))
}

/// The finding of the whole result in one line: the stories of its labels joined, or what there is to say
/// when there are none or too many.
pub fn headline(set: &ResultSet) -> String {
    let stories = stories(set);
    match stories.len() {
        0 => set.document.mtu.as_ref().map_or("no run was made".to_owned(), path_mtu::headline),
        1..=4 => stories.iter().map(Story::sentence).collect::<Vec<_>>().join("; "),
        many => {
            let bad = stories.iter().filter(|story| story.tone == Tone::Bad).count();
            let rest = if bad == 0 {
                "all completed".to_owned()
            } else {
                format!("{bad} did not get through every run")
            };
            format!("{many} combinations of transport and parameters compared; {rest}")
        }
    }
}

pub(crate) fn story(view: &View, group: &GroupView) -> Story {
    let (mut tone, headline) = finding(view, group);
    let touched = touched(group);
    let black_holes = diagnosis::black_holes(group);
    if (touched.is_some() || !black_holes.is_empty()) && tone == Tone::Good {
        tone = Tone::Mixed;
    }
    let mut details = Vec::new();
    details.extend(completion(group));
    details.extend(black_holes);
    details.extend(comparison(view, group));
    details.extend(application::details(view, group));
    details.extend(handover::details(group));
    details.extend(restoration::sentences(view, group));
    details.extend(touched);
    details.extend(errors(group));
    Story {
        variant: group.variant.clone(),
        label: group.label.to_owned(),
        pattern: group.said_pattern().map(str::to_owned),
        tone,
        headline,
        details,
    }
}

fn sentence_list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn touched(group: &GroupView) -> Option<String> {
    let touched: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.touched_by.is_empty()).collect();
    let first = touched.first()?.touched_by.first()?;
    let runs = counted(touched.len() as u32, "run");
    Some(format!(
        "the network changed by itself during {runs}: {first}; the figures of such runs tell of that, too"
    ))
}

fn finding(view: &View, group: &GroupView) -> (Tone, String) {
    let (valid, completed) = (group.valid(), group.completed());
    if group.runs.is_empty() {
        return (Tone::Bad, "was not run".to_owned());
    }
    if valid == 0 {
        let because = group.runs.iter().flat_map(|run| &run.invalid_because).next();
        let because = because.map_or(String::new(), |reason| format!(": {reason}"));
        return (Tone::Bad, format!("has no valid run{because}"));
    }
    if completed < valid {
        return (Tone::Bad, incomplete(group, valid, completed));
    }
    let (tone, text) = application::through(view, group).unwrap_or_else(|| through(view, group));
    // Messages are few: which path takes them is up to the scheduler, as long as multipath was agreed on.
    let failed = |run: &&RunRecord| {
        let good = run.multipath.used || (group.pattern.is_of_messages() && run.multipath.negotiated);
        run.multipath.requested && !good
    };
    let unused = group.valid_runs().filter(failed).count();
    if unused > 0 {
        let runs =
            if unused as u32 == valid { String::new() } else { format!(" in {unused} of {valid} runs") };
        return (Tone::Bad, format!("did not use multipath{runs}; it {text}"));
    }
    (tone, text)
}

/// What is lower by no more than this has not dipped (docs/metrics.md).
const LEAST_DIP: f64 = 0.1;

fn incomplete(group: &GroupView, valid: u32, completed: u32) -> String {
    let failed: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.completed).collect();
    let hung: Vec<f64> = failed.iter().filter_map(|run| run.hung_ms).collect();
    let runs = match (completed, valid) {
        (0, 1) => String::new(),
        (0, _) => format!(" in all {valid} runs"),
        _ => format!(" in {} of {valid} runs", valid - completed),
    };
    // An event after the last byte (and half a second for what was under way) is not what the run died of.
    let preceded = |run: &RunRecord, impact: &Impact| impact.at_ms <= run.duration_ms + 500.0;
    let event = failed.iter().find_map(|run| run.impacts.iter().find(|impact| preceded(run, impact)));
    let after = event.map_or(String::new(), |impact| format!(" after {}", impact_words(impact)));
    if let Some(hung) = quantity::spread(&hung, duration) {
        return format!("died{after}{runs}: no byte for {hung} before it gave up");
    }
    let error = failed.iter().find_map(|run| run.error.as_deref());
    format!("did not complete{runs}{}", error.map_or(String::new(), |error| format!(": {error}")))
}

fn through(view: &View, group: &GroupView) -> (Tone, String) {
    let goodput = group.median("goodput_mbps").map(rate);
    let at = goodput.as_ref().map_or(String::new(), |rate| format!(" at {rate}"));
    let Some(impact) = group.valid_runs().find_map(|run| run.impacts.first()) else {
        let than = best_single_path(view, group)
            .map(|(label, factor)| format!(", {} {label}", ratio(factor)))
            .unwrap_or_default();
        let delivered = goodput.map_or("completed".to_owned(), |rate| format!("delivered {rate}"));
        return (Tone::Good, format!("{delivered}{than}"));
    };
    let impacts: Vec<&Impact> = group.valid_runs().flat_map(|run| &run.impacts).collect();
    let stalls: Vec<f64> = impacts.iter().filter_map(|one| one.stall_ms).collect();
    let dips: Vec<f64> = impacts.iter().filter_map(|one| one.dip).collect();
    let (event, level) = (impact_words(impact), level(group));
    if stalls.is_empty() && dips.is_empty() {
        return (Tone::Mixed, format!("completed{at}; what changed when {event} could not be measured"));
    }
    let dipped = dips.iter().any(|dip| *dip > LEAST_DIP);
    if stalls.iter().all(|stall| *stall < MARKED_SILENCE_MS) && !dipped && level.is_empty() {
        return (Tone::Good, format!("went through undisturbed{at}"));
    }
    let mut parts = Vec::new();
    if let Some(stall) = group.figure("stall_ms").filter(|stall| stall.median > 0.0) {
        parts.push(format!("longest stall {}", with_bounds(stall)));
    }
    let recovery = group.figure("recovery_ms");
    let always = recovery.is_some_and(|found| found.n >= group.valid());
    let tone = if always { Tone::Good } else { Tone::Mixed };
    if always && !dips.is_empty() && !dipped {
        parts.push(format!("no dip after {event}"));
        return (tone, format!("kept going{at}: {}{level}", parts.join(", ")));
    }
    if let Some(dip) = group.median("dip") {
        parts.push(format!("goodput dipped by {}", percent(dip)));
    }
    parts.push(match recovery {
        None => format!("not recovered after {event}"),
        Some(found) if found.n < group.valid() => {
            let runs = counted(group.valid(), "run");
            format!("recovered {} after {event} in {} of {runs} only", with_bounds(found), found.n)
        }
        Some(found) => format!("recovered {} after {event}", with_bounds(found)),
    });
    (tone, format!("kept going{at}: {}{level}", parts.join(", ")))
}

/// What was lost for as long as the event lasted, where it was something; medians over the runs.
fn level(group: &GroupView) -> String {
    let of_runs = |figure: fn(&Impact) -> Option<f64>| {
        let first = group.valid_runs().filter_map(|run| run.impacts.first());
        median(&first.filter_map(figure).collect::<Vec<_>>())
    };
    match (of_runs(|impact| impact.before_mbps), of_runs(|impact| impact.settled_mbps)) {
        (Some(before), Some(settled)) if settled < (1.0 - LEAST_DIP) * before => {
            format!(" ({} before, {} after)", rate(before), rate(settled))
        }
        _ => String::new(),
    }
}

/// A median duration with what stands beside it: `210 ms (range 190–230)`.
fn with_bounds(found: &Distribution) -> String {
    quantity::with_bounds(found, duration)
}

/// The label on one path that did best in the same variant and pattern, and how many times its goodput this group has.
fn best_single_path<'a>(view: &View<'a>, group: &GroupView<'a>) -> Option<(&'a str, f64)> {
    let own = group.median("goodput_mbps").filter(|_| group.is_multipath())?;
    let rated = single_paths(view, group)
        .into_iter()
        .filter_map(|one| Some((one.label, one.median("goodput_mbps").filter(|mbps| *mbps > 0.0)?)));
    let (label, best) = rated.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((label, own / best))
}

/// The groups on one path that this one compares with, all of whose runs completed: those of its own family (mpquic
/// with quic, mptcp with tcp) where there are any, so that the difference is the second path and nothing else.
fn single_paths<'a, 'b>(view: &'b View<'a>, group: &GroupView<'a>) -> Vec<&'b GroupView<'a>> {
    let is_quic = |one: &GroupView| matches!(one.transport(), Some(Transport::Quic | Transport::Mpquic));
    let others: Vec<&GroupView> = view
        .of_pattern(group.pattern)
        .filter(|one| one.variant == group.variant && !one.is_multipath())
        .filter(|one| one.valid() > 0 && one.completed() == one.valid())
        .collect();
    let family: Vec<&GroupView> =
        others.iter().copied().filter(|one| is_quic(one) == is_quic(group)).collect();
    if family.is_empty() { others } else { family }
}

fn completion(group: &GroupView) -> Option<String> {
    let valid = group.valid();
    if valid == 0 {
        return None;
    }
    let mut parts = vec![format!("completed in {} of {}", group.completed(), counted(valid, "valid run"))];
    let main = group.pattern.main();
    if let Some(found) = group.figure(main.name) {
        parts.push(format!("{} {}", main.title, quantity::with_bounds(found, main.unit.words())));
    }
    let invalid = group.runs.len() as u32 - valid;
    if invalid > 0 {
        parts.push(format!("{} left out as not valid", counted(invalid, "run")));
    }
    Some(parts.join(", "))
}

fn comparison(view: &View, group: &GroupView) -> Option<String> {
    // Without an event the headline says it.
    group.valid_runs().find(|run| !run.impacts.is_empty())?;
    let (label, factor) = best_single_path(view, group)?;
    Some(format!("{} the goodput of {label}, the best on one path", ratio(factor)))
}

fn errors(group: &GroupView) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for run in group.valid_runs().filter(|run| !run.completed) {
        let sentence = format!("ended with: {}", run.error.as_deref().unwrap_or("no error was recorded"));
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

fn impact_words(impact: &Impact) -> String {
    event::in_words(&impact.kind, impact.path.as_deref())
}
