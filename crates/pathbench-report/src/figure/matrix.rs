//! The matrix: goodput of every label in every variant as a bar, cut into what each path brought.

use super::axis::{self, Axis};
use super::legend::{self, Mark};
use super::{WIDTH, lettering};
use crate::ResultSet;
use crate::narrative::diagnosis;
use crate::palette::{ALARM, FRAME, GRID, INK, MUTED, UNATTRIBUTED};
use crate::pattern::{GOODPUT, Kind, Pattern};
use crate::quantity::{Bounds, counted};
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::Variant;
use std::collections::BTreeMap;

const MARGIN: f64 = 20.0;
const ROW: f64 = 22.0;
const BAR: f64 = 13.0;
/// The line that names a variant.
const VARIANT: f64 = 24.0;
/// At the right: the median, and what was found out about paths that carried nothing.
const VALUE: f64 = 78.0;
const REMARK: f64 = 236.0;
/// Bars beyond this are not drawn; the table of the report has them all.
const MOST_ROWS: usize = 120;

/// Median goodput of every label in every variant of the matrix, stacked by the paths' shares. `None` for a result
/// without variants, or one that is about messages.
pub fn matrix(set: &ResultSet) -> Option<Svg> {
    let view = View::new(set);
    view.patterns().into_iter().find_map(|pattern| matrix_of(&view, pattern))
}

/// The same of one pattern.
pub(crate) fn matrix_of(view: &View, pattern: Pattern) -> Option<Svg> {
    let groups: Vec<&GroupView> = view.of_pattern(pattern).collect();
    let first = groups.first()?.variant;
    let several = groups.iter().any(|group| group.variant != first);
    if !several || !matches!(pattern.kind, Kind::Iperf | Kind::Bulk) {
        return None;
    }
    let sheet = Sheet::new(view, pattern, groups);
    let (_, height) = sheet.draw(10.0);
    Some(sheet.draw(height).0)
}

struct Sheet<'a> {
    view: &'a View<'a>,
    groups: Vec<&'a GroupView<'a>>,
    axis: Axis,
    unit: (&'static str, f64),
    labels_width: f64,
    plot: Area,
    title: String,
    caption: Vec<String>,
}

impl<'a> Sheet<'a> {
    fn new(view: &'a View<'a>, pattern: Pattern, mut groups: Vec<&'a GroupView<'a>>) -> Self {
        let all = groups.len();
        groups.truncate(MOST_ROWS);
        let highest = groups.iter().filter_map(|group| group.figure(GOODPUT.name));
        let highest = highest.map(|found| found.max.max(found.median)).filter(|max| max.is_finite());
        let highest = highest.fold(0.0, f64::max);
        let unit = axis::rate_unit(highest);
        let widest = groups.iter().map(|group| lettering::width(group.label, 11.5)).fold(40.0, f64::max);
        let labels_width = widest.min(150.0) + 12.0;
        let remarks = groups.iter().any(|group| !diagnosis::findings(group).is_empty());
        let x = MARGIN + labels_width;
        let right = WIDTH - MARGIN - VALUE - if remarks { REMARK } else { 0.0 };
        let of_pattern =
            if view.patterns().len() > 1 { format!(" of {}", pattern.name) } else { String::new() };
        Self {
            axis: Axis::holding(highest / unit.1, ((right - x) / 60.0) as usize),
            unit,
            labels_width,
            plot: Area { x, y: 0.0, width: right - x, height: 0.0 },
            title: format!("{}: goodput in every variant{of_pattern}", view.set.document.scenario.name),
            caption: legend::caption_lines(&caption(remarks, all - groups.len()), WIDTH - 2.0 * MARGIN),
            view,
            groups,
        }
    }

    fn draw(&self, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let description = &self.view.set.document.scenario.description;
        let mut y = legend::heading(&mut svg, MARGIN, WIDTH - 2.0 * MARGIN, &self.title, description);
        y += legend::draw(&mut svg, (MARGIN, y), WIDTH - 2.0 * MARGIN, &self.legend()) + 4.0;
        let mut last: Option<&Variant> = None;
        for group in &self.groups {
            if last != Some(group.variant) {
                if last.is_some() {
                    svg.line((MARGIN, y + 3.0), (WIDTH - MARGIN, y + 3.0), Stroke::solid(FRAME, 0.6));
                }
                let text = lettering::fitted(&variant_text(group.variant), 11.5 * 1.12, WIDTH - 2.0 * MARGIN);
                svg.text((MARGIN, y + 17.0), TextStyle::new(11.5, INK).bold(), &text);
                y += VARIANT;
                let rows = self.groups.iter().filter(|one| one.variant == group.variant).count();
                self.draw_grid(&mut svg, y, y + rows as f64 * ROW);
            }
            last = Some(group.variant);
            self.draw_row(&mut svg, group, y + ROW / 2.0);
            y += ROW;
        }
        self.draw_ticks(&mut svg, y);
        y += 40.0;
        legend::rule(&mut svg, MARGIN, y, WIDTH - 2.0 * MARGIN);
        y += 20.0 + legend::caption(&mut svg, (MARGIN, y + 20.0), &self.caption);
        (svg, y)
    }

    /// The lines of the scale behind the bars of one variant: they do not run through the names of variants.
    fn draw_grid(&self, svg: &mut Svg, top: f64, bottom: f64) {
        for tick in &self.axis.ticks {
            let x = self.plot.x + self.axis.part(*tick) * self.plot.width;
            let stroke = Stroke::solid(if *tick > 0.0 { GRID } else { FRAME }, 1.0);
            svg.line((x, top), (x, bottom), stroke);
        }
    }

