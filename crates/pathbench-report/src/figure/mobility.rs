//! Mobility as De Coninck and Bonaventure show it: durations of handovers, the slowest message of each run, and mptcp
//! compared with mpquic per repetition.

use super::messages::strokes;
use super::selection::{encrypted, paragraph};
use crate::chart::{
    Chart, Facet, Frame, Key, Label, Mark, Point, Scale, Shape, Strip, Stroke, cumulative, keys,
};
use crate::narrative;
use crate::palette::{self, INK, MUTED};
use crate::pattern::Pattern;
use crate::quantity::{counted, duration};
use crate::view::{GroupView, View, name_of};
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverRecord, RunRecord};
use pathbench_record::summary::max_delay_pairs;

const PLOT_HEIGHT: f64 = 220.0;
const MOST_LINES: usize = 12;
const UPLOAD: Stroke = Stroke { colour: palette::UPLOAD, width: 2.2, dash: None };
const DOWNLOAD: Stroke = Stroke { colour: palette::DOWNLOAD, width: 2.2, dash: Some((6.0, 3.0)) };

pub(crate) fn mobility_of(view: &View, pattern: Pattern) -> Option<Chart> {
    let groups: Vec<&GroupView> = view.of_pattern(pattern).take(MOST_LINES).collect();
    groups.iter().find(|group| !narrative::handovers_of(group).is_empty())?;
    let strokes = strokes(&groups);
    let members: Vec<(&GroupView, Stroke)> = groups.iter().copied().zip(strokes).collect();
    let runs: Vec<&RunRecord> = groups.iter().flat_map(|group| group.runs.iter().copied()).collect();
    let pairs = Direction::BOTH.map(|direction| max_delay_pairs(&runs, direction));
    let facets = [handovers(&members), delays(&members), scatter(&pairs), ratios(&pairs)];
    let legend = members.iter().map(|(group, stroke)| {
        (Key::Line(Stroke { dash: None, ..*stroke }), name_of(group.label, None, group.variant))
    });
    let has_pairs = pairs.iter().any(|pairs| !pairs.is_empty());
    let directions = keys([
        (Key::Point(Shape::Dot, UPLOAD.colour), "upload, mptcp and mpquic", has_pairs),
        (Key::Point(Shape::Ring, DOWNLOAD.colour), "download, mptcp and mpquic", has_pairs),
    ]);
    Some(Chart {
        legend: legend.chain(directions).collect(),
        facets: facets.into_iter().flatten().collect(),
        frame: Frame::of_columns(2),
        empty: "There is nothing to show.",
        caption: caption(view, &groups),
        ..Chart::from_view(view, ": handovers, and the slowest message of each run")
    })
}

type Curve = (String, Vec<f64>, Stroke);

fn curves(title: &str, curves: Vec<Curve>, x: Scale, mut marks: Vec<Mark>) -> Option<Facet> {
    let has_values = curves.iter().any(|(_, values, _)| !values.is_empty());
    for (series, mut values, stroke) in curves {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        if !values.is_empty() {
            let steps = cumulative(&values, values.len());
            let points = [(x.low, 0.0)].into_iter().chain(steps).chain([(x.high, 1.0)]).collect();
            marks.push(Mark::line(&series, points, stroke));
        }
    }
    let parts = Scale::parts(&[0.0, 0.25, 0.5, 0.75, 1.0]);
    has_values.then(|| Facet::new(title, x, vec![Strip::new(PLOT_HEIGHT, parts, marks)]))
}

fn values(curves: &[Curve]) -> impl Iterator<Item = f64> {
    curves.iter().flat_map(|(_, values, _)| values.iter().copied())
}

