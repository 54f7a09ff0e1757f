//! Draws the model into a frame.

use super::chart::{self, LOOKS, finite};
use super::keys::HELP;
use super::model::{Model, RunDisplay, shown};
use pathbench_record::live::RunStage;
use pathbench_record::text::{duration_ms, three_digits};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// The smallest terminal with room for everything.
const LEAST: (u16, u16) = (60, 16);
const DELAY_COLUMN: usize = 10;

pub(super) fn draw(model: &Model, colour: bool, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("{} × {}: too small, needs {} × {}", area.width, area.height, LEAST.0, LEAST.1);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let [head, graph, paths, lists, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(3),
        Constraint::Length(5),
        Constraint::Fill(2),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(header(model, area.width)), head);
    if let Some((_, run)) = model.shown_run() {
        chart::draw(run, colour, frame, graph);
        frame.render_widget(Paragraph::new(path_lines(run, model, colour)), paths);
    }
    let [events, runs] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(34)]).areas(lists);
    let block = |title: &'static str| Block::bordered().title(title);
    let inner = usize::from(events.height.saturating_sub(2));
    frame.render_widget(Paragraph::new(event_lines(model, inner)).block(block(" events ")), events);
    frame.render_widget(Paragraph::new(run_lines(model, inner)).block(block(" runs ")), runs);
    let keys = "q quit  Space pause  ←/→ run  ? help";
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
    if model.shows_help {
        draw_help(frame, area);
    }
}

fn header(model: &Model, width: u16) -> Vec<Line<'static>> {
    let data = model.data();
    let planned = data.planned.max(data.runs.len());
    let done = data.finished_runs();
    let bar = usize::from(width).saturating_sub(60).clamp(10, 40);
    let full = (bar * done).checked_div(planned).unwrap_or_default().min(bar);
    let mode = match (model.is_stopping, model.is_paused()) {
        (true, _) => "  ENDING",
        (false, true) => "  PAUSED",
        (false, false) => "",
    };
    let study = format!(
        "{}  {}{}  {done} of {planned} runs done",
        data.name,
        "█".repeat(full),
        "░".repeat(bar - full)
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let first = Line::from(vec![Span::styled(study, bold), Span::styled(mode, bold)]);
    let second = model.shown_run().map(|(index, run)| {
        let followed = if index + 1 == data.runs.len() { "" } else { "  (an earlier run)" };
        let (label, pattern, state) = (&run.start.label, &run.start.pattern, state(run));
        format!("run {} of {planned}: {label} {pattern}, {state}{followed}", index + 1)
    });
    vec![first, Line::from(second.unwrap_or_else(|| "no run yet".to_owned()))]
}

/// The state of a run in words.
fn state(run: &RunDisplay) -> String {
    match (&run.end, run.intervals.back(), run.stage) {
        (Some(_), ..) => figures(run),
        (None, Some(interval), _) if chart::has_delays(run) => {
            let delay = latest_delay(run).map_or_else(|| "no answer yet".to_owned(), duration_ms);
            format!("{}, delay {delay}", seconds(interval.to_ms))
        }
        (None, Some(interval), _) => {
            format!("{}, {} Mbit/s", seconds(interval.to_ms), three_digits(finite(interval.rate_mbps)))
        }
        (None, None, Some(RunStage::Calibrating)) => "measuring the links".to_owned(),
        (None, None, Some(RunStage::Connecting)) => "connecting".to_owned(),
        (None, None, None) => "starting".to_owned(),
    }
}

/// The median delay of the last interval with answers.
fn latest_delay(run: &RunDisplay) -> Option<f64> {
    run.intervals.iter().rev().find_map(|interval| interval.delay_ms.as_ref()?.median)
}

/// The main figure of a finished run.
fn figures(run: &RunDisplay) -> String {
    let Some(end) = &run.end else { return String::new() };
    if !end.valid {
        return "not valid".to_owned();
    }
    if let Some(error) = &end.error {
        return format!("failed: {}", shown(error));
    }
    let delay = end.ping_ms.or(end.delay_p50_ms).or(end.fct_ms);
    match (delay, end.goodput_mbps) {
        (Some(ms), _) => duration_ms(ms),
        (None, Some(mbps)) => format!("{} Mbit/s", three_digits(mbps)),
        (None, None) => "done".to_owned(),
    }
}

fn seconds(ms: f64) -> String {
    format!("{:.1} s", ms / 1e3)
}

