//! The comparison: every repetition of every label as a dot. For one pattern, its figures side by side; as an
//! overview, the main figure of every pattern side by side.

use super::axis::{Axis, LogScale};
use super::legend::{self, Mark};
use super::measure::Measure;
use super::{WIDTH, lettering};
use crate::ResultSet;
use crate::narrative;
use crate::palette::{ALARM, Colour, FRAME, GRID, INK, MUTED, transport_colour};
use crate::pattern::Pattern;
use crate::quantity::{Bounds, counted, distribution, duration, median, spread};
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{RunRecord, Variant};
use pathbench_record::transport::{Transport, TransportLabel};

/// Rows beyond this are not drawn; the table of the report has them all.
const MOST_ROWS: usize = 120;
const MARGIN: f64 = 20.0;
const VALUE_WIDTH: f64 = 74.0;
const GAP: f64 = 22.0;

/// Every valid repetition of every label as a dot, and the median as a bar: goodput, stall and recovery, or what
/// the result's first pattern has instead.
pub fn comparison(set: &ResultSet) -> Svg {
    let view = View::new(set);
    let pattern = view.patterns().first().copied().unwrap_or(Pattern::named("iperf"));
    comparison_of(&view, pattern)
}

/// The comparison of one pattern.
pub(crate) fn comparison_of(view: &View, pattern: Pattern) -> Svg {
    let groups: Vec<&GroupView> = view.groups.iter().filter(|group| group.pattern == pattern).collect();
    let of_pattern = if view.patterns().len() > 1 { format!(" of {}", pattern.name) } else { String::new() };
    let title = format!("{}: every repetition{of_pattern}", view.set.document.scenario.name);
    let measures = Measure::all_of(pattern);
    let rows = groups.iter().map(|group| Row::of(group, vec![Some(*group); measures.len()])).collect();
    Sheet::new(view, title, measures, rows).finish()
}

/// The main figure of every pattern, transport by transport.
pub fn overview(set: &ResultSet) -> Svg {
    overview_of(&View::new(set))
}

pub(crate) fn overview_of(view: &View) -> Svg {
    let patterns: Vec<Pattern> = view.patterns().into_iter().take(MOST_PATTERNS).collect();
    let mut rows: Vec<Row> = Vec::new();
    for group in &view.groups {
        if !rows.iter().any(|row| row.label == group.label && row.variant == group.variant) {
            let same = |one: &&GroupView| one.label == group.label && one.variant == group.variant;
            let of = |pattern: &Pattern| view.of_pattern(*pattern).find(same);
            rows.push(Row::of(group, patterns.iter().map(of).collect()));
        }
    }
    let title = format!("{}: all patterns", view.set.document.scenario.name);
    let measures = patterns.iter().map(|pattern| Measure::overview(*pattern)).collect();
    Sheet::new(view, title, measures, rows).finish()
}

/// Columns of an overview: more do not fit.
const MOST_PATTERNS: usize = 5;

/// One row: a label in a variant, and the group that each column takes its values from.
struct Row<'a> {
    label: &'a str,
    variant: &'a Variant,
    groups: Vec<Option<&'a GroupView<'a>>>,
}

impl<'a> Row<'a> {
    fn of(group: &GroupView<'a>, groups: Vec<Option<&'a GroupView<'a>>>) -> Self {
        Self { label: group.label, variant: group.variant, groups }
    }
}

/// One column: a measure, the scale that all rows share, and where it stands.
struct Column {
    /// Which measure of the sheet.
    index: usize,
    measure: Measure,
    scale: Scale,
    x: f64,
    width: f64,
}

