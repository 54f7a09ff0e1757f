//! Draws charts: one layout for all of them.

use super::{Area, Svg, TextStyle, lettering};
use crate::chart::{Anchor, Chart, Facet, Key, Label, Mark, Place, Point, Scale, Strip, Stroke, WIDTH};
use crate::narrative::ScenarioEvent;
use crate::palette::{FRAME, GRID, HATCH, INK, MUTED, PAPER, STALL};
use crate::quantity::duration;

const MARGIN: f64 = 20.0;
const LEGEND_ROW: f64 = 18.0;
const KEY: f64 = 12.0;
const TITLE: f64 = 22.0;
const REMARK: f64 = 14.0;
/// Over a strip that has a title, or a unit on its axis.
const CAP: f64 = 17.0;
/// Between a facet and the next row's.
const BELOW: f64 = 14.0;
/// The numbers under an axis; with the title under them.
const NUMBERS: f64 = 18.0;
const AXIS_TITLE: f64 = 34.0;
const EVENT_ROW: f64 = 14.0;
/// Rows of event labels at most; labels beyond are only lines with a tooltip.
const MOST_EVENT_ROWS: usize = 3;
/// No label of an event gets wider than this.
const EVENT_LABEL: f64 = 190.0;
const MOST_COLUMN_LABELS: usize = 5;

pub(crate) fn draw(chart: &Chart) -> Svg {
    let width = WIDTH - 2.0 * MARGIN;
    let wrapped = |paragraph: &String| lettering::wrapped(paragraph, 11.0, width);
    let caption: Vec<String> = chart.caption.iter().flat_map(wrapped).collect();
    let mut svg = Svg::new(WIDTH, &chart.title, &caption.join(" "));
    let title = lettering::fitted(&chart.title, 16.0 * 1.12, width);
    svg.text((MARGIN, 30.0), TextStyle::new(16.0, INK).bold(), &title);
    let subtitle = lettering::fitted(&chart.subtitle, 11.5, width);
    svg.text((MARGIN, 49.0), TextStyle::new(11.5, MUTED), &subtitle);
    let mut y = 64.0 + draw_legend(&mut svg, 64.0, &chart.legend) + 6.0;
    if chart.facets.is_empty() {
        svg.text((MARGIN, y + 16.0), TextStyle::new(12.0, MUTED), chart.empty);
        y += 30.0;
    } else {
        y = draw_facets(&mut svg, chart, y);
    }
    svg.line((MARGIN, y), (WIDTH - MARGIN, y), Stroke::solid(FRAME, 0.6));
    y += 20.0;
    for line in &caption {
        svg.text((MARGIN, y), TextStyle::new(11.0, MUTED), line);
        y += 16.0;
    }
    svg.finished(y)
}

/// A row of keys with their meaning, broken into as many rows as it takes; returns the height used.
fn draw_legend(svg: &mut Svg, top: f64, entries: &[(Key, String)]) -> f64 {
    let (mut x, mut y) = (MARGIN, top);
    for (key, text) in entries {
        let text = lettering::fitted(text, 11.0, 220.0);
        let mark = if matches!(key, Key::Line(_)) { KEY * 1.6 } else { KEY };
        let width = mark + 6.0 + lettering::width(&text, 11.0) + 16.0;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, y) = (MARGIN, y + LEGEND_ROW);
        }
        draw_key(svg, *key, Area { x, y, width: mark, height: KEY });
        svg.text((x + mark + 6.0, y + 10.0), TextStyle::new(11.0, INK), &text);
        x += width;
    }
    if entries.is_empty() { 0.0 } else { y - top + LEGEND_ROW }
}

fn draw_key(svg: &mut Svg, key: Key, area: Area) {
    let (middle, centre) = (area.x + area.width / 2.0, area.y + area.height / 2.0);
    match key {
        Key::Fill(colour) => svg.swatch(area, colour),
        Key::Hatch => {
            svg.rect(area, STALL, "");
            svg.hatching(area, 5.0, Stroke::solid(HATCH, 1.0));
        }
        Key::Event => {
            let stroke = Stroke { colour: INK, width: 1.0, dash: Some((3.0, 2.0)) };
            svg.line((middle, area.y), (middle, area.bottom()), stroke);
        }
        Key::Point(shape, colour) => svg.point(shape, (middle, centre), 4.0, colour, ""),
        Key::Bounds(kind, colour) => svg.bounds(kind, (area.x, area.right()), centre, colour),
        Key::Line(stroke) => svg.line((area.x, centre), (area.right(), centre), stroke),
        Key::Bar(colour) => {
            svg.line((middle, area.y), (middle, area.bottom()), Stroke::solid(colour, 2.5));
        }
    }
}

