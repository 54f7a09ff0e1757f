//! What emulated links did during a run: the rate in force and what came out, the queue, and the drops.

mod panel;
mod trace;

use super::axis::{self, Axis, TimeScale};
use super::legend::{self, Mark};
use super::{Selection, WIDTH, event, lettering};
use crate::ResultSet;
use crate::narrative::{self, Happening};
use crate::palette::{ALARM, INK, MUTED};
use crate::quantity::counted;
use crate::svg::{Anchor, Area, Svg, TextStyle};
use crate::view::{GroupView, View, name_of, variant_text};
use panel::{IN_FORCE, LOSS, Scales};
use pathbench_record::direction::LinkDirection;
use trace::Trace;

const LEFT: f64 = 62.0;
const RIGHT: f64 = 20.0;
const COLUMN_GAP: f64 = 58.0;
const TITLE_HEIGHT: f64 = 24.0;
/// Over a plot: how far rate and loss in force go.
const NOTES: f64 = 14.0;
/// Between the plots of one row and the next.
const BELOW: f64 = 16.0;
/// More rows than this and nobody looks at them.
const MOST_ROWS: usize = 12;

/// Rate in force, delivered rate, queue and drops of each emulated link over time, both ways, for the run that
/// stands for each label. `None` when no link of the result was emulated.
pub fn links(set: &ResultSet, selection: &Selection) -> Option<Svg> {
    links_of(&View::new(set), selection)
}

pub(crate) fn links_of(view: &View, selection: &Selection) -> Option<Svg> {
    let sheet = Sheet::new(view, selection)?;
    let (_, height) = sheet.draw(view, 10.0);
    Some(sheet.draw(view, height).0)
}

/// A link during one run.
struct Row<'a> {
    name: String,
    link: &'a str,
    run: String,
    happenings: Vec<Happening>,
    ways: [Trace; 2],
}

struct Sheet<'a> {
    rows: Vec<Row<'a>>,
    scales: Scales,
    plot_width: f64,
    title: String,
    subtitle: String,
    caption: Vec<String>,
}

/// The rows of one group: the links that were sampled in the run that stands for it.
fn rows<'a>(view: &'a View<'a>, group: &'a GroupView<'a>, of_variant: bool) -> Vec<Row<'a>> {
    let Some(run) = group.representative() else { return Vec::new() };
    let data = view.data(run);
    let mut names: Vec<&str> = data.links.iter().map(|sample| sample.link.as_str()).collect();
    names.sort_by_key(|name| (view.paths.rank(name), *name));
    names.dedup();
    let label = if of_variant { group.label.to_owned() } else { name_of(group.label, None, group.variant) };
    names
        .into_iter()
        .map(|link| {
            let way = |direction: LinkDirection| {
                let samples = data.links.iter().copied();
                Trace::of(samples.filter(|sample| sample.link == link && sample.direction == direction))
            };
            let of_link = |one: &Happening| one.path.as_deref().is_none_or(|path| path == link);
            Row {
                name: label.clone(),
                link,
                run: run.id.clone(),
                happenings: narrative::happenings(data).into_iter().filter(of_link).collect(),
                ways: [way(LinkDirection::Forward), way(LinkDirection::Reverse)],
            }
        })
        .collect()
}

impl<'a> Sheet<'a> {
    fn new(view: &'a View<'a>, selection: &Selection) -> Option<Self> {
        let wanted = |group: &&GroupView| selection.has(group);
        let of_variant = selection.variant.is_some();
        let mut rows: Vec<Row> =
            view.groups.iter().filter(wanted).flat_map(|group| rows(view, group, of_variant)).collect();
        rows.first()?;
        let left_out = rows.len().saturating_sub(MOST_ROWS);
        rows.truncate(MOST_ROWS);
        let plot_width = (WIDTH - LEFT - RIGHT - COLUMN_GAP) / 2.0;
        let traces = || rows.iter().flat_map(|row| &row.ways);
        let end_ms = traces().map(Trace::end_ms).fold(0.0, f64::max);
        let peak_mbps = traces().map(Trace::peak_mbps).fold(0.0, f64::max);
        let rate_unit = axis::rate_unit(peak_mbps);
        let time = TimeScale::until(end_ms, plot_width);
        let document = &view.set.document;
        let variant = selection.variant.as_ref().filter(|variant| !variant.is_empty());
        Some(Self {
            scales: Scales {
                time,
                rate: Axis::holding(peak_mbps / rate_unit.1, 2),
                rate_unit,
                queue: Axis::holding(traces().map(Trace::peak_queue_kb).fold(0.0, f64::max), 1),
            },
            plot_width,
            title: format!("{}{}: emulated links", document.scenario.name, selection.of_pattern()),
            subtitle: match variant {
                Some(variant) => format!("{} · {}", variant_text(variant), document.scenario.description),
                None => document.scenario.description.clone(),
            },
            caption: legend::caption_lines(&caption(left_out), WIDTH - 40.0),
            rows,
        })
    }

