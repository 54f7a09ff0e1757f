//! When each experiment is due. Times are passed in; an execution that was missed is not made up.

use crate::limits::{MOST_EXPERIMENTS, OwnerLimits};
use pathbench_api::experiment::Experiment;
use pathbench_record::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    experiment: Experiment,
    due: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct ExperimentSchedule {
    entries: Vec<Entry>,
}

/// An offered experiment that the agent does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExperimentRefusal {
    pub(crate) experiment: String,
    pub(crate) reason: String,
}

impl ExperimentSchedule {
    /// Takes over the experiments of a check-in; known ones with the same schedule keep their time. `random` is between
    /// 0 and 1.
    pub(crate) fn replace(
        &mut self,
        offered: Vec<Experiment>,
        limits: &OwnerLimits,
        now: Timestamp,
        mut random: impl FnMut() -> f64,
    ) -> Vec<ExperimentRefusal> {
        let mut refusals = Vec::new();
        let mut names = BTreeSet::new();
        let mut entries = Vec::new();
        for experiment in offered {
            let reason = if entries.len() >= MOST_EXPERIMENTS {
                Some(format!("an agent runs at most {MOST_EXPERIMENTS} experiments"))
            } else if names.insert(experiment.name.clone()) {
                refusal(&experiment, limits)
            } else {
                Some("another experiment has this name".to_owned())
            };
            if let Some(reason) = reason {
                refusals.push(ExperimentRefusal { experiment: experiment.name.to_string(), reason });
                continue;
            }
            let known = self.entries.iter().find(|one| {
                one.experiment.name == experiment.name && one.experiment.schedule == experiment.schedule
            });
            // All agents get an experiment at the same time: the first execution of each is anywhere in the interval.
            let due =
                known.map_or_else(|| now + interval(&experiment, limits).mul_f64(random()), |one| one.due);
            entries.push(Entry { experiment, due });
        }
        self.entries = entries;
        refusals.truncate(2 * MOST_EXPERIMENTS);
        refusals
    }

    /// The experiment that is due for the longest time; its next execution is an interval and a jitter later.
    pub(crate) fn take_due(
        &mut self,
        limits: &OwnerLimits,
        now: Timestamp,
        mut random: impl FnMut() -> f64,
    ) -> Option<Experiment> {
        let entry = self.entries.iter_mut().filter(|entry| entry.due <= now).min_by_key(|entry| entry.due)?;
        let jitter = Duration::from_secs(entry.experiment.schedule.jitter_s.into()).mul_f64(random());
        entry.due = now + interval(&entry.experiment, limits) + jitter;
        Some(entry.experiment.clone())
    }

    #[cfg(test)]
    fn next_due(&self) -> Option<Timestamp> {
        self.entries.iter().map(|entry| entry.due).min()
    }

    pub(crate) fn experiments(&self) -> impl Iterator<Item = &Experiment> {
        self.entries.iter().map(|entry| &entry.experiment)
    }
}

fn interval(experiment: &Experiment, limits: &OwnerLimits) -> Duration {
    Duration::from_secs(experiment.schedule.every_s.into()).max(limits.shortest_interval.0)
}

/// Why the agent does not run the experiment.
fn refusal(experiment: &Experiment, limits: &OwnerLimits) -> Option<String> {
    if let Some(problem) = experiment.problem() {
        return Some(problem);
    }
    if experiment.most_bytes > limits.execution.0 {
        return Some(format!(
            "it transfers up to {} bytes, and `limits.execution` is {}",
            experiment.most_bytes, limits.execution
        ));
    }
    let duration = Duration::from_secs(experiment.duration_s.into());
    (duration > limits.longest.0)
        .then(|| format!("it lasts {} s, and `limits.longest` is {}", experiment.duration_s, limits.longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::units::Span;
    use serde_json::json;

    fn experiment(name: &str, every_s: u32) -> Experiment {
        serde_json::from_value(json!({
            "name": name, "kind": "test", "schedule": { "every_s": every_s, "jitter_s": 10 }, "most_bytes": 1_000_000,
        }))
        .unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn executions_follow_each_other_at_the_interval_and_missed_ones_are_not_made_up() {
        let limits = OwnerLimits::default();
        let mut schedule = ExperimentSchedule::default();
        assert!(schedule.replace(vec![experiment("a", 1000)], &limits, at(0), || 0.5).is_empty());
        assert!(schedule.take_due(&limits, at(499), || 1.0).is_none());
        assert!(schedule.take_due(&limits, at(500), || 1.0).is_some());
        assert!(schedule.take_due(&limits, at(1509), || 1.0).is_none());
        // The host slept for five intervals.
        assert!(schedule.take_due(&limits, at(6000), || 0.0).is_some());
        assert!(schedule.take_due(&limits, at(6000), || 0.0).is_none());
        assert_eq!(schedule.next_due(), Some(at(7000)));
        // A repeated check-in changes nothing.
        schedule.replace(vec![experiment("a", 1000)], &limits, at(6500), || 0.0);
        assert_eq!(schedule.next_due(), Some(at(7000)));
        schedule.replace(Vec::new(), &limits, at(6500), || 0.0);
        assert_eq!(schedule.next_due(), None);
    }

    #[test]
    fn a_collector_cannot_shorten_the_owners_interval() {
        let limits =
            OwnerLimits { shortest_interval: Span(Duration::from_secs(600)), ..OwnerLimits::default() };
        let mut schedule = ExperimentSchedule::default();
        schedule.replace(vec![experiment("a", 10)], &limits, at(0), || 0.0);
        let executions =
            (0..3600).filter(|now| schedule.take_due(&limits, at(*now), || 0.0).is_some()).count();
        assert_eq!(executions, 6);
    }

    #[test]
    fn too_many_and_too_large_experiments_are_refused() {
        let limits = OwnerLimits::default();
        let mut schedule = ExperimentSchedule::default();
        let many = (0..5000).map(|number| experiment(&format!("e{number}"), 1000)).collect();
        let refusals = schedule.replace(many, &limits, at(0), || 0.0);
        assert_eq!(
            (schedule.experiments().count(), refusals.len()),
            (MOST_EXPERIMENTS, 2 * MOST_EXPERIMENTS)
        );
        let mut large = experiment("large", 1000);
        large.most_bytes = u64::MAX;
        let mut long = experiment("long", 1000);
        long.duration_s = 7200;
        let twice = experiment("twice", 1000);
        let offered = vec![large, long, twice.clone(), twice, experiment("often", 1)];
        let refusals = schedule.replace(offered, &limits, at(0), || 0.0);
        let names: Vec<&str> = refusals.iter().map(|one| one.experiment.as_str()).collect();
        assert_eq!(names, ["large", "long", "twice", "often"]);
        assert_eq!(schedule.experiments().count(), 1);
    }
}
