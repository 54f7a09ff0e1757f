//! Mobility as De Coninck and Bonaventure show it: how long handovers took, how long the slowest message of each run,
//! and mptcp against mpquic, repetition by repetition.

mod plot;
mod scale;

use super::legend::{self, Mark};
use super::{WIDTH, distribution};
use crate::ResultSet;
use crate::narrative;
use crate::palette::MUTED;
use crate::pattern::Pattern;
use crate::quantity::counted;
use crate::svg::{Area, Stroke, Svg, TextStyle};
use crate::view::{GroupView, View, name_of};
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverRecord, RunRecord};
use pathbench_record::summary::max_delay_pairs;
use plot::{Content, Curve, Plot};
use scale::Scale;

const LEFT: f64 = 62.0;
const RIGHT: f64 = 26.0;
const COLUMN_GAP: f64 = 66.0;
const PLOT_HEIGHT: f64 = 220.0;
/// Above a plot: its title. Below: its ticks, and what they mean.
const ABOVE: f64 = 26.0;
const BELOW: f64 = 50.0;
/// More lines than this cannot be told apart.
const MOST_LINES: usize = 12;

/// The mobility metrics of a result's runs: distributions of the handover's duration, of the largest delay of each
/// run, of its ratio between mptcp and mpquic, and that ratio's two sides against each other. `None` when the result
/// has no handover.
pub fn mobility(set: &ResultSet) -> Option<Svg> {
    let view = View::new(set);
    view.patterns().into_iter().find_map(|pattern| mobility_of(&view, pattern))
}

/// The same of one pattern.
pub(crate) fn mobility_of(view: &View, pattern: Pattern) -> Option<Svg> {
    let groups: Vec<&GroupView> = view.of_pattern(pattern).take(MOST_LINES).collect();
    groups.iter().find(|group| !narrative::handovers_of(group).is_empty())?;
    let sheet = Sheet::new(view, &groups);
    let (_, height) = sheet.draw(10.0);
    Some(sheet.draw(height).0)
}

struct Sheet {
    plots: Vec<Plot>,
    legend: Vec<(Mark, String)>,
    title: String,
    subtitle: String,
    caption: Vec<String>,
}

/// A second curve of the same label.
fn dashed(stroke: Stroke) -> Stroke {
    Stroke { width: 1.4, dash: Some((2.0, 2.5)), ..stroke }
}

impl Sheet {
    fn new(view: &View, groups: &[&GroupView]) -> Self {
        let strokes = distribution::strokes(groups);
        let members: Vec<(&GroupView, Stroke)> = groups.iter().copied().zip(strokes).collect();
        let plots = [handovers(&members), delays(&members)]
            .into_iter()
            .chain(comparison(groups))
            .filter(Plot::has_content)
            .collect();
        let legend = members.iter().map(|(group, stroke)| {
            (
                Mark::Line(Stroke { dash: None, ..*stroke }),
                format!("  {}", name_of(group.label, None, group.variant)),
            )
        });
        let document = &view.set.document;
        Self {
            plots,
            legend: legend.collect(),
            title: format!("{}: handovers, and the slowest message of each run", document.scenario.name),
            subtitle: document.scenario.description.clone(),
            caption: legend::caption_lines(&caption(view, groups), WIDTH - 40.0),
        }
    }

    fn draw(&self, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let mut y = legend::heading(&mut svg, 20.0, WIDTH - 40.0, &self.title, &self.subtitle);
        y += legend::draw(&mut svg, (26.0, y), WIDTH - 46.0, &self.legend) + 8.0;
        let width = (WIDTH - LEFT - RIGHT - COLUMN_GAP) / 2.0;
        for (index, plot) in self.plots.iter().enumerate() {
            let (row, column) = (index / 2, index % 2);
            let area = Area {
                x: LEFT + column as f64 * (width + COLUMN_GAP),
                y: y + row as f64 * (ABOVE + PLOT_HEIGHT + BELOW) + ABOVE,
                width,
                height: PLOT_HEIGHT,
            };
            plot.draw(&mut svg, area);
        }
        if self.plots.is_empty() {
            svg.text((20.0, y + 16.0), TextStyle::new(12.0, MUTED), "There is nothing to show.");
            y += 30.0;
        }
        y += self.plots.len().div_ceil(2) as f64 * (ABOVE + PLOT_HEIGHT + BELOW);
        legend::rule(&mut svg, 20.0, y, WIDTH - 40.0);
        y += 20.0 + legend::caption(&mut svg, (20.0, y + 20.0), &self.caption);
        (svg, y)
    }
}

