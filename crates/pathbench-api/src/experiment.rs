//! Experiments: what agents run, against which servers, and when.

use crate::bounds::ITEMS;
use crate::name::Name;
use pathbench_record::transport::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An experiment, made by the collector's operator.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub name: Name,
    /// One line for the people whose hosts run it.
    #[serde(default)]
    pub description: String,
    pub kind: ExperimentKind,
    /// Names of test servers; each execution tests the nearest. Empty: the nearest of all servers.
    #[serde(default)]
    pub servers: Vec<Name>,
    /// Names of the agents that run it; empty: all.
    #[serde(default)]
    pub agents: BTreeSet<Name>,
    pub schedule: Schedule,
    /// Transports; empty: all that work.
    #[serde(default)]
    pub transports: Vec<Transport>,
    /// Patterns of `pathbench test`; empty: its default ones. Only agents that know all of them get the experiment.
    #[serde(default)]
    pub patterns: Vec<Pattern>,
    /// Repetitions of each pattern on each transport.
    #[serde(default = "one")]
    pub repeat: u32,
    /// How long throughput and interactive send, in seconds; with `roam` how long it lasts.
    #[serde(default = "seven")]
    pub duration_s: u32,
    /// Size of the bulk download.
    #[serde(default = "ten_megabytes")]
    pub bulk_bytes: u64,
    /// IP versions, one test each; empty: the host's choice. With both, their flow completion times are compared.
    #[serde(default)]
    pub families: Vec<Family>,
    /// The most bytes that one execution transfers in both directions; an agent whose budget has less left skips it.
    pub most_bytes: u64,
    /// Whether agents also run it on metered or roaming networks, where their owner has allowed that.
    #[serde(default)]
    pub metered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum ExperimentKind {
    /// `pathbench test`
    Test,
    /// `pathbench roam`
    Roam,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    Ping,
    Bulk,
    ThroughputUpload,
    ThroughputDownload,
    Interactive,
    Responsiveness,
    Datagrams,
}

impl Pattern {
    pub const ALL: [Self; 7] = [
        Self::Ping,
        Self::Bulk,
        Self::ThroughputUpload,
        Self::ThroughputDownload,
        Self::Interactive,
        Self::Responsiveness,
        Self::Datagrams,
    ];

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether agents whose check-in lists no patterns know this one.
    pub const fn is_known_to_all(self) -> bool {
        !matches!(self, Self::Responsiveness | Self::Datagrams)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    Ipv4,
    Ipv6,
}

/// Every `every_s` seconds, each time up to `jitter_s` seconds later at random, so that agents do not start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub every_s: u32,
    #[serde(default)]
    pub jitter_s: u32,
}

/// The shortest interval of an experiment.
pub const SHORTEST_INTERVAL_S: u32 = 10;
const LONGEST_INTERVAL_S: u32 = 31 * 86_400;

const fn one() -> u32 {
    1
}

const fn seven() -> u32 {
    7
}

const fn ten_megabytes() -> u64 {
    10_000_000
}

impl Experiment {
    /// The patterns that an agent with this list of a check-in does not know; it would reject the answer as a whole.
    pub fn unknown_patterns(&self, listed: Option<&[Name]>) -> Vec<&'static str> {
        let is_known = |pattern: Pattern| match listed {
            None => pattern.is_known_to_all(),
            Some(names) => names.iter().any(|name| name.as_str() == pattern.name()),
        };
        let mut unknown: Vec<&'static str> = self
            .patterns
            .iter()
            .filter(|pattern| !is_known(**pattern))
            .map(|pattern| pattern.name())
            .collect();
        unknown.dedup();
        unknown
    }

    /// The first violation of a bound, with its remedy.
    pub fn problem(&self) -> Option<String> {
        let Schedule { every_s, jitter_s } = self.schedule;
        let problem = match () {
            () if self.description.len() > 512 => "`description` has more than 512 bytes",
            () if self.servers.len() > ITEMS || self.agents.len() > 10_000 => {
                "`servers` has more than 64 entries or `agents` more than 10,000"
            }
            () if !(SHORTEST_INTERVAL_S..=LONGEST_INTERVAL_S).contains(&every_s) => {
                "`schedule.every_s` is not between 10 and 2678400"
            }
            () if jitter_s > every_s => "`schedule.jitter_s` is more than `schedule.every_s`",
            () if !(1..=100).contains(&self.repeat) => "`repeat` is not between 1 and 100",
            () if !(1..=86_400).contains(&self.duration_s) => "`duration_s` is not between 1 and 86400",
            () if !(1..=10_000_000_000).contains(&self.bulk_bytes) => {
                "`bulk_bytes` is not between 1 and 10000000000"
            }
            () if self.families.len() > 2
                || self.transports.len() > 4
                || self.patterns.len() > Pattern::ALL.len() =>
            {
                "`families`, `transports` or `patterns` names one twice"
            }
            () if self.most_bytes == 0 => {
                "`most_bytes` is 0: name the most bytes that one execution transfers"
            }
            () => return None,
        };
        Some(problem.to_owned())
    }
}
