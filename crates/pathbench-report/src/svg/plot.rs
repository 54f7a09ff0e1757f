//! Draws the plot area of a strip: axes and marks.

use super::lettering;
use super::picture::{Area, Svg};
use crate::chart::{
    Anchor, Column, Coordinate, Mark, Paths, Point, Scale, Shape, Strip, Stroke, TextStyle, WIDTH,
};
use crate::palette::{Colour, FRAME, GRID, HATCH, INK, MUTED, PAPER, STALL};
use crate::quantity::rate;

/// Free space at the left and right edge of a chart.
pub(super) const MARGIN: f64 = 20.0;
const MOST_COLUMN_LABELS: usize = 5;
/// Half of the size of the mark of a value beyond the axis.
const BEYOND: f64 = 4.0;

pub(super) struct Plot<'a> {
    pub(super) area: Area,
    pub(super) x: &'a Scale,
    pub(super) y: &'a Scale,
}

impl Plot<'_> {
    fn x(&self, value: f64) -> f64 {
        self.area.x + self.x.part(value) * self.area.width
    }

    fn y(&self, value: f64) -> f64 {
        self.area.bottom() - self.y.part(value) * self.area.height
    }

    fn point(&self, (x, y): (Coordinate, Coordinate)) -> (f64, f64) {
        let x = match x {
            Coordinate::Data(value, shift) => self.x(value) + shift,
            Coordinate::Low(pixels) => self.area.x + pixels,
            Coordinate::High(pixels) => self.area.right() + pixels,
        };
        (x, self.height_of(y))
    }

    fn height_of(&self, y: Coordinate) -> f64 {
        match y {
            Coordinate::Data(value, shift) => self.y(value) + shift,
            Coordinate::Low(pixels) => self.area.bottom() - pixels,
            Coordinate::High(pixels) => self.area.y - pixels,
        }
    }

    pub(super) fn draw_axes(&self, svg: &mut Svg, strip: &Strip, y_numbers: bool, x_numbers: bool) {
        let area = self.area;
        let small = TextStyle::new(10.5, MUTED);
        svg.text_within((area.x, area.y - 4.0), TextStyle::new(10.0, MUTED), &strip.title, area.width);
        for (value, label) in &self.y.ticks {
            let y = self.y(*value);
            let width = if label.is_some() { 1.0 } else { 0.5 };
            svg.line((area.x, y), (area.right(), y), Stroke::solid(GRID, width), "");
            if let Some(label) = label.as_ref().filter(|_| y_numbers) {
                svg.text((area.x - 6.0, y + 3.6), small.anchored(Anchor::End), label);
            }
        }
        if y_numbers {
            svg.text((area.x - 6.0, area.y - 9.0), small.anchored(Anchor::End), &self.y.title);
        }
        self.draw_columns(svg, strip, x_numbers);
        self.draw_rows(svg, y_numbers);
        if !self.y.ticks.is_empty() || !self.y.rows.is_empty() {
            svg.line((area.x, area.bottom()), (area.right(), area.bottom()), Stroke::solid(FRAME, 1.0), "");
        }
    }

    fn draw_columns(&self, svg: &mut Svg, strip: &Strip, numbers: bool) {
        let area = self.area;
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        let is_bare = strip.y.ticks.is_empty() && strip.y.rows.is_empty();
        let mut free = f64::MIN;
        for (value, label) in &self.x.ticks {
            let x = self.x(*value);
            if !is_bare {
                let width = if label.is_some() { 0.8 } else { 0.4 };
                svg.line((x, area.y), (x, area.bottom()), Stroke::solid(GRID, width), "");
                svg.line((x, area.bottom()), (x, area.bottom() + 4.0), Stroke::solid(FRAME, 1.0), "");
            }
            // A label that would overlap the previous ones is left out.
            let Some(label) = label.as_ref().filter(|_| numbers) else { continue };
            let half = lettering::width(label, 10.5) / 2.0;
            if x - half > free {
                svg.text((x, area.bottom() + 16.0), style, label);
                free = x + half + 4.0;
            }
        }
    }

    fn draw_rows(&self, svg: &mut Svg, labels: bool) {
        let area = self.area;
        for (index, row) in self.y.rows.iter().enumerate() {
            let (top, middle) = (self.y(index as f64), self.y(index as f64 + 0.5));
            let left = if labels { MARGIN } else { area.x };
            if row.is_heading {
                let band =
                    Area { x: area.x, y: top, width: area.width, height: self.y(index as f64 + 1.0) - top };
                svg.rect(band, PAPER, "");
                let style = TextStyle::new(11.5, INK).bold();
                svg.text_within((left, middle + 5.0), style, &row.label, WIDTH - 2.0 * MARGIN);
            }
            if row.is_heading || index > 0 && !row.detail.is_empty() {
                svg.line((left, top), (area.right(), top), Stroke::solid(FRAME, 0.5), "");
            }
            if row.is_heading || !labels {
                continue;
            }
            let limit = area.x - MARGIN - 10.0;
            let baseline = if row.detail.is_empty() { middle + 4.3 } else { middle - 2.0 };
            let at = area.x - 9.0;
            let style = TextStyle::new(12.0, INK).bold().anchored(Anchor::End);
            svg.text_within((at, baseline), style, &row.label, limit);
            let style = TextStyle::new(10.0, MUTED).anchored(Anchor::End);
            svg.text_within((at, middle + 11.0), style, &row.detail, limit);
        }
    }

    pub(super) fn draw(&self, svg: &mut Svg, mark: &Mark) {
        match mark {
            Mark::Line { series, points, stroke, raise } => {
                let raised = |y: f64| if self.y.part(y) > 0.0 { *raise } else { 0.0 };
                let corner = |(x, y): &(f64, f64)| (self.x(*x), self.y(*y) - raised(*y));
                let corners: Vec<(f64, f64)> = points.iter().map(corner).collect();
                svg.polyline(&corners, *stroke, series);
            }
            Mark::Area { series, points, colour } => {
                let mut corners: Vec<(f64, f64)> =
                    points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
                if let (Some(first), Some(last)) = (corners.first().copied(), corners.last().copied()) {
                    corners.extend([(last.0, self.area.bottom()), (first.0, self.area.bottom())]);
                    svg.polygon(&corners, *colour, series);
                }
            }
            Mark::Stack { .. } => self.draw_stack(svg, mark),
            Mark::Beyond(points) => self.draw_beyond(svg, points),
            Mark::Points { series, shape, colour, radius, points } => {
                for Point { x, y, tooltip } in points {
                    let tooltip = named(series, tooltip);
                    svg.point(*shape, (self.x(*x), self.y(*y)), *radius, *colour, &tooltip);
                }
            }
            Mark::Bar { series, from, to, y, height, colour, tooltip } => {
                let (left, top) = (self.x(*from), self.y(*y) - height / 2.0);
                let area = Area { x: left, y: top, width: self.x(*to) - left, height: *height };
                svg.rect(area, *colour, &named(series, tooltip));
            }
            Mark::Columns { .. } => self.draw_histogram(svg, mark),
            Mark::Bounds { kind, low, high, y, shift, colour } => {
                svg.bounds(*kind, (self.x(*low), self.x(*high)), self.y(*y) + shift, *colour);
            }
            Mark::Tick { x, y, half, stroke, tooltip } => {
                let (x, y) = (self.x(*x), self.height_of(*y));
                svg.line((x, y - half), (x, y + half), *stroke, tooltip);
            }
            Mark::Span { from, to, hatched, tooltip, .. } => {
                let area = self.span(*from, *to);
                svg.rect(area, STALL, tooltip);
                if *hatched {
                    svg.hatching(area, 7.0, Stroke::solid(HATCH, 0.8));
                }
            }
            Mark::Paths(all) => self.draw_paths(svg, all),
            Mark::Label(label) => {
                svg.text_within(self.point(label.at), label.style, &label.text, label.limit);
            }
            Mark::Ends { x, ends } => self.draw_ends(svg, *x, ends),
        }
    }

    fn draw_paths(&self, svg: &mut Svg, all: &[Paths]) {
        let (x, y) = (self.x, self.y);
        svg.begin_zoom(self.area, [(x.low, x.high, x.title.as_str()), (y.low, y.high, y.title.as_str())]);
        for one in all {
            let corner = |(x, y): &(f64, f64)| (self.x(*x) - self.area.x, self.y(*y) - self.area.y);
            let runs = one.runs.iter().map(|run| run.iter().map(corner).collect::<Vec<_>>());
            svg.path(runs, one.stroke, &one.series);
        }
        svg.end_zoom();
    }

    fn span(&self, from: f64, to: f64) -> Area {
        let (left, right) = (self.x(from), self.x(to));
        Area { x: left, width: (right - left).max(1.5), ..self.area }
    }

    pub(super) fn label_span(&self, svg: &mut Svg, mark: &Mark) {
        let Mark::Span { from, to, labels, colour, .. } = mark else { return };
        let area = self.span(*from, *to);
        let fits = |text: &&String| lettering::width(text, 10.5) + 14.0 <= area.width;
        let Some(text) = labels.iter().find(fits) else { return };
        let (x, y) = (area.x + area.width / 2.0, area.y + area.height / 2.0);
        let width = lettering::width(text, 10.5) + 10.0;
        svg.swatch(Area { x: x - width / 2.0, y: y - 9.0, width, height: 17.0 }, PAPER);
        svg.text((x, y + 3.5), TextStyle::new(10.5, *colour).anchored(Anchor::Middle), text);
    }

    fn draw_ends(&self, svg: &mut Svg, x: f64, ends: &[(f64, Colour, String)]) {
        let mut ends: Vec<_> =
            ends.iter().map(|(value, colour, text)| (self.y(*value), colour, text)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = f64::MIN;
        for (y, colour, text) in ends {
            lowest = (y + 3.6).max(lowest + 11.0);
            // Text needs more contrast than a mark.
            let x = self.x(x);
            svg.swatch(Area { x: x + 3.0, y: lowest - 7.5, width: 3.0, height: 8.0 }, *colour);
            svg.text((x + 8.0, lowest), TextStyle::new(10.5, INK).bold(), text);
        }
    }

    fn draw_stack(&self, svg: &mut Svg, mark: &Mark) {
        let Mark::Stack { grid, layers } = mark else { return };
        let mut floor = vec![0.0; grid.windows()];
        for layer in layers {
            let ceiling: Vec<f64> = floor.iter().zip(&layer.values).map(|(low, value)| low + value).collect();
            let windows: Vec<usize> = (0..layer.values.len()).collect();
            let has_bytes = |window: &usize| layer.values[*window] > 0.0;
            for part in
                windows.chunk_by(|a, b| has_bytes(a) == has_bytes(b)).filter(|part| has_bytes(&part[0]))
            {
                let step = |window: usize, values: &[f64]| {
                    let y = self.y(values[window]);
                    [(self.x(grid.edge_ms(window)), y), (self.x(grid.edge_ms(window + 1)), y)]
                };
                let top = part.iter().flat_map(|window| step(*window, &ceiling));
                let base = part.iter().rev().flat_map(|window| {
                    let [left, right] = step(*window, &floor);
                    [right, left]
                });
                let path = layer.path.as_deref().unwrap_or_default();
                let corners: Vec<(f64, f64)> = top.chain(base).collect();
                svg.polygon(&corners, layer.colour, path);
            }
            floor = ceiling;
        }
    }

    fn draw_beyond(&self, svg: &mut Svg, points: &[Point]) {
        let mut order: Vec<&Point> = points.iter().collect();
        order.sort_by(|a, b| b.y.total_cmp(&a.y));
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for point in order {
            let x = self.x(point.x);
            svg.point(Shape::Triangle, (x, self.area.y + BEYOND), BEYOND, INK, &point.tooltip);
            let text = rate(point.y);
            let half = lettering::width(&text, 10.0) / 2.0;
            let middle = x.max(self.area.x + half).min(self.area.right() - half);
            let (from, to) = (middle - half - 3.0, middle + half + 3.0);
            if taken.iter().all(|(left, right)| to < *left || from > *right) {
                let style = TextStyle::new(10.0, INK).anchored(Anchor::Middle);
                svg.text((middle, self.area.y - 4.0), style, &text);
                taken.push((from, to));
            }
        }
    }

    /// Bars, and labels above the heaviest and the highest bar if they fit.
    fn draw_histogram(&self, svg: &mut Svg, mark: &Mark) {
        let Mark::Columns { columns, width, colour } = mark else { return };
        let bar = |x: f64, y: f64| {
            let top = self.y(y);
            Area { x: self.x(x) - width / 2.0, y: top, width: *width, height: self.area.bottom() - top }
        };
        for column in columns {
            svg.rect(bar(column.x, column.y), *colour, &column.tooltip);
        }
        let mut order: Vec<_> = columns.iter().collect();
        order.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let highest = columns.iter().max_by(|a, b| a.y.total_cmp(&b.y));
        let chosen = order.first().copied().into_iter().chain(highest).chain(order.iter().skip(1).copied());
        let mut taken: Vec<Area> = Vec::new();
        for column in chosen {
            if taken.len() >= MOST_COLUMN_LABELS {
                break;
            }
            let (area, text) = (bar(column.x, column.y), lettering::width(&column.label, 10.5));
            // Centred over the bar, otherwise aligned to its left or right edge, otherwise slightly to the left.
            let aside = (text - width) / 2.0;
            let label_area = [0.0, -aside, aside, -aside - 16.0].into_iter().find_map(|shift| {
                let x = area.x + width / 2.0 + shift;
                let x = x.clamp(self.area.x + text / 2.0, self.area.right() + 10.0 - text / 2.0);
                let label_area =
                    Area { x: x - text / 2.0 - 2.0, y: area.y - 14.0, width: text + 4.0, height: 12.0 };
                // In front of a higher bar, the label would seem to belong to the higher bar.
                let hides = |other: &Column| {
                    let other_bar = bar(other.x, other.y);
                    other.y > column.y && other_bar.right() > label_area.x && other_bar.x < label_area.right()
                };
                let free = taken.iter().all(|one| is_apart(one, &label_area));
                (free && !columns.iter().any(hides)).then_some(label_area)
            });
            if let Some(label_area) = label_area {
                let style = TextStyle::new(10.5, INK).bold().anchored(Anchor::Middle);
                svg.text((label_area.x + label_area.width / 2.0, area.y - 4.0), style, &column.label);
                taken.push(label_area);
            }
        }
    }
}

fn is_apart(one: &Area, other: &Area) -> bool {
    other.right() < one.x || one.right() < other.x || other.bottom() < one.y || one.bottom() < other.y
}

fn named(series: &str, tooltip: &str) -> String {
    match (series.is_empty() || tooltip.contains(series), tooltip.is_empty()) {
        (true, _) => tooltip.to_owned(),
        (false, true) => series.to_owned(),
        (false, false) => format!("{series}: {tooltip}"),
    }
}
