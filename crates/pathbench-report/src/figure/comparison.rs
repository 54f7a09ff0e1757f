//! Every repetition of every label as a dot: the figures of one pattern side by side, or the main figure of every
//! pattern as an overview.

use super::selection::{encrypted, left_out, paragraph};
use crate::chart::{
    Chart, Coordinate, Facet, Frame, Key, Label, Mark, Point, Row, Scale, Shape, Strip, Stroke, TextStyle,
    bounds_keys, rate_unit, time_unit,
};
use crate::palette::{ALARM, Colour, INK, MUTED, transport_colour};
use crate::pattern::{Figure, Kind, Pattern};
use crate::quantity::{Bounds, Unit, counted, distribution, duration, spread};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{RunRecord, Variant};
use pathbench_record::statistics;
use pathbench_record::transport::TransportLabel;

const MOST_ROWS: usize = 120;
const MOST_PATTERNS: usize = 5;
const VALUE_WIDTH: f64 = 84.0;

struct Column {
    name: String,
    figure: Figure,
    /// Whether a bar from zero and bounds are drawn.
    has_bar: bool,
    meaning: String,
}

pub(crate) fn comparison_of(view: &View, pattern: Pattern) -> Chart {
    let of_pattern = if view.patterns().len() > 1 { format!(" of {}", pattern.name) } else { String::new() };
    let figures = pattern.figures().iter().filter(|figure| !figure.heading.is_empty());
    let columns = figures.map(|figure| Column {
        name: figure.heading.to_owned(),
        figure: *figure,
        has_bar: figure.name == pattern.main().name && matches!(pattern.kind, Kind::Ping | Kind::Bulk),
        meaning: figure.meaning.to_owned(),
    });
    let columns: Vec<Column> = columns.collect();
    let rows = view.of_pattern(pattern).map(|group| Line {
        label: group.label,
        variant: group.variant,
        groups: vec![Some(group); columns.len()],
    });
    let rows = rows.collect();
    chart(view, &format!(": every repetition{of_pattern}"), columns, rows)
}

pub(crate) fn overview_of(view: &View) -> Chart {
    let patterns: Vec<Pattern> = view.patterns().into_iter().take(MOST_PATTERNS).collect();
    let rows = view.labels().into_iter().map(|(variant, label)| {
        let same = |one: &&GroupView| one.label == label && one.variant == variant;
        let groups = patterns.iter().map(|pattern| view.of_pattern(*pattern).find(same)).collect();
        Line { label, variant, groups }
    });
    let columns = patterns.iter().map(|pattern| {
        let mut name = pattern.title();
        if let Some(first) = name.get(..1).map(str::to_uppercase) {
            name.replace_range(..1, &first);
        }
        let meaning = format!("{}: {}.", pattern.name, pattern.meaning());
        Column { name, figure: pattern.main(), has_bar: true, meaning }
    });
    chart(view, ": all patterns", columns.collect(), rows.collect())
}

/// A label in a variant, and the group with the values of each column.
struct Line<'a> {
    label: &'a str,
    variant: &'a Variant,
    groups: Vec<Option<&'a GroupView<'a>>>,
}

/// The groups of a column, with their rows.
type Members<'a> = Vec<(usize, &'a GroupView<'a>)>;

fn chart<'a>(view: &'a View<'a>, what: &str, columns: Vec<Column>, mut lines: Vec<Line<'a>>) -> Chart {
    let all = lines.len();
    lines.truncate(MOST_ROWS);
    let in_column = |index: usize| -> Members {
        let groups = lines.iter().map(|line| line.groups[index]).enumerate();
        groups.filter_map(|(row, group)| Some((row, group?))).collect()
    };
    let columns = columns.into_iter().enumerate().map(|(index, column)| (column, in_column(index)));
    let (columns, groups): (Vec<Column>, Vec<Members>) = columns
        .filter(|(column, groups)| groups.iter().any(|(_, group)| !group.values(&column.figure).is_empty()))
        .unzip();
    let width =
        |line: &Line| (line.label.len() as f64 * 8.6).max(variant_text(line.variant).len() as f64 * 6.2);
    let left = 34.0 + lines.iter().map(width).fold(60.0, f64::max).min(230.0);
    let frame = Frame { left, right: VALUE_WIDTH, shared_y: true, ..Frame::of_columns(columns.len()) };
    let height = match lines.len() {
        _ if lines.iter().any(|line| !line.variant.is_empty()) => 36.0,
        13.. => 24.0,
        _ => 32.0,
    };
    let rows = Scale::rows(lines.iter().map(|line| Row::new(line.label, variant_text(line.variant))));
    let facet = |(column, groups): (&Column, &Members)| {
        let x = scale(column, groups.iter().map(|one| one.1), frame.plot_width());
        let of_row = |(row, group): &(usize, &GroupView)| {
            marks(view, column, group, *row as f64 + 0.5, frame.plot_width())
        };
        let marks = groups.iter().flat_map(of_row).collect();
        Facet::new(&*column.name, x, vec![Strip::new(height * lines.len() as f64, rows.clone(), marks)])
    };
    let with_bar = columns.iter().zip(&groups).filter(|(column, _)| column.has_bar);
    let bounds = with_bar.flat_map(|(column, groups)| {
        groups.iter().filter_map(|(_, group)| Some(bounds(column, group)?.kind))
    });
    let legend = [
        (Key::Point(Shape::Dot, MUTED), "one valid run".to_owned()),
        (Key::Bar(MUTED), "median (its value at the right)".to_owned()),
    ];
    Chart {
        legend: legend.into_iter().chain(bounds_keys(bounds, MUTED)).collect(),
        caption: vec![caption(view, &columns, all.saturating_sub(MOST_ROWS))],
        facets: columns.iter().zip(&groups).map(facet).collect(),
        frame,
        empty: if all == 0 { "There is no run to show." } else { "No valid run has figures." },
        ..Chart::from_view(view, what)
    }
}