/// A solid and a dotted curve per group.
fn two_of_each(members: &[(&GroupView, Stroke)], of: impl Fn(&GroupView) -> [Vec<f64>; 2]) -> Vec<Curve> {
    let curves = |(group, stroke): &(&GroupView, Stroke)| {
        let full = Stroke { dash: None, ..*stroke };
        let dotted = Stroke { width: 1.4, dash: Some((2.0, 2.5)), ..*stroke };
        let [first, second] = of(group);
        [(group.label.to_owned(), first, full), (group.label.to_owned(), second, dotted)]
    };
    members.iter().flat_map(curves).collect()
}

/// Durations up to the last packet received (solid) and sent (dotted) on the first path.
fn handovers(members: &[(&GroupView, Stroke)]) -> Option<Facet> {
    let all = two_of_each(members, |group| {
        let all = narrative::handovers_of(group);
        let of =
            |figure: fn(&HandoverRecord) -> Option<f64>| all.iter().filter_map(|one| figure(one.1)).collect();
        [of(|one| one.duration_received_ms), of(|one| one.duration_sent_ms)]
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
    Mark::line("", vec![(x, 0.0), (x, 1.0)], Stroke::solid(INK, 1.0))
}

fn delays(members: &[(&GroupView, Stroke)]) -> Option<Facet> {
    let all = two_of_each(members, |group| {
        let of = |direction| group.valid_runs().filter_map(|run| run.max_delay_ms(direction)).collect();
        [of(Direction::Upload), of(Direction::Download)]
    });
    let mut x = Scale::logarithmic_ms(values(&all));
    x.title.push_str("delay (logarithmic)");
    curves("Slowest message of each run", all, x, Vec::new())
}

type Pairs = [Vec<[f64; 2]>; 2];

fn scatter(pairs: &Pairs) -> Option<Facet> {
    let mut x = Scale::logarithmic_ms(pairs.iter().flatten().flatten().copied());
    let y = x.clone();
    x.title.push_str("mptcp, same repetition (logarithmic)");
    let diagonal = Stroke { colour: INK, width: 1.0, dash: Some((4.0, 3.0)) };
    let mut marks = vec![Mark::line("", vec![(x.low, x.low), (x.high, x.high)], diagonal)];
    marks.extend(Label::in_corners("mpquic slower", "mptcp slower"));
    let looks = [("upload", Shape::Dot, UPLOAD), ("download", Shape::Ring, DOWNLOAD)];
    for (pairs, (series, shape, stroke)) in pairs.iter().zip(looks) {
        let point = |[mptcp, mpquic]: &[f64; 2]| Point {
            x: *mptcp,
            y: *mpquic,
            tooltip: format!("mptcp {}, mpquic {}", duration(*mptcp), duration(*mpquic)),
        };
        marks.push(Mark::points(series, (shape, stroke.colour, 3.4), pairs.iter().map(point)));
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
    let marks = [vertical(1.0)].into_iter().chain(Label::in_corners("mptcp faster", "mpquic faster"));
    curves("Slowest message, mptcp ÷ mpquic", all, x, marks.collect())
}

fn caption(view: &View, groups: &[&GroupView]) -> Vec<String> {
    let handovers: usize = groups.iter().map(|group| narrative::handovers_of(group).len()).sum();
    let runs: u32 = groups.iter().filter(|group| group.is_multipath()).map(|group| group.valid()).sum();
    let (handovers, runs) = (counted(handovers, "handover"), counted(runs, "valid run"));
    let counts = format!("{handovers} in {runs} over several paths.");
    let height = "Height: the part of all runs (or handovers) up to the value below.";
    let duration = "Duration: full line by the last packet received on the first path, dotted by the last sent; left of zero \
                    the first path had been silent before the second was used (abrupt).";
    let slowest = "Slowest message: full line requests of the client (upload), dotted of the server (download), from the \
                   moment it was due to its acknowledgement; one never acknowledged counts with the time to the end of \
                   its run.";
    let has_messages = groups.iter().flat_map(|group| &group.runs).any(|run| run.delay_ms.is_some());
    let slowest = if has_messages { slowest } else { "" };
    vec![paragraph(&[&counts, height, duration, slowest, &encrypted(view)])]
}
