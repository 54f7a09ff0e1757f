//! Emulated links during a run: the configured rate and the delivered rate, the queue, and the drops.

use super::goodput::corner;
use super::selection::{Selection, left_out, paragraph};
use super::spread::{self, Spread, repetitions};
use crate::chart::{
    Chart, Coordinate, Facet, Frame, Key, Mark, Scale, Strip, Stroke, keys, rate_unit, steps,
};
use crate::list::distinct;
use crate::narrative;
use crate::palette::{ALARM, Colour, INK};
use crate::quantity::{counted, percent, plain, rate};
use crate::run_data::RunData;
use crate::view::{GroupView, View};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::LinkSample;

const MOST_ROWS: usize = 12;
/// If there are more intervals than this, adjacent ones are merged, by twos, fours, ….
const MOST_STRETCHES: usize = 400;
const RATE_HEIGHT: f64 = 66.0;
const QUEUE_HEIGHT: f64 = 30.0;
const IN_FORCE: Stroke = Stroke { colour: INK, width: 1.2, dash: None };
const LOSS: Stroke = Stroke { colour: ALARM, width: 1.4, dash: Some((2.0, 2.0)) };

struct Stretch {
    from_ms: f64,
    until_ms: f64,
    delivered_mbps: f64,
    dropped: u64,
    queue_kb: f64,
    rate_mbps: Option<f64>,
    loss: Option<f64>,
}

struct Course {
    name: String,
    link: String,
    run: String,
    is_first: bool,
    events: Vec<narrative::ScenarioEvent>,
    stretches: Vec<Stretch>,
    delivered: Spread,
    queue: Spread,
}

pub(crate) fn links_of(view: &View, selection: &Selection) -> Option<Chart> {
    let mut courses = courses(view, selection);
    courses.first()?;
    let more = (courses.len() / 2).saturating_sub(MOST_ROWS);
    courses.truncate(2 * MOST_ROWS);
    let frame = Frame::of_columns(2);
    let peak = courses.iter().map(|one| peak_mbps(one).max(one.delivered.high())).fold(0.0, f64::max);
    let queue = courses.iter().map(|one| one.queue.high()).fold(most(&courses, |one| one.queue_kb), f64::max);
    let spreads = courses.iter().flat_map(|one| [&one.delivered, &one.queue]);
    let (key, sentence) = spread::explained(spreads, &view.groups).unzip();
    let axes = (
        Scale::time(most(&courses, |one| one.until_ms), frame.plot_width()),
        Scale::linear(peak, 2, rate_unit(peak)),
        queue_scale(queue),
    );
    let mut links = distinct(courses.iter().map(|one| one.link.as_str()));
    links.sort_by_key(|link| view.paths.rank(link));
    let links =
        links.into_iter().map(|link| (Key::Fill(view.paths.colour(link)), format!("{link}: delivered")));
    let any = |of: fn(&Stretch) -> bool| courses.iter().flat_map(|one| &one.stretches).any(of);
    let marks = keys([
        (Key::Line(IN_FORCE), "rate in force", any(|one| one.rate_mbps.is_some())),
        (Key::Line(LOSS), "probability of loss in force", any(|one| one.loss.is_some_and(|loss| loss > 0.0))),
        (Key::Bar(ALARM), "packets dropped", any(|one| one.dropped > 0)),
        (Key::Event, "event of the scenario", courses.iter().any(|one| !one.events.is_empty())),
    ]);
    let caption = "Above: bytes that left the link, in frames, as steps between samples. Below: the queue at each sample. A \
                   red stroke: packets were dropped since the sample before; the table of the run has the causes. Each \
                   row is one link in the representative run of its label.";
    Some(Chart {
        legend: links.chain(marks).chain(key).collect(),
        headings: ["forward: first end → second end", "reverse: second end → first end"]
            .map(str::to_owned)
            .into(),
        facets: courses.into_iter().map(|one| facet(view, one, &axes)).collect(),
        frame,
        shared_x: Some("time since the first byte of data".to_owned()),
        caption: vec![paragraph(&[caption, &sentence.unwrap_or_default(), &left_out(more, "row")])],
        ..selection.chart(view, "emulated links")
    })
}

/// Kilobytes. The unit is at the last tick, because drops are shown above the axis.
fn queue_scale(peak_kb: f64) -> Scale {
    let mut scale = Scale::linear(peak_kb, 1, ("", 1.0));
    if let Some((_, Some(label))) = scale.ticks.last_mut() {
        label.push_str(" kB");
    }
    scale
}

