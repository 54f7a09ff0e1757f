//! The matrix: goodput of every label in every variant as a bar, split by path.

use super::left_out;
use crate::chart::{
    Anchor, Chart, Facet, Frame, Key, Label, Mark, Place, Row, Scale, Strip, bounds_keys, rate_unit,
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
/// The table of the report has the bars beyond.
const MOST_ROWS: usize = 120;

/// `None` for a pattern without variants, or of messages.
pub(crate) fn matrix_of(view: &View, pattern: Pattern) -> Option<Chart> {
    let mut groups: Vec<&GroupView> = view.of_pattern(pattern).collect();
    let first = groups.first()?.variant;
    let several = groups.iter().any(|group| group.variant != first);
    if !several || !matches!(pattern.kind, Kind::Iperf | Kind::Bulk) {
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
    let names = view.paths.names().iter().filter(|name| {
        groups.iter().any(|group| shares(group).get(name.as_str()).is_some_and(|share| *share > 0.0))
    });
    let paths = names.map(|name| (Key::Fill(view.paths.colour(name)), name.clone()));
    let bounds = bounds_keys(figures().filter_map(Bounds::of).map(|bounds| bounds.kind), INK);
    let scenario = &view.set.document.scenario;
    Some(Chart {
        title: format!("{}: goodput in every variant{of_pattern}", scenario.name),
        subtitle: scenario.description.clone(),
        legend: paths.chain(bounds).collect(),
        facets: vec![Facet::new("", scale, vec![strip])],
        frame,
        caption: caption(remarks, all - groups.len()),
        ..Chart::default()
    })
}

/// A heading per variant, a row per group, and the marks in them.
fn rows(view: &View, groups: &[&GroupView]) -> (Vec<Row>, Vec<Mark>) {
    let (mut rows, mut marks) = (Vec::new(), Vec::new());
    let mut last: Option<&Variant> = None;
    for group in groups {
        if last != Some(group.variant) {
            rows.push(Row { label: variant_text(group.variant), detail: String::new(), is_heading: true });
        }
        last = Some(group.variant);
        let y = rows.len() as f64 + 0.5;
        rows.push(Row { label: group.label.to_owned(), detail: String::new(), is_heading: false });
        marks.extend(row(view, group, y));
    }
    (rows, marks)
}

fn row(view: &View, group: &GroupView, y: f64) -> Vec<Mark> {
    let mut marks = Vec::new();
    if let Some(found) = group.figure(GOODPUT.name) {
        marks.extend(bars(view, group, found.median, y));
        if let Some(Bounds { kind, low, high }) = Bounds::of(found) {
            marks.push(Mark::Bounds { kind, low, high, y, shift: 0.0, colour: INK });
        }
        let at = (Place::High(8.0), Place::Data(y, 4.0));
        let text = Label::new((GOODPUT.unit.words())(found.median), at, Anchor::Start, INK);
        marks.push(Mark::Label(Label { size: 11.0, bold: true, ..text }));
    } else {
        let text = match (group.valid(), group.completed()) {
            (0, _) => "no valid run",
            (valid, completed) if completed < valid => "did not complete",
            _ => "nothing arrived",
        };
        let at = (Place::Low(6.0), Place::Data(y, 3.8));
        marks.push(Mark::Label(Label::new(text, at, Anchor::Start, ALARM)));
    }
    let findings = diagnosis::findings(group);
    let texts = findings.iter().map(|one| format!("{}: {}", one.path, diagnosis::title(one.kind)));
    let colour = if findings.iter().any(diagnosis::Finding::is_trouble) { ALARM } else { MUTED };
    let at = (Place::High(8.0 + VALUE), Place::Data(y, 3.8));
    let remark = Label::new(texts.collect::<Vec<_>>().join("; "), at, Anchor::Start, colour);
    marks.push(Mark::Label(Label { size: 10.0, limit: REMARK - 8.0, ..remark }));
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

/// Path → part of the bytes that arrived, the median over the valid runs.
fn shares<'a>(group: &GroupView<'a>) -> BTreeMap<&'a str, f64> {
    let known = group.summary.into_iter().flat_map(|summary| &summary.shares);
    known
        .filter(|(_, share)| share.is_finite() && **share >= 0.0)
        .map(|(name, share)| (name.as_str(), *share))
        .collect()
}

fn caption(remarks: bool, more: usize) -> Vec<String> {
    let mut sentences = vec![
        "Length: the median goodput of the valid runs, split in the proportion of the paths' median shares of the bytes \
         that arrived."
            .to_owned(),
    ];
    if remarks {
        sentences.push("At the right: paths that carried no data for a second or more, and why.".to_owned());
    }
    sentences.extend(left_out(more, "bar"));
    vec![sentences.join(" ")]
}
