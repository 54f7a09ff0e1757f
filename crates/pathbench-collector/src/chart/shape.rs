//! The shapes of charts: cumulative distributions, quartiles of groups, counts.

use super::document::{Chart, Meta};
use super::scene::{MOST_GROUPS, Scene};
use super::table::{Cell, DataTable};
use crate::columns::{BucketHistogram, Dimension};
use crate::facts::Bucket;
use pathbench_record::document::Distribution;
use pathbench_record::statistics::distribution;
use pathbench_record::text::{duration_ms, scaled, three_digits};
use pathbench_record::time::rfc3339_from_unix;
use pathbench_report::plot::{Axis, Bar, Hue, Marks, Plot, PlotSeries};

/// Steps of a curve; more are finer than a pixel.
const MOST_STEPS: usize = 150;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    SignedMilliseconds,
    Mbps,
    Ratio,
    /// Round trips per minute.
    Rpm,
}

impl Unit {
    pub(super) fn words(self, value: f64) -> String {
        match self {
            Self::Milliseconds => duration_ms(value),
            Self::SignedMilliseconds => duration_ms(value).replace('-', "−"),
            Self::Mbps => scaled(value, &[(1e3, "Gbit/s"), (1.0, "Mbit/s"), (1e-3, "kbit/s")]),
            Self::Ratio => format!("{} ×", three_digits(value)),
            Self::Rpm => format!("{} RPM", three_digits(value)),
        }
    }

    /// In the name of a field.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Milliseconds | Self::SignedMilliseconds => "_ms",
            Self::Mbps => "_mbps",
            Self::Ratio => "",
            Self::Rpm => "_rpm",
        }
    }

    const fn axis(self, low: f64, high: f64) -> Axis {
        match self {
            Self::Milliseconds => Axis::Milliseconds(low, high),
            Self::SignedMilliseconds => Axis::SignedMilliseconds(low, high),
            Self::Mbps => Axis::Rate(high),
            Self::Ratio => Axis::Ratio(low, high),
            Self::Rpm => Axis::Count(high),
        }
    }

    const fn axis_of_rows(self, high: f64) -> Axis {
        match self {
            Self::Milliseconds | Self::SignedMilliseconds => Axis::Duration(high),
            Self::Mbps => Axis::Rate(high),
            Self::Ratio => Axis::Factor(high),
            Self::Rpm => Axis::Count(high),
        }
    }

    pub(super) fn cell(self, value: Option<f64>) -> Cell {
        Cell::quantity(value, |value| self.words(value))
    }
}

pub(super) struct Curve {
    pub(super) name: String,
    pub(super) hue: Hue,
    pub(super) is_dashed: bool,
    pub(super) values: BucketHistogram,
}

impl Curve {
    pub(super) fn new(name: &str, hue: Hue, values: BucketHistogram) -> Self {
        Self { name: name.to_owned(), hue, is_dashed: false, values }
    }

    pub(super) fn dashed(self) -> Self {
        Self { is_dashed: true, ..self }
    }
}

pub(super) const QUANTILES: [(f64, &str, &str); 5] = [
    (0.1, "p10", "10th percentile"),
    (0.25, "p25", "25th"),
    (0.5, "p50", "median"),
    (0.75, "p75", "75th"),
    (0.9, "p90", "90th"),
];

fn quantile_columns(unit: Unit) -> impl Iterator<Item = (String, String)> {
    QUANTILES
        .into_iter()
        .map(move |(_, name, heading)| (format!("{name}{}", unit.suffix()), heading.to_owned()))
}

fn quantile_cells(values: &BucketHistogram, unit: Unit) -> impl Iterator<Item = Cell> {
    QUANTILES.into_iter().map(move |(q, _, _)| unit.cell(values.quantile(q)))
}

