//! Delay over time: every message of the interactive pattern as a point, one panel per label and direction.

use super::axis::{LogScale, TimeScale};
use super::legend::{self, Mark};
use super::{Selection, WIDTH, event, lettering};
use crate::ResultSet;
use crate::narrative::{self, Happening};
use crate::palette::{ALARM, Colour, FRAME, GRID, INK, MUTED, transport_colour};
use crate::pattern::{Kind, bound_mark};
use crate::quantity::{counted, duration};
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};
use crate::view::{GroupView, View, name_of, variant_text};
use pathbench_record::direction::Direction;
use pathbench_record::document::{DelayRecord, RunRecord};
use pathbench_record::message::MessageLine;
use std::collections::BTreeMap;

const LEFT: f64 = 66.0;
const RIGHT: f64 = 20.0;
const COLUMN_GAP: f64 = 24.0;
const TITLE_HEIGHT: f64 = 24.0;
/// More labels than this and nobody looks at them.
const MOST_ROWS: usize = 16;
/// More messages than this in a panel, and only the slowest within each pixel is drawn.
const MOST_POINTS: usize = 1200;

/// The delay of every message over time, by label and direction, with the events of the scenario: one row of panels
/// per label, showing the run whose 95th percentile is the median one.
pub fn delay(set: &ResultSet, selection: &Selection) -> Svg {
    delay_of(&View::new(set), selection)
}

pub(crate) fn delay_of(view: &View, selection: &Selection) -> Svg {
    let sheet = Sheet::new(view, selection);
    let (_, height) = sheet.draw(10.0);
    sheet.draw(height).0
}

/// One label: its shown run, a panel per direction.
struct Row<'a> {
    name: String,
    colour: Colour,
    run: &'a RunRecord,
    chosen: String,
    happenings: Vec<Happening>,
    panels: Vec<Panel<'a>>,
}

/// The messages whose requests go one way.
struct Panel<'a> {
    messages: Vec<&'a MessageLine>,
    delay: Option<&'a DelayRecord>,
}

struct Sheet<'a> {
    rows: Vec<Row<'a>>,
    directions: Vec<Direction>,
    time: TimeScale,
    delays: LogScale,
    title: String,
    subtitle: String,
    caption: Vec<String>,
    plot_width: f64,
    plot_height: f64,
    events_height: f64,
}

fn row<'a>(
    view: &'a View<'a>,
    group: &'a GroupView<'a>,
    directions: &[Direction],
    variant: bool,
) -> Option<Row<'a>> {
    let run = group.representative()?;
    let data = view.data(run);
    let panels = directions.iter().map(|direction| Panel {
        messages: data.messages.iter().copied().filter(|line| line.direction == *direction).collect(),
        delay: run
            .directions
            .iter()
            .find(|one| one.direction == *direction)
            .and_then(|one| one.delay_ms.as_ref()),
    });
    let chosen = match (run.valid, group.valid()) {
        (false, _) => "not valid".to_owned(),
        (true, 1) => "the only valid run".to_owned(),
        (true, valid) => format!("median of {}", counted(valid, "valid run")),
    };
    Some(Row {
        name: if variant { group.label.to_owned() } else { name_of(group.label, None, group.variant) },
        colour: group.transport().map_or(INK, transport_colour),
        run,
        chosen,
        happenings: narrative::happenings(data),
        panels: panels.collect(),
    })
}

impl<'a> Sheet<'a> {
    fn new(view: &'a View<'a>, selection: &Selection) -> Self {
        let of_kind = |group: &&GroupView| group.pattern.kind == Kind::Interactive;
        let wanted = |group: &&GroupView| of_kind(group) && selection.has(group);
        let has = |direction: &Direction| {
            let runs = view.groups.iter().filter(of_kind).flat_map(|group| &group.runs);
            runs.into_iter()
                .any(|run| view.data(run).messages.iter().any(|line| line.direction == *direction))
        };
        let directions: Vec<Direction> = Direction::BOTH.into_iter().filter(has).collect();
        let of_variant = selection.variant.is_some();
        let rows: Vec<Row> = view
            .groups
            .iter()
            .filter(wanted)
            .take(MOST_ROWS)
            .filter_map(|group| row(view, group, &directions, of_variant))
            .collect();
        let lines = || rows.iter().flat_map(|row| &row.panels).flat_map(|panel| &panel.messages);
        let columns = directions.len().max(1) as f64;
        let plot_width = (WIDTH - LEFT - RIGHT - (columns - 1.0) * COLUMN_GAP) / columns;
        let happened = rows.iter().flat_map(|row| &row.happenings).map(|one| one.t_ms);
        let end_ms = lines().map(|line| line.due_ms).chain(happened).fold(0.0, f64::max);
        let time = TimeScale::until(end_ms, plot_width);
        let plot = Area { x: LEFT, y: 0.0, width: plot_width, height: 1.0 };
        let events = rows.iter().map(|row| event::rows(&row.happenings, plot, &time).1).max().unwrap_or(0);
        let document = &view.set.document;
        let variant = selection.variant.as_ref().filter(|variant| !variant.is_empty());
        let subtitle = match variant {
            Some(variant) => format!("{} · {}", variant_text(variant), document.scenario.description),
            None => document.scenario.description.clone(),
        };
        Self {
            delays: LogScale::holding(lines().map(|line| line.delay_ms)),
            title: format!("{}: delay of every message", document.scenario.name),
            subtitle,
            caption: legend::caption_lines(&caption(view, selection, &rows), WIDTH - 40.0),
            plot_height: if rows.len() > 4 { 92.0 } else { 124.0 },
            events_height: events as f64 * event::ROW,
            rows,
            directions,
            time,
            plot_width,
        }
    }

