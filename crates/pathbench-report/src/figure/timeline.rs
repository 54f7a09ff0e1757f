//! The timeline: stacked goodput per path, one panel per label and variant, on shared axes.

use super::axis::{self, Axis, TimeScale};
use super::event;
use super::legend::{self, Mark};
use super::panel::{self, LANE, Panel, Place, Scales, SubflowMark};
use super::{Selection, WIDTH};
use crate::ResultSet;
use crate::carriage::capacity_mbps;
use crate::narrative;
use crate::palette::UNATTRIBUTED;
use crate::quantity::{counted, duration};
use crate::series::{self, Attribution, Grid};
use crate::svg::{Anchor, Area, Svg, TextStyle};
use crate::view::{GroupView, View, name_of, variant_text};
use pathbench_record::direction::Direction;
use pathbench_record::document::RunRecord;
use pathbench_record::event::{Event, EventSource};
use pathbench_record::transport::Transport;

const LEFT: f64 = 62.0;
const RIGHT: f64 = 20.0;
const COLUMN_GAP: f64 = 56.0;
const TITLE_HEIGHT: f64 = 26.0;
/// More windows than this and a step is thinner than two pixels.
const MOST_WINDOWS: usize = 400;
/// More panels than this and nobody looks at them.
const MOST_PANELS: usize = 48;
/// A window is above the rate of its links from this part of it on: bins leave that much open.
const MORE_THAN: f64 = 1.02;

/// Goodput of each path over time, with the events of the scenario, the subflows that came and went and the
/// silences of the receiver: one panel per label (and variant), showing the run of median goodput.
pub fn timeline(set: &ResultSet, selection: &Selection) -> Svg {
    timeline_of(&View::new(set), selection)
}

pub(crate) fn timeline_of(view: &View, selection: &Selection) -> Svg {
    let wanted = |group: &&GroupView| selection.has(group);
    // The scales hold the runs of all variants, so that figures of different variants compare, too.
    let grid = Grid::covering(until_ms(view, selection), MOST_WINDOWS);
    let groups = view.groups.iter().filter(wanted).take(MOST_PANELS);
    let panels: Vec<Panel> = groups
        .filter_map(|group| Some(panel(view, group, group.representative()?, selection, grid)))
        .collect();
    Layout::new(view, selection, panels, grid).draw(view)
}

/// The shown runs of the pattern, of all variants.
fn representatives<'a>(view: &'a View, selection: &'a Selection) -> impl Iterator<Item = &'a RunRecord> {
    view.groups.iter().filter(|group| selection.has_pattern(group)).filter_map(GroupView::representative)
}

fn until_ms(view: &View, selection: &Selection) -> f64 {
    representatives(view, selection).map(|run| series::end_ms(view.data(run))).fold(0.0, f64::max)
}

fn peak_mbps(view: &View, selection: &Selection, grid: Grid) -> f64 {
    let peak = |run: &RunRecord| series::peak_mbps(view.data(run), selection.direction, grid);
    representatives(view, selection).map(peak).fold(0.0, f64::max)
}

fn panel(view: &View, group: &GroupView, run: &RunRecord, selection: &Selection, grid: Grid) -> Panel {
    let data = view.data(run);
    let series = series::series(run, data, selection.direction, grid, &view.paths);
    let of_direction =
        selection.direction.and_then(|wanted| run.directions.iter().find(|one| one.direction == wanted));
    let (goodput, stall) = match of_direction {
        Some(one) => (one.goodput_mbps, one.stall_ms),
        None => (run.goodput_mbps, run.stall_ms),
    };
    let name = match (selection.variant.is_some(), selection.pattern.is_some()) {
        (true, _) => group.label.to_owned(),
        (false, true) => name_of(group.label, None, group.variant),
        (false, false) => group.name(),
    };
    let of = counted(group.valid(), "valid run");
    let chosen = match (run.valid, group.valid()) {
        (false, _) => "not valid".to_owned(),
        (true, 1) => "the only valid run".to_owned(),
        (true, _) => format!("median of {of}"),
    };
    let subflows = narrative::subflow_marks(data).into_iter().map(|(t_ms, opened, event)| SubflowMark {
        t_ms,
        opened,
        path: event.path.clone(),
        tooltip: format!(
            "{} {} at {}",
            subflow_words(event, opened),
            event.path.as_deref().map_or(String::new(), |path| format!("on {path}")),
            duration(t_ms)
        ),
    });
    let nothing = series.paths.is_empty();
    Panel {
        name,
        facts: panel::facts(goodput, stall, run.hung_ms.filter(|_| !run.completed)),
        run: format!("{} · {chosen}", run.id),
        silences: series::silences(run, data, selection.direction),
        happenings: narrative::happenings(data),
        subflows: subflows.collect(),
        empty: nothing.then(|| "no byte was delivered".to_owned()),
        series,
    }
}