/// Cumulative distributions. Curves without values are left out.
pub(super) fn distributions(meta: Meta, unit: Unit, curves: Vec<Curve>, reference: Option<f64>) -> Chart {
    let curves: Vec<Curve> = curves.into_iter().filter(|curve| curve.values.total() > 0).collect();
    let n = curves.iter().map(|curve| curve.values.total()).sum();
    let ends = |q: f64, pick: fn(f64, f64) -> f64| {
        curves.iter().filter_map(|curve| curve.values.quantile(q)).reduce(pick)
    };
    // On a linear axis, the longest of many would hide all others.
    let edge = if unit == Unit::SignedMilliseconds { 0.03 } else { 0.002 };
    let axes = ends(edge, f64::min).zip(ends(1.0 - edge, f64::max));
    let axes = axes.map(|(low, high)| (unit.axis(low, high), Axis::Part));
    let series = curves.iter().map(|curve| PlotSeries {
        name: format!("{} (n = {})", curve.name, curve.values.total()),
        hue: curve.hue,
        is_dashed: curve.is_dashed,
        marks: Marks::Line(steps(&curve.values)),
    });
    let mut table = DataTable::new([("series", ""), ("n", "n")]);
    table.columns.extend(quantile_columns(unit));
    let mut data =
        DataTable::new([("series", "Series"), ("value", "Value"), ("part", "Part up to the value")]);
    data.columns[1].0 = format!("value{}", unit.suffix());
    for curve in &curves {
        let mut row = vec![Cell::text(&curve.name), Cell::Count(curve.values.total())];
        row.extend(quantile_cells(&curve.values, unit));
        table.rows.push(row);
        data.rows.extend(
            curve
                .values
                .cumulative()
                .into_iter()
                .map(|(value, part)| vec![Cell::text(&curve.name), Cell::Number(value), Cell::Number(part)]),
        );
    }
    let plot = Plot { axes, series: series.collect(), reference, ..Plot::default() };
    Chart::new(meta, n, plot, table).with_data(data)
}

fn steps(values: &BucketHistogram) -> Vec<(f64, f64)> {
    let cumulative = values.cumulative();
    let each = cumulative.len().div_ceil(MOST_STEPS).max(1);
    let mut before = 0.0;
    let corners = cumulative.chunks(each).filter_map(<[_]>::last).flat_map(|(value, part)| {
        let corners = [(*value, before), (*value, *part)];
        before = *part;
        corners
    });
    corners.collect()
}

/// One row of a chart of quartiles, with the values of each series.
pub(super) struct Group {
    name: String,
    values: Vec<BucketHistogram>,
}

impl Group {
    pub(super) fn new(name: &str, values: Vec<BucketHistogram>) -> Self {
        Self { name: name.to_owned(), values }
    }

    /// One group for each value of a dimension; a series has the values of its columns.
    pub(super) fn by_dimension(scene: &Scene, dimension: Dimension, series: &[Vec<&[Bucket]>]) -> Vec<Self> {
        let range = (scene.least_agents(dimension), MOST_GROUPS);
        let members = scene.columns.members(&scene.selection, dimension, range);
        let mut values = vec![vec![BucketHistogram::default(); series.len()]; members.members.len()];
        scene.columns.for_each_member(&scene.selection, &members, |row, member| {
            for (values, columns) in values[member].iter_mut().zip(series) {
                for column in columns {
                    values.add(column[row]);
                }
            }
        });
        members.members.iter().zip(values).map(|(member, values)| Self::new(&member.name, values)).collect()
    }

    fn detail(&self) -> String {
        format!("n = {}", self.values.iter().map(BucketHistogram::total).sum::<u64>())
    }
}

