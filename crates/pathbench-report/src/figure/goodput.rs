//! Goodput over time, stacked by path: one facet per label and variant, on shared axes.

use super::selection::{Selection, chosen};
use super::spread::{self, Spread, repetitions};
use crate::carriage::capacity_mbps;
use crate::chart::{Anchor, Chart, Coordinate, Facet, Frame, Key, Label, Mark, Point, Scale, Shape, Strip};
use crate::chart::{TextStyle, keys, window};
use crate::narrative;
use crate::palette::{ALARM, INK, MUTED, UNATTRIBUTED};
use crate::quantity::{duration, rate};
use crate::rate_axis::{self, Excess};
use crate::run_data::RunData;
use crate::series::{self, Attribution, Grid, Series, Silence};
use crate::view::{GroupView, View};
use pathbench_record::document::RunRecord;
use pathbench_record::event::Event;
use pathbench_record::transport::Transport;

const MOST_FACETS: usize = 48;
/// A window exceeds the rate of its links from this multiple, the precision of the bins.
const MORE_THAN: f64 = 1.02;
const LANE: f64 = 13.0;

/// With more windows a step is thinner than two pixels.
const MOST_WINDOWS: usize = 400;

/// The chart of the selected groups. The scales cover the runs of all variants, so that charts of different variants
/// are comparable.
pub(crate) fn timeline_of(view: &View, selection: &Selection) -> Chart {
    let of_pattern = || view.groups.iter().filter(|group| selection.has_pattern(group.pattern));
    let representatives = || of_pattern().filter_map(GroupView::representative);
    let end_ms = representatives().map(|run| series::end_ms(&view.data(run))).fold(0.0, f64::max);
    let grid = Grid::covering(end_ms, MOST_WINDOWS);
    let totals = |run: &RunRecord| series::total_mbps(&view.data(run), selection.direction, grid);
    let end = representatives().map(|run| rate_axis::end_mbps(view, run, selection.direction, &totals(run)));
    let end = end.fold(0.0, f64::max);
    let shown: Vec<_> = selection.runs(view).take(MOST_FACETS).collect();
    let spreads: Vec<Spread> = shown.iter().map(|(group, _)| spread(view, group, selection, grid)).collect();
    // Charts of several variants have the scale of the runs that they show.
    let highest =
        spreads.iter().zip(&shown).filter(|_| selection.variant.is_none()).map(|(spread, (_, run))| {
            let limit = rate_axis::limit_mbps(view, run, selection.direction, &totals(run));
            spread.high().min(limit.unwrap_or(f64::MAX))
        });
    let end = highest.fold(end, f64::max);
    let frame = Frame::of_columns(match shown.len() {
        0..=6 => 1,
        7..=16 => 2,
        _ => 3,
    });
    let heights = [190.0, 190.0, 150.0, 124.0, 110.0, 100.0, 92.0];
    let height = heights.get(shown.len()).copied().unwrap_or(84.0);
    let time = Scale::time(grid.until_ms(), frame.plot_width());
    let scale = Scale::rates(end, if height > 100.0 { 4 } else { 2 });
    let axes = Axes { time, rate: scale, height };
    let is_cut = |series: &Series| !rate_axis::excesses(&series.total_mbps(), axes.rate.high).is_empty();
    let all: Vec<Series> = shown
        .iter()
        .map(|(_, run)| series::series(run, &view.data(run), selection.direction, grid, &view.paths))
        .collect();
    let lanes = shown.iter().any(|(_, run)| !narrative::subflow_marks(&view.data(run)).is_empty());
    let facets: Vec<Facet> = shown
        .iter()
        .zip(all.iter().zip(&spreads))
        .map(|((group, run), (series, spread))| {
            facet(view, (group, run), selection, (series, spread, lanes), &axes)
        })
        .collect();
    let (key, sentence) = spread::explained(&spreads, shown.iter().map(|(group, _)| *group)).unzip();
    let direction = selection.direction.map_or(String::new(), |one| format!(", {}", one.name()));
    Chart {
        legend: legend(view, &shown, &all, selection, &is_cut).into_iter().chain(key).collect(),
        caption: caption(view, selection, &all, grid, &is_cut).into_iter().chain(sentence).collect(),
        frame,
        facets,
        shared_x: Some("time since the first byte of data".to_owned()),
        empty: "There is no run to show.",
        ..selection.chart(view, &format!("goodput by path{direction}"))
    }
}

fn spread(view: &View, group: &GroupView, selection: &Selection, grid: Grid) -> Spread {
    let mut spread = Spread::new(grid);
    for run in repetitions(group) {
        let total = series::total_mbps(&view.data(run), selection.direction, grid);
        total.into_iter().enumerate().for_each(|(window, mbps)| spread.add(window, mbps));
    }
    spread
}

