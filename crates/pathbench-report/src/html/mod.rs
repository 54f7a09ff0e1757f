//! The report as one self-contained HTML page: no scripts, no external fonts, no external pictures.

use crate::figure::{self, Figure};
use crate::narrative::{self, Tone};
use crate::palette::path_colour;
use crate::quantity::{bounds, bytes, counted, percent};
use crate::result_set::{Paths, ResultSet};
use crate::section::{
    self, Block, Cell, Finding, Row, Section, Table, Value, findings, links, matrix, mtu, paths, results,
    unified_mss,
};
use crate::view::{View, override_text};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use pathbench_record::text::is_deceptive;

const CSS: &str = include_str!("report.css");
const DEFINITIONS: &str = include_str!("definitions.html");

/// The self-contained page for one or several results. Everything that comes from a result is escaped.
pub fn report(sets: &[ResultSet]) -> String {
    page(sets, &figure::figures(sets))
}

/// The page with the given figures.
pub fn page(sets: &[ResultSet], figures: &[Vec<Figure>]) -> String {
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
                        (across(&views))
                    }
                    @for (index, (view, figures)) in views.iter().zip(figures).enumerate() {
                        (result(view, figures, (views.len() > 1).then_some(index + 1)))
                    }
                    (PreEscaped(DEFINITIONS))
                }
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

fn result(view: &View, figures: &[Figure], number: Option<usize>) -> Markup {
    let document = &view.set.document;
    let anchor = number.map(|number| format!("result-{number}"));
    let patterns = || view.patterns().into_iter();
    let last = [
        unified_mss::rule(view),
        paths::handovers(view),
        paths::carried(view, true),
        findings::expectations(view),
        findings::notes(view),
        findings::invalid(view),
        links::links(view, true),
    ];
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
            (sections(links::servers(view)))
            (sections(links::reachability(view, true)))
            @if let Some(record) = &document.mtu { (sections(mtu::sections(record))) }
            @if document.mtu.is_none() || !document.runs.is_empty() {
                @let stories = findings::stories(view);
                section.findings {
                    @if stories.is_empty() { (finding(&Finding::new(Tone::Bad, "", "No run was made."))) }
                    (findings_of(&stories))
                }
            }
            (sections(findings::verdicts(view).into_iter().chain(findings::diagnoses(view))))
            (sections(results::overview(view)))
            @if view.patterns().len() > 1 { p.muted { (results::meanings(view)) } }
            (drawn(figures))
            (sections(patterns().filter_map(|pattern| results::of_pattern(view, pattern))))
            (sections(patterns().filter_map(|pattern| matrix::matrix(view, pattern))))
            (sections(last.into_iter().flatten()))
            (runs(view))
            (scenario(view))
            (environment(view))
        }
    }
}

