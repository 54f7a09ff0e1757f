//! A chart as data: facets on shared axes, each a stack of strips with marks in data coordinates. The builders in
//! [`crate::figure`] make charts from results; `svg` and `terminal` draw them.

mod scale;

pub(crate) use scale::{Row, Scale, rate_unit, time_unit, window};

use crate::narrative::ScenarioEvent;
use crate::palette::Colour;
use crate::quantity::BoundsKind;
use crate::series::Grid;
use std::collections::BTreeSet;

pub(crate) const WIDTH: f64 = 900.0;
/// Space left of the first column where no other value is set, in pixels.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 20.0;
/// Space left of a column without numbers of its own.
const GAP: f64 = 26.0;

#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) legend: Vec<(Key, String)>,
    pub(crate) headings: Vec<String>,
    pub(crate) facets: Vec<Facet>,
    pub(crate) frame: Frame,
    /// The title of the horizontal axis that all facets share; without one, every facet has its own axis.
    pub(crate) shared_x: Option<String>,
    pub(crate) empty: &'static str,
    pub(crate) caption: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) columns: usize,
    /// Left of a plot, for the numbers of its vertical axis.
    pub(crate) left: f64,
    pub(crate) right: f64,
    /// Only the first column has numbers on its vertical axes.
    pub(crate) shared_y: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self { columns: 1, left: LEFT, right: RIGHT, shared_y: false }
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
        (WIDTH - lefts - self.columns as f64 * self.right) / self.columns as f64
    }

    pub(crate) fn plot_x(&self, column: usize) -> f64 {
        let lefts: f64 = (0..=column).map(|column| self.left_of(column)).sum();
        lefts + column as f64 * (self.plot_width() + self.right)
    }
}

#[derive(Debug, Clone)]
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
        Self {
            title: title.into(),
            facts: Vec::new(),
            run: String::new(),
            remarks: Vec::new(),
            events: Vec::new(),
            x,
            strips,
        }
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
pub(crate) enum Place {
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

#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) text: String,
    pub(crate) at: (Place, Place),
    pub(crate) anchor: Anchor,
    pub(crate) colour: Colour,
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) limit: f64,
}

impl Label {
    pub(crate) fn new(text: impl Into<String>, at: (Place, Place), anchor: Anchor, colour: Colour) -> Self {
        Self { text: text.into(), at, anchor, colour, size: 10.5, bold: false, limit: f64::MAX }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) tooltip: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// `None` for bytes of no known path.
    pub(crate) path: Option<String>,
    pub(crate) colour: Colour,
    pub(crate) values: Vec<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) weight: f64,
    pub(crate) label: String,
    pub(crate) tooltip: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Mark {
    /// A line through points; a line with a `raise` lies that many pixels over its values, unless they are 0.
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
    /// Layers over each other, as steps: a window has one height.
    Stack {
        grid: Grid,
        layers: Vec<Layer>,
    },
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
    /// The bounds of a median from left to right, `shift` pixels under `y`.
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
        y: Place,
        half: f64,
        stroke: Stroke,
        tooltip: String,
    },
    /// A span of the horizontal axis; the first of `labels` that fits stands in it.
    Span {
        from: f64,
        to: f64,
        hatched: bool,
        tooltip: String,
        labels: Vec<String>,
        colour: Colour,
    },
    Label(Label),
    /// Values at the right end of lines, spread so that they do not overlap.
    Ends {
        x: f64,
        ends: Vec<(f64, Colour, String)>,
    },
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

/// The corners of steps that hold each value from its time to the next one's.
pub(crate) fn steps(values: impl Iterator<Item = (f64, f64, f64)>) -> Vec<(f64, f64)> {
    values.flat_map(|(from, until, value)| [(from, value), (until, value)]).collect()
}