/// How values become places.
enum Scale {
    /// From zero, in a unit: its name and how much of the figure it is.
    Linear(Axis, (&'static str, f64)),
    Logarithmic(LogScale),
}

impl Scale {
    /// Logarithmic where times differ by so much that the short ones would all be one.
    fn of(measure: &Measure, values: &[f64], width: f64) -> Option<Self> {
        let highest = values.iter().copied().reduce(f64::max)?;
        let lowest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
        if measure.may_be_logarithmic && highest > lowest * 20.0 {
            return Some(Self::Logarithmic(LogScale::holding(values.iter().copied())));
        }
        let unit = (measure.unit)(highest);
        let axis = Axis::holding(highest / unit.1, ((width / 50.0) as usize).clamp(1, 5));
        Some(Self::Linear(axis, unit))
    }

    fn part(&self, value: f64) -> f64 {
        match self {
            Self::Linear(axis, unit) => axis.part(value / unit.1),
            Self::Logarithmic(scale) => scale.part(value),
        }
    }

    /// Values, and what stands at them.
    fn ticks(&self) -> Vec<(f64, Option<String>)> {
        match self {
            Self::Linear(axis, unit) => {
                axis.ticks.iter().map(|tick| (tick * unit.1, Some(axis.number(*tick)))).collect()
            }
            Self::Logarithmic(scale) => scale.ticks(),
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Self::Linear(_, unit) => unit.0,
            Self::Logarithmic(_) => "logarithmic",
        }
    }
}

struct Sheet<'a> {
    view: &'a View<'a>,
    rows: Vec<Row<'a>>,
    columns: Vec<Column>,
    labels_width: f64,
    row_height: f64,
    title: String,
    caption: Vec<String>,
}

impl<'a> Sheet<'a> {
    fn new(view: &'a View<'a>, title: String, measures: Vec<Measure>, mut rows: Vec<Row<'a>>) -> Self {
        let all_rows = rows.len();
        rows.truncate(MOST_ROWS);
        let widest = rows
            .iter()
            .map(|row| {
                let label = lettering::width(row.label, 12.0 * 1.1);
                label.max(lettering::width(&variant_text(row.variant), 10.0))
            })
            .fold(60.0, f64::max);
        let labels_width = widest.min(230.0) + 14.0;
        let columns = columns(measures, &rows, labels_width);
        let caption = caption(view, &columns, all_rows);
        let row_height = if rows.iter().any(|row| !row.variant.is_empty()) {
            36.0
        } else if rows.len() > 12 {
            24.0
        } else {
            32.0
        };
        let caption = legend::caption_lines(&caption, WIDTH - 2.0 * MARGIN);
        Self { view, rows, columns, labels_width, row_height, title, caption }
    }

    /// Drawn once to measure its height, once for good.
    fn finish(&self) -> Svg {
        let (_, height) = self.draw(10.0);
        self.draw(height).0
    }

    fn draw(&self, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let description = &self.view.set.document.scenario.description;
        let mut y = legend::heading(&mut svg, MARGIN, WIDTH - 2.0 * MARGIN, &self.title, description);
        let mut entries = vec![
            (Mark::Dot(MUTED), "one valid run".to_owned()),
            (Mark::Bar(MUTED), "median (its value at the right)".to_owned()),
        ];
        let with_bar = self.columns.iter().filter(|column| column.measure.bar);
        let shown = with_bar.flat_map(|column| {
            let groups = self.rows.iter().filter_map(|row| row.groups.get(column.index).copied().flatten());
            groups.filter_map(|group| column.bounds(group)).map(|bounds| bounds.kind)
        });
        entries.extend(legend::of_bounds(shown, MUTED));
        y += legend::draw(&mut svg, (MARGIN, y), WIDTH - 2.0 * MARGIN, &entries) + 22.0;
        if self.rows.is_empty() || self.columns.is_empty() {
            let text =
                if self.rows.is_empty() { "There is no run to show." } else { "No valid run has figures." };
            svg.text((MARGIN, y), TextStyle::new(12.0, MUTED), text);
            y += 16.0;
        } else {
            y = self.draw_columns(&mut svg, y);
        }
        legend::rule(&mut svg, MARGIN, y, WIDTH - 2.0 * MARGIN);
        y += 20.0 + legend::caption(&mut svg, (MARGIN, y + 20.0), &self.caption);
        (svg, y)
    }

