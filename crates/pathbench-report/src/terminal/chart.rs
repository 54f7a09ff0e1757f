//! Charts in characters: a sparkline per path, or one of the slowest messages, with the events below.

use super::page::{Ink, Line, Page, clean, columns, fitted};
use crate::figure::Selection;
use crate::narrative::{self, ScenarioEvent};
use crate::pattern::Kind;
use crate::quantity::{duration, range, rate};
use crate::rate_axis;
use crate::run_data::RunData;
use crate::series::{self, Grid, Series};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::direction::Direction;
use pathbench_record::document::{RunRecord, Variant};
use std::rc::Rc;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A window above the full height.
const BEYOND: char = '↑';
const MOST_FACETS: usize = 6;
const MOST_NAME: usize = 26;
/// Of the width, at most this part is for names.
const MOST_LEFT: f64 = 0.4;
const SHORTEST_MS: f64 = 50.0;

/// Goodput of the representative run of each label. If there are several patterns, only of those that fill the paths.
pub(super) fn write_goodput(page: &mut Page, view: &View) {
    let patterns = view.patterns();
    let selected: Vec<Option<String>> = match patterns.as_slice() {
        [] | [_] => vec![None],
        many => many
            .iter()
            .filter(|one| one.kind == Kind::Throughput)
            .map(|one| Some(one.name.to_owned()))
            .collect(),
    };
    let variants: Vec<Option<Variant>> = match view.variants().as_slice() {
        [] | [_] => vec![None],
        many => many.iter().map(|one| Some((*one).clone())).collect(),
    };
    let names = view.groups.iter().map(|group| columns(&fitted(group.label, MOST_NAME)));
    let paths = view.paths.names.iter().map(|name| columns(&fitted(name, 12)) + 2);
    let left = (names.chain(paths).max().unwrap_or(0) + 4).min(most_left(page));
    let (mut shown, mut more) = (0, 0);
    for pattern in selected {
        for variant in &variants {
            let selection = Selection { pattern: pattern.clone(), variant: variant.clone(), direction: None };
            if shown >= MOST_FACETS {
                let has_data = |run: &&RunRecord| !view.data(run).deliveries.is_empty();
                let runs = selection.runs(view).map(|(_, run)| run);
                more += runs.filter(has_data).count();
                continue;
            }
            shown += write_stacks(page, view, &selection, left);
        }
    }
    if more > 0 {
        page.more(more);
    }
}

fn write_stacks(page: &mut Page, view: &View, selection: &Selection, left: usize) -> usize {
    let of_pattern = view.groups.iter().filter(|group| selection.has_pattern(group.pattern));
    let runs = of_pattern.filter_map(GroupView::representative);
    let end_ms = runs.map(|run| series::end_ms(&view.data(run))).fold(0.0, f64::max);
    let cells = page.style.width.saturating_sub(left + 1).clamp(1, 200).min((end_ms / SHORTEST_MS) as usize);
    let grid = Grid::split(end_ms, cells);
    let timelines = selection.runs(view).map(|(group, run)| {
        let data = view.data(run);
        let series = series::series(run, &data, None, grid, &view.paths);
        let end = rate_axis::end_mbps(view, run, None, &series.total_mbps());
        (selection.name(group), narrative::scenario_events(&data), series, end)
    });
    let all: Vec<(String, Vec<ScenarioEvent>, Series, f64)> =
        timelines.filter(|(.., series, _)| !series.paths.is_empty()).collect();
    let shown = &all[..all.len().min(MOST_FACETS)];
    let grids = shown.iter().map(|(.., series, _)| series.grid);
    let Some(whole) = grids.max_by(|a, b| a.until_ms().total_cmp(&b.until_ms())) else { return 0 };
    let top = shown.iter().map(|one| one.3).fold(0.0, f64::max);
    let highest = shown.iter().flat_map(|(.., series, _)| series.total_mbps()).fold(0.0, f64::max);
    let above = if is_beyond(highest, top) {
        format!(", {BEYOND} above it, at most {}", rate(highest))
    } else {
        String::new()
    };
    let remark = format!("full height {}{above}, one column {}", rate(top), duration(whole.window_ms));
    let variant = selection.variant.as_ref().map(variant_text);
    let of = selection.pattern.iter().cloned().chain(variant).map(|part| format!(", {part}"));
    page.heading(&format!("Timeline{}", of.collect::<String>()), &remark);
    let common = shown.windows(2).all(|pair| same_columns(&pair[0].1, &pair[1].1, whole));
    for (index, (name, events, series, _)) in shown.iter().enumerate() {
        let line =
            Line::new(Ink::Strong, &format!("  {}", fitted(name, left.saturating_sub(4)))).padded_to(left);
        page.line(line.add(Ink::Plain, &spark(&series.total_mbps(), top)));
        for layer in series.paths.iter().filter(|_| series.paths.len() > 1) {
            let ink = layer.path.as_ref().map_or(Ink::Dim, |path| Ink::Path(view.paths.rank(path)));
            let name = fitted(layer.path.as_deref().unwrap_or("?"), left.saturating_sub(6));
            let line = Line::new(ink, &format!("    {name}")).padded_to(left);
            page.line(line.add(ink, &spark(&layer.values, top)));
        }
        if !common || index + 1 == shown.len() {
            write_events(page, events, left, whole);
        }
    }
    write_axis(page, left, whole);
    if all.len() > MOST_FACETS {
        page.more(all.len() - MOST_FACETS);
    }
    shown.len()
}