    fn draw(&self, view: &View, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let mut y = legend::heading(&mut svg, 20.0, WIDTH - 40.0, &self.title, &self.subtitle);
        y += legend::draw(&mut svg, (26.0, y), WIDTH - 46.0, &self.legend(view)) + 6.0;
        let bold = TextStyle::new(11.5, MUTED).bold().anchored(Anchor::Middle);
        for (column, words) in
            ["forward: first end → second end", "reverse: second end → first end"].into_iter().enumerate()
        {
            svg.text((self.x(column) + self.plot_width / 2.0, y + 10.0), bold, words);
        }
        y += 16.0;
        for (index, row) in self.rows.iter().enumerate() {
            y = self.draw_row(&mut svg, view, row, y, index + 1 == self.rows.len());
        }
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        let text = format!("time since the first byte of data, {}", self.scales.time.unit.0);
        svg.text((LEFT + (WIDTH - LEFT - RIGHT) / 2.0, y + 12.0), style, &text);
        y += 28.0;
        legend::rule(&mut svg, 20.0, y, WIDTH - 40.0);
        y += 20.0 + legend::caption(&mut svg, (20.0, y + 20.0), &self.caption);
        (svg, y)
    }

    fn draw_row(&self, svg: &mut Svg, view: &View, row: &Row, top: f64, last: bool) -> f64 {
        let name = lettering::fitted(&format!("{} · {}", row.name, row.link), 13.0 * 1.12, 420.0);
        svg.text((LEFT, top + 15.0), TextStyle::new(13.0, INK).bold(), &name);
        let at = LEFT + lettering::width(&name, 13.0 * 1.12) + 8.0;
        let run = lettering::fitted(&row.run, 10.5, WIDTH - RIGHT - at);
        svg.text((at, top + 15.0), TextStyle::new(10.5, MUTED), &run);
        let plot = Area { x: LEFT, y: 0.0, width: self.plot_width, height: 1.0 };
        let events_height =
            event::rows(&row.happenings, plot, &self.scales.time).1 as f64 * event::ROW + NOTES;
        let y = top + TITLE_HEIGHT + events_height;
        let colour = view.paths.colour(row.link);
        for (column, trace) in row.ways.iter().enumerate() {
            let place = Area { x: self.x(column), y, width: self.plot_width, height: panel::HEIGHT };
            panel::draw(svg, trace, place, &self.scales, (colour, last));
            event::draw(svg, &row.happenings, place, events_height, &self.scales.time);
        }
        y + panel::HEIGHT + if last { 20.0 } else { BELOW }
    }

    fn x(&self, column: usize) -> f64 {
        LEFT + column as f64 * (self.plot_width + COLUMN_GAP)
    }

    fn legend(&self, view: &View) -> Vec<(Mark, String)> {
        let mut links: Vec<&str> = self.rows.iter().map(|row| row.link).collect();
        links.sort_by_key(|link| view.paths.rank(link));
        links.dedup();
        let mut entries: Vec<(Mark, String)> = links
            .into_iter()
            .map(|link| (Mark::Fill(view.paths.colour(link)), format!("{link}: what came out")))
            .collect();
        let traces = || self.rows.iter().flat_map(|row| &row.ways);
        let marks = [
            (Mark::Line(IN_FORCE), "  rate in force", traces().any(Trace::has_rate)),
            (
                Mark::Line(LOSS),
                "  probability of loss in force",
                traces().any(|trace| trace.peak_loss() > 0.0),
            ),
            (Mark::Bar(ALARM), "packets dropped", traces().any(Trace::has_drops)),
            (Mark::Event, "event of the scenario", self.rows.iter().any(|row| !row.happenings.is_empty())),
        ];
        entries
            .extend(marks.into_iter().filter(|mark| mark.2).map(|(mark, text, _)| (mark, text.to_owned())));
        entries
    }
}

fn caption(left_out: usize) -> Vec<String> {
    let mut sentences = vec![
        "Above: what came out of the link, in frames, as steps between samples. Below: what waited in its queue at each \
         sample. A red stroke: packets were dropped since the sample before, whatever the cause; the table of the run \
         says which. Each row is one link in the run that stands for its label."
            .to_owned(),
    ];
    if left_out > 0 {
        sentences.push(format!("{} not shown; links.jsonl has all.", counted(left_out as u32, "more row")));
    }
    vec![sentences.join(" ")]
}