    fn draw_columns(&self, svg: &mut Svg, top: f64) -> f64 {
        let rows_top = top + 14.0;
        let bottom = rows_top + self.row_height * self.rows.len() as f64;
        for column in &self.columns {
            column.draw_frame(svg, top, rows_top, bottom);
        }
        for (index, row) in self.rows.iter().enumerate() {
            let middle = rows_top + (index as f64 + 0.5) * self.row_height;
            if index > 0 {
                let y = rows_top + index as f64 * self.row_height;
                svg.line((MARGIN, y), (WIDTH - MARGIN, y), Stroke::solid(GRID, 0.8));
            }
            self.draw_label(svg, row, middle);
            for column in &self.columns {
                if let Some(group) = row.groups.get(column.index).copied().flatten() {
                    column.draw_row(svg, group, middle, self.colour(group));
                }
            }
        }
        bottom + 38.0
    }

    fn draw_label(&self, svg: &mut Svg, row: &Row, middle: f64) {
        let room = self.labels_width - 10.0;
        let label = lettering::fitted(row.label, 12.0 * 1.1, room);
        let variant = variant_text(row.variant);
        let baseline = if variant.is_empty() { middle + 4.3 } else { middle - 2.0 };
        svg.text((MARGIN, baseline), TextStyle::new(12.0, INK).bold(), &label);
        if !variant.is_empty() {
            let variant = lettering::fitted(&variant, 10.0, room);
            svg.text((MARGIN, middle + 11.0), TextStyle::new(10.0, MUTED), &variant);
        }
    }

    /// Where QUIC is among them, transports have their colours. Else a label that is bound to one path has
    /// that path's colour, and the others are ink.
    fn colour(&self, group: &GroupView) -> Colour {
        let is_quic = |one: &GroupView| matches!(one.transport(), Some(Transport::Quic | Transport::Mpquic));
        if self.view.groups.iter().any(is_quic) {
            return group.transport().map_or(INK, transport_colour);
        }
        let label = group.label.parse::<TransportLabel>().ok();
        let path = label.filter(|label| !label.transport.is_multipath()).and_then(|label| label.path);
        let known = path.filter(|path| self.view.paths.names().contains(path));
        known.map_or(INK, |path| self.view.paths.colour(&path))
    }
}

/// The measures that have values, side by side.
fn columns(measures: Vec<Measure>, rows: &[Row], labels_width: f64) -> Vec<Column> {
    let used: Vec<(usize, Measure, Vec<f64>)> = measures
        .into_iter()
        .enumerate()
        .map(|(index, measure)| {
            let groups = rows.iter().filter_map(|row| row.groups.get(index).copied().flatten());
            let values = groups.flat_map(|group| measure.values(group)).collect();
            (index, measure, values)
        })
        .filter(|(_, _, values): &(usize, Measure, Vec<f64>)| !values.is_empty())
        .collect();
    let room = WIDTH - 2.0 * MARGIN - labels_width;
    let each = room / used.len().max(1) as f64;
    used.into_iter()
        .enumerate()
        .filter_map(|(place, (index, measure, values))| {
            let width = each - VALUE_WIDTH - GAP;
            let scale = Scale::of(&measure, &values, width)?;
            Some(Column { index, measure, scale, x: MARGIN + labels_width + place as f64 * each, width })
        })
        .collect()
}

impl Column {
    fn x(&self, value: f64) -> f64 {
        self.x + self.scale.part(value) * self.width
    }

    fn draw_frame(&self, svg: &mut Svg, top: f64, rows_top: f64, bottom: f64) {
        let small = TextStyle::new(10.5, MUTED);
        svg.text((self.x, top), TextStyle::new(12.0, INK).bold(), &self.measure.name);
        for (value, words) in self.scale.ticks() {
            let x = self.x(value);
            let width = if words.is_some() { 1.0 } else { 0.5 };
            svg.line((x, rows_top), (x, bottom), Stroke::solid(GRID, width));
            if let Some(words) = words {
                svg.text((x, bottom + 15.0), small.anchored(Anchor::Middle), &words);
            }
        }
        svg.line((self.x, rows_top), (self.x, bottom), Stroke::solid(FRAME, 1.0));
        let text = format!("{} · {}", self.scale.unit(), self.measure.better);
        svg.text((self.x, bottom + 30.0), small, &text);
    }

