//! Packet sizes over time, path by path: MSS and path MTU, arrived bytes, retransmissions and back-off.

use super::path_sizes::{PathTrace, Sizes, Trace, is_telling};
use super::{Selection, left_out};
use crate::chart::{Chart, Facet, Frame, Key, Mark, Scale, Strip, Stroke, keys, rate_unit, steps, window};
use crate::narrative;
use crate::palette::{ALARM, Colour, MUTED};
use crate::quantity::{percent, rate};
use crate::series::{self, Grid};
use crate::view::{GroupView, View};
use pathbench_record::document::RunRecord;

const MOST_FACETS: usize = 24;
const MOST_WINDOWS: usize = 200;
/// Pixels between lines of the same value.
const APART: f64 = 1.7;

struct Axes {
    time: Scale,
    sizes: Scale,
    rate: Scale,
    resent: Scale,
    backoff: Scale,
    window: String,
    has_arrived: bool,
    has_resent: bool,
    has_backoff: bool,
}

/// `None` when no selected run says anything about packet sizes.
pub(crate) fn mtu_of(view: &View, selection: &Selection) -> Option<Chart> {
    selection.runs(view).find(|(_, run)| is_telling(run, view.data(run)))?;
    let end_ms = selection.runs(view).map(|(_, run)| series::end_ms(view.data(run))).fold(0.0, f64::max);
    let grid = Grid::covering(end_ms, MOST_WINDOWS);
    let all = selection.runs(view).count();
    let shown: Vec<(&GroupView, &RunRecord)> = selection.runs(view).take(MOST_FACETS).collect();
    let traces: Vec<Trace> =
        shown.iter().map(|(_, run)| Trace::of(run, view.data(run), grid, &view.paths)).collect();
    // At the right there is the last MSS of each path.
    let frame = Frame { right: 46.0, left: 54.0, ..Frame::of_columns(shown.len().min(2)) };
    let most = |of: fn(&Trace) -> f64| traces.iter().map(of).fold(0.0, f64::max);
    let (peak, resent) = (most(Trace::peak_mbps), most(Trace::peak_resent_kb));
    let backoff = most(|trace| f64::from(trace.peak_backoff()));
    let axes = Axes {
        time: Scale::time(grid.until_ms(), frame.plot_width()),
        sizes: Scale::sizes(most(|trace| f64::from(trace.largest_bytes()))),
        rate: Scale::linear(peak, 3, rate_unit(peak)),
        resent: Scale::linear(resent, 1, ("", 1.0)),
        backoff: Scale::linear(backoff, 1, ("", 1.0)),
        window: window(grid.window_ms),
        has_arrived: peak > 0.0,
        has_resent: resent > 0.0,
        has_backoff: backoff > 0.0,
    };
    let facets = shown.iter().zip(&traces);
    let facets = facets.map(|(one, trace)| facet(view, *one, selection, trace, &axes)).collect();
    let names = view.paths.names().iter();
    let names =
        names.filter(|name| traces.iter().flat_map(|trace| &trace.paths).any(|one| one.name == **name));
    let paths = names.map(|name| (Key::Fill(view.paths.colour(name)), name.clone()));
    let events = shown.iter().any(|(_, run)| !narrative::size_events(view.data(run)).is_empty());
    let marks = keys([
        (Key::Line(Stroke::solid(MUTED, 1.8)), "MSS in force", true),
        (Key::Line(band(MUTED)), "path MTU in force", true),
        (Key::Event, "event", events),
    ]);
    Some(Chart {
        legend: paths.chain(marks).collect(),
        caption: caption(&axes.window, all - shown.len()),
        facets,
        frame,
        shared_x: Some("time since the first byte of data".to_owned()),
        ..selection.chart(view, "packet sizes over time")
    })
}

/// The path MTU: so wide and pale that the MSS shows in it.
fn band(colour: Colour) -> Stroke {
    Stroke::solid(colour.paler(0.66), 5.0)
}

