//! One panel of the timeline: the representative run of a label.

use super::axis::{Axis, TimeScale};
use super::{event, legend, lettering};
use crate::narrative::Happening;
use crate::palette::{ALARM, Colour, FRAME, GRID, HATCH, INK, MUTED, Paths, STALL, UNATTRIBUTED};
use crate::quantity::{duration, rate};
use crate::series::{PathSeries, Series, Silence};
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};

/// Height of the lane of subflow marks under the plot.
pub(super) const LANE: f64 = 13.0;

/// A subflow that came or went.
#[derive(Debug)]
pub(super) struct SubflowMark {
    pub(super) t_ms: f64,
    pub(super) opened: bool,
    pub(super) path: Option<String>,
    pub(super) tooltip: String,
}

/// Everything that a panel shows.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) name: String,
    /// Most important first.
    pub(super) facts: Vec<String>,
    pub(super) run: String,
    pub(super) series: Series,
    pub(super) silences: Vec<Silence>,
    pub(super) happenings: Vec<Happening>,
    pub(super) subflows: Vec<SubflowMark>,
    /// Shown instead of a plot when there is nothing to plot.
    pub(super) empty: Option<String>,
}

/// The scales that all panels share.
#[derive(Debug)]
pub(super) struct Scales {
    pub(super) time: TimeScale,
    pub(super) rate: Axis,
    pub(super) rate_unit: (&'static str, f64),
}

/// What a panel has to do with its neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The plot itself; title and event labels lie above it.
    pub(super) plot: Area,
    /// Height between title and plot for event labels.
    pub(super) events_height: f64,
    /// Whether the lane of subflow marks is drawn.
    pub(super) lane: bool,
    /// Whether the time axis has numbers.
    pub(super) bottom: bool,
}

impl Scales {
    fn x(&self, plot: Area, t_ms: f64) -> f64 {
        self.time.x(plot, t_ms)
    }

    fn y(&self, plot: Area, mbps: f64) -> f64 {
        plot.bottom() - self.rate.part(mbps / self.rate_unit.1) * plot.height
    }
}

impl Panel {
    pub(super) fn draw(&self, svg: &mut Svg, place: Place, scales: &Scales, paths: &Paths) {
        self.draw_title(svg, place);
        Self::draw_grid(svg, place, scales);
        if let Some(text) = &self.empty {
            let middle =
                (place.plot.x + place.plot.width / 2.0, place.plot.y + place.plot.height / 2.0 + 4.0);
            svg.text(middle, TextStyle::new(11.5, MUTED).anchored(Anchor::Middle), text);
            return;
        }
        for silence in &self.silences {
            draw_silence(svg, place.plot, scales, *silence);
        }
        self.draw_stack(svg, place.plot, scales, paths);
        svg.line(
            (place.plot.x, place.plot.bottom()),
            (place.plot.right(), place.plot.bottom()),
            Stroke::solid(FRAME, 1.0),
        );
        event::draw(svg, &self.happenings, place.plot, place.events_height, &scales.time);
        for silence in &self.silences {
            label_silence(svg, place.plot, scales, *silence);
        }
        if place.lane {
            self.draw_lane(svg, place.plot, scales, paths);
        }
    }

    /// Name, facts and run in one line; where they do not all fit, the run goes first, then facts from the end.
    fn draw_title(&self, svg: &mut Svg, place: Place) {
        let plot = place.plot;
        let baseline = plot.y - place.events_height - 9.0;
        let name = lettering::fitted(&self.name, 13.0 * 1.12, plot.width);
        svg.text((plot.x, baseline), TextStyle::new(13.0, INK).bold(), &name);
        let name_width = lettering::width(&name, 13.0 * 1.12) + 8.0;
        let run_width = lettering::width(&self.run, 10.5);
        let mut facts = self.facts.as_slice();
        let width = |facts: &[String]| lettering::width(&facts.join(" · "), 11.0);
        let with_run = name_width + width(facts) + run_width + 14.0 <= plot.width;
        while !facts.is_empty() && name_width + width(facts) > plot.width {
            facts = &facts[..facts.len() - 1];
        }
        svg.text((plot.x + name_width, baseline), TextStyle::new(11.0, MUTED), &facts.join(" · "));
        if with_run {
            let style = TextStyle::new(10.5, MUTED).anchored(Anchor::End);
            svg.text((plot.right(), baseline), style, &self.run);
        }
    }

