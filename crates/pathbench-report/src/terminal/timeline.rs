//! The small timeline: a sparkline per path, and the events under it; for messages, one of their delays.

use super::page::{Ink, Line, Page, clean, columns, fitted};
use super::said;
use crate::narrative::{ScenarioEvent, scenario_events};
use crate::pattern::Kind;
use crate::quantity::{duration, range, rate};
use crate::series::{self, Grid, Series};
use crate::view::{GroupView, View};
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Groups beyond this are left to the report.
const MOST_GROUPS: usize = 6;
/// No cell is shorter than this: a delivery bin is 10 ms, and a sample comes every 100 ms.
const SHORTEST_CELL_MS: f64 = 50.0;

/// One row per path of the representative run of each label.
pub(super) fn write(page: &mut Page, view: &View) {
    // Among several patterns, those that fill the paths have something to see in goodput.
    let fills = |group: &&GroupView| !group.among_patterns || group.pattern.kind == Kind::Iperf;
    let shown: Vec<(&GroupView, &RunRecord)> = view
        .groups
        .iter()
        .filter(fills)
        .filter_map(|group| Some((group, group.representative()?)))
        .filter(|(_, run)| !view.data(run).deliveries.is_empty())
        .collect();
    let end_ms = shown.iter().map(|(_, run)| series::end_ms(view.data(run))).fold(0.0, f64::max);
    if shown.is_empty() || end_ms <= 0.0 {
        return;
    }
    let left = names_width(view, &shown);
    let cells = (page.width() - left - 1).min((end_ms / SHORTEST_CELL_MS) as usize).clamp(1, 200);
    let grid = Grid::split(end_ms, cells);
    let of_run = |run: &RunRecord| series::series(run, view.data(run), None, grid, &view.paths);
    let rows: Vec<(&GroupView, &RunRecord, Series)> =
        shown.iter().take(MOST_GROUPS).map(|(group, run)| (*group, *run, of_run(run))).collect();
    let peak = rows.iter().map(|(_, _, series)| series.peak_mbps()).fold(0.0, f64::max);
    let remark = format!("full height {}, one column {}", rate(peak), duration(grid.window_ms));
    page.heading("Timeline", &remark);
    let marks: Vec<Vec<ScenarioEvent>> =
        rows.iter().map(|(_, run, _)| scenario_events(view.data(run))).collect();
    let common = marks.windows(2).all(|pair| same_cells(&pair[0], &pair[1], grid));
    let mut variant = None;
    for ((group, _, series), marks) in rows.iter().zip(&marks) {
        page.variant(&mut variant, group.variant);
        write_series(page, view, group, series, left, peak);
        if !common {
            write_marks(page, marks, left, grid);
        }
    }
    if common && let Some(marks) = marks.first() {
        write_marks(page, marks, left, grid);
    }
    write_axis(page, left, grid);
    if shown.len() > MOST_GROUPS {
        page.more(shown.len() - MOST_GROUPS);
    }
}