fn facet(
    view: &View,
    (group, run): (&GroupView, &RunRecord),
    selection: &Selection,
    trace: &Trace,
    axes: &Axes,
) -> Facet {
    let shares = run.paths.iter().filter(|_| run.paths.len() > 1);
    let shares = shares.map(|path| format!("{} {}", path.name, percent(path.share)));
    let remarks = run.diagnoses.iter().filter(|one| narrative::diagnosis::is_trouble(one));
    let remarks = remarks.map(|one| (ALARM, narrative::diagnosis::finding(one)));
    let counted = if trace.in_order { "received in order" } else { "arrived" };
    let strip = |title: String, height, scale: &Scale, marks| {
        // The unit stands in the strip's title.
        let y = Scale { title: String::new(), ..scale.clone() };
        Strip { title, ..Strip::new(height, y, marks) }
    };
    let strips = [
        Some(strip("MSS and path MTU, bytes".to_owned(), 92.0, &axes.sizes, sizes(view, trace))),
        axes.has_arrived.then(|| {
            let marks = lines(view, trace, 1.5, |path| windows(trace, &path.mbps));
            strip(format!("{counted}, {}", axes.rate.title), 52.0, &axes.rate, marks)
        }),
        axes.has_resent.then(|| {
            let marks = lines(view, trace, 1.5, |path| windows(trace, &path.resent_kb));
            strip(format!("retransmitted, kB per {}", axes.window), 26.0, &axes.resent, marks)
        }),
        axes.has_backoff.then(|| {
            let marks = lines(view, trace, 1.6, |path| changes(trace, path, |one| one.backoff));
            strip("back-off of the retransmission timer, steps".to_owned(), 26.0, &axes.backoff, marks)
        }),
    ];
    Facet {
        facts: run.goodput_mbps.map(rate).into_iter().chain(shares).collect(),
        remarks: remarks.take(2).collect(),
        events: narrative::size_events(view.data(run)),
        ..Facet::new(selection.name(group), axes.time.clone(), strips.into_iter().flatten().collect())
    }
}

/// A line per path and unbroken part of it, a little over those of the paths before.
fn lines(
    view: &View,
    trace: &Trace,
    width: f64,
    of: impl Fn(&PathTrace) -> Vec<Vec<(f64, f64)>>,
) -> Vec<Mark> {
    let of_path = |(rank, path): (usize, &PathTrace)| -> Vec<Mark> {
        let stroke = Stroke::solid(view.paths.colour(&path.name), width);
        let raise = rank.min(4) as f64 * APART;
        let line = |points| Mark::Line { series: path.name.clone(), points, stroke, raise };
        of(path).into_iter().map(line).collect()
    };
    trace.paths.iter().enumerate().flat_map(of_path).collect()
}

fn windows(trace: &Trace, values: &[f64]) -> Vec<Vec<(f64, f64)>> {
    let grid = trace.grid;
    let of = |(index, value): (usize, &f64)| (grid.edge_ms(index), grid.edge_ms(index + 1), *value);
    vec![steps(values.iter().take(grid.windows()).enumerate().map(of))]
}

fn changes(trace: &Trace, path: &PathTrace, of: fn(&Sizes) -> u32) -> Vec<Vec<(f64, f64)>> {
    let until =
        |index: usize, from: f64| path.steps.get(index + 1).map_or(trace.end_ms, |next| next.0).max(from);
    let held: Vec<(f64, f64, Option<f64>)> = path
        .steps
        .iter()
        .enumerate()
        .map(|(index, (from, sizes))| {
            (*from, until(index, *from), sizes.as_ref().map(|one| f64::from(of(one))))
        })
        .collect();
    let parts = held.chunk_by(|a, b| a.2.is_some() == b.2.is_some());
    let points = |part: &[(f64, f64, Option<f64>)]| {
        steps(part.iter().filter_map(|(from, until, value)| Some((*from, *until, (*value)?))))
    };
    parts.map(points).filter(|points| !points.is_empty()).collect()
}

fn sizes(view: &View, trace: &Trace) -> Vec<Mark> {
    let mut marks = lines(view, trace, 1.0, |path| changes(trace, path, |one| one.pmtu_bytes));
    for mark in &mut marks {
        if let Mark::Line { stroke, .. } = mark {
            *stroke = band(stroke.colour);
        }
    }
    marks.extend(lines(view, trace, 1.8, |path| changes(trace, path, |one| one.mss_bytes)));
    let ends = trace.paths.iter().filter_map(|path| {
        let mss = path.steps.last()?.1?.mss_bytes;
        Some((f64::from(mss), view.paths.colour(&path.name), mss.to_string()))
    });
    marks.push(Mark::Ends { x: trace.end_ms, ends: ends.collect() });
    marks
}

fn caption(window: &str, more: usize) -> Vec<String> {
    let mut sentences = vec![format!(
        "MSS and path MTU: as reported by the sending end's transport (tcp, mptcp: tcpi_snd_mss and tcpi_pmtu of the \
         subflow; quic, mpquic: the largest UDP payload in force), as steps between samples; the number at the right is \
         the last MSS. Arrived (payload, at the receiving end) and retransmitted: per {window}. tcp and mptcp count \
         data received in order, quic and mpquic data read from the socket: data that waited for a lost packet, or for \
         the machine, counts in one window, which can then hold more than the link carries in it. Back-off: steps of \
         the retransmission timer. Paths with the same value are drawn side by side. Each panel is one run, the one of \
         median goodput."
    )];
    sentences.extend(left_out(more, "label"));
    vec![sentences.join(" ")]
}
