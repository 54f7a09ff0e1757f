//! Delays of messages: each over time, and their distribution, one line per label.

use super::selection::{Selection, chosen, encrypted, left_out, paragraph};
use super::spread::{self, Spread, repetitions};
use crate::chart::{
    Anchor, Chart, Coordinate, Facet, Frame, Key, Label, Mark, Point, Scale, Shape, Strip, Stroke, TextStyle,
    cumulative, keys,
};
use crate::narrative;
use crate::palette::{ALARM, Colour, INK, MUTED, transport_colour};
use crate::pattern::{Kind, Pattern, bound_mark};
use crate::quantity::{counted, duration};
use crate::run_data::RunData;
use crate::view::{GroupView, View, name_of};
use pathbench_record::direction::Direction;
use pathbench_record::document::{DelayRecord, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;
use std::rc::Rc;

const MOST_ROWS: usize = 16;
/// A facet with more messages shows only the slowest of each pixel.
const MOST_POINTS: usize = 1200;

const fn heading(direction: Direction) -> &'static str {
    match direction {
        Direction::Upload => "requests of the client (upload)",
        Direction::Download => "requests of the server (download)",
    }
}

pub(crate) fn delay_of(view: &View, selection: &Selection) -> Chart {
    let of_kind = |group: &GroupView| group.pattern.kind == Kind::Interactive;
    let has = |direction: &Direction| {
        let runs = view.groups.iter().filter(|group| of_kind(group)).flat_map(|group| &group.runs);
        runs.into_iter().any(|run| view.data(run).messages.iter().any(|line| line.direction == *direction))
    };
    let directions: Vec<Direction> = Direction::BOTH.into_iter().filter(has).collect();
    let shown: Vec<(&GroupView, &RunRecord)> =
        selection.runs(view).filter(|(group, _)| of_kind(group)).take(MOST_ROWS).collect();
    let data: Vec<Rc<RunData>> = shown.iter().map(|(_, run)| view.data(run)).collect();
    let lines = || data.iter().flat_map(|data| &data.messages);
    let events = data.iter().flat_map(|data| narrative::scenario_events(data));
    let events: Vec<f64> = events.map(|event| event.t_ms).collect();
    let frame = Frame { shared_y: true, ..Frame::of_columns(directions.len()) };
    let end_ms = lines().map(|line| line.due_ms).chain(events.iter().copied()).fold(0.0, f64::max);
    let groups: Vec<&GroupView> = shown.iter().map(|(group, _)| *group).collect();
    let of_group = |group: &&GroupView| spreads(view, group, &directions, end_ms);
    let spreads: Vec<Vec<Spread>> = groups.iter().map(of_group).collect();
    let of_others = spreads.iter().flatten().flat_map(Spread::values);
    let axes = (
        Scale::time(end_ms, frame.plot_width()),
        Scale::logarithmic_ms(lines().map(|line| line.delay_ms).chain(of_others)),
        if shown.len() > 4 { 92.0 } else { 124.0 },
    );
    let of_run = |((group, run), spreads): (&(&GroupView, &RunRecord), &Vec<Spread>)| {
        let of = |((column, direction), spread)| {
            facet(view, (group, run), (column, direction, spread), selection, &axes)
        };
        directions.iter().copied().enumerate().zip(spreads).map(of).collect::<Vec<_>>()
    };
    let (key, sentence) = spread::explained(spreads.iter().flatten(), groups.iter().copied()).unzip();
    let legend = [(Key::Point(Shape::Dot, MUTED), "one message".to_owned())].into_iter().chain(keys([
        (
            Key::Point(Shape::Triangle, ALARM),
            "never acknowledged: at least so long",
            lines().any(|line| line.unacknowledged),
        ),
        (Key::Event, "event", !events.is_empty()),
    ]));
    let is_thinned = |run: &RunRecord| {
        directions.iter().any(|direction| of_direction(&view.data(run), *direction).count() > MOST_POINTS)
    };
    Chart {
        headings: directions.iter().map(|direction| heading(*direction).to_owned()).collect(),
        caption: caption(view, selection, shown.iter().any(|(_, run)| is_thinned(run)), sentence),
        facets: shown.iter().zip(&spreads).flat_map(of_run).collect(),
        legend: legend.chain(key).collect(),
        frame,
        shared_x: Some("time at which the message was due".to_owned()),
        empty: "There is no message to show.",
        ..Selection { pattern: None, ..selection.clone() }.chart(view, "delay of every message")
    }
}

