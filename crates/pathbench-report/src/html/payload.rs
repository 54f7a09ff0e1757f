//! The data of the explorer: windows of every run as plain JSON for the first paint, all samples of a run compressed.

use super::columns::{Column, Tables};
use crate::narrative;
use crate::pattern::Figure;
use crate::quantity::Unit;
use crate::rate_axis;
use crate::run_data::{RunData, has_delays};
use crate::series::{self, Grid};
use crate::view::{GroupView, View};
use pathbench_record::direction::{Direction, LinkDirection};
use pathbench_record::document::RunRecord;
use pathbench_record::end::MessageLine;
use pathbench_record::sample::{PathState, Sample, Side};
use pathbench_record::statistics;
use pathbench_record::text::printable;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// Runs beyond this number have no data in the page.
pub(super) const MOST_RUNS: usize = 1000;
/// Base64 bytes of all samples of a result; representative runs come first.
pub(super) const MOST_BYTES: usize = 10 << 20;

/// Windows of a run in the plain part, and their limit over all runs.
const MOST_WINDOWS: usize = 400;
const FEWEST_WINDOWS: usize = 50;
const ALL_WINDOWS: usize = 120_000;
/// Windows of a run in the compressed part.
const MOST_FINE_WINDOWS: usize = 6000;
/// Rows of a table. A longer one loses its middle rows evenly.
const MOST_ROWS: usize = 50_000;
const MOST_EVENTS: usize = 60;
const MOST_SILENCES: usize = 100;
const LONGEST_TEXT: usize = 200;

pub(super) struct Payload {
    pub(super) index: Value,
    /// Position of the run in `index.runs` → its compressed samples.
    pub(super) runs: Vec<(usize, Value)>,
}

impl Payload {
    pub(super) fn new(view: &View) -> Self {
        let members = members(view);
        let shown = &members[..members.len().min(MOST_RUNS)];
        let windows = (ALL_WINDOWS / shown.len().max(1)).clamp(FEWEST_WINDOWS, MOST_WINDOWS);
        let mut bytes = 0;
        let mut runs = Vec::new();
        let mut full = Vec::new();
        let mut has_queues = false;
        for (position, member) in shown.iter().enumerate() {
            let data = view.data(member.run);
            has_queues |= !data.links.is_empty();
            let mut plain = plain(view, member, &data, windows);
            if bytes < MOST_BYTES {
                let samples = samples(view, member.run, &data);
                let length = samples["zlib"].as_str().map_or(0, str::len);
                // Later, shorter ones do not replace one that is too long: order decides.
                bytes += length;
                if bytes <= MOST_BYTES {
                    plain["full"] = json!(true);
                    full.push((position, samples));
                }
            }
            runs.push(plain);
        }
        let names = view.paths.names.iter().map(|name| text(name));
        let index = json!({
            "paths": names.collect::<Vec<_>>(),
            "groups": view.groups.iter().map(group).collect::<Vec<_>>(),
            "runs": runs,
            "all_runs": members.len(),
            "has_queues": has_queues,
        });
        Self { index, runs: full }
    }
}

struct Member<'a> {
    group: usize,
    run: &'a RunRecord,
    representative: bool,
}

/// All runs: first the representative run of each group, then the others, group by group.
fn members<'a>(view: &View<'a>) -> Vec<Member<'a>> {
    let mut members = Vec::new();
    for (group, one) in view.groups.iter().enumerate() {
        let chosen = one.representative();
        let of_group = one.runs.iter().map(|run| Member {
            group,
            run,
            representative: chosen.is_some_and(|chosen| std::ptr::eq(chosen, *run)),
        });
        members.extend(of_group);
    }
    members.sort_by_key(|member| !member.representative);
    members
}

fn text(text: &str) -> String {
    printable(text, LONGEST_TEXT)
}

fn group(group: &GroupView) -> Value {
    let figures = group.pattern.figures().iter().filter_map(|figure| {
        let values = group.values(figure);
        let at = |p| statistics::quantile(&values, p);
        let quartiles = [at(0.25), at(0.5), at(0.75)];
        (!values.is_empty()).then(|| {
            let figures = json!({ "title": figure.title, "unit": unit(figure.unit), "quartiles": quartiles,
                "ci95": group.figure(figure.name).and_then(|found| found.ci95) });
            (figure.name.to_owned(), figures)
        })
    });
    let transport = group.transport().map_or_else(String::new, |one| one.to_string());
    json!({
        "name": text(&group.name()),
        "label": text(group.label),
        "transport": transport,
        "variant": text(&crate::view::variant_text(group.variant)),
        "pattern": text(group.pattern.name),
        "messages": group.pattern.is_of_messages(),
        "figures": figures.collect::<Map<_, _>>(),
    })
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Rate => "Mbit/s",
        Unit::Duration => "ms",
        Unit::Bytes => "bytes",
        Unit::Percent => "part",
        Unit::Ratio => "",
    }
}