fn draw_facets(svg: &mut Svg, chart: &Chart, top: f64) -> f64 {
    let (frame, mut y) = (chart.frame, top);
    let width = frame.plot_width();
    for (column, heading) in chart.headings.iter().enumerate() {
        let style = TextStyle::new(11.5, MUTED).bold().anchored(Anchor::Middle);
        svg.text((frame.plot_x(column) + width / 2.0, y + 10.0), style, heading);
    }
    y += if chart.headings.is_empty() { 0.0 } else { 16.0 };
    let rows: Vec<&[Facet]> = chart.facets.chunks(frame.columns).collect();
    for (index, row) in rows.iter().enumerate() {
        let above = row.iter().map(|facet| above(facet, width)).fold(0.0, f64::max);
        let is_last = index + 1 == rows.len();
        let mut height = 0.0_f64;
        for (column, facet) in row.iter().enumerate() {
            let has_next = rows.get(index + 1).is_some_and(|next| next.len() > column);
            let place = FacetPlace {
                x: frame.plot_x(column),
                top: y,
                plot_top: y + above,
                width,
                room: width + (frame.right - MARGIN).max(0.0),
                y_numbers: column == 0 || !frame.shared_y,
                x_numbers: chart.shared_x.is_none() || !has_next,
                x_title: chart.shared_x.is_none(),
            };
            height = height.max(place.draw(svg, facet));
        }
        y += above + height;
        y += match &chart.shared_x {
            None => AXIS_TITLE + BELOW,
            Some(_) if is_last => NUMBERS,
            Some(_) => BELOW,
        };
    }
    if let Some(title) = &chart.shared_x {
        let unit = chart.facets.first().map_or("", |facet| facet.x.title.as_str());
        let title = if unit.is_empty() { title.clone() } else { format!("{title}, {unit}") };
        let middle = (frame.left + WIDTH - frame.right) / 2.0;
        svg.text((middle, y + 14.0), TextStyle::new(10.5, MUTED).anchored(Anchor::Middle), &title);
        y += 28.0;
    }
    y
}

/// What stands above a facet's strips: its title, remarks, and the labels of events.
fn above(facet: &Facet, width: f64) -> f64 {
    let title = if facet.title.is_empty() && facet.facts.is_empty() { 4.0 } else { TITLE };
    let (_, rows) = event_rows(&facet.events, &facet.x, width);
    title + facet.remarks.len() as f64 * REMARK + rows as f64 * EVENT_ROW
}

struct FacetPlace {
    x: f64,
    top: f64,
    plot_top: f64,
    width: f64,
    room: f64,
    y_numbers: bool,
    x_numbers: bool,
    x_title: bool,
}

impl FacetPlace {
    fn draw(&self, svg: &mut Svg, facet: &Facet) -> f64 {
        self.draw_title(svg, facet);
        let mut y = self.plot_top;
        let mut first = None;
        for (index, strip) in facet.strips.iter().enumerate() {
            let has_cap = !strip.title.is_empty() || !strip.y.title.is_empty();
            y += if has_cap { CAP } else { 2.0 };
            first = first.or(Some(y));
            let area = Area { x: self.x, y, width: self.width, height: strip.height };
            let is_last = index + 1 == facet.strips.len();
            let plot = Plot { area, x: &facet.x, y: &strip.y };
            plot.draw_axes(svg, strip, self.y_numbers, is_last && self.x_numbers);
            if let Some(text) = &strip.empty {
                let middle = (area.x + area.width / 2.0, area.y + area.height / 2.0 + 4.0);
                svg.text(middle, TextStyle::new(11.5, MUTED).anchored(Anchor::Middle), text);
            }
            for mark in &strip.marks {
                plot.draw(svg, mark);
            }
            y += strip.height;
        }
        let whole = Area { x: self.x, y: self.plot_top, width: self.width, height: y - self.plot_top };
        let plot_top = first.unwrap_or(y);
        draw_events(svg, facet, whole, plot_top);
        // Labels of spans lie over everything else.
        for mark in facet.strips.iter().take(1).flat_map(|strip| &strip.marks) {
            let area = Area { y: plot_top, height: facet.strips[0].height, ..whole };
            Plot { area, x: &facet.x, y: &facet.strips[0].y }.label_span(svg, mark);
        }
        if self.x_title {
            let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
            let title = lettering::fitted(&facet.x.title, 10.5, (self.width + 40.0).max(self.room + 24.0));
            svg.text((self.x + self.width / 2.0, y + 33.0), style, &title);
        }
        y - self.plot_top
    }

