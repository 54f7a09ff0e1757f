//! The lines of events across a plot, and their labels above it.

use super::axis::TimeScale;
use super::lettering;
use crate::narrative::Happening;
use crate::palette::INK;
use crate::quantity::duration;
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};

/// Height of a row of event labels.
pub(super) const ROW: f64 = 14.0;
/// Rows of event labels at most; labels beyond are only lines with a tooltip.
const MOST_ROWS: usize = 3;

/// Draws `happenings` over `plot`, their labels in the `height` above it.
pub(super) fn draw(svg: &mut Svg, happenings: &[Happening], plot: Area, height: f64, time: &TimeScale) {
    let (rows, _) = rows(happenings, plot, time);
    for (happening, slot) in happenings.iter().zip(rows) {
        let x = time.x(plot, happening.t_ms);
        let row_top = slot.map_or(plot.y, |slot| plot.y - height + slot.row as f64 * ROW);
        let stroke = Stroke { colour: INK, width: 1.0, dash: Some((4.0, 3.0)) };
        let tooltip = format!("{} at {}", happening.label, duration(happening.t_ms));
        svg.line_with_tooltip((x, row_top), (x, plot.bottom()), stroke, tooltip);
        if let Some(slot) = slot {
            let style = TextStyle::new(10.5, INK);
            let (at, anchor) = if slot.left { (x - 4.0, Anchor::End) } else { (x + 4.0, Anchor::Start) };
            let label = lettering::fitted(&happening.label, 10.5, MAX_LABEL);
            svg.text((at, row_top + 9.5), style.anchored(anchor), &label);
        }
    }
}

/// Where the label of an event stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    row: usize,
    left: bool,
}

/// No label of an event gets wider than this.
const MAX_LABEL: f64 = 190.0;

/// A row for every label that finds room, and the number of rows it takes.
pub(super) fn rows(happenings: &[Happening], plot: Area, time: &TimeScale) -> (Vec<Option<Slot>>, usize) {
    let mut taken: Vec<Vec<(f64, f64)>> = vec![Vec::new(); MOST_ROWS];
    let mut slots = Vec::new();
    let mut used = 0;
    for happening in happenings {
        let x = time.x(plot, happening.t_ms);
        let width = lettering::width(&happening.label, 10.5).min(MAX_LABEL) + 8.0;
        let left = x + width > plot.right() + 6.0;
        let span = if left { (x - width, x) } else { (x, x + width) };
        let free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| span.1 < *from || span.0 > *to);
        let row = taken.iter_mut().enumerate().find(|(_, row)| free(row)).map(|(index, row)| {
            row.push(span);
            index
        });
        used = used.max(row.map_or(0, |row| row + 1));
        slots.push(row.map(|row| Slot { row, left }));
    }
    (slots, used)
}