/// The delays of all messages of the valid runs, by direction.
fn spreads(view: &View, group: &GroupView, directions: &[Direction], end_ms: f64) -> Vec<Spread> {
    let mut spreads: Vec<Spread> = directions.iter().map(|_| Spread::covering(end_ms)).collect();
    for run in repetitions(group) {
        let data = view.data(run);
        for (spread, direction) in spreads.iter_mut().zip(directions) {
            of_direction(&data, *direction).for_each(|line| spread.add_at(line.due_ms, line.delay_ms));
        }
    }
    spreads
}

fn of_direction(data: &RunData, direction: Direction) -> impl Iterator<Item = &MessageLine> {
    data.messages.iter().filter(move |line| line.direction == direction)
}

fn facet(
    view: &View,
    (group, run): (&GroupView, &RunRecord),
    (column, direction, spread): (usize, Direction, &Spread),
    selection: &Selection,
    (time, delays, height): &(Scale, Scale, f64),
) -> Facet {
    let data = view.data(run);
    let messages: Vec<&MessageLine> = of_direction(&data, direction).collect();
    let all = messages.len();
    let shown = thinned(messages, time);
    let points = |unacknowledged: bool, look: (Shape, Colour, f64)| {
        let wanted = shown.iter().filter(|line| line.unacknowledged == unacknowledged);
        Mark::points(direction.name(), look, wanted.map(|line| point(line)))
    };
    let colour = group.transport().map_or(INK, transport_colour);
    let mut marks = spread.lines("spread over the valid runs", colour);
    marks.extend([points(false, (Shape::Dot, colour, 2.6)), points(true, (Shape::Triangle, ALARM, 4.0))]);
    let empty = (all == 0).then(|| "no message was due".to_owned());
    let delay = run.directions.iter().find(|one| one.direction == direction);
    let is_first = column == 0;
    let strips = vec![Strip { empty, ..Strip::new(*height, delays.clone(), marks) }];
    Facet {
        facts: delay.and_then(|one| one.delay_ms.as_ref()).map(facts).unwrap_or_default(),
        remarks: if is_first { vec![(MUTED, chosen(group, run))] } else { Vec::new() },
        events: narrative::scenario_events(&data),
        ..Facet::new(if is_first { selection.name(group) } else { String::new() }, time.clone(), strips)
    }
}

fn point(line: &MessageLine) -> Point {
    let (delay, due) = (duration(line.delay_ms), duration(line.due_ms));
    let tooltip = format!("message {}: {delay}, due at {due}", line.sequence);
    Point { x: line.due_ms, y: line.delay_ms, tooltip }
}

/// All messages; if there are too many, the slowest of each pixel and all unacknowledged ones.
fn thinned<'a>(messages: Vec<&'a MessageLine>, time: &Scale) -> Vec<&'a MessageLine> {
    if messages.len() <= MOST_POINTS {
        return messages;
    }
    let mut slowest: BTreeMap<(i64, bool), &MessageLine> = BTreeMap::new();
    for line in messages {
        let shown = slowest
            .entry(((time.part(line.due_ms) * 400.0).round() as i64, line.unacknowledged))
            .or_insert(line);
        if line.delay_ms > shown.delay_ms {
            *shown = line;
        }
    }
    slowest.into_values().collect()
}

