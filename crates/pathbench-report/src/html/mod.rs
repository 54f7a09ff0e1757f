//! The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere.

mod across;
mod diagnosis;
mod emulation;
mod matrix;
mod mobility;
mod overview;
mod packet_sizes;
mod path_mtu;
mod run;
mod server;
mod tables;
mod unified_mss;

use crate::ResultSet;
use crate::narrative::{self, Story, Tone};
use crate::output::{self, Named};
use crate::palette::Paths;
use crate::quantity::{bytes, counted};
use crate::view::{View, override_text};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use pathbench_record::text::is_deceptive;

const CSS: &str = include_str!("report.css");

/// The page for one or several results, complete in itself. Everything that comes from a result is escaped.
pub fn report(sets: &[ResultSet]) -> String {
    page(sets, &output::figures(sets))
}

/// The page with figures that are drawn already, one list per result.
pub(crate) fn page(sets: &[ResultSet], figures: &[Vec<Named>]) -> String {
    let all: Vec<&ResultSet> = sets.iter().collect();
    let paths = Paths::of(&all);
    let views: Vec<View> = all.iter().map(|set| View::with_paths(set, paths.clone())).collect();
    let names: Vec<&str> = sets.iter().map(|set| set.document.scenario.name.as_str()).collect();
    let title = if names.is_empty() { "No result".to_owned() } else { names.join(", ") };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="Pathbench";
                title { (title) " – Pathbench" }
                style { (PreEscaped(CSS)) }
            }
            body {
                main {
                    @if views.is_empty() {
                        h1 { "No result" }
                        p { "There is nothing to report." }
                    }
                    @if views.len() > 1 {
                        (across::comparison(&views))
                    }
                    @for (index, (view, figures)) in views.iter().zip(figures).enumerate() {
                        (result(view, figures, (views.len() > 1).then_some(index + 1)))
                    }
                    (definitions())
                }
            }
        }
    };
    harmless(markup.into_string())
}