/// Four significant digits: a pixel is coarser.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 { (value * scale).round() / scale } else { value }
}

fn plain(view: &View, member: &Member, data: &RunData, windows: usize) -> Value {
    let run = member.run;
    let grid = Grid::covering(series::end_ms(data), windows);
    let events = events(view, data);
    let silences = series::silences(run, data, None);
    let silences = silences.iter().take(MOST_SILENCES);
    let pattern = view.groups[member.group].pattern;
    let figures: Vec<(&Figure, f64)> = pattern
        .figures()
        .iter()
        .filter_map(|figure| Some((figure, (figure.of_run)(run).filter(|value| value.is_finite())?)))
        .collect();
    let values = figures.iter().map(|(figure, value)| (figure.name.to_owned(), json!(value)));
    // Rounded once, by the same code as in the tables.
    let texts =
        figures.iter().map(|(figure, value)| (figure.name.to_owned(), json!((figure.unit.words())(*value))));
    json!({
        "id": text(&run.id),
        "group": member.group,
        "repetition": run.repetition,
        "representative": member.representative,
        "valid": run.valid,
        "because": text(&run.invalid_because.join("; ")),
        "completed": run.completed,
        "error": run.error.as_deref().map(text),
        "end_ms": rounded_time(end_ms(data)),
        "goodput": goodput(view, run, data, grid),
        "silences": silences.map(|one| json!([rounded_time(one.from_ms), rounded_time(one.to_ms)])).collect::<Vec<_>>(),
        "events": events.iter().take(MOST_EVENTS).collect::<Vec<_>>(),
        "more_events": events.len().saturating_sub(MOST_EVENTS),
        "figures": values.collect::<Map<_, _>>(),
        "texts": texts.collect::<Map<_, _>>(),
    })
}

/// The end of the time axis: the lines are sorted by time.
fn end_ms(data: &RunData) -> f64 {
    let ends = [
        data.samples.last().map(|line| line.t_ms),
        data.messages.last().map(|line| line.due_ms),
        data.links.last().map(|line| line.t_ms),
    ];
    ends.into_iter().flatten().fold(series::end_ms(data), f64::max)
}

fn rounded_time(t_ms: f64) -> f64 {
    (t_ms * 100.0).round() / 100.0
}

/// A path's index in `index.paths`; −1 for bytes without a known path.
fn path_index(view: &View, path: Option<&str>) -> i64 {
    path.map(|name| view.paths.rank(name))
        .filter(|rank| *rank < view.paths.names.len())
        .map_or(-1, |rank| rank as i64)
}

fn goodput(view: &View, run: &RunRecord, data: &RunData, grid: Grid) -> Value {
    let found = series::series(run, data, None, grid, &view.paths);
    let layers = found.paths.iter().map(|layer| {
        let values: Vec<f64> = layer.values.iter().copied().map(rounded).collect();
        json!({ "path": path_index(view, layer.path.as_deref()), "mbps": values })
    });
    let limit = rate_axis::limit_mbps(view, run, None, &found.total_mbps());
    let limit = limit.filter(|limit| limit.is_finite());
    json!({ "window_ms": grid.window_ms, "end_ms": rounded_time(grid.until_ms()), "limit_mbps": limit,
        "layers": layers.collect::<Vec<_>>() })
}

fn events(view: &View, data: &RunData) -> Vec<Value> {
    let of_scenario = narrative::scenario_events(data).into_iter().map(|event| {
        let path = path_index(view, event.path.as_deref());
        (event.t_ms, json!([rounded_time(event.t_ms), "event", path, text(&event.label)]))
    });
    let of_paths = narrative::subflow_marks(data).into_iter().map(|(t_ms, opened, event)| {
        let name = event.path.as_deref();
        let words = narrative::subflow_words(event, opened);
        let label = name.map_or_else(|| words.to_owned(), |name| format!("{name}: {words}"));
        let kind = if opened { "opened" } else { "closed" };
        (t_ms, json!([rounded_time(t_ms), kind, path_index(view, name), text(&label)]))
    });
    let mut all: Vec<(f64, Value)> = of_scenario.chain(of_paths).filter(|(t_ms, _)| *t_ms >= 0.0).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter().map(|(_, event)| event).collect()
}