/// One row per direction of the representative run of each label: the slowest message of each column.
pub(super) fn write_delays(page: &mut Page, view: &View) {
    let shown: Vec<(&GroupView, &RunRecord)> = view
        .groups
        .iter()
        .filter(|group| group.pattern.kind == Kind::Interactive)
        .filter_map(|group| Some((group, group.representative()?)))
        .filter(|(_, run)| !view.data(run).messages.is_empty())
        .take(MOST_GROUPS)
        .collect();
    let lines = || shown.iter().flat_map(|(_, run)| &view.data(run).messages);
    let end_ms = lines().map(|line| line.due_ms).fold(0.0, f64::max);
    let [fastest, slowest] = lines()
        .map(|line| line.delay_ms)
        .filter(|ms| ms.is_finite() && *ms > 0.0)
        .fold([f64::MAX, 0.0], |[low, high], ms| [low.min(ms), high.max(ms)]);
    if end_ms <= 0.0 || slowest <= 0.0 {
        return;
    }
    let left = names_width(view, &shown).max("    download".len() + 2);
    let cells = (page.width() - left - 1).min((end_ms / SHORTEST_CELL_MS) as usize).clamp(1, 200);
    let grid = Grid::split(end_ms + 1.0, cells);
    let never = if lines().any(|line| line.late) { "; ! never acknowledged" } else { "" };
    let span = range(fastest, slowest, duration);
    let remark = format!("slowest per {}, {span} (log scale){never}", duration(grid.window_ms));
    page.heading("Delay", &remark);
    let mut variant = None;
    for (group, run) in &shown {
        page.variant(&mut variant, group.variant);
        page.line(Line::new().add(Ink::Strong, &format!("  {}", fitted(&said(group), left - 4))));
        for direction in Direction::BOTH {
            let mut slowest_of = vec![(0.0_f64, false); grid.windows()];
            let mut any = false;
            for line in view.data(run).messages.iter().filter(|line| line.direction == direction) {
                any = true;
                let cell = &mut slowest_of[grid.window_of(line.due_ms)];
                *cell = (cell.0.max(line.delay_ms), cell.1 || line.late);
            }
            if any {
                let row: String = slowest_of.iter().map(|one| delay_cell(*one, fastest, slowest)).collect();
                let line = Line::new().add(Ink::Plain, &format!("    {}", direction.name()));
                page.line(line.padded_to(left).add(Ink::Plain, &row));
            }
        }
        write_marks(page, &scenario_events(view.data(run)), left, grid);
    }
    write_axis(page, left, grid);
}

/// The height of a delay between the fastest and the slowest, on a logarithmic scale; blank where none was due.
fn delay_cell((ms, late): (f64, bool), fastest: f64, slowest: f64) -> char {
    if late {
        return '!';
    }
    if !(ms.is_finite() && ms > 0.0) {
        return ' ';
    }
    let part = (ms / fastest).ln() / (slowest / fastest).ln().max(f64::MIN_POSITIVE);
    LEVELS[((part.clamp(0.0, 1.0) * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
}

fn names_width(view: &View, shown: &[(&GroupView, &RunRecord)]) -> usize {
    let names = shown.iter().take(MOST_GROUPS).map(|(group, _)| columns(&fitted(&said(group), 26)));
    let paths = view.paths.names().iter().map(|name| columns(&fitted(name, 12)) + 2);
    names.chain(paths).max().unwrap_or(0) + 4
}

fn write_series(page: &mut Page, view: &View, group: &GroupView, series: &Series, left: usize, peak: f64) {
    let total = spark(&series.total_mbps(), peak);
    let name = fitted(&said(group), left - 4);
    page.line(Line::new().add(Ink::Strong, &format!("  {name}")).padded_to(left).add(Ink::Plain, &total));
    if series.paths.len() < 2 {
        return;
    }
    for path in &series.paths {
        let (name, ink) = match &path.path {
            Some(name) => (name.as_str(), Ink::Path(view.paths.rank(name))),
            None => ("?", Ink::Dim),
        };
        let line = Line::new().add(ink, &format!("    {}", fitted(name, left.saturating_sub(6))));
        page.line(line.padded_to(left).add(ink, &spark(&path.mbps, peak)));
    }
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
fn same_cells(a: &[ScenarioEvent], b: &[ScenarioEvent], grid: Grid) -> bool {
    let close = |(x, y): (&ScenarioEvent, &ScenarioEvent)| {
        x.label == y.label && grid.window_of(x.t_ms).abs_diff(grid.window_of(y.t_ms)) <= 1
    };
    a.len() == b.len() && a.iter().zip(b).all(close)
}

/// The events, each label's mark in the column of its time; what does not fit goes one row down, at most thrice.
fn write_marks(page: &mut Page, marks: &[ScenarioEvent], left: usize, grid: Grid) {
    let room = page.width() - left;
    let mut rows: Vec<Vec<(usize, String)>> = vec![Vec::new(); 3];
    for mark in marks {
        let (column, label) = (grid.window_of(mark.t_ms), fitted(&mark.label, room));
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
