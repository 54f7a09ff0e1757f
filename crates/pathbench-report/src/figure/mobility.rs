//! Mobility as De Coninck and Bonaventure show it: durations of handovers, the slowest message of each run, and mptcp
//! against mpquic, repetition by repetition.

use super::distribution;
use crate::chart::{
    Anchor, Chart, Facet, Frame, Key, Label, Mark, Place, Point, Scale, Shape, Strip, Stroke,
};
use crate::narrative;
use crate::palette::{Colour, INK, MUTED};
use crate::pattern::Pattern;
use crate::quantity::{counted, duration};
use crate::view::{GroupView, View, name_of};
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverRecord, RunRecord};
use pathbench_record::summary::max_delay_pairs;

const PLOT_HEIGHT: f64 = 220.0;
/// More lines cannot be distinguished.
const MOST_LINES: usize = 12;
const UPLOAD: Stroke = Stroke { colour: Colour(0x00, 0x72, 0xb2), width: 2.2, dash: None };
const DOWNLOAD: Stroke = Stroke { colour: Colour(0xd5, 0x5e, 0x00), width: 2.2, dash: Some((6.0, 3.0)) };

/// `None` when the pattern has no handover.
pub(crate) fn mobility_of(view: &View, pattern: Pattern) -> Option<Chart> {
    let groups: Vec<&GroupView> = view.of_pattern(pattern).take(MOST_LINES).collect();
    groups.iter().find(|group| !narrative::handovers_of(group).is_empty())?;
    let strokes = distribution::strokes(&groups);
    let members: Vec<(&GroupView, Stroke)> = groups.iter().copied().zip(strokes).collect();
    let runs: Vec<&RunRecord> = groups.iter().flat_map(|group| group.runs.iter().copied()).collect();
    let pairs = Direction::BOTH.map(|direction| max_delay_pairs(&runs, direction));
    let facets = [handovers(&members), delays(&members), scatter(&pairs), ratios(&pairs)];
    let legend = members.iter().map(|(group, stroke)| {
        (Key::Line(Stroke { dash: None, ..*stroke }), name_of(group.label, None, group.variant))
    });
    let directions = pairs.iter().any(|pairs| !pairs.is_empty()).then_some([
        (Key::Point(Shape::Dot, UPLOAD.colour), "upload, mptcp and mpquic".to_owned()),
        (Key::Point(Shape::Ring, DOWNLOAD.colour), "download, mptcp and mpquic".to_owned()),
    ]);
    let scenario = &view.set.document.scenario;
    Some(Chart {
        title: format!("{}: handovers, and the slowest message of each run", scenario.name),
        subtitle: scenario.description.clone(),
        legend: legend.chain(directions.into_iter().flatten()).collect(),
        facets: facets.into_iter().flatten().collect(),
        frame: Frame::of_columns(2),
        empty: "There is nothing to show.",
        caption: caption(view, &groups),
        ..Chart::default()
    })
}

type Curve = (String, Vec<f64>, Stroke);

fn curves(title: &str, curves: Vec<Curve>, x: Scale, mut marks: Vec<Mark>) -> Option<Facet> {
    let has_values = curves.iter().any(|(_, values, _)| !values.is_empty());
    for (series, mut values, stroke) in curves {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        if values.is_empty() {
            continue;
        }
        let part = |count: usize| count as f64 / values.len() as f64;
        let mut points = vec![(x.low, 0.0)];
        for (index, value) in values.iter().enumerate() {
            points.extend([(*value, part(index)), (*value, part(index + 1))]);
        }
        points.push((x.high, 1.0));
        marks.push(Mark::Line { series, points, stroke, raise: 0.0 });
    }
    let parts = Scale::parts(&[0.0, 0.25, 0.5, 0.75, 1.0]);
    has_values.then(|| Facet::new(title, x, vec![Strip::new(PLOT_HEIGHT, parts, marks)]))
}

fn values(curves: &[Curve]) -> impl Iterator<Item = f64> {
    curves.iter().flat_map(|(_, values, _)| values.iter().copied())
}

fn two_of_each(
    members: &[(&GroupView, Stroke)],
    first: &dyn Fn(&GroupView) -> Vec<f64>,
    second: &dyn Fn(&GroupView) -> Vec<f64>,
) -> Vec<Curve> {
    let of = |(group, stroke): &(&GroupView, Stroke)| {
        let solid = Stroke { dash: None, ..*stroke };
        let dotted = Stroke { width: 1.4, dash: Some((2.0, 2.5)), ..*stroke };
        let name = group.label.to_owned();
        [(name.clone(), first(group), solid), (name, second(group), dotted)]
    };
    members.iter().flat_map(of).collect()
}

/// By the last packet received (full) and sent (dotted) on the first path.
fn handovers(members: &[(&GroupView, Stroke)]) -> Option<Facet> {
    let of = |group: &GroupView, figure: fn(&HandoverRecord) -> Option<f64>| -> Vec<f64> {
        narrative::handovers_of(group).into_iter().filter_map(|(_, handover)| figure(handover)).collect()
    };
    let all = two_of_each(members, &|group| of(group, |one| one.duration_received_ms), &|group| {
        of(group, |one| one.duration_sent_ms)
    });
    let mut x = Scale::signed_ms(values(&all));
    x.title.push_str("last activity on the first path, after the first data on the second");
    let abrupt = Mark::Span {
        from: x.low,
        to: 0.0,
        hatched: false,
        tooltip: String::new(),
        labels: vec!["abrupt".to_owned()],
        colour: MUTED,
    };
    let marks = if x.low < 0.0 { vec![abrupt, vertical(0.0)] } else { Vec::new() };
    curves("Duration of the handover", all, x, marks)
}

