//! Plots of values that are not from one result, in the style of the figures of a result: distributions, rows and
//! courses over days.

use crate::chart::{
    Chart, Column, Coordinate, Facet, Frame, Key, Label, Mark, Point, Row, Scale, Shape, Strip, Stroke,
    rate_unit,
};
use crate::palette::{self, Colour, INK};
use crate::svg::{self, Svg};
use pathbench_record::time::rfc3339_from_unix;
use pathbench_record::transport::Transport;

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hue {
    Transport(Transport),
    Upload,
    Download,
    /// Of the palette of paths.
    Number(usize),
}

impl Hue {
    fn colour(self) -> Colour {
        match self {
            Self::Transport(transport) => palette::transport_colour(transport),
            Self::Upload => palette::UPLOAD,
            Self::Download => palette::DOWNLOAD,
            Self::Number(number) => palette::path_colour(number),
        }
    }
}

/// An axis that encloses its values.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// Positive milliseconds, logarithmic.
    Milliseconds(f64, f64),
    /// Milliseconds of either sign.
    SignedMilliseconds(f64, f64),
    /// Positive ratios, logarithmic, with 1 in the middle.
    Ratio(f64, f64),
    /// From 0 to 1, as percentages.
    Part,
    /// Mbit/s from 0.
    Rate(f64),
    /// Milliseconds from 0.
    Duration(f64),
    /// Ratios from 0.
    Factor(f64),
    Count(f64),
    /// Unix time, in seconds.
    Days(f64, f64),
    /// Names with a detail.
    Rows(Vec<(String, String)>),
}

impl Axis {
    fn scale(&self) -> Scale {
        match self {
            Self::Milliseconds(low, high) => Scale::logarithmic_ms([*low, *high].into_iter()),
            Self::SignedMilliseconds(low, high) => Scale::signed_ms([*low, *high].into_iter()),
            Self::Ratio(low, high) => Scale::ratio([*low, *high].into_iter()),
            Self::Part => Scale::parts(&[0.0, 0.25, 0.5, 0.75, 1.0]),
            Self::Rate(high) => Scale::linear(*high, 5, rate_unit(*high)),
            Self::Duration(high) => Scale::linear(*high, 5, crate::chart::time_unit(*high)),
            Self::Factor(high) | Self::Count(high) => Scale::linear(*high, 5, ("", 1.0)),
            Self::Days(first, last) => days(*first, *last),
            Self::Rows(rows) => Scale::rows(rows.iter().map(|(name, detail)| Row::new(name, detail.clone()))),
        }
    }
}

const DAY_S: f64 = 86_400.0;

/// Steps between dates that fit below a plot.
const MOST_DAYS: i64 = 5;

