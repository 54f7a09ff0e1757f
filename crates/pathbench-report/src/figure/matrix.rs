//! The matrix: goodput of every label in every variant as a bar, split by path.

use super::selection::{left_out, paragraph};
use crate::chart::{
    Chart, Coordinate, Facet, Frame, Key, Label, Mark, Row, Scale, Strip, TextStyle, bounds_keys, rate_unit,
};
use crate::narrative::diagnosis;
use crate::palette::{ALARM, INK, MUTED, UNATTRIBUTED};
use crate::pattern::{GOODPUT, Kind, Pattern};
use crate::quantity::Bounds;
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::Variant;
use std::collections::BTreeMap;

const ROW: f64 = 22.0;
/// Right of the bars: the median, and the diagnoses of paths without traffic.
const VALUE: f64 = 84.0;
const REMARK: f64 = 236.0;
const MOST_ROWS: usize = 120;

pub(crate) fn matrix_of(view: &View, pattern: Pattern) -> Option<Chart> {
    let mut groups: Vec<&GroupView> = view.of_pattern(pattern).collect();
    let first = groups.first()?.variant;
    let several = groups.iter().any(|group| group.variant != first);
    if !several || !matches!(pattern.kind, Kind::Throughput | Kind::Bulk) {
        return None;
    }
    let all = groups.len();
    groups.truncate(MOST_ROWS);
    let figures = || groups.iter().filter_map(|group| group.figure(GOODPUT.name));
    let highest = figures().map(|found| found.max.max(found.median)).filter(|max| max.is_finite());
    let highest = highest.fold(0.0, f64::max);
    let remarks = groups.iter().any(|group| !diagnosis::findings(group).is_empty());
    let longest = groups.iter().map(|group| group.label.len()).max().unwrap_or(0);
    let left = 34.0 + (longest as f64 * 8.6).clamp(40.0, 150.0);
    let frame = Frame { left, right: VALUE + if remarks { REMARK } else { 0.0 }, ..Frame::default() };
    let (rows, marks) = rows(view, &groups);
    let unit = rate_unit(highest);
    let scale = Scale {
        title: format!("goodput, {}", unit.0),
        ..Scale::linear(highest, (frame.plot_width() / 60.0) as usize, unit)
    };
    let strip = Strip::new(ROW * rows.len() as f64, Scale::rows(rows), marks);
    let of_pattern = if view.patterns().len() > 1 { format!(" of {}", pattern.name) } else { String::new() };
    let names = view.paths.names.iter().filter(|name| {
        groups.iter().any(|group| shares(group).get(name.as_str()).is_some_and(|share| *share > 0.0))
    });
    let paths = names.map(|name| (Key::Fill(view.paths.colour(name)), name.clone()));
    let bounds = bounds_keys(figures().filter_map(Bounds::from_distribution).map(|bounds| bounds.kind), INK);
    Some(Chart {
        legend: paths.chain(bounds).collect(),
        facets: vec![Facet::new("", scale, vec![strip])],
        frame,
        caption: vec![caption(remarks, all - groups.len())],
        ..Chart::from_view(view, &format!(": goodput in every variant{of_pattern}"))
    })
}

fn rows(view: &View, groups: &[&GroupView]) -> (Vec<Row>, Vec<Mark>) {
    let (mut rows, mut marks) = (Vec::new(), Vec::new());
    let mut last: Option<&Variant> = None;
    for group in groups {
        if last != Some(group.variant) {
            rows.push(Row { is_heading: true, ..Row::new(&variant_text(group.variant), String::new()) });
        }
        last = Some(group.variant);
        let y = rows.len() as f64 + 0.5;
        rows.push(Row::new(group.label, String::new()));
        marks.extend(row(view, group, y));
    }
    (rows, marks)
}

fn row(view: &View, group: &GroupView, y: f64) -> Vec<Mark> {
    let mut marks = Vec::new();
    if let Some(found) = group.figure(GOODPUT.name) {
        marks.extend(bars(view, group, found.median, y));
        if let Some(Bounds { kind, low, high }) = Bounds::from_distribution(found) {
            marks.push(Mark::Bounds { kind, low, high, y, shift: 0.0, colour: INK });
        }
        let at = (Coordinate::High(8.0), Coordinate::Data(y, 4.0));
        marks.push(Label::value((GOODPUT.unit.words())(found.median), at));
    } else {
        let text = match (group.valid(), group.completed()) {
            (0, _) => "no valid run",
            (valid, completed) if completed < valid => "did not complete",
            _ => "nothing arrived",
        };
        let at = (Coordinate::Low(6.0), Coordinate::Data(y, 3.8));
        marks.push(Mark::Label(Label::new(text, at, TextStyle::new(10.5, ALARM))));
    }
    let findings = diagnosis::findings(group);
    let texts = findings.iter().map(|one| format!("{}: {}", one.path, diagnosis::title(one.kind)));
    let colour = if findings.iter().any(diagnosis::Finding::is_trouble) { ALARM } else { MUTED };
    let at = (Coordinate::High(8.0 + VALUE), Coordinate::Data(y, 3.8));
    let remark = Label::new(texts.collect::<Vec<_>>().join("; "), at, TextStyle::new(10.0, colour));
    marks.push(Mark::Label(Label { limit: REMARK - 8.0, ..remark }));
    marks
}

fn bars(view: &View, group: &GroupView, median: f64, y: f64) -> Vec<Mark> {
    let shares = shares(group);
    let total: f64 = shares.values().sum();
    let mut parts: Vec<(Option<&str>, f64)> = shares
        .iter()
        .filter(|(_, share)| **share > 0.0)
        .map(|(name, share)| (Some(*name), median * share / total))
        .collect();
    parts.sort_by_key(|(name, _)| name.map(|name| view.paths.rank(name)));
    if parts.is_empty() {
        parts.push((None, median));
    }
    let mut from = 0.0;
    let bar = |(name, mbps): (Option<&str>, f64)| {
        let start = from;
        from += mbps;
        let series = name.unwrap_or("path not known").to_owned();
        let tooltip = format!("{series}: {}", (GOODPUT.unit.words())(mbps));
        let colour = name.map_or(UNATTRIBUTED, |name| view.paths.colour(name));
        Mark::Bar { series, from: start, to: start + mbps, y, height: 13.0, colour, tooltip }
    };
    parts.into_iter().map(bar).collect()
}

fn shares<'a>(group: &GroupView<'a>) -> BTreeMap<&'a str, f64> {
    let known = group.summary.into_iter().flat_map(|summary| &summary.shares);
    known
        .filter(|(_, share)| share.is_finite() && **share >= 0.0)
        .map(|(name, share)| (name.as_str(), *share))
        .collect()
}

fn caption(remarks: bool, more: usize) -> String {
    let length = "Length: the median goodput of the valid runs, split in the proportion of the paths' median shares of the \
                  bytes that arrived.";
    let right = "At the right: paths that carried no data for a second or more, and why.";
    paragraph(&[length, if remarks { right } else { "" }, &left_out(more, "bar")])
}
