//! Figures of the analysis of captures: throughput of each subflow over time with the goodput of the connection, and
//! the payload of packets as histograms.

use super::packet_sizes::histogram;
use super::{Figure, sequence};
use crate::chart::{Chart, Facet, Frame, Key, Mark, Scale, Strip, Stroke, keys, rate_unit, steps, window};
use crate::palette::{Colour, INK, MUTED, UNATTRIBUTED, path_colour};
use crate::quantity::{bytes, counted, rate};
use crate::section::trace::{largest_connections, payload, subflow_name, transport_and_ends};
use crate::series::{Grid, Layer};
use crate::svg;
use pathbench_record::trace::{
    ConnectionDirection, SequenceLine, Series, SubflowDirection, TraceDocument, TracedConnection,
    TracedSubflow,
};

/// Connections with figures.
const MOST_CONNECTIONS: usize = 6;
/// Subflows with a layer or a histogram of their own.
const MOST_SUBFLOWS: usize = 8;
/// Segments, and acknowledgments, in the time-sequence graphs of a page.
const MOST_DRAWN: usize = 40_000;
const PLOT_HEIGHT: f64 = 170.0;
/// A direction with less of the payload has no plot over time.
const SMALL_PART: f64 = 0.01;

/// The figures of a connection: `connection-0-throughput`, `connection-0-segment-sizes`,
/// `connection-0-sequence-upload`, `connection-0-sequence-download`.
pub(crate) struct ConnectionFigures {
    pub(crate) connection: u64,
    pub(crate) figures: Vec<Figure>,
}

/// The figures of the connections with the most payload.
pub(crate) fn figures(document: &TraceDocument, lines: &[SequenceLine]) -> Vec<ConnectionFigures> {
    let shown = largest_connections(document, MOST_CONNECTIONS);
    let graphs = lines.iter().filter(|line| shown.iter().any(|one| one.id == line.connection)).count();
    let most = MOST_DRAWN / graphs.max(1);
    let of_connection = |connection: &TracedConnection| {
        let charts = [("throughput", throughput(connection)), ("segment-sizes", sizes(connection))];
        let charts = charts.map(|(name, chart)| (name.to_owned(), chart)).into_iter();
        let sequences = directions(connection).map(|((name, _), _)| {
            (format!("sequence-{name}"), sequence::chart(connection, lines, name, most))
        });
        let drawn = charts.chain(sequences).filter_map(|(name, chart)| {
            let (chart, name) = (chart?, format!("connection-{}-{name}", connection.id));
            Some(Figure { name, pattern: None, svg: svg::draw(&chart), narrow: None, caption: chart.caption })
        });
        ConnectionFigures { connection: connection.id, figures: drawn.collect() }
    };
    shown.into_iter().map(of_connection).collect()
}

/// The subflows with the most payload, and those without a colour of their own.
fn ranked(connection: &TracedConnection) -> (Vec<&TracedSubflow>, Vec<&TracedSubflow>) {
    let mut all: Vec<&TracedSubflow> = connection.subflows.iter().collect();
    all.sort_by_key(|one| {
        std::cmp::Reverse(one.upload.payload_bytes.saturating_add(one.download.payload_bytes))
    });
    let others = all.split_off(all.len().min(MOST_SUBFLOWS));
    all.sort_by_key(|one| one.id);
    (all, others)
}

type Of = fn(&TracedSubflow) -> &SubflowDirection;

const DIRECTIONS: [(&str, Of); 2] = [("upload", |one| &one.upload), ("download", |one| &one.download)];