/// Ticks at midnight, UTC.
fn days(first: f64, last: f64) -> Scale {
    let (first, last) = (first.clamp(0.0, 4e9), last.clamp(0.0, 4e9));
    let (from, until) = ((first / DAY_S).floor() as i64, (last / DAY_S).ceil() as i64);
    let until = until.max(from + 1);
    let step = [1, 2, 7, 14, 28, 91, 182, 364].into_iter().find(|step| (until - from) / step <= MOST_DAYS);
    let step = step.unwrap_or((until - from) / MOST_DAYS);
    let ticks = (from..=until).step_by(step as usize).map(|day| {
        let date = rfc3339_from_unix(day * 86_400);
        (day as f64 * DAY_S, Some(date.chars().take(10).collect()))
    });
    let ticks = ticks.collect();
    Scale { low: from as f64 * DAY_S, high: until as f64 * DAY_S, ticks, ..Scale::default() }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Marks {
    /// The corners of a line.
    Line(Vec<(f64, f64)>),
    /// A line with a dot at each point.
    Course(Vec<(f64, f64)>),
    Points(Vec<(f64, f64)>),
    /// Columns from 0: position, height, tooltip; and their width as a part of the plot.
    Columns(Vec<(f64, f64, String)>, f64),
    /// Bars of rows.
    Bars(Vec<Bar>),
}

/// A bar in a row, with a tick at the typical value and its value as text.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// From 0.
    pub row: usize,
    pub from: f64,
    pub to: f64,
    pub typical: Option<f64>,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlotSeries {
    /// In the legend unless it is empty.
    pub name: String,
    pub hue: Hue,
    pub is_dashed: bool,
    pub marks: Marks,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plot {
    pub title: String,
    pub subtitle: String,
    pub caption: Vec<String>,
    /// Without axes the plot shows `empty`.
    pub axes: Option<(Axis, Axis)>,
    pub x_title: String,
    pub y_title: String,
    pub series: Vec<PlotSeries>,
    /// A vertical line at this value.
    pub reference: Option<f64>,
    /// A diagonal from corner to corner.
    pub has_diagonal: bool,
    /// Texts in the corners at the top left and the bottom right.
    pub corners: [String; 2],
    pub empty: &'static str,
}

const HEIGHT: f64 = 250.0;
/// In a page, two plots are side by side.
const WIDTH: f64 = 540.0;
const ROW_HEIGHT: f64 = 34.0;
/// Of a bar with its text.
const BAR_HEIGHT: f64 = 13.0;
/// Space for the names of rows.
const ROW_NAMES: (f64, f64) = (110.0, 240.0);
const ROW_NAME_CHARACTER: f64 = 8.0;
const ROW_TEXT: f64 = 76.0;

pub fn draw(plot: &Plot) -> Svg {
    svg::draw(&chart(plot))
}

fn chart(plot: &Plot) -> Chart {
    let mut chart = Chart {
        title: plot.title.clone(),
        subtitle: plot.subtitle.clone(),
        caption: plot.caption.clone(),
        empty: plot.empty,
        frame: Frame { width: WIDTH, ..Frame::default() },
        ..Chart::default()
    };
    let Some((x, y)) = &plot.axes else { return chart };
    let (mut x, mut y_scale) = (x.scale(), y.scale());
    x.title = joined(&plot.x_title, &x.title);
    y_scale.title = joined(&plot.y_title, &y_scale.title);
    let rows = y_scale.rows.len();
    let all_bars = bars_per_row(&plot.series, rows);
    let most_bars = all_bars.iter().max().copied().unwrap_or_default();
    let row_height = ROW_HEIGHT.max((most_bars as f64 + 0.3) * BAR_HEIGHT);
    let height = if rows > 0 { row_height * rows as f64 } else { HEIGHT };
    if rows > 0 {
        let longest =
            y_scale.rows.iter().map(|row| row.label.chars().count().max(row.detail.chars().count() * 3 / 4));
        let left = longest.max().unwrap_or_default() as f64 * ROW_NAME_CHARACTER + 40.0;
        chart.frame = Frame { left: left.clamp(ROW_NAMES.0, ROW_NAMES.1), right: ROW_TEXT, ..chart.frame };
    }
    let width = chart.frame.plot_width();
    let mut marks: Vec<Mark> = Vec::new();
    if let Some(reference) = plot.reference {
        let (low, high) = (y_scale.low, y_scale.high);
        marks.push(Mark::line("", vec![(reference, low), (reference, high)], Stroke::solid(INK, 1.0)));
    }
    if plot.has_diagonal {
        let stroke = Stroke { colour: INK, width: 1.0, dash: Some((4.0, 3.0)) };
        marks.push(Mark::line("", vec![(x.low, y_scale.low), (x.high, y_scale.high)], stroke));
    }
    marks.extend(Label::in_corners(&plot.corners[0], &plot.corners[1]));
    let mut bars_of_row = vec![0; rows];
    for series in &plot.series {
        if !series.name.is_empty() {
            chart.legend.push((key(series), series.name.clone()));
        }
        marks.extend(series_marks(series, width, (&mut bars_of_row, &all_bars, row_height)));
    }
    chart.facets = vec![Facet::new("", x, vec![Strip::new(height, y_scale, marks)])];
    chart
}

fn joined(title: &str, unit: &str) -> String {
    match (title.is_empty(), unit.is_empty()) {
        (false, false) => format!("{title}, {unit}"),
        _ => format!("{title}{unit}"),
    }
}

fn stroke(series: &PlotSeries) -> Stroke {
    let dash = series.is_dashed.then_some((6.0, 3.0));
    Stroke { colour: series.hue.colour(), width: 2.2, dash }
}

fn shape(series: &PlotSeries) -> Shape {
    if series.is_dashed { Shape::Ring } else { Shape::Dot }
}

fn key(series: &PlotSeries) -> Key {
    match &series.marks {
        Marks::Line(_) | Marks::Course(_) => Key::Line(stroke(series)),
        Marks::Points(_) => Key::Point(shape(series), series.hue.colour()),
        Marks::Columns(..) | Marks::Bars(_) => Key::Fill(series.hue.colour()),
    }
}

fn bars_per_row(series: &[PlotSeries], rows: usize) -> Vec<usize> {
    let mut counts = vec![0; rows];
    let bars =
        series.iter().flat_map(|one| if let Marks::Bars(bars) = &one.marks { bars.as_slice() } else { &[] });
    for bar in bars {
        if let Some(count) = counts.get_mut(bar.row) {
            *count += 1;
        }
    }
    counts
}

fn series_marks(series: &PlotSeries, width: f64, rows: (&mut [usize], &[usize], f64)) -> Vec<Mark> {
    let colour = series.hue.colour();
    let dots = |points: &[(f64, f64)], radius| {
        let points = points.iter().map(|(x, y)| Point { x: *x, y: *y, tooltip: String::new() });
        Mark::points(&series.name, (shape(series), colour, radius), points)
    };
    match &series.marks {
        Marks::Line(points) => vec![Mark::line(&series.name, points.clone(), stroke(series))],
        Marks::Course(points) => {
            vec![Mark::line(&series.name, points.clone(), stroke(series)), dots(points, 3.0)]
        }
        Marks::Points(points) => vec![dots(points, 2.6)],
        Marks::Columns(columns, part) => {
            let column = |(x, y, tooltip): &(f64, f64, String)| Column {
                x: *x,
                y: *y,
                weight: *y,
                label: String::new(),
                tooltip: tooltip.clone(),
            };
            let columns = columns.iter().map(column).collect();
            vec![Mark::Columns { columns, width: (part * width).max(1.0), colour }]
        }
        Marks::Bars(bars) => bar_marks(series, bars, rows),
    }
}

/// The bars of a row are below one another.
fn bar_marks(
    series: &PlotSeries,
    bars: &[Bar],
    (drawn, all, row_height): (&mut [usize], &[usize], f64),
) -> Vec<Mark> {
    let colour = series.hue.colour();
    let of_bar = |bar: &Bar| {
        let (Some(index), Some(count)) = (drawn.get_mut(bar.row), all.get(bar.row)) else {
            return Vec::new();
        };
        let y = bar.row as f64 + (*index as f64 + 0.5 + 0.15) / (*count as f64 + 0.3);
        *index += 1;
        let height = (row_height / (*count as f64 + 0.3) - 2.0).min(14.0);
        let tint = if bar.typical.is_some() { colour.pale() } else { colour };
        let (name, tooltip) = (series.name.clone(), bar.text.clone());
        let (from, to) = (bar.from, bar.to);
        let mut marks = vec![Mark::Bar { series: name, from, to, y, height, colour: tint, tooltip }];
        if let Some(x) = bar.typical {
            let (stroke, y) = (Stroke::solid(colour, 3.0), Coordinate::Data(y, 0.0));
            marks.push(Mark::Tick { x, y, half: height / 2.0 + 1.0, stroke, tooltip: String::new() });
        }
        marks.push(Label::value(bar.text.clone(), (Coordinate::High(8.0), Coordinate::Data(y, 4.0))));
        marks
    };
    bars.iter().flat_map(of_bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(axes: (Axis, Axis), marks: Marks) -> Plot {
        let series = PlotSeries { name: "<b>".to_owned(), hue: Hue::Upload, is_dashed: true, marks };
        Plot { title: "<i>".to_owned(), axes: Some(axes), series: vec![series], ..Plot::default() }
    }

    #[test]
    fn every_axis_encloses_odd_values() {
        for (low, high) in [(0.0, 0.0), (f64::NAN, f64::INFINITY), (-1e300, 1e300), (5.0, 5.0)] {
            for axis in [
                Axis::Milliseconds(low, high),
                Axis::SignedMilliseconds(low, high),
                Axis::Ratio(low, high),
                Axis::Rate(high),
                Axis::Duration(high),
                Axis::Factor(high),
                Axis::Count(high),
                Axis::Days(low, high),
            ] {
                let scale = axis.scale();
                assert!(scale.ticks.len() < 40 && scale.part(high).is_finite(), "{axis:?}: {scale:?}");
            }
        }
    }

    #[test]
    fn days_have_their_date() {
        let scale = days(1_790_812_800.0, 1_790_812_800.0 + 3.5 * DAY_S);
        let words: Vec<&str> = scale.ticks.iter().filter_map(|tick| tick.1.as_deref()).collect();
        assert_eq!(words, ["2026-10-01", "2026-10-02", "2026-10-03", "2026-10-04", "2026-10-05"]);
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let rows = Axis::Rows(vec![("<u>".to_owned(), "<s>".to_owned())]);
        let bar = Bar { row: 0, from: 0.0, to: 2.0, typical: Some(1.0), text: "<em>".to_owned() };
        let svg = draw(&plot((Axis::Count(3.0), rows), Marks::Bars(vec![bar]))).to_string();
        for markup in ["<b>", "<i>", "<u>", "<s>", "<em>"] {
            assert!(!svg.contains(markup), "{markup} in {svg}");
            let escaped = markup.replace('<', "&lt;").replace('>', "&gt;");
            assert!(svg.contains(&escaped), "{escaped} in {svg}");
        }
    }

    #[test]
    fn a_plot_without_axes_says_so() {
        let svg = draw(&Plot { empty: "no results yet", ..Plot::default() }).to_string();
        assert!(svg.contains("no results yet"));
    }
}