struct Axes {
    time: Scale,
    rate: Scale,
    height: f64,
}

fn facet(
    view: &View,
    (group, run): (&GroupView, &RunRecord),
    selection: &Selection,
    (series, spread, lanes): (&Series, &Spread, bool),
    axes: &Axes,
) -> Facet {
    let data = view.data(run);
    let mut marks: Vec<Mark> =
        series::silences(run, &data, selection.direction).into_iter().map(silence).collect();
    marks.push(Mark::Stack { grid: series.grid, layers: series.paths.clone() });
    marks.extend(spread.lines("spread over the valid runs", INK));
    marks.extend(beyond(series, axes.rate.high));
    let mut plot = Strip::new(axes.height, axes.rate.clone(), marks);
    let nothing = series.paths.is_empty();
    plot.empty = nothing.then(|| "no byte was delivered".to_owned());
    let mut strips = vec![plot];
    if lanes {
        strips.push(Strip::new(LANE, Scale::bare(), lane(view, &data)));
    }
    Facet {
        facts: facts(run, selection),
        run: chosen(group, run),
        events: narrative::scenario_events(&data),
        ..Facet::new(selection.name(group), axes.time.clone(), strips)
    }
}

fn beyond(series: &Series, end_mbps: f64) -> Option<Mark> {
    let grid = series.grid;
    let point = |one: Excess| {
        let x = f64::midpoint(grid.edge_ms(one.window), grid.edge_ms(one.window + 1));
        Point { x, y: one.mbps, tooltip: format!("{} at {}", rate(one.mbps), duration(x)) }
    };
    let found = rate_axis::excesses(&series.total_mbps(), end_mbps);
    (!found.is_empty()).then(|| Mark::Beyond(found.into_iter().map(point).collect()))
}

fn facts(run: &RunRecord, selection: &Selection) -> Vec<String> {
    let of_direction =
        selection.direction.and_then(|wanted| run.directions.iter().find(|one| one.direction == wanted));
    let (goodput, stall) = match of_direction {
        Some(one) => (one.goodput_mbps, one.stall_ms),
        None => (run.goodput_mbps, run.stall_ms),
    };
    let hung = run.hung_ms.filter(|_| !run.completed);
    let stall = stall.filter(|stall| *stall > 0.0 && hung.is_none());
    let stall = stall.map(|stall| format!("longest stall {}", duration(stall)));
    let hung = hung.map(|hung| format!("gave up after {} without a byte", duration(hung)));
    [goodput.map(rate), stall, hung].into_iter().flatten().collect()
}

fn silence(one: Silence) -> Mark {
    let length = duration(one.to_ms - one.from_ms);
    let tooltip = format!("no byte for {length}");
    let long = if one.fatal { format!("{tooltip}, then gave up") } else { tooltip.clone() };
    Mark::Span {
        from: one.from_ms,
        to: one.to_ms,
        hatched: true,
        tooltip,
        labels: vec![long, length],
        colour: if one.fatal { ALARM } else { INK },
    }
}

fn lane(view: &View, data: &RunData) -> Vec<Mark> {
    let mark = |(t_ms, opened, event): (f64, bool, &Event)| {
        let colour = event.path.as_ref().map_or(MUTED, |name| view.paths.colour(name));
        let path = event.path.as_deref().map_or(String::new(), |path| format!(" on {path}"));
        let tooltip = format!("{}{path} at {}", narrative::subflow_words(event, opened), duration(t_ms));
        let shape = if opened { Shape::Ring } else { Shape::Cross };
        let series = event.path.as_deref().unwrap_or_default();
        Mark::points(series, (shape, colour, 3.0), [Point { x: t_ms, y: 0.5, tooltip }])
    };
    narrative::subflow_marks(data).into_iter().map(mark).collect()
}

