//! Gain of a second path: goodput of a multipath transport ÷ goodput of the single-path transport of the same
//! protocol on the best single path, in the same result and pattern, where each path was measured alone.

use super::document::{Chart, Meta};
use super::scene::Scene;
use super::shape::{
    Curve, Group, Unit, VOTE_COLUMNS, VOTES, course, distributions, percent, quartiles, vote_bar, vote_cells,
    votes,
};
use super::table::{Cell, DataTable};
use crate::columns::{BucketHistogram, Dimension};
use crate::facts::{Bucket, GAIN_PATTERNS, GAIN_TRANSPORTS, gain_index};
use pathbench_report::plot::{Axis, Hue, Marks, Plot, PlotSeries};

const DEFINITION: &str = "Gain: goodput of Multipath TCP ÷ goodput of TCP on the best single path, and of Multipath \
                          QUIC ÷ QUIC, in the same result and pattern; above 1 the second path helped. Left out: results \
                          in which a path was not measured alone, or only one path was used.";

/// The patterns of `pathbench test`, by their positions in [`GAIN_PATTERNS`].
const DIRECTIONS: [(usize, &str); 2] = [(2, "upload"), (3, "download")];

/// In the order of [`GAIN_TRANSPORTS`].
const LABELS: [&str; GAIN_TRANSPORTS.len()] = ["mptcp ÷ tcp", "mpquic ÷ quic"];

/// Position in [`GAIN_TRANSPORTS`], label and colour of the transports that the filter admits.
fn shown(scene: &Scene) -> Vec<(usize, &'static str, Hue)> {
    let all = (0..).zip(LABELS).zip(GAIN_TRANSPORTS);
    let shown = all.filter(|(_, (multipath, _))| scene.shows(*multipath));
    shown.map(|((index, label), (multipath, _))| (index, label, Hue::Transport(multipath))).collect()
}

/// The gains of a transport in all patterns.
fn columns<'a>(scene: &Scene<'a>, transport: usize) -> Vec<&'a [Bucket]> {
    (0..GAIN_PATTERNS.len()).map(|pattern| scene.columns.gain(gain_index(pattern, transport))).collect()
}

pub(super) fn distribution(scene: &Scene, meta: Meta) -> Chart {
    let mut helped = Vec::new();
    let curves = shown(scene).into_iter().map(|(index, name, hue)| {
        let mut values = BucketHistogram::default();
        for column in columns(scene, index) {
            scene.selection.for_each_of(column, |gain| values.add(gain));
        }
        helped.extend(values.part(|gain| gain > 1.0).map(|part| Cell::Quantity(part, percent(part))));
        Curve::new(name, hue, values)
    });
    let meta = meta
        .caption(DEFINITION)
        .caption("Height: part of all values up to the gain below.")
        .x("gain (logarithmic)")
        .corners("", "right of 1: the second path helped");
    let mut chart = distributions(meta, Unit::Ratio, curves.collect(), Some(1.0));
    chart.table.columns.push(("helped".to_owned(), "gain above 1".to_owned()));
    chart.table.rows.iter_mut().zip(helped).for_each(|(row, cell)| row.push(cell));
    chart
}

/// One vote per agent for each direction, with the results that are left out.
pub(super) fn by_direction(scene: &Scene, meta: Meta) -> Chart {
    let [agents, median, low, high] = VOTE_COLUMNS;
    let mut table = DataTable::new([
        ("group", "Direction"),
        ("series", "Transport"),
        agents,
        median,
        low,
        high,
        ("used", "Second path used"),
        ("measured", "of"),
        ("left_out", "Left out"),
    ]);
    let (mut n, mut high) = (0, 0.0_f64);
    let mut series = Vec::new();
    for (index, name, hue) in shown(scene) {
        let mut bars = Vec::new();
        for (row, (pattern, direction)) in DIRECTIONS.into_iter().enumerate() {
            let gain = gain_index(pattern, index);
            let column = scene.columns.gain(gain);
            let (measured, used) = scene.columns.second_path(&scene.selection, gain);
            if measured == 0 {
                continue;
            }
            let values = scene.columns.histogram(&scene.selection, column).total();
            let votes = votes(scene, column);
            n += values;
            let left_out = measured - values.min(measured);
            let mut cells = vec![Cell::text(direction), Cell::text(name)];
            cells.extend(vote_cells(votes.as_ref(), Unit::Ratio));
            cells.extend([used, measured, left_out].map(Cell::Count));
            table.rows.push(cells);
            let bar = votes.map(|votes| vote_bar(&votes, row, Unit::Ratio));
            high = bar.as_ref().map_or(high, |bar| high.max(bar.to));
            bars.extend(bar);
        }
        if !bars.is_empty() {
            let marks = Marks::Bars(bars);
            series.push(PlotSeries { name: name.to_owned(), hue, is_dashed: false, marks });
        }
    }
    let rows = DIRECTIONS.map(|(_, direction)| (direction.to_owned(), String::new())).to_vec();
    let axes = (n > 0).then_some((Axis::Factor(high), Axis::Rows(rows)));
    let meta = meta.caption(DEFINITION).caption(VOTES).x("gain");
    Chart::new(meta, n, Plot { axes, series, reference: Some(1.0), ..Plot::default() }, table)
}

pub(super) fn quartiles_by(scene: &Scene, meta: Meta, dimension: Dimension) -> Chart {
    let shown = shown(scene);
    let columns: Vec<_> = shown.iter().map(|(index, _, _)| columns(scene, *index)).collect();
    let groups = Group::by_dimension(scene, dimension, &columns);
    let series: Vec<(&str, Hue)> = shown.iter().map(|(_, name, hue)| (*name, *hue)).collect();
    let mut meta = meta.caption(DEFINITION).caption("Tick: median; bar: the middle half.").x("gain");
    if dimension == Dimension::Kind {
        meta = meta.caption("A result with networks of several kinds counts in each.");
    }
    if scene.least_agents(dimension) > 0 {
        meta = meta.caption("Groups of fewer than 3 agents are not shown.");
    }
    quartiles(meta, (Unit::Ratio, dimension.name()), &series, &groups, Some(1.0))
}

pub(super) fn over_time(scene: &Scene, meta: Meta) -> Chart {
    let series = shown(scene).into_iter().map(|(index, name, hue)| (name, hue, columns(scene, index)));
    course(scene, meta.caption(DEFINITION), Unit::Ratio, series.collect())
}
