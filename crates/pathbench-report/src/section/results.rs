//! Tables of results: medians per label and variant, all patterns at a glance, and several results side by side.

use super::{Cell, Row, Section, Table, label_cell, number, words};
use crate::narrative;
use crate::pattern::{DIP, Figure, Kind, Pattern};
use crate::quantity::{Unit, distribution};
use crate::view::{GroupView, View};
use pathbench_record::document::{RunRecord, Variant};

const BOUNDS: &str = "median of the valid runs; below it its 95 % CI, or the range of fewer than 6 runs";

/// What the summary shows: the figures of the only pattern, or the main figure of each.
pub(crate) fn summary(view: &View) -> Option<Section> {
    match view.patterns().as_slice() {
        [] => None,
        [only] => of_pattern(view, *only),
        _ => overview(view),
    }
}

/// The figures of a pattern that its runs have; goodput and what follows from it are always there for throughput.
pub(crate) fn of_pattern(view: &View, pattern: Pattern) -> Option<Section> {
    let has = |figure: &&Figure| {
        pattern.kind == Kind::Iperf
            || view.of_pattern(pattern).any(|group| group.figure(figure.name).is_some())
    };
    let figures: Vec<&Figure> = pattern.figures().iter().filter(has).collect();
    let mut columns = vec![words("transport"), words("done"), words("multipath").in_report_only()];
    columns.extend(figures.iter().map(|figure| words(figure.title)));
    let lost = view.of_pattern(pattern).any(|group| lost(group).is_some());
    columns.extend(lost.then(|| words(lost_title(pattern))));
    let row = |group: &GroupView| {
        let mut cells = vec![Cell::text(group.label), done(group), multipath(group)];
        cells.extend(figures.iter().map(|figure| figure_cell(group, figure)));
        cells.extend(lost.then(|| self::lost(group).unwrap_or_else(Cell::absent)));
        Row::of_variant(group.variant, cells)
    };
    let rows = view.of_pattern(pattern).map(row).collect();
    let title =
        if view.patterns().len() > 1 { format!("Results, {}", pattern.name) } else { "Results".into() };
    Section::of_table(title, BOUNDS, Table { columns, rows })
}

fn done(group: &GroupView) -> Cell {
    let (valid, completed) = (group.valid(), group.completed());
    let invalid = group.runs.len() as u32 - valid;
    let below = if invalid > 0 { format!("{invalid} invalid") } else { String::new() };
    Cell::text(format!("{completed} of {valid}")).below(below).bad(completed < valid || valid == 0)
}

fn multipath(group: &GroupView) -> Cell {
    if !group.is_multipath() {
        return Cell::absent();
    }
    let (valid, used) = (group.valid(), group.valid_runs().filter(|run| run.multipath.used).count() as u32);
    Cell::text(format!("{used} of {valid}")).bad(used < valid && !group.pattern.is_of_messages())
}

fn figure_cell(group: &GroupView, figure: &Figure) -> Cell {
    Cell::median(group.figure(figure.name), figure.unit, group.bound_mark(figure.name))
}

const fn lost_title(pattern: Pattern) -> &'static str {
    match pattern.kind {
        Kind::Ping => "lost",
        Kind::Interactive => "never acknowledged",
        Kind::Iperf | Kind::Bulk => "gave up after",
    }
}

