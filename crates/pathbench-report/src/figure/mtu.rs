//! Packet sizes over time per path: MSS and path MTU, arrived bytes, retransmissions and back-off.

use super::selection::{Selection, left_out, paragraph};
use super::spread::{self, Spread, repetitions};
use crate::chart::{Chart, Facet, Frame, Key, Mark, Scale, Strip, Stroke, keys, rate_unit, steps, window};
use crate::list::distinct;
use crate::narrative;
use crate::palette::{ALARM, Colour, MUTED};
use crate::quantity::{percent, rate};
use crate::result_set::Paths;
use crate::run_data::{RunData, path_curves};
use crate::series::{self, Grid};
use crate::view::{GroupView, View};
use pathbench_analysis::binning::Window;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DiagnosisKind, RunRecord};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::transport::Transport;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

const MOST_FACETS: usize = 24;
const MOST_WINDOWS: usize = 200;
const APART: f64 = 1.7;
/// The smallest path MTU that a router can cause (`net.ipv4.route.min_pmtu`).
const LEAST_PMTU_BYTES: u32 = 552;

struct Axes {
    time: Scale,
    sizes: Scale,
    rate: Option<Scale>,
    resent: Option<Scale>,
    backoff: Option<Scale>,
    window: String,
}

pub(crate) fn mtu_of(view: &View, selection: &Selection) -> Option<Chart> {
    selection.runs(view).find(|(_, run)| is_telling(run, &view.data(run)))?;
    let end_ms = selection.runs(view).map(|(_, run)| series::end_ms(&view.data(run))).fold(0.0, f64::max);
    let grid = Grid::covering(end_ms, MOST_WINDOWS);
    let all = selection.runs(view).count();
    let shown: Vec<(&GroupView, &RunRecord)> = selection.runs(view).take(MOST_FACETS).collect();
    let traces: Vec<Trace> =
        shown.iter().map(|(_, run)| Trace::new(run, &view.data(run), grid, &view.paths)).collect();
    let of_others = |(group, _): &(&GroupView, &RunRecord)| -> Vec<Trace> {
        let trace = |run| Trace::new(run, &view.data(run), grid, &view.paths);
        repetitions(group).into_iter().map(trace).collect()
    };
    let others: Vec<Vec<Trace>> = shown.iter().map(of_others).collect();
    // The right margin holds the last MSS of each path.
    let frame = Frame { right: 46.0, left: 54.0, ..Frame::of_columns(shown.len().min(2)) };
    let most =
        |of: fn(&Trace) -> f64| traces.iter().chain(others.iter().flatten()).map(of).fold(0.0, f64::max);
    let peak = most(|trace| trace.most(|path| &path.mbps));
    let resent = most(|trace| trace.most(|path| &path.resent_kb));
    let backoff = most(|trace| trace.most_of_sizes(|sizes| sizes.backoff, 100));
    let largest = most(|trace| trace.most_of_sizes(|one| one.pmtu_bytes.max(one.mss_bytes), 70_000));
    let axes = Axes {
        time: Scale::time(grid.until_ms(), frame.plot_width()),
        sizes: Scale::sizes(largest),
        rate: (peak > 0.0).then(|| Scale::linear(peak, 3, rate_unit(peak))),
        resent: (resent > 0.0).then(|| Scale::linear(resent, 1, ("", 1.0))),
        backoff: (backoff > 0.0).then(|| Scale::linear(backoff, 1, ("", 1.0))),
        window: window(grid.window_ms),
    };
    let spreads: Vec<[Spreads; 4]> = others.iter().map(|all| spreads(all, grid)).collect();
    let facets = shown.iter().zip(traces.iter().zip(&spreads));
    let facets = facets.map(|(one, (trace, spreads))| facet(view, *one, selection, (trace, spreads), &axes));
    let facets = facets.collect();
    let drawn = spreads.iter().flatten().flat_map(BTreeMap::values);
    let (key, sentence) = spread::explained(drawn, shown.iter().map(|(group, _)| *group)).unzip();
    let names = view.paths.names.iter();
    let names =
        names.filter(|name| traces.iter().flat_map(|trace| &trace.paths).any(|one| one.name == **name));
    let paths = names.map(|name| (Key::Fill(view.paths.colour(name)), name.clone()));
    let events = shown.iter().any(|(_, run)| !narrative::size_events(&view.data(run)).is_empty());
    let marks = keys([
        (Key::Line(Stroke::solid(MUTED, 1.8)), "MSS in force", true),
        (Key::Line(band(MUTED)), "path MTU in force", true),
        (Key::Event, "event", events),
    ]);
    Some(Chart {
        legend: paths.chain(marks).chain(key).collect(),
        caption: caption(&axes.window, all - shown.len(), &sentence.unwrap_or_default()),
        facets,
        frame,
        shared_x: Some("time since the first byte of data".to_owned()),
        ..selection.chart(view, "packet sizes over time")
    })
}

