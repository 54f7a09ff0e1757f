//! Delays of messages and datagrams: each over time; of messages also their distribution, one line per label.

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
use crate::run_data::{RunData, has_delays};
use crate::view::{GroupView, View, name_of};
use pathbench_record::datagram::{DatagramFigures, DatagramRecord};
use pathbench_record::direction::Direction;
use pathbench_record::document::{DelayRecord, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;
use std::rc::Rc;

const MOST_ROWS: usize = 16;
/// A facet with more messages shows only the slowest of each pixel.
const MOST_POINTS: usize = 1200;

const fn heading(direction: Direction, kind: Kind) -> &'static str {
    match (kind, direction) {
        (Kind::Datagrams, Direction::Upload) => "datagrams of the client (upload)",
        (Kind::Datagrams, Direction::Download) => "datagrams of the server (download)",
        (_, Direction::Upload) => "requests of the client (upload)",
        (_, Direction::Download) => "requests of the server (download)",
    }
}

/// The delay of each message, or of each datagram by path; none if the delays of no run are known.
pub(crate) fn delay_of(view: &View, selection: &Selection, kind: Kind) -> Option<Chart> {
    let is_of_messages = kind != Kind::Datagrams;
    let of_kind = |group: &GroupView| group.pattern.kind == kind;
    let is_shown = |run: &RunRecord| is_of_messages || has_delays(run);
    let has = |direction: &Direction| {
        let runs = view.groups.iter().filter(|group| of_kind(group)).flat_map(|group| &group.runs);
        runs.into_iter().any(|run| of_direction(&view.data(run), *direction).next().is_some())
    };
    let directions: Vec<Direction> = Direction::BOTH.into_iter().filter(has).collect();
    let shown: Vec<(&GroupView, &RunRecord)> =
        selection.runs(view).filter(|(group, run)| of_kind(group) && is_shown(run)).take(MOST_ROWS).collect();
    if shown.is_empty() && !is_of_messages {
        return None;
    }
    let data: Vec<Rc<RunData>> = shown.iter().map(|(_, run)| view.data(run)).collect();
    let lines = || data.iter().flat_map(|data| data.messages.iter().chain(&data.datagrams));
    let events = data.iter().flat_map(|data| narrative::scenario_events(data));
    let events: Vec<f64> = events.map(|event| event.t_ms).collect();
    let frame = Frame { shared_y: true, ..Frame::of_columns(directions.len()) };
    let end_ms = lines().map(|line| line.due_ms).chain(events.iter().copied()).fold(0.0, f64::max);
    let groups: Vec<&GroupView> = shown.iter().map(|(group, _)| *group).collect();
    let of_group = |group: &&GroupView| spreads(view, group, &directions, end_ms);
    let spreads: Vec<Vec<Spread>> = groups.iter().map(of_group).collect();
    let of_others = spreads.iter().flatten().flat_map(Spread::values);
    let deadlines =
        shown.iter().flat_map(|(_, run)| run.datagrams.values()).filter_map(|one| one.deadline_ms);
    let delays = lines().filter(|line| is_of_messages || !line.unacknowledged).map(|line| line.delay_ms);
    let axes = (
        Scale::time(end_ms, frame.plot_width()),
        Scale::logarithmic_ms(delays.chain(of_others).chain(deadlines.clone())),
        if shown.len() > 4 { 92.0 } else { 124.0 },
    );
    let of_run = |((group, run), spreads): (&(&GroupView, &RunRecord), &Vec<Spread>)| {
        let of = |((column, direction), spread)| {
            facet(view, (group, run), (column, direction, spread), selection, &axes)
        };
        directions.iter().copied().enumerate().zip(spreads).map(of).collect::<Vec<_>>()
    };
    let (key, sentence) = spread::explained(spreads.iter().flatten(), groups.iter().copied()).unzip();
    let paths = view.paths.names.iter().filter(|name| lines().any(|line| line.path.as_ref() == Some(*name)));
    let paths = paths.map(|name| (Key::Fill(view.paths.colour(name)), name.clone()));
    let is_lost = lines().any(|line| line.unacknowledged);
    let legend =
        keys([(Key::Point(Shape::Dot, MUTED), "one message", is_of_messages)]).chain(paths).chain(keys([
            (
                Key::Point(Shape::Triangle, ALARM),
                "never acknowledged: at least so long",
                is_of_messages && is_lost,
            ),
            (Key::Point(Shape::Triangle, MUTED), "lost, at the upper edge", !is_of_messages && is_lost),
            (Key::Line(DEADLINE), "deadline", deadlines.clone().next().is_some()),
            (Key::Event, "event", !events.is_empty()),
        ]));
    let is_thinned = |run: &RunRecord| {
        directions.iter().any(|direction| of_direction(&view.data(run), *direction).count() > MOST_POINTS)
    };
    let what = if is_of_messages { "message" } else { "datagram" };
    Some(Chart {
        headings: directions.iter().map(|direction| heading(*direction, kind).to_owned()).collect(),
        caption: caption(view, selection, kind, shown.iter().any(|(_, run)| is_thinned(run)), sentence),
        facets: shown.iter().zip(&spreads).flat_map(of_run).collect(),
        legend: legend.chain(key).collect(),
        frame,
        shared_x: Some(format!(
            "time at which the {what} was {}",
            if is_of_messages { "due" } else { "sent" }
        )),
        empty: "There is no message to show.",
        ..Selection { pattern: None, ..selection.clone() }.chart(view, &format!("delay of every {what}"))
    })
}

const DEADLINE: Stroke = Stroke { colour: ALARM, width: 1.0, dash: Some((5.0, 4.0)) };