fn vertical(x: f64) -> Mark {
    let stroke = Stroke::solid(INK, 1.0);
    Mark::Line { series: String::new(), points: vec![(x, 0.0), (x, 1.0)], stroke, raise: 0.0 }
}

/// The largest delay of each run: upload (full) and download (dotted).
fn delays(members: &[(&GroupView, Stroke)]) -> Option<Facet> {
    let of = |group: &GroupView, direction| -> Vec<f64> {
        group.valid_runs().filter_map(|run| run.max_delay_ms(direction)).collect()
    };
    let all =
        two_of_each(members, &|group| of(group, Direction::Upload), &|group| of(group, Direction::Download));
    let mut x = Scale::logarithmic_ms(values(&all));
    x.title.push_str("delay (logarithmic)");
    curves("Slowest message of each run", all, x, Vec::new())
}

type Pairs = [Vec<[f64; 2]>; 2];

fn corners(upper_left: &str, lower_right: &str) -> [Mark; 2] {
    let label =
        |text: &str, at, anchor| Mark::Label(Label { size: 10.0, ..Label::new(text, at, anchor, MUTED) });
    [
        label(upper_left, (Place::Low(6.0), Place::High(-13.0)), Anchor::Start),
        label(lower_right, (Place::High(-6.0), Place::Low(7.0)), Anchor::End),
    ]
}

fn scatter(pairs: &Pairs) -> Option<Facet> {
    let mut x = Scale::logarithmic_ms(pairs.iter().flatten().flatten().copied());
    let y = x.clone();
    x.title.push_str("mptcp, same repetition (logarithmic)");
    let diagonal = Stroke { colour: INK, width: 1.0, dash: Some((4.0, 3.0)) };
    let ends = vec![(x.low, x.low), (x.high, x.high)];
    let mut marks = vec![Mark::Line { series: String::new(), points: ends, stroke: diagonal, raise: 0.0 }];
    marks.extend(corners("mpquic slower", "mptcp slower"));
    let looks = [("upload", Shape::Dot, UPLOAD), ("download", Shape::Ring, DOWNLOAD)];
    for (pairs, (series, shape, stroke)) in pairs.iter().zip(looks) {
        let point = |[mptcp, mpquic]: &[f64; 2]| Point {
            x: *mptcp,
            y: *mpquic,
            tooltip: format!("mptcp {}, mpquic {}", duration(*mptcp), duration(*mpquic)),
        };
        let points = pairs.iter().map(point).collect();
        marks.push(Mark::Points {
            series: series.to_owned(),
            shape,
            colour: stroke.colour,
            radius: 3.4,
            points,
        });
    }
    let has_pairs = pairs.iter().any(|pairs| !pairs.is_empty());
    let strips = vec![Strip::new(PLOT_HEIGHT, y, marks)];
    has_pairs.then(|| Facet::new("Slowest message, mpquic against mptcp", x, strips))
}

fn ratios(pairs: &Pairs) -> Option<Facet> {
    let of = |(pairs, (name, stroke)): (&Vec<[f64; 2]>, (&str, Stroke))| -> Curve {
        (name.to_owned(), pairs.iter().map(|[mptcp, mpquic]| mptcp / mpquic).collect(), stroke)
    };
    let all: Vec<Curve> = pairs.iter().zip([("upload", UPLOAD), ("download", DOWNLOAD)]).map(of).collect();
    let mut x = Scale::ratio(values(&all));
    x.title.push_str("ratio of the same repetition (logarithmic)");
    let mut marks = vec![vertical(1.0)];
    marks.extend(corners("mptcp faster", "mpquic faster"));
    curves("Slowest message, mptcp ÷ mpquic", all, x, marks)
}

fn caption(view: &View, groups: &[&GroupView]) -> Vec<String> {
    let handovers: usize = groups.iter().map(|group| narrative::handovers_of(group).len()).sum();
    let runs: u32 = groups.iter().filter(|group| group.is_multipath()).map(|group| group.valid()).sum();
    let (handovers, runs) = (counted(handovers as u32, "handover"), counted(runs, "valid run"));
    let mut sentences = vec![
        format!("{handovers} in {runs} over several paths."),
        "Height: the part of all runs (or handovers) up to the value below.".to_owned(),
        "Duration: full line by the last packet received on the first path, dotted by the last sent; left of zero the \
         first path had been silent before the second was used (abrupt)."
            .to_owned(),
    ];
    if groups.iter().flat_map(|group| &group.runs).any(|run| run.delay_ms.is_some()) {
        let text = "Slowest message: full line requests of the client (upload), dotted of the server (download), from \
                    the moment it was due to its acknowledgement; one never acknowledged counts with the time to the end \
                    of its run.";
        sentences.push(text.to_owned());
    }
    sentences.extend(narrative::encryption(view).map(|note| format!("{note}.")));
    vec![sentences.join(" ")]
}
