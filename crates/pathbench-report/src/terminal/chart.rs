//! Charts in characters: a sparkline per path, or of the slowest messages, with the events under it.

use super::page::{Ink, Line, Page, clean, columns, fitted};
use crate::chart::{Chart, Facet, Layer, Mark, Shape};
use crate::figure::{self, Selection, Windows};
use crate::narrative::ScenarioEvent;
use crate::pattern::Kind;
use crate::quantity::{duration, range, rate};
use crate::series::Grid;
use crate::view::{View, variant_text};
use pathbench_record::document::{RunRecord, Variant};

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Facets beyond this are left to the report.
const MOST_FACETS: usize = 6;
const MOST_NAME: usize = 26;
/// No column is shorter than this.
const SHORTEST_MS: f64 = 50.0;

/// Goodput of the representative run of each label; of several patterns those that fill the paths.
pub(super) fn write_goodput(page: &mut Page, view: &View) {
    let patterns = view.patterns();
    let selected: Vec<Option<String>> = match patterns.as_slice() {
        [] | [_] => vec![None],
        many => {
            many.iter().filter(|one| one.kind == Kind::Iperf).map(|one| Some(one.name.to_owned())).collect()
        }
    };
    let variants: Vec<Option<Variant>> = match view.variants().as_slice() {
        [] | [_] => vec![None],
        many => many.iter().map(|one| Some((*one).clone())).collect(),
    };
    let names = view.groups.iter().map(|group| columns(&fitted(group.label, MOST_NAME)));
    let paths = view.paths.names().iter().map(|name| columns(&fitted(name, 12)) + 2);
    let left = names.chain(paths).max().unwrap_or(0) + 4;
    let windows = Windows::Split((page.width() - left - 1).min(200));
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
            let chart = figure::timeline_of(view, &selection, windows);
            let variant = variant.as_ref().map(variant_text);
            let of = pattern.iter().cloned().chain(variant).map(|part| format!(", {part}"));
            shown += write_stacks(page, view, &chart, (left, &of.collect::<String>()));
        }
    }
    if more > 0 {
        page.more(more);
    }
}

fn stack(facet: &Facet) -> Option<(Grid, &[Layer])> {
    facet.strips.iter().flat_map(|strip| &strip.marks).find_map(|mark| match mark {
        Mark::Stack { grid, layers } if !layers.is_empty() => Some((*grid, layers.as_slice())),
        _ => None,
    })
}

fn total((grid, layers): (Grid, &[Layer])) -> Vec<f64> {
    let of_window = |window| layers.iter().filter_map(|layer| layer.values.get(window)).sum();
    (0..grid.windows()).map(of_window).collect()
}

fn write_stacks(page: &mut Page, view: &View, chart: &Chart, (left, of): (usize, &str)) -> usize {
    let with_stacks: Vec<(&Facet, Grid, &[Layer])> = chart
        .facets
        .iter()
        .filter_map(|facet| stack(facet).map(|(grid, layers)| (facet, grid, layers)))
        .collect();
    let shown = &with_stacks[..with_stacks.len().min(MOST_FACETS)];
    let Some(whole) = shown.iter().map(|one| one.1).max_by(|a, b| a.until_ms().total_cmp(&b.until_ms()))
    else {
        return 0;
    };
    let peak = shown.iter().flat_map(|one| total((one.1, one.2))).fold(0.0, f64::max);
    let remark = format!("full height {}, one column {}", rate(peak), duration(whole.window_ms));
    page.heading(&format!("Timeline{of}"), &remark);
    let same = |pair: &[(&Facet, Grid, &[Layer])]| same_columns(&pair[0].0.events, &pair[1].0.events, whole);
    let common = shown.windows(2).all(same);
    for (facet, grid, layers) in shown {
        let name = fitted(&facet.title, left - 4);
        let line = Line::new().add(Ink::Strong, &format!("  {name}")).padded_to(left);
        page.line(line.add(Ink::Plain, &spark(&total((*grid, layers)), peak)));
        for layer in layers.iter().filter(|_| layers.len() > 1) {
            let ink = layer.path.as_ref().map_or(Ink::Dim, |path| Ink::Path(view.paths.rank(path)));
            let name = fitted(layer.path.as_deref().unwrap_or("?"), left.saturating_sub(6));
            let line = Line::new().add(ink, &format!("    {name}")).padded_to(left);
            page.line(line.add(ink, &spark(&layer.values, peak)));
        }
        if !common {
            write_events(page, &facet.events, left, whole);
        }
    }
    if common && let Some((facet, ..)) = shown.first() {
        write_events(page, &facet.events, left, whole);
    }
    write_axis(page, left, whole);
    if with_stacks.len() > MOST_FACETS {
        page.more(with_stacks.len() - MOST_FACETS);
    }
    shown.len()
}

