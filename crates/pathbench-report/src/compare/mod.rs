//! Results of different commands compared with the first of them: what changed, and whether conditions hold.

mod condition;
mod effective;
mod section;

pub use condition::FailureCondition;
pub(crate) use section::{headline, sections};

use crate::list::distinct;
use crate::pattern::Pattern;
use crate::quantity::{bytes, counted};
use crate::result_set::ResultSet;
use condition::{ConditionError, Judgement};
use pathbench_analysis::comparison::across;
use pathbench_record::document::{Comparison, Group, ResultDocument, Variant};
use pathbench_record::summary::figure_names;
use serde::Serialize;

/// Names the form of `pathbench report --compare --json`.
const SCHEMA: &str = "pathbench.comparison/1";

/// A baseline and the results compared with it (docs/compare.md).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedResults {
    pub schema: &'static str,
    pub baseline: ResultOverview,
    pub candidates: Vec<Candidate>,
    /// Empty without conditions.
    pub conditions: Vec<Judgement>,
}

/// A result that is compared with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    pub result: ResultOverview,
    /// In what the two results differ besides their figures.
    pub differences: Vec<Difference>,
    pub comparisons: Vec<Comparison>,
    /// Groups of runs that only one of the results has.
    pub not_compared: Vec<Uncompared>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResultOverview {
    pub scenario: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    pub started: String,
    pub kernel: String,
    pub pathbench: String,
    /// All runs but those of the warm-up.
    pub runs: usize,
    pub invalid: usize,
    pub warm_up: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub name: String,
    pub baseline: String,
    pub candidate: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Uncompared {
    pub pattern: String,
    pub label: String,
    pub variant: Variant,
    /// Whether the baseline has the group, and the candidate lacks it.
    pub is_in_baseline: bool,
}

impl ComparedResults {
    /// Compares each of `sets` with the first.
    pub fn from_sets(sets: &[&ResultSet]) -> Option<Self> {
        let (baseline, candidates) = sets.split_first()?;
        Some(Self {
            schema: SCHEMA,
            baseline: ResultOverview::from_set(baseline),
            candidates: candidates.iter().map(|one| Candidate::new(baseline, one)).collect(),
            conditions: Vec::new(),
        })
    }

    /// Judges `conditions` for each candidate.
    ///
    /// # Errors
    /// A condition that the runs cannot decide.
    pub fn judged(
        mut self,
        sets: &[&ResultSet],
        conditions: &[FailureCondition],
    ) -> Result<Self, ConditionError> {
        for condition in conditions {
            for (index, candidate) in sets.iter().enumerate().skip(1) {
                self.conditions.extend(condition.judge(sets[0], candidate, index + 1)?);
            }
        }
        Ok(self)
    }

    /// Whether a condition holds, which fails the candidate.
    pub fn is_failed(&self) -> bool {
        self.conditions.iter().any(|one| one.holds)
    }
}

impl Candidate {
    fn new(baseline: &ResultSet, candidate: &ResultSet) -> Self {
        let (one, other) = (&baseline.document, &candidate.document);
        Self {
            result: ResultOverview::from_set(candidate),
            differences: differences(one, other),
            comparisons: across(&one.runs, &other.runs, &figures),
            not_compared: not_compared(baseline, candidate),
        }
    }
}

impl ResultOverview {
    /// The last part of the directory's name, by which the command line names the result.
    pub(crate) fn name(&self) -> Option<&str> {
        self.directory.as_deref()?.rsplit('/').find(|part| !part.is_empty())
    }

    fn from_set(set: &ResultSet) -> Self {
        let document = &set.document;
        let warm_up = document.runs.iter().filter(|run| run.warm_up).count();
        let invalid = document.runs.iter().filter(|run| !run.valid && !run.warm_up).count();
        Self {
            scenario: document.scenario.name.clone(),
            directory: set.directory.as_ref().map(|path| path.display().to_string()),
            started: document.host.started.clone(),
            kernel: document.host.kernel.clone(),
            pathbench: document.host.pathbench.clone(),
            runs: document.runs.len() - warm_up,
            invalid,
            warm_up,
        }
    }
}

/// The figures of a pattern that are compared.
fn figures(pattern: &str) -> Vec<&'static str> {
    let shown = Pattern::named(pattern).figures().iter().map(|figure| figure.name);
    shown.filter(|name| figure_names().any(|known| known == *name)).collect()
}

fn differences(one: &ResultDocument, other: &ResultDocument) -> Vec<Difference> {
    let (a, b) = (&one.host, &other.host);
    let keys = distinct(one.scenario.overrides.keys().chain(other.scenario.overrides.keys()));
    let overrides = keys
        .into_iter()
        .map(|key| (key.clone(), [one, other].map(|document| effective::value(document, key))));
    let text = |document: &ResultDocument| counted(document.scenario.text.lines().count(), "line");
    let texts = (one.scenario.text != other.scenario.text)
        .then(|| ("text of the scenario".to_owned(), [text(one), text(other)]));
    let fields = [
        ("scenario", [one.scenario.name.clone(), other.scenario.name.clone()]),
        ("kernel", [a.kernel.clone(), b.kernel.clone()]),
        ("machine", [a.machine.clone(), b.machine.clone()]),
        ("CPUs", [a.cpus, b.cpus].map(|count| count.to_string())),
        ("memory", [a.memory_bytes, b.memory_bytes].map(bytes)),
        ("version of Pathbench", [a.pathbench.clone(), b.pathbench.clone()]),
        ("privilege", [a.privilege.clone(), b.privilege.clone()]),
        ("default congestion control", [a.default_congestion.clone(), b.default_congestion.clone()]),
        ("processors kept awake", [a.processors_awake, b.processors_awake].map(|is| is.to_string())),
    ];
    let fields =
        fields.into_iter().filter(|(_, [a, b])| a != b).map(|(name, values)| (name.to_owned(), values));
    let all = fields.chain(texts).chain(overrides.filter(|(_, [a, b])| a != b));
    all.map(|(name, [baseline, candidate])| Difference { name, baseline, candidate }).collect()
}

fn not_compared(one: &ResultSet, other: &ResultSet) -> Vec<Uncompared> {
    let same = |a: &Group, b: &Group| a.pattern == b.pattern && a.label == b.label && a.variant == b.variant;
    let missing = |from: &ResultSet, group: &Group| !from.valid_groups().any(|known| same(known, group));
    let uncompared = |group: &Group, is_in_baseline: bool| Uncompared {
        pattern: group.pattern.clone(),
        label: group.label.clone(),
        variant: group.variant.clone(),
        is_in_baseline,
    };
    let gone = one.valid_groups().filter(|group| missing(other, group)).map(|group| uncompared(group, true));
    let added =
        other.valid_groups().filter(|group| missing(one, group)).map(|group| uncompared(group, false));
    gone.chain(added).collect()
}