/// Logarithmic if the delays differ so much that the short ones would be indistinguishable. Bars need a linear scale.
fn scale<'a>(column: &Column, groups: impl Iterator<Item = &'a GroupView<'a>>, width: f64) -> Scale {
    let values: Vec<f64> = groups.flat_map(|group| group.values(&column.figure)).collect();
    let highest = values.iter().copied().fold(0.0, f64::max);
    let lowest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    let is_of_rates = column.figure.unit == Unit::Rate;
    let is_delay = !column.has_bar && column.figure.name.starts_with("delay_");
    let mut scale = if is_delay && highest > lowest * 20.0 {
        Scale { title: "logarithmic".to_owned(), ..Scale::logarithmic_ms(values.into_iter()) }
    } else {
        let unit = match column.figure.unit {
            Unit::Rate => rate_unit(highest),
            Unit::Percent => ("%", 0.01),
            _ => time_unit(highest),
        };
        Scale::linear(highest, ((width / 50.0) as usize).clamp(1, 5), unit)
    };
    scale.title += if is_of_rates { " · more is better" } else { " · less is better" };
    scale
}

fn bounds(column: &Column, group: &GroupView) -> Option<Bounds> {
    Bounds::from_distribution(&distribution(&group.values(&column.figure))?)
}

fn marks(view: &View, column: &Column, group: &GroupView, y: f64, width: f64) -> Vec<Mark> {
    let values = group.values(&column.figure);
    let words = column.figure.unit.words();
    let Some(typical) = statistics::median(&values) else {
        let (text, colour) = absence(column, group);
        let at = (Coordinate::Low(6.0), Coordinate::Data(y, 3.8));
        let limit = width + VALUE_WIDTH;
        return vec![Mark::Label(Label { limit, ..Label::new(text, at, TextStyle::new(10.5, colour)) })];
    };
    let colour = colour(view, group);
    let mut marks = Vec::new();
    if column.has_bar {
        let (from, to, height, tooltip) = (0.0, typical, 14.0, String::new());
        let (series, colour) = (group.label.to_owned(), colour.pale());
        marks.push(Mark::Bar { series, from, to, y, height, colour, tooltip });
    }
    let of_run = |run: &RunRecord| (column.figure.of_run)(run).filter(|value| values.contains(value));
    let points = group.valid_runs().filter_map(|run| Some((run, of_run(run)?)));
    let points = points.map(|(run, x)| Point { x, y, tooltip: format!("{}: {}", run.id, words(x)) });
    marks.push(Mark::points(group.label, (Shape::Dot, colour, 4.5), points));
    if let Some(Bounds { kind, low, high }) = bounds(column, group).filter(|_| column.has_bar) {
        marks.push(Mark::Bounds { kind, low, high, y, shift: 7.0, colour: INK });
    }
    let stroke = Stroke::solid(colour, 2.5);
    let tooltip = String::new();
    marks.push(Mark::Tick { x: typical, y: Coordinate::Data(y, 0.0), half: 10.0, stroke, tooltip });
    let text = format!("{}{}", group.bound_mark(column.figure.name), words(typical));
    let at = (Coordinate::High(10.0), Coordinate::Data(y, 4.0));
    marks.push(Label::value(text, at));
    marks
}

/// If QUIC is among the labels, each transport has its colour. Otherwise a label that is bound to one path has the
/// path's colour, and the other labels are ink.
fn colour(view: &View, group: &GroupView) -> Colour {
    if view.groups.iter().any(GroupView::is_quic) {
        return group.transport().map_or(INK, transport_colour);
    }
    let label = group.label.parse::<TransportLabel>().ok();
    let path = label.filter(|label| !label.transport.is_multipath()).and_then(|label| label.path);
    let known = path.filter(|path| view.paths.names.contains(path));
    known.map_or(INK, |path| view.paths.colour(&path))
}

fn absence(column: &Column, group: &GroupView) -> (String, Colour) {
    let failed: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.completed).collect();
    let hung: Vec<f64> = failed.iter().filter_map(|run| run.hung_ms).collect();
    let text = match (group.valid(), failed.len()) {
        (0, _) => return ("no valid run".to_owned(), MUTED),
        (_, 0) => return ("–".to_owned(), MUTED),
        (valid, failed) if column.figure.name == group.pattern.main().name => {
            format!("did not complete in {failed} of {valid}")
        }
        _ => match spread(&hung, duration) {
            Some(hung) => format!("gave up after {hung}"),
            None => "did not complete".to_owned(),
        },
    };
    (text, ALARM)
}

fn caption(view: &View, columns: &[Column], more: usize) -> String {
    let mut sentences = vec!["Only runs in a valid environment are shown."];
    sentences.extend(columns.iter().map(|one| one.meaning.as_str()));
    let invalid = view.set.document.runs.iter().filter(|run| !run.valid).count();
    let left_out_runs = format!("{} left out as not valid.", counted(invalid, "run"));
    let (encrypted, more) = (encrypted(view), left_out(more, "row"));
    sentences.extend([&*encrypted, if invalid > 0 { &left_out_runs } else { "" }, &*more]);
    paragraph(&sentences)
}