/// The slowest message of each column, on a logarithmic scale: a row per label and direction.
pub(super) fn write_delays(page: &mut Page, view: &View) {
    let chart = figure::delay_of(view, &Selection::default());
    let facets = &chart.facets[..chart.facets.len().min(MOST_FACETS * chart.frame.columns)];
    let points = |facet: &Facet| -> Vec<(f64, f64, bool)> {
        let marks = facet.strips.iter().flat_map(|strip| &strip.marks);
        let of_mark = |mark: &Mark| match mark {
            Mark::Points { shape, points, .. } => {
                let is_lost = *shape == Shape::Triangle;
                points.iter().map(|point| (point.x, point.y, is_lost)).collect()
            }
            _ => Vec::new(),
        };
        marks.flat_map(of_mark).collect()
    };
    let all: Vec<(f64, f64, bool)> = facets.iter().flat_map(points).collect();
    let end_ms = all.iter().map(|point| point.0).fold(0.0, f64::max);
    let [fastest, slowest] = all
        .iter()
        .map(|point| point.1)
        .filter(|ms| ms.is_finite() && *ms > 0.0)
        .fold([f64::MAX, 0.0], |[low, high], ms| [low.min(ms), high.max(ms)]);
    if end_ms <= 0.0 || slowest <= 0.0 {
        return;
    }
    let names = facets.iter().map(|facet| columns(&fitted(&facet.title, MOST_NAME)) + 4);
    let left = names.max().unwrap_or(0).max("    download".len() + 2);
    let cells = (page.width() - left - 1).min((end_ms / SHORTEST_MS) as usize).clamp(1, 200);
    let grid = Grid::split(end_ms + 1.0, cells);
    let never = if all.iter().any(|point| point.2) { "; ! never acknowledged" } else { "" };
    let span = range(fastest, slowest, duration);
    page.heading("Delay", &format!("slowest per {}, {span} (log scale){never}", duration(grid.window_ms)));
    for row in facets.chunks(chart.frame.columns) {
        let title = row.first().map_or("", |facet| facet.title.as_str());
        page.line(Line::new().add(Ink::Strong, &format!("  {}", fitted(title, left - 4))));
        for facet in row {
            let mut cells = vec![(0.0_f64, false); grid.windows()];
            let points = points(facet);
            for (x, y, is_lost) in &points {
                let cell = &mut cells[grid.window_of(*x)];
                *cell = (cell.0.max(*y), cell.1 || *is_lost);
            }
            let direction = facet.strips.iter().flat_map(|strip| &strip.marks).find_map(|mark| match mark {
                Mark::Points { series, .. } => Some(series.as_str()),
                _ => None,
            });
            if let Some(direction) = direction.filter(|_| !points.is_empty()) {
                let text: String = cells.iter().map(|one| delay_cell(*one, fastest, slowest)).collect();
                let line = Line::new().add(Ink::Plain, &format!("    {direction}")).padded_to(left);
                page.line(line.add(Ink::Plain, &text));
            }
        }
        write_events(page, row.first().map_or(&[], |facet| &facet.events), left, grid);
    }
    write_axis(page, left, grid);
}

/// The height of a delay between the fastest and the slowest, on a logarithmic scale; blank where none was due.
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

/// One character per window: its height, `·` for a window without a byte.
fn spark(mbps: &[f64], peak: f64) -> String {
    let level = |value: f64| {
        let part = if peak > 0.0 { (value / peak).clamp(0.0, 1.0) } else { 0.0 };
        LEVELS[((part * LEVELS.len() as f64).ceil() as usize).clamp(1, LEVELS.len()) - 1]
    };
    mbps.iter().map(|value| if *value > 0.0 { level(*value) } else { '·' }).collect()
}

/// Whether two runs have the same events in the same columns, give or take one.
fn same_columns(a: &[ScenarioEvent], b: &[ScenarioEvent], grid: Grid) -> bool {
    let close = |(x, y): (&ScenarioEvent, &ScenarioEvent)| {
        x.label == y.label && grid.window_of(x.t_ms).abs_diff(grid.window_of(y.t_ms)) <= 1
    };
    a.len() == b.len() && a.iter().zip(b).all(close)
}

/// Each event's mark in the column of its time; labels that do not fit go one row down, at most thrice.
fn write_events(page: &mut Page, events: &[ScenarioEvent], left: usize, grid: Grid) {
    let room = page.width() - left;
    let mut rows: Vec<Vec<(usize, String)>> = vec![Vec::new(); 3];
    for event in events {
        let (column, label) = (grid.window_of(event.t_ms), fitted(&event.label, room));
        let wide = columns(&label);
        // At the right edge the text stands before its mark.
        let (begin, label) = match label.split_once(' ') {
            Some((sign, text)) if column + wide > room && column + 1 >= wide => {
                (column + 1 - wide, format!("{text} {sign}"))
            }
            _ => (column.min(room.saturating_sub(wide)), label),
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
        let mut line = Line::new();
        for (begin, label) in row {
            line = line.padded_to(left + begin).add(Ink::Warn, &clean(&label));
        }
        page.line(line);
    }
}

fn write_axis(page: &mut Page, left: usize, grid: Grid) {
    let end = duration(grid.until_ms());
    let at = (left + grid.windows()).saturating_sub(columns(&end));
    page.line(Line::new().padded_to(left).add(Ink::Dim, "0 s").padded_to(at).add(Ink::Dim, &end));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_drawn_on_a_logarithmic_scale() {
        let row: String = [10.0, 100.0, 999.0, 0.0, f64::NAN]
            .into_iter()
            .map(|ms| delay_cell((ms, false), 10.0, 1000.0))
            .collect();
        assert_eq!(row, "▁▅█  ");
        assert_eq!(delay_cell((5000.0, true), 10.0, 5000.0), '!');
        assert_eq!(delay_cell((10.0, false), 10.0, 10.0), '▁');
    }

    #[test]
    fn a_sparkline_has_a_level_for_every_eighth() {
        let values: Vec<f64> = (0..=8).map(f64::from).collect();
        assert_eq!(spark(&values, 8.0), "·▁▂▃▄▅▆▇█");
        assert_eq!(spark(&[0.0], 0.0), "·");
    }
}
