//! Delay over time: every message of the interactive pattern as a point, one facet per label and direction.

use super::{Selection, chosen};
use crate::chart::{Chart, Facet, Frame, Key, Mark, Point, Scale, Shape, Strip, keys};
use crate::narrative;
use crate::palette::{ALARM, Colour, INK, MUTED, transport_colour};
use crate::pattern::{Kind, bound_mark};
use crate::quantity::duration;
use crate::view::{GroupView, View};
use pathbench_record::direction::Direction;
use pathbench_record::document::{DelayRecord, RunRecord};
use pathbench_record::message::MessageLine;
use std::collections::BTreeMap;

const MOST_ROWS: usize = 16;
/// Of more messages in a facet only the slowest within each pixel is drawn.
const MOST_POINTS: usize = 1200;

pub(super) const fn heading(direction: Direction) -> &'static str {
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
    let lines = || shown.iter().flat_map(|(_, run)| &view.data(run).messages).copied();
    let events = shown.iter().flat_map(|(_, run)| narrative::scenario_events(view.data(run)));
    let events: Vec<f64> = events.map(|event| event.t_ms).collect();
    let frame = Frame { shared_y: true, ..Frame::of_columns(directions.len()) };
    let end_ms = lines().map(|line| line.due_ms).chain(events.iter().copied()).fold(0.0, f64::max);
    let axes = (
        Scale::time(end_ms, frame.plot_width()),
        Scale::logarithmic_ms(lines().map(|line| line.delay_ms)),
        if shown.len() > 4 { 92.0 } else { 124.0 },
    );
    let of_run = |(group, run): &(&GroupView, &RunRecord)| {
        let of = |(column, direction)| facet(view, (group, run), (column, direction), selection, &axes);
        directions.iter().copied().enumerate().map(of).collect::<Vec<_>>()
    };
    let legend = [(Key::Point(Shape::Dot, MUTED), "one message".to_owned())].into_iter().chain(keys([
        (
            Key::Point(Shape::Triangle, ALARM),
            "never acknowledged: at least so long",
            lines().any(|line| line.late),
        ),
        (Key::Event, "event", !events.is_empty()),
    ]));
    let most = directions.iter().flat_map(|direction| {
        let of = |run: &RunRecord| of_direction(view, run, *direction).count();
        shown.iter().map(move |(_, run)| of(run))
    });
    Chart {
        headings: directions.iter().map(|direction| heading(*direction).to_owned()).collect(),
        caption: caption(view, selection, most.max().unwrap_or(0)),
        facets: shown.iter().flat_map(of_run).collect(),
        legend: legend.collect(),
        frame,
        shared_x: Some("time at which the message was due".to_owned()),
        empty: "There is no message to show.",
        ..Selection { pattern: None, ..selection.clone() }.chart(view, "delay of every message")
    }
}

fn of_direction<'a>(
    view: &'a View<'a>,
    run: &RunRecord,
    direction: Direction,
) -> impl Iterator<Item = &'a MessageLine> {
    view.data(run).messages.iter().copied().filter(move |line| line.direction == direction)
}

fn facet(
    view: &View,
    (group, run): (&GroupView, &RunRecord),
    (column, direction): (usize, Direction),
    selection: &Selection,
    (time, delays, height): &(Scale, Scale, f64),
) -> Facet {
    let messages: Vec<&MessageLine> = of_direction(view, run, direction).collect();
    let all = messages.len();
    let shown = thinned(messages, time);
    let points = |late: bool, shape: Shape, colour: Colour, radius: f64| Mark::Points {
        series: direction.name().to_owned(),
        shape,
        colour,
        radius,
        points: shown.iter().filter(|line| line.late == late).map(|line| point(line)).collect(),
    };
    let colour = group.transport().map_or(INK, transport_colour);
    let marks = vec![points(false, Shape::Dot, colour, 2.6), points(true, Shape::Triangle, ALARM, 4.0)];
    let empty = (all == 0).then(|| "no message was due".to_owned());
    let delay = run.directions.iter().find(|one| one.direction == direction);
    let is_first = column == 0;
    let strips = vec![Strip { empty, ..Strip::new(*height, delays.clone(), marks) }];
    Facet {
        facts: delay.and_then(|one| one.delay_ms.as_ref()).map(facts).unwrap_or_default(),
        remarks: if is_first { vec![(MUTED, chosen(group, run))] } else { Vec::new() },
        events: narrative::scenario_events(view.data(run)),
        ..Facet::new(if is_first { selection.name(group) } else { String::new() }, time.clone(), strips)
    }
}

fn point(line: &MessageLine) -> Point {
    let (delay, due) = (duration(line.delay_ms), duration(line.due_ms));
    let tooltip = format!("message {}: {delay}, due at {due}", line.sequence);
    Point { x: line.due_ms, y: line.delay_ms, tooltip }
}

/// All messages, or where there are too many the slowest of each pixel, and all that were never acknowledged.
fn thinned<'a>(messages: Vec<&'a MessageLine>, time: &Scale) -> Vec<&'a MessageLine> {
    if messages.len() <= MOST_POINTS {
        return messages;
    }
    let mut slowest: BTreeMap<(i64, bool), &MessageLine> = BTreeMap::new();
    for line in messages {
        let shown =
            slowest.entry(((time.part(line.due_ms) * 400.0).round() as i64, line.late)).or_insert(line);
        if line.delay_ms > shown.delay_ms {
            *shown = line;
        }
    }
    slowest.into_values().collect()
}

fn facts(delay: &DelayRecord) -> Vec<String> {
    let of =
        |what: &str, figure: &str, ms: f64| format!("{what} {}{}", bound_mark(delay, figure), duration(ms));
    let never = (delay.late > 0).then(|| format!("never: {} of {}", delay.late, delay.messages));
    let facts = [
        of("median", "delay_p50_ms", delay.p50),
        of("p95", "delay_p95_ms", delay.p95),
        of("slowest", "delay_max_ms", delay.max),
    ];
    facts.into_iter().chain(never).collect()
}

fn caption(view: &View, selection: &Selection, most: usize) -> Vec<String> {
    let groups = view.groups.iter();
    let mine = groups.filter(|group| group.pattern.kind == Kind::Interactive && selection.has(group));
    let mut paragraphs: Vec<String> = mine
        .map(|group| narrative::story(view, group))
        .map(|story| format!("{} {}.", story.label, story.headline))
        .collect();
    if paragraphs.len() > 6 {
        paragraphs.clear();
    }
    let mut made = vec![
        "Delay: from the moment a message is due, on a grid that never slips, to its acknowledgement. The scale is \
         logarithmic. Each row is one run, the one whose 95th percentile is the median."
            .to_owned(),
    ];
    if most > MOST_POINTS {
        made.push("Of many messages within one pixel, the slowest is drawn.".to_owned());
    }
    made.extend(narrative::encryption(view).map(|note| format!("{note}.")));
    paragraphs.push(made.join(" "));
    paragraphs
}
