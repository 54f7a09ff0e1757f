//! Progress of `lab run`, `test`, `roam` and `mtu` on stderr: lines, and on a terminal a live view below the lines.

use crate::live::{LiveOutput, LiveRuns, path_name};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use pathbench_analysis::assembly::{ClientPath, Evidence, LinesSoFar};
use pathbench_lab::study::{BegunRun, StudyObserver};
use pathbench_program::{diagnostics, output};
use pathbench_record::document::RunRecord;
use pathbench_record::event::{Event, EventSource};
use pathbench_record::live::{LiveRunStart, RunStage};
use pathbench_record::text::{duration, duration_ms};
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::Progress as Transferred;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Interval between updates of the live view.
const LIVE_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between lines about one run without a live view.
const RUN_LINE_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between lines without a live view.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Rates over a shorter time fluctuate too much to be readable.
const RATE_INTERVAL: Duration = Duration::from_millis(300);
/// Resolution of the bar.
const STEPS: u64 = 1000;

pub(crate) struct ProgressDisplay {
    view: MultiProgress,
    bars: Vec<ProgressBar>,
    quiet: bool,
    live: bool,
    next: Timestamp,
    /// Receives the lines as well.
    pub(crate) records: LiveOutput,
}

impl ProgressDisplay {
    pub(crate) fn new(quiet: bool, records: LiveOutput) -> Self {
        let live = output::stderr_is_terminal()
            && !diagnostics::take_standard_error()
            && !quiet
            && !records.has_screen();
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let view = MultiProgress::with_draw_target(target);
        Self { view, bars: Vec::new(), quiet, live, next: Timestamp::default(), records }
    }

    /// Whether there is a live view.
    pub(crate) const fn is_live(&self) -> bool {
        self.live
    }

    /// Prints a line above the live view, unless the user disabled progress.
    pub(crate) fn line(&self, text: impl Display) {
        if self.records.takes_line(&text, false) {
            return;
        }
        if self.quiet {
            self.records.note(&text);
        } else {
            self.warn(text);
        }
    }

    /// Prints a line even if the user disabled progress.
    pub(crate) fn warn(&self, text: impl Display) {
        if self.records.takes_line(&text, true) {
            return;
        }
        self.records.note(&text);
        self.view.suspend(|| output::note(text));
    }

