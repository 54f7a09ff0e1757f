//! The chart of the screen: rates of the paths or delays of the messages over time, and the events on it.

use super::model::{RunDisplay, shown};
use pathbench_record::live::{LiveInterval, RunStage};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Wrap};

/// The colour of a path, the marker of its curve and the marker's sign in the table. Without colours, the markers tell the
/// paths apart.
pub(super) const LOOKS: [(Color, Marker, &str); 4] = [
    (Color::Blue, Marker::Braille, "⠤"),
    (Color::Yellow, Marker::Dot, "•"),
    (Color::Magenta, Marker::Block, "█"),
    (Color::Cyan, Marker::Bar, "▄"),
];
/// Rows and columns from one tick to the next, at least.
const ROWS_PER_TICK: u16 = 3;
const COLUMNS_PER_TICK: u16 = 16;

type Points = Vec<(f64, f64)>;

pub(super) fn draw(run: &RunDisplay, colour: bool, frame: &mut Frame<'_>, area: Rect) {
    let block = |title: &'static str| Block::bordered().title(title);
    if run.intervals.is_empty() {
        let text = Paragraph::new(before_data(run)).wrap(Wrap { trim: true });
        frame.render_widget(text.centered().block(block(" no data yet ")), area);
        return;
    }
    let (title, curves) = if has_delays(run) {
        (" longest delay in each interval, ms ", vec![("delay".to_owned(), delays(run))])
    } else {
        (" Mbit/s per path ", rates(run))
    };
    let seconds = |ms: f64| finite(ms / 1e3);
    let from_s = run.intervals.front().map_or(0.0, |first| seconds(first.from_ms));
    let until_s = run.intervals.back().map_or(1.0, |last| seconds(last.to_ms)).max(from_s + 1.0);
    let most =
        curves.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value)).fold(0.0, f64::max);
    let time = Scale::new(from_s, until_s, area.width / COLUMNS_PER_TICK, 1.0);
    let value = Scale::new(0.0, most.max(1e-3) * 1.02, area.height / ROWS_PER_TICK, 0.0);
    let events: Vec<Points> = run
        .events
        .iter()
        .map(|event| seconds(event.t_ms))
        .filter(|at| (time.from..=time.until).contains(at))
        .map(|at| vec![(at, value.from), (at, value.until)])
        .collect();
    let event_style = Style::new().add_modifier(Modifier::DIM);
    let mut sets: Vec<Dataset<'_>> = events
        .iter()
        .map(|line| {
            Dataset::default()
                .marker(Marker::Custom('┊'))
                .style(event_style)
                .data(line)
                .graph_type(GraphType::Line)
        })
        .collect();
    sets.extend(curves.iter().zip(LOOKS.iter().cycle()).map(|((_, points), (tint, marker, _))| {
        let style = if colour { Style::new().fg(*tint) } else { Style::new() };
        Dataset::default().marker(*marker).style(style).data(points).graph_type(GraphType::Line)
    }));
    let axis =
        |scale: &Scale, unit| Axis::default().bounds([scale.from, scale.until]).labels(scale.labels(unit));
    let mut block = block(title);
    if !events.is_empty() {
        block = block.title_top(ratatui::text::Line::from(" ┊ event ").right_aligned());
    }
    let chart = Chart::new(sets).block(block).x_axis(axis(&time, " s")).y_axis(axis(&value, ""));
    frame.render_widget(chart, area);
}

/// The step before the first interval of a run.
fn before_data(run: &RunDisplay) -> String {
    let expected = run
        .start
        .expected_ms
        .map(|ms| format!("; the traffic takes {}", pathbench_record::text::duration_ms(ms)));
    let stage = match (&run.end, run.stage) {
        (Some(_), _) => "the run has no data",
        (None, Some(RunStage::Calibrating)) => {
            "calibration: the rate, delay and loss of each link are measured before the run"
        }
        (None, Some(RunStage::Connecting)) => "connecting",
        (None, None) => "the run is being prepared",
    };
    format!("{stage}{}", expected.filter(|_| run.end.is_none()).unwrap_or_default())
}