fn samples(view: &View, run: &RunRecord, data: &RunData) -> Value {
    let mut tables = Tables::default();
    let grid = Grid::split(series::end_ms(data), MOST_FINE_WINDOWS);
    for layer in series::series(run, data, None, grid, &view.paths).paths {
        let about = json!({ "kind": "goodput", "path": path_index(view, layer.path.as_deref()),
            "window_ms": grid.window_ms, "end_ms": rounded_time(grid.until_ms()) });
        tables.add(about, vec![("mbps", Column::Gauge(layer.values))]);
    }
    add_paths(view, data, &mut tables);
    add_messages(run, data, &mut tables);
    add_links(view, data, &mut tables);
    tables.into_value()
}

/// The state of a path at one end: over its open subflows, sums of windows and bytes in flight, mean RTT, and the MSS of
/// the latest sample; the growth of the counters since the row before.
#[derive(Default)]
struct PathRows {
    t_ms: Vec<f64>,
    gauges: [Vec<f64>; 4],
    counts: [Vec<u64>; 2],
    /// By stream and subflow.
    subflows: HashMap<(u32, u32), Subflow>,
    open: u64,
    /// Integers, so that the order of additions does not matter: window, bytes in flight, RTT in µs, measured RTTs.
    sums: [u128; 4],
}

#[derive(Clone, Copy, Default)]
struct Subflow {
    open: bool,
    parts: [u64; 4],
    counters: [u64; 2],
}

const GAUGES: [&str; 4] = ["cwnd_bytes", "in_flight_bytes", "srtt_ms", "mss_bytes"];
const COUNTS: [&str; 2] = ["acked_bytes", "received_bytes"];

impl PathRows {
    fn add(&mut self, sample: &Sample) {
        let figures = &sample.figures;
        let rtt_us = (figures.srtt_ms * 1e3) as u64;
        let open = figures.state == PathState::Open;
        let now = Subflow {
            open,
            parts: if open {
                [figures.cwnd_bytes, figures.in_flight_bytes, rtt_us, u64::from(rtt_us > 0)]
            } else {
                [0; 4]
            },
            counters: [figures.payload_acked(), figures.bytes_received],
        };
        // Counters are differenced for each subflow, before they are summed: a path that is opened again starts at 0.
        let before = self.subflows.insert((sample.stream, figures.subflow), now).unwrap_or_default();
        self.open = self.open + u64::from(now.open) - u64::from(before.open);
        for (index, sum) in self.sums.iter_mut().enumerate() {
            *sum = *sum + u128::from(now.parts[index]) - u128::from(before.parts[index]);
        }
        if self.t_ms.last().is_none_or(|last| *last < sample.t_ms) {
            self.t_ms.push(sample.t_ms);
            self.gauges.iter_mut().for_each(|one| one.push(f64::NAN));
            self.counts.iter_mut().for_each(|one| one.push(0));
        }
        for (index, column) in self.counts.iter_mut().enumerate() {
            if let Some(count) = column.last_mut() {
                *count = count.saturating_add(now.counters[index].saturating_sub(before.counters[index]));
            }
        }
        let state = self.state(figures.mss_bytes);
        for (column, value) in self.gauges.iter_mut().zip(state) {
            if let Some(last) = column.last_mut() {
                *last = value;
            }
        }
    }

    fn state(&self, mss_bytes: u32) -> [f64; 4] {
        if self.open == 0 {
            return [f64::NAN; 4];
        }
        let [cwnd, in_flight, rtt_us, measured] = self.sums.map(|sum| sum as f64);
        // NaN without a measurement.
        [cwnd, in_flight, rtt_us / measured / 1e3, f64::from(mss_bytes)]
    }
}

fn add_paths(view: &View, data: &RunData, tables: &mut Tables) {
    let mut paths: BTreeMap<(&str, Side), PathRows> = BTreeMap::new();
    for sample in &data.samples {
        paths.entry((sample.path.as_str(), sample.side)).or_default().add(sample);
    }
    let paths = paths.into_iter().map(|((name, side), rows)| (path_index(view, Some(name)), side, rows));
    let mut paths: Vec<(i64, Side, PathRows)> = paths.collect();
    paths.sort_by_key(|(path, side, _)| (*path, *side));
    for (path, side, rows) in paths {
        let kept = kept(rows.t_ms.len());
        let mut columns = vec![("t_ms", Column::Time(picked(&rows.t_ms, kept)))];
        for (name, values) in GAUGES.into_iter().zip(&rows.gauges) {
            columns.push((name, Column::Gauge(picked(values, kept))));
        }
        for (name, values) in COUNTS.into_iter().zip(&rows.counts) {
            columns.push((name, Column::Count(summed(values, kept))));
        }
        tables.add(json!({ "kind": "path", "path": path, "side": side }), columns);
    }
}

/// One row of so many is kept.
fn kept(rows: usize) -> usize {
    rows.div_ceil(MOST_ROWS).max(1)
}

fn picked<T: Copy>(values: &[T], kept: usize) -> Vec<T> {
    values.chunks(kept).filter_map(|some| some.last()).copied().collect()
}