    fn draw_grid(svg: &mut Svg, place: Place, scales: &Scales) {
        let plot = place.plot;
        let small = TextStyle::new(10.5, MUTED);
        for tick in &scales.rate.ticks {
            let y = scales.y(plot, tick * scales.rate_unit.1);
            svg.line((plot.x, y), (plot.right(), y), Stroke::solid(GRID, 1.0));
            svg.text((plot.x - 6.0, y + 3.6), small.anchored(Anchor::End), &scales.rate.number(*tick));
        }
        let below = plot.bottom() + if place.lane { LANE } else { 0.0 };
        for tick in &scales.time.axis.ticks {
            let x = scales.x(plot, tick * scales.time.unit.1);
            svg.line((x, plot.bottom()), (x, plot.bottom() + 4.0), Stroke::solid(FRAME, 1.0));
            if place.bottom {
                svg.text((x, below + 16.0), small.anchored(Anchor::Middle), &scales.time.axis.number(*tick));
            }
        }
        svg.text((plot.x - 6.0, plot.y - 11.0), small.anchored(Anchor::End), scales.rate_unit.0);
    }

    /// The paths on top of each other, as steps: a window has one height, not a slope.
    fn draw_stack(&self, svg: &mut Svg, plot: Area, scales: &Scales, paths: &Paths) {
        let mut floor = vec![0.0; self.series.grid.windows()];
        for PathSeries { path, mbps } in &self.series.paths {
            let ceiling: Vec<f64> = floor.iter().zip(mbps).map(|(low, value)| low + value).collect();
            let colour = path.as_ref().map_or(UNATTRIBUTED, |name| paths.colour(name));
            for (from, to) in stretches(mbps) {
                svg.polygon(self.outline(plot, scales, (from, to), &floor, &ceiling), colour);
            }
            floor = ceiling;
        }
    }

    fn outline(
        &self,
        plot: Area,
        scales: &Scales,
        (from, to): (usize, usize),
        floor: &[f64],
        ceiling: &[f64],
    ) -> Vec<(f64, f64)> {
        let edge = |window: usize| scales.x(plot, self.series.grid.edge_ms(window));
        let step = |window: usize, values: &[f64]| {
            let y = scales.y(plot, values[window]);
            [(edge(window), y), (edge(window + 1), y)]
        };
        let mut points: Vec<(f64, f64)> = (from..to).flat_map(|window| step(window, ceiling)).collect();
        points.extend((from..to).rev().flat_map(|window| {
            let [left, right] = step(window, floor);
            [right, left]
        }));
        points
    }

    fn draw_lane(&self, svg: &mut Svg, plot: Area, scales: &Scales, paths: &Paths) {
        for mark in &self.subflows {
            let centre = (scales.x(plot, mark.t_ms), plot.bottom() + LANE / 2.0 + 2.0);
            let colour = mark.path.as_ref().map_or(MUTED, |name| paths.colour(name));
            if mark.opened {
                legend::ring(svg, centre, colour, mark.tooltip.clone());
            } else {
                legend::cross(svg, centre, colour);
            }
        }
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

fn silence_area(plot: Area, scales: &Scales, silence: Silence) -> Area {
    let (left, right) = (scales.x(plot, silence.from_ms), scales.x(plot, silence.to_ms));
    Area { x: left, y: plot.y, width: (right - left).max(1.5), height: plot.height }
}

fn draw_silence(svg: &mut Svg, plot: Area, scales: &Scales, silence: Silence) {
    let area = silence_area(plot, scales, silence);
    let tooltip = format!("no byte for {}", duration(silence.to_ms - silence.from_ms));
    svg.rect_with_tooltip(area, STALL, tooltip);
    svg.hatching(area, 7.0, Stroke::solid(HATCH, 0.8));
}

/// Says how long a silence was where there is room for it.
fn label_silence(svg: &mut Svg, plot: Area, scales: &Scales, silence: Silence) {
    let area = silence_area(plot, scales, silence);
    let length = duration(silence.to_ms - silence.from_ms);
    let colour: Colour = if silence.fatal { ALARM } else { INK };
    let long = if silence.fatal {
        format!("no byte for {length}, then gave up")
    } else {
        format!("no byte for {length}")
    };
    let fits = |text: &str| lettering::width(text, 10.5) + 14.0 <= area.width;
    let Some(text) = [long, length].into_iter().find(|text| fits(text)) else { return };
    let middle = (area.x + area.width / 2.0, plot.y + plot.height / 2.0);
    let width = lettering::width(&text, 10.5) + 10.0;
    svg.swatch(
        Area { x: middle.0 - width / 2.0, y: middle.1 - 9.0, width, height: 17.0 },
        crate::palette::PAPER,
    );
    let style = TextStyle::new(10.5, colour).anchored(Anchor::Middle);
    svg.text((middle.0, middle.1 + 3.5), style, &text);
}

/// The facts in a panel's title.
pub(super) fn facts(goodput_mbps: Option<f64>, stall_ms: Option<f64>, hung_ms: Option<f64>) -> Vec<String> {
    let stall =
        stall_ms.filter(|stall| *stall > 0.0).map(|stall| format!("longest stall {}", duration(stall)));
    let hung = hung_ms.map(|hung| format!("gave up after {} without a byte", duration(hung)));
    [goodput_mbps.map(rate), stall.filter(|_| hung.is_none()), hung].into_iter().flatten().collect()
}