    /// Name, facts and run in one line; where they do not all fit, the run goes first, then facts from the end.
    fn draw_title(&self, svg: &mut Svg, facet: &Facet) {
        let baseline = self.top + 14.0;
        let name = lettering::fitted(&facet.title, 13.0 * 1.12, self.room);
        svg.text((self.x, baseline), TextStyle::new(13.0, INK).bold(), &name);
        let at = if name.is_empty() { 0.0 } else { lettering::width(&name, 13.0 * 1.12) + 8.0 };
        let mut facts = facet.facts.as_slice();
        let width = |facts: &[String]| lettering::width(&facts.join(" · "), 11.0);
        let with_run = at + width(facts) + lettering::width(&facet.run, 10.5) + 14.0 <= self.room;
        while !facts.is_empty() && at + width(facts) > self.room {
            facts = &facts[..facts.len() - 1];
        }
        svg.text((self.x + at, baseline), TextStyle::new(11.0, MUTED), &facts.join(" · "));
        if with_run {
            let style = TextStyle::new(10.5, MUTED).anchored(Anchor::End);
            svg.text((self.x + self.width, baseline), style, &facet.run);
        }
        for (index, (colour, remark)) in facet.remarks.iter().enumerate() {
            let at = (self.x, baseline + (index + 1) as f64 * REMARK);
            svg.text(at, TextStyle::new(10.5, *colour), &lettering::fitted(remark, 10.5, self.room));
        }
    }
}

/// Where the label of an event stands.
#[derive(Debug, Clone, Copy)]
struct EventSlot {
    row: usize,
    left: bool,
}

/// A row for every label that finds room, and the number of rows.
fn event_rows(events: &[ScenarioEvent], scale: &Scale, width: f64) -> (Vec<Option<EventSlot>>, usize) {
    let mut taken: Vec<Vec<(f64, f64)>> = vec![Vec::new(); MOST_EVENT_ROWS];
    let mut slots = Vec::new();
    let mut used = 0;
    for event in events {
        let x = scale.part(event.t_ms) * width;
        let label = lettering::width(&event.label, 10.5).min(EVENT_LABEL) + 8.0;
        let left = x + label > width + 6.0;
        let span = if left { (x - label, x) } else { (x, x + label) };
        let free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| span.1 < *from || span.0 > *to);
        let row = taken.iter_mut().enumerate().find(|(_, row)| free(row)).map(|(index, row)| {
            row.push(span);
            index
        });
        used = used.max(row.map_or(0, |row| row + 1));
        slots.push(row.map(|row| EventSlot { row, left }));
    }
    (slots, used)
}

/// The lines of events across a facet, and their labels above it.
fn draw_events(svg: &mut Svg, facet: &Facet, area: Area, plot_top: f64) {
    let (slots, rows) = event_rows(&facet.events, &facet.x, area.width);
    let labels_top = area.y - rows as f64 * EVENT_ROW;
    for (event, slot) in facet.events.iter().zip(slots) {
        let x = area.x + facet.x.part(event.t_ms) * area.width;
        let top = slot.map_or(plot_top, |slot| labels_top + slot.row as f64 * EVENT_ROW);
        let stroke = Stroke { colour: INK, width: 1.0, dash: Some((4.0, 3.0)) };
        let tooltip = format!("{} at {}", event.label, duration(event.t_ms));
        svg.line_with_tooltip((x, top), (x, area.bottom()), stroke, &tooltip);
        if let Some(slot) = slot {
            let (at, anchor) = if slot.left { (x - 4.0, Anchor::End) } else { (x + 4.0, Anchor::Start) };
            let label = lettering::fitted(&event.label, 10.5, EVENT_LABEL);
            svg.text((at, top + 9.5), TextStyle::new(10.5, INK).anchored(anchor), &label);
        }
    }
}

struct Plot<'a> {
    area: Area,
    x: &'a Scale,
    y: &'a Scale,
}