/// The page without control characters and characters that turn the reading direction: nothing that the report
/// itself writes has any, and in a name they make one thing look like another.
fn harmless(page: String) -> String {
    if page.chars().all(|character| character == '\n' || !is_deceptive(character)) {
        return page;
    }
    page.chars().map(|c| if c != '\n' && is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn result(view: &View, figures: &[Named], number: Option<usize>) -> Markup {
    let document = &view.set.document;
    let anchor = number.map(|number| format!("result-{number}"));
    html! {
        article id=[anchor] {
            header {
                h1 {
                    @if let Some(number) = number { (number) ". " }
                    (document.scenario.name)
                }
                p.lead { (document.scenario.description) }
                (facts(view))
            }
            (server::servers(view))
            (server::reachability(view))
            (path_mtu::paths(view))
            @if document.mtu.is_none() || !document.runs.is_empty() { (findings(view)) }
            (diagnosis::overview(view))
            (overview::overview(view))
            (drawn(figures))
            (tables::results(view))
            (matrix::matrix(view))
            (unified_mss::rule(view))
            (mobility::handovers(view))
            (tables::paths(view))
            (tables::expectations(view))
            (notes(view))
            (tables::links(view))
            (run::runs(view))
            (asked(view))
            (environment(view))
        }
    }
}

/// The figures, under the name of their pattern where there are several.
fn drawn(figures: &[Named]) -> Markup {
    let mut last = None;
    let parts = figures.iter().map(|figure| {
        let heading = figure.pattern.as_ref().filter(|pattern| last != Some(*pattern));
        last = figure.pattern.as_ref();
        html! {
            @if let Some(pattern) = heading { h2 { "Pattern " (pattern) } }
            figure { (PreEscaped(figure.svg.to_string())) }
        }
    });
    html! { @for part in parts { (part) } }
}

fn facts(view: &View) -> Markup {
    let document = &view.set.document;
    let invalid = document.runs.iter().filter(|run| !run.valid).count();
    let patterns: Vec<&str> = view.patterns().into_iter().map(|pattern| pattern.name).collect();
    html! {
        p.facts {
            @if document.mtu.is_none() || !document.runs.is_empty() {
                span { (counted(document.runs.len() as u32, "run")) }
            }
            @if invalid > 0 { span.bad { (invalid) " not valid" } }
            @if !patterns.is_empty() {
                span { @if patterns.len() > 1 { "patterns " } @else { "pattern " } (patterns.join(", ")) }
            }
            @if let Some(note) = narrative::encryption(view) { span.mixed { (note) } }
            span { "seed " (document.seed) }
            @if !document.host.kernel.is_empty() { span { "Linux " (document.host.kernel) } }
            @if !document.host.started.is_empty() { span { (document.host.started) } }
        }
    }
}

/// More findings than this, and those without trouble are folded away.
const MOST_FINDINGS: usize = 12;

/// The headline in words: a line per label, and whether multipath was used.
fn findings(view: &View) -> Markup {
    let stories = narrative::stories_of(view);
    let many = stories.len() > MOST_FINDINGS;
    let (folded, shown): (Vec<&Story>, Vec<&Story>) =
        stories.iter().partition(|story| many && story.tone == Tone::Good);
    html! {
        section.findings {
            @if stories.is_empty() {
                p.finding.bad { "No run was made." }
            }
            @for story in shown { (finding(story)) }
            @if !folded.is_empty() {
                details {
                    summary { (mark(true)) " " (folded.len()) " of " (stories.len()) " got through every run" }
                    div.inside { @for story in folded { (finding(story)) } }
                }
            }
        }
        (verdicts(view))
    }
}

fn verdicts(view: &View) -> Markup {
    let verdicts = narrative::verdicts(view);
    let held = verdicts.iter().filter(|verdict| verdict.holds()).count();
    let rows = html! {
        table { tbody { @for verdict in &verdicts { tr {
            th scope="row" { (verdict.name()) }
            td { (mark(verdict.holds())) " " (verdict.text) }
        } } } }
    };
    html! {
        @if !verdicts.is_empty() {
            section {
                h2 { "Was multipath really used?" }
                @if verdicts.len() > MOST_FINDINGS {
                    details {
                        summary {
                            (mark(held == verdicts.len())) " In " (held) " of " (verdicts.len())
                            " combinations it was used in every valid run"
                        }
                        div.inside { (rows) }
                    }
                } @else { (rows) }
            }
        }
    }
}

fn finding(story: &Story) -> Markup {
    let (class, sign) = match story.tone {
        Tone::Good => ("good", "✓"),
        Tone::Mixed => ("mixed", "!"),
        Tone::Bad => ("bad", "✗"),
    };
    html! {
        div.finding.(class) {
            p { span.sign { (sign) } " " b { (story.label) }
                (story.aside()) " " (story.headline) "." }
            @if !story.details.is_empty() {
                ul { @for detail in &story.details { li { (detail) } } }
            }
        }
    }
}

/// `text` with what stands between backquotes set as code.
pub(super) fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    html! {
        // A backquote without its fellow is none of ours.
        @if parts.len().is_multiple_of(2) { (text) }
        @else { @for (index, part) in parts.into_iter().enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        } }
    }
}

/// A sign for yes or no, with its word for those who do not see it.
pub(super) fn mark(good: bool) -> Markup {
    html! {
        @if good { span.good title="yes" { "✓" } } @else { span.bad title="no" { "✗" } }
    }
}

fn notes(view: &View) -> Markup {
    let notes = &view.set.document.summary.notes;
    html! {
        @if !notes.is_empty() {
            section {
                h2 { "Notes" }
                ul { @for note in notes { li { (note) } } }
            }
        }
    }
}

fn asked(view: &View) -> Markup {
    let scenario = &view.set.document.scenario;
    html! {
        section {
            h2 { "What was asked" }
            p { "Scenario " b { (scenario.name) } " from " code { (scenario.origin) } "." }
            @if !scenario.overrides.is_empty() {
                p { "Changed on the command line:" }
                ul { @for (key, value) in &scenario.overrides {
                    li { code { (override_text(key, value)) } }
                } }
            }
            @if !scenario.text.is_empty() {
                details { summary { "The scenario file" } pre { (scenario.text) } }
            }
        }
    }
}