/// What came or went.
fn subflow_words(event: &Event, opened: bool) -> &'static str {
    match (event.source, event.kind.as_str(), opened) {
        (EventSource::Quic, "path-suspended", _) => "path suspended",
        (EventSource::Quic, "path-resumed", _) => "path resumed",
        (EventSource::Quic, _, true) => "path opened",
        (EventSource::Quic, _, false) => "path closed",
        (_, _, true) => "subflow opened",
        (_, _, false) => "subflow closed",
    }
}

/// Everything measured out before anything is drawn.
struct Layout {
    panels: Vec<Panel>,
    scales: Scales,
    title: String,
    subtitle: String,
    legend: Vec<(Mark, String)>,
    caption: Vec<String>,
    columns: usize,
    plot_width: f64,
    plot_height: f64,
    events_height: f64,
    lane: bool,
}

impl Layout {
    fn new(view: &View, selection: &Selection, panels: Vec<Panel>, grid: Grid) -> Self {
        let columns = match panels.len() {
            0..=6 => 1,
            7..=16 => 2,
            _ => 3,
        };
        let plot_width = (WIDTH - LEFT - RIGHT - (columns - 1) as f64 * COLUMN_GAP) / columns as f64;
        let plot_height =
            if columns > 1 { 84.0 } else { [190.0, 190.0, 150.0, 124.0, 110.0, 100.0, 92.0][panels.len()] };
        let peak = peak_mbps(view, selection, grid);
        let rate_unit = axis::rate_unit(peak);
        let ticks = if plot_height > 100.0 { 4 } else { 2 };
        let scales = Scales {
            time: TimeScale::until(grid.until_ms(), plot_width),
            rate: Axis::holding(peak / rate_unit.1, ticks),
            rate_unit,
        };
        let plot = Area { x: LEFT, y: 0.0, width: plot_width, height: plot_height };
        let rows = panels.iter().map(|panel| event::rows(&panel.happenings, plot, &scales.time).1).max();
        let document = &view.set.document;
        let mut title = document.scenario.name.clone();
        title += &selection.of_pattern();
        title += match selection.direction {
            Some(Direction::Upload) => ": goodput by path, upload",
            Some(Direction::Download) => ": goodput by path, download",
            None => ": goodput by path",
        };
        let variant = selection.variant.as_ref().filter(|variant| !variant.is_empty());
        let subtitle = match variant {
            Some(variant) => format!("{} · {}", variant_text(variant), document.scenario.description),
            None => document.scenario.description.clone(),
        };
        Self {
            legend: legend_entries(view, &panels),
            caption: legend::caption_lines(&caption(view, selection, &panels, grid), WIDTH - 40.0),
            lane: panels.iter().any(|panel| !panel.subflows.is_empty()),
            events_height: rows.unwrap_or(0) as f64 * event::ROW,
            panels,
            scales,
            title,
            subtitle,
            columns,
            plot_width,
            plot_height,
        }
    }

    fn draw(self, view: &View) -> Svg {
        // The height is known when everything is placed: drawn once to measure, once for good.
        let (_, height) = self.draw_on(view, 10.0);
        self.draw_on(view, height).0
    }

    fn draw_on(&self, view: &View, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let mut y = legend::heading(&mut svg, 20.0, WIDTH - 40.0, &self.title, &self.subtitle);
        y += legend::draw(&mut svg, (20.0, y), WIDTH - 40.0, &self.legend) + 4.0;
        let lane = if self.lane { LANE } else { 0.0 };
        let row_height = TITLE_HEIGHT + self.events_height + self.plot_height + lane + 10.0;
        let rows = self.panels.len().div_ceil(self.columns);
        for (index, panel) in self.panels.iter().enumerate() {
            // Down the columns first, so that the eye compares neighbours on one time axis.
            let (column, row) = (index / rows.max(1), index % rows.max(1));
            let plot = Area {
                x: LEFT + column as f64 * (self.plot_width + COLUMN_GAP),
                y: y + row as f64 * row_height + TITLE_HEIGHT + self.events_height,
                width: self.plot_width,
                height: self.plot_height,
            };
            let bottom = row + 1 == rows || index + 1 == self.panels.len();
            let place = Place { plot, events_height: self.events_height, lane: self.lane, bottom };
            panel.draw(&mut svg, place, &self.scales, &view.paths);
        }
        if self.panels.is_empty() {
            svg.text(
                (20.0, y + 20.0),
                TextStyle::new(12.0, crate::palette::MUTED),
                "There is no run to show.",
            );
            y += 30.0;
        } else {
            y += rows as f64 * row_height + 14.0;
            let style = TextStyle::new(10.5, crate::palette::MUTED).anchored(Anchor::Middle);
            let text = format!("time since the first byte of data, {}", self.scales.time.unit.0);
            svg.text((LEFT + (WIDTH - LEFT - RIGHT) / 2.0, y + 8.0), style, &text);
            y += 22.0;
        }
        legend::rule(&mut svg, 20.0, y, WIDTH - 40.0);
        y += 20.0 + legend::caption(&mut svg, (20.0, y + 20.0), &self.caption);
        (svg, y)
    }
}