fn courses(view: &View, selection: &Selection) -> Vec<Course> {
    let mut courses = Vec::new();
    for (group, run) in selection.runs(view) {
        let data = view.data(run);
        let mut names = distinct(data.links.iter().map(|sample| sample.link.as_str()));
        names.sort_by_key(|name| (view.paths.rank(name), *name));
        let end_ms = data.links.last().map_or(0.0, |one| one.t_ms);
        for link in names {
            for direction in LinkDirection::BOTH {
                let (delivered, queue) = spreads(view, group, (link, direction), end_ms);
                let mut events = narrative::scenario_events(&data);
                events.retain(|one| one.path.as_deref().is_none_or(|path| path == link));
                courses.push(Course {
                    name: selection.name(group),
                    link: link.to_owned(),
                    run: run.id.clone(),
                    is_first: direction == LinkDirection::Forward,
                    events,
                    stretches: stretches(of_link(&data, (link, direction))),
                    delivered,
                    queue,
                });
            }
        }
    }
    courses
}

fn of_link<'a>(data: &'a RunData, wanted: (&str, LinkDirection)) -> impl Iterator<Item = &'a LinkSample> {
    data.links.iter().filter(move |one| (one.link.as_str(), one.direction) == wanted)
}

/// Delivered rate and queue of the valid runs.
fn spreads(view: &View, group: &GroupView, link: (&str, LinkDirection), end_ms: f64) -> (Spread, Spread) {
    let (mut delivered, mut queue) = (Spread::covering(end_ms), Spread::covering(end_ms));
    for run in repetitions(group) {
        for one in stretches(of_link(&view.data(run), link)) {
            delivered.add_held(one.from_ms, one.until_ms, one.delivered_mbps);
            queue.add_held(one.from_ms, one.until_ms, one.queue_kb);
        }
    }
    (delivered, queue)
}

fn facet(view: &View, course: Course, (time, rates, queues): &(Scale, Scale, Scale)) -> Facet {
    let (stretches, colour) = (&course.stretches, view.paths.colour(&course.link));
    let of = |value: &dyn Fn(&Stretch) -> f64| {
        steps(stretches.iter().map(|one| (one.from_ms, one.until_ms, value(one))))
    };
    let area =
        |series: &str, points, colour: Colour| Mark::Area { series: series.to_owned(), points, colour };
    let mut above = vec![area("delivered", of(&|one| one.delivered_mbps), colour)];
    above.extend(in_force(stretches, rates));
    above.extend(course.delivered.lines("spread over the valid runs", INK));
    let most = most([&course], |one| one.loss.unwrap_or_default());
    if most > 0.0 {
        let points = of(&|one| one.loss.unwrap_or_default() / most * rates.high);
        above.push(Mark::line("loss", points, LOSS));
        above.push(corner(format!("loss up to {}", percent(most)), true, ALARM));
    }
    let mut below = vec![area("queue", of(&|one| one.queue_kb), colour.pale())];
    below.extend(course.queue.lines("spread over the valid runs", INK));
    below.extend(stretches.iter().filter(|one| one.dropped > 0).map(|one| {
        let packets = counted(one.dropped, "packet");
        let tooltip = format!("{packets} dropped");
        let stroke = Stroke::solid(ALARM, 1.4);
        Mark::Tick { x: one.until_ms, y: Coordinate::High(11.0), half: 3.0, stroke, tooltip }
    }));
    let empty = stretches.is_empty().then(|| "no sample".to_owned());
    let strips = vec![
        Strip { empty, ..Strip::new(RATE_HEIGHT, rates.clone(), above) },
        Strip { title: "\u{a0}".to_owned(), ..Strip::new(QUEUE_HEIGHT, queues.clone(), below) },
    ];
    let title = if course.is_first { format!("{} · {}", course.name, course.link) } else { String::new() };
    let facts = if course.is_first { vec![course.run] } else { Vec::new() };
    Facet { facts, events: course.events, ..Facet::new(title, time.clone(), strips) }
}

