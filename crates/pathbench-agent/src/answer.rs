//! The answer to a check-in, which is the collector's claim: what the agent takes of it.

use pathbench_api::check_in::{CheckInAnswer, MOST_SERVERS};
use pathbench_api::name::Name;
use std::time::Duration;

/// Bounds of the time between two check-ins, which the collector names.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(3600);

/// Takes what is too much or for other agents than `agent` out of an answer; returns the time until the next check-in.
pub fn accept(answer: &mut CheckInAnswer, agent: &Name) -> Duration {
    answer.servers.truncate(MOST_SERVERS);
    answer.experiments.retain(|one| one.agents.is_empty() || one.agents.contains(agent));
    Duration::from_secs(answer.next_s.into()).clamp(SHORTEST, LONGEST)
}
