//! The end of a study before its last run: on precision, or on time. Pure.

use pathbench_record::document::{Distribution, RunRecord, StopReason};
use pathbench_record::summary::summarise;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const STOPPED_BY_USER: &str = "stopped by the user";

/// Whether the user stopped the run: a resumed study repeats it.
pub fn is_interrupted(run: &RunRecord) -> bool {
    run.invalid_because.iter().any(|reason| reason == STOPPED_BY_USER)
}

/// A note about the runs that a study did not make: `missing` of the `planned` ones, and `retries` of invalid ones.
pub fn ending_note(stopped: StopReason, missing: usize, planned: usize, retries: usize) -> Option<String> {
    let reason = match stopped {
        StopReason::Completed | StopReason::Server => return None,
        StopReason::User => STOPPED_BY_USER,
        StopReason::Precision => "every interval was as precise as requested",
        StopReason::TimeLimit => "the time limit ended the study",
    };
    let not_made = (missing > 0 || retries == 0).then(|| format!("{missing} of {planned} runs{NOT_MADE}"));
    let not_repeated = (retries > 0).then(|| format!("{retries} of the invalid runs{NOT_REPEATED}"));
    let parts: Vec<String> =
        [Some(reason.to_owned()), not_repeated, not_made].into_iter().flatten().collect();
    Some(parts.join("; "))
}

const NOT_MADE: &str = " were not made";
const NOT_REPEATED: &str = " were not repeated";

/// Whether a note is one of [`ending_note`].
pub fn is_ending_note(note: &str) -> bool {
    [NOT_MADE, NOT_REPEATED].iter().any(|end| note.ends_with(&format!(" runs{end}")))
}

/// The figure by which the precision of a group of this pattern is judged.
pub fn main_figure(pattern: &str) -> &'static str {
    match pattern {
        "ping" => "ping_ms",
        "bulk" => "fct_ms",
        "interactive" => "delay_p50_ms",
        "responsiveness" => "self_loaded_p50_ms",
        "datagrams" => "datagram_loss",
        _ => "goodput_mbps",
    }
}

/// Whether the 95 % interval of the median of the main figure lies within ± `percent` of the median, for every variant,
/// label and pattern of `runs`. An interval requires six valid runs.
pub fn is_precise<'a>(runs: impl Iterator<Item = &'a RunRecord>, percent: f64) -> bool {
    let narrow = |figure: &Distribution| {
        let margin = figure.median.abs() * percent / 100.0;
        figure.ci95.is_some_and(|[low, high]| figure.median - low <= margin && high - figure.median <= margin)
    };
    let groups = summarise(&runs.cloned().collect::<Vec<_>>());
    !groups.is_empty()
        && groups.iter().all(|group| group.figures.get(main_figure(&group.pattern)).is_some_and(narrow))
}

/// The conditions under which a study ends before its last run.
#[derive(Debug)]
pub struct StoppingRule {
    begun: Timestamp,
    time_limit: Option<Duration>,
    until_ci_percent: Option<f64>,
    /// The repetitions whose precision has been judged.
    judged: Option<u32>,
}

impl StoppingRule {
    /// `begun` is the start of the command.
    pub const fn new(begun: Timestamp, time_limit: Option<Duration>, until_ci_percent: Option<f64>) -> Self {
        Self { begun, time_limit, until_ci_percent, judged: None }
    }

    /// Whether a run that takes the time `expected` would end after the time limit.
    pub fn is_late(&self, now: Timestamp, expected: Duration) -> bool {
        self.time_limit.is_some_and(|limit| now.duration_since(self.begun) + expected > limit)
    }

    /// The precision at which the study ends, once for each number of complete repetitions.
    pub fn precision_after(&mut self, complete_repetitions: u32) -> Option<f64> {
        let percent = self.until_ci_percent?;
        (self.judged.replace(complete_repetitions) != Some(complete_repetitions)).then_some(percent)
    }
}

/// The expected time of runs, from earlier runs.
#[derive(Debug)]
pub struct Pace<K: Ord> {
    longest: BTreeMap<K, Duration>,
    longest_of_all: Option<Duration>,
    overhead: Option<Duration>,
    assumed_overhead: Duration,
}

impl<K: Ord> Pace<K> {
    /// `assumed_overhead` is the time of a run in addition to its traffic until one has been measured.
    pub const fn new(assumed_overhead: Duration) -> Self {
        Self { longest: BTreeMap::new(), longest_of_all: None, overhead: None, assumed_overhead }
    }

    /// Adds a run that took `took`; `nominal` is the time of its traffic, if known.
    pub fn add(&mut self, kind: K, took: Duration, nominal: Option<Duration>) {
        let longest = self.longest.entry(kind).or_default();
        *longest = took.max(*longest);
        self.longest_of_all = self.longest_of_all.max(Some(took));
        if let Some(nominal) = nominal {
            self.overhead = self.overhead.max(Some(took.saturating_sub(nominal)));
        }
    }

    /// The longest run of this kind; without one, the nominal time and the longest overhead of other runs.
    pub fn expected_time(&self, kind: &K, nominal: Option<Duration>) -> Duration {
        match (self.longest.get(kind), nominal) {
            (Some(longest), _) => *longest,
            (None, Some(nominal)) => nominal + self.overhead.unwrap_or(self.assumed_overhead),
            (None, None) => self.longest_of_all.unwrap_or(self.assumed_overhead),
        }
    }
}