    fn draw_row(&self, svg: &mut Svg, group: &GroupView, middle: f64, colour: Colour) {
        let values_x = self.x + self.width + 10.0;
        let values = self.measure.values(group);
        let Some(typical) = median(&values) else {
            let (text, colour) = self.absence(group);
            svg.text((self.x + 6.0, middle + 3.8), TextStyle::new(10.5, colour), &text);
            return;
        };
        if self.measure.bar {
            self.draw_bar(svg, middle, colour, typical);
        }
        for run in group.valid_runs() {
            if let Some(value) = (self.measure.figure.of_run)(run).filter(|value| values.contains(value)) {
                let tooltip = format!("{}: {}", run.id, (self.measure.figure.words)(value));
                svg.dot((self.x(value), middle), 4.5, colour, tooltip);
            }
        }
        if let Some(Bounds { kind, low, high }) = self.bounds(group).filter(|_| self.measure.bar) {
            legend::bounds(svg, kind, (self.x(low), self.x(high)), (middle + 7.0, 3.0), INK);
        }
        let x = self.x(typical);
        svg.line((x, middle - 10.0), (x, middle + 10.0), Stroke::solid(colour, 2.5));
        let mark = group.bound_mark(self.measure.figure.name);
        let text = format!("{mark}{}", (self.measure.figure.words)(typical));
        svg.text((values_x, middle + 4.0), TextStyle::new(11.0, INK).bold(), &text);
    }

    /// From zero to the median.
    fn draw_bar(&self, svg: &mut Svg, middle: f64, colour: Colour, typical: f64) {
        let width = self.x(typical) - self.x;
        svg.rect(Area { x: self.x, y: middle - 7.0, width, height: 14.0 }, colour.paler(0.72));
    }

    fn bounds(&self, group: &GroupView) -> Option<Bounds> {
        Bounds::of(&distribution(&self.measure.values(group))?)
    }

    /// What stands where there is no value.
    fn absence(&self, group: &GroupView) -> (String, Colour) {
        let failed: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.completed).collect();
        let hung: Vec<f64> = failed.iter().filter_map(|run| run.hung_ms).collect();
        let text = match (group.valid(), failed.len()) {
            (0, _) => return ("no valid run".to_owned(), MUTED),
            (_, 0) => return ("–".to_owned(), MUTED),
            (valid, failed) if self.measure.figure.name == group.pattern.main().name => {
                format!("did not complete in {failed} of {valid}")
            }
            _ => match spread(&hung, duration) {
                Some(hung) => format!("gave up after {hung}"),
                None => "did not complete".to_owned(),
            },
        };
        (lettering::fitted(&text, 10.5, self.width + VALUE_WIDTH), ALARM)
    }
}

fn caption(view: &View, columns: &[Column], rows: usize) -> Vec<String> {
    let mut sentences = vec!["Only runs in a valid environment are shown.".to_owned()];
    let meant = columns.iter().map(|column| column.measure.meaning);
    sentences.extend(meant.filter(|meaning| !meaning.is_empty()).map(str::to_owned));
    let is_overview = !columns.is_empty() && columns.iter().all(|column| column.measure.is_overview);
    if is_overview {
        let patterns = view.patterns();
        let meanings = patterns.iter().take(MOST_PATTERNS);
        sentences.extend(meanings.map(|pattern| format!("{}: {}.", pattern.name, pattern.meaning())));
    }
    if let Some(note) = narrative::encryption(view) {
        sentences.push(format!("{note}."));
    }
    let invalid = view.set.document.runs.iter().filter(|run| !run.valid).count();
    if invalid > 0 {
        sentences.push(format!("{} left out as not valid.", counted(invalid as u32, "run")));
    }
    if rows > MOST_ROWS {
        sentences.push(format!("The first {MOST_ROWS} of {rows} rows are shown."));
    }
    vec![sentences.join(" ")]
}
