//! Several results side by side.

use super::tables::figure;
use crate::quantity::{NONE, duration, rate, ratio};
use crate::view::{GroupView, View, variant_text};
use maud::{Markup, html};
use pathbench_record::document::Variant;

/// A table with a row per label and variant and a column per result.
pub(super) fn comparison(views: &[View]) -> Markup {
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
            @for (title, name, show) in measures() { (table(views, title, name, show)) }
            p.muted { "Median over the valid runs, its interval below; × is the ratio of medians to the first result. \
                       An interval that excludes another result's median is the least to ask for before a difference \
                       is believed." }
        }
    }
}

type Measure = (&'static str, &'static str, fn(f64) -> String);

fn measures() -> [Measure; 3] {
    [
        ("Goodput", "goodput_mbps", rate),
        ("Longest stall", "stall_ms", duration),
        ("Recovery", "recovery_ms", duration),
    ]
}

fn table(views: &[View], title: &str, name: &str, show: fn(f64) -> String) -> Markup {
    let mut rows: Vec<(&Variant, &str)> = Vec::new();
    for group in views.iter().flat_map(|view| &view.groups).filter(|group| group.figure(name).is_some()) {
        if !rows.contains(&(group.variant, group.label)) {
            rows.push((group.variant, group.label));
        }
    }
    html! {
        @if !rows.is_empty() {
            h2 { (title) }
            div.scroll { table {
                thead { tr {
                    th { "transport" }
                    @for (index, view) in views.iter().enumerate() {
                        th { (index + 1) ". " (view.set.document.scenario.name) }
                        @if index > 0 { th.n { "÷ 1." } }
                    }
                } }
                tbody { @for (variant, label) in rows { tr {
                    th scope="row" { (label) @if !variant.is_empty() { small { (variant_text(variant)) } } }
                    @for (index, view) in views.iter().enumerate() {
                        (figure(find(view, variant, label).and_then(|group| group.figure(name)), show))
                        @if index > 0 { td.n { (against_first(views, view, (variant, label), name)) } }
                    }
                } } }
            } }
        }
    }
}

fn find<'a, 'b>(view: &'b View<'a>, variant: &Variant, label: &str) -> Option<&'b GroupView<'a>> {
    view.groups.iter().find(|group| group.variant == variant && group.label == label)
}

fn against_first(views: &[View], view: &View, (variant, label): (&Variant, &str), name: &str) -> String {
    let median = |view: &View| find(view, variant, label).and_then(|group| group.median(name));
    match (views.first().and_then(median), median(view)) {
        (Some(first), Some(own)) if first > 0.0 => ratio(own / first),
        _ => NONE.to_owned(),
    }
}
