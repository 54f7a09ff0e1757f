//! Delay as a distribution: which part of all messages was acknowledged within which time, one line per label.

use super::delay::heading;
use super::left_out;
use crate::chart::{
    Anchor, Chart, Facet, Frame, Key, Label, Mark, Place, Point, Scale, Shape, Strip, Stroke,
};
use crate::narrative;
use crate::palette::{ALARM, INK, transport_colour};
use crate::pattern::{Kind, Pattern};
use crate::quantity::counted;
use crate::view::{GroupView, View, name_of};
use pathbench_record::direction::Direction;
use pathbench_record::transport::Transport;

/// More lines cannot be distinguished.
const MOST_LINES: usize = 12;
/// Steps of a line: finer than a pixel is not visible.
const MOST_STEPS: usize = 600;

struct Line {
    name: String,
    answered_ms: Vec<f64>,
    all: usize,
    stroke: Stroke,
}

/// The colour of a group's transport; dashes tell those of one colour apart, too.
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
        match (direction, &run.ping) {
            (None, Some(ping)) => {
                answered_ms.extend(&ping.rtts_ms);
                all += ping.rtts_ms.len().max(ping.sent as usize);
            }
            (None, None) => {}
            (Some(direction), _) => {
                let messages = &view.data(run).messages;
                for line in messages.iter().filter(|line| line.direction == direction) {
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

pub(crate) fn distribution_of(view: &View, pattern: Pattern) -> Chart {
    let groups: Vec<&GroupView> = view.of_pattern(pattern).collect();
    let strokes = strokes(&groups);
    let directions = match pattern.kind {
        Kind::Interactive => vec![Some(Direction::Upload), Some(Direction::Download)],
        _ => vec![None],
    };
    let line = |(group, stroke): (&&GroupView, &Stroke), direction| {
        let (answered_ms, all) = answered(view, group, direction);
        Line { name: name_of(group.label, None, group.variant), answered_ms, all, stroke: *stroke }
    };
    let lines = |direction| -> Vec<Line> {
        let members = groups.iter().zip(&strokes).take(MOST_LINES);
        members.map(|member| line(member, direction)).collect()
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
    let legend = groups.iter().zip(&strokes).take(MOST_LINES);
    let what = if pattern.kind == Kind::Ping { "round trips of pings" } else { "delay of messages" };
    let scenario = &view.set.document.scenario;
    Chart {
        title: format!("{}: {what}, distribution", scenario.name),
        subtitle: scenario.description.clone(),
        legend: legend
            .map(|(group, stroke)| (Key::Line(*stroke), name_of(group.label, None, group.variant)))
            .collect(),
        headings: plots
            .iter()
            .map(|(direction, _)| direction.map_or("round trips", heading).to_owned())
            .collect(),
        facets: plots.iter().map(|(_, lines)| facet(lines)).collect(),
        frame: Frame { shared_y: true, right: 30.0, ..Frame::of_columns(plots.len()) },
        shared_x: Some("within (logarithmic)".to_owned()),
        empty: "There is no message to show.",
        caption: caption(view, pattern, &groups, all().any(|line| line.answered_ms.len() < line.all)),
    }
}

/// Steps up to the part that was answered; a triangle where a line ends below all.
fn marks(line: &Line, end: f64) -> Vec<Mark> {
    let (answered, all) = (line.answered_ms.len(), line.all as f64);
    if answered == 0 {
        return Vec::new();
    }
    let stride = answered.div_ceil(MOST_STEPS).max(1);
    let mut points = Vec::new();
    let mut before = 0;
    for index in (0..answered).step_by(stride).chain([answered - 1]) {
        let at = line.answered_ms[index];
        points.extend([(at, before as f64 / all), (at, (index + 1) as f64 / all)]);
        before = index + 1;
    }
    let part = answered as f64 / all;
    points.push((end, part));
    let mut marks = vec![Mark::Line { series: line.name.clone(), points, stroke: line.stroke, raise: 0.0 }];
    if answered < line.all {
        let never = format!("{} never", line.all - answered);
        let at = (Place::High(-8.0), Place::Data(part, 12.0));
        marks.extend([
            Mark::Points {
                series: line.name.clone(),
                shape: Shape::Triangle,
                colour: ALARM,
                radius: 4.5,
                points: vec![Point { x: end, y: part, tooltip: never.clone() }],
            },
            Mark::Label(Label { size: 10.0, ..Label::new(never, at, Anchor::End, INK) }),
        ]);
    }
    marks
}

fn caption(view: &View, pattern: Pattern, groups: &[&GroupView], lossy: bool) -> Vec<String> {
    let mut sentences = vec![match pattern.kind {
        Kind::Ping => "Height: the part of all pings that were answered within the time below.".to_owned(),
        _ => "Height: the part of all messages that were acknowledged within the time below, counted from the moment \
              they were due."
            .to_owned(),
    }];
    if lossy {
        sentences.push("A line that ends at a triangle lacks those that were never answered.".to_owned());
    }
    let runs: u32 = groups.iter().map(|group| group.valid()).sum();
    sentences.push(format!("All of {} together, label by label.", counted(runs, "valid run")));
    sentences.extend(left_out(groups.len().saturating_sub(MOST_LINES), "label"));
    sentences.extend(narrative::encryption(view).map(|note| format!("{note}.")));
    vec![sentences.join(" ")]
}
