//! The table of results: medians, with their bounds under them.

use super::page::{Ink, Line, Page, columns, fitted};
use crate::narrative::{self, Verdict};
use crate::pattern::{Figure, Kind, Pattern};
use crate::quantity::{Bounds, BoundsKind, NONE, counted, distribution, duration};
use crate::view::{GroupView, View};
use pathbench_record::document::{Distribution, RunRecord, Variant};
use std::collections::BTreeSet;

/// A cell: the value, and what stands under it.
struct Cell {
    ink: Ink,
    value: String,
    below: String,
    /// What stands below, where that is the bounds of a median.
    bounds: Option<BoundsKind>,
}

impl Cell {
    fn none() -> Self {
        Self::of(Ink::Dim, NONE.to_owned())
    }

    fn of(ink: Ink, value: String) -> Self {
        Self { ink, value, below: String::new(), bounds: None }
    }

    /// A median with its bounds below.
    fn of_median(ink: Ink, mark: &str, found: &Distribution, show: fn(f64) -> String) -> Self {
        let value = format!("{mark}{}", show(found.median));
        let bounds = Bounds::of(found).map(|bounds| (bounds.kind, bounds.numbers(found.median, show)));
        match bounds.filter(|(_, numbers)| !numbers.is_empty()) {
            Some((kind, numbers)) => Self { ink, value, below: numbers, bounds: Some(kind) },
            None => Self::of(ink, value),
        }
    }
}

/// Table per variant × label: the figures of the pattern, or where there are several patterns the main one of each.
pub(super) fn write(page: &mut Page, view: &View) {
    match view.patterns().as_slice() {
        [] => {}
        [only] => write_pattern(page, view, *only),
        many => write_overview(page, view, many),
    }
}

fn write_pattern(page: &mut Page, view: &View, pattern: Pattern) {
    let has = |figure: &&Figure| view.groups.iter().any(|group| group.figure(figure.name).is_some());
    let figures: Vec<&Figure> = pattern.figures().iter().filter(has).collect();
    let lost = view.groups.iter().any(|group| lost(group).is_some());
    let mut titles = vec![String::new(), "done".to_owned()];
    titles.extend(figures.iter().map(|figure| figure.title.to_owned()));
    titles.extend(lost.then(|| lost_title(pattern).to_owned()));
    let rows = view.groups.iter().map(|group| (group.variant, row(group, &figures, lost))).collect();
    write_rows(page, &titles, rows);
}

/// A column per pattern, with what its transports are compared by.
fn write_overview(page: &mut Page, view: &View, patterns: &[Pattern]) {
    let patterns = &patterns[..patterns.len().min(MOST_PATTERNS)];
    let mut titles = vec![String::new()];
    titles.extend(patterns.iter().map(Pattern::title));
    let cell = |pattern: &Pattern, variant: &Variant, label: &str| {
        let same = |group: &&GroupView| group.variant == variant && group.label == label;
        view.of_pattern(*pattern).find(same).map_or_else(Cell::none, |group| overview_cell(group, *pattern))
    };
    let rows = view.labels().into_iter().map(|(variant, label)| {
        let name = Cell::of(Ink::Strong, fitted(label, 24));
        let cells = patterns.iter().map(|pattern| cell(pattern, variant, label));
        (variant, std::iter::once(name).chain(cells).collect())
    });
    let rows = rows.collect();
    write_rows(page, &titles, rows);
}

/// Columns of an overview: more do not fit.
const MOST_PATTERNS: usize = 6;

fn overview_cell(group: &GroupView, pattern: Pattern) -> Cell {
    let (valid, completed) = (group.valid(), group.completed());
    let mut cell = figure_cell(group, &pattern.main());
    let below = if completed < valid {
        format!("{completed} of {valid} done")
    } else if valid == 0 {
        "not valid".to_owned()
    } else {
        return cell;
    };
    (cell.ink, cell.below, cell.bounds) = (Ink::Bad, below, None);
    cell
}

fn write_rows(page: &mut Page, titles: &[String], mut rows: Vec<(&Variant, Vec<Cell>)>) {
    let kinds: BTreeSet<BoundsKind> =
        rows.iter().flat_map(|(_, cells)| cells).filter_map(|cell| cell.bounds).collect();
    let remark = match (kinds.contains(&BoundsKind::Interval), kinds.contains(&BoundsKind::Range)) {
        (true, true) => "median; below it its 95 % CI, or the range of fewer than 6 runs",
        (true, false) => "median of the valid runs; below it its 95 % CI",
        (false, true) => "median of the valid runs; below it their range",
        (false, false) => "",
    };
    page.heading("Results", remark);
    if kinds.len() > 1 {
        // Side by side, each range says that it is one.
        let cells = rows.iter_mut().flat_map(|(_, cells)| cells);
        for cell in cells.filter(|cell| cell.bounds == Some(BoundsKind::Range)) {
            cell.below = format!("{} {}", BoundsKind::Range.name(), cell.below);
        }
    }
    let widths = widths(titles, &rows);
    let mut line = Line::new();
    for (title, column) in titles.iter().zip(&widths) {
        line = line.padded_to(*column).add(Ink::Dim, title);
    }
    page.line(line);
    let mut last = None;
    for (variant, cells) in rows {
        page.variant(&mut last, variant);
        write_row(page, &cells, &widths);
    }
}