fn legend_entries(view: &View, panels: &[Panel]) -> Vec<(Mark, String)> {
    let shown = |name: Option<&str>| {
        panels.iter().flat_map(|panel| &panel.series.paths).any(|path| path.path.as_deref() == name)
    };
    let paths = view.paths.names().iter().filter(|name| shown(Some(name.as_str())));
    let mut entries: Vec<(Mark, String)> =
        paths.map(|name| (Mark::Fill(view.paths.colour(name)), name.clone())).collect();
    if shown(None) {
        entries.push((Mark::Fill(UNATTRIBUTED), "path not known".to_owned()));
    }
    let is_quic = view.groups.iter().any(|group| group.transport() == Some(Transport::Mpquic));
    let (opened, closed) = if is_quic {
        ("subflow or path opened", "subflow or path closed")
    } else {
        ("subflow opened", "subflow closed")
    };
    let marks = [
        (Mark::Hatch, "no byte for 100 ms or more", panels.iter().any(|panel| !panel.silences.is_empty())),
        (Mark::Event, "event of the scenario", panels.iter().any(|panel| !panel.happenings.is_empty())),
        (Mark::Ring, opened, panels.iter().any(|panel| panel.subflows.iter().any(|one| one.opened))),
        (Mark::Cross, closed, panels.iter().any(|panel| panel.subflows.iter().any(|one| !one.opened))),
    ];
    entries.extend(marks.into_iter().filter(|mark| mark.2).map(|(mark, text, _)| (mark, text.to_owned())));
    entries
}

/// Why a window of a shown run is higher than what its links carry; nothing where none is.
fn above_the_links(view: &View, selection: &Selection, grid: Grid) -> &'static str {
    let shown = view.groups.iter().filter(|group| selection.has(group)).filter_map(GroupView::representative);
    let is_above = |run: &RunRecord| {
        let most = capacity_mbps(view, run, selection.direction);
        most.is_some_and(|most| {
            series::peak_mbps(view.data(run), selection.direction, grid) > most * MORE_THAN
        })
    };
    if shown.into_iter().any(is_above) {
        " Windows above the rate of the links: data that had arrived behind a gap reaches the application at once when \
         the gap is filled."
    } else {
        ""
    }
}

/// What one sees, in numbers; then how it was made.
fn caption(view: &View, selection: &Selection, panels: &[Panel], grid: Grid) -> Vec<String> {
    let stories = narrative::stories_of(view);
    let mine = stories.iter().zip(&view.groups).filter(|(_, group)| selection.has(group));
    let told: Vec<String> = match &selection.variant {
        None if selection.pattern.is_none() => mine.map(|(story, _)| story.sentence()).collect(),
        // The title names the pattern, the subtitle the variant.
        _ => mine.map(|(story, _)| format!("{} {}", story.label, story.headline)).collect(),
    };
    let mut paragraphs = Vec::new();
    if (1..=6).contains(&told.len()) {
        // The stories tell of the run as a whole.
        let scope =
            if selection.direction.is_some() && view.directions_of(selection.pattern.as_deref()).len() > 1 {
                "Both ways together: "
            } else {
                ""
            };
        paragraphs.extend(told.into_iter().map(|sentence| format!("{scope}{sentence}.")));
    }
    let source =
        panels.iter().filter(|panel| panel.empty.is_none()).map(|panel| panel.series.attribution).max();
    let split = match source {
        None => return paragraphs,
        Some(Attribution::OnePath | Attribution::Receiver) => {
            "Colours: that height split in the proportion in which each path's bytes_received grew at the \
             receiving end, linear between samples; data that had waited for a gap counts with what arrives in its window."
        }
        Some(Attribution::Sender) => {
            "Colours: that height split in the proportion in which each path's acknowledged bytes grew at the sending \
             end, as there are no samples of the receiving end."
        }
        Some(Attribution::Unknown) => "Grey: no samples say which path brought these bytes.",
    };
    let wanted = view.groups.iter().filter(|group| selection.has(group));
    if let Some(more @ 1..) = wanted.count().checked_sub(MOST_PANELS) {
        paragraphs.push(format!("{more} more panels are not shown; the report's table has them."));
    }
    let main = view
        .patterns()
        .into_iter()
        .find(|pattern| selection.pattern.as_ref().is_none_or(|wanted| wanted == pattern.name));
    paragraphs.push(format!(
        "Height: what the receiving application got, per {}. {split}{} Each panel is one run, the one of median \
         {}.",
        axis::window(grid.window_ms),
        above_the_links(view, selection, grid),
        main.map_or("goodput", |pattern| pattern.main().title)
    ));
    paragraphs
}
