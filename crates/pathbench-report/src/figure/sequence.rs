//! Time-sequence graphs of a connection, in the manner of tcptrace: segments as vertical lines from their first to their
//! last byte, acknowledgments as a line of steps.

use crate::chart::{Chart, Facet, Frame, Key, Mark, Paths, Scale, Shape, Strip, Stroke, keys};
use crate::palette::{ALARM, Colour, HATCH, INK, path_colour};
use crate::section::trace::{subflow_name, transport_and_ends};
use pathbench_record::trace::{SequenceLine, SequenceSegment, TracedConnection};
use std::collections::BTreeSet;

/// Subflows with a plot of their own.
const MOST_SUBFLOWS: usize = 8;
const DATA_HEIGHT: f64 = 260.0;
const SUBFLOW_HEIGHT: f64 = 200.0;
const ACKNOWLEDGED: Stroke = Stroke::solid(INK, 1.0);
/// Kinds of segments with a dot: the kind, its words, colour and diameter.
const DOTS: [(&str, &str, Colour, f64); 3] = [
    ("retransmission", "retransmission", ALARM, 5.0),
    ("reinjection", "reinjection", INK, 5.0),
    ("out-of-order", "out of order", HATCH, 4.0),
];

/// The graphs of one direction: the data level, then the subflows. `most` limits the segments and the acknowledgments
/// of each graph.
pub(super) fn chart(
    connection: &TracedConnection,
    lines: &[SequenceLine],
    direction: &str,
    most: usize,
) -> Option<Chart> {
    let own = lines.iter().filter(|line| line.connection == connection.id && line.direction == direction);
    let mut own: Vec<&SequenceLine> = own.filter(|line| !line.segments.is_empty()).collect();
    own.sort_by_key(|line| line.subflow);
    own.truncate(MOST_SUBFLOWS + 1);
    let time = Scale::time(connection.duration_s * 1e3, Frame::default().plot_width());
    let facets: Vec<Facet> = own.iter().map(|line| facet(connection, line, &time, most)).collect();
    let segments = || own.iter().flat_map(|line| &line.segments);
    let shown = own.iter().filter_map(|line| line.subflow).chain(segments().filter_map(|one| one.subflow));
    let shown: BTreeSet<u32> = shown.collect();
    let subflows = connection.subflows.iter().filter(|one| shown.contains(&one.id)).take(MOST_SUBFLOWS);
    let legend = subflows.map(|one| (Key::Bar(path_colour(one.id as usize)), subflow_name(connection, one)));
    let dots = DOTS.map(|(kind, words, colour, _)| {
        (Key::Point(Shape::Dot, colour), words, segments().any(|one| one.kind == kind))
    });
    let acknowledged = own.iter().any(|line| line.acknowledgments.len() > 1);
    let more = keys(dots).chain(keys([(Key::Line(ACKNOWLEDGED), "acknowledged by the peer", acknowledged)]));
    let text = "Each vertical line is a segment, from its first to its last byte, at the time of its capture. If \
                not all are drawn, retransmissions and reinjections are left out last. In the page, drag to zoom.";
    (!facets.is_empty()).then(|| Chart {
        title: format!("connection {}: time-sequence graph, {direction}", connection.id),
        subtitle: transport_and_ends(connection),
        legend: legend.chain(more).collect(),
        facets,
        shared_x: Some("time since the first packet of the connection".to_owned()),
        caption: vec![text.to_owned()],
        ..Chart::default()
    })
}