fn environment(view: &View) -> Markup {
    let (host, document) = (&view.set.document.host, &view.set.document);
    let rows = [
        ("Kernel", format!("Linux {} ({})", host.kernel, host.machine)),
        ("CPUs", host.cpus.to_string()),
        ("Memory", bytes(host.memory_bytes)),
        ("Pathbench", host.pathbench.clone()),
        ("Privilege", host.privilege.clone()),
        ("Congestion control by default", host.default_congestion.clone()),
        ("Processors kept awake", if host.processors_awake { "yes" } else { "no" }.to_owned()),
        ("Begun", host.started.clone()),
        ("Seed", document.seed.to_string()),
        ("Schema", document.schema.clone()),
    ];
    html! {
        section {
            h2 { "Environment" }
            table.narrow { tbody {
                @for (name, value) in rows { tr { th scope="row" { (name) } td { (value) } } }
            } }
        }
    }
}

/// How each metric is defined, in short.
fn definitions() -> Markup {
    let terms = [
        (
            "Goodput",
            "bytes delivered to the receiving application per second of the measured time, both directions together.",
        ),
        ("Dip", "1 − the lowest 100 ms goodput after the event ÷ the mean of the 2 s before it."),
        (
            "Stall",
            "the longest time in which the receiving application got no byte while data was outstanding.",
        ),
        (
            "Recovery",
            "from the event to the first 100 ms window from which goodput stays, over 500 ms, at 90 % of what the surviving paths give at the end of the phase.",
        ),
        ("Gave up after", "for a run that did not complete: how long the application waited without a byte."),
        (
            "Delay",
            "of a message: from the moment it is due, on a grid that never slips, to its acknowledgement. Percentiles are nearest-rank over all messages; one never acknowledged counts with the time to the end of the run, and ≥ marks figures that rest on such messages.",
        ),
        (
            "Round trip",
            "of a ping: request handed over to answer received, the median of those answered; lost ones are counted beside it.",
        ),
        (
            "Completion",
            "from before the connection is opened to the last byte received and found right. Handshake: the first part of it.",
        ),
        (
            "Share",
            "a path's part of all payload bytes that arrived over any path (quic, mpquic: of UDP payload). A path counts as used from 1 % on.",
        ),
        (
            "Multipath used",
            "by the word of the kernel, or of QUIC's transport parameters: negotiated, not fallen back, and at least two paths that count as used.",
        ),
        (
            "Handover",
            "from the first data on the second path, which is a spare or takes over, to the last packet received (or sent) on the first; negative, or abrupt, where the first had fallen silent before. Its reason: the first that holds of the first path at that moment: smoothed RTT over 600 ms, in retransmission timeout, retransmission timeout over 1500 ms.",
        ),
        (
            "Path MTU",
            "the largest IP packet that passes from one end of a path to the other; in force: what the transport believes it to be.",
        ),
        ("Lateness", "of a packet on an emulated link: how much later than the model's time it left."),
        (
            "Valid",
            "every link measured, before the run, what the scenario asks for, within its tolerance. Runs that are not valid enter no figure.",
        ),
        (
            "95 % CI, range",
            "beside a median over the valid repetitions: its distribution-free 95 % confidence interval, from order statistics, which takes six repetitions; below that the range from the lowest to the highest value.",
        ),
    ];
    html! {
        section.definitions {
            h2 { "How the figures are defined" }
            dl { @for (term, meaning) in terms { dt { (term) } dd { (meaning) } } }
            p { "In full: " code { "docs/metrics.md" } " in Pathbench's sources. The records behind every figure lie \
                 beside this report: " code { "run.json" } ", " code { "samples.jsonl" } ", "
                code { "events.jsonl" } ", " code { "delivery.jsonl" } ", " code { "messages.jsonl" } ", " code { "links.jsonl" } " and "
                code { "probes.jsonl" } "." }
        }
    }
}
