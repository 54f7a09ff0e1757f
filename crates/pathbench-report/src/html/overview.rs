//! All patterns at a glance: transports down, patterns across.

use super::tables::figure;
use crate::narrative;
use crate::pattern::Pattern;
use crate::quantity::NONE;
use crate::view::{View, variant_text};
use maud::{Markup, html};

/// The table of a result with several patterns.
pub(super) fn overview(view: &View) -> Markup {
    let patterns = view.patterns();
    html! {
        @if patterns.len() > 1 {
            section {
                h2 { "All patterns" }
                div.scroll { table {
                    thead { tr { th { "transport" } @for pattern in &patterns {
                        th { (pattern.title()) small { (pattern.main().title) } }
                    } } }
                    tbody { @for (variant, label) in view.labels() { tr {
                        th scope="row" {
                            (label) @if !variant.is_empty() { small { (variant_text(variant)) } }
                        }
                        @for pattern in &patterns {
                            @let found = view.of_pattern(*pattern).find(|one| one.label == label && one.variant == variant);
                            @match found {
                                Some(group) => { (cell(group, *pattern)) }
                                None => { td { (NONE) } }
                            }
                        }
                    } } }
                } }
                p.muted {
                    @for pattern in &patterns { (pattern.name) ": " (pattern.meaning()) ". " }
                    @if let Some(note) = narrative::encryption(view) { b { (note) } "." }
                }
            }
        }
    }
}

fn cell(group: &crate::view::GroupView, pattern: Pattern) -> Markup {
    let main = pattern.main();
    let (valid, completed) = (group.valid(), group.completed());
    if completed == valid && valid > 0 {
        return figure(group.figure(main.name), main.words, group.bound_mark(main.name));
    }
    html! {
        td {
            @if let Some(found) = group.figure(main.name) { (group.bound_mark(main.name)) ((main.words)(found.median)) }
            small { span.bad { "completed " (completed) " of " (valid) } }
        }
    }
}
