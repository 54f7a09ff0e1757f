//! Emulated links during a run: the rate in force and the delivered rate, the queue, and the drops.

use super::goodput::corner;
use super::link_trace::{Stretch, Trace};
use super::{Selection, left_out};
use crate::chart::{Chart, Facet, Frame, Key, Mark, Place, Scale, Strip, Stroke, keys, rate_unit, steps};
use crate::narrative;
use crate::palette::{ALARM, Colour, INK};
use crate::quantity::{counted, percent, plain, rate};
use crate::view::View;
use pathbench_record::direction::LinkDirection;

const MOST_ROWS: usize = 12;
const RATE_HEIGHT: f64 = 66.0;
const QUEUE_HEIGHT: f64 = 30.0;
const IN_FORCE: Stroke = Stroke { colour: INK, width: 1.2, dash: None };
const LOSS: Stroke = Stroke { colour: ALARM, width: 1.4, dash: Some((2.0, 2.0)) };

struct Course<'a> {
    name: String,
    link: &'a str,
    run: String,
    is_first: bool,
    events: Vec<narrative::ScenarioEvent>,
    trace: Trace,
}

/// `None` when no link of the selection was emulated.
pub(crate) fn links_of(view: &View, selection: &Selection) -> Option<Chart> {
    let mut courses = courses(view, selection);
    courses.first()?;
    let more = (courses.len() / 2).saturating_sub(MOST_ROWS);
    courses.truncate(2 * MOST_ROWS);
    let frame = Frame::of_columns(2);
    let most = |of: fn(&Trace) -> f64| courses.iter().map(|one| of(&one.trace)).fold(0.0, f64::max);
    let peak = most(Trace::peak_mbps);
    let axes = (
        Scale::time(most(Trace::end_ms), frame.plot_width()),
        Scale::linear(peak, 2, rate_unit(peak)),
        queue_scale(most(Trace::peak_queue_kb)),
    );
    let mut links: Vec<&str> = courses.iter().map(|one| one.link).collect();
    links.sort_by_key(|link| view.paths.rank(link));
    links.dedup();
    let links =
        links.into_iter().map(|link| (Key::Fill(view.paths.colour(link)), format!("{link}: delivered")));
    let any = |of: fn(&Trace) -> bool| courses.iter().any(|one| of(&one.trace));
    let marks = keys([
        (Key::Line(IN_FORCE), "rate in force", any(Trace::has_rate)),
        (Key::Line(LOSS), "probability of loss in force", any(|trace| trace.peak_loss() > 0.0)),
        (Key::Bar(ALARM), "packets dropped", any(Trace::has_drops)),
        (Key::Event, "event of the scenario", courses.iter().any(|one| !one.events.is_empty())),
    ]);
    let mut caption = vec![
        "Above: bytes that left the link, in frames, as steps between samples. Below: the queue at each sample. A red \
         stroke: packets were dropped since the sample before; the table of the run has the causes. Each row is one \
         link in the representative run of its label."
            .to_owned(),
    ];
    caption.extend(left_out(more, "row"));
    Some(Chart {
        legend: links.chain(marks).collect(),
        headings: ["forward: first end → second end", "reverse: second end → first end"]
            .map(str::to_owned)
            .into(),
        facets: courses.into_iter().map(|one| facet(view, one, &axes)).collect(),
        frame,
        shared_x: Some("time since the first byte of data".to_owned()),
        caption: vec![caption.join(" ")],
        ..selection.chart(view, "emulated links")
    })
}

/// Kilobytes; the unit stands at the last tick, since there are drops over the axis.
fn queue_scale(peak_kb: f64) -> Scale {
    let mut scale = Scale::linear(peak_kb, 1, ("", 1.0));
    if let Some((_, Some(label))) = scale.ticks.last_mut() {
        label.push_str(" kB");
    }
    scale
}

