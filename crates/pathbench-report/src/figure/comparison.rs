//! The comparison: every repetition of every label as a dot, goodput, stall and recovery side by side.

use super::axis::{self, Axis};
use super::legend::{self, Mark};
use super::{WIDTH, lettering};
use crate::ResultSet;
use crate::palette::{ALARM, Colour, FRAME, GRID, INK, MUTED};
use crate::quantity::{counted, duration, median, rate, spread};
use crate::svg::{Anchor, Stroke, Svg, TextStyle};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::RunRecord;
use pathbench_record::transport::TransportLabel;

/// Rows beyond this are not drawn; the table of the report has them all.
const MOST_ROWS: usize = 120;
const MARGIN: f64 = 20.0;
const VALUE_WIDTH: f64 = 74.0;
const GAP: f64 = 22.0;

/// A figure of a run that is compared.
struct Measure {
    name: &'static str,
    better: &'static str,
    /// Its definition in a sentence, for the caption.
    meaning: &'static str,
    value: fn(&RunRecord) -> Option<f64>,
    words: fn(f64) -> String,
    unit: fn(f64) -> (&'static str, f64),
}

const MEASURES: [Measure; 3] = [
    Measure {
        name: "Goodput",
        better: "more is better",
        meaning: "",
        value: |run| run.goodput_mbps,
        words: rate,
        unit: axis::rate_unit,
    },
    Measure {
        name: "Longest stall",
        better: "less is better",
        meaning: "Stall: the longest time the receiving application got no byte while data was outstanding.",
        value: |run| run.stall_ms,
        words: duration,
        unit: axis::time_unit,
    },
    Measure {
        name: "Recovery after the first event",
        better: "less is better",
        meaning: "Recovery: from the first event to the first 100 ms window from which goodput stays at 90 % of \
                  what the surviving paths give.",
        value: |run| run.recovery_ms,
        words: duration,
        unit: axis::time_unit,
    },
];

/// Every valid repetition of every label as a dot, and the median as a bar: goodput, stall and recovery.
#[must_use]
pub fn comparison(set: &ResultSet) -> Svg {
    comparison_of(&View::new(set))
}

pub(crate) fn comparison_of(view: &View) -> Svg {
    let sheet = Sheet::new(view);
    let (_, height) = sheet.draw(10.0);
    sheet.draw(height).0
}

/// One column: a measure, the scale that all rows share, and where it stands.
struct Column<'a> {
    measure: &'a Measure,
    axis: Axis,
    unit: (&'static str, f64),
    x: f64,
    width: f64,
}

struct Sheet<'a> {
    view: &'a View<'a>,
    groups: Vec<&'a GroupView<'a>>,
    columns: Vec<Column<'a>>,
    labels_width: f64,
    row_height: f64,
    title: String,
    caption: Vec<String>,
}

fn values(group: &GroupView, measure: &Measure) -> Vec<f64> {
    let values = group.valid_runs().filter_map(|run| (measure.value)(run));
    values.filter(|value| value.is_finite() && (0.0..1e12).contains(value)).collect()
}

impl<'a> Sheet<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let groups: Vec<&GroupView> = view.groups.iter().take(MOST_ROWS).collect();
        let widest = groups
            .iter()
            .map(|group| {
                let label = lettering::width(group.label, 12.0 * 1.1);
                label.max(lettering::width(&variant_text(group.variant), 10.0))
            })
            .fold(60.0, f64::max);
        let labels_width = widest.min(230.0) + 14.0;
        let used: Vec<(&Measure, f64)> = MEASURES
            .iter()
            .filter_map(|measure| {
                let all = groups.iter().flat_map(|group| values(group, measure));
                Some((measure, all.reduce(f64::max)?))
            })
            .collect();
        let shown: Vec<&str> = used.iter().map(|(measure, _)| measure.name).collect();
        let room = WIDTH - 2.0 * MARGIN - labels_width;
        let each = room / used.len().max(1) as f64;
        let columns = used
            .into_iter()
            .enumerate()
            .map(|(index, (measure, highest))| {
                let unit = (measure.unit)(highest);
                let width = each - VALUE_WIDTH - GAP;
                Column {
                    measure,
                    axis: Axis::holding(highest / unit.1, ((width / 50.0) as usize).clamp(2, 5)),
                    unit,
                    x: MARGIN + labels_width + index as f64 * each,
                    width,
                }
            })
            .collect();
        let has_variants = groups.iter().any(|group| !group.variant.is_empty());
        let row_height = if has_variants {
            36.0
        } else if groups.len() > 12 {
            24.0
        } else {
            32.0
        };
        let title = format!("{}: every repetition", view.set.document.scenario.name);
        let caption = legend::caption_lines(&caption(view, &shown), WIDTH - 2.0 * MARGIN);
        Self { view, groups, columns, labels_width, row_height, title, caption }
    }

    fn draw(&self, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let description = &self.view.set.document.scenario.description;
        let mut y = legend::heading(&mut svg, MARGIN, WIDTH - 2.0 * MARGIN, &self.title, description);
        let entries = [
            (Mark::Dot(MUTED), "one valid run".to_owned()),
            (Mark::Bar(MUTED), "median (its value at the right)".to_owned()),
        ];
        y += legend::draw(&mut svg, (MARGIN, y), WIDTH - 2.0 * MARGIN, &entries) + 22.0;
        if self.groups.is_empty() || self.columns.is_empty() {
            let text =
                if self.groups.is_empty() { "There is no run to show." } else { "No valid run has figures." };
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
        let bottom = rows_top + self.row_height * self.groups.len() as f64;
        for column in &self.columns {
            column.draw_frame(svg, top, rows_top, bottom);
        }
        for (index, group) in self.groups.iter().enumerate() {
            let middle = rows_top + (index as f64 + 0.5) * self.row_height;
            if index > 0 {
                let y = rows_top + index as f64 * self.row_height;
                svg.line((MARGIN, y), (WIDTH - MARGIN, y), Stroke::solid(GRID, 0.8));
            }
            self.draw_label(svg, group, middle);
            for column in &self.columns {
                column.draw_row(svg, group, middle, self.colour(group));
            }
        }
        bottom + 38.0
    }

    fn draw_label(&self, svg: &mut Svg, group: &GroupView, middle: f64) {
        let room = self.labels_width - 10.0;
        let label = lettering::fitted(group.label, 12.0 * 1.1, room);
        let variant = variant_text(group.variant);
        let baseline = if variant.is_empty() { middle + 4.3 } else { middle - 2.0 };
        svg.text((MARGIN, baseline), TextStyle::new(12.0, INK).bold(), &label);
        if !variant.is_empty() {
            let variant = lettering::fitted(&variant, 10.0, room);
            svg.text((MARGIN, middle + 11.0), TextStyle::new(10.0, MUTED), &variant);
        }
    }

    /// A label that is bound to one path has that path's colour; the others are ink.
    fn colour(&self, group: &GroupView) -> Colour {
        let label = group.label.parse::<TransportLabel>().ok();
        let path = label.filter(|label| !label.transport.is_multipath()).and_then(|label| label.path);
        let known = path.filter(|path| self.view.paths.names().contains(path));
        known.map_or(INK, |path| self.view.paths.colour(&path))
    }
}