fn path_lines(run: &RunDisplay, model: &Model, colour: bool) -> Vec<Line<'static>> {
    let mut lines =
        vec![Line::from("path              Mbit/s        rtt       cwnd  retransmitted     probe")];
    let Some(interval) = run.intervals.back() else { return lines };
    let probes = &model.data().probes;
    let order = chart::rates(run);
    for path in &interval.paths {
        let rtt = path.rtt_ms.map_or_else(|| "–".to_owned(), duration_ms);
        let resent = run.intervals.iter().flat_map(|interval| &interval.paths);
        let resent = resent.filter(|one| one.name == path.name);
        let resent = resent.fold(0, |sum: u64, one| sum.saturating_add(one.retransmitted_bytes));
        let probe = probes.iter().find(|probe| probe.name == path.name);
        let probe = probe.map(|probe| probe.rtt_ms.map_or_else(|| "no answer".to_owned(), duration_ms));
        let index = order.iter().position(|(name, _)| *name == shown(&path.name)).unwrap_or_default();
        let (tint, _, sign) = LOOKS[index % LOOKS.len()];
        let sign = Span::styled(sign, if colour { Style::new().fg(tint) } else { Style::new() });
        let figures = format!(
            " {:<12.12} {:>9} {rtt:>10} {:>10} {:>14} {:>9}",
            shown(&path.name),
            three_digits(finite(path.rate_mbps)),
            bytes(path.cwnd_bytes),
            bytes(resent),
            probe.unwrap_or_default()
        );
        lines.push(Line::from(vec![sign, Span::raw(figures)]));
    }
    let most = if interval.delay_ms.is_some() { 3 } else { 4 };
    lines.truncate(1 + most);
    if let Some(delay) = &interval.delay_ms {
        let ms = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), duration_ms);
        let longest = run.intervals.iter().filter_map(|one| one.delay_ms.as_ref()?.max).reduce(f64::max);
        lines.push(Line::from(format!(
            "delay {:>DELAY_COLUMN$}, longest {:>DELAY_COLUMN$}, waiting {:>DELAY_COLUMN$}",
            ms(latest_delay(run)),
            ms(longest),
            ms(delay.waiting)
        )));
    }
    lines
}

fn bytes(value: u64) -> String {
    pathbench_record::text::scaled(value as f64, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
}

/// The latest events of the run, and the latest note.
fn event_lines(model: &Model, height: usize) -> Vec<Line<'static>> {
    let note = model.data().notes.back().map(|note| Line::from(note.clone()));
    let height = height.saturating_sub(usize::from(note.is_some()));
    let events = model.shown_run().map(|(_, run)| {
        let skipped = run.events.len().saturating_sub(height);
        let line = |event: &pathbench_record::event::Event| {
            let path = event.path.as_deref().map(shown).unwrap_or_default();
            let text = format!("{:>8} {} {path} {}", seconds(event.t_ms), event.kind, event.host);
            Line::from(shown(&text))
        };
        run.events.iter().skip(skipped).map(line).collect::<Vec<_>>()
    });
    events.unwrap_or_default().into_iter().chain(note).collect()
}

/// The runs around the one on display, with the figure of each finished one.
fn run_lines(model: &Model, height: usize) -> Vec<Line<'static>> {
    let Some((index, _)) = model.shown_run() else { return Vec::new() };
    let runs = &model.data().runs;
    let first = (index + 1).saturating_sub(height);
    let line = |(at, run): (usize, &RunDisplay)| {
        let mark = if at == index { '▶' } else { ' ' };
        let figure = if run.end.is_some() { figures(run) } else { "…".to_owned() };
        let text = format!("{mark}{:>3} {:<12.12} {figure}", at + 1, run.start.label);
        let style = if at == index { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        Line::styled(text, style)
    };
    runs.iter().enumerate().skip(first).take(height).map(line).collect()
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> =
        HELP.iter().map(|(keys, effect)| Line::from(format!("{keys:<10} {effect}"))).collect();
    let (width, height) = (72.min(area.width), HELP.len() as u16 + 2);
    let window = area.centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, window);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), window);
}