    /// Whether figures that change constantly are due to be shown.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        let due = !self.quiet && now >= self.next;
        if due {
            self.next = now + if self.live { LIVE_INTERVAL } else { LINE_INTERVAL };
        }
        due
    }

    /// Replaces the live view; `done` (0 to 1) becomes a bar in front of the first line.
    pub(crate) fn show(&mut self, done: Option<f64>, lines: &[String]) {
        if !self.live {
            return;
        }
        while self.bars.len() < lines.len() {
            let bar = self.view.add(ProgressBar::new(STEPS));
            let bar_before = if done.is_some() && self.bars.is_empty() { "{bar:10} " } else { "" };
            if let Ok(style) = ProgressStyle::with_template(&format!("{bar_before}{{wide_msg}}")) {
                bar.set_style(style);
            }
            self.bars.push(bar);
        }
        for (bar, line) in self.bars.iter().zip(lines) {
            bar.set_message(line.clone());
        }
        if let (Some(done), Some(bar)) = (done, self.bars.first()) {
            bar.set_position((done.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
    }

    /// Removes the live view or the screen.
    pub(crate) fn end(&mut self) {
        self.records.close_screen();
        for bar in self.bars.drain(..) {
            bar.finish_and_clear();
        }
    }
}

/// Progress of runs that follow a schedule, for `lab run` and `test`.
pub(crate) struct RunProgress<'a> {
    progress: &'a mut ProgressDisplay,
    live: LiveRuns,
    runs: usize,
    finished: usize,
    /// Several runs in parallel: runs are named by their ids, and only the number of finished runs is shown.
    parallel: bool,
    title: String,
    /// The title for a terminal of 80 columns.
    short: String,
    expected_ms: Option<f64>,
    /// Remaining time of all runs when the current run began.
    left: Option<Duration>,
    first: Option<Timestamp>,
    last: Option<Transferred>,
    /// Time of the last line about the run.
    last_line: Option<Timestamp>,
}

impl<'a> RunProgress<'a> {
    pub(crate) fn new(progress: &'a mut ProgressDisplay, runs: usize, parallel: bool) -> Self {
        Self {
            live: LiveRuns::new(progress.records.clone()),
            progress,
            runs,
            finished: 0,
            parallel,
            title: String::new(),
            short: String::new(),
            expected_ms: None,
            left: None,
            first: None,
            last: None,
            last_line: None,
        }
    }

    /// Starts a run; `left` is the time for this and all later runs.
    pub(crate) fn begin(&mut self, run: LiveRunStart, left: Option<Duration>) {
        let LiveRunStart { number, runs, label, pattern, .. } = &run;
        // A retry is a further run.
        self.runs = self.runs.max(*runs as usize);
        self.title = format!("run {number} of {}: {label} {pattern}", self.runs);
        self.short = format!("{number}/{} {label} {pattern}", self.runs);
        (self.expected_ms, self.left, self.first, self.last, self.last_line) =
            (run.expected_ms, left, None, None, None);
        self.live.begin(run);
        self.show(Duration::ZERO, "connecting");
    }

    /// The paths of the run, which is about to connect.
    pub(crate) fn connecting(&mut self, run: &str, paths: &[ClientPath]) {
        self.live.paths(run, paths);
        self.live.stage(run, RunStage::Connecting);
        self.status("connecting");
    }

    /// Shows the state of the current run; with parallel runs there are several.
    pub(crate) fn status(&mut self, text: &str) {
        if !self.parallel {
            self.show(Duration::ZERO, text);
        }
    }

    fn show(&mut self, elapsed: Duration, text: &str) {
        let left = self.left.map(|left| format!(", {} left", duration(left.saturating_sub(elapsed))));
        let line = format!("{}{}  {text}", self.short, left.unwrap_or_default());
        let of_run = match self.expected_ms.filter(|_| !self.parallel) {
            Some(expected_ms) => (elapsed.as_secs_f64() * 1e3 / expected_ms.max(1.0)).min(1.0),
            None => 0.0,
        };
        let done = (self.finished as f64 + of_run) / self.runs.max(1) as f64;
        self.progress.show(Some(done), &[line]);
    }

    pub(crate) fn transferred(&mut self, run: &str, now: Transferred, paths: &[ClientPath]) {
        if !self.parallel {
            self.show_rates(&now, paths);
        }
        self.live.progress(run, now);
    }

    /// The events of `evidence`, which covers a part of a run whose first byte was at `origin`.
    pub(crate) fn events(&self, evidence: &Evidence<'_>, origin: Timestamp) {
        if !evidence.notifications.is_empty() {
            self.live.events(LinesSoFar::from_evidence(evidence, origin).events);
        }
    }

    fn show_rates(&mut self, now: &Transferred, paths: &[ClientPath]) {
        let first = *self.first.get_or_insert(now.at);
        if let Some(last) = &self.last {
            let time = now.at.duration_since(last.at);
            if time < RATE_INTERVAL {
                return;
            }
            let rates = rates(last, now, paths, time.as_secs_f64());
            let elapsed = now.at.duration_since(first);
            self.show(elapsed, &rates);
            if !self.progress.is_live()
                && now.at.duration_since(self.last_line.unwrap_or(first)) >= RUN_LINE_INTERVAL
            {
                self.last_line = Some(now.at);
                let left =
                    self.left.map(|left| format!("; about {} left", duration(left.saturating_sub(elapsed))));
                self.progress.line(format_args!("{}: {rates}{}", self.title, left.unwrap_or_default()));
            }
        }
        self.last = Some(now.clone());
    }

    /// Ends a run; `left` is the time for all later runs.
    pub(crate) fn finished(&mut self, record: &RunRecord, left: Option<Duration>) {
        self.finished += 1;
        self.live.end(record);
        self.show(Duration::ZERO, "");
        if self.progress.is_live() && record.valid && record.completed {
            return;
        }
        let end = match (&record.error, record.valid) {
            (_, false) => format!("not valid: {}", record.invalid_because.join("; ")),
            (Some(error), true) => format!("did not complete: {error}"),
            (None, true) => "completed".to_owned(),
        };
        let left = left.filter(|left| !left.is_zero());
        let left = left.map(|left| format!("; about {} left", duration(left))).unwrap_or_default();
        let title = if self.parallel { &record.id } else { &self.title };
        self.progress.line(format_args!("{title}: {}{end}{left}", figure(record)));
    }

    pub(crate) fn end(&mut self) {
        self.progress.end();
    }
}

impl std::ops::Deref for RunProgress<'_> {
    type Target = ProgressDisplay;

    fn deref(&self) -> &ProgressDisplay {
        self.progress
    }
}

pub(crate) struct StudyDisplay<'a> {
    pub(crate) runs: RunProgress<'a>,
    /// The line before the first run, without the expected time.
    heading: Option<String>,
}

impl<'a> StudyDisplay<'a> {
    /// `runs` are the runs of this session, `earlier` those of earlier sessions.
    pub(crate) fn new(
        progress: &'a mut ProgressDisplay,
        title: &str,
        runs: usize,
        earlier: usize,
        jobs: NonZeroUsize,
    ) -> Self {
        let of_earlier =
            if earlier > 0 { format!(", {earlier} of them made earlier") } else { String::new() };
        let heading = format!("{title}: {} runs{of_earlier}", runs + earlier);
        let heading = if progress.is_live() || runs > 0 {
            Some(heading).filter(|_| !progress.is_live())
        } else {
            progress.line(heading);
            None
        };
        Self { runs: RunProgress::new(progress, runs, jobs > NonZeroUsize::MIN), heading }
    }
}

