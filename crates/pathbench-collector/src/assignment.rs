//! The experiments that an agent gets, and the agents that an experiment leaves out.

use crate::store::record::{KnownAgent, records};
use crate::store::{Database, Document, DocumentKind, StoreError};
use pathbench_api::experiment::{Experiment, Pattern};
use pathbench_api::name::Name;
use schemars::JsonSchema;
use serde::Serialize;

/// Agents in a list of those left out.
const MOST_LEFT_OUT: usize = 200;

/// An agent that does not get an experiment although it is meant for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOutAgent {
    pub experiment: Name,
    pub agent: Name,
    /// Version of Pathbench at its last check-in.
    pub version: Name,
    /// Why, with the remedy.
    pub reason: String,
}

/// Whether an experiment is meant for an agent: for all, or for those with this name, which a token proves.
fn is_meant_for(experiment: &Experiment, known: &KnownAgent) -> bool {
    experiment.agents.is_empty() || known.token.is_some() && experiment.agents.contains(&known.check_in.name)
}

/// The experiments of an agent that it can read.
pub(crate) fn experiments_for(
    database: &dyn Database,
    known: &KnownAgent,
) -> Result<Vec<Experiment>, StoreError> {
    let all: Vec<(Document, Experiment)> = records(database, DocumentKind::Experiment)?;
    let patterns = known.check_in.patterns.as_deref();
    let own = all.into_iter().map(|(_, experiment)| experiment).filter(|experiment| {
        is_meant_for(experiment, known) && experiment.unknown_patterns(patterns).is_empty()
    });
    // An agent does not get the names of other agents.
    Ok(own.map(|experiment| Experiment { agents: std::iter::empty().collect(), ..experiment }).collect())
}

/// The agents that do not get one of these experiments, by experiment; at most [`MOST_LEFT_OUT`].
pub(crate) fn left_out<'a>(
    database: &dyn Database,
    experiments: impl IntoIterator<Item = &'a Experiment>,
) -> Result<Vec<LeftOutAgent>, StoreError> {
    let is_later = |pattern: &Pattern| !pattern.is_known_to_all();
    let experiments: Vec<&Experiment> =
        experiments.into_iter().filter(|experiment| experiment.patterns.iter().any(is_later)).collect();
    if experiments.is_empty() {
        return Ok(Vec::new());
    }
    let agents: Vec<(Document, KnownAgent)> = records(database, DocumentKind::Agent)?;
    let pairs =
        experiments.into_iter().flat_map(|experiment| agents.iter().map(move |one| (experiment, one)));
    let found = pairs.filter_map(|(experiment, (_, known))| {
        let unknown = experiment.unknown_patterns(known.check_in.patterns.as_deref());
        (is_meant_for(experiment, known) && !unknown.is_empty()).then(|| LeftOutAgent {
            experiment: experiment.name.clone(),
            agent: known.check_in.name.clone(),
            version: known.check_in.version.clone(),
            reason: format!("its version does not know {}: update the agent", unknown.join(" and ")),
        })
    });
    Ok(found.take(MOST_LEFT_OUT).collect())
}