fn summed(values: &[u64], kept: usize) -> Vec<u64> {
    values.chunks(kept).map(|some| some.iter().copied().fold(0, u64::saturating_add)).collect()
}

/// Messages, and the datagrams that arrived if their delays are known.
fn add_messages(run: &RunRecord, data: &RunData, tables: &mut Tables) {
    let arrived = data.datagrams.iter().filter(|line| !line.unacknowledged && has_delays(run));
    let arrived: Vec<&MessageLine> = arrived.collect();
    for direction in Direction::BOTH {
        for unacknowledged in [false, true] {
            let is_wanted = |line: &&MessageLine| {
                line.probe.is_none()
                    && line.direction == direction
                    && line.unacknowledged == unacknowledged
                    && line.due_ms >= 0.0
            };
            let lines = data.messages.iter().chain(arrived.iter().copied());
            let rows: Vec<&MessageLine> = lines.filter(is_wanted).collect();
            // Of neighbours, the slowest message is kept.
            let slowest = rows
                .chunks(kept(rows.len()))
                .filter_map(|some| some.iter().max_by(|a, b| a.delay_ms.total_cmp(&b.delay_ms)));
            let (due, delays) = slowest.map(|line| (line.due_ms, line.delay_ms)).unzip();
            let about = json!({ "kind": "delay", "direction": direction, "unacknowledged": unacknowledged });
            tables.add(about, vec![("t_ms", Column::Time(due)), ("delay_ms", Column::Gauge(delays))]);
        }
    }
}

#[derive(Default)]
struct LinkRows {
    t_ms: Vec<f64>,
    queue_bytes: Vec<f64>,
    dropped: Vec<u64>,
    last_dropped: u64,
}

fn add_links(view: &View, data: &RunData, tables: &mut Tables) {
    let mut links: BTreeMap<(&str, bool), LinkRows> = BTreeMap::new();
    for sample in &data.links {
        let rows = links.entry((&sample.link, sample.direction == LinkDirection::Forward)).or_default();
        rows.t_ms.push(sample.t_ms);
        rows.queue_bytes.push(sample.queue_bytes as f64);
        rows.dropped.push(sample.dropped_packets.saturating_sub(rows.last_dropped));
        rows.last_dropped = sample.dropped_packets;
    }
    for ((link, forward), rows) in links {
        let kept = kept(rows.t_ms.len());
        let about = json!({ "kind": "link", "link": text(link), "path": path_index(view, Some(link)), "forward": forward });
        tables.add(
            about,
            vec![
                ("t_ms", Column::Time(picked(&rows.t_ms, kept))),
                ("queue_bytes", Column::Gauge(picked(&rows.queue_bytes, kept))),
                ("dropped_packets", Column::Count(summed(&rows.dropped, kept))),
            ],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::sample::PathFigures;
    use pathbench_testkit::sample;

    fn of_subflow(t_ms: f64, subflow: u32, bytes: u64, state: PathState) -> Sample {
        let address = ([10, 0, 0, 1], 1).into();
        let figures = PathFigures {
            subflow,
            state,
            bytes_sent: bytes,
            bytes_acked: bytes,
            cwnd_bytes: 100,
            srtt_ms: 10.0 * f64::from(subflow),
            ..PathFigures::new(address, address)
        };
        sample(t_ms, Side::Client, "a", figures)
    }

    #[test]
    fn counters_of_a_path_that_is_opened_again_do_not_jump() {
        let mut rows = PathRows::default();
        for one in [
            of_subflow(0.0, 1, 1000, PathState::Open),
            of_subflow(10.0, 1, 5000, PathState::Open),
            of_subflow(20.0, 1, 5000, PathState::Closed),
            of_subflow(30.0, 2, 300, PathState::Open),
            of_subflow(40.0, 2, 700, PathState::Open),
            of_subflow(40.0, 3, 50, PathState::Open),
        ] {
            rows.add(&one);
        }
        assert_eq!(rows.t_ms, [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(rows.counts[0], [1000, 4000, 0, 300, 450]);
        let texts = |gauge: usize| rows.gauges[gauge].iter().map(f64::to_string).collect::<Vec<_>>();
        assert_eq!(texts(0), ["100", "100", "NaN", "100", "200"], "sum of the open subflows' windows");
        assert_eq!(texts(2), ["10", "10", "NaN", "20", "25"], "mean of their RTTs");
    }

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(
            [1234.56, 0.001_234_56, 0.0, -98_765.0].map(|value| rounded(value).to_string()),
            ["1235", "0.001235", "0", "-98770"]
        );
        assert!(rounded(f64::NAN).is_nan() && rounded(f64::MAX) > 1e308);
    }
}
