//! The matrix: every variant and label in one table, with what each path did.

use super::diagnosis;
use super::tables::{figure, path_name};
use crate::narrative::diagnosis as words;
use crate::pattern::{GOODPUT, Kind, Pattern};
use crate::quantity::{NONE, percent};
use crate::view::{GroupView, View, short_key, value_text};
use maud::{Markup, html};
use pathbench_record::document::{PathRecord, RunRecord};
use std::collections::BTreeSet;

/// The table of a result with several variants: a column per key of the matrix, a row per label, and in each cell of a
/// path's figures a line per path.
pub(super) fn matrix(view: &View) -> Markup {
    let patterns: Vec<Pattern> = view
        .patterns()
        .into_iter()
        .filter(|pattern| matches!(pattern.kind, Kind::Iperf | Kind::Bulk))
        .collect();
    let several = view.patterns().len() > 1;
    html! {
        @if view.variants().len() > 1 { @for pattern in patterns {
            section {
                h2 { "The matrix" @if several { ", " (pattern.name) } }
                div.scroll.matrix { (table(view, pattern)) }
                p.muted { "Goodput: median over the valid runs, with its 95 % CI, or the range of fewer than six. Per path, in the run of median goodput: its part \
                           of the bytes that arrived, sending MSS and path MTU at the end, and the part of the bytes sent \
                           that were sent again." }
            }
        } }
    }
}

fn table<'a>(view: &View<'a>, pattern: Pattern<'a>) -> Markup {
    let keys: BTreeSet<&String> = view.variants().into_iter().flat_map(|variant| variant.keys()).collect();
    let groups: Vec<&GroupView> = view.of_pattern(pattern).collect();
    let found = groups.iter().any(|group| !words::findings(group).is_empty());
    html! {
        table {
            thead { tr {
                @for key in &keys { th title=(key) { (short_key(key)) } }
                th { "transport" } th { "goodput" } th { "path" } th.n { "share" } th.n { "MSS" } th.n { "path MTU" }
                th.n { "resent" }
                @if found { th { "diagnosis" } }
            } }
            tbody { @for (index, group) in groups.iter().enumerate() {
                @let first = index == 0 || groups[index - 1].variant != group.variant;
                @let rows = groups[index..].iter().take_while(|one| one.variant == group.variant).count();
                tr {
                    @if first { @for key in &keys {
                        th scope="rowgroup" rowspan=(rows) { (group.variant.get(*key).map_or(NONE.to_owned(), value_text)) }
                    } }
                    td { (group.label) }
                    (goodput(group))
                    (paths(view, group))
                    @if found { td { (diagnosis::in_short(group)) } }
                }
            } }
        }
    }
}

fn goodput(group: &GroupView) -> Markup {
    let (valid, completed) = (group.valid(), group.completed());
    if completed == valid && valid > 0 {
        return figure(group.figure(GOODPUT.name), GOODPUT.words, "");
    }
    html! { td {
        @if let Some(found) = group.figure(GOODPUT.name) { ((GOODPUT.words)(found.median)) }
        small { span.bad { "completed " (completed) " of " (valid) } }
    } }
}

/// The cells of a group's paths, a line per path.
fn paths(view: &View, group: &GroupView) -> Markup {
    let run: Option<&RunRecord> = group.representative();
    let paths = || run.into_iter().flat_map(|run| &run.paths);
    let share = |path: &PathRecord| {
        group.summary.and_then(|one| one.shares.get(&path.name)).copied().unwrap_or(path.share)
    };
    let size = |bytes: u32| if bytes == 0 { NONE.to_owned() } else { bytes.to_string() };
    html! {
        td { @for path in paths() { div { (path_name(view, &path.name)) } } }
        td.n { @for path in paths() { div { (percent(share(path))) } } }
        td.n { @for path in paths() { div { (size(path.mss_bytes)) } } }
        td.n { @for path in paths() { div { (size(path.pmtu_bytes)) } } }
        td.n { @for path in paths() { div { (resent(path)) } } }
    }
}

fn resent(path: &PathRecord) -> String {
    if path.bytes_sent == 0 {
        return NONE.to_owned();
    }
    percent(path.retransmitted_bytes as f64 / path.bytes_sent as f64)
}