    fn draw(&self, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let mut y = legend::heading(&mut svg, 20.0, WIDTH - 40.0, &self.title, &self.subtitle);
        y += legend::draw(&mut svg, (20.0, y), WIDTH - 40.0, &self.legend()) + 6.0;
        if self.rows.is_empty() || self.directions.is_empty() {
            svg.text((20.0, y + 16.0), TextStyle::new(12.0, MUTED), "There is no message to show.");
            y += 30.0;
        } else {
            y = self.draw_rows(&mut svg, y);
        }
        legend::rule(&mut svg, 20.0, y, WIDTH - 40.0);
        y += 20.0 + legend::caption(&mut svg, (20.0, y + 20.0), &self.caption);
        (svg, y)
    }

    fn draw_rows(&self, svg: &mut Svg, top: f64) -> f64 {
        let bold = TextStyle::new(11.5, MUTED).bold().anchored(Anchor::Middle);
        for (column, direction) in self.directions.iter().enumerate() {
            let words = match direction {
                Direction::Upload => "requests of the client (upload)",
                Direction::Download => "requests of the server (download)",
            };
            svg.text((self.x(column) + self.plot_width / 2.0, top + 10.0), bold, words);
        }
        let row_height = TITLE_HEIGHT + 14.0 + self.events_height + self.plot_height + 12.0;
        let mut y = top + 16.0;
        for (index, row) in self.rows.iter().enumerate() {
            let last = index + 1 == self.rows.len();
            let name = format!("{} · {}", row.run.id, row.chosen);
            svg.text(
                (LEFT, y + 14.0),
                TextStyle::new(13.0, INK).bold(),
                &lettering::fitted(&row.name, 14.0, 420.0),
            );
            let at = LEFT + lettering::width(&lettering::fitted(&row.name, 14.0, 420.0), 13.0 * 1.12) + 8.0;
            svg.text(
                (at, y + 14.0),
                TextStyle::new(10.5, MUTED),
                &lettering::fitted(&name, 10.5, WIDTH - RIGHT - at),
            );
            for (column, panel) in row.panels.iter().enumerate() {
                let plot = Area {
                    x: self.x(column),
                    y: y + TITLE_HEIGHT + 12.0 + self.events_height,
                    width: self.plot_width,
                    height: self.plot_height,
                };
                self.draw_panel(svg, row, panel, plot, (column == 0, last));
            }
            y += row_height;
        }
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        let text = format!("time at which the message was due, {}", self.time.unit.0);
        svg.text((LEFT + (WIDTH - LEFT - RIGHT) / 2.0, y + 20.0), style, &text);
        y + 34.0
    }

    fn x(&self, column: usize) -> f64 {
        LEFT + column as f64 * (self.plot_width + COLUMN_GAP)
    }

