//! The table of results: medians, with the spread under them.

use super::page::{Ink, Line, Page, columns, fitted};
use crate::narrative::{self, Verdict};
use crate::quantity::{NONE, bounds, counted, duration, median, percent, rate};
use crate::view::{GroupView, View};
use pathbench_record::document::{Distribution, Variant};

/// A column of figures: its title, the figure's name, and how a value reads.
type Figure = (&'static str, &'static str, fn(f64) -> String);

const FIGURES: [Figure; 4] = [
    ("goodput", "goodput_mbps", rate),
    ("dip", "dip", percent),
    ("longest stall", "stall_ms", duration),
    ("recovery", "recovery_ms", duration),
];

/// A cell: the value, and what stands under it.
struct Cell {
    ink: Ink,
    value: String,
    below: String,
}

/// Table per variant × label.
pub(super) fn write(page: &mut Page, view: &View) {
    if view.groups.is_empty() {
        return;
    }
    let figures: Vec<&Figure> = FIGURES
        .iter()
        .filter(|(_, name, _)| view.groups.iter().any(|group| group.figure(name).is_some()))
        .collect();
    let hung = view.groups.iter().any(|group| median(&hung_ms(group)).is_some());
    let mut titles = vec!["", "done"];
    titles.extend(figures.iter().map(|(title, ..)| *title));
    titles.extend(hung.then_some("hung"));
    let rows: Vec<Vec<Cell>> = view.groups.iter().map(|group| row(group, &figures, hung)).collect();
    let has_spread = rows.iter().flatten().any(|cell| !cell.below.is_empty());
    page.heading("Results", if has_spread { spread_remark(view) } else { "" });
    let widths = widths(&titles, &rows);
    let mut line = Line::new();
    for (title, column) in titles.iter().zip(&widths) {
        line = line.padded_to(*column).add(Ink::Dim, title);
    }
    page.line(line);
    let mut variant = None;
    for (group, cells) in view.groups.iter().zip(rows) {
        page.variant(&mut variant, group.variant);
        write_row(page, &cells, &widths);
    }
}

fn spread_remark(view: &View) -> &'static str {
    let intervals =
        |group: &GroupView| FIGURES.iter().any(|one| group.figure(one.1).is_some_and(|d| d.ci95.is_some()));
    if view.groups.iter().any(intervals) {
        "median; below it its 95 % interval (min–max for less than 6 runs)"
    } else {
        "median of the valid runs; below it min–max"
    }
}

fn row(group: &GroupView, figures: &[&Figure], hung: bool) -> Vec<Cell> {
    let (valid, completed) = (group.valid(), group.completed());
    let ink = if valid > 0 && completed == valid { Ink::Plain } else { Ink::Bad };
    let invalid = group.runs.len() as u32 - valid;
    let below = if invalid > 0 { format!("{invalid} invalid") } else { String::new() };
    let mut cells = vec![
        Cell { ink: Ink::Strong, value: fitted(group.label, 24), below: String::new() },
        Cell { ink, value: format!("{completed} of {valid}"), below },
    ];
    for (_, name, show) in figures {
        cells.push(match group.figure(name) {
            None => Cell { ink: Ink::Dim, value: NONE.to_owned(), below: String::new() },
            Some(found) => {
                Cell { ink: Ink::Plain, value: show(found.median), below: below_median(found, *show) }
            }
        });
    }
    if hung {
        let values = hung_ms(group);
        cells.push(match median(&values) {
            None => Cell { ink: Ink::Dim, value: NONE.to_owned(), below: String::new() },
            Some(middle) => {
                let (min, max) =
                    values.iter().fold((middle, middle), |(low, high), v| (low.min(*v), high.max(*v)));
                Cell { ink: Ink::Bad, value: duration(middle), below: bounds(min, max, middle, duration) }
            }
        });
    }
    cells
}

fn below_median(found: &Distribution, show: fn(f64) -> String) -> String {
    let (low, high) = found.ci95.map_or((found.min, found.max), |[low, high]| (low, high));
    if found.n < 2 { String::new() } else { bounds(low, high, found.median, show) }
}

fn hung_ms(group: &GroupView) -> Vec<f64> {
    group.valid_runs().filter(|run| !run.completed).filter_map(|run| run.hung_ms).collect()
}

/// Where each column begins.
fn widths(titles: &[&str], rows: &[Vec<Cell>]) -> Vec<usize> {
    let mut at = 2;
    let mut begins = Vec::new();
    for (index, title) in titles.iter().enumerate() {
        begins.push(at);
        let cells = rows.iter().filter_map(|row| row.get(index));
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

/// One line per label for the variants in which multipath was used in every run; the others as they are.
fn summed_up(verdicts: &[Verdict]) -> Vec<Verdict> {
    let mut sums: Vec<(Verdict, usize)> = Vec::new();
    for verdict in verdicts.iter().filter(|one| one.holds()) {
        match sums.iter_mut().find(|(known, _)| known.label == verdict.label) {
            Some((known, variants)) => {
                known.used += verdict.used;
                known.of += verdict.of;
                *variants += 1;
            }
            None => sums.push((Verdict { variant: Variant::new(), ..verdict.clone() }, 1)),
        }
    }
    let sums = sums.into_iter().map(|(verdict, variants)| Verdict {
        text: format!("used in all {} of {variants} variants", counted(verdict.of, "run")),
        ..verdict
    });
    sums.chain(verdicts.iter().filter(|one| !one.holds()).cloned()).collect()
}
