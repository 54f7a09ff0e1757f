//! The behaviour of each label and its reasons, in sentences.
//!
//! The terminal summary, the report and the captions of the figures use these sentences.

mod application;
pub(crate) mod claim;
pub(crate) mod diagnosis;
mod event;
mod failback;
pub(crate) mod headline;
pub(crate) mod limit;
mod mobility;
pub(crate) mod path_mtu;
mod reachability;
mod verdict;

pub(crate) use event::{ScenarioEvent, scenario_events, size_events, subflow_marks, subflow_words};
pub(crate) use event::{detail, event_sentence};
pub(crate) use mobility::{of_group as handovers_of, of_run as handover, reason_title};
pub(crate) use reachability::{barriers, reachability, why_unreachable};
pub use verdict::Tone;
pub(crate) use verdict::{Verdict, encryption, encryption_of, verdicts};

use crate::list::distinct;
use crate::pattern::GOODPUT;
use crate::quantity::{self, bit_rate, bytes, counted, duration, percent, plain, rate};
use crate::result_set::ResultSet;
use crate::series::MARKED_SILENCE_MS;
use crate::view::{GroupView, View, value_text, variant_text};
use pathbench_record::document::{Impact, ResultDocument, RunRecord, Variant};
use pathbench_record::statistics::median;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    pub variant: Variant,
    pub label: String,
    pub pattern: Option<String>,
    pub tone: Tone,
    pub headline: String,
    pub details: Vec<String>,
}

impl Story {
    pub fn sentence(&self) -> String {
        format!("{}{} {}", self.label, self.aside(), self.headline)
    }

    pub fn aside(&self) -> String {
        let variant = (!self.variant.is_empty()).then(|| variant_text(&self.variant));
        let parts: Vec<String> = self.pattern.iter().cloned().chain(variant).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }
}

/// The headline of a result in words; `None` without several paths and without failures.
pub fn headline_text(document: &ResultDocument) -> Option<String> {
    headline::of_document(document).map(|finding| finding.text)
}

pub fn stories(set: &ResultSet) -> Vec<Story> {
    let view = View::new(set);
    view.groups.iter().map(|group| story(&view, group)).collect()
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
    details.extend(failback::details(group));
    details.extend(mobility::details(group));
    details.extend(mobility::sentences(view, group));
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

fn touched(group: &GroupView) -> Option<String> {
    let touched: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.touched_by.is_empty()).collect();
    let first = touched.first()?.touched_by.first()?;
    let runs = counted(touched.len(), "run");
    Some(format!("the network changed during {runs}: {first}; the figures of these runs include the effect"))
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
        return (Tone::Bad, incomplete(view, group, valid, completed));
    }
    let (tone, text) = application::headline(view, group).unwrap_or_else(|| goodput_headline(view, group));
    // If multipath was negotiated, the scheduler may send a pattern's few messages over one path.
    let failed = |run: &&RunRecord| {
        let good = run.multipath.used
            || (group.pattern.is_of_messages() && run.multipath.negotiated)
            || claim::is_spare_unneeded(run);
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

/// The smallest reduction of goodput that counts as a dip (docs/metrics.md).
const LEAST_DIP: f64 = 0.1;

fn incomplete(view: &View, group: &GroupView, valid: u32, completed: u32) -> String {
    let failed: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.completed).collect();
    let hung: Vec<f64> = failed.iter().filter_map(|run| run.hung_ms).collect();
    let runs = match (completed, valid) {
        (0, 1) => String::new(),
        (0, _) => format!(" in all {valid} runs"),
        _ => format!(" in {} of {valid} runs", valid - completed),
    };
    let event = failed.iter().find_map(|run| claim::cause_of_hanging(run, &view.data(run)));
    let after = event.map_or(String::new(), |impact| format!(" after {}", impact_words(impact)));
    let is_silent = hung.iter().any(|ms| *ms >= MARKED_SILENCE_MS);
    match quantity::spread(&hung, duration) {
        Some(hung) if is_silent => {
            return format!("hung{after}{runs}: no byte for {hung} before the application gave up");
        }
        Some(hung) => {
            return format!("did not complete{runs}: the application gave up {hung} after the last byte");
        }
        None => {}
    }
    let error = failed.iter().find_map(|run| run.error.as_deref());
    format!("did not complete{runs}{}", error.map_or(String::new(), |error| format!(": {error}")))
}

