//! Tables of results: medians per label and variant, all patterns at a glance, and several results side by side.

use super::content::{Cell, Items, Section};
use crate::list::distinct;
use crate::narrative;
use crate::pattern::{DIP, FAILBACK, Figure, Kind, Pattern};
use crate::quantity::{Unit, distribution};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::Variant;

const BOUNDS: &str = "median of the valid runs; below it its 95 % CI, or the range of fewer than 6 runs";

pub(crate) fn summary(view: &View) -> Option<Section> {
    match view.patterns().as_slice() {
        [] => None,
        [only] => of_pattern(view, *only),
        _ => overview(view),
    }
}

pub(crate) fn of_pattern(view: &View, pattern: Pattern) -> Option<Section> {
    let has = |figure: &&Figure| {
        (pattern.kind == Kind::Throughput && figure.name != FAILBACK.name)
            || view.of_pattern(pattern).any(|group| group.figure(figure.name).is_some())
    };
    let figures: Vec<&Figure> = pattern.figures().iter().filter(has).collect();
    let mut rows = Items::new(view.of_pattern(pattern))
        .grouped(|group| group.variant)
        .words("transport", |group| Cell::text(group.label))
        .words("done", |group| done(group))
        .words("multipath", |group| multipath(group))
        .in_report_only();
    for figure in figures {
        rows = rows.words(figure.title, |group| figure_cell(group, figure));
    }
    if view.of_pattern(pattern).any(|group| lost(group).is_some()) {
        rows = rows.words(lost_title(pattern), |group| lost(group).unwrap_or_else(Cell::absent));
    }
    let title =
        if view.patterns().len() > 1 { format!("Results, {}", pattern.name) } else { "Results".into() };
    rows.section(title, BOUNDS)
}

fn done(group: &GroupView) -> Cell {
    let (valid, completed) = (group.valid(), group.completed());
    let invalid = group.runs.len() as u32 - valid;
    let below = if invalid > 0 { format!("{invalid} invalid") } else { String::new() };
    Cell::text(format!("{completed} of {valid}")).with_line(below).bad(completed < valid || valid == 0)
}

fn multipath(group: &GroupView) -> Cell {
    if !group.is_multipath() {
        return Cell::absent();
    }
    let (valid, used) = (group.valid(), group.valid_runs().filter(|run| run.multipath.used).count() as u32);
    let spare = group.valid_runs().filter(|run| narrative::claim::is_spare_unneeded(run)).count() as u32;
    Cell::text(format!("{used} of {valid}")).bad(used + spare < valid && !group.pattern.is_of_messages())
}

fn figure_cell(group: &GroupView, figure: &Figure) -> Cell {
    Cell::median(group.figure(figure.name), figure.unit, group.bound_mark(figure.name))
}

const fn lost_title(pattern: Pattern) -> &'static str {
    match pattern.kind {
        Kind::Ping => "lost",
        Kind::Interactive => "not acknowledged",
        Kind::Throughput | Kind::Bulk | Kind::Responsiveness | Kind::Datagrams => "gave up after",
    }
}

fn lost(group: &GroupView) -> Option<Cell> {
    match group.pattern.kind {
        Kind::Ping | Kind::Interactive => {
            let (lost, all) = group.lost_and_all();
            (lost > 0).then(|| Cell::text(format!("{lost} of {all}")).bad(true))
        }
        Kind::Throughput | Kind::Bulk | Kind::Responsiveness | Kind::Datagrams => {
            let failed = group.valid_runs().filter(|run| !run.completed);
            let hung: Vec<f64> = failed.filter_map(|run| run.hung_ms).collect();
            Some(Cell::median(Some(&distribution(&hung)?), Unit::Duration, "").bad(true))
        }
    }
}

pub(crate) fn overview(view: &View) -> Option<Section> {
    let patterns = view.patterns();
    if patterns.len() < 2 {
        return None;
    }
    let mut rows = Items::new(view.labels())
        .grouped(|(variant, _)| variant)
        .words("transport", |(_, label)| Cell::text(*label));
    for pattern in patterns {
        rows = rows.words(pattern.title(), |(variant, label)| {
            let same = |group: &&GroupView| group.variant == *variant && group.label == *label;
            view.of_pattern(pattern).find(same).map_or_else(Cell::absent, main_cell)
        });
    }
    rows.section("Results", BOUNDS)
}

pub(super) fn main_cell(group: &GroupView) -> Cell {
    let (valid, completed) = (group.valid(), group.completed());
    let cell = figure_cell(group, &group.pattern.main());
    match (valid, completed) {
        (0, _) => cell.with_line("not valid").bad(true),
        _ if completed < valid => cell.with_line(format!("{completed} of {valid} done")).bad(true),
        _ => cell,
    }
}

pub(crate) fn meanings(view: &View) -> String {
    let meanings = view.patterns().into_iter().map(|one| format!("{}: {}.", one.name, one.meaning()));
    let note = narrative::encryption(view).map(|note| format!("{note}."));
    meanings.chain(note).collect::<Vec<_>>().join(" ")
}

/// Several results side by side: a table per pattern and figure, a row per label and variant, a column per result.
pub(crate) fn across<'a>(views: &'a [View<'a>]) -> Vec<Section> {
    let patterns = distinct(views.iter().flat_map(View::patterns));
    let several = patterns.len() > 1;
    let figures =
        patterns.iter().flat_map(|pattern| pattern.figures().iter().map(move |one| (*pattern, one)));
    let sections = figures.filter(|(_, figure)| figure.name != DIP.name).filter_map(|(pattern, figure)| {
        let title =
            if several { format!("{}: {}", pattern.name, figure.title) } else { figure.title.to_owned() };
        of_figure(views, pattern, figure).section(title, "")
    });
    sections.collect()
}

fn of_figure<'a>(views: &'a [View<'a>], pattern: Pattern, figure: &Figure) -> Items<(&'a Variant, &'a str)> {
    let groups = views.iter().flat_map(|view| view.of_pattern(pattern));
    let groups = groups.filter(|group| group.figure(figure.name).is_some());
    let labels = distinct(groups.map(|group| (group.variant, group.label)));
    let find = |view: &'a View<'a>, (variant, label): &(&Variant, &str)| {
        view.of_pattern(pattern).find(|group| group.variant == *variant && group.label == *label)
    };
    let mut rows = Items::new(labels)
        .words("transport", |(variant, label)| Cell::text(*label).with_line(variant_text(variant)));
    for (index, view) in views.iter().enumerate() {
        let title = format!("{}. {}", index + 1, view.set.document.scenario.name);
        rows = rows.words(title, |label| {
            find(view, label).map_or_else(Cell::absent, |group| figure_cell(group, figure))
        });
    }
    rows
}