/// The configured rate, with gaps where it is absent or beyond the scale; a label gives the highest rate.
fn in_force(stretches: &[Stretch], rates: &Scale) -> Vec<Mark> {
    let is_shown = |one: &Stretch| one.rate_mbps.is_some_and(|mbps| mbps <= rates.high * 1.000_001);
    let line = |stretches: &[Stretch]| {
        let rates =
            stretches.iter().map(|one| (one.from_ms, one.until_ms, one.rate_mbps.unwrap_or_default()));
        Mark::line("rate in force", steps(rates), IN_FORCE)
    };
    let parts = stretches.chunk_by(|a, b| is_shown(a) == is_shown(b));
    let mut marks: Vec<Mark> = parts.filter(|part| is_shown(&part[0])).map(line).collect();
    let beyond = stretches.iter().filter(|one| !is_shown(one)).filter_map(|one| one.rate_mbps);
    if let Some(beyond) = beyond.reduce(f64::max).filter(|mbps| *mbps > 0.0) {
        marks.push(corner(format!("rate in force up to {}", plain(&rate(beyond))), false, INK));
    }
    marks
}

/// From samples sorted by time; a counter that decreases counts as constant.
fn stretches<'a>(samples: impl Iterator<Item = &'a LinkSample>) -> Vec<Stretch> {
    let samples: Vec<&LinkSample> = samples.filter(|sample| sample.t_ms.is_finite()).collect();
    let stride = samples.len().div_ceil(MOST_STRETCHES).max(1);
    let mut stretches = Vec::new();
    let mut before: Option<&LinkSample> = None;
    for group in samples.chunks(stride) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if let Some(before) = before.filter(|before| last.t_ms > before.t_ms) {
            let bytes = last.delivered_bytes.saturating_sub(before.delivered_bytes);
            stretches.push(Stretch {
                from_ms: before.t_ms,
                until_ms: last.t_ms,
                delivered_mbps: bytes as f64 * 8e-3 / (last.t_ms - before.t_ms),
                dropped: last.dropped_packets.saturating_sub(before.dropped_packets),
                // A queue that is full only for a moment stays visible.
                queue_kb: group.iter().map(|one| one.queue_bytes).max().unwrap_or_default() as f64 / 1e3,
                rate_mbps: last.rate_bps.map(|bps| bps as f64 / 1e6),
                loss: last.loss.filter(|loss| loss.is_finite()),
            });
        }
        before = Some(if before.is_none() && stride > 1 { first } else { last });
    }
    stretches
}

/// The highest delivered rate. The configured rate is cut off well above it, so that the traffic of a fast, mostly
/// idle link stays visible.
fn peak_mbps(course: &Course) -> f64 {
    let delivered = most([course], |stretch| stretch.delivered_mbps);
    let in_force = most([course], |stretch| stretch.rate_mbps.unwrap_or_default());
    delivered.max(in_force.min(delivered * 4.0))
}

fn most<'a>(courses: impl IntoIterator<Item = &'a Course>, of: fn(&Stretch) -> f64) -> f64 {
    let values = courses.into_iter().flat_map(|one| &one.stretches).map(of);
    values.filter(|value| value.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t_ms: f64, delivered_bytes: u64, dropped_packets: u64, queue_bytes: u64) -> LinkSample {
        LinkSample {
            run: "r".to_owned(),
            t_ms,
            link: "wlan".to_owned(),
            direction: LinkDirection::Forward,
            queue_bytes,
            queue_packets: 0,
            offered_bytes: 0,
            delivered_bytes,
            dropped_packets,
            rate_bps: Some(20_000_000),
            loss: None,
            delay_ms: None,
        }
    }

    #[test]
    fn counters_become_rates_and_drops_of_stretches() {
        let samples = [sample(0.0, 0, 0, 0), sample(100.0, 250_000, 3, 5_000), sample(200.0, 250_000, 3, 0)];
        let found = stretches(samples.iter());
        assert!(found.iter().all(|one| one.rate_mbps.is_some()));
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.delivered_mbps.round() as u32, one.dropped, one.queue_kb.round() as u32))
            .collect();
        assert_eq!(found, [(20, 3, 5), (0, 0, 0)]);
    }

    #[test]
    fn many_samples_become_few_stretches_and_the_fullest_queue_stays() {
        let samples: Vec<LinkSample> = (0..5000_u32)
            .map(|index| {
                sample(f64::from(index) * 10.0, u64::from(index), 0, u64::from(index == 777) * 9_000)
            })
            .collect();
        let found = stretches(samples.iter());
        assert!(found.len() <= MOST_STRETCHES);
        assert!(found.iter().any(|one| (one.queue_kb - 9.0).abs() < 1e-9));
        assert!((found[found.len() - 1].until_ms - 49_990.0).abs() < 1e-9);
        assert!(stretches([].into_iter()).is_empty());
    }
}
