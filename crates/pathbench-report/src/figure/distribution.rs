//! Delay as a distribution: which part of all messages was through within which time, one line per label.

use super::axis::LogScale;
use super::legend::{self, Mark};
use super::{WIDTH, lettering};
use crate::ResultSet;
use crate::narrative;
use crate::palette::{ALARM, FRAME, GRID, INK, MUTED, transport_colour};
use crate::pattern::{Kind, Pattern};
use crate::quantity::counted;
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};
use crate::view::{GroupView, View, name_of};
use pathbench_record::direction::Direction;
use pathbench_record::transport::Transport;

const LEFT: f64 = 58.0;
const RIGHT: f64 = 30.0;
const COLUMN_GAP: f64 = 46.0;
const PLOT_HEIGHT: f64 = 240.0;
/// More lines than this cannot be told apart.
const MOST_LINES: usize = 12;
/// Steps of a line: finer than a pixel nobody sees.
const MOST_STEPS: usize = 600;

/// Which part of all messages (of the interactive pattern), or of all pings, was answered within which time: one
/// line per label over all its valid runs, one plot per direction. `None` when the result has neither.
pub fn distribution(set: &ResultSet) -> Option<Svg> {
    let view = View::new(set);
    let of = |kind: Kind| view.patterns().into_iter().find(|pattern| pattern.kind == kind);
    of(Kind::Interactive).or_else(|| of(Kind::Ping)).map(|pattern| distribution_of(&view, pattern))
}

pub(crate) fn distribution_of(view: &View, pattern: Pattern) -> Svg {
    let sheet = Sheet::new(view, pattern);
    let (_, height) = sheet.draw(10.0);
    sheet.draw(height).0
}

/// One label in one plot.
struct Line {
    /// Of those answered, in ascending order.
    answered_ms: Vec<f64>,
    /// Answered or not.
    all: usize,
    stroke: Stroke,
}

struct Plot {
    title: &'static str,
    lines: Vec<Line>,
}

struct Sheet {
    plots: Vec<Plot>,
    legend: Vec<(Mark, String)>,
    scale: LogScale,
    title: String,
    subtitle: String,
    caption: Vec<String>,
}

/// How the line of a label looks: the colour of its transport; dashes tell those of one colour apart, too.
fn stroke(group: &GroupView, same_before: usize) -> Stroke {
    let transport = group.transport().unwrap_or_default();
    let dashes = match transport {
        Transport::Mptcp => [None, Some((9.0, 2.0)), Some((2.0, 2.0))],
        Transport::Mpquic => [Some((12.0, 3.0)), None, Some((2.0, 2.0))],
        Transport::Tcp => [Some((6.0, 3.0)), None, Some((2.0, 3.0))],
        Transport::Quic => [Some((2.5, 2.5)), Some((6.0, 3.0)), None],
    };
    Stroke { colour: transport_colour(transport), width: 2.2, dash: dashes[same_before % dashes.len()] }
}

/// The looks of `groups`, in their order.
pub(super) fn strokes(groups: &[&GroupView]) -> Vec<Stroke> {
    let look = |(index, group): (usize, &&GroupView)| {
        let before = groups[..index].iter().filter(|one| one.transport() == group.transport());
        stroke(group, before.count())
    };
    groups.iter().enumerate().map(look).collect()
}

/// Delays of the answered messages, and the number of all, over the valid runs of a group.
fn answered(view: &View, group: &GroupView, direction: Option<Direction>) -> (Vec<f64>, usize) {
    let mut answered_ms = Vec::new();
    let mut all = 0_usize;
    for run in group.valid_runs() {
        match direction {
            None => {
                let Some(ping) = &run.ping else { continue };
                answered_ms.extend(&ping.rtts_ms);
                all += ping.rtts_ms.len().max(ping.sent as usize);
            }
            Some(direction) => {
                let of_direction = view.data(run).messages.iter().filter(|line| line.direction == direction);
                for line in of_direction {
                    answered_ms.extend((!line.late).then_some(line.delay_ms));
                    all += 1;
                }
            }
        }
    }
    answered_ms.retain(|ms| ms.is_finite() && *ms >= 0.0);
    answered_ms.sort_by(f64::total_cmp);
    (answered_ms, all)
}

impl Sheet {
    fn new(view: &View, pattern: Pattern) -> Self {
        let groups: Vec<&GroupView> = view.groups.iter().filter(|one| one.pattern == pattern).collect();
        let directions = match pattern.kind {
            Kind::Interactive => vec![Some(Direction::Upload), Some(Direction::Download)],
            _ => vec![None],
        };
        let strokes = strokes(&groups);
        let plots: Vec<Plot> = directions
            .into_iter()
            .map(|direction| Plot {
                title: match direction {
                    None => "round trips",
                    Some(Direction::Upload) => "requests of the client (upload)",
                    Some(Direction::Download) => "requests of the server (download)",
                },
                lines: groups
                    .iter()
                    .zip(&strokes)
                    .take(MOST_LINES)
                    .map(|(group, stroke)| {
                        let (answered_ms, all) = answered(view, group, direction);
                        Line { answered_ms, all, stroke: *stroke }
                    })
                    .collect(),
            })
            .filter(|plot| plot.lines.iter().any(|line| line.all > 0))
            .collect();
        let legend = groups.iter().zip(&strokes).take(MOST_LINES).map(|(group, stroke)| {
            (Mark::Line(*stroke), format!("  {}", name_of(group.label, None, group.variant)))
        });
        let document = &view.set.document;
        let what = if pattern.kind == Kind::Ping { "round trips of pings" } else { "delay of messages" };
        Self {
            scale: LogScale::holding(
                plots.iter().flat_map(|plot| &plot.lines).flat_map(|line| line.answered_ms.iter().copied()),
            ),
            legend: legend.collect(),
            title: format!("{}: {what}, distribution", document.scenario.name),
            subtitle: document.scenario.description.clone(),
            caption: legend::caption_lines(&caption(view, pattern, &groups, &plots), WIDTH - 40.0),
            plots,
        }
    }