fn legend(
    view: &View,
    shown: &[(&GroupView, &RunRecord)],
    all: &[Series],
    selection: &Selection,
    is_cut: &dyn Fn(&Series) -> bool,
) -> Vec<(Key, String)> {
    let has = |name: Option<&str>| {
        all.iter().flat_map(|series| &series.paths).any(|one| one.path.as_deref() == name)
    };
    let paths = view.paths.names.iter().filter(|name| has(Some(name.as_str())));
    let paths = paths.map(|name| (Key::Fill(view.paths.colour(name)), name.clone()));
    let is_quic = view.groups.iter().any(|group| group.transport() == Some(Transport::Mpquic));
    let noun = if is_quic { "subflow or path" } else { "subflow" };
    let (opened, closed) = (format!("{noun} opened"), format!("{noun} closed"));
    let any =
        |of: &dyn Fn(&RunRecord, &RunData) -> bool| shown.iter().any(|(_, run)| of(run, &view.data(run)));
    let has_mark = |wanted: bool| {
        any(&|_, data| narrative::subflow_marks(data).iter().any(|(_, opened, _)| *opened == wanted))
    };
    let marks = keys([
        (Key::Fill(UNATTRIBUTED), "path not known", has(None)),
        (
            Key::Hatch,
            "no byte for 100 ms or more",
            any(&|run, data| !series::silences(run, data, selection.direction).is_empty()),
        ),
        (Key::Event, "event of the scenario", any(&|_, data| !narrative::scenario_events(data).is_empty())),
        (Key::Point(Shape::Triangle, INK), "beyond the axis, with its value", all.iter().any(is_cut)),
        (Key::Point(Shape::Ring, MUTED), &opened, has_mark(true)),
        (Key::Point(Shape::Cross, MUTED), &closed, has_mark(false)),
    ]);
    paths.chain(marks).collect()
}

/// The reason why a window of a shown run exceeds the rate of its links or the axis; empty if none does.
fn above_the_links(view: &View, selection: &Selection, grid: Grid, is_cut: bool) -> &'static str {
    let is_above = |run: &RunRecord| {
        let most = capacity_mbps(view, run, selection.direction);
        most.is_some_and(|most| {
            let windows = series::total_mbps(&view.data(run), selection.direction, grid);
            windows.iter().any(|mbps| *mbps > most * MORE_THAN)
        })
    };
    if is_cut {
        " A triangle marks a window beyond the axis, which ends at the rate of the links or, where that is unknown, at \
         99 % of the windows: data that had arrived behind a gap reaches the application at once when the gap is filled."
    } else if selection.runs(view).any(|(_, run)| is_above(run)) {
        " Windows above the rate of the links: data that had arrived behind a gap reaches the application at once when \
         the gap is filled."
    } else {
        ""
    }
}

fn caption(
    view: &View,
    selection: &Selection,
    all: &[Series],
    grid: Grid,
    is_cut: &dyn Fn(&Series) -> bool,
) -> Vec<String> {
    let groups: Vec<&GroupView> = view.groups.iter().filter(|group| selection.has(group)).collect();
    let mut paragraphs = Vec::new();
    if (1..=6).contains(&groups.len()) {
        // The findings are about both directions.
        let directions = view.directions_of(selection.pattern.as_deref()).len();
        let both = selection.direction.is_some() && directions > 1;
        let scope = if both { "Both directions together: " } else { "" };
        let is_whole = selection.variant.is_none() && selection.pattern.is_none();
        paragraphs.extend(groups.iter().map(|group| {
            let story = narrative::story(view, group);
            // The title names the pattern, the subtitle the variant.
            let text =
                if is_whole { story.sentence() } else { format!("{} {}", story.label, story.headline) };
            format!("{scope}{text}.")
        }));
    }
    let source = all.iter().filter(|series| !series.paths.is_empty()).map(|series| series.attribution).max();
    let split = match source {
        None => return paragraphs,
        Some(Attribution::OnePath | Attribution::Receiver) => {
            "Colours: that height split in the proportion in which each path's bytes_received grew at the receiving end, \
             linear between samples; data that waited for a gap to be filled counts in the window in which it was delivered."
        }
        Some(Attribution::Sender) => {
            "Colours: that height split in the proportion in which each path's acknowledged bytes grew at the sending \
             end, as there are no samples of the receiving end."
        }
        Some(Attribution::Unknown) => "Grey: bytes without samples that attribute them to a path.",
    };
    if let Some(more @ 1..) = groups.len().checked_sub(MOST_FACETS) {
        paragraphs.push(format!("{more} more panels are not shown; the report's table has them."));
    }
    let main = view.patterns().into_iter().find(|pattern| selection.has_pattern(*pattern));
    paragraphs.push(format!(
        "Height: bytes delivered to the receiving application per {}. {split}{} Each panel is one run, the one of \
         median {}.",
        window(grid.window_ms),
        above_the_links(view, selection, grid, all.iter().any(is_cut)),
        main.map_or("goodput", |pattern| pattern.main().title)
    ));
    paragraphs
}

pub(super) fn corner(text: String, right: bool, colour: crate::palette::Colour) -> Mark {
    let (x, anchor) =
        if right { (Coordinate::High(0.0), Anchor::End) } else { (Coordinate::Low(0.0), Anchor::Start) };
    Mark::Label(Label::new(text, (x, Coordinate::High(4.0)), TextStyle::new(10.0, colour).anchored(anchor)))
}