impl StudyObserver for StudyDisplay<'_> {
    fn on_run(&mut self, run: &BegunRun<'_>) {
        if let Some(heading) = self.heading.take() {
            self.runs.line(format_args!("{heading}, about {}", duration(run.left)));
        }
        let expected = run.pattern.parameters().nominal_duration();
        let start = LiveRunStart {
            run: run.id.to_owned(),
            number: run.number as u32,
            runs: run.runs as u32,
            label: run.scheduled.label.to_string(),
            pattern: run.pattern.name().to_owned(),
            variant: run.plan.variant.clone(),
            repetition: run.scheduled.repetition,
            expected_ms: expected.map(|expected| expected.as_secs_f64() * 1e3),
        };
        self.runs.begin(start, Some(run.left));
        self.runs.status("building the lab");
    }

    fn on_calibration(&mut self, run: &str) {
        self.runs.live.stage(run, RunStage::Calibrating);
        self.runs.status("measuring its links");
    }

    fn on_connecting(&mut self, run: &str, paths: &[ClientPath]) {
        self.runs.connecting(run, paths);
    }

    fn on_progress(&mut self, run: &str, progress: Transferred) {
        self.runs.transferred(run, progress, &[]);
    }

    fn on_events(&mut self, _run: &str, events: Vec<Event>) {
        for event in events.iter().filter(|event| event.source == EventSource::Scenario) {
            self.runs.status(&format!("{} {}", event.path.as_deref().unwrap_or_default(), event.kind));
        }
        self.runs.live.events(events);
    }

    fn on_record(&mut self, record: &RunRecord, left: Duration) {
        self.runs.finished(record, Some(left));
    }
}

/// The main figure of this pattern.
fn figure(record: &RunRecord) -> String {
    if let Some(ping) = &record.ping {
        let median = ping.median_ms.map_or_else(|| "no answer".to_owned(), duration_ms);
        return format!("{median}, {} of {} lost, ", ping.lost, ping.sent);
    }
    if let Some(delay) = &record.delay_ms {
        return format!(
            "delay {} (p95 {}), {} unacknowledged, ",
            duration_ms(delay.p50),
            duration_ms(delay.p95),
            delay.unacknowledged
        );
    }
    match (record.fct_ms, record.goodput_mbps) {
        (Some(ms), _) => format!("{}, ", duration_ms(ms)),
        (None, Some(mbps)) => format!("{mbps:.1} Mbit/s, "),
        (None, None) => String::new(),
    }
}

/// Total goodput since `last`, and the goodput of each path if the transport reports paths.
fn rates(last: &Transferred, now: &Transferred, paths: &[ClientPath], seconds: f64) -> String {
    let mbps = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
    let total = |progress: &Transferred| progress.sent_bytes + progress.received_bytes;
    let mut text = format!("{:.1} Mbit/s", mbps(total(now).saturating_sub(total(last))));
    let before = bytes_per_path(last);
    for (index, (local, bytes)) in bytes_per_path(now).into_iter().enumerate() {
        let name = path_name(paths, local);
        let rate = mbps(bytes.saturating_sub(before.get(&local).copied().unwrap_or_default()));
        let joint = if index == 0 { ": " } else { " + " };
        let _infallible = write!(text, "{joint}{name} {rate:.1}");
    }
    text
}

/// Sum of the bytes in both directions by local address.
pub(crate) fn bytes_per_path(progress: &Transferred) -> BTreeMap<IpAddr, u64> {
    let mut sums = BTreeMap::new();
    for path in &progress.paths {
        *sums.entry(path.local).or_insert(0) += path.acknowledged_bytes + path.received_bytes;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_traffic::client::PathProgress;

    fn transferred(at_ms: u64, sent_bytes: u64, of_paths: [u64; 2]) -> Transferred {
        let path = |(host, bytes): (u8, u64)| PathProgress {
            local: [192, 0, 2, host].into(),
            remote: [198, 51, 100, 7].into(),
            acknowledged_bytes: bytes,
            received_bytes: 0,
            retransmitted_bytes: 0,
            rtt: None,
            cwnd_bytes: 0,
        };
        Transferred {
            at: Timestamp::from_nanos(at_ms * 1_000_000),
            first_byte: Timestamp::default(),
            sent_bytes,
            received_bytes: 0,
            paths: [(1, of_paths[0]), (2, of_paths[1])].into_iter().map(path).collect(),
            delays: Vec::new(),
            waiting_since: None,
        }
    }

    #[test]
    fn rates_name_each_path() {
        let path = ClientPath {
            name: "eth0".to_owned(),
            interface: "eth0".to_owned(),
            addresses: vec![[192, 0, 2, 1].into()],
            backup: None,
            mtu_bytes: None,
        };
        let (before, now) = (transferred(0, 0, [0, 0]), transferred(1000, 1_500_000, [1_000_000, 500_000]));
        assert_eq!(rates(&before, &now, &[path], 1.0), "12.0 Mbit/s: eth0 8.0 + 192.0.2.2 4.0");
    }
}