/// By path.
type Spreads = BTreeMap<String, Spread>;

/// The spread of MSS, arrived bytes, retransmissions and back-off.
fn spreads(others: &[Trace], grid: Grid) -> [Spreads; 4] {
    let mut spreads: [Spreads; 4] = Default::default();
    for (trace, path) in others.iter().flat_map(|trace| trace.paths.iter().map(move |path| (trace, path))) {
        let [mss, mbps, resent, backoff] =
            spreads.each_mut().map(|one| one.entry(path.name.clone()).or_insert_with(|| Spread::new(grid)));
        for (spread, of) in [(mss, (|one| one.mss_bytes) as fn(&Sizes) -> u32), (backoff, |one| one.backoff)]
        {
            for held in changes(trace, path, of).iter().flat_map(|part| part.chunks_exact(2)) {
                spread.add_held(held[0].0, held[1].0, held[0].1);
            }
        }
        for (spread, values) in [(mbps, &path.mbps), (resent, &path.resent_kb)] {
            values.iter().enumerate().for_each(|(window, value)| spread.add(window, *value));
        }
    }
    spreads
}

/// The path MTU: a wide, pale line behind the MSS.
fn band(colour: Colour) -> Stroke {
    Stroke::solid(colour.pale(), 5.0)
}

fn facet(
    view: &View,
    (group, run): (&GroupView, &RunRecord),
    selection: &Selection,
    (trace, spreads): (&Trace, &[Spreads; 4]),
    axes: &Axes,
) -> Facet {
    let shares = run.paths.iter().filter(|_| run.paths.len() > 1);
    let shares = shares.map(|path| format!("{} {}", path.name, percent(path.share)));
    let remarks = run.diagnoses.iter().filter(|one| narrative::diagnosis::is_trouble(one));
    let remarks = remarks.map(|one| (ALARM, narrative::diagnosis::finding(one)));
    let counted = if trace.in_order { "received in order" } else { "arrived" };
    let strip = |title: String, height, scale: &Scale, spreads: &Spreads, marks: Vec<Mark>| {
        // The strip's title names the unit.
        let y = Scale { title: String::new(), ..scale.clone() };
        let dotted = spreads.iter().flat_map(|(path, one)| one.lines(path, view.paths.colour(path)));
        Strip { title, ..Strip::new(height, y, dotted.chain(marks).collect()) }
    };
    let strips = [
        Some(strip("MSS and path MTU, bytes".to_owned(), 92.0, &axes.sizes, &spreads[0], sizes(view, trace))),
        axes.rate.as_ref().map(|rate| {
            let marks = lines(view, trace, 1.5, |path| windows(trace, &path.mbps));
            strip(format!("{counted}, {}", rate.title), 52.0, rate, &spreads[1], marks)
        }),
        axes.resent.as_ref().map(|resent| {
            let marks = lines(view, trace, 1.5, |path| windows(trace, &path.resent_kb));
            strip(format!("retransmitted, kB per {}", axes.window), 26.0, resent, &spreads[2], marks)
        }),
        axes.backoff.as_ref().map(|backoff| {
            let marks = lines(view, trace, 1.6, |path| changes(trace, path, |one| one.backoff));
            strip("back-off of the retransmission timer, steps".to_owned(), 26.0, backoff, &spreads[3], marks)
        }),
    ];
    Facet {
        facts: run.goodput_mbps.map(rate).into_iter().chain(shares).collect(),
        remarks: remarks.take(2).collect(),
        events: narrative::size_events(&view.data(run)),
        ..Facet::new(selection.name(group), axes.time.clone(), strips.into_iter().flatten().collect())
    }
}

