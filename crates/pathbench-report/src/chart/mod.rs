//! A chart as data: facets on shared axes, each a stack of strips with marks in data coordinates. The builders in
//! [`crate::figure`] make charts from results; `svg` and `terminal` draw them.

mod scale;

pub(crate) use scale::{Row, Scale, rate_unit, time_unit, window};

use crate::narrative::ScenarioEvent;
use crate::palette::{Colour, INK, MUTED};
use crate::quantity::BoundsKind;
use crate::series::{Grid, Layer};
use crate::view::View;
use std::collections::BTreeSet;

pub(crate) const WIDTH: f64 = 900.0;
/// The default space to the left of the first column, in pixels.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 20.0;
/// The maximum number of steps of a line; more are finer than a pixel.
const MOST_STEPS: usize = 600;
const GAP: f64 = 26.0;
/// Of a chart on a telephone: its width, and the space for names of rows and for values.
const NARROW: f64 = 400.0;
const NARROW_ROWS: f64 = 130.0;
const NARROW_RIGHT: f64 = 90.0;

#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) legend: Vec<(Key, String)>,
    pub(crate) headings: Vec<String>,
    pub(crate) facets: Vec<Facet>,
    pub(crate) frame: Frame,
    /// The title of the shared horizontal axis; without a title, every facet has its own axis.
    pub(crate) shared_x: Option<String>,
    /// Whether every facet has the numbers of the shared axis, where facets are too tall to follow a line down.
    pub(crate) repeats_numbers: bool,
    pub(crate) empty: &'static str,
    pub(crate) caption: Vec<String>,
}

impl Chart {
    /// Titled with the scenario's name, followed by `what`, and with its description.
    pub(crate) fn from_view(view: &View, what: &str) -> Self {
        let scenario = &view.set.document.scenario;
        let title = format!("{}{what}", scenario.name);
        Self { title, subtitle: scenario.description.clone(), ..Self::default() }
    }
}

impl Chart {
    /// The chart in one column of the width of a telephone. Marks are in data coordinates, so only the frame changes.
    pub(crate) fn narrowed(&self) -> Self {
        let mut chart = self.clone();
        let columns = chart.headings.len();
        for (index, facet) in chart.facets.iter_mut().enumerate().filter(|_| columns > 0) {
            let heading = &self.headings[index % columns];
            // The headings of columns become titles.
            facet.title =
                if facet.title.is_empty() { heading.clone() } else { format!("{}, {heading}", facet.title) };
        }
        chart.headings = Vec::new();
        let is_of_rows =
            chart.facets.iter().any(|facet| facet.strips.iter().any(|strip| !strip.y.rows.is_empty()));
        let left = if is_of_rows { self.frame.left.min(NARROW_ROWS) } else { self.frame.left.min(LEFT) };
        let right = self.frame.right.min(NARROW_RIGHT);
        chart.frame = Frame { width: NARROW, columns: 1, left, right, shared_y: false };
        chart
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// Of the whole picture.
    pub(crate) width: f64,
    pub(crate) columns: usize,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) shared_y: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self { width: WIDTH, columns: 1, left: LEFT, right: RIGHT, shared_y: false }
    }
}

impl Frame {
    pub(crate) fn of_columns(columns: usize) -> Self {
        Self { columns: columns.max(1), ..Self::default() }
    }

    fn left_of(&self, column: usize) -> f64 {
        if column > 0 && self.shared_y { GAP } else { self.left }
    }

    pub(crate) fn plot_width(&self) -> f64 {
        let lefts: f64 = (0..self.columns).map(|column| self.left_of(column)).sum();
        (self.width - lefts - self.columns as f64 * self.right) / self.columns as f64
    }

