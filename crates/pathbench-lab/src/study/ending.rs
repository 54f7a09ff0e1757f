//! When a study ends before its last run: on precision, or on time. Pure.

use pathbench_record::document::{Distribution, RunRecord};
use pathbench_record::summary::summarise;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time of a run in addition to its traffic until one has been measured: the lab, its calibration, the records.
const OVERHEAD: Duration = Duration::from_secs(5);

/// The figure by which the precision of a group of this pattern is judged.
pub fn main_figure(pattern: &str) -> &'static str {
    match pattern {
        "ping" => "ping_ms",
        "bulk" => "fct_ms",
        "interactive" => "delay_p50_ms",
        _ => "goodput_mbps",
    }
}

/// Whether the 95 % interval of the median of the main figure lies within ± `percent` of the median, for every variant,
/// label and pattern of `runs`. An interval requires six valid runs.
pub fn is_precise(runs: &[RunRecord], percent: f64) -> bool {
    let narrow = |figure: &Distribution| {
        let margin = figure.median.abs() * percent / 100.0;
        figure.ci95.is_some_and(|[low, high]| figure.median - low <= margin && high - figure.median <= margin)
    };
    let groups = summarise(runs);
    !groups.is_empty()
        && groups.iter().all(|group| group.figures.get(main_figure(&group.pattern)).is_some_and(narrow))
}

/// The expected time of runs, from earlier runs.
#[derive(Debug, Default)]
pub struct Pace<K: Ord> {
    longest: BTreeMap<K, Duration>,
    longest_of_all: Option<Duration>,
    overhead: Option<Duration>,
}

impl<K: Ord> Pace<K> {
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
    pub fn expected(&self, kind: &K, nominal: Option<Duration>) -> Duration {
        match (self.longest.get(kind), nominal) {
            (Some(longest), _) => *longest,
            (None, Some(nominal)) => nominal + self.overhead.unwrap_or(OVERHEAD),
            (None, None) => self.longest_of_all.unwrap_or(OVERHEAD),
        }
    }
}