fn facts(delay: &DelayRecord) -> Vec<String> {
    let of =
        |what: &str, figure: &str, ms: f64| format!("{what} {}{}", bound_mark(delay, figure), duration(ms));
    let never =
        (delay.unacknowledged > 0).then(|| format!("never: {} of {}", delay.unacknowledged, delay.messages));
    let facts = [
        of("median", "delay_p50_ms", delay.p50),
        of("p95", "delay_p95_ms", delay.p95),
        of("slowest", "delay_max_ms", delay.max),
    ];
    facts.into_iter().chain(never).collect()
}

fn caption(view: &View, selection: &Selection, is_thinned: bool, spread: Option<String>) -> Vec<String> {
    let groups = view.groups.iter();
    let mine = groups.filter(|group| group.pattern.kind == Kind::Interactive && selection.has(group));
    let mut paragraphs: Vec<String> = mine
        .map(|group| narrative::story(view, group))
        .map(|story| format!("{} {}.", story.label, story.headline))
        .collect();
    if paragraphs.len() > 6 {
        paragraphs.clear();
    }
    let delay = "Delay: from the moment a message is due, on a grid that never slips, to its acknowledgement. The scale is \
                 logarithmic. Each row is one run, the one whose 95th percentile is the median.";
    let thinned = "Of many messages within one pixel, the slowest is drawn.";
    let spread = spread.unwrap_or_default();
    paragraphs.push(paragraph(&[delay, if is_thinned { thinned } else { "" }, &spread, &encrypted(view)]));
    paragraphs
}

const MOST_LINES: usize = 12;

struct Line {
    name: String,
    answered_ms: Vec<f64>,
    all: usize,
    stroke: Stroke,
}

/// The colour of the group's transport; groups of the same colour have different dashes.
fn stroke(group: &GroupView, same_before: usize) -> Stroke {
    let transport = group.transport().unwrap_or_default();
    let dashes = match transport {
        Transport::Mptcp => [None, Some((9.0, 2.0)), Some((2.0, 2.0))],
        Transport::Mpquic => [Some((12.0, 3.0)), None, Some((2.0, 2.0))],
        Transport::Tcp => [Some((6.0, 3.0)), None, Some((2.0, 3.0))],
        Transport::Quic => [Some((2.5, 2.5)), Some((6.0, 3.0)), None],
        Transport::Udp => [Some((1.0, 3.0)), Some((4.0, 4.0)), None],
    };
    Stroke { colour: transport_colour(transport), width: 2.2, dash: dashes[same_before % dashes.len()] }
}

pub(super) fn strokes(groups: &[&GroupView]) -> Vec<Stroke> {
    let look = |(index, group): (usize, &&GroupView)| {
        let before = groups[..index].iter().filter(|one| one.transport() == group.transport());
        stroke(group, before.count())
    };
    groups.iter().enumerate().map(look).collect()
}

fn answered(view: &View, group: &GroupView, direction: Option<Direction>) -> (Vec<f64>, usize) {
    let mut answered_ms = Vec::new();
    let mut all = 0_usize;
    for run in group.valid_runs() {
        match (direction, &run.ping) {
            (None, Some(ping)) => {
                answered_ms.extend(&ping.rtts_ms);
                all += ping.rtts_ms.len().max(ping.sent as usize);
            }
            (None, None) => {}
            (Some(direction), _) => {
                for line in of_direction(&view.data(run), direction) {
                    answered_ms.extend((!line.unacknowledged).then_some(line.delay_ms));
                    all += 1;
                }
            }
        }
    }
    answered_ms.retain(|ms| ms.is_finite() && *ms >= 0.0);
    answered_ms.sort_by(f64::total_cmp);
    (answered_ms, all)
}