#[cfg(test)]
mod tests {
    use super::super::keys::Command;
    use super::*;
    use pathbench_record::live::LiveRecord;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};
    use std::fs;
    use std::path::Path;

    fn model(records: Vec<Value>) -> Model {
        let mut model = Model::default();
        for record in records {
            model.add(serde_json::from_value::<LiveRecord>(record).unwrap());
        }
        model
    }

    fn run(number: u32, label: &str) -> Value {
        json!({"type": "run-start", "run": format!("{number:02}-{label}-r1"), "number": number, "runs": 3,
            "label": label, "pattern": "throughput", "variant": {}, "repetition": 1})
    }

    fn interval(run: &str, index: u32, rates: [f64; 2]) -> Value {
        let path = |name: &str, mbps: f64| {
            json!({"name": name, "bytes": 25_000, "rate_mbps": mbps, "retransmitted_bytes": 1448,
                "rtt_ms": 20.5, "cwnd_bytes": 64_000})
        };
        json!({"type": "interval", "run": run, "from_ms": index * 200, "to_ms": (index + 1) * 200,
            "upload_bytes": 50_000, "download_bytes": 0, "rate_mbps": rates[0] + rates[1],
            "paths": [path("eth", rates[0]), path("wlan", rates[1])],
            "delay_ms": {"messages": 5, "median": 12.0, "max": 40.0}})
    }

    /// A finished run, and one whose second path goes down.
    fn study() -> Vec<Value> {
        let mut records = vec![
            json!({"type": "start", "name": "failover", "runs": 3, "seed": 1, "started": "", "interval_ms": 200.0}),
            run(1, "tcp"),
            json!({"type": "run-end", "run": "01-tcp-r1", "valid": true, "completed": true, "duration_ms": 5000.0,
                "delivered_bytes": 1, "goodput_mbps": 18.8, "multipath_used": false, "paths": []}),
            run(2, "mptcp"),
        ];
        for index in 0..20 {
            let wlan = if index < 12 { 18.0 } else { 0.0 };
            records.push(interval("02-mptcp-r1", index, [19.0, wlan]));
        }
        records.push(json!({"type": "event", "run": "02-mptcp-r1", "t_ms": 2400.2, "source": "scenario",
            "host": "client", "kind": "down", "path": "wlan"}));
        records.push(json!({"type": "note", "text": "run 1 of 3: tcp throughput: 18.8 Mbit/s, completed"}));
        records
    }

    fn drawn(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(model, true, frame)).unwrap();
        terminal.backend().to_string()
    }

    #[track_caller]
    fn assert_golden(name: &str, screen: &str) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
        if std::env::var_os("PATHBENCH_BLESS").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, screen).unwrap();
        }
        let golden = fs::read_to_string(&file).unwrap_or_default();
        assert!(golden == screen, "{} differs:\n{screen}", file.display());
    }

    #[test]
    fn a_study_on_a_small_and_a_large_terminal() {
        let model = model(study());
        assert_golden("screen-80x24", &drawn(&model, 80, 24));
        assert_golden("screen-120x40", &drawn(&model, 120, 40));
    }

    /// An interactive run carries almost no bytes: its curve and its figure are the delays.
    #[test]
    fn an_interactive_run_shows_its_delays() {
        let mut records = vec![run(1, "mptcp")];
        records[0]["pattern"] = "interactive".into();
        for index in 0..20 {
            let mut one = interval("01-mptcp-r1", index, [0.01, 0.0]);
            let delay = if index < 10 { 12.0 } else { 380.0 };
            one["delay_ms"] = json!({"messages": 2, "median": delay - 1.0, "max": delay});
            records.push(one);
        }
        // An interval without an answer shows for how long the oldest message waits.
        let mut last = interval("01-mptcp-r1", 20, [0.0, 0.0]);
        last["delay_ms"] = json!({"messages": 0, "waiting": 450.0});
        records.push(last);
        let screen = drawn(&model(records), 80, 24);
        for text in [
            "mptcp interactive, 4.2 s, delay 379 ms",
            "longest delay in each interval, ms",
            "│600",
            "delay     379 ms",
        ] {
            assert!(screen.contains(text), "{text}:\n{screen}");
        }
        assert!(!screen.contains("Mbit/s per path"), "{screen}");
    }

    #[test]
    fn events_stand_on_the_curve_at_their_time() {
        let with = drawn(&model(study()), 80, 24);
        let without: Vec<Value> = study().into_iter().filter(|one| one["type"] != "event").collect();
        let without = drawn(&model(without), 80, 24);
        let lines = |screen: &str| screen.lines().filter(|line| line.contains('┊')).count();
        assert!(lines(&with) > 3 && lines(&without) == 0, "{with}");
        assert!(with.contains("┊ event"), "{with}");
        // 2.4 s of 4 s.
        let row = with.lines().filter(|line| line.contains('┊')).nth(2).unwrap();
        let (at, columns) = (row.chars().position(|c| c == '┊').unwrap() as f64, row.chars().count() as f64);
        assert!((0.5..0.72).contains(&(at / columns)), "{with}");
    }

    #[test]
    fn axes_have_round_ticks() {
        let screen = drawn(&model(study()), 80, 24);
        assert!(screen.contains("│20│") || screen.contains("│20 │"), "{screen}");
        assert!(!screen.contains("20.9") && !screen.contains("10.5"), "{screen}");
        let times = screen.lines().find(|line| line.contains("0 s ")).unwrap();
        let ticks: Vec<&str> = times.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect();
        assert!(ticks.len() > 2 && ticks.is_sorted(), "{times}");
    }

    #[test]
    fn the_time_before_the_first_data_is_explained() {
        for (stage, text) in [
            ("calibrating", "are measured before the run"),
            ("connecting", "connecting; the traffic takes 5.00 s"),
        ] {
            let mut start = run(1, "tcp");
            start["expected_ms"] = 5000.0.into();
            let records = vec![start, json!({"type": "run-stage", "run": "01-tcp-r1", "stage": stage})];
            for (width, height) in [(60, 16), (120, 40)] {
                let screen = drawn(&model(records.clone()), width, height);
                let words =
                    screen.replace(['"', '│', '\n'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains(text), "{stage}:\n{screen}");
            }
        }
    }

    #[test]
    fn keys_change_the_display_only() {
        let mut model = model(study());
        model.apply(Command::Pause);
        let paused = drawn(&model, 80, 24);
        assert!(paused.contains("PAUSED"));
        model.add(serde_json::from_value(run(3, "quic")).unwrap());
        assert_eq!(drawn(&model, 80, 24), paused);
        model.apply(Command::Pause);
        assert!(drawn(&model, 80, 24).contains("run 3 of 3: quic"));
        model.apply(Command::Previous);
        assert!(drawn(&model, 80, 24).contains("run 2 of 3: mptcp"));
        model.apply(Command::Select(1));
        assert!(drawn(&model, 80, 24).contains("run 1 of 3: tcp throughput, 18.8 Mbit/s  (an earlier run)"));
        model.apply(Command::Next);
        model.apply(Command::Next);
        assert!(drawn(&model, 80, 24).contains("run 3 of 3: quic"));
        model.apply(Command::Help);
        assert!(drawn(&model, 80, 24).contains("end the command in good order"));
        model.apply(Command::Close);
        model.apply(Command::Quit);
        let ending = drawn(&model, 80, 24);
        assert!(ending.contains("ENDING") && !ending.contains("in good order"));
    }

    #[test]
    fn a_tiny_terminal_says_so() {
        for (width, height) in [(1, 1), (40, 24), (80, 10)] {
            let screen = drawn(&model(study()), width, height);
            assert!(width == 1 || screen.contains("too small, needs"), "{screen}");
        }
    }

    /// Control characters of a peer do not reach the terminal, and no number breaks the drawing.
    #[test]
    fn hostile_records_are_drawn() {
        let nasty = "\u{1b}[2J\u{7}evil\u{202e}\n";
        let mut records = study();
        records.push(json!({"type": "note", "text": nasty}));
        let mut event = records[records.len() - 3].clone();
        (event["path"], event["kind"], event["t_ms"]) = (nasty.into(), nasty.into(), 1e300.into());
        records.push(event);
        let mut last = interval("02-mptcp-r1", 30, [1e300, -1e300]);
        last["to_ms"] = 1e300.into();
        last["rate_mbps"] = 1e300.into();
        last["paths"][0]["name"] = nasty.repeat(1000).into();
        last["paths"][0]["retransmitted_bytes"] = u64::MAX.into();
        last["paths"][1]["cwnd_bytes"] = u64::MAX.into();
        last["paths"][1]["rtt_ms"] = 1e300.into();
        records.extend([last.clone(), last]);
        let screen = drawn(&model(records), 80, 24);
        assert!(screen.contains("evil"));
        assert!(
            screen.chars().all(|one| one == '\n' || !pathbench_record::text::is_deceptive(one)),
            "{screen:?}"
        );
    }
}