fn facet(connection: &TracedConnection, line: &SequenceLine, time: &Scale, most: usize) -> Facet {
    let segments = line.segments.iter();
    let base = segments.clone().map(|one| one.start).min().unwrap_or_default();
    let high = segments.clone().map(|one| one.end.saturating_sub(base)).max().unwrap_or_default() as f64;
    let graph = Graph { line, start_s: connection.start_s, base };
    let marks = vec![Mark::Paths(graph.paths(most))];
    let every = (line.thinned.max(1) as usize).saturating_mul(step(line.segments.len(), most));
    let facts = if every > 1 { vec![format!("1 of {every} segments drawn")] } else { Vec::new() };
    let subflow = connection.subflows.iter().find(|one| Some(one.id) == line.subflow);
    let title = match (subflow, line.subflow) {
        (Some(subflow), _) => subflow_name(connection, subflow),
        (None, Some(id)) => format!("subflow {id}"),
        (None, None) => "data level".to_owned(),
    };
    let height = if line.subflow.is_some() { SUBFLOW_HEIGHT } else { DATA_HEIGHT };
    let scale = Scale::linear(high, 4, bytes_unit(high));
    Facet { facts, ..Facet::new(title, time.clone(), vec![Strip::new(height, scale, marks)]) }
}

fn bytes_unit(high: f64) -> (&'static str, f64) {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    units.into_iter().find(|(_, factor)| high >= *factor).unwrap_or(("bytes", 1.0))
}

/// Of so many values one is drawn.
fn step(count: usize, most: usize) -> usize {
    count.div_ceil(most.max(1)).max(1)
}

struct Graph<'a> {
    line: &'a SequenceLine,
    start_s: f64,
    /// The lowest sequence number.
    base: u64,
}

impl Graph<'_> {
    fn point(&self, at_s: f64, position: u64) -> (f64, f64) {
        ((at_s - self.start_s) * 1e3, position.saturating_sub(self.base) as f64)
    }

    fn paths(&self, most: usize) -> Vec<Paths> {
        let (dotted, plain): (Vec<_>, Vec<_>) =
            self.line.segments.iter().partition(|one| DOTS.iter().any(|(kind, ..)| *kind == one.kind));
        let thinned = |all: Vec<&'_ SequenceSegment>| -> Vec<SequenceSegment> {
            let step = step(all.len(), most);
            all.into_iter().step_by(step).cloned().collect()
        };
        let (dotted, plain) = (thinned(dotted), thinned(plain));
        let carriers: BTreeSet<Option<u32>> =
            plain.iter().chain(&dotted).map(|one| one.subflow.or(self.line.subflow)).collect();
        let of_carrier = carriers.into_iter().map(|carrier| {
            let own = plain.iter().chain(&dotted);
            let own = own.filter(|one| one.subflow.or(self.line.subflow) == carrier);
            let id = carrier.unwrap_or_default();
            let runs = own.map(|one| vec![self.point(one.at_s, one.start), self.point(one.at_s, one.end)]);
            let stroke = Stroke::solid(path_colour(id as usize), 1.5);
            Paths { series: format!("subflow {id}"), stroke, runs: runs.collect() }
        });
        let dots = DOTS.iter().map(|(kind, words, colour, width)| {
            let own = dotted.iter().filter(|one| one.kind == *kind);
            let runs = own.map(|one| vec![self.point(one.at_s, one.end); 2]);
            Paths {
                series: (*words).to_owned(),
                stroke: Stroke::solid(*colour, *width),
                runs: runs.collect(),
            }
        });
        let acknowledged = Paths {
            series: "acknowledged by the peer".to_owned(),
            stroke: ACKNOWLEDGED,
            runs: vec![self.acknowledged(most)],
        };
        let all = of_carrier.chain([acknowledged]).chain(dots);
        all.filter(|one| one.runs.iter().any(|run| run.len() > 1)).collect()
    }

    fn acknowledged(&self, most: usize) -> Vec<(f64, f64)> {
        let all = &self.line.acknowledgments;
        let step = step(all.len(), most);
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at_s, position) in all.iter().step_by(step) {
            let (x, y) = self.point(*at_s, *position);
            points.extend(points.last().map(|(_, before)| (x, *before)));
            points.push((x, y));
        }
        points
    }
}
