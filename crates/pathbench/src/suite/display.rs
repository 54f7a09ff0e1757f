//! What goes on, on stderr: a bar with the live goodput of each path on a terminal, a line a run elsewhere.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pathbench_analysis::assembly::ClientPath;
use pathbench_record::document::RunRecord;
use pathbench_record::time::Timestamp;
use pathbench_traffic::client::Progress;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

/// The live display.
pub(super) struct Display {
    bar: ProgressBar,
    quiet: bool,
    terminal: bool,
    title: String,
    /// The title in short, for the bar.
    short: String,
    left: Duration,
    first: Option<Timestamp>,
    last: Option<Progress>,
}

impl Display {
    /// Nothing is shown yet.
    pub(super) fn new(quiet: bool) -> Self {
        let terminal = output::stderr_is_terminal();
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        Self {
            bar,
            quiet,
            terminal,
            title: String::new(),
            short: String::new(),
            left: Duration::ZERO,
            first: None,
            last: None,
        }
    }

    /// A line that is told at once, above the bar.
    pub(super) fn line(&self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// A line that even a quiet user is to see.
    pub(super) fn warn(&self, text: &str) {
        self.bar.suspend(|| output::note(text));
    }

    /// The runs begin.
    pub(super) fn begin(&mut self, runs: usize) {
        let shown = self.terminal && !self.quiet;
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        self.bar = ProgressBar::with_draw_target(Some(runs as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:10} {wide_msg}") {
            self.bar.set_style(style);
        }
    }

    /// Run `number` (from 1) of `total` begins; about `left` is left of the suite.
    pub(super) fn run(&mut self, number: usize, total: usize, what: &dyn std::fmt::Display, left: Duration) {
        self.title = format!("run {number} of {total}: {what}");
        self.short = format!("{number}/{total} {what}");
        self.left = left;
        (self.first, self.last) = (None, None);
        self.bar.set_position(number as u64 - 1);
        self.say(Duration::ZERO, "connecting");
    }

    /// What is going on, so long after the first byte. The whole fits into the 80 columns of a small terminal.
    fn say(&self, elapsed: Duration, what: &str) {
        let left = in_words(self.left.saturating_sub(elapsed));
        self.bar.set_message(format!("{}, {left} left  {what}", self.short));
    }

    /// The run goes on.
    pub(super) fn progress(&mut self, progress: Progress, ways: &[ClientPath]) {
        let first = *self.first.get_or_insert(progress.at);
        if let Some(last) = &self.last {
            let seconds = progress.at.since(last.at).as_secs_f64();
            // Short stretches make the figures dance.
            if seconds < 0.3 {
                return;
            }
            let rates = rates(last, &progress, ways, seconds);
            self.say(progress.at.since(first), &rates);
        }
        self.last = Some(progress);
    }

    /// The run is over; about `left` is left of the suite.
    pub(super) fn finished(&mut self, record: &RunRecord, left: Duration) {
        self.bar.inc(1);
        if !self.terminal || !record.valid || !record.completed {
            let end = match (&record.error, record.valid) {
                (_, false) => format!("does not count: {}", record.invalid_because.join("; ")),
                (Some(error), true) => format!("did not complete: {error}"),
                (None, true) => "completed".to_owned(),
            };
            let left =
                if left.is_zero() { String::new() } else { format!("; about {} left", in_words(left)) };
            self.line(&format!("{}: {}{end}{left}", self.title, figure(record)));
        }
    }

    /// Takes the display away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// What the run was for, in one figure.
fn figure(record: &RunRecord) -> String {
    if let Some(ping) = &record.ping {
        let median = ping.median_ms.map_or_else(|| "no answer".to_owned(), |ms| format!("{ms:.2} ms"));
        return format!("{median}, {} of {} lost, ", ping.lost, ping.sent);
    }
    if let Some(delay) = &record.delay_ms {
        return format!("delay {:.1} ms (p95 {:.1} ms), {} late, ", delay.p50, delay.p95, delay.late);
    }
    match (record.completion_ms, record.goodput_mbps) {
        (Some(ms), _) => format!("{:.2} s, ", ms / 1e3),
        (None, Some(mbps)) => format!("{mbps:.1} Mbit/s, "),
        (None, None) => String::new(),
    }
}

/// Goodput of each path since the last look; of the whole where no path tells.
fn rates(last: &Progress, now: &Progress, ways: &[ClientPath], seconds: f64) -> String {
    let mbps = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
    let total = |progress: &Progress| progress.sent_bytes + progress.received_bytes;
    let of_path = |progress: &Progress| -> BTreeMap<IpAddr, u64> {
        let mut sums = BTreeMap::new();
        for path in &progress.paths {
            *sums.entry(path.local).or_insert(0) += path.acknowledged_bytes + path.received_bytes;
        }
        sums
    };
    let before = of_path(last);
    let mut text = format!("{:.1} Mbit/s", mbps(total(now).saturating_sub(total(last))));
    for (index, (local, bytes)) in of_path(now).into_iter().enumerate() {
        let way = ways.iter().find(|way| way.addresses.contains(&local));
        let name = way.map_or_else(|| local.to_string(), |way| way.name.clone());
        let rate = mbps(bytes.saturating_sub(before.get(&local).copied().unwrap_or_default()));
        let joint = if index == 0 { ": " } else { " + " };
        let _infallible = write!(text, "{joint}{name} {rate:.1}");
    }
    text
}

/// `4 min 20 s`.
pub(super) fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_traffic::client::PathProgress;

    fn progress(at_ms: u64, sent_bytes: u64, of_paths: [u64; 2]) -> Progress {
        let path = |(host, bytes): (u8, u64)| PathProgress {
            local: [192, 0, 2, host].into(),
            remote: [198, 51, 100, 7].into(),
            acknowledged_bytes: bytes,
            received_bytes: 0,
        };
        Progress {
            at: Timestamp::from_nanos(at_ms * 1_000_000),
            sent_bytes,
            received_bytes: 0,
            paths: [(1, of_paths[0]), (2, of_paths[1])].into_iter().map(path).collect(),
        }
    }

    #[test]
    fn paths_are_told_by_name_where_they_have_one() {
        let way = ClientPath {
            name: "eth0".to_owned(),
            interface: "eth0".to_owned(),
            addresses: vec![[192, 0, 2, 1].into()],
            backup: None,
            mtu_bytes: None,
        };
        let (before, now) = (progress(0, 0, [0, 0]), progress(1000, 1_500_000, [1_000_000, 500_000]));
        assert_eq!(rates(&before, &now, &[way], 1.0), "12.0 Mbit/s: eth0 8.0 + 192.0.2.2 4.0");
    }

    #[test]
    fn times_are_told_as_people_do() {
        for (seconds, words) in [(7, "7 s"), (80, "1 min 20 s"), (7_260, "2 h 1 min")] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
