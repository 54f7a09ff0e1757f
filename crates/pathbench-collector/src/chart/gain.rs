//! Gain of a second path: goodput of a multipath transport ÷ goodput of the single-path transport of the same
//! protocol on its best path, in the same result and pattern.

use super::document::{Chart, Meta};
use super::scene::Scene;
use super::shape::{Curve, Group, Unit, course, distributions, percent, quartiles};
use super::table::Cell;
use crate::columns::{BucketHistogram, Dimension};
use crate::facts::{Bucket, GAIN_PATTERNS, GAIN_TRANSPORTS, gain_index};
use pathbench_report::plot::Hue;

const DEFINITION: &str = "Gain: goodput of Multipath TCP ÷ best goodput of TCP on one path, and of Multipath QUIC ÷ \
                          QUIC, in the same result and pattern; above 1 the second path helped. Results in which only \
                          one path carried data are left out.";

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