/// Medians with the middle half of the values, for each group and series.
pub(super) fn quartiles(
    meta: Meta,
    (unit, what): (Unit, &str),
    series: &[(&str, Hue)],
    groups: &[Group],
    reference: Option<f64>,
) -> Chart {
    let all = || groups.iter().flat_map(|group| &group.values);
    let n = all().map(BucketHistogram::total).sum();
    let high = all().filter_map(|values| values.quantile(0.75)).reduce(f64::max);
    let shown: Vec<&Group> =
        groups.iter().filter(|group| group.values.iter().any(|values| values.total() > 0)).collect();
    let mut table = DataTable::new([("group", what), ("series", "Transport"), ("n", "n")]);
    table.columns.extend(quantile_columns(unit));
    let mut marks: Vec<Vec<Bar>> = vec![Vec::new(); series.len()];
    for (row, group) in shown.iter().enumerate() {
        for ((index, values), (name, _)) in group.values.iter().enumerate().zip(series) {
            let Some([from, typical, to]) = quartile_values(values) else { continue };
            let bar = Bar { row, from, to, typical: Some(typical), text: unit.words(typical) };
            marks[index].push(bar);
            let mut cells = vec![Cell::text(&group.name), Cell::text(*name), Cell::Count(values.total())];
            cells.extend(quantile_cells(values, unit));
            table.rows.push(cells);
        }
    }
    let rows = shown.iter().map(|group| (group.name.clone(), group.detail())).collect();
    let axes = high.map(|high| (unit.axis_of_rows(high), Axis::Rows(rows)));
    let series = series.iter().zip(marks).filter(|(_, bars)| !bars.is_empty()).map(|((name, hue), bars)| {
        PlotSeries { name: (*name).to_owned(), hue: *hue, is_dashed: false, marks: Marks::Bars(bars) }
    });
    Chart::new(meta, n, Plot { axes, series: series.collect(), reference, ..Plot::default() }, table)
}

fn quartile_values(values: &BucketHistogram) -> Option<[f64; 3]> {
    Some([values.quantile(0.25)?, values.quantile(0.5)?, values.quantile(0.75)?])
}

/// The caption of [`vote_bar`].
pub(super) const VOTES: &str =
    "Tick: median of the agents' medians, one vote each; bar: its 95 % interval, from 6 agents on.";

/// The headings of [`vote_cells`].
pub(super) const VOTE_COLUMNS: [(&str, &str); 4] =
    [("agents", "Agents"), ("p50", "Median"), ("low", "95 % from"), ("high", "to")];

/// The median of the agents' medians of a column, with its interval; `None` without values.
pub(super) fn votes(scene: &Scene, column: &[Bucket]) -> Option<Distribution> {
    distribution(&scene.columns.medians_by_agent(&scene.selection, column))
}

pub(super) fn vote_cells(votes: Option<&Distribution>, unit: Unit) -> [Cell; 4] {
    let interval = votes.and_then(|votes| votes.ci95);
    [
        Cell::Count(votes.map_or(0, |votes| votes.n.into())),
        unit.cell(votes.map(|votes| votes.median)),
        unit.cell(interval.map(|[low, _]| low)),
        unit.cell(interval.map(|[_, high]| high)),
    ]
}

pub(super) fn vote_bar(votes: &Distribution, row: usize, unit: Unit) -> Bar {
    let [from, to] = votes.ci95.unwrap_or([votes.median; 2]);
    Bar { row, from, to, typical: Some(votes.median), text: unit.words(votes.median) }
}

/// One row for each transport with the votes of a measure.
pub(super) fn votes_by_transport(scene: &Scene, meta: Meta, unit: Unit, measure: usize) -> Chart {
    let mut table = DataTable::new([("series", "Transport"), ("n", "n")]);
    table.columns.extend(VOTE_COLUMNS.map(|(name, heading)| (name.to_owned(), heading.to_owned())));
    let (mut n, mut high) = (0, 0.0_f64);
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for transport in &scene.transports {
        let column = scene.columns.figure(measure, *transport);
        let Some(votes) = votes(scene, column) else { continue };
        let values = scene.columns.histogram(&scene.selection, column).total();
        let bar = vote_bar(&votes, rows.len(), unit);
        (n, high) = (n + values, high.max(bar.to));
        let mut row = vec![Cell::text(transport.name()), Cell::Count(values)];
        row.extend(vote_cells(Some(&votes), unit));
        table.rows.push(row);
        rows.push((transport.name().to_owned(), format!("agents: {}", votes.n)));
        let (name, hue) = (transport.name().to_owned(), Hue::Transport(*transport));
        series.push(PlotSeries { name, hue, is_dashed: false, marks: Marks::Bars(vec![bar]) });
    }
    let axes = (n > 0).then_some((unit.axis_of_rows(high), Axis::Rows(rows)));
    Chart::new(meta, n, Plot { axes, series, ..Plot::default() }, table)
}

