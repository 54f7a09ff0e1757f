//! The form of a filter: a GET form, so that its result has a permanent address.

use super::element::table;
use crate::chart::Chart;
use crate::columns::Filter;
use crate::facts::{KINDS, MODES};
use crate::reader::FilterChoices;
use crate::reader::query::{date, kind_name, mode_name, names_of_filter, of_filter};
use crate::viewer::{View, Viewer};
use maud::{Markup, PreEscaped, html};
use pathbench_record::transport::Transport;

/// The filter as words, empty without one.
pub(super) fn words(filter: &Filter) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    if !filter.transports.is_empty() {
        words.push(filter.transports.iter().map(|one| one.name()).collect::<Vec<_>>().join(" or "));
    }
    words.extend(names_of_filter(filter).map(|(name, value)| format!("{name} {value}")));
    words.extend(filter.since_s.map(|since_s| format!("since {}", date(since_s))));
    words.extend(filter.until_s.map(|until_s| format!("until {}", date(until_s))));
    words.extend(filter.text.as_ref().map(|text| format!("text {text}")));
    words
}

fn select(name: &str, label: &str, chosen: Option<&str>, options: &[&str]) -> Markup {
    // A value that is no option any more stays chosen.
    let other = chosen.filter(|chosen| !options.contains(chosen));
    html! {
        label { (label) select name=(name) {
            option value="" { "all" }
            @for option in options.iter().copied().chain(other) {
                option value=(option) selected[chosen == Some(option)] { (option) }
            }
        } }
    }
}

/// The form; `action` is the address of the page without its query.
pub(super) fn form(view: View, filter: &Filter, options: &FilterChoices, action: &str) -> Markup {
    let choice = |name: &str, label: &str, chosen: &Option<String>, all: &[String]| {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        select(name, label, chosen.as_deref(), &all)
    };
    let words = words(filter);
    html! {
        @if !words.is_empty() { ul.chips aria-label="Filter" { @for word in &words { li { (word) } } } }
        details.printed {
            summary { "Filter" }
            div.inside { form.filters method="get" action=(action) {
                fieldset {
                    legend.hidden { "Filter" }
                    div.field.transports role="group" aria-label="Transports" {
                        @for transport in Transport::ALL { label {
                            input type="checkbox" name="transport" value=(transport.name())
                                checked[filter.transports.contains(&transport)];
                            (transport.name())
                        } }
                    }
                    (choice("server", "Server", &filter.server, &options.server))
                    (select("network", "Network", filter.kind.map(kind_name), &KINDS.map(kind_name)))
                    (choice("operator", "Operator", &filter.operator, &options.operator))
                    (select("mode", "Mode", filter.mode.map(mode_name), &MODES.map(mode_name)))
                    (choice("experiment", "Experiment", &filter.experiment, &options.experiment))
                    (choice("scenario", "Scenario", &filter.scenario, &options.scenario))
                    label { "Since" input type="date" name="since" value=[filter.since_s.map(date)]; }
                    label { "Until" input type="date" name="until" value=[filter.until_s.map(date)]; }
                    label { "Text in names"
                        input type="search" name="q" maxlength="64" value=[filter.text.as_deref()]; }
                    @if view.viewer == Viewer::Operator {
                        label { "Agent (id)"
                            input type="text" name="agent" maxlength="36" value=[filter.agent.map(|id| id.to_string())]; }
                    }
                }
                div.actions {
                    button type="submit" { "Show" }
                    @if !words.is_empty() { a href=(action) { "Show all" } }
                }
            } }
        }
    }
}

/// `?…` of a filter; nothing without one.
pub(super) fn suffix(filter: &Filter) -> String {
    let query = of_filter(filter);
    if query.is_empty() { query } else { format!("?{query}") }
}

/// A chart with its table and its files.
pub(super) fn figure(view: View, chart: &Chart, filter: &Filter, is_link: bool) -> Markup {
    let prefix = view.prefix;
    let suffix = suffix(filter);
    html! {
        figure {
            div.scroll role="group" tabindex="0" aria-label=(chart.title()) {
                (PreEscaped(chart.svg().in_page(&format!("chart-{}", chart.name))))
            }
            figcaption {
                p { (chart.caption()) }
                @if !chart.table.rows.is_empty() {
                    details open[!is_link] { summary { "Table" span.hidden { " of " (chart.title()) } } (table(&chart.table, chart.title())) }
                }
                p.files {
                    @if is_link {
                        a href=(format!("{prefix}/charts/{}{suffix}", chart.name)) {
                            "Filter" span.hidden { " " (chart.title()) }
                        }
                    }
                    @for extension in ["csv", "json", "svg"] {
                        a href=(format!("{prefix}/v1/charts/{}.{extension}{suffix}", chart.name)) {
                            (extension.to_uppercase()) span.hidden { " of " (chart.title()) }
                        }
                    }
                }
            }
        }
    }
}
