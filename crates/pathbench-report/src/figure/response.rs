//! Latency under load: the rate of each direction by path, and below it the delay of every probe, on one time axis with
//! the phases.

use super::selection::{Selection, chosen, encrypted, left_out, paragraph};
use crate::chart::{
    Chart, Coordinate, Facet, Frame, Key, Label, Mark, Point, Scale, Shape, Strip, Stroke, TextStyle, keys,
};
use crate::narrative;
use crate::palette::{ALARM, Colour, INK, MUTED, transport_colour};
use crate::pattern::Kind;
use crate::quantity::{duration, rate};
use crate::rate_axis;
use crate::run_data::RunData;
use crate::series::{self, Grid, Series};
use crate::view::{GroupView, View};
use pathbench_record::direction::Direction;
use pathbench_record::document::{PhaseResponse, ResponsivenessRecord, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::response::{LoadPhase, ProbeKind};
use std::rc::Rc;

const MOST_FACETS: usize = 6;
const MOST_WINDOWS: usize = 300;
/// A series with more probes shows only the slowest of each part of the time axis.
const MOST_POINTS: usize = 600;

struct Axes {
    time: Scale,
    rates: [Scale; 2],
    delays: Scale,
    grid: Grid,
    heights: [f64; 2],
}

pub(crate) fn response_of(view: &View, selection: &Selection) -> Option<Chart> {
    let of_kind = |(group, run): &(&GroupView, &RunRecord)| {
        group.pattern.kind == Kind::Responsiveness && run.responsiveness.is_some()
    };
    let all: Vec<(&GroupView, &RunRecord)> = selection.runs(view).filter(of_kind).collect();
    let shown = &all[..all.len().min(MOST_FACETS)];
    if shown.is_empty() {
        return None;
    }
    let data: Vec<Rc<RunData>> = shown.iter().map(|(_, run)| view.data(run)).collect();
    let end_ms = data.iter().map(|data| series::end_ms(data)).fold(0.0, f64::max);
    let frame = Frame::default();
    let grid = Grid::covering(end_ms, MOST_WINDOWS);
    let highest = |direction| {
        let of_run = |((_, run), data): (&(&GroupView, &RunRecord), &Rc<RunData>)| {
            let windows = series::total_mbps(data, Some(direction), grid);
            rate_axis::end_mbps(view, run, Some(direction), &windows)
        };
        shown.iter().zip(&data).map(of_run).fold(0.0, f64::max)
    };
    let probes = || data.iter().flat_map(|data| &data.messages).filter(|line| line.probe.is_some());
    let heights = if shown.len() > 2 { [54.0, 140.0] } else { [72.0, 190.0] };
    // Space below the shortest delay, and above the longest one for the names of the phases.
    let delays = probes().flat_map(|line| [line.delay_ms * 0.7, line.delay_ms * 1.7]);
    let axes = Axes {
        time: whole_times(end_ms, frame.plot_width()),
        rates: Direction::BOTH.map(|direction| Scale::rates(highest(direction), 2)),
        delays: Scale::logarithmic_ms(delays).with_every_label(heights[1]),
        grid,
        heights,
    };
    let facets = shown
        .iter()
        .zip(&data)
        .filter_map(|((group, run), data)| facet(view, (group, run), data, selection, &axes));
    let is_lost = probes().any(|line| line.unacknowledged);
    let paths = view.paths.names.iter().filter(|name| probes().any(|line| line.path.as_ref() == Some(*name)));
    let paths = paths.map(|name| (Key::Fill(view.paths.colour(name)), name.clone()));
    let legend = paths.chain(keys([
        (Key::Point(Shape::Dot, INK), "self: on the loaded connection", has_kind(shown, ProbeKind::Own)),
        (Key::Point(Shape::Ring, MUTED), "foreign: on a new connection", has_kind(shown, ProbeKind::Foreign)),
        (Key::Point(Shape::Triangle, ALARM), "never answered", is_lost),
    ]));
    Some(Chart {
        caption: caption(view, selection, all.len() - shown.len()),
        legend: legend.collect(),
        facets: facets.collect(),
        frame,
        shared_x: Some("time since the begin of the first phase".to_owned()),
        repeats_numbers: true,
        empty: "There is no run to show.",
        ..selection.chart(view, "rate, and delay of every probe")
    })
}

/// A time axis with whole numbers, if one of about the usual number of ticks has them.
fn whole_times(end_ms: f64, width: f64) -> Scale {
    let is_whole = |scale: &Scale| {
        scale.ticks.iter().all(|(_, label)| label.as_ref().is_none_or(|label| !label.contains('.')))
    };
    let scales = [1.5, 1.2, 0.9].map(|part| Scale::time(end_ms, width * part));
    scales.into_iter().find(is_whole).unwrap_or_else(|| Scale::time(end_ms, width))
}

fn has_kind(shown: &[(&GroupView, &RunRecord)], kind: ProbeKind) -> bool {
    let has = |record: &ResponsivenessRecord| record.delays(kind, None).is_some_and(|one| !one.is_empty());
    shown.iter().any(|(_, run)| run.responsiveness.as_ref().is_some_and(has))
}

fn facet(
    view: &View,
    (group, run): (&GroupView, &RunRecord),
    data: &RunData,
    selection: &Selection,
    axes: &Axes,
) -> Option<Facet> {
    let record = run.responsiveness.as_ref()?;
    let rates = Direction::BOTH.into_iter().zip(&axes.rates).rev();
    let rates = rates.filter(|(direction, _)| record.phases.keys().any(|phase| phase.has_load(*direction)));
    let mut strips: Vec<Strip> = rates
        .map(|(direction, scale)| {
            let series = series::series(run, data, Some(direction), axes.grid, &view.paths);
            rate_strip(record, direction, &series, scale, axes.heights[0])
        })
        .collect();
    let colour = group.transport().map_or(INK, transport_colour);
    // The unit of the first strip is that of all rates.
    strips.iter_mut().skip(1).for_each(|strip| strip.y.title.clear());
    strips.push(delay_strip(view, record, data, colour, axes));
    Some(Facet {
        facts: facts(record),
        run: chosen(group, run),
        events: narrative::scenario_events(data),
        ..Facet::new(selection.name(group), axes.time.clone(), strips)
    })
}

/// The bands of the phases; of the loaded ones, the part that is not measured is not tinted.
fn bands(record: &ResponsivenessRecord) -> Vec<Mark> {
    let band = |(phase, one): (&LoadPhase, &PhaseResponse)| Mark::Span {
        from: one.measured_from_ms,
        to: one.to_ms,
        hatched: false,
        tooltip: format!("{}: measured part", phase.name()),
        labels: Vec::new(),
        colour: MUTED,
    };
    record.phases.iter().map(band).collect()
}

/// The begin of the load of each phase, with its name.
fn beginnings(record: &ResponsivenessRecord, delays: &Scale) -> Vec<Mark> {
    let dashed = Stroke { dash: Some((3.0, 3.0)), ..Stroke::solid(MUTED, 0.8) };
    let style = TextStyle::new(10.0, INK).bold();
    let of_phase = |(phase, one): (&LoadPhase, &PhaseResponse)| {
        let words = match phase {
            LoadPhase::Both => "both directions",
            phase => phase.name(),
        };
        let line = Mark::line("", vec![(one.from_ms, delays.low), (one.from_ms, delays.high)], dashed);
        let at = (Coordinate::Data(one.from_ms, 5.0), Coordinate::High(-12.0));
        [line, Mark::Label(Label::new(words, at, style))]
    };
    record.phases.iter().flat_map(of_phase).collect()
}

fn rate_strip(
    record: &ResponsivenessRecord,
    direction: Direction,
    series: &Series,
    scale: &Scale,
    height: f64,
) -> Strip {
    let mut marks = bands(record);
    marks.push(Mark::Stack { grid: series.grid, layers: series.paths.clone() });
    let beyond = rate_axis::excesses(&series.total_mbps(), scale.high).into_iter().map(|one| {
        let x = f64::midpoint(series.grid.edge_ms(one.window), series.grid.edge_ms(one.window + 1));
        Point { x, y: one.mbps, tooltip: format!("{} at {}", rate(one.mbps), duration(x)) }
    });
    let beyond: Vec<Point> = beyond.collect();
    marks.extend((!beyond.is_empty()).then_some(Mark::Beyond(beyond)));
    Strip { title: direction.name().to_owned(), ..Strip::new(height, scale.clone(), marks) }
}

fn delay_strip(
    view: &View,
    record: &ResponsivenessRecord,
    data: &RunData,
    colour: Colour,
    axes: &Axes,
) -> Strip {
    let mut marks = bands(record);
    marks.extend(beginnings(record, &axes.delays));
    let of = |kind: ProbeKind, path: Option<&str>| -> Vec<&MessageLine> {
        let of_kind =
            data.messages.iter().filter(|line| line.probe == Some(kind) && line.path.as_deref() == path);
        thinned(of_kind.collect(), axes.time.high)
    };
    for path in record.path.keys() {
        marks.extend(connected(path, &of(ProbeKind::Path, Some(path)), view.paths.colour(path)));
    }
    let points = |kind: ProbeKind, look: (Shape, Colour, f64)| {
        let lines = of(kind, None);
        let answered = lines.into_iter().filter(|line| !line.unacknowledged);
        Mark::points(kind.name(), look, answered.map(point).collect::<Vec<_>>())
    };
    marks.push(points(ProbeKind::Foreign, (Shape::Ring, MUTED, 2.4)));
    marks.push(points(ProbeKind::Own, (Shape::Dot, colour, 2.2)));
    let lost = data.messages.iter().filter(|line| line.probe.is_some() && line.unacknowledged);
    let lost: Vec<Point> = lost.map(point).collect();
    marks.push(Mark::points("lost", (Shape::Triangle, ALARM, 3.4), lost));
    let empty = data.messages.is_empty().then(|| "no probe was sent".to_owned());
    Strip { title: "delay".to_owned(), empty, ..Strip::new(axes.heights[1], axes.delays.clone(), marks) }
}

/// A line through answered probes; a lost one interrupts it.
fn connected(path: &str, lines: &[&MessageLine], colour: Colour) -> Vec<Mark> {
    let parts = lines.split(|line| line.unacknowledged).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let points = part.iter().map(|line| (line.due_ms, line.delay_ms)).collect();
            Mark::line(path, points, Stroke::solid(colour, 1.4))
        })
        .collect()
}

