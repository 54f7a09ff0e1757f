//! Agents, networks and results: section II-C of the `MultipathTester` paper (De Coninck and Bonaventure, 2019).

use super::document::{Chart, Meta};
use super::scene::{MOST_GROUPS, Scene};
use super::shape::{counts, day, days, percent};
use super::table::{Cell, DataTable};
use crate::columns::Dimension;
use pathbench_report::plot::{Axis, Hue, Marks, Plot, PlotSeries};

pub(super) fn totals(scene: &Scene, meta: Meta) -> Chart {
    let members = scene.columns.members(&scene.selection, Dimension::Mode, (0, MOST_GROUPS));
    let all = scene.selection.len() as u64;
    let rows: Vec<(String, String, u64)> =
        members.members.iter().map(|one| (one.name.clone(), String::new(), one.results)).collect();
    let caption = "As in section II-C of the MultipathTester paper. Stable: pathbench test; mobile: pathbench roam. \
                   Networks: distinct /24 and /48 prefixes of clients in public results.";
    let mut chart = counts(meta.caption(caption).x("results").counting("results"), "Mode", (all, all), &rows);
    let (agents, networks) = scene.columns.distinct(&scene.selection);
    let distinct = |dimension| scene.columns.distinct_values(&scene.selection, dimension);
    let mut table = DataTable::new([("name", ""), ("count", "Number"), ("part", "Part of all results")]);
    for (name, count) in [
        ("results", all),
        ("agents", agents),
        ("networks", networks),
        ("operators", distinct(Dimension::Operator) as u64),
        ("servers", distinct(Dimension::Server) as u64),
    ] {
        table.rows.push(vec![Cell::text(name), Cell::Count(count), Cell::Absent]);
    }
    for (name, _, count) in &rows {
        let part = *count as f64 / all.max(1) as f64;
        let part = Cell::Quantity(part, percent(part));
        table.rows.push(vec![Cell::text(format!("{name} results")), Cell::Count(*count), part]);
    }
    chart.table = table;
    chart
}

pub(super) fn per_day(scene: &Scene, meta: Meta) -> Chart {
    let mut table = DataTable::new([("day", "From"), ("results", "Results")]);
    let Some(period) = scene.period() else { return Chart::new(meta, 0, Plot::default(), table) };
    let mut results = vec![0_u64; period.count];
    scene.columns.for_each_period(&scene.selection, period, |_, index| results[index] += 1);
    let half = f64::from(period.length_s) / 2.0;
    let columns = results.iter().enumerate().map(|(index, count)| {
        let at_s = period.start_s(index);
        table.rows.push(vec![Cell::text(day(at_s)), Cell::Count(*count)]);
        (at_s + half, *count as f64, format!("{}: {count}", day(at_s)))
    });
    let marks = Marks::Columns(columns.collect(), 0.8 / period.count as f64);
    let most = results.iter().max().copied().unwrap_or_default();
    let axes = (Axis::Days(period.start_s(0), period.start_s(period.count)), Axis::Count(most as f64));
    let series = vec![PlotSeries { name: String::new(), hue: Hue::Number(0), is_dashed: false, marks }];
    let meta =
        meta.caption(&format!("Results that began in each {}.", days(period.days()))).counting("results");
    let plot = Plot { axes: Some(axes), series, y_title: "results".to_owned(), ..Plot::default() };
    Chart::new(meta, scene.selection.len() as u64, plot, table)
}

pub(super) fn counts_by(scene: &Scene, meta: Meta, dimension: Dimension) -> Chart {
    let least = scene.least_agents(dimension);
    let members = scene.columns.members(&scene.selection, dimension, (least, MOST_GROUPS));
    let rows: Vec<(String, String, u64)> = members
        .members
        .iter()
        .map(|one| (one.name.clone(), format!("agents: {}", one.agents), one.results))
        .collect();
    let meta = if least > 0 { meta.caption("Groups of fewer than 3 agents are not shown.") } else { meta };
    let meta = match dimension {
        Dimension::Server => meta,
        _ => meta.caption("A result with several networks counts in each."),
    };
    let n = rows.iter().map(|(_, _, count)| count).sum();
    let meta = meta.x("results").counting("results");
    counts(meta, dimension.name(), (n, scene.selection.len() as u64), &rows)
}