/// The delays of all messages of the valid runs, by direction; none of datagrams, which have a colour for each path.
fn spreads(view: &View, group: &GroupView, directions: &[Direction], end_ms: f64) -> Vec<Spread> {
    let mut spreads: Vec<Spread> = directions.iter().map(|_| Spread::covering(end_ms)).collect();
    for run in repetitions(group).into_iter().filter(|run| run.datagrams.is_empty()) {
        let data = view.data(run);
        for (spread, direction) in spreads.iter_mut().zip(directions) {
            of_direction(&data, *direction).for_each(|line| spread.add_at(line.due_ms, line.delay_ms));
        }
    }
    spreads
}

fn of_direction(data: &RunData, direction: Direction) -> impl Iterator<Item = &MessageLine> {
    data.messages.iter().chain(&data.datagrams).filter(move |line| line.direction == direction)
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
    let record = run.datagrams.get(&direction);
    match record {
        Some(record) => marks.extend(flow_marks(view, record, &shown, (time, delays))),
        None => marks
            .extend([points(false, (Shape::Dot, colour, 2.6)), points(true, (Shape::Triangle, ALARM, 4.0))]),
    }
    let empty = (all == 0).then(|| "no message was due".to_owned());
    let delay = run.directions.iter().find(|one| one.direction == direction);
    let is_first = column == 0;
    let strips = vec![Strip { empty, ..Strip::new(*height, delays.clone(), marks) }];
    Facet {
        facts: delay
            .and_then(|one| one.delay_ms.as_ref())
            .map(facts)
            .or_else(|| record.map(flow_facts))
            .unwrap_or_default(),
        remarks: if is_first { vec![(MUTED, chosen(group, run))] } else { Vec::new() },
        events: narrative::scenario_events(&data),
        ..Facet::new(if is_first { selection.name(group) } else { String::new() }, time.clone(), strips)
    }
}

/// The datagrams of each path in its colour: lost ones at the upper edge, a row for each path.
fn flow_marks(
    view: &View,
    record: &DatagramRecord,
    lines: &[&MessageLine],
    (time, delays): (&Scale, &Scale),
) -> Vec<Mark> {
    let mut marks = Vec::new();
    if let Some(deadline_ms) = record.deadline_ms {
        let points = vec![(time.low, deadline_ms), (time.high, deadline_ms)];
        marks.push(Mark::line("deadline", points, DEADLINE));
    }
    for (row, path) in record.paths.keys().enumerate() {
        let colour = view.paths.colour(path);
        let of_path = |is_lost: bool| {
            let of_path = |line: &&&MessageLine| line.path.as_ref() == Some(path);
            lines.iter().filter(of_path).filter(move |line| line.unacknowledged == is_lost)
        };
        let arrived = of_path(false).map(|line| Point {
            tooltip: format!(
                "datagram {}: {}, sent at {}",
                line.sequence,
                duration(line.delay_ms),
                duration(line.due_ms)
            ),
            ..point(line)
        });
        marks.push(Mark::points(path, (Shape::Dot, colour, 1.8), arrived));
        // On the logarithmic scale, rows at equal distances.
        let y =
            delays.high / (delays.high / delays.low.max(f64::MIN_POSITIVE)).powf((row + 1) as f64 * LOST_ROW);
        let lost = of_path(true).map(|line| Point {
            x: line.due_ms,
            y,
            tooltip: format!("datagram {} on {path}: lost, sent at {}", line.sequence, duration(line.due_ms)),
        });
        marks.push(Mark::points(path, (Shape::Triangle, colour, 3.0), lost));
    }
    marks
}

/// Distance of the rows of lost datagrams, as part of the height.
const LOST_ROW: f64 = 0.06;

fn flow_facts(record: &DatagramRecord) -> Vec<String> {
    let percent =
        |share: Option<f64>| share.map_or("none sent".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let of_path = |(path, one): (&String, &DatagramFigures)| {
        let late = one.late_share.map_or(String::new(), |late| format!(", late {}", percent(Some(late))));
        format!("{path}: lost {}{late}", percent(one.loss))
    };
    record.paths.iter().map(of_path).collect()
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
    let mut slowest: BTreeMap<(i64, bool, Option<&str>), &MessageLine> = BTreeMap::new();
    for line in messages {
        let pixel = (time.part(line.due_ms) * 400.0).round() as i64;
        let shown = slowest.entry((pixel, line.unacknowledged, line.path.as_deref())).or_insert(line);
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

fn caption(
    view: &View,
    selection: &Selection,
    kind: Kind,
    is_thinned: bool,
    spread: Option<String>,
) -> Vec<String> {
    let groups = view.groups.iter();
    let mine = groups.filter(|group| group.pattern.kind == kind && selection.has(group));
    let mut paragraphs: Vec<String> = mine
        .map(|group| narrative::story(view, group))
        .map(|story| format!("{} {}.", story.label, story.headline))
        .collect();
    if paragraphs.len() > 6 {
        paragraphs.clear();
    }
    let delay = "Delay: from the moment a message is due, on a grid that never slips, to its acknowledgement. The scale is \
                 logarithmic. Each row is one run, the one whose 95th percentile is the median.";
    let flow = "Delay: from the moment the sender's application passes a datagram on until the receiver's kernel has it. The \
                scale is logarithmic. Late are those above the deadline. Each row is one run.";
    let delay = if kind == Kind::Datagrams { flow } else { delay };
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
    let headings = plots
        .iter()
        .map(|(direction, _)| direction.map_or("round trips", |one| heading(one, pattern.kind)).to_owned());
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
