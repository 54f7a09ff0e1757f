//! The spread over repetitions: the lowest and the highest value of the valid runs of a group in each window.

use crate::chart::{Key, Mark, Stroke, window};
use crate::palette::{Colour, INK};
use crate::quantity::counted;
use crate::series::Grid;
use crate::view::GroupView;
use pathbench_record::document::RunRecord;

/// Of more runs, some at equal intervals are read.
const MOST_RUNS: usize = 20;
const MOST_WINDOWS: usize = 200;

/// The runs whose spread is shown; none if a single run is valid.
pub(super) fn repetitions<'a>(group: &GroupView<'a>) -> Vec<&'a RunRecord> {
    let valid: Vec<&RunRecord> = group.valid_runs().collect();
    let interval = if valid.len() > 1 { valid.len().div_ceil(MOST_RUNS) } else { 1 };
    valid.into_iter().step_by(interval).take(if group.valid() > 1 { MOST_RUNS } else { 0 }).collect()
}

pub(super) struct Spread {
    grid: Grid,
    windows: Vec<Option<(f64, f64)>>,
}

impl Spread {
    pub(super) fn new(grid: Grid) -> Self {
        Self { grid, windows: vec![None; grid.windows()] }
    }

    pub(super) fn covering(end_ms: f64) -> Self {
        Self::new(Grid::covering(end_ms, MOST_WINDOWS))
    }

    pub(super) fn add(&mut self, window: usize, value: f64) {
        if let Some(range) = self.windows.get_mut(window).filter(|_| value.is_finite()) {
            let (low, high) = range.unwrap_or((value, value));
            *range = Some((low.min(value), high.max(value)));
        }
    }

    pub(super) fn add_at(&mut self, t_ms: f64, value: f64) {
        self.add(self.grid.window_of(t_ms), value);
    }

    pub(super) fn add_held(&mut self, from_ms: f64, until_ms: f64, value: f64) {
        let last = self.grid.window_of(until_ms);
        for window in self.grid.window_of(from_ms)..=last {
            // A value that ends where a window begins is not in it.
            if window < last || self.grid.edge_ms(window) < until_ms || from_ms >= until_ms {
                self.add(window, value);
            }
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.windows.iter().flatten().flat_map(|(low, high)| [*low, *high])
    }

    pub(super) fn high(&self) -> f64 {
        self.values().fold(0.0, f64::max)
    }

    fn is_drawn(&self) -> bool {
        self.windows.iter().flatten().any(|(low, high)| low < high)
    }

    /// Dotted lines, interrupted where no run has a value; none if all values are the same.
    pub(super) fn lines(&self, series: &str, colour: Colour) -> Vec<Mark> {
        let known = |(at, range): (usize, &Option<(f64, f64)>)| range.map(|range| (at, range));
        let windows: Vec<(usize, (f64, f64))> = self.windows.iter().enumerate().filter_map(known).collect();
        let line = |part: &[(usize, (f64, f64))], of: fn((f64, f64)) -> f64| {
            let same = part.chunk_by(|(_, a), (_, b)| of(*a).total_cmp(&of(*b)).is_eq());
            let step = |same: &[(usize, (f64, f64))]| {
                let ((first, range), last) = (same[0], first_after(same));
                [(self.grid.edge_ms(first), of(range)), (self.grid.edge_ms(last), of(range))]
            };
            Mark::line(series, same.flat_map(step).collect(), dots(colour))
        };
        let parts = windows.chunk_by(|(a, _), (b, _)| *b == a + 1).filter(|_| self.is_drawn());
        parts.flat_map(|part| [line(part, |range| range.0), line(part, |range| range.1)]).collect()
    }
}

/// The window after these.
fn first_after(windows: &[(usize, (f64, f64))]) -> usize {
    windows.last().map_or(0, |(last, _)| last + 1)
}

const fn dots(colour: Colour) -> Stroke {
    Stroke { colour, width: 1.0, dash: Some((1.5, 2.0)) }
}

/// The entry of the legend and the sentence of the caption; none if no spread is drawn.
pub(super) fn explained<'a, 'g>(
    all: impl IntoIterator<Item = &'a Spread>,
    groups: impl IntoIterator<Item = &'g GroupView<'g>>,
) -> Option<((Key, String), String)> {
    let drawn = all.into_iter().find(|one| one.is_drawn())?;
    let most = groups.into_iter().map(|group| group.valid_runs().count()).max().unwrap_or_default();
    let runs = if most > MOST_RUNS {
        format!("{} of each label", counted(MOST_RUNS, "valid run"))
    } else {
        "the valid runs of each label".to_owned()
    };
    let text =
        format!("Dotted: the lowest and the highest value of {runs} per {}.", window(drawn.grid.window_ms));
    Some(((Key::Line(dots(INK)), "lowest and highest of the valid runs".to_owned()), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_drawn_between_gaps_if_values_differ() {
        let mut spread = Spread::new(Grid::covering(1000.0, 10));
        spread.add_held(0.0, 300.0, 5.0);
        spread.add_at(450.0, f64::NAN);
        spread.add(12, 1.0);
        spread.add_held(500.0, 700.0, 2.0);
        assert!(spread.lines("x", INK).is_empty(), "one value per window");
        spread.add_held(150.0, 600.0, 7.0);
        spread.windows[4] = None;
        let points = |mark: &Mark| match mark {
            Mark::Line { points, .. } => points.iter().map(|(x, y)| (*x as u32, *y as u32)).collect(),
            _ => Vec::new(),
        };
        let found: Vec<Vec<(u32, u32)>> = spread.lines("x", INK).iter().map(points).collect();
        let expected = [
            vec![(0, 5), (300, 5), (300, 7), (400, 7)],
            vec![(0, 5), (100, 5), (100, 7), (400, 7)],
            vec![(500, 2), (700, 2)],
            vec![(500, 7), (600, 7), (600, 2), (700, 2)],
        ];
        assert_eq!(found, expected);
        assert!((spread.high() - 7.0).abs() < 1e-9);
    }
}
