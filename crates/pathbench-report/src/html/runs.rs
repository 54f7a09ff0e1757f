//! The runs, each in a fold. Of many runs only some are shown in full; a table lists the others.

use super::blocks::{blocks, mark, table};
use crate::quantity::counted;
use crate::section::{self, Cell, Items, Value};
use crate::view::{GroupView, View};
use maud::{Markup, html};
use pathbench_record::document::RunRecord;
use std::collections::BTreeSet;

/// With more runs, only the representative ones and some with trouble are shown in full.
const MOST_IN_FULL: usize = 60;
const MOST_ROWS: usize = 500;

pub(super) fn runs(view: &View) -> Markup {
    let runs = &view.set.document.runs;
    if runs.is_empty() {
        return html! {};
    }
    let chosen = in_full(view);
    let (shown, listed): (Vec<&RunRecord>, Vec<&RunRecord>) =
        runs.iter().partition(|run| chosen.contains(run.id.as_str()));
    let several = view.patterns().len() > 1;
    html! {
        section {
            h2 { "Runs" }
            p.muted {
                @if listed.is_empty() { "In the order in which they ran." }
                @else {
                    "In full: the " (counted(shown.len(), "run")) " that represent their group or had trouble, in \
                     the order in which they ran."
                }
            }
            @for run in shown { details {
                summary {
                    (mark(run.valid && run.completed)) " " b { (run.id) } " – " (section::run::in_short(run, several))
                }
                div.inside { @for one in section::run::sections(view, run) {
                    @if !one.title.is_empty() { h3 { (one.title) } }
                    (blocks(&one))
                } }
            } }
            @if !listed.is_empty() { (list(&listed, several)) }
        }
    }
}

fn in_full<'a>(view: &View<'a>) -> BTreeSet<&'a str> {
    let runs = &view.set.document.runs;
    let representatives = view.groups.iter().filter_map(GroupView::representative);
    let troubled = runs.iter().filter(|run| !run.valid || !run.completed);
    let mut chosen = BTreeSet::new();
    for run in representatives.chain(troubled).chain(runs.iter().take(MOST_IN_FULL)) {
        if chosen.len() < MOST_IN_FULL || runs.len() <= MOST_IN_FULL {
            chosen.insert(run.id.as_str());
        }
    }
    chosen
}

fn list(listed: &[&RunRecord], several: bool) -> Markup {
    let shown = &listed[..listed.len().min(MOST_ROWS)];
    let rows = Items::new(shown)
        .words("run", |run| Cell::text(&*run.id))
        .words("completed", |run| Cell::new(Value::Sign(run.valid && run.completed)))
        .words("result", |run| Cell::text(section::run::in_short(run, several)));
    html! {
        details {
            summary { (counted(listed.len(), "other run")) " in short" }
            div.inside {
                (table(&rows.table, "Other runs"))
                @if listed.len() > shown.len() {
                    p.muted { (listed.len() - shown.len()) " more are in " code { "run.json" } "." }
                }
            }
        }
    }
}
