//! What goes on while a study runs: a bar with live goodput on a terminal, a line a run elsewhere. On stderr.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pathbench_lab::order::ScheduledRun;
use pathbench_lab::scenario::{PatternPlan, Plan};
use pathbench_lab::study::StudyObserver;
use pathbench_record::document::{RunLink, RunRecord};
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::Progress;
use std::num::NonZeroUsize;
use std::time::Duration;

/// The bar's resolution within a run.
const STEPS_PER_RUN: u64 = 1000;

/// The live display.
pub(crate) struct Display {
    bar: ProgressBar,
    /// Whether finished runs are told by lines instead of the bar.
    lines: bool,
    /// Whether there is a bar; then only runs that do not count are told by lines.
    shown: bool,
    title: String,
    /// Whether only one run is made at a time.
    one_by_one: bool,
    number: usize,
    finished: u64,
    expected: Option<Duration>,
    first: Option<Timestamp>,
    last: Option<(Timestamp, u64)>,
}

impl Display {
    /// A display for a study of `plan`.
    pub(crate) fn new(plan: &Plan, quiet: bool, jobs: NonZeroUsize) -> Self {
        let terminal = output::stderr_is_terminal();
        let runs = plan.run_count();
        let target =
            if terminal && !quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(runs * STEPS_PER_RUN), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {wide_msg}") {
            bar.set_style(style);
        }
        let lines = !terminal && !quiet;
        if lines {
            output::note(format_args!("{}: {runs} runs", plan.name));
        }
        Self {
            bar,
            lines,
            shown: terminal && !quiet,
            title: String::new(),
            one_by_one: jobs == NonZeroUsize::MIN,
            number: 0,
            finished: 0,
            expected: None,
            first: None,
            last: None,
        }
    }

    /// Takes the display away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, what: &str) {
        self.bar.set_message(format!("{}  {what}", self.title));
    }
}

impl StudyObserver for Display {
    fn on_run(&mut self, number: usize, total: usize, run: &ScheduledRun, pattern: &PatternPlan) {
        self.title = format!("run {number} of {total}: {} {}", run.label, pattern.name());
        if !self.one_by_one {
            return self.say("begun");
        }
        self.number = number;
        self.expected = pattern.parameters().nominal_duration();
        (self.first, self.last) = (None, None);
        self.bar.set_position((number as u64 - 1) * STEPS_PER_RUN);
        self.say("building the lab");
    }

    fn on_calibration(&mut self) {
        self.say("measuring its links");
    }

    fn on_links(&mut self, _links: &[RunLink]) {
        self.say("connecting");
    }

    fn on_progress(&mut self, progress: &Progress) {
        let first = *self.first.get_or_insert(progress.at);
        let bytes = progress.sent_bytes + progress.received_bytes;
        if let Some((at, before)) = self.last {
            let seconds = progress.at.since(at).as_secs_f64();
            if seconds > 0.0 {
                let mbps = bytes.saturating_sub(before) as f64 * 8.0 / seconds / 1e6;
                self.say(&format!("{:4.1} s  {mbps:7.0} Mbit/s", progress.at.since(first).as_secs_f64()));
            }
        }
        self.last = Some((progress.at, bytes));
        if let Some(expected) = self.expected {
            let part = progress.at.since(first).as_secs_f64() / expected.as_secs_f64().max(1e-3);
            let step = (part.min(1.0) * STEPS_PER_RUN as f64) as u64;
            self.bar.set_position((self.number as u64 - 1) * STEPS_PER_RUN + step);
        }
    }

    fn on_event(&mut self, kind: &str, link: &str) {
        self.say(&format!("{link} {kind}"));
    }

    fn on_record(&mut self, record: &RunRecord) {
        self.finished += 1;
        self.bar.set_position(self.finished * STEPS_PER_RUN);
        if self.lines || (self.shown && !record.valid) {
            let goodput =
                record.goodput_mbps.map_or_else(|| "-".to_owned(), |mbps| format!("{mbps:.1} Mbit/s"));
            let end = match (&record.error, record.valid) {
                (_, false) => format!("not valid: {}", record.invalid_because.join("; ")),
                (Some(error), true) => format!("did not complete: {error}"),
                (None, true) => "completed".to_owned(),
            };
            let title = if self.one_by_one { &self.title } else { &record.id };
            self.bar.suspend(|| output::note(format_args!("{title}: {goodput}, {end}")));
        }
    }
}