fn point(line: &MessageLine) -> Point {
    let kind = line.probe.map_or("probe", ProbeKind::name);
    let tooltip =
        format!("{kind} {}: {}, at {}", line.sequence, duration(line.delay_ms), duration(line.due_ms));
    Point { x: line.due_ms, y: line.delay_ms, tooltip }
}

fn thinned(lines: Vec<&MessageLine>, end_ms: f64) -> Vec<&MessageLine> {
    if lines.len() <= MOST_POINTS || end_ms <= 0.0 {
        return lines;
    }
    let part = |line: &MessageLine| (line.due_ms / end_ms * MOST_POINTS as f64) as usize;
    let parts = lines.chunk_by(|one, other| part(one) == part(other));
    parts.filter_map(|part| part.iter().copied().max_by(|a, b| a.delay_ms.total_cmp(&b.delay_ms))).collect()
}

/// The medians of `self` while idle and under load.
fn facts(record: &ResponsivenessRecord) -> Vec<String> {
    let of_phase = |phase: &LoadPhase| {
        let delay = record.own.get(phase)?.p50_ms?;
        Some(format!("{} {}", phase.name(), duration(delay)))
    };
    let medians: Vec<String> = LoadPhase::ALL.iter().filter_map(of_phase).collect();
    if medians.is_empty() { Vec::new() } else { vec![format!("self, median: {}", medians.join(", "))] }
}

fn caption(view: &View, selection: &Selection, missing: usize) -> Vec<String> {
    let groups = view.groups.iter().filter(|group| selection.has(group));
    let mut paragraphs: Vec<String> = groups
        .take(MOST_FACETS)
        .map(|group| {
            let story = narrative::story(view, group);
            format!("{} {}.", story.label, story.headline)
        })
        .collect();
    let lines = "Height of the rate: goodput, in the colours of the paths. Below it every probe, by the time at which it \
                 was due: lines are UDP datagrams on each path. Dashed: the begin of the load. Tinted: the measured part \
                 of each phase; before it is slow start, after it a pause without load.";
    paragraphs.push(paragraph(&[lines, &left_out(missing, "run"), &encrypted(view)]));
    paragraphs
}