/// Whether the figure of the run is the delay of messages, which carry few bytes.
pub(super) fn has_delays(run: &RunDisplay) -> bool {
    let is_timed = ["interactive", "ping"].iter().any(|name| run.start.pattern.starts_with(name));
    is_timed && run.intervals.iter().any(|interval| interval.delay_ms.is_some())
}

fn middle_s(interval: &LiveInterval) -> f64 {
    finite((interval.from_ms + interval.to_ms) / 2e3)
}

/// The longest delay of each interval; without an answer, for how long a message has been waiting for one.
fn delays(run: &RunDisplay) -> Points {
    let point = |interval: &LiveInterval| {
        let delay = interval.delay_ms.as_ref()?;
        let longest = [delay.max, delay.waiting].into_iter().flatten().reduce(f64::max)?;
        Some((middle_s(interval), finite(longest)))
    };
    run.intervals.iter().filter_map(point).collect()
}

/// The points of each path, in the order in which the paths appear.
pub(super) fn rates(run: &RunDisplay) -> Vec<(String, Points)> {
    let mut curves: Vec<(&str, Points)> = Vec::new();
    for interval in &run.intervals {
        for path in &interval.paths {
            let point = (middle_s(interval), finite(path.rate_mbps));
            match curves.iter_mut().find(|(name, _)| *name == path.name) {
                Some((_, points)) => points.push(point),
                None => curves.push((&path.name, vec![point])),
            }
        }
    }
    curves.into_iter().map(|(name, points)| (shown(name), points)).collect()
}

pub(super) fn finite(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, 1e9) } else { 0.0 }
}

/// An axis from tick to tick: each step is 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    from: f64,
    until: f64,
    step: f64,
}

impl Scale {
    /// A scale that includes `from` and `until`, with about `ticks` steps of at least `least`.
    fn new(from: f64, until: f64, ticks: u16, least: f64) -> Self {
        let rough = ((until - from) / f64::from(ticks.clamp(1, 8))).max(least).max(f64::MIN_POSITIVE);
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(rough);
        let (from, until) = ((from / step).floor() * step, (until / step - 1e-9).ceil() * step);
        Self { from, until: until.max(from + step), step }
    }

    fn labels(&self, unit: &str) -> Vec<String> {
        let digits = (-self.step.log10().floor()).clamp(0.0, 6.0) as usize;
        let steps = ((self.until - self.from) / self.step).round().clamp(1.0, 20.0) as u32;
        (0..=steps)
            .map(|index| format!("{:.digits$}{unit}", self.from + f64::from(index) * self.step))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_that_include_the_values() {
        for (from, until, ticks, least, expected) in [
            (0.0, 20.9, 4, 0.0, &["0", "10", "20", "30"][..]),
            (0.0, 47.3, 3, 0.0, &["0", "20", "40", "60"]),
            (0.0, 0.8, 4, 0.0, &["0.0", "0.2", "0.4", "0.6", "0.8"]),
            (0.0, 0.011, 2, 0.0, &["0.00", "0.01", "0.02"]),
            (0.0, 1.0, 5, 1.0, &["0", "1"]),
            (0.0, 3.98, 5, 1.0, &["0", "1", "2", "3", "4"]),
            (7.2, 307.0, 5, 1.0, &["0", "100", "200", "300", "400"]),
            (0.0, 1e9, 3, 0.0, &["0", "500000000", "1000000000"]),
        ] {
            let scale = Scale::new(from, until, ticks, least);
            assert_eq!(scale.labels(""), expected, "{from} to {until}");
            assert!(scale.from <= from && scale.until >= until * (1.0 - 1e-9), "{scale:?}");
        }
        assert_eq!(Scale::new(0.0, 0.0, 0, 0.0).labels(" s").len(), 2);
    }
}