fn drawn(figures: &[Figure]) -> Markup {
    html! {
        @for of_pattern in figures.chunk_by(|a, b| a.pattern == b.pattern) {
            @if let Some(pattern) = &of_pattern[0].pattern { h2 { "Pattern " (pattern) } }
            @for one in of_pattern { figure { (PreEscaped(one.svg.to_string())) } }
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

/// With more findings than this, findings without trouble are folded.
const MOST_FINDINGS: usize = 12;

fn findings_of(all: &[Finding]) -> Markup {
    let is_folded = |one: &&Finding| all.len() > MOST_FINDINGS && one.tone == Tone::Good;
    let (folded, shown): (Vec<&Finding>, Vec<&Finding>) = all.iter().partition(is_folded);
    html! {
        @for one in shown { (finding(one)) }
        @if !folded.is_empty() {
            details {
                summary { (mark(true)) " " (folded.len()) " of " (all.len()) " without trouble" }
                div.inside { @for one in folded { (finding(one)) } }
            }
        }
    }
}

fn finding(one: &Finding) -> Markup {
    let details = || one.details.iter().filter(|detail| !detail.is_empty());
    html! {
        div.finding.(one.tone.name()) {
            p {
                span.sign { (one.tone.sign()) } " "
                @if !one.subject.is_empty() { b { (one.subject) } " " }
                (prose(&one.text))
            }
            @if details().next().is_some() { ul { @for detail in details() { li { (detail) } } } }
        }
    }
}

fn sections(all: impl IntoIterator<Item = Section>) -> Markup {
    html! { @for one in all { section { h2 { (one.title) } (blocks(&one)) } } }
}

fn blocks(section: &Section) -> Markup {
    html! {
        @for block in &section.blocks {
            @match block {
                Block::Findings(all) => { (findings_of(all)) }
                Block::Table(one) => { div.scroll { (table(one)) } }
                Block::Text(text) => { p { (prose(text)) } }
                Block::Commands(all) => {
                    ul { @for (done, command, undo) in all { li {
                        (mark(*done)) " " code { (command) }
                        @if !undo.is_empty() { " undo: " code { (undo) } }
                    } } }
                }
            }
        }
        @if !section.remark.is_empty() { p.muted { (prose(&section.remark)) } }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        table {
            thead { tr { @for one in &table.columns { th.n[one.is_number] { (one.title) } } } }
            tbody { @for rows in table.rows.chunk_by(|a, b| a.group == b.group || b.group.is_empty()) {
                @if !rows[0].group.is_empty() {
                    tr.variant { td colspan=(table.columns.len()) { (rows[0].group) } }
                }
                @for row in rows { (table_row(table, row)) }
            } }
        }
    }
}

fn table_row(table: &Table, row: &Row) -> Markup {
    html! {
        tr { @for (index, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
            @if index == 0 { th scope="row" { (cell_content(cell)) } }
            @else { td.n[column.is_number] { (cell_content(cell)) } }
        } }
        @for (tone, note) in &row.notes {
            tr { td.(tone.name()) colspan=(table.columns.len()) { (note) } }
        }
    }
}

fn cell_content(cell: &Cell) -> Markup {
    let text = cell.value.shown();
    html! {
        @match (&cell.value, cell.tone) {
            (Value::Path { rank, .. }, _) => {
                span.path title=(text) { span.swatch style={ "background:" (path_colour(*rank).to_string()) } {} (text) }
            }
            (Value::Share { rank, part }, _) => { (share(*rank, *part)) }
            (Value::Sign(is_good), _) => { (mark(*is_good)) }
            (_, Some(tone)) => { span.(tone.name()) { (prose(&text)) } }
            (_, None) => { (prose(&text)) }
        }
        @if let Value::Median { found, unit, .. } = &cell.value {
            @let bounds = bounds(found, unit.words());
            @if !bounds.is_empty() { small { (bounds) } }
        }
        @for line in &cell.below { small { (line) } }
    }
}

fn share(rank: usize, share: f64) -> Markup {
    let part = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    let style = format!("width:{part:.1}%;background:{}", path_colour(rank));
    html! { span.bar { i style=(style) {} } (percent(share)) }
}

fn across(views: &[View]) -> Markup {
    html! {
        section.across {
            h1 { "Comparison of " (views.len()) " results" }
            ol { @for (index, view) in views.iter().enumerate() {
                @let document = &view.set.document;
                li {
                    a href=(format!("#result-{}", index + 1)) { (document.scenario.name) }
                    " – " (document.scenario.description)
                    " " span.muted { "Linux " (document.host.kernel) ", " (document.host.started)
                        @if let Some(directory) = &view.set.directory { ", " (directory.display()) } }
                }
            } }
            (sections(results::across(views)))
            p.muted { "Median over the valid runs; below it its 95 % CI, or the range of fewer than six; × is the ratio of \
                       medians to the first result. A 95 % CI that excludes another result's median is the \
                       minimum evidence of a difference." }
        }
    }
}

fn runs(view: &View) -> Markup {
    let runs = &view.set.document.runs;
    let several = view.patterns().len() > 1;
    html! {
        @if !runs.is_empty() {
            section {
                h2 { "Runs" }
                p.muted { "In the order in which they ran." }
                @for run in runs { details {
                    summary {
                        (mark(run.valid && run.completed)) " " b { (run.id) } " – " (section::run::in_short(run, several))
                    }
                    div.inside { @for one in section::run::sections(view, run) {
                        @if !one.title.is_empty() { h3 { (one.title) } }
                        (blocks(&one))
                    } }
                } }
            }
        }
    }
}

fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    html! {
        // An unpaired backquote comes from a file; it stays as text.
        @if parts.len().is_multiple_of(2) { (text) }
        @else { @for (index, part) in parts.into_iter().enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        } }
    }
}

/// A yes or no mark, with a title for screen readers.
fn mark(good: bool) -> Markup {
    html! {
        @if good { span.good title="yes" { "✓" } } @else { span.bad title="no" { "✗" } }
    }
}

fn scenario(view: &View) -> Markup {
    let scenario = &view.set.document.scenario;
    html! {
        section {
            h2 { "Scenario" }
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
