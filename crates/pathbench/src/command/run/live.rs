//! Lines on stderr while the program runs.

use super::summary;
use pathbench_program::output;
use pathbench_record::time::Timestamp;
use pathbench_supervisor::{ConnectionReport, FallbackEvidence, ObservedConnection};
use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);
/// Lines of each interval.
const MOST_LINES: usize = 20;

/// `--watch`, and the note about processes that outlive the program.
#[derive(Debug)]
pub(super) struct ConnectionLines {
    is_on: bool,
    shown: Timestamp,
    /// Number of an open connection → its bytes when it was shown.
    bytes: BTreeMap<u64, u64>,
    lines: usize,
    ended: Option<Timestamp>,
    has_warned: bool,
}

impl ConnectionLines {
    pub(super) const fn new(is_on: bool) -> Self {
        Self {
            is_on,
            shown: Timestamp::from_nanos(0),
            bytes: BTreeMap::new(),
            lines: 0,
            ended: None,
            has_warned: false,
        }
    }

    /// Notes once that the program has ended and others of its processes have not.
    pub(super) fn warn_about_remaining(&mut self, now: Timestamp, status: Option<ExitStatus>) {
        if status.is_none() || self.has_warned {
            return;
        }
        let ended = *self.ended.get_or_insert(now);
        if now.duration_since(ended) >= INTERVAL {
            self.has_warned = true;
            output::note(
                "pathbench: the program has ended, and processes that it started have not; pathbench waits for them, because \
                 their calls of socket(2) fail without it (Ctrl-C ends them)",
            );
        }
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.is_on && now.duration_since(self.shown) >= INTERVAL
    }

    /// Shows the open connections that have transferred bytes since the last time.
    pub(super) fn show(
        &mut self,
        live: &[&ObservedConnection],
        evidence: &FallbackEvidence,
        start: Timestamp,
        now: Timestamp,
    ) {
        if !self.is_due(now) {
            return;
        }
        (self.shown, self.lines) = (now, 0);
        let mut bytes = BTreeMap::new();
        for connection in live {
            let report = ConnectionReport::new(connection, evidence, start);
            let total = report.bytes_sent.saturating_add(report.bytes_received);
            if self.bytes.get(&report.number) != Some(&total) {
                self.line(&report, "");
            }
            bytes.insert(report.number, total);
        }
        self.bytes = bytes;
    }

    pub(super) fn show_ended(&mut self, report: &ConnectionReport) {
        if self.is_on {
            self.line(report, "closed ");
        }
    }

    fn line(&mut self, report: &ConnectionReport, state: &str) {
        self.lines += 1;
        if self.lines <= MOST_LINES {
            let text = summary::connection(report);
            let line = text.lines().next().unwrap_or_default();
            output::note(format_args!("pathbench: {:.1} s {state}{line}", report.last_seen_s));
        }
    }
}
