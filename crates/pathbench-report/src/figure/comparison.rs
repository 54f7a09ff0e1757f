//! Every repetition of every label as a dot: the figures of one pattern side by side, or as an overview the main figure
//! of every pattern.

use super::left_out;
use super::measure::Measure;
use crate::chart::{
    Anchor, Chart, Facet, Frame, Key, Label, Mark, Place, Point, Row, Scale, Shape, Strip, Stroke,
    bounds_keys,
};
use crate::narrative;
use crate::palette::{ALARM, Colour, INK, MUTED, transport_colour};
use crate::pattern::Pattern;
use crate::quantity::{Bounds, counted, distribution, duration, median, spread};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{RunRecord, Variant};
use pathbench_record::transport::TransportLabel;

/// The table of the report has the rows beyond.
const MOST_ROWS: usize = 120;
/// Columns of an overview: more do not fit.
const MOST_PATTERNS: usize = 5;
const VALUE_WIDTH: f64 = 84.0;

pub(crate) fn comparison_of(view: &View, pattern: Pattern) -> Chart {
    let of_pattern = if view.patterns().len() > 1 { format!(" of {}", pattern.name) } else { String::new() };
    let measures = Measure::all_of(pattern);
    let rows = view.of_pattern(pattern).map(|group| Line {
        label: group.label,
        variant: group.variant,
        groups: vec![Some(group); measures.len()],
    });
    chart(view, &format!("every repetition{of_pattern}"), measures.clone(), rows.collect())
}

pub(crate) fn overview_of(view: &View) -> Chart {
    let patterns: Vec<Pattern> = view.patterns().into_iter().take(MOST_PATTERNS).collect();
    let rows = view.labels().into_iter().map(|(variant, label)| {
        let same = |one: &&GroupView| one.label == label && one.variant == variant;
        let groups = patterns.iter().map(|pattern| view.of_pattern(*pattern).find(same)).collect();
        Line { label, variant, groups }
    });
    let rows = rows.collect();
    chart(view, "all patterns", patterns.iter().map(|pattern| Measure::overview(*pattern)).collect(), rows)
}

/// A label in a variant, and the group that each column takes its values from.
struct Line<'a> {
    label: &'a str,
    variant: &'a Variant,
    groups: Vec<Option<&'a GroupView<'a>>>,
}

fn chart<'a>(view: &'a View<'a>, what: &str, measures: Vec<Measure>, mut lines: Vec<Line<'a>>) -> Chart {
    let all = lines.len();
    lines.truncate(MOST_ROWS);
    let of_column = |index: usize| {
        let groups = lines.iter().map(move |line| line.groups.get(index).copied().flatten());
        groups.enumerate().filter_map(|(row, group)| Some((row, group?)))
    };
    let used: Vec<(usize, Measure)> = measures
        .into_iter()
        .enumerate()
        .filter(|(index, measure)| of_column(*index).any(|(_, group)| !measure.values(group).is_empty()))
        .collect();
    let width =
        |line: &Line| (line.label.len() as f64 * 8.6).max(variant_text(line.variant).len() as f64 * 6.2);
    let left = 34.0 + lines.iter().map(width).fold(60.0, f64::max).min(230.0);
    let frame = Frame { left, right: VALUE_WIDTH, shared_y: true, ..Frame::of_columns(used.len()) };
    let with_variants = lines.iter().any(|line| !line.variant.is_empty());
    let height = match lines.len() {
        _ if with_variants => 36.0,
        13.. => 24.0,
        _ => 32.0,
    };
    let rows = lines.iter().map(|line| Row {
        label: line.label.to_owned(),
        detail: variant_text(line.variant),
        is_heading: false,
    });
    let rows = Scale::rows(rows.collect());
    let facets: Vec<Facet> = used
        .iter()
        .map(|(index, measure)| {
            let groups: Vec<(usize, &GroupView)> = of_column(*index).collect();
            let x = scale(measure, groups.iter().map(|one| one.1), frame.plot_width());
            let mark = |(row, group): &(usize, &GroupView)| {
                marks(view, measure, group, *row as f64 + 0.5, frame.plot_width())
            };
            let marks = groups.iter().flat_map(mark).collect();
            let strips = vec![Strip::new(height * lines.len() as f64, rows.clone(), marks)];
            Facet::new(measure.name.clone(), x, strips)
        })
        .collect();
    let with_bar = used.iter().filter(|(_, measure)| measure.bar);
    let bounds = with_bar.flat_map(|(index, measure)| {
        of_column(*index).filter_map(|(_, group)| Some(bounds(measure, group)?.kind))
    });
    let legend = [
        (Key::Point(Shape::Dot, MUTED), "one valid run".to_owned()),
        (Key::Bar(MUTED), "median (its value at the right)".to_owned()),
    ];
    let scenario = &view.set.document.scenario;
    Chart {
        title: format!("{}: {what}", scenario.name),
        subtitle: scenario.description.clone(),
        legend: legend.into_iter().chain(bounds_keys(bounds, MUTED)).collect(),
        caption: caption(view, &used, all.saturating_sub(MOST_ROWS)),
        facets,
        frame,
        empty: if all == 0 { "There is no run to show." } else { "No valid run has figures." },
        ..Chart::default()
    }
}

