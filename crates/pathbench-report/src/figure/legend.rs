//! The legend: a row of marks with their meaning, broken into as many rows as it takes.

use super::lettering;
use crate::palette::{Colour, FRAME, HATCH, INK, MUTED, STALL};
use crate::quantity::BoundsKind;
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};
use std::collections::BTreeSet;

const SIZE: f64 = 11.0;
const ROW: f64 = 18.0;
const MARK: f64 = 12.0;

/// A mark of the legend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mark {
    /// An area of this colour.
    Fill(Colour),
    /// The hatched background of a stall.
    Hatch,
    /// The vertical line of an event.
    Event,
    /// A subflow opened.
    Ring,
    /// A subflow closed.
    Cross,
    /// A repetition.
    Dot(Colour),
    /// A median.
    Bar(Colour),
    /// The bounds of a median.
    Bounds(BoundsKind, Colour),
    /// A message that was never acknowledged.
    Triangle(Colour),
    /// A line of this look.
    Line(Stroke),
}

/// Draws `entries` from (`x`, `y`) on within `limit` pixels; returns the height used.
pub(super) fn draw(svg: &mut Svg, (x, y): (f64, f64), limit: f64, entries: &[(Mark, String)]) -> f64 {
    let (mut left, mut top) = (x, y);
    for (mark, text) in entries {
        let text = lettering::fitted(text, SIZE, 220.0);
        let width = MARK + 6.0 + lettering::width(&text, SIZE) + 16.0;
        if left > x && left + width > x + limit {
            (left, top) = (x, top + ROW);
        }
        draw_mark(svg, *mark, (left, top));
        svg.text((left + MARK + 6.0, top + 10.0), TextStyle::new(SIZE, INK), &text);
        left += width;
    }
    if entries.is_empty() { 0.0 } else { top - y + ROW }
}

fn draw_mark(svg: &mut Svg, mark: Mark, (x, y): (f64, f64)) {
    let area = Area { x, y, width: MARK, height: MARK };
    let (middle, centre) = (x + MARK / 2.0, y + MARK / 2.0);
    match mark {
        Mark::Fill(colour) => svg.swatch(area, colour),
        Mark::Hatch => {
            svg.rect(area, STALL);
            svg.hatching(area, 5.0, Stroke::solid(HATCH, 1.0));
        }
        Mark::Event => {
            let stroke = Stroke { colour: INK, width: 1.0, dash: Some((3.0, 2.0)) };
            svg.line((middle, y), (middle, y + MARK), stroke);
        }
        Mark::Ring => ring(svg, (middle, centre), MUTED, String::new()),
        Mark::Cross => cross(svg, (middle, centre), MUTED),
        Mark::Dot(colour) => svg.dot((middle, centre), 4.0, colour, String::new()),
        Mark::Bounds(kind, colour) => bounds(svg, kind, (x, x + MARK), (centre, 3.0), colour),
        Mark::Triangle(colour) => svg.triangle((middle, centre), 4.0, colour),
        Mark::Line(stroke) => svg.line((x - 6.0, centre), (x + MARK, centre), stroke),
        Mark::Bar(colour) => svg.line((middle, y), (middle, y + MARK), Stroke::solid(colour, 2.5)),
    }
}

/// The bounds of a median from left to right, at a height: an interval has arms at its ends, a range has none.
pub(super) fn bounds(
    svg: &mut Svg,
    kind: BoundsKind,
    (low, high): (f64, f64),
    (y, arm): (f64, f64),
    colour: Colour,
) {
    let mut lines = vec![[(low, y), (high, y)]];
    if kind == BoundsKind::Interval {
        lines.extend([low, high].map(|x| [(x, y - arm), (x, y + arm)]));
    }
    svg.segments(lines, Stroke::solid(colour, 1.2));
}

/// The entries for those kinds of bounds that a figure shows.
pub(super) fn of_bounds(
    shown: impl Iterator<Item = BoundsKind>,
    colour: Colour,
) -> impl Iterator<Item = (Mark, String)> {
    let kinds: BTreeSet<BoundsKind> = shown.collect();
    kinds.into_iter().map(move |kind| {
        let words = match kind {
            BoundsKind::Interval => "95 % CI of the median",
            BoundsKind::Range => "range of fewer than 6 runs",
        };
        (Mark::Bounds(kind, colour), words.to_owned())
    })
}

/// A subflow opened.
pub(super) fn ring(svg: &mut Svg, centre: (f64, f64), colour: Colour, tooltip: String) {
    svg.ring(centre, 3.0, Stroke::solid(colour, 1.6), tooltip);
}

/// A subflow closed.
pub(super) fn cross(svg: &mut Svg, (x, y): (f64, f64), colour: Colour) {
    let arm = 2.8;
    let lines = vec![[(x - arm, y - arm), (x + arm, y + arm)], [(x - arm, y + arm), (x + arm, y - arm)]];
    svg.segments(lines, Stroke::solid(colour, 1.6));
}

/// Title and subtitle of a figure; returns the height used.
pub(super) fn heading(svg: &mut Svg, x: f64, limit: f64, title: &str, subtitle: &str) -> f64 {
    let title = lettering::fitted(title, 16.0 * 1.12, limit);
    svg.text((x, 30.0), TextStyle::new(16.0, INK).bold(), &title);
    let subtitle = lettering::fitted(subtitle, 11.5, limit);
    svg.text((x, 49.0), TextStyle::new(11.5, MUTED), &subtitle);
    64.0
}

/// Text of several paragraphs under a figure; returns the height used.
pub(super) fn caption(svg: &mut Svg, (x, y): (f64, f64), lines: &[String]) -> f64 {
    let mut baseline = y;
    for line in lines {
        svg.text((x, baseline), TextStyle::new(SIZE, MUTED).anchored(Anchor::Start), line);
        baseline += 16.0;
    }
    baseline - y
}

/// Paragraphs broken into the lines of a caption.
pub(super) fn caption_lines(paragraphs: &[String], limit: f64) -> Vec<String> {
    paragraphs.iter().flat_map(|paragraph| lettering::wrapped(paragraph, SIZE, limit)).collect()
}

/// A thin line between a figure and its caption.
pub(super) fn rule(svg: &mut Svg, x: f64, y: f64, width: f64) {
    svg.line((x, y), (x + width, y), Stroke::solid(FRAME, 0.6));
}
