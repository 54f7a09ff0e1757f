//! One run: strips under each other on one time axis.

use super::trace::{PathTrace, Sizes, Trace};
use crate::figure::axis::{Axis, TimeScale};
use crate::figure::lettering;
use crate::palette::{Colour, FRAME, GRID, MUTED, Paths};
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};

/// Above each strip: what it shows.
pub(super) const CAP: f64 = 18.0;
/// How far lines of the same height are drawn apart.
const APART: f64 = 1.7;

/// The height of a value of the `rank`th path: a little over those before it, but for nothing, which stays nothing.
fn height_of(value: f64, rank: usize, (plot, axis): (Area, &Axis)) -> f64 {
    let part = axis.part(value);
    let apart = if part > 0.0 { rank.min(4) as f64 * APART } else { 0.0 };
    plot.bottom() - part * plot.height - apart
}

/// What a strip shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strip {
    Size,
    Arrived,
    Resent,
    Backoff,
}

impl Strip {
    fn height(self) -> f64 {
        match self {
            Self::Size => 92.0,
            Self::Arrived => 52.0,
            Self::Resent | Self::Backoff => 26.0,
        }
    }
}

/// Height of a panel with these strips.
pub(super) fn height(strips: &[Strip]) -> f64 {
    strips.iter().map(|strip| strip.height() + CAP).sum()
}

/// The scales that all panels share.
#[derive(Debug)]
pub(super) struct Scales {
    pub(super) time: TimeScale,
    /// Bytes.
    pub(super) size: Axis,
    pub(super) rate: Axis,
    pub(super) rate_unit: (&'static str, f64),
    /// Kilobytes per window.
    pub(super) resent: Axis,
    pub(super) backoff: Axis,
    /// A window in words.
    pub(super) window: String,
}

/// The path MTU: so wide and pale that the MSS shows in it.
pub(super) fn band(colour: Colour) -> Stroke {
    Stroke::solid(colour.paler(0.66), 5.0)
}

/// Draws the strips within `area`; `last` says whether the time axis has its numbers.
pub(super) fn draw(
    svg: &mut Svg,
    trace: &Trace,
    area: Area,
    strips: &[Strip],
    scales: &Scales,
    (paths, last): (&Paths, bool),
) {
    let mut y = area.y;
    for (index, strip) in strips.iter().enumerate() {
        let plot = Area { y: y + CAP, height: strip.height(), ..area };
        let numbers = last && index + 1 == strips.len();
        let (axis, words) = match strip {
            Strip::Size => (&scales.size, "MSS and path MTU, bytes".to_owned()),
            Strip::Arrived => {
                let counted = if trace.in_order { "received in order" } else { "arrived" };
                (&scales.rate, format!("{counted}, {}", scales.rate_unit.0))
            }
            Strip::Resent => (&scales.resent, format!("sent again, kB per {}", scales.window)),
            Strip::Backoff => (&scales.backoff, "back-off of the retransmission timer, steps".to_owned()),
        };
        draw_frame(svg, plot, axis, &words, (&scales.time, numbers));
        match strip {
            Strip::Size => draw_sizes(svg, trace, plot, scales, paths),
            Strip::Arrived => {
                let unit = scales.rate_unit.1;
                draw_windows(svg, trace, (plot, axis), scales, paths, |path, window| {
                    path.mbps[window] / unit
                });
            }
            Strip::Resent => {
                draw_windows(svg, trace, (plot, axis), scales, paths, |path, window| path.resent_kb[window]);
            }
            Strip::Backoff => {
                for (rank, path) in trace.paths.iter().enumerate() {
                    let of = |sizes: &Sizes| f64::from(sizes.backoff);
                    let stroke = Stroke::solid(paths.colour(&path.name), 1.6);
                    draw_steps(svg, (path, rank), trace.end_ms, (plot, axis, &scales.time), stroke, &of);
                }
            }
        }
        y += CAP + strip.height();
    }
}

fn draw_frame(svg: &mut Svg, plot: Area, axis: &Axis, words: &str, (time, numbers): (&TimeScale, bool)) {
    let small = TextStyle::new(10.0, MUTED);
    let cap = lettering::fitted(words, 9.5, plot.width);
    svg.text((plot.x, plot.y - 4.0), TextStyle::new(9.5, MUTED), &cap);
    for tick in &axis.ticks {
        let y = plot.bottom() - axis.part(*tick) * plot.height;
        svg.line((plot.x, y), (plot.right(), y), Stroke::solid(GRID, 1.0));
        svg.text((plot.x - 5.0, y + 3.5), small.anchored(Anchor::End), &axis.number(*tick));
    }
    for tick in &time.axis.ticks {
        let x = time.x(plot, tick * time.unit.1);
        svg.line((x, plot.bottom()), (x, plot.bottom() + 3.0), Stroke::solid(FRAME, 1.0));
        if numbers {
            let at = (x, plot.bottom() + 14.0);
            svg.text(at, small.anchored(Anchor::Middle), &time.axis.number(*tick));
        }
    }
    svg.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), Stroke::solid(FRAME, 1.0));
}

