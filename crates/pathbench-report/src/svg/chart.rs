//! Draws charts: title, legend and facets with their scenario events, in one layout for all charts.

use super::lettering;
use super::picture::{Area, Svg};
use super::plot::{MARGIN, Plot};
use crate::chart::{Anchor, Chart, Facet, Key, Mark, Scale, Stroke, TextStyle};
use crate::narrative::ScenarioEvent;
use crate::palette::{FRAME, HATCH, INK, MUTED, STALL};
use crate::quantity::duration;

const LEGEND_ROW: f64 = 18.0;
const KEY: f64 = 12.0;
const TITLE: f64 = 22.0;
const REMARK: f64 = 14.0;
const CAP: f64 = 17.0;
const BELOW: f64 = 14.0;
const NUMBERS: f64 = 18.0;
const AXIS_TITLE: f64 = 34.0;
const EVENT_ROW: f64 = 14.0;
const MOST_EVENT_ROWS: usize = 3;
const EVENT_LABEL: f64 = 190.0;

pub(crate) fn draw(chart: &Chart) -> Svg {
    let whole = chart.frame.width;
    let width = whole - 2.0 * MARGIN;
    let wrapped = |paragraph: &String| lettering::wrapped(paragraph, 11.0, width);
    let caption: Vec<String> = chart.caption.iter().flat_map(wrapped).collect();
    let mut svg = Svg::new(whole, &chart.title, &caption.join(" "));
    svg.text_within((MARGIN, 30.0), TextStyle::new(16.0, INK).bold(), &chart.title, width);
    svg.text_within((MARGIN, 49.0), TextStyle::new(11.5, MUTED), &chart.subtitle, width);
    let mut y = 64.0 + draw_legend(&mut svg, (64.0, whole), &chart.legend) + 6.0;
    if chart.facets.is_empty() {
        svg.text((MARGIN, y + 16.0), TextStyle::new(12.0, MUTED), chart.empty);
        y += 30.0;
    } else {
        y = draw_facets(&mut svg, chart, y);
    }
    svg.begin_caption(y);
    svg.line((MARGIN, y), (whole - MARGIN, y), Stroke::solid(FRAME, 0.6), "");
    y += 20.0;
    for line in &caption {
        svg.text((MARGIN, y), TextStyle::new(11.0, MUTED), line);
        y += 16.0;
    }
    svg.finished(y)
}

