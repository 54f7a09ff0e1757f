//! The shards of a study joined to one result.

use super::conclude;
use crate::scenario::{self, Overrides, ScenarioSource};
use pathbench_analysis::comparison;
use pathbench_record::document::{
    JoinedShard, ResultDocument, RunRecord, Shard, StopReason, StudyRecord, identity_differences,
};
use std::collections::BTreeSet;
use std::path::PathBuf;
use thiserror::Error;

/// The document of a shard, and its directory.
#[derive(Debug, Clone)]
pub struct ShardResult {
    pub directory: PathBuf,
    pub document: ResultDocument,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShardJoinError {
    #[error(
        "{} is no shard of a study, but {} is; name the shards only, or compare results with --compare",
        other.display(), shard.display()
    )]
    NoShard { other: PathBuf, shard: PathBuf },
    #[error(
        "{} and {} are shards of different studies: {}; name the shards of one study, or use --compare",
        first.display(), other.display(), differences.join("; ")
    )]
    OtherStudy { first: PathBuf, other: PathBuf, differences: Vec<String> },
    #[error("{} and {} are both shard {shard}; name each shard once", first.display(), other.display())]
    Twice { first: PathBuf, other: PathBuf, shard: Shard },
    #[error("{}: run {run} is none of shard {shard}; the result is damaged", directory.display())]
    Foreign { directory: PathBuf, run: String, shard: Shard },
    #[error(
        "{} of {of} shards {} missing: {}; name them, too, or join the others with --partial",
        missing.len(), if missing.len() == 1 { "is" } else { "are" }, list(missing)
    )]
    Missing { missing: Vec<u32>, of: u32 },
    #[error(
        "{} is unfinished ({made} runs were made); continue it with --resume, or join its finished runs with --partial",
        directory.display()
    )]
    Unfinished { directory: PathBuf, made: usize },
}

const MOST_NAMED: usize = 20;

fn list(numbers: &[u32]) -> String {
    let named: Vec<String> = numbers.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let rest = numbers.len().saturating_sub(MOST_NAMED);
    if rest == 0 { named.join(", ") } else { format!("{} and {rest} more", named.join(", ")) }
}

/// Joins shards of one study: their runs in the order of the whole study, and the summary of all. With `is_partial`,
/// shards can be missing or unfinished.
///
/// Runs that are compared stay together, because a shard has whole repetitions: pairs are runs of one machine.
///
/// # Errors
/// [`ShardJoinError`] if the results do not belong together.
pub fn join(mut shards: Vec<ShardResult>, is_partial: bool) -> Result<ResultDocument, ShardJoinError> {
    let of = check(&shards, is_partial)?;
    shards.sort_by_key(|one| shard_of(one).map_or(0, |shard| shard.number));
    let joined: Vec<JoinedShard> = shards.iter().map(record).collect();
    let is_whole = joined.len() == of as usize;
    let mut documents = shards.into_iter().map(|one| one.document);
    let Some(mut document) = documents.next() else { return Ok(ResultDocument::default()) };
    let expectations = std::mem::take(&mut document.summary.expectations);
    for other in documents {
        document.runs.extend(other.runs);
        for note in other.summary.notes {
            if !document.summary.notes.contains(&note) {
                document.summary.notes.push(note);
            }
        }
    }
    // A stable sort: warm-up runs by shard and number, then the blocks of all shards, in each the retries last.
    document.runs.sort_by_key(|run| {
        if run.warm_up { (0, 0, 0) } else { (run.repetition, run.attempt_number(), number(run)) }
    });
    let endings = joined.iter().map(|one| one.stopped);
    let stopped = endings.reduce(|worst, one| if worst == Some(StopReason::Completed) { one } else { worst });
    if let Some(study) = &mut document.study {
        *study = StudyRecord {
            shard: None,
            stopped: stopped.flatten().filter(|_| is_whole),
            sessions: joined.iter().flat_map(|one| one.sessions.iter().cloned()).collect(),
            joined,
            ..study.clone()
        };
    }
    summarise_all(&mut document, !expectations.is_empty());
    Ok(document)
}