/// Forward and reverse of every link that was sampled in the representative runs.
fn courses<'a>(view: &'a View<'a>, selection: &Selection) -> Vec<Course<'a>> {
    let mut courses = Vec::new();
    for (group, run) in selection.runs(view) {
        let data = view.data(run);
        let mut names: Vec<&str> = data.links.iter().map(|sample| sample.link.as_str()).collect();
        names.sort_by_key(|name| (view.paths.rank(name), *name));
        names.dedup();
        for link in names {
            for direction in LinkDirection::BOTH {
                let samples = data.links.iter().copied();
                let of_link = samples.filter(|one| one.link == link && one.direction == direction);
                let mut events = narrative::scenario_events(data);
                events.retain(|one| one.path.as_deref().is_none_or(|path| path == link));
                courses.push(Course {
                    name: selection.name(group),
                    link,
                    run: run.id.clone(),
                    is_first: direction == LinkDirection::Forward,
                    events,
                    trace: Trace::of(of_link),
                });
            }
        }
    }
    courses
}

fn facet(view: &View, course: Course, (time, rates, queues): &(Scale, Scale, Scale)) -> Facet {
    let (trace, colour) = (&course.trace, view.paths.colour(course.link));
    let of = |value: &dyn Fn(&Stretch) -> f64| {
        steps(trace.stretches.iter().map(|one| (one.from_ms, one.until_ms, value(one))))
    };
    let area =
        |series: &str, points, colour: Colour| Mark::Area { series: series.to_owned(), points, colour };
    let mut above = vec![area("delivered", of(&|one| one.delivered_mbps), colour)];
    above.extend(in_force(trace, rates));
    let most = trace.peak_loss();
    if most > 0.0 {
        let points = of(&|one| one.loss.unwrap_or_default() / most * rates.high);
        above.push(Mark::Line { series: "loss".to_owned(), points, stroke: LOSS, raise: 0.0 });
        above.push(corner(format!("loss up to {}", percent(most)), true, ALARM));
    }
    let mut below = vec![area("queue", of(&|one| one.queue_kb), colour.paler(0.35))];
    below.extend(trace.stretches.iter().filter(|one| one.dropped > 0).map(|one| {
        let packets = counted(u32::try_from(one.dropped).unwrap_or(u32::MAX), "packet");
        let tooltip = format!("{packets} dropped");
        let stroke = Stroke::solid(ALARM, 1.4);
        Mark::Tick { x: one.until_ms, y: Place::High(11.0), half: 3.0, stroke, tooltip }
    }));
    let empty = trace.stretches.is_empty().then(|| "no sample".to_owned());
    let strips = vec![
        Strip { empty, ..Strip::new(RATE_HEIGHT, rates.clone(), above) },
        Strip { title: "\u{a0}".to_owned(), ..Strip::new(QUEUE_HEIGHT, queues.clone(), below) },
    ];
    let title = if course.is_first { format!("{} · {}", course.name, course.link) } else { String::new() };
    let facts = if course.is_first { vec![course.run] } else { Vec::new() };
    Facet { facts, events: course.events, ..Facet::new(title, time.clone(), strips) }
}

/// The rate in force, broken where there is none or it is beyond the scale; how far beyond is said in words.
fn in_force(trace: &Trace, rates: &Scale) -> Vec<Mark> {
    let is_shown = |one: &Stretch| one.rate_mbps.is_some_and(|mbps| mbps <= rates.high * 1.000_001);
    let line = |stretches: &[Stretch]| Mark::Line {
        series: "rate in force".to_owned(),
        points: steps(
            stretches.iter().map(|one| (one.from_ms, one.until_ms, one.rate_mbps.unwrap_or_default())),
        ),
        stroke: IN_FORCE,
        raise: 0.0,
    };
    let parts = trace.stretches.chunk_by(|a, b| is_shown(a) == is_shown(b));
    let mut marks: Vec<Mark> = parts.filter(|part| is_shown(&part[0])).map(line).collect();
    let beyond = trace.stretches.iter().filter(|one| !is_shown(one)).filter_map(|one| one.rate_mbps);
    if let Some(beyond) = beyond.reduce(f64::max).filter(|mbps| *mbps > 0.0) {
        marks.push(corner(format!("rate in force up to {}", plain(&rate(beyond))), false, INK));
    }
    marks
}