/// Logarithmic where times differ by so much that the short ones would be indistinguishable.
fn scale<'a>(measure: &Measure, groups: impl Iterator<Item = &'a GroupView<'a>>, width: f64) -> Scale {
    let values: Vec<f64> = groups.flat_map(|group| measure.values(group)).collect();
    let highest = values.iter().copied().fold(0.0, f64::max);
    let lowest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    let is_logarithmic = measure.may_be_logarithmic && highest > lowest * 20.0;
    let mut scale = if is_logarithmic {
        Scale { title: "logarithmic".to_owned(), ..Scale::logarithmic_ms(values.into_iter()) }
    } else {
        Scale::linear(highest, ((width / 50.0) as usize).clamp(1, 5), (measure.unit)(highest))
    };
    scale.title = format!("{} · {}", scale.title, measure.better);
    scale
}

fn bounds(measure: &Measure, group: &GroupView) -> Option<Bounds> {
    Bounds::of(&distribution(&measure.values(group))?)
}

/// What a row shows in one column: dots, the median, and for some measures a bar with bounds.
fn marks(view: &View, measure: &Measure, group: &GroupView, y: f64, width: f64) -> Vec<Mark> {
    let values = measure.values(group);
    let words = measure.figure.unit.words();
    let series = group.label.to_owned();
    let Some(typical) = median(&values) else {
        let (text, colour) = absence(measure, group);
        let at = (Place::Low(6.0), Place::Data(y, 3.8));
        let limit = width + VALUE_WIDTH;
        return vec![Mark::Label(Label { limit, ..Label::new(text, at, Anchor::Start, colour) })];
    };
    let colour = colour(view, group);
    let mut marks = Vec::new();
    if measure.bar {
        let pale = colour.paler(0.72);
        let tooltip = String::new();
        marks.push(Mark::Bar {
            series: series.clone(),
            from: 0.0,
            to: typical,
            y,
            height: 14.0,
            colour: pale,
            tooltip,
        });
    }
    let of_run = |run: &RunRecord| (measure.figure.of_run)(run).filter(|value| values.contains(value));
    let points = group.valid_runs().filter_map(|run| Some((run, of_run(run)?)));
    let points = points.map(|(run, x)| Point { x, y, tooltip: format!("{}: {}", run.id, words(x)) });
    marks.push(Mark::Points { series, shape: Shape::Dot, colour, radius: 4.5, points: points.collect() });
    if let Some(Bounds { kind, low, high }) = bounds(measure, group).filter(|_| measure.bar) {
        marks.push(Mark::Bounds { kind, low, high, y, shift: 7.0, colour: INK });
    }
    let stroke = Stroke::solid(colour, 2.5);
    let tooltip = String::new();
    marks.push(Mark::Tick { x: typical, y: Place::Data(y, 0.0), half: 10.0, stroke, tooltip });
    let text = format!("{}{}", group.bound_mark(measure.figure.name), words(typical));
    let at = (Place::High(10.0), Place::Data(y, 4.0));
    marks.push(Mark::Label(Label { size: 11.0, bold: true, ..Label::new(text, at, Anchor::Start, INK) }));
    marks
}

/// Where QUIC is among them, transports have their colours. Else a label that is bound to one path has that path's
/// colour, and the others are ink.
fn colour(view: &View, group: &GroupView) -> Colour {
    if view.groups.iter().any(GroupView::is_quic) {
        return group.transport().map_or(INK, transport_colour);
    }
    let label = group.label.parse::<TransportLabel>().ok();
    let path = label.filter(|label| !label.transport.is_multipath()).and_then(|label| label.path);
    let known = path.filter(|path| view.paths.names().contains(path));
    known.map_or(INK, |path| view.paths.colour(&path))
}

fn absence(measure: &Measure, group: &GroupView) -> (String, Colour) {
    let failed: Vec<&RunRecord> = group.valid_runs().filter(|run| !run.completed).collect();
    let hung: Vec<f64> = failed.iter().filter_map(|run| run.hung_ms).collect();
    let text = match (group.valid(), failed.len()) {
        (0, _) => return ("no valid run".to_owned(), MUTED),
        (_, 0) => return ("–".to_owned(), MUTED),
        (valid, failed) if measure.figure.name == group.pattern.main().name => {
            format!("did not complete in {failed} of {valid}")
        }
        _ => match spread(&hung, duration) {
            Some(hung) => format!("gave up after {hung}"),
            None => "did not complete".to_owned(),
        },
    };
    (text, ALARM)
}

fn caption(view: &View, used: &[(usize, Measure)], more: usize) -> Vec<String> {
    let mut sentences = vec!["Only runs in a valid environment are shown.".to_owned()];
    let meant = used.iter().map(|(_, measure)| measure.meaning);
    sentences.extend(meant.filter(|meaning| !meaning.is_empty()).map(str::to_owned));
    if !used.is_empty() && used.iter().all(|(_, measure)| measure.is_overview) {
        let patterns = view.patterns().into_iter().take(MOST_PATTERNS);
        sentences.extend(patterns.map(|pattern| format!("{}: {}.", pattern.name, pattern.meaning())));
    }
    sentences.extend(narrative::encryption(view).map(|note| format!("{note}.")));
    let invalid = view.set.document.runs.iter().filter(|run| !run.valid).count();
    if invalid > 0 {
        sentences.push(format!("{} left out as not valid.", counted(invalid as u32, "run")));
    }
    sentences.extend(left_out(more, "row"));
    vec![sentences.join(" ")]
}