/// A line per path and uninterrupted period, raised above the lines of earlier paths.
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

/// The uninterrupted periods of a path's values.
fn changes(trace: &Trace, path: &PathTrace, of: fn(&Sizes) -> u32) -> Vec<Vec<(f64, f64)>> {
    let ends = path.steps.iter().skip(1).map(|next| next.0).chain([trace.end_ms]);
    let held = path.steps.iter().zip(ends).map(|((from, sizes), until)| {
        (*from, until.max(*from), sizes.as_ref().map(|one| f64::from(of(one))))
    });
    let held: Vec<(f64, f64, Option<f64>)> = held.collect();
    let parts = held.split(|(.., value)| value.is_none()).filter(|part| !part.is_empty());
    let points = |part: &[(f64, f64, Option<f64>)]| {
        steps(part.iter().filter_map(|(from, until, value)| Some((*from, *until, (*value)?))))
    };
    parts.map(points).collect()
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

fn caption(window: &str, more: usize, spread: &str) -> Vec<String> {
    let text = format!(
        "MSS and path MTU: as reported by the sending end's transport (tcp, mptcp: tcpi_snd_mss and tcpi_pmtu of the \
         subflow; quic, mpquic: the largest UDP payload in force), as steps between samples; the number at the right is \
         the last MSS. Arrived (payload, at the receiving end) and retransmitted: per {window}. tcp and mptcp count \
         data received in order, quic and mpquic data read from the socket: data that waited for a lost packet, or for \
         the machine, counts in one window, which can then hold more than the link carries in it. Back-off: steps of \
         the retransmission timer. Paths with the same value are drawn side by side. Each panel is one run, the one of \
         median goodput."
    );
    vec![paragraph(&[&text, spread, &left_out(more, "label")])]
}

/// A subflow without samples for this long is closed.
const FORGOTTEN_MS: f64 = 1000.0;
/// Sizes that differ by less count as equal: the length of options varies.
const SAME_BYTES: u32 = 40;
/// Growth of a path's MTU beyond this factor is shown; QUIC's usual growth, from 1200 to Ethernet's MTU, is smaller.
const GROWTH: f64 = 1.35;
/// An MSS that varies by more than this factor does not only follow the peer's window (`tcp_bound_to_half_wnd`, which
/// makes the MSS of a loopback connection vary).
const PROBED: f64 = 1.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    mss_bytes: u32,
    pmtu_bytes: u32,
    backoff: u32,
}

struct PathTrace {
    name: String,
    /// Start time and sizes; `None` while the path had no open subflow.
    steps: Vec<(f64, Option<Sizes>)>,
    mbps: Vec<f64>,
    resent_kb: Vec<f64>,
}

struct Trace {
    grid: Grid,
    end_ms: f64,
    in_order: bool,
    paths: Vec<PathTrace>,
}

fn sender(run: &RunRecord) -> Side {
    let most = run.directions.iter().max_by_key(|one| one.delivered_bytes);
    match most.map(|one| one.direction) {
        Some(Direction::Download) => Side::Server,
        Some(Direction::Upload) | None => Side::Client,
    }
}

fn of_sender<'a>(run: &RunRecord, data: &'a RunData) -> Vec<&'a Sample> {
    let side = sender(run);
    data.samples.iter().filter(|sample| sample.side == side).collect()
}

/// Path, connection and subflow.
type SubflowKey<'a> = (&'a str, u32, u32);