    fn draw_panel(&self, svg: &mut Svg, row: &Row, panel: &Panel, plot: Area, (first, last): (bool, bool)) {
        let small = TextStyle::new(10.5, MUTED);
        let facts = lettering::fitted(&facts(panel), 10.5, plot.width);
        svg.text((plot.x, plot.y - self.events_height - 7.0), small, &facts);
        for (ms, words) in self.delays.ticks() {
            let y = self.y(plot, ms);
            let width = if words.is_some() { 1.0 } else { 0.5 };
            svg.line((plot.x, y), (plot.right(), y), Stroke::solid(GRID, width));
            if let Some(words) = words.filter(|_| first) {
                svg.text((plot.x - 6.0, y + 3.6), small.anchored(Anchor::End), &words);
            }
        }
        for tick in &self.time.axis.ticks {
            let x = self.time.x(plot, tick * self.time.unit.1);
            svg.line((x, plot.bottom()), (x, plot.bottom() + 4.0), Stroke::solid(FRAME, 1.0));
            if last {
                let at = (x, plot.bottom() + 16.0);
                svg.text(at, small.anchored(Anchor::Middle), &self.time.axis.number(*tick));
            }
        }
        svg.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), Stroke::solid(FRAME, 1.0));
        event::draw(svg, &row.happenings, plot, self.events_height, &self.time);
        for line in thinned(&panel.messages, |line| self.time.x(plot, line.due_ms)) {
            let centre = (self.time.x(plot, line.due_ms), self.y(plot, line.delay_ms));
            if line.late {
                svg.triangle(centre, 4.0, ALARM);
            } else {
                let tooltip = format!(
                    "message {}: {}, due at {}",
                    line.sequence,
                    duration(line.delay_ms),
                    duration(line.due_ms)
                );
                svg.dot(centre, 2.6, row.colour, tooltip);
            }
        }
        if panel.messages.is_empty() {
            let middle = (plot.x + plot.width / 2.0, plot.y + plot.height / 2.0 + 4.0);
            svg.text(middle, TextStyle::new(11.0, MUTED).anchored(Anchor::Middle), "no message was due");
        }
    }

    fn y(&self, plot: Area, ms: f64) -> f64 {
        plot.bottom() - self.delays.part(ms) * plot.height
    }

    fn legend(&self) -> Vec<(Mark, String)> {
        let mut entries = vec![(Mark::Dot(MUTED), "one message".to_owned())];
        let mut lines = self.rows.iter().flat_map(|row| &row.panels).flat_map(|panel| &panel.messages);
        if lines.any(|line| line.late) {
            entries.push((Mark::Triangle(ALARM), "never acknowledged: at least so long".to_owned()));
        }
        if self.rows.iter().any(|row| !row.happenings.is_empty()) {
            entries.push((Mark::Event, "event".to_owned()));
        }
        entries
    }
}

/// All messages, or where there are too many the slowest of each pixel, and all that are late.
fn thinned<'a>(messages: &[&'a MessageLine], x: impl Fn(&MessageLine) -> f64) -> Vec<&'a MessageLine> {
    if messages.len() <= MOST_POINTS {
        return messages.to_vec();
    }
    let mut slowest: BTreeMap<(i64, bool), &MessageLine> = BTreeMap::new();
    for line in messages {
        let shown = slowest.entry((x(line).round() as i64, line.late)).or_insert(line);
        if line.delay_ms > shown.delay_ms {
            *shown = line;
        }
    }
    slowest.into_values().collect()
}

fn facts(panel: &Panel) -> String {
    let Some(delay) = panel.delay else { return String::new() };
    let of =
        |what: &str, figure: &str, ms: f64| format!("{what} {}{}", bound_mark(delay, figure), duration(ms));
    let mut facts = vec![
        of("median", "delay_p50_ms", delay.p50),
        of("p95", "delay_p95_ms", delay.p95),
        of("slowest", "delay_max_ms", delay.max),
    ];
    if delay.late > 0 {
        facts.push(format!("never: {} of {}", delay.late, delay.messages));
    }
    facts.join(" · ")
}

fn caption(view: &View, selection: &Selection, rows: &[Row]) -> Vec<String> {
    let stories = narrative::stories_of(view);
    let mine = stories
        .iter()
        .zip(&view.groups)
        .filter(|(_, group)| group.pattern.kind == Kind::Interactive && selection.has(group));
    let mut paragraphs: Vec<String> =
        mine.map(|(story, _)| format!("{} {}.", story.label, story.headline)).collect();
    if paragraphs.len() > 6 {
        paragraphs.clear();
    }
    let mut made = vec![
        "Delay: from the moment a message is due, on a grid that never slips, to its acknowledgement. The scale is \
         logarithmic. Each row is one run, the one whose 95th percentile is the median."
            .to_owned(),
    ];
    let most = rows.iter().flat_map(|row| &row.panels).map(|panel| panel.messages.len()).max();
    if most.is_some_and(|most| most > MOST_POINTS) {
        made.push("Of many messages within one pixel, the slowest is drawn.".to_owned());
    }
    made.extend(narrative::encryption(view).map(|note| format!("{note}.")));
    paragraphs.push(made.join(" "));
    paragraphs
}