    fn draw(&self, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let mut y = legend::heading(&mut svg, 20.0, WIDTH - 40.0, &self.title, &self.subtitle);
        y += legend::draw(&mut svg, (26.0, y), WIDTH - 46.0, &self.legend) + 8.0;
        if self.plots.is_empty() {
            svg.text((20.0, y + 16.0), TextStyle::new(12.0, MUTED), "There is no message to show.");
            y += 30.0;
        } else {
            let columns = self.plots.len() as f64;
            let width = (WIDTH - LEFT - RIGHT - (columns - 1.0) * COLUMN_GAP) / columns;
            for (column, plot) in self.plots.iter().enumerate() {
                let x = LEFT + column as f64 * (width + COLUMN_GAP);
                self.draw_plot(
                    &mut svg,
                    plot,
                    Area { x, y: y + 20.0, width, height: PLOT_HEIGHT },
                    column == 0,
                );
            }
            y += 20.0 + PLOT_HEIGHT + 22.0;
            let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
            svg.text((LEFT + (WIDTH - LEFT - RIGHT) / 2.0, y + 14.0), style, "within (logarithmic)");
            y += 28.0;
        }
        legend::rule(&mut svg, 20.0, y, WIDTH - 40.0);
        y += 20.0 + legend::caption(&mut svg, (20.0, y + 20.0), &self.caption);
        (svg, y)
    }

    fn draw_plot(&self, svg: &mut Svg, plot: &Plot, area: Area, first: bool) {
        let small = TextStyle::new(10.5, MUTED);
        let title = TextStyle::new(11.5, MUTED).bold().anchored(Anchor::Middle);
        svg.text((area.x + area.width / 2.0, area.y - 8.0), title, plot.title);
        for percent in [0.0, 25.0, 50.0, 75.0, 95.0, 100.0] {
            let y = area.bottom() - percent / 100.0 * area.height;
            svg.line((area.x, y), (area.right(), y), Stroke::solid(GRID, 1.0));
            if first {
                let text = format!("{percent:.0} %");
                let shift = if percent > 99.0 { 1.0 } else { 3.6 };
                svg.text((area.x - 6.0, y + shift), small.anchored(Anchor::End), &text);
            }
        }
        for (ms, words) in self.scale.ticks() {
            let x = area.x + self.scale.part(ms) * area.width;
            let width = if words.is_some() { 1.0 } else { 0.5 };
            svg.line((x, area.y), (x, area.bottom()), Stroke::solid(GRID, width));
            if let Some(words) = words {
                svg.text((x, area.bottom() + 16.0), small.anchored(Anchor::Middle), &words);
            }
        }
        svg.line((area.x, area.bottom()), (area.right(), area.bottom()), Stroke::solid(FRAME, 1.0));
        for line in &plot.lines {
            self.draw_line(svg, line, area);
        }
    }

    /// Steps up to the part that was answered at all; a triangle where a line ends below all.
    fn draw_line(&self, svg: &mut Svg, line: &Line, area: Area) {
        let answered = line.answered_ms.len();
        if line.all == 0 || answered == 0 {
            return;
        }
        let y = |count: usize| area.bottom() - count as f64 / line.all as f64 * area.height;
        let x = |ms: f64| area.x + self.scale.part(ms) * area.width;
        let stride = answered.div_ceil(MOST_STEPS).max(1);
        let mut points = Vec::new();
        let mut before = 0;
        for index in (0..answered).step_by(stride).chain([answered - 1]) {
            let at = x(line.answered_ms[index]);
            points.extend([(at, y(before)), (at, y(index + 1))]);
            before = index + 1;
        }
        let end = y(answered);
        points.push((area.right(), end));
        svg.polyline(points, line.stroke);
        if answered < line.all {
            svg.triangle((area.right() - 5.0, end), 4.5, ALARM);
            let never = format!("{} never", line.all - answered);
            let style = TextStyle::new(10.0, INK).anchored(Anchor::End);
            let at = area.right() - 13.0;
            if at - lettering::width(&never, 10.0) > area.x {
                svg.text((at, end + 12.0), style, &never);
            }
        }
    }
}

fn caption(view: &View, pattern: Pattern, groups: &[&GroupView], plots: &[Plot]) -> Vec<String> {
    let mut sentences = vec![match pattern.kind {
        Kind::Ping => "Height: the part of all pings that were answered within the time below.".to_owned(),
        _ => {
            "Height: the part of all messages that were acknowledged within the time below, counted from the \
              moment they were due."
                .to_owned()
        }
    }];
    if plots.iter().flat_map(|plot| &plot.lines).any(|line| line.answered_ms.len() < line.all) {
        sentences.push("A line that ends at a triangle lacks those that were never answered.".to_owned());
    }
    let runs: u32 = groups.iter().map(|group| group.valid()).sum();
    sentences.push(format!("All of {} together, label by label.", counted(runs, "valid run")));
    if groups.len() > MOST_LINES {
        sentences.push(format!("The first {MOST_LINES} of {} labels are shown.", groups.len()));
    }
    if let Some(note) = narrative::encryption(view) {
        sentences.push(format!("{note}."));
    }
    vec![sentences.join(" ")]
}