fn row(group: &GroupView, figures: &[&Figure], with_lost: bool) -> Vec<Cell> {
    let (valid, completed) = (group.valid(), group.completed());
    let ink = if valid > 0 && completed == valid { Ink::Plain } else { Ink::Bad };
    let invalid = group.runs.len() as u32 - valid;
    let below = if invalid > 0 { format!("{invalid} invalid") } else { String::new() };
    let mut cells = vec![
        Cell::of(Ink::Strong, fitted(group.label, 24)),
        Cell { below, ..Cell::of(ink, format!("{completed} of {valid}")) },
    ];
    cells.extend(figures.iter().map(|figure| figure_cell(group, figure)));
    if with_lost {
        cells.push(lost(group).unwrap_or_else(Cell::none));
    }
    cells
}

fn figure_cell(group: &GroupView, figure: &Figure) -> Cell {
    let Some(found) = group.figure(figure.name) else { return Cell::none() };
    Cell::of_median(Ink::Plain, group.bound_mark(figure.name), found, figure.words)
}

/// What the last column tells: what did not get through.
const fn lost_title(pattern: Pattern) -> &'static str {
    match pattern.kind {
        Kind::Ping => "lost",
        Kind::Interactive => "never",
        Kind::Iperf | Kind::Bulk => "hung",
    }
}

/// What of a group's traffic did not get through; `None` when all did.
fn lost(group: &GroupView) -> Option<Cell> {
    let sum = |of: &dyn Fn(&RunRecord) -> Option<(u32, u32)>| {
        let sums = group.valid_runs().filter_map(of);
        let (lost, all) =
            sums.fold((0_u32, 0_u32), |(lost, all), (l, a)| (lost.saturating_add(l), all.saturating_add(a)));
        let value = format!("{lost} of {all}");
        (lost > 0).then_some(Cell::of(Ink::Bad, value))
    };
    match group.pattern.kind {
        Kind::Ping => sum(&|run| run.ping.as_ref().map(|ping| (ping.lost, ping.sent))),
        Kind::Interactive => sum(&|run| run.delay_ms.as_ref().map(|delay| (delay.late, delay.messages))),
        Kind::Iperf | Kind::Bulk => {
            Some(Cell::of_median(Ink::Bad, "", &distribution(&hung_ms(group))?, duration))
        }
    }
}

fn hung_ms(group: &GroupView) -> Vec<f64> {
    group.valid_runs().filter(|run| !run.completed).filter_map(|run| run.hung_ms).collect()
}

/// Where each column begins.
fn widths(titles: &[String], rows: &[(&Variant, Vec<Cell>)]) -> Vec<usize> {
    let mut at = 2;
    let mut begins = Vec::new();
    for (index, title) in titles.iter().enumerate() {
        begins.push(at);
        let cells = rows.iter().filter_map(|(_, row)| row.get(index));
        let widest = cells.map(|cell| columns(&cell.value).max(columns(&cell.below))).max().unwrap_or(0);
        at += widest.max(columns(title)) + 2;
    }
    begins
}

fn write_row(page: &mut Page, cells: &[Cell], begins: &[usize]) {
    let mut line = Line::new();
    for (cell, column) in cells.iter().zip(begins) {
        line = line.padded_to(*column).add(cell.ink, &cell.value);
    }
    page.line(line);
    if cells.iter().any(|cell| !cell.below.is_empty()) {
        let mut line = Line::new();
        for (cell, column) in cells.iter().zip(begins).filter(|(cell, _)| !cell.below.is_empty()) {
            line = line.padded_to(*column).add(Ink::Dim, &cell.below);
        }
        page.line(line);
    }
}

/// Verdicts beyond this are summed up per label where multipath was used.
const MOST_VERDICTS: usize = 4;

/// The verdict on multipath, one line per label that asked for it.
pub(super) fn write_verdicts(page: &mut Page, view: &View) {
    let mut verdicts = narrative::verdicts(view);
    if verdicts.is_empty() {
        return;
    }
    page.heading("Was multipath used?", "");
    if verdicts.len() > MOST_VERDICTS {
        verdicts = summed_up(&verdicts);
    }
    let widest = verdicts.iter().map(|one| columns(&fitted(&one.name(), 32))).max().unwrap_or(0);
    for verdict in verdicts.iter().take(12) {
        let (mark, ink) = if verdict.holds() { ("✓", Ink::Good) } else { ("✗", Ink::Bad) };
        let start = Line::new().add(Ink::Plain, "  ").add(ink, mark).add(Ink::Plain, " ");
        let start = start.add(Ink::Strong, &fitted(&verdict.name(), 32)).padded_to(widest + 6);
        page.paragraph(start, Ink::Plain, &verdict.text);
    }
    if verdicts.len() > 12 {
        page.more(verdicts.len() - 12);
    }
}

/// One line per label for the patterns and variants in which multipath was used in every run; the others as they are.
fn summed_up(verdicts: &[Verdict]) -> Vec<Verdict> {
    let mut sums: Vec<(Verdict, usize, Vec<String>)> = Vec::new();
    for verdict in verdicts.iter().filter(|one| one.holds()) {
        let place = sums.iter().position(|(known, ..)| known.label == verdict.label).unwrap_or_else(|| {
            let none = Verdict { variant: Variant::new(), pattern: None, used: 0, of: 0, ..verdict.clone() };
            sums.push((none, 0, Vec::new()));
            sums.len() - 1
        });
        let (known, number, patterns) = &mut sums[place];
        known.used += verdict.used;
        known.of += verdict.of;
        *number += 1;
        patterns.extend(verdict.pattern.clone().filter(|pattern| !patterns.contains(pattern)));
    }
    let sums = sums.into_iter().map(|(verdict, number, patterns)| {
        let of = if patterns.is_empty() { format!("{number} variants") } else { patterns.join(", ") };
        Verdict { text: format!("used in all {} of {of}", counted(verdict.of, "run")), ..verdict }
    });
    sums.chain(verdicts.iter().filter(|one| !one.holds()).cloned()).collect()
}