/// Medians of consecutive periods; each series has a name, a colour, and the values of its columns. A period without
/// values interrupts no line: the next point continues it.
pub(super) fn course(
    scene: &Scene,
    meta: Meta,
    unit: Unit,
    series: Vec<(&'static str, Hue, Vec<&[Bucket]>)>,
) -> Chart {
    let mut table = DataTable::new([("series", "Transport"), ("day", "From"), ("n", "n")]);
    table.columns.extend(quantile_columns(unit));
    let Some(period) = scene.period() else { return Chart::new(meta, 0, Plot::default(), table) };
    let meta = meta.caption(&format!("Median of each {}.", days(period.days())));
    let (mut n, mut high) = (0, 0.0_f64);
    let mut drawn = Vec::new();
    for (name, hue, columns) in series {
        let mut values = vec![BucketHistogram::default(); period.count];
        for column in columns {
            scene
                .columns
                .for_each_period(&scene.selection, period, |row, index| values[index].add(column[row]));
        }
        let mut points = Vec::new();
        for (index, values) in values.iter().enumerate() {
            let (at_s, Some(median)) = (period.start_s(index), values.quantile(0.5)) else { continue };
            points.push((at_s, median));
            (n, high) = (n + values.total(), high.max(median));
            let mut cells = vec![Cell::text(name), Cell::text(day(at_s)), Cell::Count(values.total())];
            cells.extend(quantile_cells(values, unit));
            table.rows.push(cells);
        }
        if !points.is_empty() {
            let marks = Marks::Course(points);
            drawn.push(PlotSeries { name: name.to_owned(), hue, is_dashed: false, marks });
        }
    }
    let span = Axis::Days(period.start_s(0), period.start_s(period.count));
    let axes = (n > 0).then(|| (span, unit.axis_of_rows(high)));
    Chart::new(meta, n, Plot { axes, series: drawn, ..Plot::default() }, table)
}

/// Counts by name, as bars with their part of `all`; the chart is of `n` items.
pub(super) fn counts(meta: Meta, what: &str, (n, all): (u64, u64), rows: &[(String, String, u64)]) -> Chart {
    let mut table =
        DataTable::new([("name", what), (meta.noun, &capitalise(meta.noun)), ("part", "Part of all")]);
    let most = rows.iter().map(|(_, _, count)| *count).max().filter(|most| *most > 0);
    let part = |count: u64| count as f64 / all.max(1) as f64;
    let bar = |(row, (_, _, count)): (usize, &(String, String, u64))| Bar {
        row,
        from: 0.0,
        to: *count as f64,
        typical: None,
        text: percent(part(*count)),
    };
    for (name, _, count) in rows {
        let part = part(*count);
        table.rows.push(vec![Cell::text(name), Cell::Count(*count), Cell::Quantity(part, percent(part))]);
    }
    let names = rows.iter().map(|(name, detail, _)| (name.clone(), detail.clone())).collect();
    let axes = most.map(|most| (Axis::Count(most as f64), Axis::Rows(names)));
    let marks = Marks::Bars(rows.iter().enumerate().map(bar).collect());
    let series = vec![PlotSeries { name: String::new(), hue: Hue::Number(0), is_dashed: false, marks }];
    Chart::new(meta, n, Plot { axes, series, ..Plot::default() }, table)
}

fn capitalise(word: &str) -> String {
    let mut rest = word.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect()
}

pub(super) fn days(days: u32) -> String {
    if days == 1 { "day (UTC)".to_owned() } else { format!("{days} days (UTC)") }
}

/// `2026-10-25` of a Unix time in seconds.
pub(super) fn day(at_s: f64) -> String {
    rfc3339_from_unix(at_s as i64).chars().take(10).collect()
}

pub(super) fn percent(part: f64) -> String {
    format!("{} %", three_digits(part * 100.0))
}