/// Whether to show a figure of a run's packet sizes: sizes differ between paths, changed, or were too large for a
/// path, or packets were counted.
fn is_telling(run: &RunRecord, data: &RunData) -> bool {
    let too_large = run.diagnoses.iter().any(|one| one.kind == DiagnosisKind::MtuBlackHole);
    if too_large || run.links.iter().any(|link| link.packet_sizes.is_some()) {
        return true;
    }
    let known = run.paths.iter().map(|path| path.pmtu_bytes).filter(|bytes| *bytes >= LEAST_PMTU_BYTES);
    if known.clone().max().zip(known.min()).is_some_and(|(most, least)| most - least >= SAME_BYTES) {
        return true;
    }
    // The smallest and the largest size so far.
    // A path that is opened again probes from the start.
    let mut ranges: HashMap<SubflowKey, [(u32, u32); 2]> = HashMap::new();
    of_sender(run, data).into_iter().filter(|sample| sample.figures.state == PathState::Open).any(|sample| {
        let (mss, pmtu) = (sample.figures.mss_bytes, sample.figures.pmtu_bytes);
        // The kernel reports the smallest size for a route whose interface is down.
        if mss == 0 || pmtu < LEAST_PMTU_BYTES {
            return false;
        }
        let ranges = ranges
            .entry((&sample.path, sample.stream, sample.figures.subflow))
            .or_insert([(mss, mss), (pmtu, pmtu)]);
        for ((least, most), bytes) in ranges.iter_mut().zip([mss, pmtu]) {
            (*least, *most) = ((*least).min(bytes), (*most).max(bytes));
        }
        let [of_mss, of_pmtu] = ranges.map(|(least, most)| f64::from(most) / f64::from(least));
        of_mss > PROBED || of_pmtu > GROWTH || ranges[1].1 - pmtu >= SAME_BYTES
    })
}

impl Trace {
    fn new(run: &RunRecord, data: &RunData, grid: Grid, paths: &Paths) -> Self {
        let grid = grid.ending_at(series::end_ms(data));
        let samples = of_sender(run, data);
        let of_run = run.paths.iter().map(|path| path.name.as_str());
        let mut names = distinct(of_run.chain(samples.iter().map(|sample| sample.path.as_str())));
        names.sort_by_key(|name| paths.rank(name));
        let arrived = arrived(run, data, grid);
        let resent = growth(samples.iter().copied(), |figures| figures.retransmitted_bytes, grid);
        let of_path = |name: &str| {
            let series = |of: &[BTreeMap<String, f64>]| -> Vec<f64> {
                of.iter().map(|window| window.get(name).copied().unwrap_or(0.0)).collect()
            };
            let rate = |(bin, bytes): (Window, f64)| bin.mbps(bytes).unwrap_or_default();
            PathTrace {
                name: name.to_owned(),
                steps: size_steps(samples.iter().copied().filter(|sample| sample.path == name)),
                mbps: grid.bins().windows().zip(series(&arrived)).map(rate).collect(),
                resent_kb: series(&resent).into_iter().map(|bytes| bytes / 1e3).collect(),
            }
        };
        let end_ms = samples.last().map_or(0.0, |sample| sample.t_ms).min(grid.until_ms());
        let in_order = matches!(run.transport, Transport::Tcp | Transport::Mptcp);
        Self { grid, end_ms, in_order, paths: names.into_iter().map(of_path).collect() }
    }

    fn most(&self, of: fn(&PathTrace) -> &[f64]) -> f64 {
        self.paths.iter().flat_map(of).copied().fold(0.0, f64::max)
    }

    /// A size above `limit` comes from a damaged record.
    fn most_of_sizes(&self, of: fn(&Sizes) -> u32, limit: u32) -> f64 {
        let sizes = self.paths.iter().flat_map(|path| &path.steps).filter_map(|(_, sizes)| sizes.as_ref());
        f64::from(sizes.map(|sizes| of(sizes).min(limit)).max().unwrap_or(0))
    }
}

fn growth<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    counter: fn(&PathFigures) -> u64,
    grid: Grid,
) -> Vec<BTreeMap<String, f64>> {
    let curves = path_curves(samples, counter);
    let of_window = |bin: Window| {
        let grown = curves.growth(bin.from, bin.until).into_iter();
        grown.map(|(path, bytes)| (path.to_owned(), bytes)).collect()
    };
    grid.bins().windows().map(of_window).collect()
}

/// Bytes that arrived over each path according to the receiver, if it was sampled. Delivery to the application does
/// not measure a path, because it also waits for data of the other paths.
fn arrived(run: &RunRecord, data: &RunData, grid: Grid) -> Vec<BTreeMap<String, f64>> {
    let sender = sender(run);
    let of_side =
        |is_sender: bool| data.samples.iter().filter(move |sample| (sample.side == sender) == is_sender);
    if of_side(false).next().is_none() {
        growth(of_side(true), PathFigures::payload_acked, grid)
    } else {
        growth(of_side(false), |figures| figures.bytes_received, grid)
    }
}