/// Checks that the shards belong together, and returns the number of shards of the study.
fn check(shards: &[ShardResult], is_partial: bool) -> Result<u32, ShardJoinError> {
    let Some((first, Shard { of, .. })) = shards.iter().find_map(|one| Some((one, shard_of(one)?))) else {
        return Ok(0);
    };
    let mut present: Vec<(u32, &ShardResult)> = Vec::new();
    for one in shards {
        let directory = || one.directory.clone();
        let Some(shard) = shard_of(one) else {
            return Err(ShardJoinError::NoShard { other: directory(), shard: first.directory.clone() });
        };
        let mut differences = identity_differences(&first.document, &one.document);
        if shard.of != of {
            differences.push(format!("the number of shards: {of}, not {}", shard.of));
        }
        if !differences.is_empty() {
            return Err(ShardJoinError::OtherStudy {
                first: first.directory.clone(),
                other: directory(),
                differences,
            });
        }
        if let Some((_, twin)) = present.iter().find(|(number, _)| *number == shard.number) {
            return Err(ShardJoinError::Twice { first: twin.directory.clone(), other: directory(), shard });
        }
        present.push((shard.number, one));
        let mut ids = BTreeSet::new();
        for run in &one.document.runs {
            let is_own = if run.warm_up { has_suffix(run, shard) } else { shard.has(run.repetition) };
            if !is_own || !ids.insert(run.id.as_str()) {
                return Err(ShardJoinError::Foreign { directory: directory(), run: run.id.clone(), shard });
            }
        }
        let stopped = one.document.study.as_ref().and_then(|study| study.stopped);
        if !is_partial && matches!(stopped, None | Some(StopReason::User | StopReason::Server)) {
            return Err(ShardJoinError::Unfinished { directory: directory(), made: one.document.runs.len() });
        }
    }
    let missing: Vec<u32> =
        (1..=of).filter(|number| !present.iter().any(|(known, _)| known == number)).collect();
    if missing.is_empty() || is_partial { Ok(of) } else { Err(ShardJoinError::Missing { missing, of }) }
}

fn shard_of(one: &ShardResult) -> Option<Shard> {
    one.document.study.as_ref()?.shard
}

/// Warm-up runs, which every shard makes, have its number at the end of their id.
fn has_suffix(run: &RunRecord, shard: Shard) -> bool {
    run.id.rsplit_once("-s").is_some_and(|(_, number)| number.parse() == Ok(shard.number))
}

/// The number of the run in the order of the whole study: 2 of `02-mptcp-r1`.
fn number(run: &RunRecord) -> u64 {
    let digits = run.id.split('-').next().unwrap_or_default();
    digits.parse().unwrap_or(u64::MAX)
}

fn record(one: &ShardResult) -> JoinedShard {
    let study = one.document.study.clone().unwrap_or_default();
    JoinedShard {
        number: study.shard.map_or(0, |shard| shard.number),
        host: one.document.host.clone(),
        runs: u32::try_from(one.document.runs.len()).unwrap_or(u32::MAX),
        stopped: study.stopped,
        sessions: study.sessions,
    }
}

/// The summary from the runs. Expectations need the scenario's plan; a trace file of the scenario may be missing here.
fn summarise_all(document: &mut ResultDocument, has_expectations: bool) {
    let scenario = &document.scenario;
    let source = ScenarioSource {
        origin: scenario.origin.clone(),
        file: scenario.origin.clone(),
        text: scenario.text.clone(),
    };
    let set = scenario.overrides.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
    match scenario::plan(&source, &Overrides { set, ..Overrides::default() }) {
        Ok(plan) if has_expectations => {
            let notes = std::mem::take(&mut document.summary.notes);
            conclude(&plan, document);
            document.summary.notes = notes;
        }
        planned => {
            comparison::summarise_runs(document);
            if planned.is_err() && has_expectations {
                let note = "the expectations of the scenario were not evaluated for the joined result: the scenario's \
                            files are not here";
                document.summary.notes.push(note.to_owned());
            }
        }
    }
}