impl Column<'_> {
    fn x(&self, value: f64) -> f64 {
        self.x + self.axis.part(value / self.unit.1) * self.width
    }

    fn draw_frame(&self, svg: &mut Svg, top: f64, rows_top: f64, bottom: f64) {
        let small = TextStyle::new(10.5, MUTED);
        svg.text((self.x, top), TextStyle::new(12.0, INK).bold(), self.measure.name);
        for tick in &self.axis.ticks {
            let x = self.x(tick * self.unit.1);
            svg.line((x, rows_top), (x, bottom), Stroke::solid(GRID, 1.0));
            svg.text((x, bottom + 15.0), small.anchored(Anchor::Middle), &self.axis.number(*tick));
        }
        svg.line((self.x, rows_top), (self.x, bottom), Stroke::solid(FRAME, 1.0));
        let text = format!("{} · {}", self.unit.0, self.measure.better);
        svg.text((self.x, bottom + 30.0), small, &text);
    }

    fn draw_row(&self, svg: &mut Svg, group: &GroupView, middle: f64, colour: Colour) {
        let values_x = self.x + self.width + 10.0;
        let values = values(group, self.measure);
        let Some(typical) = median(&values) else {
            let (text, colour) = self.absence(group);
            svg.text((self.x + 6.0, middle + 3.8), TextStyle::new(10.5, colour), &text);
            return;
        };
        for run in group.valid_runs() {
            if let Some(value) = (self.measure.value)(run).filter(|value| values.contains(value)) {
                let tooltip = format!("{}: {}", run.id, (self.measure.words)(value));
                svg.dot((self.x(value), middle), 4.5, colour, tooltip);
            }
        }
        let x = self.x(typical);
        svg.line((x, middle - 10.0), (x, middle + 10.0), Stroke::solid(colour, 2.5));
        let text = (self.measure.words)(typical);
        svg.text((values_x, middle + 4.0), TextStyle::new(11.0, INK).bold(), &text);
    }

    /// What stands where there is no value.
    fn absence(&self, group: &GroupView) -> (String, Colour) {
        let failed: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.completed).collect();
        let hung: Vec<f64> = failed.iter().filter_map(|run| run.hung_ms).collect();
        let text = match (group.valid(), failed.len()) {
            (0, _) => return ("no valid run".to_owned(), MUTED),
            (_, 0) => return ("–".to_owned(), MUTED),
            (valid, failed) if self.measure.name == "Goodput" => {
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

fn caption(view: &View, shown: &[&str]) -> Vec<String> {
    let mut sentences = vec!["Only runs in a valid environment are shown.".to_owned()];
    let meant =
        MEASURES.iter().filter(|measure| shown.contains(&measure.name)).map(|measure| measure.meaning);
    sentences.extend(meant.filter(|meaning| !meaning.is_empty()).map(str::to_owned));
    let invalid = view.set.document.runs.iter().filter(|run| !run.valid).count();
    if invalid > 0 {
        sentences.push(format!("{} left out as not valid.", counted(invalid as u32, "run")));
    }
    if view.groups.len() > MOST_ROWS {
        sentences.push(format!("The first {MOST_ROWS} of {} rows are shown.", view.groups.len()));
    }
    vec![sentences.join(" ")]
}