pub(crate) fn distribution_of(view: &View, pattern: Pattern) -> Chart {
    let groups: Vec<&GroupView> = view.of_pattern(pattern).collect();
    let members = || groups.iter().zip(strokes(&groups)).take(MOST_LINES);
    let directions = match pattern.kind {
        Kind::Interactive => vec![Some(Direction::Upload), Some(Direction::Download)],
        _ => vec![None],
    };
    let lines = |direction| -> Vec<Line> {
        let line = |(group, stroke): (&&GroupView, Stroke)| {
            let (answered_ms, all) = answered(view, group, direction);
            Line { name: name_of(group.label, None, group.variant), answered_ms, all, stroke }
        };
        members().map(line).collect()
    };
    let plots: Vec<(Option<Direction>, Vec<Line>)> = directions
        .into_iter()
        .map(|direction| (direction, lines(direction)))
        .filter(|(_, lines)| lines.iter().any(|line| line.all > 0))
        .collect();
    let all = || plots.iter().flat_map(|(_, lines)| lines);
    let scale = Scale::logarithmic_ms(all().flat_map(|line| line.answered_ms.iter().copied()));
    let parts = Scale::parts(&[0.0, 0.25, 0.5, 0.75, 0.95, 1.0]);
    let facet = |lines: &Vec<Line>| {
        let marks = lines.iter().flat_map(|line| marks(line, scale.high));
        Facet::new("", scale.clone(), vec![Strip::new(240.0, parts.clone(), marks.collect())])
    };
    let legend =
        members().map(|(group, stroke)| (Key::Line(stroke), name_of(group.label, None, group.variant)));
    let headings = plots.iter().map(|(direction, _)| direction.map_or("round trips", heading).to_owned());
    let what = if pattern.kind == Kind::Ping { "round trips of pings" } else { "delay of messages" };
    Chart {
        legend: legend.collect(),
        headings: headings.collect(),
        facets: plots.iter().map(|(_, lines)| facet(lines)).collect(),
        frame: Frame { shared_y: true, right: 30.0, ..Frame::of_columns(plots.len()) },
        shared_x: Some("within (logarithmic)".to_owned()),
        empty: "There is no message to show.",
        caption: vec![distribution_caption(
            view,
            pattern,
            &groups,
            all().any(|line| line.answered_ms.len() < line.all),
        )],
        ..Chart::from_view(view, &format!(": {what}, distribution"))
    }
}

/// Steps up to the answered fraction; a triangle at the end of a line below 100 %.
fn marks(line: &Line, end: f64) -> Vec<Mark> {
    let (answered, all) = (line.answered_ms.len(), line.all);
    if answered == 0 {
        return Vec::new();
    }
    let part = answered as f64 / all as f64;
    let mut points = cumulative(&line.answered_ms, all);
    points.push((end, part));
    let mut marks = vec![Mark::line(&line.name, points, line.stroke)];
    if answered < all {
        let never = format!("{} never", all - answered);
        let at = (Coordinate::High(-8.0), Coordinate::Data(part, 12.0));
        let label = Label::new(&*never, at, TextStyle::new(10.0, INK).anchored(Anchor::End));
        let point = Point { x: end, y: part, tooltip: never };
        marks.push(Mark::points(&line.name, (Shape::Triangle, ALARM, 4.5), [point]));
        marks.push(Mark::Label(label));
    }
    marks
}

fn distribution_caption(view: &View, pattern: Pattern, groups: &[&GroupView], lossy: bool) -> String {
    let height = match pattern.kind {
        Kind::Ping => "Height: the part of all pings that were answered within the time below.",
        _ => {
            "Height: the part of all messages that were acknowledged within the time below, counted from the moment \
             they were due."
        }
    };
    let triangles = "A line that ends at a triangle lacks those that were never answered.";
    let runs = counted(groups.iter().map(|group| group.valid()).sum::<u32>(), "valid run");
    let all = format!("All of {runs} together, label by label.");
    let more = left_out(groups.len().saturating_sub(MOST_LINES), "label");
    paragraph(&[height, if lossy { triangles } else { "" }, &all, &more, &encrypted(view)])
}
