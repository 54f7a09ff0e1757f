//! The study that a result belongs to: what decides its set of runs, its shard, and why it ended.

use super::{HostRecord, ResultDocument, RunRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// Reason in `invalid_because` of a warm-up run.
const WARM_UP: &str = "warm-up run: left out by request";

/// Overrides that do not decide the set of runs, or that a field of the study holds. Options are without
/// their dashes.
const UNDECIDING: [&str; 5] = ["run.seed", "run.repeat", "run.warm_up", "repeat", "warm-up"];

/// Default number of retries of a planned run that is not valid.
pub const DEFAULT_RETRIES: u32 = 2;

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct StudyRecord {
    /// Equal for all results of one study: a hash of everything that decides its set of runs.
    pub identity: String,
    /// Runs of the whole study, without warm-up runs; the maximum with `until_ci_percent`.
    pub planned_runs: u64,
    /// Repetitions of the whole study; the maximum with `until_ci_percent`.
    pub repetitions: u32,
    /// Warm-up repetitions before the others; each shard makes all of them.
    #[serde(default)]
    pub warm_up: u32,
    /// The labels of all transports, sorted.
    pub labels: Vec<String>,
    /// The part of the study in this result; absent for a whole study.
    pub shard: Option<Shard>,
    /// Why the study ended; absent while it is unfinished.
    pub stopped: Option<StopReason>,
    /// The precision at which the study was to end.
    pub until_ci_percent: Option<f64>,
    /// The time after which no further run was to begin, of the last session.
    pub time_limit_ms: Option<f64>,
    /// The maximum number of parallel runs, of the last session; absent if it is one.
    pub jobs: Option<u32>,
    /// Retries of a planned run that is not valid (`--retry-invalid`), of the last session; absent in older results.
    pub retry_invalid: Option<u32>,
    /// Whether the last session did not measure the links before each run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncalibrated: bool,
    /// Start times of the commands that made the runs, RFC 3339, UTC: the first, and one per resumption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    /// The shards that were joined to this result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedShard>,
}

/// One of several equal parts of a study. It has whole repetitions: repetition `r` belongs to shard
/// `(r − 1) mod of + 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shard {
    /// From 1.
    pub number: u32,
    /// Number of shards.
    pub of: u32,
}

impl Shard {
    /// Whether the repetition (from 1) belongs to this shard.
    pub const fn has(self, repetition: u32) -> bool {
        self.of != 0 && repetition != 0 && (repetition - 1) % self.of + 1 == self.number
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.trim().parse().ok()?, of: of.trim().parse().ok()? })
        });
        parsed
            .filter(|shard| (1..=shard.of).contains(&shard.number))
            .ok_or_else(|| "write it as K/N with K from 1 to N, e.g. 2/8".to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// Every planned run was made.
    Completed,
    /// The intervals were narrow enough.
    Precision,
    /// The next run would probably not have ended within the time limit.
    TimeLimit,
    /// The user stopped it.
    User,
    /// The network or the server made further runs impossible (`pathbench test`).
    Server,
}

impl StopReason {
    /// Whether a resumed study has further runs to make.
    pub const fn is_resumable(self) -> bool {
        !matches!(self, Self::Completed | Self::Precision)
    }
}

/// A shard in a joined result.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedShard {
    /// Its number.
    pub number: u32,
    /// The machine of its first session.
    pub host: HostRecord,
    /// Runs of this shard in the joined result, warm-up runs included.
    pub runs: u32,
    /// Why it ended; absent if it is unfinished.
    pub stopped: Option<StopReason>,
    /// Start times of its commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
}

impl RunRecord {
    /// Marks a warm-up run, which no statistic uses.
    pub fn leave_out_as_warm_up(&mut self) {
        self.warm_up = true;
        self.valid = false;
        self.invalid_because.push(WARM_UP.to_owned());
    }
}

impl ResultDocument {
    /// Sets the identity of the study.
    pub fn identify_study(&mut self) {
        let identity = study_identity(self);
        if let Some(study) = &mut self.study {
            study.identity = identity;
        }
    }
}

/// The parts of a study's identity, by their name in messages.
pub fn identity_parts(document: &ResultDocument) -> Vec<(&'static str, Value)> {
    let study = document.study.clone().unwrap_or_default();
    let scenario = &document.scenario;
    let decides = |(key, _): &(&String, &Value)| !UNDECIDING.contains(&key.trim_start_matches("--"));
    let overrides: Map<String, Value> =
        scenario.overrides.iter().filter(decides).map(|(key, value)| (key.clone(), value.clone())).collect();
    let tested = document.servers.iter().filter(|server| server.chosen);
    let servers: Vec<&str> = tested.map(|server| server.address.as_str()).collect();
    vec![
        ("schema", document.schema.clone().into()),
        ("version of Pathbench", document.host.pathbench.clone().into()),
        ("name of the scenario", scenario.name.clone().into()),
        ("text of the scenario", scenario.text.clone().into()),
        ("overrides", Value::Object(overrides)),
        ("servers", servers.into()),
        ("transports", study.labels.into()),
        ("seed", document.seed.into()),
        ("number of repetitions", study.repetitions.into()),
        ("number of warm-up repetitions", study.warm_up.into()),
        ("number of runs", study.planned_runs.into()),
    ]
}

/// The identity of the study of `document`: 128-bit FNV-1a over [`identity_parts`]. It tells studies apart and is no
/// protection against forgery; comparisons use [`identity_differences`].
pub fn study_identity(document: &ResultDocument) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let parts = Value::from_iter(identity_parts(document));
    let hash =
        parts.to_string().bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

/// Names the parts in which two results belong to different studies, with short values; empty for one study.
pub fn identity_differences(earlier: &ResultDocument, now: &ResultDocument) -> Vec<String> {
    const LONGEST: usize = 60;
    let shown = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_short = text.len() <= LONGEST && !text.contains(char::is_control);
        is_short.then_some(text)
    };
    let pairs = identity_parts(earlier).into_iter().zip(identity_parts(now));
    pairs
        .filter(|((_, earlier), (_, now))| earlier != now)
        .map(|((name, earlier), (_, now))| match (shown(&earlier), shown(&now)) {
            (Some(earlier), Some(now)) => format!("the {name}: {earlier}, not {now}"),
            _ => format!("the {name}"),
        })
        .collect()
}
