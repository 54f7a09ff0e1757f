//! Several results side by side.

use super::tables::figure;
use crate::pattern::{DIP, Figure, Pattern};
use crate::quantity::{NONE, ratio};
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
            @for table in tables(views) { (table) }
            p.muted { "Median over the valid runs; below it its 95 % CI, or the range of fewer than six; × is the ratio of \
                       medians to the first result. A 95 % CI that excludes another result's median is the \
                       minimum evidence of a difference." }
        }
    }
}

/// A table per pattern and figure: transports down, results across.
fn tables(views: &[View]) -> Vec<Markup> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for pattern in views.iter().flat_map(View::patterns) {
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let several = patterns.len() > 1;
    patterns
        .into_iter()
        .flat_map(|pattern| pattern.figures().iter().map(move |figure| (pattern, figure)))
        .filter(|(_, figure)| figure.name != DIP.name)
        .map(|(pattern, figure)| {
            let mut title = figure.title.to_owned();
            if let Some(first) = title.get(..1).map(str::to_uppercase) {
                title.replace_range(..1, &first);
            }
            let of = if several { format!("{}: {}", pattern.name, figure.title) } else { title };
            table(views, &of, pattern, *figure)
        })
        .collect()
}

fn table(views: &[View], title: &str, pattern: Pattern, of: Figure) -> Markup {
    let mut rows: Vec<(&Variant, &str)> = Vec::new();
    let groups = views.iter().flat_map(|view| &view.groups).filter(|group| group.pattern == pattern);
    for group in groups.filter(|group| group.figure(of.name).is_some()) {
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
                    @let row = Row { variant, label, pattern };
                    @for (index, view) in views.iter().enumerate() {
                        @let group = row.find(view);
                        @let mark = group.map_or("", |group| group.bound_mark(of.name));
                        (figure(group.and_then(|group| group.figure(of.name)), of.words, mark))
                        @if index > 0 { td.n { (row.against_first(views, view, of.name)) } }
                    }
                } } }
            } }
        }
    }
}

/// A label of a pattern in a variant.
#[derive(Clone, Copy)]
struct Row<'a> {
    variant: &'a Variant,
    label: &'a str,
    pattern: Pattern<'a>,
}

impl Row<'_> {
    fn find<'a, 'b>(&self, view: &'b View<'a>) -> Option<&'b GroupView<'a>> {
        view.groups.iter().find(|group| {
            group.variant == self.variant && group.label == self.label && group.pattern == self.pattern
        })
    }

    fn against_first(&self, views: &[View], view: &View, name: &str) -> String {
        let median = |view: &View| self.find(view).and_then(|group| group.median(name));
        match (views.first().and_then(median), median(view)) {
            (Some(first), Some(own)) if first > 0.0 => ratio(own / first),
            _ => NONE.to_owned(),
        }
    }
}