/// What of a group's traffic did not get through; `None` when all did.
fn lost(group: &GroupView) -> Option<Cell> {
    let sum = |of: &dyn Fn(&RunRecord) -> Option<(u32, u32)>| {
        let sums = group.valid_runs().filter_map(of);
        let (lost, all) =
            sums.fold((0_u32, 0_u32), |(lost, all), (l, a)| (lost.saturating_add(l), all.saturating_add(a)));
        (lost > 0).then(|| Cell::text(format!("{lost} of {all}")).bad(true))
    };
    match group.pattern.kind {
        Kind::Ping => sum(&|run| run.ping.as_ref().map(|ping| (ping.lost, ping.sent))),
        Kind::Interactive => sum(&|run| run.delay_ms.as_ref().map(|delay| (delay.late, delay.messages))),
        Kind::Iperf | Kind::Bulk => {
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
    let mut columns = vec![words("transport")];
    columns.extend(patterns.iter().map(|pattern| words(pattern.title())));
    let row = |(variant, label): (&Variant, &str)| {
        let find = |pattern: &Pattern| {
            let same = |group: &&GroupView| group.variant == variant && group.label == label;
            view.of_pattern(*pattern).find(same).map_or_else(Cell::absent, main_cell)
        };
        let cells = std::iter::once(Cell::text(label)).chain(patterns.iter().map(find));
        Row::of_variant(variant, cells.collect())
    };
    let rows = view.labels().into_iter().map(row).collect();
    Section::of_table("Results", BOUNDS, Table { columns, rows })
}

pub(super) fn main_cell(group: &GroupView) -> Cell {
    let (valid, completed) = (group.valid(), group.completed());
    let cell = figure_cell(group, &group.pattern.main());
    match (valid, completed) {
        (0, _) => cell.below("not valid").bad(true),
        _ if completed < valid => cell.below(format!("{completed} of {valid} done")).bad(true),
        _ => cell,
    }
}

pub(crate) fn meanings(view: &View) -> String {
    let meanings = view.patterns().into_iter().map(|one| format!("{}: {}.", one.name, one.meaning()));
    let note = narrative::encryption(view).map(|note| format!("{note}."));
    meanings.chain(note).collect::<Vec<_>>().join(" ")
}

/// Several results side by side: a table per pattern and figure, a row per label and variant, a column per result.
pub(crate) fn across(views: &[View]) -> Vec<Section> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for pattern in views.iter().flat_map(View::patterns) {
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let several = patterns.len() > 1;
    let figures =
        patterns.iter().flat_map(|pattern| pattern.figures().iter().map(move |one| (*pattern, one)));
    let sections = figures.filter(|(_, figure)| figure.name != DIP.name).filter_map(|(pattern, figure)| {
        let title =
            if several { format!("{}: {}", pattern.name, figure.title) } else { figure.title.to_owned() };
        Section::of_table(title, "", of_figure(views, pattern, figure))
    });
    sections.collect()
}

fn of_figure(views: &[View], pattern: Pattern, figure: &Figure) -> Table {
    let mut labels: Vec<(&Variant, &str)> = Vec::new();
    for group in views.iter().flat_map(|view| view.of_pattern(pattern)) {
        if group.figure(figure.name).is_some() && !labels.contains(&(group.variant, group.label)) {
            labels.push((group.variant, group.label));
        }
    }
    let mut columns = vec![words("transport")];
    for (index, view) in views.iter().enumerate() {
        columns.push(words(format!("{}. {}", index + 1, view.set.document.scenario.name)));
        columns.extend((index > 0).then(|| number("÷ 1.")));
    }
    let row = |(variant, label): (&Variant, &str)| {
        let find = |view: &View| {
            let mut groups = view.groups.iter().filter(|group| group.pattern == pattern);
            groups.position(|group| group.variant == variant && group.label == label)
        };
        let group = |view: &View| {
            find(view).and_then(|index| {
                view.of_pattern(pattern)
                    .nth(index)
                    .map(|group| (figure_cell(group, figure), group.median(figure.name)))
            })
        };
        let first = views.first().and_then(group).and_then(|(_, median)| median);
        let mut cells = vec![label_cell(label, variant)];
        for (index, view) in views.iter().enumerate() {
            let found = group(view);
            let own = found.as_ref().and_then(|(_, median)| *median);
            cells.push(found.map_or_else(Cell::absent, |(cell, _)| cell));
            let ratio = first.filter(|first| *first > 0.0).zip(own).map(|(first, own)| own / first);
            cells.extend((index > 0).then(|| Cell::quantity(ratio, Unit::Ratio)));
        }
        Row::new(cells)
    };
    Table { rows: labels.into_iter().map(row).collect(), columns }
}
