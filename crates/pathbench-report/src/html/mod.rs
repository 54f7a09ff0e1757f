//! The report as one self-contained HTML page: nothing from elsewhere, readable without scripts.

mod blocks;
mod columns;
mod explorer;
mod origin;
mod payload;
mod policy;
mod runs;
pub(crate) mod trace;

use crate::compare::{self, ComparedResults};
use crate::figure::{self, Figure};
use crate::narrative::{self, Tone, headline};
use crate::palette;
use crate::quantity::counted;
use crate::result_set::ResultSet;
use crate::section::{
    Finding, comparisons, findings, links, matrix, mtu, paths, response, results, unified_mss,
};
use crate::view::View;
use blocks::sections;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use pathbench_record::text::is_deceptive;
use std::sync::LazyLock;

/// The colours of the palette as custom properties, and the rules of the page.
static CSS: LazyLock<String> = LazyLock::new(|| palette::custom_properties() + include_str!("report.css"));
const DEFINITIONS: &str = include_str!("definitions.html");

/// The style sheet of the page, for pages that go with it.
pub fn style_sheet() -> &'static str {
    &CSS
}

/// The content security policy of every page, for servers that send it as a header as well.
pub fn policy() -> String {
    policy::text(&explorer::SCRIPTS, &styles())
}

/// The self-contained page for one or several results. Everything that comes from a result is escaped.
pub fn report(sets: &[ResultSet]) -> String {
    page(sets).0
}

/// The page, and the figures in it.
pub fn page(sets: &[ResultSet]) -> (String, Vec<Vec<Figure>>) {
    let views = View::of_all(sets);
    // First, because they read every run; what the figures need of all runs is then known.
    let panels: Vec<Markup> = views.iter().map(explorer::panels).collect();
    let figures = figure::of_views(&views);
    let names: Vec<&str> = sets.iter().map(|set| set.document.scenario.name.as_str()).collect();
    let title = if names.is_empty() { "No result".to_owned() } else { names.join(", ") };
    let content = html! {
        @if views.is_empty() {
            h1 { "No result" }
            p { "There is nothing to report." }
        }
        @if views.len() > 1 {
            (across(&views))
        }
        @for (index, ((view, panels), figures)) in views.iter().zip(&panels).zip(&figures).enumerate() {
            (result(view, panels, figures, (views.len() > 1).then_some(index + 1)))
        }
        (PreEscaped(DEFINITIONS))
    };
    (whole(&title, &content, &explorer::SCRIPTS, &styles()), figures)
}

fn styles() -> [&'static str; 3] {
    [CSS.as_str(), explorer::STYLES[0], explorer::STYLES[1]]
}

/// A page with `content`. The scripts are at its end: the data blocks precede them.
fn whole(title: &str, content: &Markup, scripts: &[&str], styles: &[&str]) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (policy::meta(scripts, styles))
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="Pathbench";
                title { (title) " – Pathbench" }
                @for style in styles { style { (PreEscaped(style)) } }
            }
            body {
                a.skip href="#content" { "Skip to the results" }
                main #content tabindex="-1" { (content) }
                @for script in scripts { script { (PreEscaped(script)) } }
            }
        }
    };
    harmless(markup.into_string())
}