fn goodput_headline(view: &View, group: &GroupView) -> (Tone, String) {
    let goodput = group.median("goodput_mbps").map(rate);
    let at = goodput.as_ref().map_or(String::new(), |rate| format!(" at {rate}"));
    let Some(impact) = group.valid_runs().find_map(|run| run.impacts.first()) else {
        let than = view
            .against_single_path(group, GOODPUT.name, |factor, label| format!("{factor} {label}"))
            .map(|than| format!(", {than}"))
            .unwrap_or_default();
        let delivered = goodput.map_or("completed".to_owned(), |rate| format!("delivered {rate}"));
        return (Tone::Good, format!("{delivered}{than}"));
    };
    let impacts: Vec<&Impact> = group.valid_runs().flat_map(|run| &run.impacts).collect();
    let stalls: Vec<f64> = impacts.iter().filter_map(|one| one.stall_ms).collect();
    let dips: Vec<f64> = impacts.iter().filter_map(|one| one.dip).collect();
    let (event, level) = (impact_words(impact), level(group));
    if stalls.is_empty() && dips.is_empty() {
        return (
            Tone::Mixed,
            format!("completed{at}; the impact of the event ({event}) could not be measured"),
        );
    }
    let dipped = dips.iter().any(|dip| *dip > LEAST_DIP);
    if stalls.iter().all(|stall| *stall < MARKED_SILENCE_MS) && !dipped && level.is_empty() {
        return (Tone::Good, format!("completed undisturbed{at}"));
    }
    let mut parts = Vec::new();
    if let Some(stall) = group.figure("stall_ms").filter(|stall| stall.median > 0.0) {
        parts.push(format!("longest stall {}", quantity::with_bounds(stall, duration)));
    }
    let recovery = group.figure("recovery_ms");
    let always = recovery.is_some_and(|found| found.n >= group.valid());
    let tone = if always { Tone::Good } else { Tone::Mixed };
    if always && !dips.is_empty() && !dipped {
        parts.push(format!("no dip after {event}"));
        return (tone, format!("continued{at}: {}{level}", parts.join(", ")));
    }
    if let Some(dip) = group.median("dip") {
        parts.push(format!("goodput dipped by {}", percent(dip)));
    }
    // Goodput that stays at what the other paths give has not recovered.
    let recovered = if level.is_empty() { "recovered" } else { "steady again" };
    parts.push(match recovery {
        None => format!("not recovered after {event}"),
        Some(found) if found.n < group.valid() => {
            let runs = counted(group.valid(), "run");
            format!(
                "{recovered} {} after {event} in {} of {runs} only",
                quantity::with_bounds(found, duration),
                found.n
            )
        }
        Some(found) => format!("{recovered} {} after {event}", quantity::with_bounds(found, duration)),
    });
    (tone, format!("continued{at}: {}{level}", parts.join(", ")))
}

/// Goodput before and after the event, medians over the runs, if it fell by more than [`LEAST_DIP`].
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
    // Without an event the headline has this already.
    group.valid_runs().find(|run| !run.impacts.is_empty())?;
    view.against_single_path(group, GOODPUT.name, |factor, label| {
        format!("{factor} the goodput of {label}, the best on one path")
    })
}

fn errors(group: &GroupView) -> Vec<String> {
    let failed = group.valid_runs().filter(|run| !run.completed);
    let errors = failed.map(|run| run.error.as_deref().unwrap_or("no error was recorded"));
    distinct(errors.map(|error| format!("ended with: {error}")))
}

fn impact_words(impact: &Impact) -> String {
    event::in_words(&impact.kind, impact.path.as_deref())
}

/// The default patience, which the text omits.
const USUAL_PATIENCE_MS: f64 = 30_000.0;

/// The requested traffic of a run, without the keys that the matrix varies. Unknown keys appear unchanged.
pub(crate) fn traffic(run: &RunRecord) -> String {
    let varied = |key: &str| run.variant.keys().any(|varied| varied.rsplit('.').next() == Some(key));
    let asked: Vec<(&str, &Value)> = run
        .parameters
        .asked
        .iter()
        .map(|(key, value)| (key.as_str(), value))
        .filter(|(key, value)| !value.is_null() && !varied(key.trim_end_matches("_ms")))
        .collect();
    let of = |wanted: &str| asked.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
    let number = |wanted: &str| of(wanted).and_then(Value::as_f64);
    let mut first = vec![of("direction").map_or_else(|| run.pattern.clone(), value_text)];
    if of("direction").and_then(Value::as_str) == Some("both") {
        first = vec!["upload and download at once".to_owned()];
    }
    first.extend(number("duration_ms").map(|ms| format!("for {}", plain(&duration(ms)))));
    let each = if run.pattern == "bulk" { "" } else { " per stream" };
    first.extend(number("bytes").map(|count| format!("of {}{each}", plain(&bytes(count as u64)))));
    let mut parts = vec![first.join(" ")];
    for &(key, value) in &asked {
        let figure = value.as_f64().unwrap_or_default();
        parts.extend(match key {
            "direction" | "duration_ms" | "bytes" | "frame_bytes" => None,
            "congestion" => Some(value_text(value)),
            "streams" | "paths" if value == 1 => None,
            "streams" => Some(counted(figure as u32, "stream")),
            "omit_ms" | "warm_up" if figure == 0.0 => None,
            "omit_ms" => Some(format!("the first {} left out", plain(&duration(figure)))),
            "patience_ms" if figure == USUAL_PATIENCE_MS => None,
            "patience_ms" => Some(format!("gives up after {} without progress", plain(&duration(figure)))),
            "rate_bps" => Some(format!("at most {} per stream", plain(&bit_rate(figure as u64)))),
            "count" => Some(counted(figure as u32, "request")),
            "warm_up" => Some(format!("{} before them", value_text(value))),
            "interval_ms" => Some(format!("one each {}", plain(&duration(figure)))),
            "request_bytes" => Some(format!("requests of {}", plain(&bytes(figure as u64)))),
            "response_bytes" => Some(format!("responses of {}", plain(&bytes(figure as u64)))),
            "timeout_ms" => Some(format!("timeout {}", plain(&duration(figure)))),
            "linger_ms" => {
                let last = if of("frames_per_second").is_some() { "datagram" } else { "acknowledgement" };
                Some(format!("waits {} for the last {last}", plain(&duration(figure))))
            }
            "frames_per_second" => {
                let size = number("frame_bytes").map_or(String::new(), |size| format!(" of {size} bytes"));
                Some(format!("{figure} frames{size} a second"))
            }
            "packet_bytes" => {
                (number("frame_bytes") > Some(figure)).then(|| format!("packets of {figure} bytes at most"))
            }
            "deadline_ms" => Some(format!("late after {}", plain(&duration(figure)))),
            "paths" => Some(format!("on {} at once", counted(figure as u32, "path"))),
            _ => Some(format!("{key} {}", value_text(value))),
        });
    }
    parts.join(", ")
}