fn draw_legend(svg: &mut Svg, (top, whole): (f64, f64), entries: &[(Key, String)]) -> f64 {
    let (mut x, mut y) = (MARGIN, top);
    for (key, text) in entries {
        let text = lettering::fitted(text, 11.0, 220.0);
        let mark = if matches!(key, Key::Line(_)) { KEY * 1.6 } else { KEY };
        let width = mark + 6.0 + lettering::width(&text, 11.0) + 16.0;
        if x > MARGIN && x + width > whole - MARGIN {
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
            svg.line((middle, area.y), (middle, area.bottom()), stroke, "");
        }
        Key::Point(shape, colour) => svg.point(shape, (middle, centre), 4.0, colour, ""),
        Key::Bounds(kind, colour) => svg.bounds(kind, (area.x, area.right()), centre, colour),
        Key::Line(stroke) => svg.line((area.x, centre), (area.right(), centre), stroke, ""),
        Key::Bar(colour) => {
            svg.line((middle, area.y), (middle, area.bottom()), Stroke::solid(colour, 2.5), "");
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
        let above = row.iter().map(|facet| height_above_plot(facet, width)).fold(0.0, f64::max);
        let is_last = index + 1 == rows.len();
        let mut height = 0.0_f64;
        for (column, facet) in row.iter().enumerate() {
            let has_next = rows.get(index + 1).is_some_and(|next| next.len() > column);
            let layout = FacetLayout {
                x: frame.plot_x(column),
                top: y,
                plot_top: y + above,
                width,
                limit: width + (frame.right - MARGIN / 2.0).max(0.0),
                y_numbers: column == 0 || !frame.shared_y,
                x_numbers: chart.shared_x.is_none() || chart.repeats_numbers || !has_next,
                x_title: chart.shared_x.is_none(),
            };
            height = height.max(layout.draw(svg, facet));
        }
        y += above + height;
        y += match &chart.shared_x {
            None => AXIS_TITLE + BELOW,
            Some(_) if is_last => NUMBERS,
            Some(_) if chart.repeats_numbers => NUMBERS + BELOW,
            Some(_) => BELOW,
        };
    }
    if let Some(title) = &chart.shared_x {
        let unit = chart.facets.first().map_or("", |facet| facet.x.title.as_str());
        let title = if unit.is_empty() { title.clone() } else { format!("{title}, {unit}") };
        let middle = (frame.left + frame.width - frame.right) / 2.0;
        svg.text((middle, y + 14.0), TextStyle::new(10.5, MUTED).anchored(Anchor::Middle), &title);
        y += 28.0;
    }
    y
}

fn height_above_plot(facet: &Facet, width: f64) -> f64 {
    let title = if facet.title.is_empty() && facet.facts.is_empty() { 4.0 } else { TITLE };
    let (_, rows) = event_rows(&facet.events, &facet.x, width);
    title + facet.remarks.len() as f64 * REMARK + rows as f64 * EVENT_ROW
}

struct FacetLayout {
    x: f64,
    top: f64,
    plot_top: f64,
    width: f64,
    limit: f64,
    y_numbers: bool,
    x_numbers: bool,
    x_title: bool,
}

impl FacetLayout {
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
            let is_zoomable = strip.marks.iter().any(|mark| matches!(mark, Mark::Paths(_)));
            if is_zoomable {
                svg.begin_axes();
            }
            plot.draw_axes(svg, strip, self.y_numbers, is_last && self.x_numbers);
            if is_zoomable {
                svg.end_axes();
            }
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
        // Labels of spans are drawn above everything else.
        for mark in facet.strips.iter().take(1).flat_map(|strip| &strip.marks) {
            let area = Area { y: plot_top, height: facet.strips[0].height, ..whole };
            Plot { area, x: &facet.x, y: &facet.strips[0].y }.label_span(svg, mark);
        }
        if self.x_title {
            let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
            let limit = (self.width + 40.0).max(self.limit + 24.0);
            svg.text_within((self.x + self.width / 2.0, y + 33.0), style, &facet.x.title, limit);
        }
        y - self.plot_top
    }

    /// Name, facts and run in one line. If they do not fit, the run is left out first, then facts from the end.
    fn draw_title(&self, svg: &mut Svg, facet: &Facet) {
        let baseline = self.top + 14.0;
        let name = lettering::fitted(&facet.title, 13.0 * lettering::BOLD, self.limit);
        svg.text((self.x, baseline), TextStyle::new(13.0, INK).bold(), &name);
        let at = if name.is_empty() { 0.0 } else { lettering::width(&name, 13.0 * lettering::BOLD) + 8.0 };
        let mut facts = facet.facts.as_slice();
        let width = |facts: &[String]| lettering::width(&facts.join(" · "), 11.0);
        let with_run = at + width(facts) + lettering::width(&facet.run, 10.5) + 14.0 <= self.limit;
        while !facts.is_empty() && at + width(facts) > self.limit {
            facts = &facts[..facts.len() - 1];
        }
        svg.text((self.x + at, baseline), TextStyle::new(11.0, MUTED), &facts.join(" · "));
        if with_run {
            let style = TextStyle::new(10.5, MUTED).anchored(Anchor::End);
            svg.text((self.x + self.width, baseline), style, &facet.run);
        }
        for (index, (colour, remark)) in facet.remarks.iter().enumerate() {
            let at = (self.x, baseline + (index + 1) as f64 * REMARK);
            svg.text_within(at, TextStyle::new(10.5, *colour), remark, self.limit);
        }
    }
}

/// For each event the row of its label (`None` if all rows are full) and whether the label is left of its line; and
/// the number of rows.
fn event_rows(events: &[ScenarioEvent], scale: &Scale, width: f64) -> (Vec<Option<(usize, bool)>>, usize) {
    let mut taken: Vec<Vec<(f64, f64)>> = vec![Vec::new(); MOST_EVENT_ROWS];
    let slot = |event: &ScenarioEvent| {
        let x = scale.part(event.t_ms) * width;
        let label = lettering::width(&event.label, 10.5).min(EVENT_LABEL) + 8.0;
        let left = x + label > width + 6.0;
        let span = if left { (x - label, x) } else { (x, x + label) };
        let free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| span.1 < *from || span.0 > *to);
        let row = taken.iter().position(free)?;
        taken[row].push(span);
        Some((row, left))
    };
    let slots = events.iter().map(slot).collect();
    (slots, taken.iter().take_while(|row| !row.is_empty()).count())
}

fn draw_events(svg: &mut Svg, facet: &Facet, area: Area, plot_top: f64) {
    let (slots, rows) = event_rows(&facet.events, &facet.x, area.width);
    let labels_top = area.y - rows as f64 * EVENT_ROW;
    for (event, slot) in facet.events.iter().zip(slots) {
        let x = area.x + facet.x.part(event.t_ms) * area.width;
        let top = slot.map_or(plot_top, |(row, _)| labels_top + row as f64 * EVENT_ROW);
        let stroke = Stroke { colour: INK, width: 1.0, dash: Some((4.0, 3.0)) };
        let tooltip = format!("{} at {}", event.label, duration(event.t_ms));
        svg.line((x, top), (x, area.bottom()), stroke, &tooltip);
        if let Some((_, left)) = slot {
            let (at, anchor) = if left { (x - 4.0, Anchor::End) } else { (x + 4.0, Anchor::Start) };
            let style = TextStyle::new(10.5, INK).anchored(anchor);
            svg.text_within((at, top + 9.5), style, &event.label, EVENT_LABEL);
        }
    }
}