    fn draw_ticks(&self, svg: &mut Svg, bottom: f64) {
        let small = TextStyle::new(10.5, MUTED);
        for tick in &self.axis.ticks {
            let x = self.plot.x + self.axis.part(*tick) * self.plot.width;
            svg.text((x, bottom + 14.0), small.anchored(Anchor::Middle), &self.axis.number(*tick));
        }
        svg.text((self.plot.x, bottom + 29.0), small, &format!("goodput, {}", self.unit.0));
    }

    fn x(&self, mbps: f64) -> f64 {
        self.plot.x + self.axis.part(mbps / self.unit.1) * self.plot.width
    }

    fn draw_row(&self, svg: &mut Svg, group: &GroupView, middle: f64) {
        let label = lettering::fitted(group.label, 11.5, self.labels_width - 8.0);
        let style = TextStyle::new(11.5, INK).anchored(Anchor::End);
        svg.text((self.plot.x - 7.0, middle + 4.0), style, &label);
        let value_at = (self.plot.right() + 8.0, middle + 4.0);
        if let Some(found) = group.figure(GOODPUT.name) {
            self.draw_bar(svg, group, found.median, middle);
            if let Some(Bounds { kind, low, high }) = Bounds::of(found) {
                legend::bounds(svg, kind, (self.x(low), self.x(high)), (middle, 3.5), INK);
            }
            let text = (GOODPUT.words)(found.median);
            svg.text(value_at, TextStyle::new(11.0, INK).bold(), &text);
        } else {
            let text = match (group.valid(), group.completed()) {
                (0, _) => "no valid run",
                (valid, completed) if completed < valid => "did not complete",
                _ => "nothing arrived",
            };
            svg.text((self.plot.x + 6.0, middle + 3.8), TextStyle::new(10.5, ALARM), text);
        }
        self.draw_remark(svg, group, middle);
    }

    /// What each path brought, side by side from zero to the median.
    fn draw_bar(&self, svg: &mut Svg, group: &GroupView, median: f64, middle: f64) {
        let shares = shares(group);
        let total: f64 = shares.values().sum();
        let mut from = 0.0;
        let mut draw = |name: Option<&str>, mbps: f64| {
            let (left, right) = (self.x(from), self.x(from + mbps));
            from += mbps;
            let area = Area { x: left, y: middle - BAR / 2.0, width: right - left, height: BAR };
            let colour = name.map_or(UNATTRIBUTED, |name| self.view.paths.colour(name));
            let tooltip = format!("{}: {}", name.unwrap_or("path not known"), (GOODPUT.words)(mbps));
            svg.rect_with_tooltip(area, colour, tooltip);
        };
        if total <= 0.0 {
            draw(None, median);
            return;
        }
        let mut shares: Vec<(&str, f64)> = shares.into_iter().collect();
        shares.sort_by_key(|(name, _)| self.view.paths.rank(name));
        for (name, share) in shares.into_iter().filter(|(_, share)| *share > 0.0) {
            draw(Some(name), median * share / total);
        }
    }

    fn draw_remark(&self, svg: &mut Svg, group: &GroupView, middle: f64) {
        let findings = diagnosis::findings(group);
        let texts = findings.iter().map(|one| format!("{}: {}", one.path, diagnosis::title(one.kind)));
        let text = texts.collect::<Vec<_>>().join("; ");
        let trouble = findings.iter().any(diagnosis::Finding::is_trouble);
        let style = TextStyle::new(10.0, if trouble { ALARM } else { MUTED });
        let at = (self.plot.right() + 8.0 + VALUE, middle + 3.8);
        svg.text(at, style, &lettering::fitted(&text, 10.0, REMARK - 8.0));
    }

    fn legend(&self) -> Vec<(Mark, String)> {
        let shown = |name: &str| {
            self.groups.iter().any(|group| shares(group).get(name).is_some_and(|share| *share > 0.0))
        };
        let names = self.view.paths.names().iter().filter(|name| shown(name));
        let mut entries: Vec<(Mark, String)> =
            names.map(|name| (Mark::Fill(self.view.paths.colour(name)), name.clone())).collect();
        let figures = self.groups.iter().filter_map(|group| group.figure(GOODPUT.name));
        entries.extend(legend::of_bounds(figures.filter_map(Bounds::of).map(|bounds| bounds.kind), INK));
        entries
    }
}

/// Path → part of the bytes that arrived, the median over the valid runs.
fn shares<'a>(group: &GroupView<'a>) -> BTreeMap<&'a str, f64> {
    let known = group.summary.into_iter().flat_map(|summary| &summary.shares);
    known
        .filter(|(_, share)| share.is_finite() && **share >= 0.0)
        .map(|(name, share)| (name.as_str(), *share))
        .collect()
}

fn caption(remarks: bool, left_out: usize) -> Vec<String> {
    let mut sentences = vec![
        "Length: the median goodput of the valid runs, cut in the proportion of the paths' median shares of the bytes that \
         arrived."
            .to_owned(),
    ];
    if remarks {
        sentences.push("At the right: paths that carried nothing for a second or more, and why.".to_owned());
    }
    if left_out > 0 {
        sentences.push(format!("{} not shown.", counted(left_out as u32, "more bar")));
    }
    vec![sentences.join(" ")]
}