    pub(crate) fn plot_x(&self, column: usize) -> f64 {
        let lefts: f64 = (0..=column).map(|column| self.left_of(column)).sum();
        lefts + column as f64 * (self.plot_width() + self.right)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Facet {
    pub(crate) title: String,
    pub(crate) facts: Vec<String>,
    pub(crate) run: String,
    pub(crate) remarks: Vec<(Colour, String)>,
    pub(crate) events: Vec<ScenarioEvent>,
    pub(crate) x: Scale,
    pub(crate) strips: Vec<Strip>,
}

impl Facet {
    pub(crate) fn new(title: impl Into<String>, x: Scale, strips: Vec<Strip>) -> Self {
        Self { title: title.into(), x, strips, ..Self::default() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Strip {
    pub(crate) title: String,
    pub(crate) height: f64,
    pub(crate) y: Scale,
    pub(crate) marks: Vec<Mark>,
    pub(crate) empty: Option<String>,
}

impl Strip {
    pub(crate) fn new(height: f64, y: Scale, marks: Vec<Mark>) -> Self {
        Self { title: String::new(), height, y, marks, empty: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) colour: Colour,
    pub(crate) width: f64,
    pub(crate) dash: Option<(f64, f64)>,
}

impl Stroke {
    pub(crate) const fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Dot,
    Ring,
    Cross,
    Triangle,
}

/// A coordinate: a value of the scale, or a distance in pixels from an end of the axis; `Data` is shifted by its second
/// number, in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Coordinate {
    Data(f64, f64),
    Low(f64),
    High(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TextStyle {
    pub(crate) size: f64,
    pub(crate) colour: Colour,
    pub(crate) bold: bool,
    pub(crate) anchor: Anchor,
}

impl TextStyle {
    pub(crate) const fn new(size: f64, colour: Colour) -> Self {
        Self { size, colour, bold: false, anchor: Anchor::Start }
    }

    pub(crate) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(crate) const fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) text: String,
    pub(crate) at: (Coordinate, Coordinate),
    pub(crate) style: TextStyle,
    pub(crate) limit: f64,
}

impl Label {
    pub(crate) fn new(text: impl Into<String>, at: (Coordinate, Coordinate), style: TextStyle) -> Self {
        Self { text: text.into(), at, style, limit: f64::MAX }
    }

    /// Labels at the top left and the bottom right.
    pub(crate) fn in_corners(upper_left: &str, lower_right: &str) -> [Mark; 2] {
        let style = TextStyle::new(10.0, MUTED);
        let label = |text: &str, at, anchor| Mark::Label(Self::new(text, at, style.anchored(anchor)));
        [
            label(upper_left, (Coordinate::Low(6.0), Coordinate::High(-13.0)), Anchor::Start),
            label(lower_right, (Coordinate::High(-6.0), Coordinate::Low(7.0)), Anchor::End),
        ]
    }

    /// The value of a row.
    pub(crate) fn value(text: String, at: (Coordinate, Coordinate)) -> Mark {
        Mark::Label(Self::new(text, at, TextStyle::new(11.0, INK).bold()))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) tooltip: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) weight: f64,
    pub(crate) label: String,
    pub(crate) tooltip: String,
}

/// Lines through points, of one colour. A line between two equal points is a dot of the stroke's width.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) series: String,
    pub(crate) stroke: Stroke,
    pub(crate) runs: Vec<Vec<(f64, f64)>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Mark {
    /// A line through points. A line with a `raise` is that many pixels above its values, unless they are 0.
    Line {
        series: String,
        points: Vec<(f64, f64)>,
        stroke: Stroke,
        raise: f64,
    },
    Area {
        series: String,
        points: Vec<(f64, f64)>,
        colour: Colour,
    },
    Stack {
        grid: Grid,
        layers: Vec<Layer>,
    },
    /// Values above the end of the axis: a triangle at its top, and the value where no higher one takes the space.
    Beyond(Vec<Point>),
    Points {
        series: String,
        shape: Shape,
        colour: Colour,
        radius: f64,
        points: Vec<Point>,
    },
    Bar {
        series: String,
        from: f64,
        to: f64,
        y: f64,
        height: f64,
        colour: Colour,
        tooltip: String,
    },
    Columns {
        columns: Vec<Column>,
        width: f64,
        colour: Colour,
    },
    /// The bounds of a median from left to right, `shift` pixels below `y`.
    Bounds {
        kind: BoundsKind,
        low: f64,
        high: f64,
        y: f64,
        shift: f64,
        colour: Colour,
    },
    Tick {
        x: f64,
        y: Coordinate,
        half: f64,
        stroke: Stroke,
        tooltip: String,
    },
    Span {
        from: f64,
        to: f64,
        hatched: bool,
        tooltip: String,
        labels: Vec<String>,
        colour: Colour,
    },
    /// Many lines in an area that the page can zoom.
    Paths(Vec<Paths>),
    Label(Label),
    Ends {
        x: f64,
        ends: Vec<(f64, Colour, String)>,
    },
}

impl Mark {
    pub(crate) fn line(series: &str, points: Vec<(f64, f64)>, stroke: Stroke) -> Self {
        Self::Line { series: series.to_owned(), points, stroke, raise: 0.0 }
    }

    pub(crate) fn points(
        series: &str,
        (shape, colour, radius): (Shape, Colour, f64),
        points: impl IntoIterator<Item = Point>,
    ) -> Self {
        let (series, points) = (series.to_owned(), points.into_iter().collect());
        Self::Points { series, shape, colour, radius, points }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Key {
    Fill(Colour),
    Hatch,
    Event,
    Point(Shape, Colour),
    Bar(Colour),
    Bounds(BoundsKind, Colour),
    Line(Stroke),
}

pub(crate) fn bounds_keys(
    shown: impl Iterator<Item = BoundsKind>,
    colour: Colour,
) -> impl Iterator<Item = (Key, String)> {
    let kinds: BTreeSet<BoundsKind> = shown.collect();
    kinds.into_iter().map(move |kind| {
        let words = match kind {
            BoundsKind::Interval => "95 % CI of the median",
            BoundsKind::Range => "range of fewer than 6 runs",
        };
        (Key::Bounds(kind, colour), words.to_owned())
    })
}

pub(crate) fn keys<const N: usize>(entries: [(Key, &str, bool); N]) -> impl Iterator<Item = (Key, String)> {
    entries.into_iter().filter(|entry| entry.2).map(|(key, text, _)| (key, text.to_owned()))
}

pub(crate) fn steps(values: impl Iterator<Item = (f64, f64, f64)>) -> Vec<(f64, f64)> {
    values.flat_map(|(from, until, value)| [(from, value), (until, value)]).collect()
}

/// The corners of a line that rises at each of the sorted `values` to the fraction of `all` up to that value; for
/// many values only as many corners as are visible.
pub(crate) fn cumulative(values: &[f64], all: usize) -> Vec<(f64, f64)> {
    let part = |count: usize| count as f64 / all as f64;
    let mut points = Vec::new();
    let mut before = 0;
    for step in values.chunks(values.len().div_ceil(MOST_STEPS).max(1)) {
        let (at, count) = (step[step.len() - 1], before + step.len());
        points.extend([(at, part(before)), (at, part(count))]);
        before = count;
    }
    points
}
