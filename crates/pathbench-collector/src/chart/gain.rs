//! Gain of a second path: goodput of a multipath transport ÷ goodput of the single-path transport of the same
//! protocol on its best path, in the same result and pattern.

use super::document::{Chart, Meta};
use super::scene::{MOST_GROUPS, Scene};
use super::shape::{Curve, Group, Unit, course, distributions, percent, quartiles};
use super::table::Cell;
use crate::columns::{BucketHistogram, Dimension};
use crate::facts::{Bucket, GAIN_PATTERNS, GAIN_TRANSPORTS, gain_index};
use pathbench_record::transport::Transport;
use pathbench_report::plot::Hue;

const DEFINITION: &str = "Gain: goodput of Multipath TCP ÷ best goodput of TCP on one path, and of Multipath QUIC ÷ \
                          QUIC, in the same result and pattern; above 1 the second path helped. Results in which only \
                          one path carried data are left out.";

const fn label(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp | Transport::Mptcp => "mptcp ÷ tcp",
        Transport::Quic | Transport::Mpquic => "mpquic ÷ quic",
    }
}

/// Position in [`GAIN_TRANSPORTS`], label and colour of the transports that the filter admits.
fn shown(scene: &Scene) -> Vec<(usize, &'static str, Hue)> {
    let all = GAIN_TRANSPORTS.into_iter().enumerate();
    let shown = all.filter(|(_, (multipath, _))| scene.shows(*multipath));
    shown.map(|(index, (multipath, _))| (index, label(multipath), Hue::Transport(multipath))).collect()
}

/// All patterns of a transport.
pub(super) fn histogram(scene: &Scene, transport: usize) -> BucketHistogram {
    let mut all = BucketHistogram::default();
    for pattern in 0..GAIN_PATTERNS.len() {
        let column = scene.columns.gain(gain_index(pattern, transport));
        scene.selection.for_each_of(column, |gain| all.add(gain));
    }
    all
}

pub(super) fn distribution(scene: &Scene, meta: Meta) -> Chart {
    let mut helped = Vec::new();
    let curves = shown(scene).into_iter().map(|(index, name, hue)| {
        let values = histogram(scene, index);
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
    let least = scene.least_agents(dimension);
    let members = scene.columns.members(&scene.selection, dimension, (least, MOST_GROUPS));
    let shown = shown(scene);
    let mut values = vec![vec![BucketHistogram::default(); shown.len()]; members.members.len()];
    let patterns = 0..GAIN_PATTERNS.len();
    let columns: Vec<(usize, &[Bucket])> = shown
        .iter()
        .enumerate()
        .flat_map(|(number, (index, _, _))| {
            patterns.clone().map(move |pattern| (number, gain_index(pattern, *index)))
        })
        .map(|(number, index)| (number, scene.columns.gain(index)))
        .collect();
    scene.columns.for_each_member(&scene.selection, &members, |row, member| {
        for (number, column) in &columns {
            values[member][*number].add(column[row]);
        }
    });
    let groups = members.members.iter().zip(values).map(|(member, values)| Group {
        name: member.name.clone(),
        detail: format!("n = {}", values.iter().map(BucketHistogram::total).sum::<u64>()),
        values,
    });
    let series: Vec<(&str, Hue)> = shown.iter().map(|(_, name, hue)| (*name, *hue)).collect();
    let mut meta = meta.caption(DEFINITION).caption("Tick: median; bar: the middle half.").x("gain");
    if dimension == Dimension::Kind {
        meta = meta.caption("A result with networks of several kinds counts in each.");
    }
    if least > 0 {
        meta = meta.caption("Groups of fewer than 3 agents are not shown.");
    }
    quartiles(meta, (Unit::Ratio, dimension.name()), &series, &groups.collect::<Vec<_>>(), Some(1.0))
}

pub(super) fn over_time(scene: &Scene, meta: Meta) -> Chart {
    let meta = meta.caption(DEFINITION);
    let Some(period) = scene.period() else { return course(meta, Unit::Ratio, None, Vec::new()) };
    let series = shown(scene).into_iter().map(|(index, name, hue)| {
        let mut values = vec![BucketHistogram::default(); period.count];
        for pattern in 0..GAIN_PATTERNS.len() {
            let column = scene.columns.gain(gain_index(pattern, index));
            scene
                .columns
                .for_each_period(&scene.selection, period, |row, number| values[number].add(column[row]));
        }
        let values = values.into_iter().enumerate();
        (name, hue, values.map(|(number, values)| (period.start_s(number), values)).collect())
    });
    let series = series.collect();
    let words = format!("Median of each {}.", days(period.days()));
    let span = (period.start_s(0), period.start_s(period.count));
    course(meta.caption(&words), Unit::Ratio, Some(span), series)
}

pub(super) fn days(days: u32) -> String {
    if days == 1 { "day (UTC)".to_owned() } else { format!("{days} days (UTC)") }
}