/// Handover durations, by what was received (full) and sent (dotted) on the first path.
fn handovers(members: &[(&GroupView, Stroke)]) -> Plot {
    let of = |group: &GroupView, figure: fn(&HandoverRecord) -> Option<f64>| -> Vec<f64> {
        narrative::handovers_of(group).into_iter().filter_map(|(_, handover)| figure(handover)).collect()
    };
    let mut curves = Vec::new();
    for (group, stroke) in members {
        let solid = Stroke { dash: None, ..*stroke };
        curves.push(Curve::of(of(group, |one| one.duration_received_ms), solid));
        curves.push(Curve::of(of(group, |one| one.duration_sent_ms), dashed(*stroke)));
    }
    curves.retain(|curve| !curve.values.is_empty());
    Plot {
        title: "duration of the handover".to_owned(),
        scale: Scale::linear_ms(curves.iter().flat_map(|curve| curve.values.iter().copied())),
        axis: "last activity on the first path, after the first data on the second".to_owned(),
        content: Content::Curves { curves, abrupt: true, unity: false },
    }
}

/// The largest delay of each run: up (full) and down (dotted).
fn delays(members: &[(&GroupView, Stroke)]) -> Plot {
    let mut curves = Vec::new();
    for (group, stroke) in members {
        for (direction, stroke) in
            [(Direction::Upload, Stroke { dash: None, ..*stroke }), (Direction::Download, dashed(*stroke))]
        {
            let largest = |run: &RunRecord| run.max_delay_ms(direction);
            curves.push(Curve::of(group.valid_runs().filter_map(largest).collect(), stroke));
        }
    }
    curves.retain(|curve| !curve.values.is_empty());
    Plot {
        title: "slowest message of each run".to_owned(),
        scale: Scale::logarithmic_ms(curves.iter().flat_map(|curve| curve.values.iter().copied())),
        axis: "delay (logarithmic)".to_owned(),
        content: Content::Curves { curves, abrupt: false, unity: false },
    }
}

/// mptcp against mpquic in the same repetition: as points, and their ratio as a distribution.
fn comparison(groups: &[&GroupView]) -> [Plot; 2] {
    let runs: Vec<&RunRecord> = groups.iter().flat_map(|group| group.runs.iter().copied()).collect();
    let pairs = Direction::BOTH.map(|direction| max_delay_pairs(&runs, direction));
    let ratios = pairs
        .each_ref()
        .map(|pairs| -> Vec<f64> { pairs.iter().map(|[mptcp, mpquic]| mptcp / mpquic).collect() });
    let curves: Vec<Curve> = ratios
        .into_iter()
        .zip([plot::UPLOAD, plot::DOWNLOAD])
        .filter(|(ratios, _)| !ratios.is_empty())
        .map(|(ratios, stroke)| Curve::of(ratios, stroke))
        .collect();
    let [uploads, downloads] = pairs;
    let delays = uploads.iter().chain(&downloads).flatten().copied();
    [
        Plot {
            title: "slowest message, mpquic against mptcp".to_owned(),
            scale: Scale::logarithmic_ms(delays),
            axis: "mptcp, same repetition (logarithmic)".to_owned(),
            content: Content::Pairs { uploads, downloads },
        },
        Plot {
            title: "slowest message, mptcp ÷ mpquic".to_owned(),
            scale: Scale::ratio(curves.iter().flat_map(|curve| curve.values.iter().copied())),
            axis: "ratio of the same repetition (logarithmic)".to_owned(),
            content: Content::Curves { curves, abrupt: false, unity: true },
        },
    ]
}

fn caption(view: &View, groups: &[&GroupView]) -> Vec<String> {
    let handovers: usize = groups.iter().map(|group| narrative::handovers_of(group).len()).sum();
    let runs: u32 = groups.iter().filter(|group| group.is_multipath()).map(|group| group.valid()).sum();
    let messages = groups.iter().flat_map(|group| &group.runs).any(|run| run.delay_ms.is_some());
    let mut sentences = vec![
        format!("{} in {} over several paths.", counted(handovers as u32, "handover"), counted(runs, "valid run")),
        "Height: the part of all runs (or handovers) up to the value below.".to_owned(),
        "Duration: full line by the last packet received on the first path, dotted by the last sent; left of zero the \
         first path had fallen silent before the second was used (abrupt)."
            .to_owned(),
    ];
    if messages {
        sentences.push(
            "Slowest message: full line requests of the client (upload), dotted of the server (download), from the moment \
         it was due to its acknowledgement; one never acknowledged counts with the time to the end of its run."
            .to_owned());
    }
    if let Some(note) = narrative::encryption(view) {
        sentences.push(format!("{note}."));
    }
    vec![sentences.join(" ")]
}