/// The slowest message of each column, on a logarithmic scale: a row per label and direction.
pub(super) fn write_delays(page: &mut Page, view: &View) {
    let shown = Selection::default();
    let shown = shown.runs(view).filter(|(group, _)| group.pattern.kind == Kind::Interactive);
    let shown: Vec<(&GroupView, &RunRecord)> = shown.take(MOST_FACETS).collect();
    let data: Vec<Rc<RunData>> = shown.iter().map(|(_, run)| view.data(run)).collect();
    let all = || data.iter().flat_map(|data| &data.messages);
    let end_ms = all().map(|line| line.due_ms).fold(0.0, f64::max);
    let [fastest, slowest] = all()
        .map(|line| line.delay_ms)
        .filter(|ms| ms.is_finite() && *ms > 0.0)
        .fold([f64::MAX, 0.0], |[low, high], ms| [low.min(ms), high.max(ms)]);
    if end_ms <= 0.0 || slowest <= 0.0 {
        return;
    }
    let names = shown.iter().map(|(group, _)| columns(&fitted(&group.name(), MOST_NAME)) + 4);
    let left = names.max().unwrap_or(0).max("    download".len() + 2).min(most_left(page));
    let cells = page.style.width.saturating_sub(left + 1).min((end_ms / SHORTEST_MS) as usize).clamp(1, 200);
    let grid = Grid::split(end_ms + 1.0, cells);
    let never = if all().any(|line| line.unacknowledged) { "; ! never acknowledged" } else { "" };
    let span = range(fastest, slowest, duration);
    page.heading("Delay", &format!("slowest per {}, {span} (log scale){never}", duration(grid.window_ms)));
    for ((group, _), data) in shown.iter().zip(&data) {
        page.line(Line::new(Ink::Strong, &format!("  {}", fitted(&group.name(), left.saturating_sub(4)))));
        for direction in Direction::BOTH {
            let mut cells = vec![(0.0_f64, false); grid.windows()];
            let lines = || data.messages.iter().filter(|line| line.direction == direction);
            for line in lines() {
                let cell = &mut cells[grid.window_of(line.due_ms)];
                *cell = (cell.0.max(line.delay_ms), cell.1 || line.unacknowledged);
            }
            if lines().next().is_some() {
                let text: String = cells.iter().map(|one| delay_cell(*one, fastest, slowest)).collect();
                let line = Line::new(Ink::Plain, &format!("    {}", direction.name())).padded_to(left);
                page.line(line.add(Ink::Plain, &text));
            }
        }
        write_events(page, &narrative::scenario_events(data), left, grid);
    }
    write_axis(page, left, grid);
}

/// The height of a delay between the fastest and the slowest, on a logarithmic scale; blank if no message was due.
fn delay_cell((ms, is_lost): (f64, bool), fastest: f64, slowest: f64) -> char {
    if is_lost {
        return '!';
    }
    if !(ms.is_finite() && ms > 0.0) {
        return ' ';
    }
    let part = (ms / fastest).ln() / (slowest / fastest).ln().max(f64::MIN_POSITIVE);
    LEVELS[((part.clamp(0.0, 1.0) * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
}

fn is_beyond(mbps: f64, top: f64) -> bool {
    mbps > top * (1.0 + 1e-9)
}

fn spark(mbps: &[f64], top: f64) -> String {
    let level = |value: f64| {
        let part = (value / top).clamp(0.0, 1.0);
        let level = LEVELS[((part * LEVELS.len() as f64).ceil() as usize).clamp(1, LEVELS.len()) - 1];
        if is_beyond(value, top) { BEYOND } else { level }
    };
    mbps.iter().map(|value| if *value > 0.0 { level(*value) } else { '·' }).collect()
}

fn same_columns(a: &[ScenarioEvent], b: &[ScenarioEvent], grid: Grid) -> bool {
    let close = |(x, y): (&ScenarioEvent, &ScenarioEvent)| {
        x.label == y.label && grid.window_of(x.t_ms).abs_diff(grid.window_of(y.t_ms)) <= 1
    };
    a.len() == b.len() && a.iter().zip(b).all(close)
}

/// Each event's mark in the column of its time. Labels that do not fit move down one row, at most three times.
fn write_events(page: &mut Page, events: &[ScenarioEvent], left: usize, grid: Grid) {
    let limit = page.style.width.saturating_sub(left);
    let mut rows: Vec<Vec<(usize, String)>> = vec![Vec::new(); 3];
    for event in events {
        let (column, label) = (grid.window_of(event.t_ms), fitted(&event.label, limit));
        let wide = columns(&label);
        // At the right edge the text precedes its mark.
        let (begin, label) = match label.split_once(' ') {
            Some((sign, text)) if column + wide > limit && column + 1 >= wide => {
                (column + 1 - wide, format!("{text} {sign}"))
            }
            _ => (column.min(limit.saturating_sub(wide)), label),
        };
        let free = |row: &&mut Vec<(usize, String)>| {
            row.iter().all(|(at, text)| begin > at + columns(text) || begin + wide < *at)
        };
        if let Some(row) = rows.iter_mut().find(free) {
            row.push((begin, label));
        }
    }
    for mut row in rows.into_iter().filter(|row| !row.is_empty()) {
        row.sort();
        let mut line = Line::default();
        for (begin, label) in row {
            line = line.padded_to(left + begin).add(Ink::Warn, &clean(&label));
        }
        page.line(line);
    }
}

fn most_left(page: &Page) -> usize {
    (page.style.width as f64 * MOST_LEFT) as usize
}

fn write_axis(page: &mut Page, left: usize, grid: Grid) {
    let end = duration(grid.until_ms());
    let at = (left + grid.windows()).saturating_sub(columns(&end));
    page.line(Line::default().padded_to(left).add(Ink::Dim, "0 s").padded_to(at).add(Ink::Dim, &end));
}