/// The directions with a plot over time.
fn directions(
    connection: &TracedConnection,
) -> impl Iterator<Item = ((&'static str, Of), &ConnectionDirection)> {
    let total = payload(connection).max(1) as f64;
    let both = DIRECTIONS.into_iter().zip([&connection.upload, &connection.download]);
    both.filter(move |(_, data)| data.payload_bytes as f64 / total >= SMALL_PART)
}

fn throughput(connection: &TracedConnection) -> Option<Chart> {
    let (shown, others) = ranked(connection);
    let directions: Vec<_> = directions(connection).collect();
    let all = connection.subflows.iter().flat_map(|one| [&one.upload.throughput, &one.download.throughput]);
    let window_ms = all.filter(|series| !series.bytes.is_empty()).map(|series| series.window_s * 1e3);
    let window_ms = window_ms.fold(0.0, f64::max);
    let grid = Grid::of_windows(window_ms, connection.duration_s * 1e3)?;
    let layers: Vec<Vec<Layer>> =
        directions.iter().map(|((_, of), _)| layers(connection, (&shown, &others), *of, grid)).collect();
    let goodput: Vec<Vec<f64>> =
        directions.iter().map(|(_, data)| mbps([&data.goodput].into_iter(), grid)).collect();
    let peaks = layers.iter().zip(&goodput).map(|(layers, goodput)| peak(layers, goodput));
    let peaks: Vec<f64> = peaks.collect();
    let time = Scale::time(grid.until_ms(), Frame::default().plot_width());
    let facet = |index: usize, name: &str, data_bytes: u64| {
        let mut marks = vec![Mark::Stack { grid, layers: layers[index].clone() }];
        if data_bytes > 0 {
            let values = goodput[index].iter().enumerate();
            let points = steps(values.map(|(at, mbps)| (grid.edge_ms(at), grid.edge_ms(at + 1), *mbps)));
            marks.push(Mark::line("goodput of the connection", points, Stroke::solid(INK, 1.1)));
        }
        let scale = Scale::linear(peaks[index], 4, rate_unit(peaks[index]));
        let facts = (data_bytes > 0 && connection.duration_s > 0.0)
            .then(|| format!("goodput {}", rate(data_bytes as f64 * 8e-6 / connection.duration_s)));
        Facet {
            facts: facts.into_iter().collect(),
            ..Facet::new(name, time.clone(), vec![Strip::new(PLOT_HEIGHT, scale, marks)])
        }
    };
    let facets = directions.iter().enumerate();
    let facets: Vec<Facet> =
        facets.map(|(index, ((name, _), data))| facet(index, name, data.data_bytes)).collect();
    let has_goodput = directions.iter().any(|(_, data)| data.data_bytes > 0);
    let legend =
        shown.iter().map(|one| (Key::Fill(path_colour(one.id as usize)), subflow_name(connection, one)));
    let more = keys([
        (Key::Fill(UNATTRIBUTED), "other subflows", !others.is_empty()),
        (Key::Line(Stroke::solid(INK, 1.1)), "goodput of the connection", has_goodput),
    ]);
    let caption = format!(
        "Payload on the wire of each subflow, stacked, with retransmissions and reinjections; the line is data for the first \
         time on the wire. Windows of {}.",
        window(grid.window_ms)
    );
    (!facets.is_empty()).then(|| Chart {
        title: format!("connection {}: throughput by subflow", connection.id),
        subtitle: transport_and_ends(connection),
        legend: legend.chain(more).collect(),
        facets,
        shared_x: Some("time since the first packet of the connection".to_owned()),
        caption: vec![caption],
        ..Chart::default()
    })
}

fn layers(
    connection: &TracedConnection,
    (shown, others): (&[&TracedSubflow], &[&TracedSubflow]),
    of: Of,
    grid: Grid,
) -> Vec<Layer> {
    let layer = |name: String, colour: Colour, series: Vec<&Series>| Layer {
        path: Some(name),
        colour,
        values: mbps(series.into_iter(), grid),
    };
    let own = shown.iter().map(|one| {
        layer(subflow_name(connection, one), path_colour(one.id as usize), vec![&of(one).throughput])
    });
    let rest: Vec<&Series> = others.iter().map(|one| &of(one).throughput).collect();
    let rest = (!rest.is_empty()).then(|| layer("other subflows".to_owned(), UNATTRIBUTED, rest));
    own.chain(rest).collect()
}

/// Rates in the windows of `grid`, which are whole multiples of those of the series.
fn mbps<'a>(series: impl Iterator<Item = &'a Series>, grid: Grid) -> Vec<f64> {
    let mut sums = vec![0.0; grid.windows()];
    for one in series {
        for (index, bytes) in one.bytes.iter().enumerate() {
            let middle_ms = (index as f64 + 0.5) * one.window_s * 1e3;
            if let Some(sum) = sums.get_mut(grid.window_of(middle_ms)) {
                *sum += *bytes as f64;
            }
        }
    }
    let rate = |(index, bytes): (usize, f64)| {
        let length_ms = grid.edge_ms(index + 1) - grid.edge_ms(index);
        // The last window can be short.
        bytes * 8e-3 / length_ms.max(grid.window_ms / 2.0)
    };
    sums.into_iter().enumerate().map(rate).collect()
}

fn peak(layers: &[Layer], goodput: &[f64]) -> f64 {
    let stacked =
        (0..goodput.len()).map(|at| layers.iter().filter_map(|one| one.values.get(at)).sum::<f64>());
    stacked.chain(goodput.iter().copied()).fold(0.0, f64::max)
}

fn sizes(connection: &TracedConnection) -> Option<Chart> {
    let (shown, others) = ranked(connection);
    let all = || shown.iter().flat_map(|one| [&one.upload, &one.download]);
    let longest = all().flat_map(|one| &one.segment_sizes).map(|size| size.bytes).max()?;
    let most = all().flat_map(|one| &one.segment_sizes).map(|size| size.packets).max()?;
    let (lengths, counts) = (Scale::payloads(longest), Scale::counts(most));
    let frame = Frame { shared_y: true, ..Frame::of_columns(2) };
    let facet = |subflow: &TracedSubflow, index: usize| {
        let figures = DIRECTIONS[index].1(subflow);
        let sizes = figures.segment_sizes.iter().map(|size| (size.bytes, size.packets));
        let colour = path_colour(subflow.id as usize);
        let strip = histogram(sizes, (&lengths, &counts, frame.plot_width()), colour, "no payload");
        let title = if index == 0 { subflow_name(connection, subflow) } else { String::new() };
        let packets: u64 = figures.segment_sizes.iter().map(|size| size.packets).fold(0, u64::saturating_add);
        let packets = counted(packets, "packet");
        let words = format!("{packets} with payload, {}", bytes(figures.payload_bytes));
        Facet { remarks: vec![(MUTED, words)], ..Facet::new(title, lengths.clone(), vec![strip]) }
    };
    let facets = shown.iter().flat_map(|one| [0, 1].map(|index| facet(one, index))).collect();
    let more = others.len();
    let text = "Payload of packets as captured: on a sending or receiving host, GSO and GRO packets are longer than the packets on the wire.";
    let left_out = (more > 0).then(|| format!("{more} further subflows are not shown."));
    Some(Chart {
        title: format!("connection {}: payload per packet", connection.id),
        subtitle: transport_and_ends(connection),
        headings: ["upload", "download"].map(str::to_owned).into(),
        facets,
        frame,
        shared_x: Some("payload, bytes (logarithmic)".to_owned()),
        caption: std::iter::once(text.to_owned()).chain(left_out).collect(),
        ..Chart::default()
    })
}