fn draw_sizes(svg: &mut Svg, trace: &Trace, plot: Area, scales: &Scales, paths: &Paths) {
    let place = (plot, &scales.size, &scales.time);
    for (rank, path) in trace.paths.iter().enumerate() {
        let of = |sizes: &Sizes| f64::from(sizes.pmtu_bytes);
        draw_steps(svg, (path, rank), trace.end_ms, place, band(paths.colour(&path.name)), &of);
    }
    for (rank, path) in trace.paths.iter().enumerate() {
        let of = |sizes: &Sizes| f64::from(sizes.mss_bytes);
        let stroke = Stroke::solid(paths.colour(&path.name), 1.8);
        draw_steps(svg, (path, rank), trace.end_ms, place, stroke, &of);
    }
    label_ends(svg, trace, plot, scales, paths);
}

/// The last MSS of each path at the right of the plot, where several lie close to each other under one another.
fn label_ends(svg: &mut Svg, trace: &Trace, plot: Area, scales: &Scales, paths: &Paths) {
    let x = scales.time.x(plot, trace.end_ms).max(plot.x) + 5.0;
    let mut ends: Vec<(f64, &PathTrace, u32)> = trace
        .paths
        .iter()
        .filter_map(|path| {
            let mss = path.steps.last()?.1?.mss_bytes;
            Some((plot.bottom() - scales.size.part(f64::from(mss)) * plot.height, path, mss))
        })
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = f64::MIN;
    for (y, path, mss) in ends {
        let baseline = (y + 3.6).max(lowest + 11.0);
        let style = TextStyle::new(10.5, paths.colour(&path.name)).bold();
        svg.text((x, baseline), style, &mss.to_string());
        lowest = baseline;
    }
}

/// A path's steps as a line that is broken where the path had no subflow.
fn draw_steps(
    svg: &mut Svg,
    (path, rank): (&PathTrace, usize),
    end_ms: f64,
    (plot, axis, time): (Area, &Axis, &TimeScale),
    stroke: Stroke,
    of: &dyn Fn(&Sizes) -> f64,
) {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (index, (from_ms, sizes)) in path.steps.iter().enumerate() {
        let Some(sizes) = sizes else {
            svg.polyline(std::mem::take(&mut points), stroke);
            continue;
        };
        let until_ms = path.steps.get(index + 1).map_or(end_ms, |next| next.0).max(*from_ms);
        let y = height_of(of(sizes), rank, (plot, axis));
        points.extend([(time.x(plot, *from_ms), y), (time.x(plot, until_ms), y)]);
    }
    svg.polyline(points, stroke);
}

fn draw_windows(
    svg: &mut Svg,
    trace: &Trace,
    (plot, axis): (Area, &Axis),
    scales: &Scales,
    paths: &Paths,
    value: impl Fn(&PathTrace, usize) -> f64,
) {
    for (rank, path) in trace.paths.iter().enumerate() {
        let edge = |window: usize| scales.time.x(plot, trace.grid.edge_ms(window));
        let points = (0..trace.grid.windows()).flat_map(|window| {
            let y = height_of(value(path, window), rank, (plot, axis));
            [(edge(window), y), (edge(window + 1), y)]
        });
        svg.polyline(points.collect(), Stroke::solid(paths.colour(&path.name), 1.5));
    }
}