impl Plot<'_> {
    fn x(&self, value: f64) -> f64 {
        self.area.x + self.x.part(value) * self.area.width
    }

    fn y(&self, value: f64) -> f64 {
        self.area.bottom() - self.y.part(value) * self.area.height
    }

    fn at(&self, (x, y): (Place, Place)) -> (f64, f64) {
        let x = match x {
            Place::Data(value, shift) => self.x(value) + shift,
            Place::Low(pixels) => self.area.x + pixels,
            Place::High(pixels) => self.area.right() + pixels,
        };
        (x, self.height_of(y))
    }

    fn height_of(&self, y: Place) -> f64 {
        match y {
            Place::Data(value, shift) => self.y(value) + shift,
            Place::Low(pixels) => self.area.bottom() - pixels,
            Place::High(pixels) => self.area.y - pixels,
        }
    }

    fn draw_axes(&self, svg: &mut Svg, strip: &Strip, y_numbers: bool, x_numbers: bool) {
        let area = self.area;
        let small = TextStyle::new(10.5, MUTED);
        if !strip.title.is_empty() {
            let title = lettering::fitted(&strip.title, 10.0, area.width);
            svg.text((area.x, area.y - 4.0), TextStyle::new(10.0, MUTED), &title);
        }
        for (value, label) in &self.y.ticks {
            let y = self.y(*value);
            let width = if label.is_some() { 1.0 } else { 0.5 };
            svg.line((area.x, y), (area.right(), y), Stroke::solid(GRID, width));
            if let Some(label) = label.as_ref().filter(|_| y_numbers) {
                svg.text((area.x - 6.0, y + 3.6), small.anchored(Anchor::End), label);
            }
        }
        if y_numbers && !self.y.title.is_empty() {
            svg.text((area.x - 6.0, area.y - 9.0), small.anchored(Anchor::End), &self.y.title);
        }
        self.draw_columns(svg, strip, x_numbers);
        self.draw_rows(svg, y_numbers);
        if !self.y.ticks.is_empty() || !self.y.rows.is_empty() {
            svg.line((area.x, area.bottom()), (area.right(), area.bottom()), Stroke::solid(FRAME, 1.0));
        }
    }

    /// Ticks of the horizontal axis, and lines at them where it is not time.
    fn draw_columns(&self, svg: &mut Svg, strip: &Strip, numbers: bool) {
        let area = self.area;
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        let is_bare = strip.y.ticks.is_empty() && strip.y.rows.is_empty();
        let mut free = f64::MIN;
        for (value, label) in &self.x.ticks {
            let x = self.x(*value);
            if !is_bare {
                let width = if label.is_some() { 0.8 } else { 0.4 };
                svg.line((x, area.y), (x, area.bottom()), Stroke::solid(GRID, width));
                svg.line((x, area.bottom()), (x, area.bottom() + 4.0), Stroke::solid(FRAME, 1.0));
            }
            // Labels that would run into the ones before them are left out.
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
                let text = lettering::fitted(&row.label, 11.5 * 1.12, WIDTH - 2.0 * MARGIN);
                svg.text((left, middle + 5.0), TextStyle::new(11.5, INK).bold(), &text);
            }
            if row.is_heading || index > 0 && !row.detail.is_empty() {
                svg.line((left, top), (area.right(), top), Stroke::solid(FRAME, 0.5));
            }
            if row.is_heading || !labels {
                continue;
            }
            let room = area.x - MARGIN - 10.0;
            let label = lettering::fitted(&row.label, 12.0 * 1.1, room);
            let baseline = if row.detail.is_empty() { middle + 4.3 } else { middle - 2.0 };
            let at = area.x - 9.0;
            svg.text((at, baseline), TextStyle::new(12.0, INK).bold().anchored(Anchor::End), &label);
            let detail = lettering::fitted(&row.detail, 10.0, room);
            svg.text((at, middle + 11.0), TextStyle::new(10.0, MUTED).anchored(Anchor::End), &detail);
        }
    }

    fn draw(&self, svg: &mut Svg, mark: &Mark) {
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
                svg.line_with_tooltip((x, y - half), (x, y + half), *stroke, tooltip);
            }
            Mark::Span { from, to, hatched, tooltip, .. } => {
                let area = self.span(*from, *to);
                svg.rect(area, STALL, tooltip);
                if *hatched {
                    svg.hatching(area, 7.0, Stroke::solid(HATCH, 0.8));
                }
            }
            Mark::Label(label) => self.draw_label(svg, label),
            Mark::Ends { x, ends } => self.draw_ends(svg, *x, ends),
        }
    }

    fn span(&self, from: f64, to: f64) -> Area {
        let (left, right) = (self.x(from), self.x(to));
        Area { x: left, width: (right - left).max(1.5), ..self.area }
    }

    fn label_span(&self, svg: &mut Svg, mark: &Mark) {
        let Mark::Span { from, to, labels, colour, .. } = mark else { return };
        let area = self.span(*from, *to);
        let fits = |text: &&String| lettering::width(text, 10.5) + 14.0 <= area.width;
        let Some(text) = labels.iter().find(fits) else { return };
        let (x, y) = (area.x + area.width / 2.0, area.y + area.height / 2.0);
        let width = lettering::width(text, 10.5) + 10.0;
        svg.swatch(Area { x: x - width / 2.0, y: y - 9.0, width, height: 17.0 }, PAPER);
        svg.text((x, y + 3.5), TextStyle::new(10.5, *colour).anchored(Anchor::Middle), text);
    }

    fn draw_label(&self, svg: &mut Svg, label: &Label) {
        let style = TextStyle { bold: label.bold, ..TextStyle::new(label.size, label.colour) };
        let text = lettering::fitted(&label.text, label.size, label.limit);
        svg.text(self.at(label.at), style.anchored(label.anchor), &text);
    }

    fn draw_ends(&self, svg: &mut Svg, x: f64, ends: &[(f64, crate::palette::Colour, String)]) {
        let mut ends: Vec<_> =
            ends.iter().map(|(value, colour, text)| (self.y(*value), colour, text)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = f64::MIN;
        for (y, colour, text) in ends {
            lowest = (y + 3.6).max(lowest + 11.0);
            svg.text((self.x(x) + 5.0, lowest), TextStyle::new(10.5, *colour).bold(), text);
        }
    }

    fn draw_stack(&self, svg: &mut Svg, mark: &Mark) {
        let Mark::Stack { grid, layers } = mark else { return };
        let mut floor = vec![0.0; grid.windows()];
        for layer in layers {
            let ceiling: Vec<f64> = floor.iter().zip(&layer.values).map(|(low, value)| low + value).collect();
            for (from, to) in stretches(&layer.values) {
                let step = |window: usize, values: &[f64]| {
                    let y = self.y(values[window]);
                    [(self.x(grid.edge_ms(window)), y), (self.x(grid.edge_ms(window + 1)), y)]
                };
                let top = (from..to).flat_map(|window| step(window, &ceiling));
                let base = (from..to).rev().flat_map(|window| {
                    let [left, right] = step(window, &floor);
                    [right, left]
                });
                let path = layer.path.as_deref().unwrap_or_default();
                let corners: Vec<(f64, f64)> = top.chain(base).collect();
                svg.polygon(&corners, layer.colour, path);
            }
            floor = ceiling;
        }
    }

    /// Bars, and labels over those that weigh most and over the highest one, where there is room.
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
            // Over the bar; where a neighbour is in the way beginning or ending with it, or a little to the left.
            let aside = (text - width) / 2.0;
            let place = [0.0, -aside, aside, -aside - 16.0].into_iter().find_map(|shift| {
                let x = area.x + width / 2.0 + shift;
                let x = x.clamp(self.area.x + text / 2.0, self.area.right() + 10.0 - text / 2.0);
                let place =
                    Area { x: x - text / 2.0 - 2.0, y: area.y - 14.0, width: text + 4.0, height: 12.0 };
                // In front of a higher bar it would seem to be that one's.
                let hides = |other: &crate::chart::Column| {
                    let other_bar = bar(other.x, other.y);
                    other.y > column.y && other_bar.right() > place.x && other_bar.x < place.right()
                };
                let free = taken.iter().all(|one| is_apart(one, &place));
                (free && !columns.iter().any(hides)).then_some(place)
            });
            if let Some(place) = place {
                let style = TextStyle::new(10.5, INK).bold().anchored(Anchor::Middle);
                svg.text((place.x + place.width / 2.0, area.y - 4.0), style, &column.label);
                taken.push(place);
            }
        }
    }
}

fn is_apart(one: &Area, other: &Area) -> bool {
    other.right() < one.x || one.right() < other.x || other.bottom() < one.y || one.bottom() < other.y
}

/// The tooltip with the name of its series, unless that is part of it.
fn named(series: &str, tooltip: &str) -> String {
    match (series.is_empty() || tooltip.contains(series), tooltip.is_empty()) {
        (true, _) => tooltip.to_owned(),
        (false, true) => series.to_owned(),
        (false, false) => format!("{series}: {tooltip}"),
    }
}

/// Stretches of windows `from..to` in which `values` is above 0.
fn stretches(values: &[f64]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = None;
    for (window, value) in values.iter().chain([&0.0]).enumerate() {
        match (start, *value > 0.0) {
            (None, true) => start = Some(window),
            (Some(from), false) => {
                found.push((from, window));
                start = None;
            }
            _ => {}
        }
    }
    found
}