/// Removes control characters and characters that change the reading direction. The report itself writes none; in a
/// name they could imitate another name.
fn harmless(page: String) -> String {
    if page.chars().all(|character| character == '\n' || !is_deceptive(character)) {
        return page;
    }
    page.chars().map(|c| if c != '\n' && is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The parts in the order of a reader's questions: the answer, its course over time, the numbers, their validity, their
/// origin.
fn result(view: &View, panels: &Markup, figures: &[Figure], number: Option<usize>) -> Markup {
    let document = &view.set.document;
    let anchor = number.map(|number| format!("result-{number}"));
    let patterns = || view.patterns().into_iter();
    let numbers = [unified_mss::rule(view), paths::handovers(view), paths::carried(view, true)];
    let validity = [
        findings::all_expectations(view),
        findings::notes(view),
        links::links(view, true),
        findings::left_out(view),
    ];
    html! {
        article id=[anchor] {
            header {
                @if let Some(answer) = headline::of_document(document) {
                    div.headline { (blocks::finding(&answer, false)) }
                }
                h1 {
                    @if let Some(number) = number { (number) ". " }
                    (document.scenario.name)
                }
                p.lead { (document.scenario.description) }
                (facts(view))
            }
            @if document.mtu.is_none() || !document.runs.is_empty() { (answer(view)) }
            @if let Some(record) = &document.mtu { (sections(mtu::sections(record))) }
            (panels)
            (drawn(figures))
            (sections(findings::verdicts(view).into_iter().chain(findings::diagnoses(view)).chain(findings::limits(view))))
            (sections(results::overview(view)))
            @if view.patterns().len() > 1 { p.muted { (results::meanings(view)) } }
            (sections(patterns().filter_map(|pattern| results::of_pattern(view, pattern))))
            (sections(response::of_groups(view)))
            (sections(comparisons::comparisons(view)))
            (sections(patterns().filter_map(|pattern| matrix::matrix(view, pattern))))
            (sections(numbers.into_iter().flatten()))
            (sections(validity.into_iter().flatten()))
            (sections(links::servers(view)))
            (sections(links::reachability(view, true)))
            (runs::runs(view))
            (origin::repetition(view))
            (origin::hosts(view))
            (origin::scenario(view))
        }
    }
}

/// A sentence for each transport; the details are folded.
fn answer(view: &View) -> Markup {
    let stories = findings::stories(view);
    html! {
        section.findings {
            h2 { "In short" }
            @if stories.is_empty() { (blocks::finding(&Finding::new(Tone::Bad, "", "No run was made."), false)) }
            (blocks::findings(&stories, true))
        }
    }
}

fn drawn(figures: &[Figure]) -> Markup {
    html! {
        @if !figures.is_empty() { div.static {
            @for of_pattern in figures.chunk_by(|a, b| a.pattern == b.pattern) {
                section {
                    h2 {
                        @match &of_pattern[0].pattern {
                            Some(pattern) => { "Figures of the pattern " (pattern) }
                            None => "Figures"
                        }
                    }
                    @for one in of_pattern { (drawn_one(one)) }
                }
            }
        } }
    }
}

fn drawn_one(one: &Figure) -> Markup {
    html! {
        figure {
            div.scroll role="group" tabindex="0" aria-label=(one.svg.title()) {
                (PreEscaped(one.svg.in_page(&format!("figure-{}", one.name))))
            }
            @if let Some(narrow) = &one.narrow {
                div.narrow { (PreEscaped(narrow.in_page(&format!("figure-{}-narrow", one.name)))) }
            }
            @if !one.caption.is_empty() { figcaption { @for paragraph in &one.caption { p { (paragraph) } } } }
        }
    }
}

fn facts(view: &View) -> Markup {
    let document = &view.set.document;
    let invalid = document.runs.iter().filter(|run| !run.valid).count();
    let patterns: Vec<&str> = view.patterns().into_iter().map(|pattern| pattern.name).collect();
    html! {
        p.facts {
            @if document.mtu.is_none() || !document.runs.is_empty() {
                span { (counted(document.runs.len(), "run")) }
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

fn across(views: &[View]) -> Markup {
    let sets: Vec<&ResultSet> = views.iter().map(|view| view.set).collect();
    html! {
        section.across {
            h1 { "Comparison of " (views.len()) " results" }
            ol { @for (index, view) in views.iter().enumerate() {
                @let document = &view.set.document;
                li {
                    a href=(format!("#result-{}", index + 1)) { (document.scenario.name) }
                    " – " (document.scenario.description)
                    @if let Some(directory) = &view.set.directory { " " span.muted { (directory.display()) } }
                }
            } }
            @if let Some(compared) = ComparedResults::from_sets(&sets) {
                section.findings { (blocks::findings(&[compare::headline(&compared)], false)) }
                (sections(compare::sections(&compared, &sets)))
            }
            // Of two results the comparison has all medians.
            @if views.len() > 2 { (sections(results::across(views))) }
        }
    }
}