/// The changes on a path, from its samples sorted by time: the smallest sizes and the longest back-off of its open
/// subflows.
fn size_steps<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<(f64, Option<Sizes>)> {
    let mut subflows: HashMap<(u32, u32, SocketAddr), (f64, Sizes)> = HashMap::new();
    let mut steps: Vec<(f64, Option<Sizes>)> = Vec::new();
    for sample in samples {
        let (t_ms, figures) = (sample.t_ms, &sample.figures);
        subflows.retain(|_, (seen, _)| t_ms - *seen < FORGOTTEN_MS);
        let key = (sample.stream, figures.subflow, figures.local);
        if figures.state == PathState::Open {
            let sizes = Sizes {
                mss_bytes: figures.mss_bytes,
                pmtu_bytes: figures.pmtu_bytes,
                backoff: figures.backoff,
            };
            subflows.insert(key, (t_ms, sizes));
        } else {
            subflows.remove(&key);
        }
        let now = subflows.values().map(|(_, sizes)| *sizes).reduce(|a, b| Sizes {
            mss_bytes: a.mss_bytes.min(b.mss_bytes),
            pmtu_bytes: a.pmtu_bytes.min(b.pmtu_bytes),
            backoff: a.backoff.max(b.backoff),
        });
        // The state at the first data is the first step.
        if t_ms <= 0.0 {
            steps.clear();
        }
        if steps.last().is_none_or(|(_, last)| *last != now) {
            steps.push((t_ms.max(0.0), now));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t_ms: f64, subflow: u32, mss_bytes: u32, state: PathState) -> Sample {
        let address = SocketAddr::from(([10, 0, 0, 1], 5201));
        let pmtu_bytes = mss_bytes + 52;
        let figures =
            PathFigures { subflow, state, mss_bytes, pmtu_bytes, ..PathFigures::new(address, address) };
        pathbench_testkit::sample(t_ms, Side::Client, "wlan", figures)
    }

    fn sizes_of(samples: &[Sample]) -> Vec<(u32, Option<u32>)> {
        let steps = size_steps(samples.iter()).into_iter();
        steps.map(|(t_ms, sizes)| (t_ms as u32, sizes.map(|sizes| sizes.mss_bytes))).collect()
    }

    #[test]
    fn only_changes_are_steps_and_a_closed_subflow_leaves_a_gap() {
        use PathState::{Closed, Open};
        let samples = [
            sample(0.0, 1, 8948, Open),
            sample(100.0, 1, 8948, Open),
            sample(200.0, 1, 1448, Open),
            sample(300.0, 1, 1448, Closed),
            sample(400.0, 2, 1400, Open),
        ];
        assert_eq!(sizes_of(&samples), [(0, Some(8948)), (200, Some(1448)), (300, None), (400, Some(1400))]);
    }

    #[test]
    fn a_change_in_the_first_milliseconds_is_shown() {
        let samples = [(-3.0, 536), (-2.0, 8948), (8.0, 1448)]
            .map(|(t_ms, mss_bytes)| sample(t_ms, 1, mss_bytes, PathState::Open));
        assert_eq!(sizes_of(&samples), [(0, Some(8948)), (8, Some(1448))]);
    }

    #[test]
    fn the_usual_growth_of_a_quic_path_is_not_shown() {
        let run = RunRecord::default();
        let is_shown = |sizes: &[u32]| {
            let samples = sizes.iter().enumerate().map(|(index, mss)| {
                let mut sample = sample(index as f64 * 100.0, 1, *mss, PathState::Open);
                if *mss > 9000 {
                    sample.figures.pmtu_bytes = 65_535;
                }
                sample
            });
            is_telling(&run, &RunData { samples: samples.collect(), ..RunData::default() })
        };
        assert!(!is_shown(&[1200, 1389, 1452, 1452]));
        assert!(!is_shown(&[1448, 1428, 1448]));
        assert!(is_shown(&[8948, 8948, 1448]));
        assert!(!is_shown(&[32_768, 45_568, 32_768]), "a loopback's window");
        assert!(is_shown(&[1448, 1228]));
        assert!(is_shown(&[1200, 1452, 8972]));
    }
}
